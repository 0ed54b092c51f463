//! Walks over the trees of an index some of whose pages may be damaged, and fresh trees with given entries.

use crate::base::units::{Block, Slot};
use crate::store::versions::index::history::{Epoch, FREED, History, Version};
use crate::store::versions::index::key::{NUMBER, NUMBER_MAX, pack};
use crate::store::versions::index::span::{Dead, LEN, Span};
use crate::tree::{Absent, HEADS, PageError, PageNo, Part};
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// The entries of a tree that were found, and the ranges of keys that were lost with damaged pages.
#[derive(Debug)]
pub(in crate::store::versions) struct Salvaged<const K: usize, const V: usize> {
    pub(in crate::store::versions) entries: BTreeMap<[u8; K], [u8; V]>,
    /// From a key on, up to another one.
    pub(in crate::store::versions) lost: Vec<([u8; K], Option<[u8; K]>)>,
}

/// The same of all trees.
#[derive(Debug, Default)]
pub(in crate::store::versions) struct Salvage {
    pub(in crate::store::versions) damage: Vec<PageError>,
    pub(in crate::store::versions) versions: Salvaged<{ 2 * NUMBER }, NUMBER>,
    pub(in crate::store::versions) dead: Salvaged<{ 3 * NUMBER }, { NUMBER + LEN }>,
    pub(in crate::store::versions) runs: Salvaged<{ 2 * NUMBER }, NUMBER>,
    pub(in crate::store::versions) epochs: [Salvaged<NUMBER, { 8 + NUMBER }>; 2],
    pub(in crate::store::versions) owed: Salvaged<NUMBER, { 2 * NUMBER + LEN }>,
    pub(in crate::store::versions) gaps: [Salvaged<{ 2 * NUMBER }, NUMBER>; 2],
    pub(in crate::store::versions) clusters: Salvaged<NUMBER, { NUMBER + 16 }>,
}

impl<const K: usize, const V: usize> Default for Salvaged<K, V> {
    fn default() -> Self {
        Self { entries: BTreeMap::new(), lost: Vec::new() }
    }
}

impl<const K: usize, const V: usize> Salvaged<K, V> {
    /// Takes a part of the tree.
    pub(in crate::store::versions) fn take(&mut self, part: Part<K, V>, damage: &mut Vec<PageError>) {
        match part {
            Part::Entries(entries) => self.entries.extend(entries),
            Part::Lost(page, from, to) => {
                damage.push(page);
                self.lost.push((from, to));
            }
        }
    }

    /// Whether no page is damaged.
    pub(in crate::store::versions) fn is_whole(&self) -> bool {
        self.lost.is_empty()
    }

    /// Whether the entry of `key`, if there was one, is lost.
    pub(in crate::store::versions) fn lacks(&self, key: &[u8; K]) -> bool {
        self.lacks_between(key, key)
    }

    /// Whether an entry from `first` to `last` may be lost.
    pub(in crate::store::versions) fn lacks_between(&self, first: &[u8; K], last: &[u8; K]) -> bool {
        self.lost.iter().any(|(from, to)| from <= last && to.is_none_or(|to| *first < to))
    }

    /// Whether an entry from `from` on, up to `to`, may be lost.
    pub(in crate::store::versions) fn loses(&self, from: &[u8; K], to: Option<&[u8; K]>) -> bool {
        self.lost
            .iter()
            .any(|(start, end)| to.is_none_or(|to| start < to) && end.is_none_or(|end| *from < end))
    }
}

impl History {
    /// Lets no page of the index, which has `end` of them, be used for something else.
    pub(in crate::store::versions) fn use_all_pages(&mut self, end: u32) {
        let mut used = RoaringBitmap::new();
        used.insert_range(HEADS..end.max(HEADS + 1));
        self.pages.found(&used);
    }

    /// Uses whole trees of the kept epochs and of the gaps alone. The damage, if of either there is none.
    pub(in crate::store::versions) fn use_whole_twins<E>(
        &mut self,
        most: usize,
        mut read: impl FnMut(PageNo) -> Result<Vec<u8>, E>,
    ) -> Result<Option<PageError>, E> {
        let Self { pages, epochs, gaps, .. } = self;
        let damage = epochs.use_whole(pages, most, &mut read)?;
        Ok(damage.or(gaps.table.use_whole(pages, most, read)?))
    }

    /// Finds the last kept epochs.
    pub(super) fn find_last_kept(&mut self) -> Result<(), Absent> {
        let last = self.kept_at_or_before(Epoch(NUMBER_MAX))?;
        self.last_kept = [last, self.kept_before(last)?];
        Ok(())
    }

    /// Notes what `block` shows from `epoch` on, and nothing of what that makes of other versions.
    pub(in crate::store::versions) fn show(
        &mut self,
        block: Block,
        slot: Option<Slot>,
        epoch: Epoch,
    ) -> Result<(), Absent> {
        let slot = slot.unwrap_or(FREED);
        self.versions.insert(&mut self.pages, &pack(&[block.0, epoch.0]), &pack(&[slot.0])).map(drop)
    }

    /// Finds the last kept epochs, and the gaps.
    pub(in crate::store::versions) fn find_kept(&mut self) -> Result<(), Absent> {
        self.gaps.reach(&self.pages, &mut RoaringBitmap::new())?;
        self.find_last_kept()
    }

    /// Takes what is left of all trees but that of the slots.
    pub(in crate::store::versions) fn salvage<E>(
        &mut self,
        most: usize,
        mut read: impl FnMut(PageNo) -> Result<Vec<u8>, E>,
    ) -> Result<Salvage, E> {
        let Self { pages, versions, deaths, epochs, owed, gaps, .. } = self;
        let mut all = Salvage::default();
        let damage = &mut all.damage;
        versions.walk(pages, most, &mut read, |part| all.versions.take(part, damage))?;
        deaths.entries.walk(pages, most, &mut read, |part| all.dead.take(part, damage))?;
        deaths.runs.walk(pages, most, &mut read, |part| all.runs.take(part, damage))?;
        owed.walk(pages, most, &mut read, |part| all.owed.take(part, damage))?;
        for (tree, found) in epochs.trees.iter().zip(&mut all.epochs) {
            tree.walk(pages, most, &mut read, |part| found.take(part, damage))?;
        }
        for (tree, found) in gaps.table.trees.iter().zip(&mut all.gaps) {
            tree.walk(pages, most, &mut read, |part| found.take(part, damage))?;
        }
        Ok(all)
    }

    /// The epoch whose list of the dead has what died in this one: the first kept one from there on, or the open one.
    pub(super) fn list_of(&self, died: Epoch) -> Result<Epoch, Absent> {
        Ok(self.kept_at_or_after(died)?.map_or(self.open, |(epoch, _)| epoch))
    }

    /// Adds a version of `block` that died in this epoch to the list of the epoch that shows it last.
    pub(in crate::store::versions) fn put_dead(
        &mut self,
        block: Block,
        version: Version,
        died: Epoch,
    ) -> Result<(), Absent> {
        let list = self.list_of(died)?;
        let dead = Dead { born: version.born, block, slot: version.slot };
        self.deaths.add(&mut self.pages, list, dead)
    }

    pub(in crate::store::versions) fn put_owed_span(&mut self, span: Span) -> Result<(), Absent> {
        self.owed_versions += span.len;
        self.put_owed(span)
    }
}
