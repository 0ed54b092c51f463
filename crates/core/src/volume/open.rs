//! Making a disk's journal, and opening a disk after a stop or a crash.

use super::checkpoints::Checkpoints;
use super::commit::Commits;
use super::erasing::Erasing;
use super::outstanding::Outstanding;
use super::recording::Recording;
use super::requests::Requests;
use super::schedule::Schedule;
use super::{Config, Volume};
use crate::blocks::BlockSet;
use crate::journal::{
    self, Change, Crc, FrameId, HALVES_AT, Head, Journal, JournalError, Recovered, SLOT_BYTES, Shape, Slot,
    State,
};
use crate::ledger::{Cause, Due};
use crate::media::{Media, MediumId};
use crate::medium::{Capabilities, Medium, MediumError};
use crate::place::Place;
use crate::policy::Seed;
use crate::receipts::Done;
use crate::store::{self, Store, StoreError};
use crate::units::{Addr, Extent, Millis, Pos};

const VIEW_MAGIC: &[u8; 8] = b"QUIETVUE";
const VIEW_VERSION: u32 = 1;

/// What a disk needs to be opened.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How it shall behave.
    pub config: Config,
    /// The disk's identity.
    pub disk: [u8; 16],
    /// Its size in bytes.
    pub size: u64,
    /// The host's session: the same number as long as what was written to the media is on them
    /// or in a cache above them, and another one after that may have been lost.
    pub session: u64,
    /// Bytes that nobody knows, new at each opening.
    pub entropy: [u8; 32],
    /// The time.
    pub now: Millis,
    /// The last stop's checkpoint, if there was one.
    pub checkpoint: Option<Checkpoint>,
    /// Which store the disk has.
    pub store: store::Kind,
}

/// What was known at a clean stop.
#[derive(Clone, PartialEq, Debug)]
pub struct Checkpoint {
    /// Of the journal's last frame at the stop.
    pub generation: u64,
    /// Of the same frame.
    pub seq: u64,
    /// What the store knew ([`Store::view`]).
    pub store: Vec<u8>,
    /// What the watcher knew.
    pub watch: Vec<u8>,
}

/// Why a disk cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// Its journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// Its medium cannot be used.
    #[error("the medium cannot be used: {0}")]
    Medium(#[from] MediumError),
    /// Its store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Content under a conservative overwrite is not where it was put.
    #[error("content that was being kept is damaged in slot {0} of the journal: {1} bytes at {2} are lost")]
    Slot(u32, u64, u64),
    /// It was not stopped cleanly, and must be written to.
    #[error("the disk was not stopped cleanly while it kept content in the journal: serve it writable once")]
    NeedsRecovery,
}

