//! Opening the store: the head of the index, what the log of stubs says after it, and what the journal owes.

mod damaged;
pub(super) mod mending;
pub(super) mod rebuilding;
mod time;

use super::catalog::Catalog;
use super::positions::outline;
use super::stubs::{self, HomePage, SECTOR_BYTES, Sector, StubsError, bytes_at};
use super::{Setup, Versions};
use crate::base::blocks::BlockSet;
use crate::base::cell;
use crate::base::cell::Cells;
use crate::base::units::{BLOCK_BYTES, Block, Epoch, Extent, Pos, Slot};
use crate::base::zeros::is_zeros;
use crate::erase::policy::{Pattern, Policy, Seed};
use crate::media::MediumId;
use crate::media::medium::{Keep, Medium, MediumError, MediumErrorKind};
use crate::media::place::Place;
use crate::mutant::{self, Mutant};
use crate::owed::Owed;
use crate::store::Opening;
use crate::store::versions::forget::forgetting::Forgetting;
use crate::store::versions::forget::killing::Killing;
use crate::store::versions::index::history::{Forget, Forgotten, WallTime};
use crate::store::versions::index::key;
use crate::store::versions::index::lingering::Lingering;
use crate::store::versions::space::room::Room;
use crate::store::versions::stubs::root;
use crate::store::versions::stubs::root::{ROOT_BYTES, RootError, cells_end};
use crate::store::versions::stubs::sessions::Sessions;
use crate::tree::{Absent, Head, HeadError, PAGE_BYTES, PageError};
pub(super) use damaged::{page, pages};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
pub(super) use time::{Heads, view};
use time::{View, head_to_seal};

/// Most blocks that are overwritten at once.
const PASS_MAX: u64 = 256;

/// Why the store cannot be opened.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum VersionsError {
    /// A medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The index has no usable head.
    #[error(transparent)]
    Head(#[from] HeadError),
    /// A page of the index is damaged.
    #[error(
        "{0}; run `quietus repair` to rebuild the page from what the stubs' records and the other pages say, or serve what is left \
         with `--read-only`"
    )]
    Page(#[from] PageError),
    /// The root cannot be used.
    #[error(transparent)]
    Root(#[from] RootError),
    /// The stub medium cannot be used.
    #[error(transparent)]
    Stubs(#[from] StubsError),
    /// The newer head of the index is damaged, and commits follow that only that head leads to.
    #[error(
        "both copies of the newer head of the index, at byte {at} of it, are damaged, and sectors {from} to {to} of the log of stubs follow that \
         head: with the older one, what they committed would be lost; restore the index from a copy that is as new, or index, stubs, \
         root and data together from a backup; a read-only start shows the state before"
    )]
    OldHead {
        /// Where the damaged head lies.
        at: u64,
        /// The number of the first sector that would be lost.
        from: u64,
        /// The number of the last one.
        to: u64,
    },
    /// The index is older than the last clean stop.
    #[error(
        "the newest whole head of the index has generation {found}, and the last stop left generation {stopped}: the index is of \
         another time than the disk's directory, or its newest head is damaged; a start that writes would bring forgotten epochs \
         back and lose others. Run `quietus repair`, or restore directory, index, stubs, root and data together from a backup; \
         `--read-only` shows what is there"
    )]
    OlderIndex {
        /// The generation of the newest whole head.
        found: u64,
        /// The generation at the stop.
        stopped: u64,
    },
    /// A head is lost, and nothing says whether it was the newer one.
    #[error(
        "both copies of the head at byte {at} of the index are damaged, and after a crash nothing says whether that was the newer \
         head: run `quietus repair`, or restore index, stubs, root and data together from a backup; `--read-only` shows the state \
         of the other head"
    )]
    LostHead {
        /// Where the damaged head lies.
        at: u64,
    },
    /// A sector in the middle of the log is damaged.
    #[error(
        "sector {sequence} of the log of stubs, at byte {at} of the stub medium, is damaged, and durable commits up to sector {to} \
         lie there and behind it: they would be lost; restore the stub medium from a copy that is as new, or index, stubs, root and \
         data together from a backup; a read-only start shows the state before"
    )]
    DamagedSector {
        /// Where the sector lies.
        at: u64,
        /// The number of the sector.
        sequence: u64,
        /// The number of the last sector that was durable for sure.
        to: u64,
    },
    /// Too much is damaged to rebuild the index.
    #[error(
        "the index cannot be rebuilt without a guess: {0}; restore index, stubs, root and data together from a backup, or export \
         what can be read: `quietus serve --read-only`"
    )]
    Undecided(String),
    /// The caller did not want to go on.
    #[error("interrupted; nothing was changed")]
    Interrupted,
    /// The head of the index makes no sense.
    #[error("the index notes no valid place in the log of stubs; restore index, stubs and data together")]
    Note,
    /// A medium is shorter than what the index says lies there.
    #[error(
        "{found} bytes long, and at least {needed} bytes are in use: it was cut short, or is older than the rest; restore it from a copy \
         that is as new, or index, stubs, root and data together from a backup; a read-only start shows what is left"
    )]
    Short {
        /// The medium.
        on: MediumId,
        /// Its bytes.
        found: u64,
        /// The bytes that it has to have at least.
        needed: u64,
    },
    /// The number of this opening's session was given out before.
    #[error(
        "session {session} was begun before: the index notes {noted} sessions; put back the newest key file of this disk"
    )]
    SessionTaken {
        /// The number that this opening was to have.
        session: u32,
        /// How many sessions the index notes.
        noted: u32,
    },
    /// The log names a session that the key file lacks.
    #[error(
        "the log of stubs names session {session}, which the key file lacks: the key file is older than the disk; put back the \
         newest key file of this disk"
    )]
    NoSession {
        /// The number of the session.
        session: u16,
    },
}

