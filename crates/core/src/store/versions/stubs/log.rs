//! The log of stubs: which entries are in memory only, which are in a half of the log, and where.

use crate::base::blocks::BlockSet;
use crate::base::cell::Cell;
use crate::base::units::{Block, Epoch, Extent, Pos, Session, Slot};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::store::versions::index::span::{bytes_of, slots_of};
use crate::store::versions::positions::in_slot;
use crate::store::versions::stubs::sessions::Sessions;
use crate::store::versions::stubs::{Entry, Layout, SECTOR_BYTES, Sector};
use std::collections::btree_map::{self, BTreeMap};
use std::collections::{BTreeSet, VecDeque};
use std::iter::Peekable;
use std::ops::{Range as Slots, RangeBounds};

/// Where the stub of a version is that has no home yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum At {
    /// In memory only; a commit takes it.
    Memory,
    /// In a half of the log.
    Log,
}

/// The stub of a version that has no home yet.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Homeless {
    at: At,
    /// Whether its home may have a copy: from a checkpoint that a crash has cut short.
    may_be_home: bool,
    born: Epoch,
    session: Session,
    entry: Entry,
}

/// An entry for the next commit.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Pending {
    /// The version in this slot with this number of its sealing, if it is still wanted.
    Version(Epoch, Slot, u32),
    Other(Epoch, Entry),
}

/// A half of the log that is not written any more.
#[derive(Clone, PartialEq, Debug)]
pub(in super::super) struct Turned {
    /// The half, and whether anything was ever written under its cell.
    pub(in super::super) half: u8,
    pub(in super::super) is_used: bool,
    /// The slots of the versions whose stubs need a home.
    pub(in super::super) to_home: Vec<Slot>,
    /// The slots of versions that are owed, and whose homes may have a copy of the stub.
    pub(in super::super) at_home: Vec<Slot>,
    /// The slots of versions that are owed, and whose stubs are in the half and nowhere else.
    pub(in super::super) dying: BlockSet<Pos>,
}

/// The epoch of the next sector, its entries, and which of them are versions.
type Next = (Epoch, Vec<Entry>, Vec<Slot>);

/// The content of a half.
#[derive(Clone, Copy, Default, Debug)]
struct Filled {
    /// How many sectors are used.
    used: u64,
    /// Whether a start found parts of commits: their stubs die with the cell.
    stained: bool,
}

/// The numbers of the last sector, and of the last one that is durable with all before it.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    last: u64,
    durable: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub(in super::super) struct Log {
    layout: Layout,
    /// The half that commits go to, what is in it, and what was in the other one before the last turn.
    half: u8,
    now: Filled,
    before: Filled,
    /// The cells of the halves.
    cells: [Cell; 2],
    numbers: Numbers,
    /// The sessions of the disk, this one too.
    sessions: Sessions,
    pending: VecDeque<Pending>,
    /// How often the epoch changes in there.
    changes: u64,
    homeless: BTreeMap<Slot, Homeless>,
    /// The stubs that are owed. The homeless ones get no home, and die with their half of the log, unless their home may
    /// have a copy.
    owed: BlockSet<Pos>,
    /// The stubs that are on their way to their homes.
    moving: BTreeSet<Slot>,
}

impl Log {
    /// An empty log, whose sectors go to `half`, the first with the number after `sequence`.
    pub(in super::super) fn new(
        layout: Layout,
        half: u8,
        sequence: u64,
        (sessions, cells): (Sessions, [Cell; 2]),
    ) -> Self {
        let (pending, homeless, owed) = (VecDeque::new(), BTreeMap::new(), BlockSet::default());
        let (now, before, changes, moving) = (Filled::default(), Filled::default(), 0, BTreeSet::new());
        let numbers = Numbers { last: sequence, durable: sequence };
        Self { layout, half, now, before, cells, numbers, sessions, pending, changes, homeless, owed, moving }
    }

    /// The half that commits go to, and the number of the last sector.
    pub(in super::super) fn position(&self) -> (u8, u64) {
        (self.half, self.numbers.last)
    }

