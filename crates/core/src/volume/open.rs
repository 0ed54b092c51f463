//! Making a disk's journal; opening a disk after a stop or a crash.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Millis, Pos};
use crate::base::zeros::is_zeros;
use crate::erase::policy::Seed;
use crate::media::cipher;
use crate::media::medium::{Capabilities, Medium, MediumError};
use crate::media::place::Place;
use crate::media::{Media, MediaTable, MediumId};
use crate::mutant::{self, Mutant};
use crate::owed::journal;
use crate::owed::journal::{
    Change, Crc, FrameId, HALVES_AT, Head, Journal, JournalError, Recovered, SLOT_BYTES, Shape, Slot, State,
};
use crate::owed::ledger::{Cause, Due};
use crate::store::{self, Content, Destruction, Keyed, Store, StoreError};
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Checkpoints;
use crate::volume::disk::commit::Commits;
use crate::volume::disk::older::owe_below_suspicious;
use crate::volume::disk::outstanding::Outstanding;
use crate::volume::disk::overwriting::Overwriting;
use crate::volume::disk::purging::Purging;
use crate::volume::disk::recording::Recording;
use crate::volume::disk::remaining::Remaining;
use crate::volume::disk::schedule::Schedule;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::restaging::restaged;
use crate::volume::requests::Requests;
use crate::volume::requests::past::epochs::Closes;
use crate::volume::watching::Watching;
use crate::volume::{Config, Volume};

const VIEW_MAGIC: &[u8; 8] = b"QUIETVUE";
const VIEW_VERSION: u32 = 2;

/// The parameters of a disk.
#[derive(Clone, Debug)]
pub struct Opening {
    /// How the volume behaves.
    pub config: Config,
    /// The disk's identity.
    pub disk: [u8; 16],
    /// The size of the disk, in bytes.
    pub size: u64,
    /// The host's session. The number stays the same as long as everything written to the media is on them
    /// or in a cache above them; after a possible loss of that cache the number is another one.
    pub session: u64,
    /// Secret random bytes, new at each opening.
    pub entropy: [u8; 32],
    /// The time.
    pub now: Millis,
    /// The view that the last stop left, if that was a clean one.
    pub checkpoint: Option<Checkpoint>,
    /// Which store the disk has.
    pub store: store::Kind,
}

/// The state that a clean stop keeps for the next start.
#[derive(Clone, PartialEq, Debug)]
pub struct Checkpoint {
    /// The generation of the journal's last frame at the stop.
    pub generation: u64,
    /// The number of that frame.
    pub seq: u64,
    /// The view of the store ([`Store::view`]).
    pub store: Vec<u8>,
    /// The view of the watcher.
    pub watch: Vec<u8>,
}

/// Why a disk cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum OpenError {
    /// The journal cannot be used.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The medium cannot be used.
    #[error("the medium cannot be used: {0}")]
    Medium(#[from] MediumError),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A staging slot of the journal does not have the content that was put there.
    #[error("content that was being kept is damaged in slot {0} of the journal: {1} bytes at {2} are lost")]
    Slot(u32, u64, u64),
    /// The journal is older than the last clean stop.
    #[error(
        "the journal ends with frame {} of generation {}, and the last stop left it with frame {} of generation {}: what died since \
         would come back. If one byte of its last frame is wrong, `quietus repair` mends it. If not, the journal is of another time: \
         put back the one that the last stop left, or restore the whole disk, with its root, as it was at one time; without them the \
         disk is lost. If the journal is right, and only the file `view` is of another time, remove `view`",
        .found.1, .found.0, .stopped.1, .stopped.0
    )]
    OlderJournal {
        /// Generation and number of the last frame that can be read.
        found: (u64, u64),
        /// The same at the stop.
        stopped: (u64, u64),
    },
    /// The last stop was not clean, and the disk has to be written to.
    #[error("the disk was not stopped cleanly while it kept content in the journal: serve it writable once")]
    NeedsRecovery,
}