/// The first bytes of the index medium of a new disk.
#[must_use]
pub fn format_index(disk: [u8; 16]) -> Vec<u8> {
    Head { generation: 0, roots: Vec::new(), note: Vec::new() }.to_bytes(disk)
}

/// The media that are read at the start.
struct Index<'a> {
    map: &'a dyn Medium,
    stubs: &'a dyn Medium,
    root: &'a dyn Medium,
    catalog: Catalog,
}

impl Versions {
    /// Opens the store: takes the newest head of the index and what the log says after it, frees the blocks that have
    /// left their places as the journal says ([`Opening::owed`]), and destroys what a crash left of commits.
    ///
    /// # Errors
    /// [`VersionsError`].
    pub fn open(
        setup: &Setup,
        opening: &mut Opening<'_>,
        media: [&dyn Medium; 4],
    ) -> Result<Self, VersionsError> {
        match Self::open_whole(setup, opening, media) {
            Err(VersionsError::Page(damage)) if opening.read_only => {
                Self::open_part(setup, opening, media, &damage)
            }
            opened => opened,
        }
    }

    fn open_whole(
        setup: &Setup,
        opening: &mut Opening<'_>,
        [data, map, stubs, root]: [&dyn Medium; 4],
    ) -> Result<Self, VersionsError> {
        let heads = Heads::read(map)?;
        let head = heads.newest(opening.disk)?;
        let (next, sessions) = head_to_seal(&head, setup, opening.read_only)?;
        let blocks = opening.size.div_ceil(BLOCK_BYTES);
        let kept = opening.kept.and_then(View::from_bytes);
        let mut index = Index::new((setup, sessions), opening, &next, [map, stubs, root])?;
        index.ask(Catalog::reach)?;
        // The epoch before the open one may have been closing when the head was taken.
        let closing = Epoch(index.catalog.history.open_epoch().0 - 1);
        let log = index.replay()?;
        index.drop_unclosed(closing)?;
        let mut is_torn = false;
        let rest = index.rest_of_log()?;
        if !opening.read_only {
            index.check_sessions(setup.sessions)?;
        }
        let doubt = index.check(&rest, (&heads, &head), kept.as_ref()).err();
        if let Some(doubt) = doubt.as_ref().filter(|_| !opening.read_only) {
            return Err(doubt.clone());
        }
        index.find_homes(opening)?;
        if !opening.read_only {
            map.write(Pos(head.position()), &head.to_bytes(opening.disk), true)?;
            if next != head {
                assert!(next.position() != head.position(), "the head that was found stays as it is");
                map.write(Pos(next.position()), &next.to_bytes(opening.disk), true)?;
            }
            index.make_durable(&log)?;
            is_torn = index.erase_torn(rest)?;
        }
        let was_clean = kept.is_some();
        let (lingering, allocated) = match kept {
            Some(view) => (view.lingering, view.allocated),
            None => (Lingering::unknown(index.catalog.history.open_epoch()), index.allocated(blocks)?),
        };
        index.catalog.lingering = lingering;
        if setup.layout.stub_bytes == 0 && !was_clean && !opening.read_only {
            index.erase_free(data, opening.policy, opening.entropy)?;
        }
        let owed = index.owed(opening.owed)?;
        let mut killing = Killing::new(data.capabilities().punch, setup.layout.stub_bytes > 0);
        killing.stopped = doubt.map(|doubt| doubt.to_string());
        let mut versions = Self::with(opening.size, index.catalog, allocated, killing);
        // The half with parts of commits is to be turned away from, and destroyed.
        versions.committing.wants_index = is_torn;
        for (slot, found) in owed {
            versions.adopt_owed(slot, found);
        }
        if !was_clean && !opening.read_only {
            versions.find_spare(data.size());
        }
        Ok(versions)
    }

