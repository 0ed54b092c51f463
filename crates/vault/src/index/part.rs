//! A sorted part of the index: pages on the medium, and in memory the first fingerprint of each.

use super::{Filter, IndexEntry, PAGE_BYTES, PAGE_ENTRIES, Page};
use crate::Fingerprint;

/// The summary of a part in memory: under 12 bits an entry.
#[derive(Debug)]
pub struct Part {
    /// The first 8 bytes of the first fingerprint of each page.
    fences: Vec<u64>,
    filter: Filter,
    entries: u64,
}

impl Part {
    /// The page, counted from 0, that has `fingerprint` if any page has it. Mostly `None` if no page has it.
    ///
    /// Of several pages that begin with the same 8 bytes, the first one; no two chunks of a vault share those.
    pub fn page(&self, fingerprint: &Fingerprint) -> Option<usize> {
        if !self.filter.may_have(fingerprint) {
            return None;
        }
        self.fences.partition_point(|fence| *fence <= fingerprint.word(0)).checked_sub(1)
    }

    /// The number of pages.
    pub fn pages(&self) -> usize {
        self.fences.len()
    }

    /// The number of entries.
    pub fn entries(&self) -> u64 {
        self.entries
    }

    /// Bytes of memory.
    pub fn bytes(&self) -> usize {
        self.fences.capacity() * 8 + self.filter.bytes()
    }
}

/// Makes a part of entries as they come, sorted: the caller writes each page.
#[derive(Debug)]
pub struct PartBuilder {
    part: Part,
    page: Vec<IndexEntry>,
}

impl PartBuilder {
    /// A builder for about `entries`.
    pub fn new(entries: u64) -> PartBuilder {
        let part = Part { fences: Vec::new(), filter: Filter::new(entries), entries: 0 };
        PartBuilder { part, page: Vec::with_capacity(PAGE_ENTRIES) }
    }

    /// Adds the next entry; returns the bytes of a page that is full now.
    ///
    /// # Panics
    ///
    /// If the entries are not in ascending order.
    pub fn push(&mut self, entry: IndexEntry) -> Option<[u8; PAGE_BYTES]> {
        let last = self.page.last().map(|last| last.fingerprint);
        assert!(last.is_none_or(|last| last < entry.fingerprint), "entries of the index are out of order");
        let full = if self.page.len() == PAGE_ENTRIES { self.end_page() } else { None };
        if self.page.is_empty() {
            self.part.fences.push(entry.fingerprint.word(0));
        }
        self.part.filter.insert(&entry.fingerprint);
        self.part.entries += 1;
        self.page.push(entry);
        full
    }

    /// The part, and the bytes of its last page, if it has any.
    pub fn finish(mut self) -> (Part, Option<[u8; PAGE_BYTES]>) {
        let last = self.end_page();
        self.part.fences.shrink_to_fit();
        (self.part, last)
    }

    /// The bytes of the page that is being filled, if it has any entry. Another page begins behind it.
    pub(crate) fn end_page(&mut self) -> Option<[u8; PAGE_BYTES]> {
        let bytes = (!self.page.is_empty()).then(|| Page::to_bytes(&self.page));
        self.page.clear();
        bytes
    }
}
