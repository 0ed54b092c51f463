//! The literal machine: a raw chip of pages with records, and a layer above it that starts from what the pages say, without chance.
//!
//! The layer is straight code. An operation under way is the machine as it was before, and how the changes ended so far: each event plays it
//! once more from its beginning, one change further.

mod chip;
mod layer;
mod start;

use super::{
    Answer, BLOCKS, CUTS_MAX, Disk, FAIL_CUTS_MAX, Fault, Keep, Left, Outcome, PAGES, Raw, Read, Step, UNITS,
};
use chip::{Cells, Chip, End, Entry, Kind, Record, Stop};
use layer::{Layer, State};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

/// An operation under way.
#[derive(Clone, Debug)]
struct Under {
    request: Step,
    /// The machine before it.
    base: Layer,
    ends: Vec<End>,
}

/// The machine, and what was asked of it.
#[derive(Clone, Debug)]
pub(super) struct Literal {
    now: Layer,
    under: Option<Under>,
    disk: Disk,
    outcome: Option<Outcome>,
    cuts: u8,
    may_fail: bool,
    /// Units and versions to be destroyed.
    owed: BTreeSet<(usize, u32)>,
    receipts: BTreeSet<u32>,
    written: u32,
}

impl Literal {
    /// A new disk; in block 0 there is one empty run. A block may fail if `may_fail`.
    pub fn new(may_fail: bool, fault: Option<Fault>) -> Self {
        let mut layer = Layer::of(Chip::new(), fault);
        layer.state = [State::Blank; BLOCKS];
        if !may_fail {
            (layer.state[BLOCKS - 1], layer.chip.is_bad[BLOCKS - 1]) = (State::Bad, true);
        }
        layer.listed = vec![0];
        layer.chip.script.push_back(End::Well);
        let made = layer.run(Kind::Plain, [Entry::Nothing; UNITS]);
        assert!(made.is_ok(), "the first run succeeds");
        Self {
            now: layer,
            under: None,
            disk: Disk::Idle,
            outcome: None,
            cuts: 0,
            may_fail,
            owed: BTreeSet::new(),
            receipts: BTreeSet::new(),
            written: 0,
        }
    }

    /// Whether `step` can happen.
    pub fn allows(&self, step: Step) -> bool {
        match (self.disk, step) {
            (Disk::Idle, Step::Move(block)) => self.now.can_move(block.into()),
            (Disk::Idle, Step::Write(_) | Step::Trim(_) | Step::Flush | Step::Erase(..)) => true,
            (Disk::Idle, Step::Cut(left)) => left == Left::Untouched && self.cuts < CUTS_MAX,
            (Disk::Busy(..), Step::Go) => true,
            (Disk::Busy(change, _), Step::Cut(left)) => change.may_leave(left, true) && self.cuts < CUTS_MAX,
            (Disk::Busy(change, block), Step::Fail(left)) => {
                let may_wear = self.now.chip.worn.is_none_or(|worn| worn == usize::from(block));
                let is_spared = self.cuts > FAIL_CUTS_MAX || !self.may_fail;
                !is_spared && may_wear && change.may_leave(left, false)
            }
            (Disk::Down, Step::Start(well)) => well & !self.answer().weak() == 0,
            _ => false,
        }
    }

    /// Lets `step` happen.
    pub fn step(&mut self, step: Step) {
        match step {
            Step::Write(unit) => {
                self.written += 1;
                self.now.pending[usize::from(unit)] = Entry::Content(self.written);
            }
            Step::Trim(unit) => self.now.trim(unit.into()),
            Step::Flush | Step::Erase(..) | Step::Move(_) => self.begin(step),
            Step::Start(well) => {
                self.now.chip.well = well;
                self.begin(step);
            }
            Step::Go => self.go_on(End::Well),
            Step::Fail(left) => self.go_on(End::Fails(left)),
            Step::Cut(left) => {
                self.cuts += 1;
                self.go_on(End::Cut(left));
            }
        }
    }

    /// Forgets what is not flushed.
    pub fn drop_pending(&mut self) {
        self.now.pending = [Entry::Nothing; UNITS];
    }

    fn begin(&mut self, request: Step) {
        if let Step::Erase(unit, keep) = request {
            let unit = usize::from(unit);
            let present = self.now.read(unit).ok().flatten().filter(|_| keep == Keep::Present);
            let all = self.contents().filter(|(of, version)| *of == unit && Some(*version) != present);
            let all: Vec<_> = all.collect();
            self.owed.extend(all);
        }
        self.outcome = None;
        self.under = Some(Under { request, base: self.now.clone(), ends: Vec::new() });
        self.play();
    }

    fn go_on(&mut self, end: End) {
        match &mut self.under {
            Some(under) => {
                under.ends.push(end);
                self.play();
            }
            None => self.down(),
        }
    }

    fn down(&mut self) {
        self.now = Layer::of(self.now.chip.clone(), self.now.fault);
        (self.disk, self.under, self.outcome) = (Disk::Down, None, None);
    }