    fn with(size: u64, catalog: Catalog, allocated: BlockSet, killing: Killing) -> Self {
        Self {
            size,
            open: catalog.history.open_epoch(),
            undurable: catalog.history.open_epoch(),
            catalog,
            allocated,
            writing: BTreeMap::new(),
            todo: VecDeque::new(),
            stuck: None,
            committing: super::Committing::default(),
            killing,
            forgetting: Forgetting::default(),
            room: Room::default(),
        }
    }

    /// Takes over a slot that the journal owes.
    fn adopt_owed(&mut self, slot: Slot, found: Found) {
        match found {
            Found::Shown(block) => {
                self.free(block, self.open);
            }
            Found::Owed | Found::Kept => {
                self.killing.leaves(slot);
                self.killing.decided(slot, found == Found::Owed);
            }
        }
        self.killing.named(slot..Slot(slot.0 + 1));
    }
}

/// The index's answer about a slot that the journal owes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found {
    /// This block still shows the slot: the change that freed the block was not durable.
    Shown(Block),
    /// No epoch shows it.
    Owed,
    /// A kept epoch shows it.
    Kept,
}

impl<'a> Index<'a> {
    /// The index that `head` names, of which nothing was looked at.
    fn new(
        (setup, sessions): (&Setup, Sessions),
        opening: &mut Opening<'_>,
        head: &Head,
        [map, stubs, root]: [&'a dyn Medium; 3],
    ) -> Result<Self, VersionsError> {
        let blocks = opening.size.div_ceil(BLOCK_BYTES);
        check_length(stubs, MediumId::Stubs, setup.layout.homes().0)?;
        check_length(root, MediumId::Root, ROOT_BYTES)?;
        stubs::check_medium(stubs, opening.disk)?;
        let cells = (root::open(root, opening.disk)?, Cells::split_off(opening.entropy));
        let catalog = Catalog::open(opening.disk, blocks, setup.layout, head, (sessions, cells));
        let mut catalog = catalog.ok_or(VersionsError::Note)?;
        catalog.limit(opening.memory_bytes);
        Ok(Self { map, stubs, root, catalog })
    }

    /// Asks the catalog, and reads what is absent, until there is an answer.
    fn ask<T>(&mut self, mut ask: impl FnMut(&mut Catalog) -> Result<T, Absent>) -> Result<T, VersionsError> {
        loop {
            match ask(&mut self.catalog) {
                Ok(answer) => return Ok(answer),
                Err(Absent(absent)) => {
                    check_length(self.map, MediumId::Map, absent.position() + PAGE_BYTES as u64)?;
                    self.catalog.page_loaded(absent, &page(self.map, absent)?)?;
                }
            }
        }
    }

    /// Replays the log up to the first sector that is not whole. Returns all that was replayed.
    fn replay(&mut self) -> Result<Vec<u8>, VersionsError> {
        let mut log = Vec::new();
        while let Some((at, bytes, sector)) = next_sector(&self.catalog, self.stubs)? {
            let mut done = 0;
            self.ask(|catalog| catalog.replay(at, &sector, &mut done))?;
            log.extend(bytes);
        }
        Ok(log)
    }

    /// The current half of the log behind all that was replayed: where that begins, and its bytes.
    fn rest_of_log(&self) -> Result<(Pos, Vec<u8>), MediumError> {
        let end = self.catalog.current_half().end();
        let start = self.catalog.next_sector().map_or(end, |next| next.extent.start.0);
        Ok((Pos(start), self.stubs_in(Extent::between(start, end))?))
    }

    fn stubs_in(&self, part: Extent<Pos>) -> Result<Vec<u8>, MediumError> {
        bytes_at(self.stubs, part.start, part.len as usize)
    }

    /// Drops the epochs from `first` on whose closes a crash cut off, though a change of the next one was durable: some
    /// of their own changes may be missing, and no request was answered for them. Their numbers are not used again.
    fn drop_unclosed(&mut self, first: Epoch) -> Result<(), VersionsError> {
        let mut from = first;
        while let Some((epoch, end)) = self.ask(|catalog| catalog.history.kept_at_or_after(from))? {
            if end.when == WallTime(0) && !mutant::is(Mutant::KeepUnclosed) {
                let mut forget = Forget::new(epoch, epoch);
                let mut step = |catalog: &mut Catalog| catalog.forget_step(|it| it.forget_step(&mut forget));
                while self.ask(&mut step)? != Forgotten::All {}
            }
            from = Epoch(epoch.0 + 1);
        }
        Ok(())
    }

    /// Finds the cells of the homes, and what a crash may have left of them.
    fn find_homes(&mut self, opening: &Opening<'_>) -> Result<(), VersionsError> {
        let Catalog { layout, homes, slots, log, .. } = &mut self.catalog;
        let layout = *layout;
        if layout.stub_bytes == 0 {
            return Ok(());
        }
        let pages = layout.page_of(Slot(slots.len())).0;
        homes.start(pages, [self.stubs, self.root], opening.read_only)?;
        let replayed: BTreeSet<_> = log.homeless(..).map(|slot| layout.page_of(slot)).collect();
        let left = self.left(opening.owed)?;
        for page in replayed {
            if !self.ask(|catalog| catalog.has_home_of_its_own(page, &left))? {
                self.catalog.homes.is_perhaps_torn(page);
            }
        }
        if opening.read_only {
            return Ok(());
        }
        for page in (0..pages).map(HomePage) {
            let is_beyond = layout.page(page).end() > self.stubs.size();
            if (!self.catalog.homes.has_cell(page) || is_beyond)
                && self.ask(|catalog| catalog.has_home_of_its_own(page, &left))?
            {
                check_length(self.root, MediumId::Root, cells_end(HomePage(page.0 + 1)).0)?;
                check_length(self.stubs, MediumId::Stubs, layout.page(page).end())?;
                return Err(RootError::NoCell { at: cells_end(page).0 }.into());
            }
        }
        if opening.kept.is_some() {
            return Ok(());
        }
        let mut owed: BTreeSet<_> = left.iter().map(|slot| layout.page_of(*slot)).collect();
        let mut from = Slot(0);
        while let Some(span) = self.ask(|catalog| catalog.history.owed_from(from))? {
            let page = layout.page_of(span.first.slot);
            owed.insert(page);
            from = layout.slots_of(page).end;
        }
        owed.retain(|page| cells_end(HomePage(page.0 + 1)).0 <= self.root.size());
        owed.into_iter().for_each(|page| self.catalog.homes.is_perhaps_stale(page));
        Ok(())
    }

    /// Writes again what was replayed: after a sync that failed, it may be in the host's cache only, and what it
    /// replaced is destroyed soon.
    fn make_durable(&self, log: &[u8]) -> Result<(), MediumError> {
        assert!(log.len() as u64 <= self.catalog.current_half().len, "what was replayed lies in one half");
        if log.is_empty() { Ok(()) } else { self.stubs.write(self.catalog.current_half().start, log, true) }
    }

    /// Writes zeros over what commits left that were never durable as a whole, so that no later start takes it for part of
    /// the log: whether there was any. Its stubs die with the cell of the half.
    fn erase_torn(&mut self, (at, mut bytes): (Pos, Vec<u8>)) -> Result<bool, VersionsError> {
        let mut sectors = bytes.chunks(SECTOR_BYTES as usize);
        if !sectors.any(|sector| self.catalog.is_torn(sector)) {
            return Ok(false);
        }
        assert_eq!(at.0 + bytes.len() as u64, self.catalog.current_half().end(), "the rest of the half goes");
        bytes.fill(0);
        self.stubs.write(at, &bytes, true)?;
        self.catalog.log.stain();
        Ok(true)
    }

    /// Destroys what a crash may have left in the free slots of a disk without stubs, and no commit names: they hold zeros then.
    fn erase_free(
        &mut self,
        data: &dyn Medium,
        policy: &Policy,
        entropy: &mut [u8; 32],
    ) -> Result<(), VersionsError> {
        let slots = data.size().div_ceil(BLOCK_BYTES);
        if data.capabilities().erases {
            let runs = self.catalog.slots.free_runs(slots).into_iter();
            let free = runs
                .map(|(from, to)| Extent::between(from * BLOCK_BYTES, (to * BLOCK_BYTES).min(data.size())));
            return Ok(data.erase(&free.collect::<Vec<_>>(), Keep::Nothing)?);
        }
        let mut seed = Seed { entropy: cell::split_off(entropy), nonce: 0 };
        let mut bytes = vec![0; (PASS_MAX * BLOCK_BYTES) as usize];
        let zeros = Pattern::zeros();
        // As after any other erase task: what is free holds zeros.
        let last = Some(&zeros).filter(|_| !policy.passes().is_empty() && !policy.leaves_zeros());
        for pattern in policy.passes().iter().chain(last) {
            for (from, to) in self.catalog.slots.free_runs(slots) {
                let run = Extent::<Pos>::between(from * BLOCK_BYTES, (to * BLOCK_BYTES).min(data.size()));
                for piece in run.pieces(PASS_MAX * BLOCK_BYTES) {
                    let bytes = &mut bytes[..piece.len as usize];
                    pattern.fill(seed, bytes);
                    seed.nonce += 1;
                    overwrite(data, piece, bytes)?;
                }
            }
            data.sync()?;
        }
        Ok(())
    }

    /// The blocks that have content now.
    fn allocated(&mut self, blocks: u64) -> Result<BlockSet, VersionsError> {
        let (mut allocated, mut from) = (BlockSet::default(), Some([0, 0]));
        while let Some(next) = from {
            let (shown, behind) = self.ask(|catalog| catalog.history.shown_from(next))?;
            let shown = shown.into_iter().filter(|block| block.0 < blocks);
            shown.for_each(|block| allocated.insert(outline(block)));
            from = behind;
        }
        Ok(allocated)
    }

    /// The slots that the journal owes, and that no kept epoch shows. What freed them need not be durable yet, and their
    /// stubs may be gone.
    fn left(&mut self, owed: &Owed) -> Result<BTreeSet<Slot>, VersionsError> {
        let mut left = BTreeSet::new();
        for (slot, block) in owed_slots(owed) {
            if !self.ask(|catalog| catalog.history.is_retired(block, slot))? {
                left.insert(slot);
            }
        }
        Ok(left)
    }

    /// The index's answer about each slot that the journal owes.
    fn owed(&mut self, owed: &Owed) -> Result<Vec<(Slot, Found)>, VersionsError> {
        owed_slots(owed).map(|(slot, block)| Ok((slot, self.found(slot, block)?))).collect()
    }

    fn found(&mut self, slot: Slot, block: Block) -> Result<Found, VersionsError> {
        let shown = self.ask(|catalog| catalog.history.shown(block, Epoch(key::NUMBER_MAX)))?;
        if shown.is_some_and(|version| version.slot == slot) {
            return Ok(Found::Shown(block));
        }
        let owed = self.ask(|catalog| catalog.history.owed_from(slot))?;
        let is_owed = owed.is_some_and(|span| span.first.slot == slot);
        Ok(if is_owed { Found::Owed } else { Found::Kept })
    }
}

/// The next sector of the log behind all that was replayed: where it lies, its bytes, and what they say. `None` at the end of the
/// log.
///
/// # Errors
/// The medium's; the sector is not under the cell of its half.
fn next_sector(
    catalog: &Catalog,
    stubs: &dyn Medium,
) -> Result<Option<(Pos, Vec<u8>, Sector)>, VersionsError> {
    let Some(Place { extent, .. }) = catalog.next_sector() else { return Ok(None) };
    let bytes = bytes_at(stubs, extent.start, extent.len as usize)?;
    match catalog.sector_to_read(&bytes) {
        Some((Sector { sequence, .. }, false)) => Err(RootError::OtherTime { sequence }.into()),
        found => Ok(found.map(|(sector, _)| (extent.start, bytes, sector))),
    }
}

/// Checks that a medium has at least so many bytes.
fn check_length(medium: &dyn Medium, on: MediumId, needed: u64) -> Result<(), VersionsError> {
    let found = medium.size();
    if found < needed { Err(VersionsError::Short { on, found, needed }) } else { Ok(()) }
}

/// The slots that the journal owes, and the blocks that left them.
fn owed_slots(owed: &Owed) -> impl Iterator<Item = (Slot, Block)> {
    owed.data().iter().flat_map(|(places, content)| {
        let slots = places.pieces(BLOCK_BYTES);
        slots.map(move |place| {
            let block = content.address(place).start.0 / BLOCK_BYTES;
            (Slot(place.start.0 / BLOCK_BYTES), Block(block))
        })
    })
}

/// Overwrites some slots. Those that the full host has no space for are holes, and have no content.
fn overwrite(data: &dyn Medium, slots: Extent<Pos>, pass: &[u8]) -> Result<(), MediumError> {
    assert_eq!(pass.len() as u64, slots.len, "a pass covers its slots");
    match data.overwrite(slots.start, pass) {
        Err(error) if error.kind == MediumErrorKind::NoSpace => slots
            .pieces(BLOCK_BYTES)
            .try_for_each(|slot| overwrite_slot(data, slot, &pass[..slot.len as usize])),
        done => done,
    }
}

fn overwrite_slot(data: &dyn Medium, slot: Extent<Pos>, pass: &[u8]) -> Result<(), MediumError> {
    assert_eq!(pass.len() as u64, slot.len, "a pass covers its slot");
    let Err(error) = data.overwrite(slot.start, pass) else { return Ok(()) };
    let bytes = bytes_at(data, slot.start, slot.len as usize)?;
    let is_hole = error.kind == MediumErrorKind::NoSpace && is_zeros(&bytes);
    if is_hole { Ok(()) } else { Err(error) }
}
