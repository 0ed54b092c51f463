//! Seeds of derived leaves that were asked for last, so that the cell of a block is one derivation and not one for each level.
//!
//! A purge makes another tree, so it wipes all seeds.

use crate::base::cell::{CELL_BYTES, Cell};
use crate::base::memory;
use crate::base::memory::wipe;
use std::cell::RefCell;
use std::fmt;

/// The most seeds that are kept: enough for the leaves of 28 GiB.
const SEEDS_MAX: u64 = 1 << 16;
/// The place has no seed.
const EMPTY: u64 = u64::MAX;

/// See the module's documentation. Each leaf has one place, which it shares with others.
pub(super) struct Seeds(RefCell<Places>);

struct Places {
    /// The index of the leaf whose seed is there.
    leaves: Box<[u64]>,
    seeds: Box<[[u8; CELL_BYTES]]>,
}

impl Seeds {
    /// No seeds yet, for a tree with `leaves` leaves.
    pub(super) fn new(leaves: u64) -> Self {
        let count = leaves.clamp(1, SEEDS_MAX) as usize;
        let places = Places { leaves: vec![EMPTY; count].into(), seeds: vec![[0; CELL_BYTES]; count].into() };
        memory::keep(&*places.seeds);
        Self(RefCell::new(places))
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> u64 {
        (self.0.borrow().leaves.len() * (size_of::<u64>() + CELL_BYTES)) as u64
    }

    /// The seed of the leaf of this index, which `derive` tells if it is not here.
    pub(super) fn of(&self, leaf: u64, derive: impl FnOnce() -> Cell) -> Cell {
        let places = &mut *self.0.borrow_mut();
        let at = (leaf % places.leaves.len() as u64) as usize;
        if places.leaves[at] == leaf {
            return Cell::from_bytes(&places.seeds[at]).expect("a seed has the length of a cell");
        }
        let seed = derive();
        places.seeds[at] = *seed.bytes();
        places.leaves[at] = leaf;
        seed
    }

    /// Wipes all seeds.
    pub(super) fn clear(&mut self) {
        let places = self.0.get_mut();
        places.leaves.fill(EMPTY);
        wipe(places.seeds.as_flattened_mut());
    }
}

impl Drop for Seeds {
    fn drop(&mut self) {
        self.clear();
    }
}

impl fmt::Debug for Seeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Seeds")
    }
}

#[cfg(test)]
mod tests {
    use crate::store::sealed::seeds::*;

    fn seed(byte: u8) -> Cell {
        Cell::from_bytes(&[byte; CELL_BYTES]).expect("a cell")
    }

    #[test]
    fn a_seed_is_derived_once_until_another_one_takes_its_place() {
        let seeds = Seeds::new(4);
        let known = |leaf| seeds.of(leaf, || panic!("the seed of leaf {leaf} is here"));
        for leaf in [0, 3, 5] {
            assert_eq!(seeds.of(leaf, || seed(leaf as u8)), seed(leaf as u8));
        }
        assert_eq!([0, 3, 5].map(known), [0, 3, 5].map(seed));
        assert_eq!(seeds.of(1, || seed(1)), seed(1));
        assert_eq!((known(1), known(3)), (seed(1), seed(3)));
        assert_eq!(seeds.of(5, || seed(9)), seed(9), "leaf 1 took its place");
    }

    #[test]
    fn nothing_is_left_of_seeds_that_were_wiped() {
        let mut seeds = Seeds::new(2);
        seeds.of(1, || seed(7));
        seeds.clear();
        assert!(seeds.0.borrow().seeds.iter().all(|place| *place == [0; CELL_BYTES]));
        assert_eq!(seeds.of(1, || seed(8)), seed(8));
    }
}
