//! A start that only reads, of an index some of whose pages are damaged. What the other pages say is shown; a request that needs a
//! damaged page fails, and `status` says why.
//!
//! Nothing of it is ever written, so it needs to know neither which slots are free nor what is owed.

use super::super::stubs::{HomePage, bytes_at};
use super::{Heads, Index, VersionsError, View, next_sector, outline, owed_slots, root};
use crate::base::blocks::BlockSet;
use crate::base::units::{BLOCK_BYTES, Block, Epoch, Extent, Pos};
use crate::media::medium::{Medium, MediumError};
use crate::store::Opening;
use crate::store::versions::catalog::{Catalog, Note};
use crate::store::versions::forget::killing::Killing;
use crate::store::versions::index::history::WallTime;
use crate::store::versions::index::key;
use crate::store::versions::index::lingering::Lingering;
use crate::store::versions::{Setup, Versions};
use crate::tree::{Absent, PAGE_BYTES, PageError, PageNo, Part};
use std::collections::BTreeSet;

/// Most ranges that are named.
const RANGES_MAX: usize = 8;

impl Versions {
    /// Opens what can be read of the store, in whose index there is this `damage`.
    pub(super) fn open_part(
        setup: &Setup,
        opening: &mut Opening<'_>,
        [data, map, stubs, root]: [&dyn Medium; 4],
        damage: &PageError,
    ) -> Result<Self, VersionsError> {
        let head = Heads::read(map)?.newest(opening.disk)?;
        let sessions = Note::of(&head).ok_or(VersionsError::Note)?.sessions;
        let mut index = Index::new((setup, sessions), opening, &head, [map, stubs, root])?;
        index.reach_part()?;
        let closing = Epoch(index.catalog.history.open_epoch().0 - 1);
        index.replay_part()?;
        index.hide_unclosed(closing)?;
        index.find_homes_to_read()?;
        let (found, lost) = index.found_and_lost(opening.size.div_ceil(BLOCK_BYTES))?;
        let unknown = Lingering::unknown(index.catalog.history.open_epoch());
        let kept = opening.kept.and_then(View::from_bytes);
        let (lingering, mut allocated) =
            kept.map_or((unknown, found), |view| (view.lingering, view.allocated));
        index.catalog.lingering = lingering;
        for (slot, block) in owed_slots(opening.owed) {
            let shown = index.part(|catalog| catalog.history.shown(block, Epoch(key::NUMBER_MAX)))?.flatten();
            if shown.is_some_and(|version| version.slot == slot) {
                allocated.remove(outline(block));
            }
        }
        let mut killing = Killing::new(data.capabilities().punch, setup.layout.stub_bytes > 0);
        killing.stopped = Some(format!(
            "{damage}; {}, and nothing is written: `quietus verify` names all damage, and `quietus repair` rebuilds the index",
            in_words(&lost)
        ));
        Ok(Self::with(opening.size, index.catalog, allocated, killing))
    }
}

/// The blocks that cannot be read, in words.
fn in_words(lost: &[(u64, u64)]) -> String {
    let range = |(from, to): &(u64, u64)| format!("{} to {}", from * BLOCK_BYTES, to * BLOCK_BYTES);
    let first: Vec<String> = lost.iter().take(RANGES_MAX).map(range).collect();
    match (lost.len(), lost.len().saturating_sub(RANGES_MAX)) {
        (0, _) => "all content can be read".into(),
        (_, 0) => format!("content cannot be read at bytes {}", first.join(", ")),
        (_, more) => {
            format!("content cannot be read at bytes {}, and in {more} more ranges", first.join(", "))
        }
    }
}

/// Reads a page of the index.
pub(in super::super) fn page(map: &dyn Medium, page: PageNo) -> Result<Vec<u8>, MediumError> {
    bytes_at(map, Pos(page.position()), PAGE_BYTES)
}

/// How many pages the medium of the index has.
pub(in super::super) fn pages(map: &dyn Medium) -> u32 {
    u32::try_from(map.size() / PAGE_BYTES as u64).unwrap_or(u32::MAX)
}

