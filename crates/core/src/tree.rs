//! Ordered tables on a medium: copy-on-write B+ trees whose changes become durable together, with one head.
//!
//! A [`Tree`] maps keys of `K` bytes, in the order of their bytes, to values of `V` bytes. Several trees share
//! the [`Pages`] of one index. Nothing here reads or writes: a page that is needed and not in memory is
//! [`Absent`], and the caller loads it and asks again. Changed pages go to free places of the medium; once
//! these writes are durable, a [`Head`] with the roots of all trees makes them the index, at one instant.
//!
//! A tree with 200 entries a leaf has its inner pages in memory always (half a percent), and of its leaves
//! as many as the caller keeps.

mod head;
mod node;
mod pages;
mod search;
#[cfg(test)]
mod tests;
mod walk;

pub use head::{HEAD_BYTES, Head, HeadError, head_fault, is_head_lost, mended_head, newest};
pub use node::{PAGE_BYTES, PageError};
pub use pages::{HEADS, Pages};
pub use search::Searches;

use node::{CHILD_BYTES, Node, Shape};
use roaring::RoaringBitmap;

/// The number of a page: its place in the index, in pages.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct PageNo(pub u32);

impl PageNo {
    /// Where the page lies on the medium, in bytes.
    #[must_use]
    pub fn position(self) -> u64 {
        u64::from(self.0) * PAGE_BYTES as u64
    }
}

/// This page is needed, and is not in memory: [load](Pages::loaded) it, then ask again. Nothing has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Absent(pub PageNo);

/// The root of a tree, and how many entries the tree has.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Root {
    /// The page; `None` if the tree is empty.
    pub page: Option<PageNo>,
    /// How many entries the tree has.
    pub len: u64,
}

/// A table of values of `V` bytes by keys of `K` bytes.
#[derive(Clone, Debug)]
pub struct Tree<const K: usize, const V: usize> {
    /// The number of the tree in its index.
    id: u8,
    root: Root,
}

/// An entry: its key and its value.
pub type Entry<const K: usize, const V: usize> = ([u8; K], [u8; V]);

/// A part of a tree, as [`Tree::walk`] finds it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Part<const K: usize, const V: usize> {
    /// The entries of a leaf.
    Entries(Vec<Entry<K, V>>),
    /// A page is damaged, and with it all entries from the first key on, up to the second, are lost.
    Lost(PageError, [u8; K], Option<[u8; K]>),
}

/// The way from the root to a leaf: each page, and the index of the entry that was taken there.
type Path = Vec<(PageNo, usize)>;

impl<const K: usize, const V: usize> Tree<K, V> {
    const LEAF: Shape = Shape { key: K, width: K + V };
    const INNER: Shape = Shape { key: K, width: K + CHILD_BYTES };
    /// A leaf with fewer entries is joined with a neighbour, where both fit into one page.
    const FEW: usize = Self::LEAF.capacity() / 4;

    /// The tree number `id` of an index, with this root.
    #[must_use]
    pub fn new(id: u8, root: Root) -> Self {
        Self { id, root }
    }

    /// The root, for the next head.
    #[must_use]
    pub fn root(&self) -> Root {
        self.root
    }

