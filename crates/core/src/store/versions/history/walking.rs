//! Walks over the trees of an index some of whose pages may be damaged.

use super::History;
use super::super::key::NUMBER;
use crate::tree::{Absent, HEADS, PageError, PageNo, Part};
use roaring::RoaringBitmap;

impl History {
    /// Lets no page of the index, which has `end` of them, be used for something else.
    pub(in super::super) fn use_all_pages(&mut self, end: u32) {
        let mut used = RoaringBitmap::new();
        used.insert_range(HEADS..end.max(HEADS + 1));
        self.pages.found(&used);
    }

    /// Uses whole trees of the kept epochs and of the gaps alone. The damage, if of either there is none.
    pub(in super::super) fn use_whole_twins<E>(
        &mut self,
        most: usize,
        mut read: impl FnMut(PageNo) -> Result<Vec<u8>, E>,
    ) -> Result<Option<PageError>, E> {
        let Self { pages, epochs, gaps, .. } = self;
        let damage = epochs.use_whole(pages, most, &mut read)?;
        Ok(damage.or(gaps.use_whole(pages, most, read)?))
    }

    /// Finds the last kept epochs, and the gaps.
    pub(in super::super) fn find_kept(&mut self) -> Result<(), Absent> {
        self.gaps.reach(&self.pages, &mut RoaringBitmap::new())?;
        self.find_last_kept()
    }

    /// Tells `see` of all versions, by block and birth.
    pub(in super::super) fn walk_versions<E>(
        &mut self,
        most: usize,
        read: impl FnMut(PageNo) -> Result<Vec<u8>, E>,
        see: impl FnMut(Part<{ 2 * NUMBER }, NUMBER>),
    ) -> Result<(), E> {
        self.versions.walk(&mut self.pages, most, read, see)
    }
}
