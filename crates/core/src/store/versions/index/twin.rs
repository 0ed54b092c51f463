//! Two trees with the same entries, for what nothing else on the disk says: which epochs are kept, and which blocks were
//! forgotten in them. Damage to either tree loses nothing: [`crate::store::versions::opening::rebuilding`] takes the entries from the other.

use crate::tree::{Absent, Head, PageError, PageNo, Pages, Part, Tree};
use roaring::RoaringBitmap;

/// See the module's documentation.
///
/// Each method changes nothing if it returns [`Absent`].
#[derive(Debug)]
pub(in super::super) struct Twin<const K: usize, const V: usize> {
    pub(in super::super) trees: [Tree<K, V>; 2],
    /// The tree that is read.
    read: usize,
    /// Whether the other tree is damaged, and stays as it is.
    is_alone: bool,
}

impl<const K: usize, const V: usize> Twin<K, V> {
    /// The trees with these numbers, as `head` names them.
    pub(in super::super) fn new(head: &Head, numbers: [usize; 2]) -> Self {
        let root = |tree: usize| head.roots.get(tree).copied().unwrap_or_default();
        let trees = numbers.map(|tree| Tree::new(tree as u8, root(tree)));
        Self { trees, read: 0, is_alone: false }
    }

    /// Uses the first tree alone of which no page is damaged. The damage, if there is none.
    pub(in super::super) fn use_whole<E>(
        &mut self,
        pages: &mut Pages,
        most: usize,
        mut read: impl FnMut(PageNo) -> Result<Vec<u8>, E>,
    ) -> Result<Option<PageError>, E> {
        let mut damage = None;
        for (n, tree) in self.trees.iter().enumerate() {
            damage = None;
            tree.walk(pages, most, &mut read, |part| {
                if let Part::Lost(found, ..) = part {
                    damage = Some(found);
                }
            })?;
            if damage.is_none() {
                (self.read, self.is_alone) = (n, true);
                break;
            }
        }
        Ok(damage)
    }

    /// The tree that is read.
    pub(in super::super) fn tree(&self) -> &Tree<K, V> {
        &self.trees[self.read]
    }

    /// Adds all pages of both to `used`.
    pub(in super::super) fn reach(&self, pages: &Pages, used: &mut RoaringBitmap) -> Result<(), Absent> {
        if self.is_alone {
            return self.tree().reach(pages, used);
        }
        self.trees.iter().try_for_each(|tree| tree.reach(pages, used))
    }

    /// As [`Tree::insert`], in both.
    pub(in super::super) fn insert(
        &mut self,
        pages: &mut Pages,
        key: &[u8; K],
        value: &[u8; V],
    ) -> Result<(), Absent> {
        if self.is_alone {
            return self.trees[self.read].insert(pages, key, value).map(drop);
        }
        let [one, other] = &mut self.trees;
        other.get(pages, key)?;
        one.insert(pages, key, value)?;
        other.insert(pages, key, value).map(drop)
    }

    /// As [`Tree::remove`], in both.
    pub(in super::super) fn remove(&mut self, pages: &mut Pages, key: &[u8; K]) -> Result<(), Absent> {
        if self.is_alone {
            return self.trees[self.read].remove(pages, key).map(drop);
        }
        let [one, other] = &mut self.trees;
        other.get(pages, key)?;
        one.remove(pages, key)?;
        other.remove(pages, key).map(drop)
    }
}
