//! The catalog: all that a vault must not lose in a crash, besides the chunks themselves. Snapshots, slots, obligations,
//! the sanitization that is under way.
//!
//! One small medium has a log in two halves, and the table of slots, of which each page has two places (the format, byte by byte:
//! `docs/formats/vault.md`). A name or a content is never written here: it could not be destroyed.
//!
//! Invariants:
//! 1. A frame is durable before the next one is written, so that only the last can be torn. An
//!    invalid frame with a valid one behind it is damage.
//! 2. A half is overwritten only after the snapshot in the other one is durable. The pages of the table that have changed are durable
//!    before the snapshot that relies on them, and are not written where the older snapshot's lie before it is durable.
//! 3. A write that fails latches: the catalog takes no change after it.
//! 4. No single place holds a fact alone: the head repeats what the vault's directory says, a frame and a page are there twice, and
//!    a snapshot is what the one before and the frames since amount to.
//! 5. Something durable says of which generation each part has to be: a snapshot of its pages, a mark of the newest snapshot. An older one
//!    part is never taken for that one.

mod layout;
mod log;
mod state;
mod table;

#[cfg(test)]
mod tests;

use layout::PAGE_BYTES;
pub use layout::{HeadError, Layout, SLOTS_MAX};
pub use state::HOLD_NAME_BYTES_MAX;
pub(crate) use state::hold_bytes;
pub use state::{Change, IndexPart, LogHead, Numbers, Owed, Receipt, State};
pub(crate) use table::FREE;
pub use table::{SlotEntry, SlotState, Table};

use log::{Frame, Log};
use quietus_core::media::medium::{Medium, MediumError};

use crate::SlotNumber;

/// Why the catalog cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogError {
    /// The medium fails.
    #[error("vault catalog: {0}")]
    Medium(#[from] MediumError),
    /// The head is not the head of a catalog.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A record that this program does not know, or no record at all.
    #[error("vault catalog: unknown record in frame {frame}; use the quietus that wrote it")]
    Record {
        /// The number of the frame.
        frame: u64,
    },
    /// Bytes were changed, or a write was lost.
    #[error(
        "vault catalog: damaged ({0}); run `quietus vault repair`, which makes it anew of what the pool holds"
    )]
    Damaged(&'static str),
    /// The catalog is not this vault's.
    #[error(
        "vault catalog: the head at offset 0 is that of another vault ({found:?}, expected {expected:?}); \
         put back the file `catalog` of this vault, or remove it and run `quietus vault repair`"
    )]
    Other {
        /// The fields of the head.
        found: Layout,
        /// The vault's sizes and id.
        expected: Layout,
    },
    /// An earlier write has failed.
    #[error("vault catalog: an earlier write failed, so nothing more is written; start again")]
    Broken,
}

/// The catalog of an open vault.
pub struct Catalog<'m> {
    medium: &'m dyn Medium,
    layout: Layout,
    log: Log,
    table: Table,
    state: State,
    is_broken: bool,
    is_doubtful: bool,
    is_damaged: bool,
}