impl Checkpoint {
    /// Its bytes, for the file `view`.
    #[must_use]
    pub fn to_bytes(&self, disk: [u8; 16]) -> Vec<u8> {
        let mut bytes = VIEW_MAGIC.to_vec();
        bytes.extend(VIEW_VERSION.to_le_bytes());
        bytes.extend(disk);
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend(self.seq.to_le_bytes());
        bytes.extend((self.watch.len() as u64).to_le_bytes());
        bytes.extend(&self.watch);
        bytes.extend(&self.store);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    /// The checkpoint of disk `disk` in these bytes, if they are whole. One
    /// that is not is no loss: what it says can be found out again.
    #[must_use]
    pub fn from_bytes(bytes: &[u8], disk: [u8; 16]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let body = body.strip_prefix(VIEW_MAGIC)?.strip_prefix(&VIEW_VERSION.to_le_bytes())?;
        let body = body.strip_prefix(&disk)?;
        let (generation, body) = body.split_first_chunk()?;
        let (seq, body) = body.split_first_chunk()?;
        let (watch_len, body) = body.split_first_chunk()?;
        let (watch, store) = body.split_at_checked(usize::try_from(u64::from_le_bytes(*watch_len)).ok()?)?;
        Some(Self {
            generation: u64::from_le_bytes(*generation),
            seq: u64::from_le_bytes(*seq),
            store: store.to_vec(),
            watch: watch.to_vec(),
        })
    }
}

impl Volume {
    /// Writes an empty journal, and says which checkpoint goes with it: `held`
    /// may hold data. `dead` lies on the medium and belongs to nobody: it reads
    /// as zeros from now on, and is destroyed.
    ///
    /// # Errors
    /// The journal's medium failed.
    pub fn format(
        journal: &dyn Medium,
        shape: Shape,
        disk: [u8; 16],
        held: Option<Extent<Addr>>,
        dead: Option<Extent<Addr>>,
    ) -> Result<Checkpoint, MediumError> {
        let mut state = State::default();
        if let Some(extent) = dead {
            state.apply(Change::Oblige(extent, Due::Shred { no_hole: false }, Cause::Creation), Millis(0));
            state.counters.died(Cause::Creation, extent.len);
        }
        let halves = vec![0; 1 << 16];
        for piece in Extent::<Pos>::between(HALVES_AT, shape.bytes()).pieces(halves.len() as u64) {
            journal.write(piece.start, &halves[..piece.len as usize], false)?;
        }
        let mut writer = Journal::resume(shape, 1, 0, 0);
        write_snapshot(journal, &mut writer, &state)?;
        journal.write(Pos(0), &Head { shape, disk }.to_bytes(), false)?;
        journal.sync()?;
        let mut blocks = BlockSet::default();
        held.into_iter().chain(dead).for_each(|extent| blocks.insert(extent));
        let FrameId { generation, seq } = writer.position();
        Ok(Checkpoint { generation, seq, store: blocks.to_bytes(), watch: Vec::new() })
    }

    /// Opens a disk: reads its journal, puts content back that was under a
    /// conservative overwrite, and says what is owed.
    ///
    /// # Errors
    /// [`OpenError`]; nothing was changed then that cannot be done again.
    pub fn open(mut opening: Opening, media: &Media<'_>) -> Result<Self, OpenError> {
        let journal = *media.journal();
        let mut found = journal::scan(journal, opening.disk, opening.size, opening.session)?;
        let shape = found.head.shape;
        let mut writer = Journal::resume(shape, found.half, found.generation, found.seq);
        let stopped_at = (found.generation, found.seq);
        opening.checkpoint.take_if(|it| (it.generation, it.seq) != stopped_at);
        let asked = store::Opening {
            kind: &opening.store,
            disk: opening.disk,
            size: opening.size,
            kept: opening.checkpoint.as_ref().map(|it| it.store.as_slice()),
            secure: !opening.config.policy.passes().is_empty(),
            read_only: opening.config.read_only,
            owed: &mut found.state.owed,
        };
        let store::Opened { mut store, knows_holes, unsaid } = store::open(asked, media)?;
        let fresh = (!knows_holes).then(BlockSet::default);
        for (block, cause) in unsaid {
            let place = Place { on: MediumId::Base, extent: Extent::new(block.start.0, block.len) };
            found.state.apply(Change::Paid(place), Millis(0));
            found.state.apply(Change::Oblige(block, Due::Shred { no_hole: false }, cause), Millis(0));
        }
        if opening.config.read_only {
            if !found.state.slots.held.is_empty() {
                return Err(OpenError::NeedsRecovery);
            }
        } else {
            settle_overwritten(&mut found.state, *media.data())?;
            restore(&mut found, &mut *store, media)?;
            found.state.slots.dirty |= slots_hold_something(shape, journal)?;
            erase_slots(&mut found, &mut writer, &opening, journal)?;
            write_snapshot(journal, &mut writer, &found.state)?;
        }
        let capabilities = media.data().capabilities();
        Ok(Self::assemble(opening, found, writer, store, fresh, capabilities))
    }