    /// The sessions of the disk, this one too.
    pub(in super::super) fn sessions(&self) -> Sessions {
        self.sessions
    }

    /// The last session that a stub without a home was sealed in.
    pub(in super::super) fn newest_session(&self) -> Option<Session> {
        self.homeless.values().map(|it| it.session).max()
    }

    /// How many sectors of the half are used or will be by the next commit, at most.
    pub(in super::super) fn sectors(&self) -> u64 {
        // Each change of the epoch begins a sector.
        self.now.used + self.pending.len() as u64 / self.layout.per_sector() as u64 + self.changes + 1
    }

    /// How many sectors a half has.
    pub(in super::super) fn sectors_max(&self) -> u64 {
        self.layout.half(0).len / SECTOR_BYTES
    }

    /// How many stubs have no home yet.
    pub(in super::super) fn len(&self) -> usize {
        self.homeless.len()
    }

    /// How many entries the next commit has.
    pub(in super::super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Adds an entry to the next commit.
    pub(in super::super) fn push(&mut self, epoch: Epoch, entry: Entry) {
        self.changes += u64::from(self.pending.back().is_some_and(|last| last.epoch() != epoch));
        let session = self.sessions.newest();
        match entry {
            Entry::Freed { block, blocks } if self.extends_freed(epoch, block, blocks) => {}
            Entry::Version { slot, number, .. } => {
                let born = epoch;
                self.homeless
                    .insert(slot, Homeless { at: At::Memory, may_be_home: false, born, session, entry });
                self.pending.push_back(Pending::Version(epoch, slot, number));
            }
            other => self.pending.push_back(Pending::Other(epoch, other)),
        }
    }

    /// Adds freed blocks to the last entry of the next commit, if they lie right behind those of that entry.
    fn extends_freed(&mut self, in_epoch: Epoch, from: Block, more: u64) -> bool {
        match self.pending.back_mut() {
            Some(Pending::Other(epoch, Entry::Freed { block, blocks }))
                if *epoch == in_epoch && block.0 + *blocks == from.0 =>
            {
                *blocks += more;
                true
            }
            _ => false,
        }
    }

    /// Notes that a version is owed. Whether nothing is left of it: its stub was in memory only.
    pub(in super::super) fn forget(&mut self, slot: Slot) -> bool {
        let is_in_memory = self.is_in_memory(slot);
        if is_in_memory {
            self.homeless.remove(&slot);
        } else if self.homeless.contains_key(&slot) {
            self.owes(slot);
        }
        is_in_memory
    }

    /// Whether the stub of a version is in memory only. Without a stub, the content itself has to be destroyed.
    pub(in super::super) fn is_in_memory(&self, slot: Slot) -> bool {
        self.layout.stub_bytes > 0 && self.homeless.get(&slot).is_some_and(|it| it.at == At::Memory)
    }

    /// Notes that a version is owed whose stub is in the log.
    pub(in super::super) fn owes(&mut self, slot: Slot) {
        if self.layout.stub_bytes > 0 {
            self.owed.insert(in_slot(slot).extent);
        }
    }

    /// Notes that versions are owed that kept epochs have shown, so that their stubs are not in memory only.
    pub(in super::super) fn owe_durable(&mut self, slots: &Slots<Slot>) {
        if self.layout.stub_bytes == 0 {
            return;
        }
        let mut logged = self.homeless.range(slots.clone());
        assert!(logged.all(|(_, it)| it.at != At::Memory), "what a kept epoch shows is durable");
        self.owed.insert(bytes_of(slots));
    }

    /// The stub of a version, who wrote that, and in which session, if the stub has no home yet.
    pub(in super::super) fn stub(&self, slot: Slot) -> Option<(Epoch, Session, &Entry)> {
        self.homeless.get(&slot).map(|it| (it.born, it.session, &it.entry))
    }

    /// The same for many slots, which is cheap in their order.
    pub(in super::super) fn stubs(&self) -> Stubs<'_> {
        Stubs { log: self, last: Slot(0), from: self.homeless.range(Slot(0)..).peekable() }
    }