impl Index<'_> {
    /// The answer, if no page that it needs is damaged.
    fn part<T>(
        &mut self,
        ask: impl FnMut(&mut Catalog) -> Result<T, Absent>,
    ) -> Result<Option<T>, VersionsError> {
        match self.ask(ask) {
            Err(VersionsError::Page(_)) => Ok(None),
            answer => answer.map(Some),
        }
    }

    /// Finds the kept epochs, and what was forgotten in them.
    fn reach_part(&mut self) -> Result<(), VersionsError> {
        let (map, pages_max) = (self.map, self.catalog.limits.pages);
        let history = &mut self.catalog.history;
        history.use_all_pages(pages(map));
        if let Some(damage) = history.use_whole_twins(pages_max, |it| page(map, it))? {
            return Err(damage.into());
        }
        self.ask(|catalog| catalog.history.find_kept())
    }

    /// Replays the log up to the first sector that is not whole, for what epochs show. A block whose page is damaged cannot be
    /// read, whatever the log says of it.
    fn replay_part(&mut self) -> Result<(), VersionsError> {
        while let Some((at, _, sector)) = next_sector(&self.catalog, self.stubs)? {
            for entry in &sector.entries {
                self.part(|catalog| catalog.replay_shown(sector.epoch, entry))?;
            }
            self.catalog.log.replay(at, &sector);
        }
        Ok(())
    }

    /// Hides the epochs from `first` on whose closes a crash cut off.
    fn hide_unclosed(&mut self, first: Epoch) -> Result<(), VersionsError> {
        let mut from = first;
        while let Some((epoch, end)) = self.ask(|catalog| catalog.history.kept_at_or_after(from))? {
            if end.when == WallTime(0) {
                self.ask(|catalog| catalog.history.drop_epoch(epoch))?;
            }
            from = Epoch(epoch.0 + 1);
        }
        Ok(())
    }

    /// Finds the cells of the homes.
    fn find_homes_to_read(&mut self) -> Result<(), VersionsError> {
        let Catalog { layout, homes, log, .. } = &mut self.catalog;
        if layout.stub_bytes == 0 {
            return Ok(());
        }
        homes.start(root::pages_of(self.root), [self.stubs, self.root], true)?;
        let replayed: BTreeSet<HomePage> = log.homeless(..).map(|slot| layout.page_of(slot)).collect();
        replayed.into_iter().for_each(|page| homes.is_perhaps_torn(page));
        Ok(())
    }

    /// The blocks that have content now, or that may have it; and those of damaged pages, from one block up to another.
    fn found_and_lost(&mut self, blocks: u64) -> Result<(BlockSet, Vec<(u64, u64)>), VersionsError> {
        let (map, pages_max) = (self.map, self.catalog.limits.pages);
        let history = &mut self.catalog.history;
        let mut found = BlockSet::default();
        // The last version, so far, of the block that the walk is at; whether it has content.
        let mut last: Option<(u64, bool)> = None;
        let mut note = |last: Option<(u64, bool)>| {
            if let Some((block, true)) = last.filter(|(block, _)| *block < blocks) {
                found.insert(outline(Block(block)));
            }
        };
        let mut lost: Vec<(u64, u64)> = Vec::new();
        let see = |part: Part<{ 2 * key::NUMBER }, { key::NUMBER }>| match part {
            Part::Entries(entries) => {
                for (at, slot) in entries {
                    let here = (key::number(&at, 0), key::number(&slot, 0) != key::NUMBER_MAX);
                    note(last.replace(here).filter(|before| before.0 != here.0));
                }
            }
            Part::Lost(_, from, to) => {
                let to = to.map_or(blocks, |to| (key::number(&to, 0) + 1).min(blocks));
                lost.push((key::number(&from, 0), to));
            }
        };
        history.versions.walk(&mut history.pages, pages_max, |it| page(map, it), see)?;
        note(last);
        lost.retain(|(from, to)| from < to);
        for (from, to) in &lost {
            found.insert(Extent::between(from * BLOCK_BYTES, to * BLOCK_BYTES));
        }
        Ok((found, lost))
    }
}