    fn assemble(
        opening: Opening,
        found: Recovered,
        journal: Journal,
        store: Box<dyn Store>,
        fresh: Option<BlockSet>,
        capabilities: Capabilities,
    ) -> Self {
        let receipts = found.state.counters.receipts;
        let recording = Recording::resume(receipts - found.state.receipts.len() as u64, receipts);
        Self {
            store,
            state: found.state,
            commits: Commits::new(journal, recording),
            outstanding: Outstanding::default(),
            requests: Requests::default(),
            erasing: Erasing::new(opening.entropy, capabilities, fresh, opening.now),
            checkpoints: Checkpoints::default(),
            schedule: Schedule::new(opening.now),
            latched: None,
            watching: None,
            watch_view: opening.checkpoint.map_or_else(Vec::new, |it| it.watch),
            config: opening.config,
        }
    }
}

/// What the guest wrote over dead bytes before the server was killed is in the host's cache: a
/// sync makes it durable, and meets the obligations.
fn settle_overwritten(state: &mut State, data: &dyn Medium) -> Result<(), MediumError> {
    if !state.ledger.has_overwritten() {
        return Ok(());
    }
    data.sync()?;
    state.ledger.begin_sync();
    for run in state.ledger.synced() {
        state.apply(Change::Meet(run, Done::Overwritten, 1), Millis(0));
        state.counters.destroyed_bytes += run.len;
    }
    Ok(())
}

/// Puts content back that was being kept when the disk stopped. Where it has no
/// place any more, it was not durable, and nobody was told so.
fn restore(found: &mut Recovered, store: &mut dyn Store, media: &Media<'_>) -> Result<(), OpenError> {
    if found.state.slots.held.is_empty() {
        return Ok(());
    }
    let journal = *media.journal();
    for (slot, (extent, crc)) in &found.state.slots.held {
        let mut content = vec![0; extent.len as usize];
        journal.read(found.head.shape.slot(*slot), &mut content)?;
        if Crc(crc32c::crc32c(&content)) != *crc {
            return Err(OpenError::Slot(slot.0, extent.len, extent.start.0));
        }
        store::load(store, *extent, media)?;
        store.locate(*extent).write(&content, |place, part| match place.on {
            MediumId::Data => media.data().write(place.extent.start, part, false),
            _ => Ok(()),
        })?;
    }
    media.data().sync()?;
    let extents: Vec<_> = found.state.slots.held.values().map(|(extent, _)| *extent).collect();
    found.state.apply(Change::Release, Millis(0));
    for extent in extents {
        // Some passes may be missing below what was put back just now.
        found.state.apply(Change::Oblige(extent, Due::Scour, Cause::Scour), Millis(0));
    }
    Ok(())
}

/// Whether content was put into the slots, perhaps without a note of it: the
/// note comes after the content, and a crash or a failure between the two.
fn slots_hold_something(shape: Shape, journal: &dyn Medium) -> Result<bool, MediumError> {
    let mut bytes = vec![0; (u64::from(shape.slots) * SLOT_BYTES) as usize];
    journal.read(shape.slot(Slot(0)), &mut bytes)?;
    Ok(bytes.iter().any(|byte| *byte != 0))
}

/// Destroys what the slots may hold. The journal still says that they are held,
/// until the next snapshot: so that comes first, if content was put back.
fn erase_slots(
    found: &mut Recovered,
    writer: &mut Journal,
    opening: &Opening,
    journal: &dyn Medium,
) -> Result<(), OpenError> {
    if !found.state.slots.dirty {
        return Ok(());
    }
    let shape = found.head.shape;
    write_snapshot(journal, writer, &found.state)?;
    let mut bytes = vec![0; (u64::from(shape.slots) * SLOT_BYTES) as usize];
    for pattern in opening.config.policy.passes() {
        pattern.fill(Seed { entropy: opening.entropy, nonce: 0 }, &mut bytes);
        journal.write(shape.slot(Slot(0)), &bytes, false)?;
        journal.sync()?;
    }
    found.state.apply(Change::Clean, Millis(0));
    Ok(())
}

fn write_snapshot(journal: &dyn Medium, writer: &mut Journal, state: &State) -> Result<(), MediumError> {
    let commit = writer.commit(state);
    journal.write(commit.pos, &commit.bytes, true)?;
    match commit.mark {
        Some((pos, mark)) => journal.write(pos, &mark, false),
        None => Ok(()),
    }
}
