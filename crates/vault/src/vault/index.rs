//! The index of an open vault: the part in memory, the part that is being merged, and the sorted part in the pool.

use quietus_core::base::units::{Extent, Pos};

use super::Vault;
use super::pool::Pool;
use crate::catalog::IndexPart;
use crate::index::{IndexEntry, Location, PAGE_BYTES, Page, Part, PartBuilder, Recent};
use crate::{Fingerprint, VaultError};

/// See the module's documentation.
pub(crate) struct Index {
    pub(crate) recent: Recent,
    /// The merge under way.
    pub(crate) frozen: Option<Recent>,
    pub(crate) part: Part,
}

impl Index {
    /// The number of entries, some of them perhaps counted twice.
    pub(crate) fn entries(&self) -> u64 {
        let frozen = self.frozen.as_ref().map_or(0, Recent::len);
        self.part.entries() + (self.recent.len() + frozen) as u64
    }
}

impl Vault<'_> {
    /// Where a chunk is; `None` if it is in no container that can be read.
    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> Result<Option<Location>, VaultError> {
        let Index { recent, frozen, part } = &self.index;
        let in_frozen = || frozen.as_ref().and_then(|frozen| frozen.find(fingerprint));
        let found = match (recent.find(fingerprint).or_else(in_frozen), part.page(fingerprint)) {
            (None, Some(page)) => read_page(&self.catalog.state().index, page, &self.pool)?.find(fingerprint),
            (in_memory, _) => in_memory,
        };
        Ok(found.filter(|location| self.catalog.table().slot(location.container).is_some()))
    }
}

/// A page of the sorted part.
pub(crate) fn read_page(part: &IndexPart, page: usize, pool: &Pool<'_>) -> Result<Page, VaultError> {
    let (slot, page) = (part.slots[page / pool.index_pages()], page % pool.index_pages());
    let start = pool.extent(slot).start.0 + ((1 + page) * PAGE_BYTES) as u64;
    let bytes = pool.read(Extent::<Pos>::new(start, PAGE_BYTES as u64))?;
    let (pages, _) = bytes.as_chunks();
    Ok(Page::from_bytes(&pages[0])?)
}

/// The part of the index in memory that leads to the one in the pool.
pub(crate) fn load(part: &IndexPart, pool: &Pool<'_>) -> Result<Part, VaultError> {
    let mut builder = PartBuilder::new(part.entries);
    let mut page = 0;
    let mut entries = 0;
    while entries < part.entries && page < part.slots.len() * pool.index_pages() {
        for entry in read_page(part, page, pool)?.entries() {
            entries += 1;
            let _page: Option<[u8; PAGE_BYTES]> = builder.push(*entry);
        }
        page += 1;
    }
    Ok(builder.finish().0)
}

/// The entries behind `last`, at most `count`.
pub(crate) fn after(recent: &Recent, last: Option<Fingerprint>, count: usize) -> Vec<IndexEntry> {
    use std::ops::Bound;
    let from = last.map_or(Bound::Unbounded, Bound::Excluded);
    recent.within((from, Bound::Unbounded)).take(count).collect()
}