    /// Whether the log has the stub of a version, or will have it.
    pub(in super::super) fn has(&self, slot: Slot) -> bool {
        self.homeless.contains_key(&slot)
    }

    /// The slots of all versions whose stubs the log has, or will have.
    pub(in super::super) fn homeless(&self, slots: impl RangeBounds<Slot>) -> impl Iterator<Item = Slot> {
        self.homeless.range(slots).map(|(slot, _)| *slot)
    }

    /// The slots of the versions that are owed, and whose stubs the log has.
    pub(in super::super) fn owed(&self) -> impl Iterator<Item = Slot> {
        self.owed.runs().flat_map(|run| self.homeless(slots_of(run)))
    }

    /// Notes that the stubs in these slots were destroyed.
    pub(in super::super) fn settle_all(&mut self, slots: &Slots<Slot>) {
        self.owed.remove(bytes_of(slots));
        let known: Vec<Slot> = self.homeless.range(slots.clone()).map(|(slot, _)| *slot).collect();
        known.iter().for_each(|slot| _ = self.homeless.remove(slot));
    }

    /// Notes that a half of the log was destroyed. Which of the `dying` stubs were in it, and not destroyed before.
    pub(in super::super) fn settle_half(&mut self, dying: &BlockSet<Pos>) -> BlockSet<Pos> {
        let mut settled = Vec::new();
        self.homeless.retain(|slot, _| {
            let dies = dying.contains(slot.0);
            settled.extend(Some(slot.0).filter(|_| dies));
            !dies
        });
        let settled = BlockSet::of_ascending(settled);
        assert!(settled.len() <= dying.len(), "no other stubs die with the half than were to");
        self.owed.subtract(&settled);
        settled
    }

    /// The next commit: everything that is pending, as one write. `None` if that is nothing.
    pub(in super::super) fn commit(&mut self) -> Option<(Place, Vec<u8>)> {
        let start = self.layout.half(self.half).start.0 + self.now.used * SECTOR_BYTES;
        let mut bytes = Vec::new();
        while let Some((epoch, entries, slots)) = self.next_entries() {
            self.numbers.last += 1;
            for slot in slots {
                if let Some(it) = self.homeless.get_mut(&slot) {
                    it.at = At::Log;
                }
            }
            let (Numbers { last: sequence, durable: after }, session) =
                (self.numbers, self.sessions.newest());
            let mut sector = Sector { sequence, epoch, session, after, check: 0, entries };
            sector.hide(&self.cells[usize::from(self.half)]);
            bytes.extend(self.layout.sector_bytes(&sector));
            self.now.used += 1;
        }
        assert!(self.now.used <= self.sectors_max(), "a commit fits into its half");
        assert!(self.pending.is_empty(), "a commit has all that is pending");
        self.changes = 0;
        let extent = Extent::new(start, bytes.len() as u64);
        (!bytes.is_empty()).then_some((Place { on: MediumId::Stubs, extent }, bytes))
    }

    /// Notes that all that was committed is durable.
    pub(in super::super) fn confirm(&mut self) {
        assert!(self.numbers.durable <= self.numbers.last, "the numbers of sectors only grow");
        self.numbers.durable = self.numbers.last;
    }

    fn next_entries(&mut self) -> Option<Next> {
        let (mut epoch, mut entries, mut slots) = (None, Vec::new(), Vec::new());
        while entries.len() < self.layout.per_sector()
            && let Some(next) = self.pending.front()
        {
            if epoch.is_some_and(|epoch| epoch != next.epoch()) {
                break;
            }
            epoch = Some(next.epoch());
            match self.pending.pop_front() {
                Some(Pending::Version(_, slot, number)) => {
                    // The version may have been replaced before anything of it was durable.
                    if let Some(it) = self.homeless.get(&slot).filter(|it| it.is_unlogged(number)) {
                        slots.push(slot);
                        entries.push(it.entry.clone());
                    }
                }
                Some(Pending::Other(_, entry)) => entries.push(entry),
                None => {}
            }
        }
        match epoch {
            Some(epoch) if !entries.is_empty() => Some((epoch, entries, slots)),
            Some(_) => self.next_entries(),
            None => None,
        }
    }

