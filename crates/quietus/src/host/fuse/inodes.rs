//! The entries that the kernel knows, by number. It says which it has forgotten.

use std::collections::HashMap;
use std::hash::Hash;

/// The folder that is mounted.
pub const ROOT: u64 = 1;

/// The entries that the kernel knows, each with the `K` that tells it from the others. The root is always there.
#[derive(Debug)]
pub struct Inodes<K, V> {
    known: HashMap<u64, Inode<K, V>>,
    numbers: HashMap<K, u64>,
    next: u64,
}

/// An entry that the kernel knows.
#[derive(Debug)]
struct Inode<K, V> {
    key: K,
    value: V,
    /// How often the kernel has been given the number, and not forgotten it again.
    lookups: u64,
}

impl<K: Clone + Eq + Hash, V> Inodes<K, V> {
    pub fn new(root: K, value: V) -> Self {
        let root = Inode { key: root, value, lookups: 1 };
        Self { known: [(ROOT, root)].into(), numbers: HashMap::new(), next: ROOT + 1 }
    }

    /// The entry of that number.
    pub fn get(&self, number: u64) -> Option<(&K, &V)> {
        self.known.get(&number).map(|it| (&it.key, &it.value))
    }

    /// The number of the entry `key`, which the kernel then has once more. `value` makes its value, from that number, if the entry was unknown.
    pub fn look_up(&mut self, key: K, value: impl FnOnce(u64) -> V) -> u64 {
        let number = *self.numbers.entry(key.clone()).or_insert(self.next);
        self.next += u64::from(number == self.next);
        let fresh = || Inode { key, value: value(number), lookups: 0 };
        self.known.entry(number).or_insert_with(fresh).lookups += 1;
        number
    }

    /// The kernel has forgotten this number of lookups of an entry.
    pub fn forget(&mut self, number: u64, times: u64) {
        let Some(inode) = self.known.get_mut(&number).filter(|_| number != ROOT) else { return };
        inode.lookups = inode.lookups.saturating_sub(times);
        if inode.lookups == 0
            && let Some(gone) = self.known.remove(&number)
        {
            self.numbers.remove(&gone.key);
        }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> (usize, usize) {
        (self.known.len(), self.numbers.len())
    }
}
