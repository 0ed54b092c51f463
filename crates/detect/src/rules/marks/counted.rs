//! Numbers, each with how often it was added.

use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;

/// Blocks, or inodes, that marked files name, with the number of names.
#[derive(Clone, PartialEq, Debug, Default)]
pub(super) struct Counted {
    /// Members: added at least once.
    pub(super) all: RoaringBitmap,
    /// Number of names beyond the first.
    pub(super) again: BTreeMap<u32, u32>,
}

impl Counted {
    pub(super) fn add_all(&mut self, members: Range<u32>) {
        if self.all.range_cardinality(members.clone()) == 0 {
            self.all.insert_range(members);
        } else {
            members.for_each(|member| {
                self.add(member);
            });
        }
    }

    /// Adds one name. Returns whether it is the first.
    pub(super) fn add(&mut self, member: u32) -> bool {
        let is_first = self.all.insert(member);
        if !is_first {
            let again = self.again.entry(member).or_default();
            *again = again.saturating_add(1);
        }
        is_first
    }

    /// Takes one name from each of `members`.
    pub(super) fn remove_all(&mut self, members: Range<u32>) {
        if self.again.range(members.clone()).next().is_none() {
            self.all.remove_range(members);
        } else {
            members.for_each(|member| {
                self.remove(member);
            });
        }
    }

    /// Takes one name. Returns whether it was the last.
    pub(super) fn remove(&mut self, member: u32) -> bool {
        let Entry::Occupied(mut again) = self.again.entry(member) else { return self.all.remove(member) };
        *again.get_mut() -= 1;
        if *again.get() == 0 {
            again.remove();
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::marks::counted::*;

    #[test]
    fn a_member_stays_until_each_of_its_names_is_taken() {
        let mut counted = Counted::default();
        counted.add_all(10..20);
        counted.add_all(15..25);
        assert!(!counted.add(15) && counted.add(30));
        counted.remove_all(10..20);
        assert_eq!(counted.all.iter().collect::<Vec<_>>(), (15..25).chain([30]).collect::<Vec<_>>());
        assert!(!counted.remove(15) && counted.remove(15) && !counted.remove(15));
        counted.remove_all(16..25);
        assert!(counted.remove(30));
        assert_eq!(counted, Counted::default());
    }
}