impl OpenError {
    /// The failure of a medium, if that is what is wrong.
    #[must_use]
    pub fn medium(&self) -> Option<&MediumError> {
        match self {
            Self::Medium(error) | Self::Journal(JournalError::Medium(error)) => Some(error),
            Self::Store(error) => error.medium(),
            _ => None,
        }
    }
}

impl Checkpoint {
    /// The bytes of the file `view`.
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

    /// The checkpoint of disk `disk` in these bytes, if they are whole. Losing a checkpoint costs time only:
    /// a start finds out the same from the media.
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
    /// Writes an empty journal; returns the checkpoint that goes with it. The bytes `allocated` may hold
    /// data. The bytes `dead` are on the medium and belong to no file system: they read as zeros from now on, and
    /// are destroyed.
    ///
    /// # Errors
    /// The journal's medium failed.
    pub fn format(
        journal: &dyn Medium,
        shape: Shape,
        disk: [u8; 16],
        allocated: Option<Extent<Addr>>,
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
        allocated.into_iter().chain(dead).for_each(|extent| blocks.insert(extent));
        let FrameId { generation, seq } = writer.position();
        Ok(Checkpoint { generation, seq, store: blocks.to_bytes(), watch: Vec::new() })
    }

    /// Opens a disk: reads its journal, and puts staged content back in its place.
    ///
    /// # Errors
    /// [`OpenError`]. After an error the same call can be made again.
    pub fn open(mut opening: Opening, media: &Media<'_>) -> Result<Self, OpenError> {
        let journal = *media.journal();
        let mut found = journal::scan(journal, opening.disk, opening.size, opening.session)?;
        let shape = found.head.shape;
        let mut writer = Journal::resume(shape, found.half, found.generation, found.seq);
        let stopped_at = (found.generation, found.seq);
        if let Some(kept) = opening.checkpoint.as_ref().filter(|it| (it.generation, it.seq) > stopped_at)
            && !mutant::is(Mutant::BelieveOldJournal)
        {
            return Err(OpenError::OlderJournal { found: stopped_at, stopped: (kept.generation, kept.seq) });
        }
        opening.checkpoint.take_if(|it| (it.generation, it.seq) != stopped_at);
        let staged: Vec<_> = found.state.slots.staged.values().map(|(extent, _)| *extent).collect();
        let asked = store::Opening {
            kind: &opening.store,
            disk: opening.disk,
            size: opening.size,
            kept: opening.checkpoint.as_ref().map(|it| it.store.as_slice()),
            policy: &opening.config.policy,
            read_only: opening.config.read_only,
            memory_bytes: opening.config.store_bytes_max,
            entropy: &mut opening.entropy,
            keys: found.state.keys,
            staged: &staged,
            owed: &mut found.state.owed,
        };
        let store::Opened { mut store, knows_holes, unsaid } = store::open(asked, media)?;
        let fresh = (!knows_holes).then(BlockSet::default);
        for (block, cause) in unsaid {
            let place = Place { on: MediumId::Base, extent: Extent::new(block.start.0, block.len) };
            found.state.apply(Change::ClearPlace(place), Millis(0));
            // The last block may be shorter than its place.
            let dead = Extent::between(block.start.0, block.end().min(opening.size));
            found.state.apply(Change::Oblige(dead, Due::Shred { no_hole: false }, cause), Millis(0));
        }
        if opening.config.read_only {
            if !found.state.slots.staged.is_empty() {
                return Err(OpenError::NeedsRecovery);
            }
        } else {
            restore(&mut found, &mut *store, media)?;
            if store.keyed().is_none() && media.data().capabilities().erases {
                owe_below_suspicious(&mut found.state);
            }
            if let Some(position) = store.keyed().map(|it| it.position()) {
                found.state.apply(Change::Keys(position), Millis(0));
            }
            found.state.slots.dirty |= slots_have_content(shape, journal)?;
            erase_slots(&mut found, &mut writer, &opening, journal)?;
            write_snapshot(journal, &mut writer, &found.state)?;
        }
        let capabilities = media.view(|medium| medium.capabilities());
        Ok(Self::assemble(opening, found, writer, store, fresh, capabilities))
    }

