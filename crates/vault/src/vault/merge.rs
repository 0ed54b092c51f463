//! Merging the index in bounded steps: a new sorted part beside the old one, then one frame that replaces it.

use std::ops::Bound;

use super::index::{after, read_page};
use super::{Change, Vault};
use crate::catalog::IndexPart;
use crate::container::{Class, Head};
use crate::index::{IndexEntry, PAGE_BYTES, PAGE_ENTRIES, PartBuilder, Recent};
use crate::{ContainerSequence, Fingerprint, SlotNumber, VaultError};

/// Entries that are taken out of memory in one step, behind the last page of the old part.
const TAIL_ENTRIES: usize = 8 * PAGE_ENTRIES;

/// Free slots, besides the reserved ones, that count as few.
const SLOTS_FEW: usize = 2;

/// A merge under way.
#[derive(Debug)]
pub(crate) struct Merge {
    /// The next page of the old part.
    page: usize,
    /// The last fingerprint that was merged.
    last: Option<Fingerprint>,
    builder: PartBuilder,
    /// Pages that are not written yet.
    bytes: Vec<u8>,
    slots: Vec<SlotNumber>,
    entries: u64,
    merged: ContainerSequence,
}

impl Vault<'_> {
    /// Begins a merge of all that is in memory. It has all chunks of the containers below the next one.
    pub(crate) fn begin_merge(&mut self) -> Result<(), VaultError> {
        assert!(self.merge.is_none() && self.index.frozen.is_none(), "a merge is under way");
        self.seal(Vec::new())?;
        let empty = Recent::new(self.index.recent.entries_max());
        let frozen = std::mem::replace(&mut self.index.recent, empty);
        self.merge = Some(Merge {
            page: 0,
            last: None,
            builder: PartBuilder::new(self.index.part.entries() + frozen.len() as u64),
            bytes: Vec::new(),
            slots: Vec::new(),
            entries: 0,
            merged: self.catalog.state().next.container,
        });
        self.index.frozen = Some(frozen);
        Ok(())
    }

    /// Goes on with the merge; true if it has ended. After [`VaultError::Full`] it can go on later.
    pub(crate) fn step_merge(&mut self) -> Result<bool, VaultError> {
        let Some(mut merge) = self.merge.take() else { return Ok(true) };
        let stepped = self.step_with(&mut merge);
        match stepped {
            Ok(true) => self.end_merge(merge).map(|()| true),
            Ok(false) | Err(_) => {
                self.merge = Some(merge);
                stepped
            }
        }
    }

    /// Merges one page of the old part, or some of the entries behind it; true if that was all.
    fn step_with(&mut self, merge: &mut Merge) -> Result<bool, VaultError> {
        let full = self.pool.index_pages() * PAGE_BYTES;
        while merge.bytes.len() >= full {
            self.write_pages(merge, full)?;
        }
        let entries = if merge.page < self.index.part.pages() {
            self.merged_page(merge)?
        } else {
            let frozen = self.index.frozen.as_ref().expect("a merge has what it merges");
            let tail = after(frozen, merge.last, TAIL_ENTRIES);
            if tail.is_empty() {
                return self.end_pages(merge);
            }
            merge.last = tail.last().map(|entry| entry.fingerprint);
            tail
        };
        for entry in entries {
            if self.catalog.table().slot(entry.location.container).is_some() {
                merge.entries += 1;
                merge.bytes.extend(merge.builder.push(entry).into_iter().flatten());
            }
        }
        Ok(false)
    }

    /// The entries of the next page of the old part, with those in memory up to its last one.
    fn merged_page(&self, merge: &mut Merge) -> Result<Vec<IndexEntry>, VaultError> {
        let page = read_page(&self.catalog.state().index, merge.page, &self.pool)?;
        let frozen = self.index.frozen.as_ref().expect("a merge has what it merges");
        let end = page.entries().last().expect("a page has an entry").fingerprint;
        let from = merge.last.map_or(Bound::Unbounded, Bound::Excluded);
        let recent = frozen.within((from, Bound::Included(end)));
        let old = page.entries().iter().copied().map(Ok);
        let merged: Result<Vec<IndexEntry>, VaultError> = crate::index::merge(recent, old).collect();
        merge.page += 1;
        merge.last = Some(end);
        merged
    }

    /// Writes the remaining pages; returns true.
    fn end_pages(&mut self, merge: &mut Merge) -> Result<bool, VaultError> {
        merge.bytes.extend(merge.builder.end_page().into_iter().flatten());
        let full = self.pool.index_pages() * PAGE_BYTES;
        while !merge.bytes.is_empty() {
            let bytes = merge.bytes.len().min(full);
            self.write_pages(merge, bytes)?;
        }
        Ok(true)
    }

    /// Writes a container of the first `bytes` of the pages.
    fn write_pages(&mut self, merge: &mut Merge, bytes: usize) -> Result<(), VaultError> {
        let (slot, sequence) = self.open_slot(Class::Index, 0)?;
        let vault = self.catalog.layout().vault;
        let payload_bytes = bytes as u32;
        let head = Head { vault, sequence, class: Class::Index, chunks: 0, payload_bytes };
        let rest = merge.bytes.split_off(bytes);
        let pages = std::mem::replace(&mut merge.bytes, rest);
        merge.slots.push(slot);
        self.pool.write(slot, &[&head.to_bytes(), &pages])
    }

    /// Replaces the old part, which is condemned, since it names chunks that are gone.
    fn end_merge(&mut self, merge: Merge) -> Result<(), VaultError> {
        if !merge.slots.is_empty() {
            self.pool.sync()?;
        }
        let part = IndexPart { slots: merge.slots, entries: merge.entries, merged: merge.merged };
        let old = self.catalog.state().index.slots.clone();
        let seal = part.slots.iter().copied().map(Change::Seal);
        let condemn = old.into_iter().map(Change::Condemn);
        let changes: Vec<Change> = seal.chain(condemn).chain([Change::Index(part.clone())]).collect();
        self.catalog.commit(&changes)?;
        self.index.part = merge.builder.finish().0;
        self.index.frozen = None;
        assert_eq!(self.index.part.entries(), part.entries, "a merge lost entries");
        Ok(())
    }

    /// Merges when the part in memory is full, a step at a time unless there is no memory left. Replaced parts of the index
    /// are destroyed when slots get few.
    pub(crate) fn tend_index(&mut self) -> Result<(), VaultError> {
        let free = |vault: &Self| vault.catalog.table().free().len();
        if free(self) <= self.reserved() + SLOTS_FEW {
            while !self.destroy_some()? && free(self) <= self.reserved() {}
        }
        if self.index.recent.is_full() {
            while !self.step_merge()? {}
            self.begin_merge()?;
        }
        self.step_merge().map(|_| ())
    }
}
