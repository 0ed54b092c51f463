//! Values that were used last, of bounded weight.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::rc::Rc;

/// The values that were used last. One is kept whatever it weighs.
#[derive(Debug)]
pub struct Cache<K, V> {
    values: HashMap<K, Kept<V>>,
    /// From the one that was not used for the longest time on.
    order: BTreeMap<u64, K>,
    uses: u64,
    weight: usize,
    weight_max: usize,
}

#[derive(Debug)]
struct Kept<V> {
    value: Rc<V>,
    weight: usize,
    used: u64,
}

impl<K: Clone + Eq + Hash, V> Cache<K, V> {
    pub fn new(weight_max: usize) -> Self {
        Self { values: HashMap::new(), order: BTreeMap::new(), uses: 0, weight: 0, weight_max }
    }

    pub fn get(&mut self, key: &K) -> Option<Rc<V>> {
        let kept = self.values.get_mut(key)?;
        self.order.remove(&kept.used);
        self.uses += 1;
        kept.used = self.uses;
        self.order.insert(self.uses, key.clone());
        Some(Rc::clone(&kept.value))
    }

    /// Keeps a value, in place of an earlier one with that key.
    pub fn keep(&mut self, key: K, value: V, weight: usize) -> Rc<V> {
        self.remove(&key);
        while self.weight + weight > self.weight_max
            && let Some((_, oldest)) = self.order.pop_first()
            && let Some(gone) = self.values.remove(&oldest)
        {
            self.weight -= gone.weight;
        }
        self.uses += 1;
        self.weight += weight;
        let value = Rc::new(value);
        self.values.insert(key.clone(), Kept { value: Rc::clone(&value), weight, used: self.uses });
        self.order.insert(self.uses, key);
        value
    }

    /// Drops the value with that key.
    pub fn remove(&mut self, key: &K) {
        if let Some(gone) = self.values.remove(key) {
            self.order.remove(&gone.used);
            self.weight -= gone.weight;
        }
    }

    /// Drops all values.
    pub fn clear(&mut self) {
        *self = Self::new(self.weight_max);
    }
}
