//! Many searches of one tree: what lies on the page where the last key was found needs no way down from the root.

use super::node::Shape;
use super::{Absent, Entry, Node, Pages, Tree};

/// Most entries to look at behind the last one before the whole leaf is searched.
const LOOKS_MAX: usize = 4;

/// Searches of a tree, which are cheap for keys near the last one.
#[derive(Debug)]
pub struct Searches<'a, const K: usize, const V: usize> {
    tree: &'a Tree<K, V>,
    pages: &'a Pages,
    /// The leaf of the last search, and the entry that was found there.
    last: Option<(&'a Node, usize)>,
}

impl<const K: usize, const V: usize> Tree<K, V> {
    /// Many searches.
    pub fn searches<'a>(&'a self, pages: &'a Pages) -> Searches<'a, K, V> {
        Searches { tree: self, pages, last: None }
    }
}

impl<'a, const K: usize, const V: usize> Searches<'a, K, V> {
    const SHAPE: Shape = Tree::<K, V>::LEAF;

    /// As [`Tree::at_or_before`].
    ///
    /// # Errors
    /// [`Absent`].
    pub fn at_or_before(&mut self, key: &[u8; K]) -> Result<Option<Entry<K, V>>, Absent> {
        let near = self.last.and_then(|last| Self::near(last, key));
        if let Some((leaf, n)) = near {
            self.last = near;
            return Ok(Some(Tree::entry_of(leaf, n)));
        }
        let Some(leaf) = self.tree.leaf(self.pages, key)? else { return Ok(None) };
        let n = match leaf.search(Self::SHAPE, key) {
            Err(0) => return self.tree.before_leaf(self.pages, key),
            Ok(n) => n,
            Err(n) => n - 1,
        };
        self.last = Some((leaf, n));
        Ok(Some(Tree::entry_of(leaf, n)))
    }

    /// The entry behind that with `key`, or the one before it. The last search found that one.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn beside(&self, key: &[u8; K], behind: bool) -> Result<Option<Entry<K, V>>, Absent> {
        let here = self.last.and_then(|(leaf, n)| {
            let beside = if behind { Some(n + 1).filter(|n| *n < leaf.count()) } else { n.checked_sub(1) };
            beside.map(|n| Tree::entry_of(leaf, n))
        });
        if here.is_some() {
            return Ok(here);
        }
        let Some(mut path) = self.tree.path(self.pages, key)? else { return Ok(None) };
        self.tree.step(self.pages, &mut path, behind)
    }

    /// Where the same leaf has the last entry whose key is not greater than `key`, if an entry behind that shows
    /// that it is the last one. Looks behind the last entry first.
    fn near((leaf, n): (&'a Node, usize), key: &[u8; K]) -> Option<(&'a Node, usize)> {
        let is_behind = |n: usize| leaf.key(Self::SHAPE, n) > &key[..];
        let last = leaf.count() - 1;
        if !is_behind(n)
            && let Some(next) = (n + 1..=last.min(n + LOOKS_MAX)).find(|n| is_behind(*n))
        {
            return Some((leaf, next - 1));
        }
        let is_here = !is_behind(0) && is_behind(last);
        is_here.then(|| (leaf, leaf.search(Self::SHAPE, key).unwrap_or_else(|n| n - 1)))
    }
}
