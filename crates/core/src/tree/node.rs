//! A page of a tree: a header, and entries of one width in ascending order.
//!
//! The format: `docs/formats/index.md`.

use super::PageNo;

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Bytes of a page before its entries.
pub(super) const HEAD_BYTES: usize = 32;
/// Bytes of a child's number in an inner page.
pub(super) const CHILD_BYTES: usize = 4;

const CRC: std::ops::Range<usize> = 0..4;
const TREE: usize = 4;
const LEVEL: usize = 5;
const COUNT: std::ops::Range<usize> = 6..8;
const NUMBER: std::ops::Range<usize> = 8..12;
const OWNER: std::ops::Range<usize> = 12..24;
const GENERATION: std::ops::Range<usize> = 24..32;

/// Why a page that was read cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("page {page} of the index is damaged: {reason}")]
pub struct PageError {
    /// The number of the page.
    pub page: u64,
    /// The field that is wrong.
    pub reason: &'static str,
}

/// A page in memory.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Node(Box<[u8; PAGE_BYTES]>);

/// The shape of the entries of a page: how many bytes an entry has, and how many of these are its key.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Shape {
    pub(super) key: usize,
    pub(super) width: usize,
}

impl Shape {
    pub(super) const fn capacity(self) -> usize {
        (PAGE_BYTES - HEAD_BYTES) / self.width
    }
}

impl Node {
    /// An empty page.
    pub(super) fn new(tree: u8, level: u8) -> Self {
        let mut bytes = Box::new([0; PAGE_BYTES]);
        (bytes[TREE], bytes[LEVEL]) = (tree, level);
        Self(bytes)
    }

    /// The page with number `page`, of the disk that `owner` names, in these bytes. No page is younger than
    /// `generation`.
    pub(super) fn from_bytes(
        bytes: &[u8],
        page: PageNo,
        owner: [u8; 12],
        generation: u64,
    ) -> Result<Self, PageError> {
        let fail = |reason| Err(PageError { page: u64::from(page.0), reason });
        let Ok(bytes) = <[u8; PAGE_BYTES]>::try_from(bytes) else { return fail("its length") };
        let node = Self(Box::new(bytes));
        if node.0[CRC] != crc32c::crc32c(&node.0[CRC.end..]).to_le_bytes() {
            return fail("its checksum does not match its content");
        }
        if node.0[NUMBER] != page.0.to_le_bytes() {
            return fail("it has the number of another page");
        }
        if node.0[OWNER] != owner {
            return fail("it belongs to another disk");
        }
        if node.generation() > generation {
            return fail("it is younger than the head of the index");
        }
        Ok(node)
    }

    /// The bytes of the page, to be written to `page`.
    pub(super) fn to_bytes(&self, page: PageNo, owner: [u8; 12]) -> Vec<u8> {
        let mut bytes = self.0.to_vec();
        bytes[NUMBER].copy_from_slice(&page.0.to_le_bytes());
        bytes[OWNER].copy_from_slice(&owner);
        let crc = crc32c::crc32c(&bytes[CRC.end..]);
        bytes[CRC].copy_from_slice(&crc.to_le_bytes());
        bytes
    }

    pub(super) fn tree(&self) -> u8 {
        self.0[TREE]
    }

    /// The level above the leaves, which have level 0.
    pub(super) fn level(&self) -> u8 {
        self.0[LEVEL]
    }

    pub(super) fn generation(&self) -> u64 {
        u64::from_le_bytes(self.0[GENERATION].try_into().expect("eight bytes"))
    }

    pub(super) fn set_generation(&mut self, generation: u64) {
        self.0[GENERATION].copy_from_slice(&generation.to_le_bytes());
    }

    pub(super) fn count(&self) -> usize {
        usize::from(u16::from_le_bytes([self.0[COUNT.start], self.0[COUNT.start + 1]]))
    }

    fn set_count(&mut self, count: usize) {
        let count = u16::try_from(count).expect("a page has fewer entries than bytes");
        self.0[COUNT].copy_from_slice(&count.to_le_bytes());
    }

    /// Whether the page has at least one entry, at most as many as fit, and all in ascending order.
    pub(super) fn is_sound(&self, shape: Shape) -> bool {
        let (count, first) = (self.count(), self.first());
        let is_ascending = |n: usize| self.key(shape, n - 1) < self.key(shape, n);
        (1..=shape.capacity()).contains(&count) && (first + 1..count).all(is_ascending)
    }

    /// The index of the first entry whose key counts. The first child of an inner page has all keys below
    /// those of the second, whatever its own key says.
    fn first(&self) -> usize {
        usize::from(self.level() > 0)
    }

    pub(super) fn entry(&self, shape: Shape, n: usize) -> &[u8] {
        &self.0[HEAD_BYTES + n * shape.width..][..shape.width]
    }