    /// How many entries the tree has.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.root.len
    }

    /// Whether the tree has no entry.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.root.len == 0
    }

    fn shape(node: &Node) -> Shape {
        if node.level() == 0 { Self::LEAF } else { Self::INNER }
    }

    /// Adds all pages of the tree to `used`; inner pages have to be in memory.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn reach(&self, pages: &Pages, used: &mut RoaringBitmap) -> Result<(), Absent> {
        let mut todo: Vec<PageNo> = self.root.page.into_iter().collect();
        while let Some(page) = todo.pop() {
            used.insert(page.0);
            let node = pages.get(page)?;
            for n in (0..node.count()).filter(|_| node.level() > 0) {
                let child = node.child(Self::INNER, n);
                used.insert(child.0);
                if node.level() > 1 {
                    todo.push(child);
                }
            }
        }
        Ok(())
    }

    /// The value of `key`.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn get(&self, pages: &Pages, key: &[u8; K]) -> Result<Option<[u8; V]>, Absent> {
        let found = self.at_or_before(pages, key)?;
        Ok(found.filter(|(it, _)| it == key).map(|(_, value)| value))
    }

    /// The last entry whose key is not greater than `key`.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn at_or_before(&self, pages: &Pages, key: &[u8; K]) -> Result<Option<Entry<K, V>>, Absent> {
        self.searches(pages).at_or_before(key)
    }

    /// The last entry before the leaf where `key` would be.
    fn before_leaf(&self, pages: &Pages, key: &[u8; K]) -> Result<Option<Entry<K, V>>, Absent> {
        let Some(mut path) = self.path(pages, key)? else { return Ok(None) };
        self.step(pages, &mut path, false)
    }

    /// The first entry whose key is not less than `key`.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn at_or_after(&self, pages: &Pages, key: &[u8; K]) -> Result<Option<Entry<K, V>>, Absent> {
        let Some(leaf) = self.leaf(pages, key)? else { return Ok(None) };
        match leaf.search(Self::LEAF, key) {
            Err(n) if n == leaf.count() => {
                let Some(mut path) = self.path(pages, key)? else { return Ok(None) };
                self.step(pages, &mut path, true)
            }
            Ok(n) | Err(n) => Ok(Some(Self::entry_of(leaf, n))),
        }
    }

    /// The last entries from `from` up to `to` that one leaf has, `most` at most: the last one first.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn last_in_leaf(
        &self,
        pages: &Pages,
        (from, to): (&[u8; K], &[u8; K]),
        most: usize,
    ) -> Result<Vec<Entry<K, V>>, Absent> {
        let Some((last, _)) = self.at_or_before(pages, to)? else { return Ok(Vec::new()) };
        let Some(leaf) = self.leaf(pages, &last)? else { return Ok(Vec::new()) };
        let place = |key| leaf.search(Self::LEAF, key);
        let end = place(&last).map_or_else(|n| n, |n| n + 1);
        let first = place(from).unwrap_or_else(|n| n).max(end.saturating_sub(most));
        Ok((first..end).rev().map(|n| Self::entry_of(leaf, n)).collect())
    }

    /// The entries from `from` on, below `end`, in the leaf of the first; and the next key below `end` behind that leaf.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn in_leaf(
        &self,
        pages: &Pages,
        from: &[u8; K],
        end: &[u8; K],
    ) -> Result<(Vec<Entry<K, V>>, Option<[u8; K]>), Absent> {
        let Some(mut path) = self.path(pages, from)? else { return Ok((Vec::new(), None)) };
        let node = pages.get(path[path.len() - 1].0)?;
        let place = |key| node.search(Self::LEAF, key).unwrap_or_else(|n| n);
        let (first, last) = (place(from), place(end));
        let next = if last == node.count() { self.step(pages, &mut path, true)? } else { None };
        let found = (first..last).map(|n| Self::entry_of(node, n)).collect();
        Ok((found, next.map(|(key, _)| key).filter(|key| key < end)))
    }

    /// The leaf where `key` is, or would be; `None` if the tree is empty.
    fn leaf<'a>(&self, pages: &'a Pages, key: &[u8; K]) -> Result<Option<&'a Node>, Absent> {
        crate::base::steps::step();
        let Some(page) = self.root.page else { return Ok(None) };
        let mut node = pages.get(page)?;
        while node.level() > 0 {
            node = pages.get(node.child(Self::INNER, node.child_of(Self::INNER, key)))?;
        }
        Ok(Some(node))
    }

    fn entry_of(leaf: &Node, n: usize) -> Entry<K, V> {
        let (key, value) = leaf.entry(Self::LEAF, n).split_at(K);
        let both = (key.try_into(), value.try_into());
        let (Ok(key), Ok(value)) = both else { unreachable!("an entry has a key and a value") };
        (key, value)
    }

    /// The way to the leaf where `key` is, or would be; `None` if the tree is empty.
    fn path(&self, pages: &Pages, key: &[u8; K]) -> Result<Option<Path>, Absent> {
        crate::base::steps::step();
        let Some(mut page) = self.root.page else { return Ok(None) };
        let mut path = Vec::new();
        loop {
            let node = pages.get(page)?;
            if node.level() == 0 {
                path.push((page, 0));
                return Ok(Some(path));
            }
            let n = node.child_of(Self::INNER, key);
            path.push((page, n));
            page = node.child(Self::INNER, n);
        }
    }

    /// The entry next to the leaf at the end of `path`: the first behind it, or the last before it.
    fn step(&self, pages: &Pages, path: &mut Path, forward: bool) -> Result<Option<Entry<K, V>>, Absent> {
        path.pop();
        while let Some((page, n)) = path.pop() {
            let node = pages.get(page)?;
            let next = if forward { Some(n + 1).filter(|n| *n < node.count()) } else { n.checked_sub(1) };
            if let Some(next) = next {
                return Self::outermost(pages, node.child(Self::INNER, next), forward).map(Some);
            }
        }
        Ok(None)
    }

    /// The first entry below `page`, or the last one.
    fn outermost(pages: &Pages, mut page: PageNo, first: bool) -> Result<Entry<K, V>, Absent> {
        loop {
            let node = pages.get(page)?;
            let n = if first { 0 } else { node.count() - 1 };
            if node.level() == 0 {
                return Ok(Self::entry_of(node, n));
            }
            page = node.child(Self::INNER, n);
        }
    }

    /// Gives `key` this value; returns the value that it had. The page where [`Tree::get`] looks for the key
    /// is all that this needs.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn insert(
        &mut self,
        pages: &mut Pages,
        key: &[u8; K],
        value: &[u8; V],
    ) -> Result<Option<[u8; V]>, Absent> {
        let Some(mut path) = self.path(pages, key)? else {
            let mut leaf = Node::new(self.id, 0);
            leaf.insert(Self::LEAF, 0, key, value);
            self.root = Root { page: Some(pages.add(leaf)), len: 1 };
            return Ok(None);
        };
        self.own(pages, &mut path);
        let leaf = pages.get_mut(path[path.len() - 1].0);
        match leaf.search(Self::LEAF, key) {
            Ok(n) => {
                let old = leaf.entry(Self::LEAF, n)[K..].try_into().ok();
                leaf.set_value(Self::LEAF, n, value);
                Ok(old)
            }
            Err(n) => {
                self.root.len += 1;
                self.put(pages, path, n, key, value);
                Ok(None)
            }
        }
    }

    /// Makes all pages of `path` changeable.
    fn own(&mut self, pages: &mut Pages, path: &mut Path) {
        let mut parent: Option<(PageNo, usize)> = None;
        for (page, n) in path {
            let own = pages.own(*page);
            if own != *page {
                match parent {
                    None => self.root.page = Some(own),
                    Some((parent, n)) => {
                        pages.get_mut(parent).set_value(Self::INNER, n, &own.0.to_le_bytes());
                    }
                }
            }
            *page = own;
            parent = Some((own, *n));
        }
    }

    /// Inserts an entry at index `n` of the page at the end of `path`, which is split if it is full.
    fn put(&mut self, pages: &mut Pages, mut path: Path, n: usize, key: &[u8], value: &[u8]) {
        let Some((page, _)) = path.pop() else { unreachable!("a page is at the end of its path") };
        let node = pages.get_mut(page);
        let shape = Self::shape(node);
        if node.count() < shape.capacity() {
            return node.insert(shape, n, key, value);
        }
        // Ascending entries fill their pages.
        let middle = if n == node.count() { n } else { node.count() / 2 };
        let mut right = node.split_off(shape, middle);
        if n < middle || middle == 0 {
            node.insert(shape, n, key, value);
        } else {
            right.insert(shape, n - middle, key, value);
        }
        assert!(node.count() > 0 && right.count() > 0, "no page of a tree is empty");
        let (level, first) = (right.level(), right.key(shape, 0).to_vec());
        let right = pages.add(right).0.to_le_bytes();
        match path.last() {
            Some((_, at)) => {
                let at = at + 1;
                self.put(pages, path, at, &first, &right);
            }
            None => {
                assert_eq!(self.root.page, Some(page), "only the root has no parent");
                let mut root = Node::new(self.id, level + 1);
                root.insert(Self::INNER, 0, &[0; K], &page.0.to_le_bytes());
                root.insert(Self::INNER, 1, &first, &right);
                self.root.page = Some(pages.add(root));
            }
        }
    }

    /// Removes `key`; returns the value that it had. The page where [`Tree::get`] finds the key is all that
    /// this needs.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn remove(&mut self, pages: &mut Pages, key: &[u8; K]) -> Result<Option<[u8; V]>, Absent> {
        let Some(path) = self.path(pages, key)? else { return Ok(None) };
        let leaf = pages.get(path[path.len() - 1].0)?;
        let Ok(n) = leaf.search(Self::LEAF, key) else { return Ok(None) };
        let (_, old) = Self::entry_of(leaf, n);
        self.take_out(pages, path, &[n])?;
        Ok(Some(old))
    }

    /// Removes some entries from `first` on, which is one of them, and all of them in one leaf.
    ///
    /// # Errors
    /// [`Absent`].
    pub fn remove_run(&mut self, pages: &mut Pages, first: &[u8; K], some: usize) -> Result<(), Absent> {
        let Some(path) = self.path(pages, first)? else { return Ok(()) };
        let found = pages.get(path[path.len() - 1].0)?.search(Self::LEAF, first);
        found.map_or(Ok(()), |n| self.take_out(pages, path, &Vec::from_iter(n..n + some)))
    }

    /// Removes these keys, which ascend. The pages where [`Tree::get`] finds them are all that this needs.
    ///
    /// # Errors
    /// [`Absent`]; then some are removed.
    pub fn remove_all(&mut self, pages: &mut Pages, keys: &[[u8; K]]) -> Result<(), Absent> {
        assert!(keys.is_sorted_by(|one, next| one < next), "the keys ascend");
        let mut keys = keys;
        while let Some(first) = keys.first() {
            let Some(path) = self.path(pages, first)? else { return Ok(()) };
            let leaf = pages.get(path[path.len() - 1].0)?;
            let last = leaf.key(Self::LEAF, leaf.count() - 1);
            let (here, others) = keys.split_at(keys.partition_point(|key| &key[..] <= last).max(1));
            let found = leaf.search_all(Self::LEAF, here);
            if !found.is_empty() {
                self.take_out(pages, path, &found)?;
            }
            keys = others;
        }
        Ok(())
    }

    /// Removes the entries with these indices, which ascend, from the leaf at the end of `path`.
    fn take_out(&mut self, pages: &mut Pages, mut path: Path, indices: &[usize]) -> Result<(), Absent> {
        assert!(!indices.is_empty(), "something is taken out");
        let is_few = pages.get(path[path.len() - 1].0)?.count() < Self::FEW + indices.len();
        // A neighbour that is not in memory is joined another time.
        let neighbour = if is_few { Self::neighbour(pages, &path).ok().flatten() } else { None };
        self.own(pages, &mut path);
        let leaf = pages.get_mut(path[path.len() - 1].0);
        leaf.remove(Self::LEAF, indices);
        let is_empty = leaf.count() == 0;
        self.root.len -= indices.len() as u64;
        if let Some(n) = neighbour {
            self.join(pages, &mut path, n);
        } else if is_empty {
            self.cut(pages, path);
        }
        Ok(())
    }

    /// The index in its parent of a leaf beside the one at the end of `path`, if both fit into one page.
    fn neighbour(pages: &Pages, path: &Path) -> Result<Option<usize>, Absent> {
        let [.., (parent, n), (leaf, _)] = path[..] else { return Ok(None) };
        let parent = pages.get(parent)?;
        let beside = if n + 1 < parent.count() { Some(n + 1) } else { n.checked_sub(1) };
        let Some(beside) = beside else { return Ok(None) };
        let other = pages.get(parent.child(Self::INNER, beside))?;
        let fits = pages.get(leaf)?.count() + other.count() <= Self::LEAF.capacity() / 2;
        Ok(Some(beside).filter(|_| fits))
    }

    /// Joins the leaf at the end of `path` with the one at index `beside` of the parent.
    fn join(&mut self, pages: &mut Pages, path: &mut Path, beside: usize) {
        let Some(_) = path.pop() else { unreachable!("a leaf is at the end of its path") };
        let Some((parent, n)) = path.pop() else { unreachable!("a leaf with a neighbour has a parent") };
        let (left, right) = (n.min(beside), n.max(beside));
        assert!(left + 1 == right, "neighbours are joined");
        let child = |pages: &Pages, n| pages.get(parent).map(|node| node.child(Self::INNER, n));
        let (Ok(mut first), Ok(second)) = (child(pages, left), child(pages, right)) else {
            unreachable!("the parent is in memory")
        };
        let Ok(moved) = pages.get(second).cloned() else { unreachable!("the neighbour was looked at") };
        first = pages.own(first);
        pages.get_mut(first).append(Self::LEAF, &moved);
        pages.get_mut(parent).set_value(Self::INNER, left, &first.0.to_le_bytes());
        pages.release(second);
        path.push((parent, right));
        self.drop_entry(pages, std::mem::take(path));
    }

    /// Releases the empty page at the end of `path`.
    fn cut(&mut self, pages: &mut Pages, mut path: Path) {
        let Some((page, _)) = path.pop() else { return };
        pages.release(page);
        if path.is_empty() {
            assert_eq!(self.root.page, Some(page), "only the root has no parent");
            self.root = Root::default();
        } else {
            self.drop_entry(pages, path);
        }
    }

    /// Removes the entry of a released child from the inner page at the end of `path`.
    fn drop_entry(&mut self, pages: &mut Pages, path: Path) {
        let (page, n) = path[path.len() - 1];
        let node = pages.get_mut(page);
        node.remove(Self::INNER, &[n]);
        if node.count() == 0 {
            return self.cut(pages, path);
        }
        self.lower(pages);
    }

    /// Makes the tree lower while its root has only one child.
    fn lower(&mut self, pages: &mut Pages) {
        while let Some(page) = self.root.page
            && let Ok(node) = pages.get(page)
            && node.level() > 0
            && node.count() == 1
        {
            self.root.page = Some(node.child(Self::INNER, 0));
            pages.release(page);
        }
    }

    /// Whether all pages that are in memory are sound, at the levels where they belong.
    ///
    /// # Errors
    /// The first page that is not.
    pub fn check(&self, pages: &Pages) -> Result<(), PageError> {
        let mut todo: Vec<(PageNo, Option<u8>)> =
            self.root.page.map(|page| (page, None)).into_iter().collect();
        while let Some((page, level)) = todo.pop() {
            let Ok(node) = pages.get(page) else { continue };
            let fail = |reason| PageError { page: u64::from(page.0), reason };
            self.check_page(node, level).map_err(fail)?;
            let children = (0..node.count()).filter(|_| node.level() > 0);
            todo.extend(children.map(|n| (node.child(Self::INNER, n), Some(node.level() - 1))));
        }
        Ok(())
    }

    fn check_page(&self, node: &Node, level: Option<u8>) -> Result<(), &'static str> {
        if node.tree() != self.id {
            return Err("it belongs to another tree");
        }
        if level.is_some_and(|level| level != node.level()) {
            return Err("its level is not one below that of its parent");
        }
        if node.is_sound(Self::shape(node)) { Ok(()) } else { Err("its entries are not in order") }
    }
}