impl<'m> Catalog<'m> {
    /// A catalog of an empty vault, durable on `medium`.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if the medium fails, or if the layout is invalid.
    pub fn create(medium: &'m dyn Medium, layout: Layout) -> Result<Catalog<'m>, CatalogError> {
        Catalog::restore(medium, layout, State::default(), &[])
    }

    fn new(medium: &'m dyn Medium, layout: Layout, log: Log, table: Table) -> Catalog<'m> {
        let state = State::default();
        Catalog { medium, layout, log, table, state, is_broken: false, is_doubtful: false, is_damaged: false }
    }

    /// A catalog of what is known of a vault, durable on `medium`: its state, and the entries of the slots that are not free.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if the medium fails, or if the layout is invalid.
    pub(crate) fn restore(
        medium: &'m dyn Medium,
        layout: Layout,
        state: State,
        slots: &[(SlotNumber, SlotEntry)],
    ) -> Result<Catalog<'m>, CatalogError> {
        layout.check()?;
        medium.write(layout.head(), &layout.to_bytes(), false)?;
        let mut table = Table::new(layout.slots);
        slots.iter().for_each(|(slot, entry)| table.set(*slot, *entry));
        let mut catalog = Catalog { state, ..Catalog::new(medium, layout, Log::new(layout), table) };
        catalog.turn()?;
        catalog.turn()?;
        Ok(catalog)
    }

    /// The catalog on `medium`, as the last frame that was durable left it. Nothing is written.
    ///
    /// # Errors
    ///
    /// [`CatalogError`]. A torn last frame is not an error: nothing relied on it.
    pub fn read(medium: &'m dyn Medium, layout: Layout) -> Result<Catalog<'m>, CatalogError> {
        let is_head_whole = layout::check(medium, layout)?;
        let log::Read { log, frames, is_older, is_damaged } = log::read(medium, layout)?;
        let frames = frames.iter().map(decode).collect::<Result<Vec<_>, _>>()?;
        let generations = frames[0].iter().find_map(|change| match change {
            Change::Pages(generations) => Some(generations.as_slice()),
            _ => None,
        });
        let newer = is_older.then(|| log.next_generation() - 1);
        let table = Table::read(medium, layout, generations.unwrap_or_default(), newer)?;
        let is_damaged = is_damaged || !is_head_whole;
        let new = Catalog::new(medium, layout, log, table);
        let mut catalog = Catalog { is_doubtful: is_older, is_damaged, ..new };
        frames.iter().try_for_each(|changes| catalog.replay(changes))?;
        Ok(catalog)
    }

    /// Makes the state that was read durable anew, after `changes`: by now a part may be there only once. The `changes` include
    /// what [`lost`](Table::lost) slots have.
    pub(crate) fn settle(
        &mut self,
        changes: &[Change],
        slots: &[(SlotNumber, SlotEntry)],
    ) -> Result<(), CatalogError> {
        if !self.table.lost().is_empty() {
            // A turn that a crash cut short may have left other pages of the next generation.
            for pos in self.table.unwritten(self.layout) {
                self.medium.write(pos, &[0; PAGE_BYTES], false)?;
            }
        }
        // One of the two copies that were read may be in a cache only.
        self.medium.sync()?;
        slots.iter().for_each(|(slot, entry)| self.table.set(*slot, *entry));
        changes.iter().for_each(|change| self.apply(change));
        assert!(self.table.lost().is_empty(), "the content of each slot is known");
        if self.is_damaged {
            self.medium.write(self.layout.head(), &self.layout.to_bytes(), false)?;
            self.turn()?;
        }
        self.turn()
    }

    /// The catalog on `medium`, ready for changes.
    ///
    /// # Errors
    ///
    /// As for [`read`](Catalog::read), and the errors of the medium.
    #[cfg(test)]
    pub(crate) fn open(medium: &'m dyn Medium) -> Result<Catalog<'m>, CatalogError> {
        let mut catalog = Catalog::read(medium, tests::LAYOUT)?;
        match catalog.table.lost().is_empty() {
            true => catalog.settle(&[], &[]).map(|()| catalog),
            false => Err(CatalogError::Damaged("a page of the table of slots")),
        }
    }

    /// The remains of a damaged catalog: every change that can be read, in order, with gaps where some are missing.
    pub(crate) fn salvage(medium: &dyn Medium, layout: Layout) -> Result<Vec<Vec<Change>>, CatalogError> {
        let frames = log::salvage(medium, layout)?;
        Ok(frames.iter().filter_map(|frame| decode(frame).ok()).collect())
    }

    /// Whether a part was damaged when the catalog was read.
    pub(crate) fn is_damaged(&self) -> bool {
        self.is_damaged
    }

    /// Whether the newest snapshot was damaged. If more than the snapshot was damaged, later changes may be missing.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// The sizes and the id of the catalog's vault.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The state, apart from slots.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// The slots.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Makes changes durable: all of them, or nothing.
    ///
    /// # Errors
    ///
    /// [`CatalogError`]. It is not known then which changes are durable, and all later commits fail.
    pub fn commit(&mut self, changes: &[Change]) -> Result<(), CatalogError> {
        if self.is_broken {
            return Err(CatalogError::Broken);
        }
        let written = self.write(changes);
        self.is_broken |= written.is_err();
        written
    }

    fn write(&mut self, changes: &[Change]) -> Result<(), CatalogError> {
        let records = state::encode(changes);
        if !self.log.has_space(records.len()) {
            self.turn()?;
        }
        changes.iter().for_each(|change| self.apply(change));
        match self.log.append(&records) {
            Some((pos, bytes)) => Ok(self.medium.write(pos, &bytes, true)?),
            // The changes do not fit behind a snapshot. With two snapshots they are there twice, too.
            None => self.turn().and_then(|()| self.turn()),
        }
    }

    /// Whether one more snapshot, and `bytes` besides, can be kept: forgets and sanitizations never need more room than they free.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.state.bytes_max(self.layout.slots) + bytes + FRAME_ROOM <= self.layout.half_bytes / 2
    }

    fn apply(&mut self, change: &Change) {
        match *change {
            Change::Open(slot, container, class) => {
                let entry = SlotEntry { state: SlotState::Open, container, class, is_damaged: false };
                self.table.set(slot, entry);
            }
            Change::Seal(slot) => self.table.change(slot, |it| SlotEntry { state: SlotState::Sealed, ..it }),
            Change::Condemn(slot) => {
                self.table.change(slot, |it| SlotEntry { state: SlotState::Condemned, ..it });
            }
            Change::Destroyed(slot) => self.table.set(slot, FREE),
            Change::Damaged(slot) => self.table.change(slot, |it| SlotEntry { is_damaged: true, ..it }),
            _ => {}
        }
        self.state.apply(change);
    }

    fn replay(&mut self, changes: &[Change]) -> Result<(), CatalogError> {
        let is_within = |change: &Change| change.slots().iter().all(|slot| slot.0 < self.layout.slots);
        if !changes.iter().all(is_within) {
            return Err(CatalogError::Damaged("a record names a slot beyond the last one"));
        }
        changes.iter().for_each(|change| self.apply(change));
        Ok(())
    }

    /// Writes the pages of the table that have changed, then everything else as a snapshot into the other half.
    fn turn(&mut self) -> Result<(), CatalogError> {
        let [first, second] = self.table.take_writes(self.layout, self.log.next_generation());
        for (pos, page) in first {
            self.medium.write(pos, &page, false)?;
        }
        self.medium.sync()?;
        let mut changes = self.state.changes();
        changes.push(Change::Pages(self.table.generations()));
        let (old, frame) = self.log.turn(&state::encode(&changes));
        assert!(frame.1.len() as u64 <= self.layout.half_bytes, "a snapshot outgrew its half");
        self.medium.write(frame.0, &frame.1, true)?;
        if let Some((pos, mark)) = old {
            self.medium.write(pos, &mark, true)?;
        }
        // No snapshot relies on the older pages any more. The next turn syncs these.
        for (pos, page) in second {
            self.medium.write(pos, &page, false)?;
        }
        Ok(())
    }
}

fn decode(frame: &Frame) -> Result<Vec<Change>, CatalogError> {
    state::decode(&frame.records).ok_or(CatalogError::Record { frame: frame.number })
}

/// Bytes that one frame may take besides the snapshot.
const FRAME_ROOM: u64 = 4096;

impl std::fmt::Debug for Catalog<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Catalog").field("layout", &self.layout).field("state", &self.state).finish()
    }
}
