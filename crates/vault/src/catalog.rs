//! The catalog: all that a vault must not lose in a crash, besides the chunks themselves. Snapshots, slots, obligations,
//! the sanitization that is under way.
//!
//! One small medium has a log in two halves, and the table of slots, of which each page has two places (the format, byte by byte:
//! `docs/formats/vault.md`). A name or a content is never written here: it could not be destroyed.
//!
//! Invariants:
//! 1. A frame is durable before the next one is written, so that only the last can be torn. An
//!    invalid frame with a valid one of the same generation behind it is damage, and is refused.
//! 2. A half is overwritten only after the snapshot in the other one is durable. The pages of the table that have changed are durable
//!    before the snapshot that relies on them, and are not written where the older snapshot's lie.
//! 3. A write that fails latches: the catalog takes no change after it.

mod layout;
mod log;
mod state;
mod table;

#[cfg(test)]
mod tests;

pub use layout::{HeadError, Layout, SLOTS_MAX};
pub(crate) use state::hold_bytes;
pub use state::{Change, IndexPart, LogHead, Numbers, Owed, Receipt, State};
pub use table::{SlotEntry, SlotState, Table};

use log::{Frame, FrameKind, Log};
use quietus_core::medium::{Medium, MediumError};

use table::FREE;

/// Why the catalog cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CatalogError {
    /// The medium fails.
    #[error("vault catalog: {0}")]
    Medium(#[from] MediumError),
    /// The head is not one.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A record that this program does not know, or no record at all.
    #[error("vault catalog: unknown record in frame {frame}; use the quietus that wrote it")]
    Record {
        /// The number of the frame.
        frame: u64,
    },
    /// Bytes were changed, or a write was lost.
    #[error("vault catalog: damaged ({0}); restore the file from a copy")]
    Damaged(&'static str),
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
}

impl<'m> Catalog<'m> {
    /// A catalog of an empty vault, durable on `medium`.
    ///
    /// # Errors
    ///
    /// [`CatalogError`] if the medium fails, or the layout cannot be.
    pub fn create(medium: &'m dyn Medium, layout: Layout) -> Result<Catalog<'m>, CatalogError> {
        layout.check()?;
        medium.write(layout.head(), &layout.to_bytes(), false)?;
        let table = Table::new(layout.slots);
        let log = Log::new(layout);
        let mut catalog = Catalog { medium, layout, log, table, state: State::default(), is_broken: false };
        catalog.turn()?;
        Ok(catalog)
    }

    /// The catalog on `medium`, as the last frame that was durable left it.
    ///
    /// # Errors
    ///
    /// [`CatalogError`]. A last frame that is torn is no error: nothing relied on it.
    pub fn open(medium: &'m dyn Medium) -> Result<Catalog<'m>, CatalogError> {
        let layout = layout::read(medium)?;
        let (log, frames) = log::scan(medium, layout)?;
        let first = frames.first().map_or(0, |frame| frame.generation);
        let table = Table::read(medium, layout, first)?;
        let mut catalog = Catalog { medium, layout, log, table, state: State::default(), is_broken: false };
        frames.iter().try_for_each(|frame| catalog.replay(frame))?;
        catalog.turn()?;
        Ok(catalog)
    }

    /// The sizes, and whose catalog it is.
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

    /// Makes changes durable, all or none of them.
    ///
    /// # Errors
    ///
    /// [`CatalogError`]; which of them are durable is not known then, and all later commits fail.
    pub fn commit(&mut self, changes: &[Change]) -> Result<(), CatalogError> {
        if self.is_broken {
            return Err(CatalogError::Broken);
        }
        changes.iter().for_each(|change| self.apply(change));
        let written = match self.log.append(&state::encode(changes)) {
            Some((pos, bytes)) => self.medium.write(pos, &bytes, true).map_err(CatalogError::from),
            None => self.turn(),
        };
        self.is_broken |= written.is_err();
        written
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
            Change::Seal(slot) => self.table.change(slot, SlotState::Sealed),
            Change::Condemn(slot) => self.table.change(slot, SlotState::Condemned),
            Change::Destroyed(slot) => self.table.set(slot, FREE),
            Change::Damaged(slot) => {
                self.table.set(slot, SlotEntry { is_damaged: true, ..self.table.entry(slot) });
            }
            _ => {}
        }
        self.state.apply(change);
    }

    fn replay(&mut self, frame: &Frame) -> Result<(), CatalogError> {
        let unknown = CatalogError::Record { frame: frame.number };
        let changes = state::decode(&frame.records).ok_or(unknown)?;
        let is_within = |change: &Change| change.slots().iter().all(|slot| slot.0 < self.layout.slots);
        if !changes.iter().all(is_within) {
            return Err(CatalogError::Damaged("a record names a slot beyond the last one"));
        }
        changes.iter().for_each(|change| self.apply(change));
        Ok(())
    }

    /// Writes the pages of the table that have changed, then everything else as a snapshot into the other half.
    fn turn(&mut self) -> Result<(), CatalogError> {
        let generation = self.log.next_generation();
        for (pos, page) in self.table.take_writes(self.layout, generation) {
            self.medium.write(pos, &page, false)?;
        }
        self.medium.sync()?;
        let (old, frame) = self.log.turn(&state::encode(&self.state.changes()));
        assert!(frame.1.len() as u64 <= self.layout.half_bytes, "a snapshot outgrew its half");
        self.medium.write(frame.0, &frame.1, true)?;
        if let Some((pos, mark)) = old {
            self.medium.write(pos, &mark, true)?;
        }
        Ok(())
    }
}

/// Bytes that one frame may take besides the snapshot.
const FRAME_ROOM: u64 = 4096;

impl std::fmt::Debug for Catalog<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Catalog").field("layout", &self.layout).field("state", &self.state).finish()
    }
}

/// The kind of a frame, for the log's reader.
fn is_snapshot(frame: &Frame) -> bool {
    frame.kind == FrameKind::Snapshot
}