    /// Plays the operation under way, as far as the ends of its changes are known.
    fn play(&mut self) {
        let under = self.under.as_ref().expect("an operation is under way");
        let mut layer = under.base.clone();
        layer.chip.script = under.ends.iter().copied().collect();
        let result = match under.request {
            Step::Erase(unit, keep) => layer.erase(unit.into(), keep),
            Step::Move(block) => layer.collect(block.into()),
            Step::Start(_) => layer.start(),
            _ => layer.flush(),
        };
        let request = under.request;
        self.now = layer;
        match result {
            Ok(outcome) => self.returns(request, outcome),
            Err(Stop::Before(change, block)) => self.disk = Disk::Busy(change, block as u8),
            Err(Stop::Cut) => self.down(),
            Err(Stop::NoBlock) => (self.disk, self.under) = (Disk::Refused, None),
        }
    }

    fn returns(&mut self, request: Step, outcome: Outcome) {
        (self.disk, self.under, self.outcome) = (Disk::Idle, None, Some(outcome));
        match request {
            Step::Start(_) => self.cuts = 0,
            Step::Erase(unit, _) if outcome == Outcome::Done => {
                let (paid, owed) = self.owed.iter().partition(|(of, _)| *of == usize::from(unit));
                self.owed = owed;
                let paid: BTreeSet<(usize, u32)> = paid;
                self.receipts.extend(paid.into_iter().map(|(_, version)| version));
            }
            _ => {}
        }
    }

    /// The versions that raw reads find, with their units.
    fn contents(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let of_page = |cells: &Cells| match cells {
            Cells::Programmed(Record { entries, .. }, _) => *entries,
            Cells::Blank | Cells::Black => [Entry::Nothing; UNITS],
        };
        let entries = self.now.chip.cells.iter().flatten().flat_map(move |cells| {
            let entries = of_page(cells);
            entries.into_iter().enumerate()
        });
        entries.filter_map(|(unit, entry)| match entry {
            Entry::Content(version) => Some((unit, version)),
            Entry::Nothing | Entry::Trimmed => None,
        })
    }

    /// What shows now.
    pub fn answer(&self) -> Answer {
        let version = |entry: Entry| match entry {
            Entry::Content(version) => Some(version),
            Entry::Nothing | Entry::Trimmed => None,
        };
        let raw = |cells: &Cells| match cells {
            Cells::Blank => Raw::Blank,
            Cells::Black => Raw::Black,
            Cells::Programmed(record, look) => Raw::Held(*look, record.entries.map(version)),
        };
        let read = |unit| match self.now.read(unit) {
            _ if self.disk != Disk::Idle => Read::Waits,
            Ok(Some(version)) => Read::Version(version),
            Ok(None) => Read::Zeros,
            Err(()) => Read::Error,
        };
        let chip = &self.now.chip;
        Answer {
            disk: self.disk,
            outcome: self.outcome,
            reads: std::array::from_fn(read),
            raw: std::array::from_fn(|block| {
                std::array::from_fn::<_, PAGES, _>(|page| raw(&chip.cells[block][page]))
            }),
            bad: (0..BLOCKS).map(|block| u8::from(chip.is_bad[block]) << block).sum(),
            owed: self.contents().filter(|it| self.owed.contains(it)).map(|(_, version)| version).collect(),
            receipts: self.receipts.clone(),
        }
    }

    /// Hashes what decides how the machine behaves from now on. Sequences are named by their order, versions as `name` has it.
    pub fn hash(&self, name: &mut impl FnMut(u32) -> u32, to: &mut impl Hasher) {
        (self.disk, self.outcome, self.cuts).hash(to);
        let layer = self.under.as_ref().map_or(&self.now, |under| &under.base);
        if let Some(under) = &self.under {
            (under.request, &under.ends).hash(to);
        }
        let mut sequences = BTreeMap::from([(layer.sequence, 0)]);
        let records = layer.chip.cells.iter().flatten().filter_map(|cells| match cells {
            Cells::Programmed(record, look) => Some((record, look)),
            Cells::Blank | Cells::Black => None,
        });
        for (record, _) in records.clone() {
            sequences.insert(record.sequence, 0);
            sequences.extend(record.gaps.iter().flat_map(|(after, last)| [(*after, 0), (*last, 0)]));
        }
        (0..).zip(sequences.values_mut()).for_each(|(rank, value)| *value = rank);
        let mut entry = |entry: Entry| match entry {
            Entry::Content(version) => Entry::Content(name(version)),
            Entry::Nothing | Entry::Trimmed => entry,
        };
        for (record, look) in records {
            let gap = |(after, last): &(u32, u32)| (sequences[after], sequences[last]);
            let gaps: Vec<_> = record.gaps.iter().map(gap).collect();
            let entries = record.entries.map(&mut entry);
            (look, sequences[&record.sequence], record.kind, entries, &record.listed, gaps).hash(to);
        }
        let kinds = layer.chip.cells.iter().flatten().map(std::mem::discriminant);
        kinds.collect::<Vec<_>>().hash(to);
        (layer.chip.is_bad, layer.chip.worn, layer.chip.well).hash(to);
        (layer.state, layer.is_murky, layer.is_failing, layer.names, layer.at).hash(to);
        (layer.next, &layer.listed, layer.pending.map(&mut entry)).hash(to);
    }
}