    /// Turns to the other half, which is empty.
    pub(in super::super) fn turn(&mut self) -> Turned {
        assert!(self.moving.is_empty(), "one turn at a time");
        assert!(self.pending.is_empty(), "all is logged before the turn");
        let (half, is_used) = (self.half, self.now.used > 0 || self.now.stained);
        (self.half, self.before, self.now) = (1 - self.half, self.now, Filled::default());
        let (mut to_home, mut at_home, mut dying) = (Vec::new(), Vec::new(), Vec::new());
        for (slot, it) in self.homeless.iter().filter(|(_, it)| it.at != At::Memory) {
            match (self.owed.contains(slot.0), it.may_be_home) {
                (false, _) => to_home.push(*slot),
                (true, true) => at_home.push(*slot),
                (true, false) => dying.push(slot.0),
            }
        }
        let logged = to_home.len() + at_home.len() + dying.len();
        assert_eq!(logged, self.homeless.len(), "each stub is logged, and has one fate");
        self.moving = to_home.iter().copied().collect();
        Turned { half, is_used, to_home, at_home, dying: BlockSet::of_ascending(dying) }
    }

    /// Ends the turn: the stubs of these versions, and no others of the half before, have their home.
    pub(in super::super) fn end_turn(&mut self, homed: &[&[Slot]]) {
        self.moving.clear();
        for slot in homed.iter().copied().flatten() {
            self.owed.remove(in_slot(*slot).extent);
            self.homeless.remove(slot);
        }
    }

    /// Turns back to the half that was in use: the checkpoint that turned was given up. Its homes may have been written.
    pub(in super::super) fn turn_back(&mut self) {
        assert!(self.now.used == 0, "nothing is committed during a checkpoint");
        self.half = 1 - self.half;
        self.now = self.before;
        for slot in std::mem::take(&mut self.moving) {
            if let Some(it) = self.homeless.get_mut(&slot) {
                it.may_be_home = true;
            }
        }
    }

    /// Notes that parts of commits were found in the half.
    pub(in super::super) fn stain(&mut self) {
        self.now.stained = true;
    }

    /// Whether stubs of parts of commits still have their cell.
    pub(in super::super) fn is_stained(&self) -> bool {
        self.now.stained
    }

    /// Notes that `cell` is the durable one of `half`, which is not in use.
    pub(in super::super) fn renewed(&mut self, half: u8, cell: Cell) {
        assert!(half != self.half, "the cell of the current half is in use");
        self.cells[usize::from(half)] = cell;
    }

    /// Whether the stubs of a sector of `half` are hidden under the cell that the half has now: else they cannot be opened.
    pub(in super::super) fn is_under_cell(&self, half: u8, sector: &Sector) -> bool {
        sector.is_under(&self.cells[usize::from(half)])
    }

    /// Whether these bytes are the cell of a half.
    pub(in super::super) fn uses(&self, half: u8, bytes: &[u8]) -> bool {
        self.cells[usize::from(half)].to_bytes() == bytes
    }

    /// Reveals the stubs of a sector of the current half; whether it was written under the half's cell.
    pub(in super::super) fn reveal(&self, sector: &mut Sector) -> bool {
        sector.reveal(&self.cells[usize::from(self.half)])
    }

    /// The bytes of the next sector of the half; `None` if it is full.
    pub(in super::super) fn next_sector(&self) -> Option<Extent<Pos>> {
        let at = self.layout.half(self.half).start.0 + self.now.used * SECTOR_BYTES;
        (self.now.used < self.sectors_max()).then(|| Extent::new(at, SECTOR_BYTES))
    }