    pub(super) fn key(&self, shape: Shape, n: usize) -> &[u8] {
        &self.entry(shape, n)[..shape.key]
    }

    pub(super) fn set_value(&mut self, shape: Shape, n: usize, value: &[u8]) {
        assert!(n < self.count(), "the page has this entry");
        assert_eq!(shape.key + value.len(), shape.width, "an entry has its width");
        self.0[HEAD_BYTES + n * shape.width + shape.key..][..value.len()].copy_from_slice(value);
    }

    /// The child at index `n` of an inner page.
    pub(super) fn child(&self, shape: Shape, n: usize) -> PageNo {
        let number = self.entry(shape, n)[shape.key..].try_into().expect("a child has four bytes");
        PageNo(u32::from_le_bytes(number))
    }

    /// The index of `key`, or else that of the first entry with a greater key.
    pub(super) fn search(&self, shape: Shape, key: &[u8]) -> Result<usize, usize> {
        let (mut from, mut to) = (self.first(), self.count());
        while from < to {
            let middle = (from + to) / 2;
            match self.key(shape, middle).cmp(key) {
                std::cmp::Ordering::Less => from = middle + 1,
                std::cmp::Ordering::Equal => return Ok(middle),
                std::cmp::Ordering::Greater => to = middle,
            }
        }
        Err(from)
    }

    /// The indices of those of these keys that the page has. The keys ascend; neighbours cost no search.
    pub(super) fn search_all<const K: usize>(&self, shape: Shape, keys: &[[u8; K]]) -> Vec<usize> {
        let (count, mut next) = (self.count(), 0);
        let index = |key: &[u8; K]| {
            let is_next = next < count && self.key(shape, next) == key;
            let n = if is_next { next } else { self.search(shape, key).ok()? };
            next = n + 1;
            Some(n)
        };
        keys.iter().filter_map(index).collect()
    }

    /// The index of the child of an inner page that has `key`, if any child has.
    pub(super) fn child_of(&self, shape: Shape, key: &[u8]) -> usize {
        self.search(shape, key).unwrap_or_else(|n| n - 1)
    }

    pub(super) fn insert(&mut self, shape: Shape, n: usize, key: &[u8], value: &[u8]) {
        let (count, at) = (self.count(), HEAD_BYTES + n * shape.width);
        assert!(count < shape.capacity() && n <= count, "an entry fits into the page");
        assert_eq!(key.len() + value.len(), shape.width, "an entry has its width");
        self.0.copy_within(at..HEAD_BYTES + count * shape.width, at + shape.width);
        self.0[at..][..key.len()].copy_from_slice(key);
        self.0[at + key.len()..][..value.len()].copy_from_slice(value);
        self.set_count(count + 1);
    }

    /// Removes the entries with these indices, which ascend.
    pub(super) fn remove(&mut self, shape: Shape, indices: &[usize]) {
        let (count, mut to) = (self.count(), indices.first().copied().unwrap_or_default());
        assert!(indices.is_sorted_by(|one, next| one < next), "the indices ascend");
        assert!(indices.last().is_none_or(|last| *last < count), "the page has these entries");
        let at = |n: usize| HEAD_BYTES + n * shape.width;
        for (n, index) in indices.iter().enumerate() {
            let next = indices.get(n + 1).copied().unwrap_or(count);
            if next > index + 1 {
                self.0.copy_within(at(index + 1)..at(next), at(to));
                to += next - (index + 1);
            }
        }
        if !indices.is_empty() {
            self.0[at(to)..at(count)].fill(0);
            self.set_count(to);
        }
    }

    /// Moves the entries from index `from` on to a new page.
    pub(super) fn split_off(&mut self, shape: Shape, from: usize) -> Self {
        assert!(from <= self.count(), "a page is cut between its entries");
        let mut right = Self::new(self.tree(), self.level());
        right.set_generation(self.generation());
        let (start, end) = (HEAD_BYTES + from * shape.width, HEAD_BYTES + self.count() * shape.width);
        right.0[HEAD_BYTES..][..end - start].copy_from_slice(&self.0[start..end]);
        self.0[start..end].fill(0);
        right.set_count(self.count() - from);
        self.set_count(from);
        right
    }

    /// Appends all entries of `right`.
    pub(super) fn append(&mut self, shape: Shape, right: &Self) {
        let (count, more) = (self.count(), right.count());
        assert!(count + more <= shape.capacity(), "both pages fit into one");
        let bytes = more * shape.width;
        self.0[HEAD_BYTES + count * shape.width..][..bytes].copy_from_slice(&right.0[HEAD_BYTES..][..bytes]);
        self.set_count(count + more);
    }
}