    fn assemble(
        opening: Opening,
        found: Recovered,
        journal: Journal,
        store: Box<dyn Store>,
        fresh: Option<BlockSet>,
        capabilities: MediaTable<Capabilities>,
    ) -> Self {
        let slots = &found.state.slots;
        let has_copies = slots.dirty || !slots.staged.is_empty();
        assert!(
            opening.config.read_only || !has_copies,
            "staged content is back in its place, and its copies are gone"
        );
        assert!(found.state.slots.staged.is_empty(), "staged content is back before the disk is served");
        let (geometry, same_place) = (store.geometry(), store.same_place());
        assert!(geometry.size == opening.size, "a store opens the disk that it was asked for");
        let units = [geometry.write_bytes, geometry.death_bytes];
        assert!(units.into_iter().all(|it| it <= geometry.block_bytes), "a block has a place as a whole");
        assert!(
            geometry.block_bytes == if same_place { 1 } else { BLOCK_BYTES },
            "places are of whole blocks"
        );
        let destroys_in_place = store.destruction() == Destruction::InPlace;
        assert!(destroys_in_place == same_place, "dead content stays where no content leaves its place");
        let has_keys = store.destruction() == Destruction::Rekeyed;
        assert!(has_keys == store.keyed().is_some(), "what dies with its key has one");
        let receipts = found.state.counters.receipts;
        assert!(found.state.receipts.len() as u64 <= receipts, "each receipt that waits was counted");
        // A death that the store does not know yet is of the open epoch.
        let is_new = |(extent, _)| store.first(Content::Own, extent).is_some();
        let has_dead = found.state.ledger.dead().iter().any(is_new);
        let has_changed = store.epochs().is_some_and(|it| it.has_changed() || has_dead);
        let recording = Recording::resume(receipts - found.state.receipts.len() as u64, receipts);
        let forgets = found.state.forgets.clone();
        let erasing = Erasing::new(opening.entropy, fresh, opening.now);
        let mut disk = Disk {
            store,
            state: found.state,
            remaining: Remaining::default(),
            commits: Commits::new(journal, recording),
            overwriting: Overwriting::new(opening.now),
            purging: Purging::default(),
            checkpoints: Checkpoints::default(),
            outstanding: Outstanding::default(),
            schedule: Schedule::new(opening.now),
            latched: None,
            capabilities,
            config: opening.config,
        };
        forgets.into_iter().for_each(|forget| disk.resume_forget(forget));
        Self {
            disk,
            requests: Requests { closes: Closes::new(has_changed), ..Requests::default() },
            erasing,
            watching: Watching::new(opening.checkpoint.map_or_else(Vec::new, |it| it.watch)),
        }
    }
}

/// Puts staged content back in its place. Content without a place was not durable before the stop, and
/// no request was answered as if it had been.
fn restore(found: &mut Recovered, store: &mut dyn Store, media: &Media<'_>) -> Result<(), OpenError> {
    if found.state.slots.staged.is_empty() {
        return Ok(());
    }
    if store.keyed().is_some() {
        return restore_ciphertext(found, store, media);
    }
    let journal = *media.journal();
    for (slot, (extent, crc)) in &found.state.slots.staged {
        assert!(extent.len <= SLOT_BYTES, "a scan refuses content that is longer than its slot");
        let mut content = vec![0; extent.len as usize];
        journal.read(found.head.shape.slot(*slot), &mut content)?;
        if Crc(crc32c::crc32c(&content)) != *crc {
            return Err(OpenError::Slot(slot.0, extent.len, extent.start.0));
        }
        store::load(store, *extent, media)?;
        store.locate(*extent).write::<MediumError>(&mut content.into(), None, |place, part| {
            match place.on {
                MediumId::Data => media.data().write(place.extent.start, part, false),
                _ => Ok(()),
            }
        })?;
    }
    media.data().sync()?;
    let extents: Vec<_> = found.state.slots.staged.values().map(|(extent, _)| *extent).collect();
    found.state.apply(Change::Release, Millis(0));
    for extent in extents {
        // Some passes may be missing below the content that was put back.
        found.state.apply(
            Change::Oblige(extent, Due::ConservativeOverwrite, Cause::ConservativeOverwrite),
            Millis(0),
        );
    }
    Ok(())
}