    /// Takes a sector that a start found at `at` in the current half, as if it had been committed.
    pub(in super::super) fn replay(&mut self, at: Pos, sector: &Sector) {
        assert_eq!(
            Some(at),
            self.next_sector().map(|next| next.start),
            "sectors are replayed in their order"
        );
        assert_eq!(sector.sequence, self.numbers.last + 1, "the numbers of sectors have no gap");
        self.numbers = Numbers { last: sector.sequence, durable: sector.sequence };
        self.now.used = (at.0 - self.layout.half(self.half).start.0) / SECTOR_BYTES + 1;
        for entry in &sector.entries {
            if let Entry::Version { slot, .. } = entry {
                let (born, session, entry) = (sector.epoch, sector.session, entry.clone());
                let homeless = Homeless { at: At::Log, may_be_home: true, born, session, entry };
                self.homeless.insert(*slot, homeless);
            }
        }
    }
}

/// The stubs that have no home yet.
pub(in super::super) struct Stubs<'a> {
    log: &'a Log,
    /// The slot that was asked for last.
    last: Slot,
    /// The stubs from there on.
    from: Peekable<btree_map::Range<'a, Slot, Homeless>>,
}

impl<'a> Stubs<'a> {
    /// The stub of a version, and the session that sealed it, if it has no home yet.
    pub(in super::super) fn of(&mut self, slot: Slot) -> Option<(Session, &'a Entry)> {
        // Stubs of a run of slots follow each other.
        let is_near = slot >= self.last && self.from.peek().is_none_or(|(next, _)| slot <= **next);
        if !is_near {
            self.from = self.log.homeless.range(slot..).peekable();
        }
        self.last = slot;
        let found = self.from.next_if(|(next, _)| **next == slot);
        found.map(|(_, it)| (it.session, &it.entry))
    }
}

impl Homeless {
    /// Whether the stub is in memory only, and is that of the sealing with this number.
    fn is_unlogged(&self, sealing: u32) -> bool {
        self.at == At::Memory && matches!(self.entry, Entry::Version { number, .. } if number == sealing)
    }
}

impl Pending {
    fn epoch(&self) -> Epoch {
        match self {
            Self::Version(epoch, ..) | Self::Other(epoch, _) => *epoch,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::base::cell::Cells;
    use crate::store::versions::stubs::log::*;

    /// A log of stubs of so many bytes, with a version in slot 1 that is owed.
    fn log(stub_bytes: usize, may_be_home: bool) -> Log {
        let layout = Layout { stub_bytes, half_bytes: 64 * SECTOR_BYTES };
        let version = |slot| Entry::Version {
            block: Block(slot),
            slot: Slot(slot),
            number: 7,
            stub: vec![1; stub_bytes],
        };
        let mut log = Log::new(
            layout,
            0,
            0,
            (Sessions::from(Session(3)), [(); 2].map(|()| Cells::new([1; 32]).draw())),
        );
        [1, 2].into_iter().for_each(|slot| log.push(Epoch(1), version(slot)));
        assert!(log.commit().is_some());
        log.homeless.values_mut().for_each(|it| it.may_be_home = may_be_home);
        assert!(!log.forget(Slot(1)));
        log
    }

    #[test]
    fn a_stub_that_is_owed_dies_with_its_half_of_the_log() {
        let Turned { to_home, at_home, dying, .. } = log(64, false).turn();
        assert_eq!((to_home, at_home), (vec![Slot(2)], vec![]));
        assert!(dying.contains(1) && dying.len() == 1);
    }

    #[test]
    fn a_stub_that_is_owed_and_may_be_at_home_is_not_written_there_once_more() {
        let mut log = log(64, true);
        let Turned { to_home, at_home, dying, .. } = log.turn();
        assert_eq!((&to_home[..], &at_home[..], dying.len()), (&[Slot(2)][..], &[Slot(1)][..], 0));
        log.turn_back();
        assert_eq!(log.turn().at_home, [Slot(1)], "a turn that was given up changes nothing of that");
        log.end_turn(&[&to_home, &at_home]);
        assert!(!log.has(Slot(1)) && !log.has(Slot(2)));
    }

    #[test]
    fn content_without_a_stub_does_not_die_with_the_log() {
        let Turned { to_home, dying, .. } = log(0, false).turn();
        assert_eq!((to_home, dying.len()), (vec![Slot(1), Slot(2)], 0));
    }
}