/// Puts staged ciphertext back in its place: it lies under the prepared keys of its blocks, which are in use from then on. So what was
/// dead there, or below, dies with the old keys.
fn restore_ciphertext(
    found: &mut Recovered,
    store: &mut dyn Store,
    media: &Media<'_>,
) -> Result<(), OpenError> {
    let (journal, staged) = (*media.journal(), found.state.slots.staged.clone());
    for (slot, (extent, crc)) in &staged {
        let mut bytes = vec![0; extent.len.next_multiple_of(cipher::SECTOR_BYTES) as usize];
        assert!(bytes.len() as u64 <= SLOT_BYTES, "a scan refuses content that is longer than its slot");
        journal.read(found.head.shape.slot(*slot), &mut bytes)?;
        if Crc(crc32c::crc32c(&bytes)) != *crc {
            return Err(OpenError::Slot(slot.0, extent.len, extent.start.0));
        }
        media.data().write(Pos(extent.start.0), &bytes, false)?;
        keyed(store).activate(*extent);
    }
    while let Some((places, bytes)) = keyed(store).log() {
        for (place, part) in places.parts() {
            let medium = media.get(place.on).ok_or(StoreError::NoMedium(place.on))?;
            medium.write(place.extent.start, &bytes[part], false)?;
        }
    }
    let map = media.get(MediumId::Map).ok_or(StoreError::NoMedium(MediumId::Map))?;
    media.data().sync()?;
    map.sync()?;
    found.state.apply(Change::Release, Millis(0));
    for (block, _) in staged.into_values() {
        restaged(&found.state, block, &[])
            .into_iter()
            .for_each(|change| found.state.apply(change, Millis(0)));
    }
    Ok(())
}

fn keyed(store: &mut dyn Store) -> &mut dyn Keyed {
    store.keyed_mut().expect("what has staged ciphertext has keys")
}

/// Whether the slots have content, also where the journal does not say so: a crash can come between the
/// content and its record.
fn slots_have_content(shape: Shape, journal: &dyn Medium) -> Result<bool, MediumError> {
    let mut bytes = vec![0; (u64::from(shape.slots) * SLOT_BYTES) as usize];
    journal.read(shape.slot(Slot(0)), &mut bytes)?;
    Ok(!is_zeros(&bytes))
}

/// Destroys the content of the slots. The journal says that they are in use until the next snapshot; so a
/// snapshot comes first, if content was put back.
fn erase_slots(
    found: &mut Recovered,
    writer: &mut Journal,
    opening: &Opening,
    journal: &dyn Medium,
) -> Result<(), OpenError> {
    if !found.state.slots.dirty {
        return Ok(());
    }
    assert!(found.state.slots.staged.is_empty(), "content is back before its copy is destroyed");
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
    let (frame, halves) = (Extent::new(commit.pos.0, commit.bytes.len() as u64), writer.shape().halves());
    assert!(frame.overlap(halves) == Some(frame), "a frame leaves the head, the slots and the notes alone");
    journal.write(commit.pos, &commit.bytes, true)?;
    match commit.mark {
        Some((pos, mark)) => journal.write(pos, &mark, false),
        None => Ok(()),
    }
}
