//! A start: all that it knows, the pages say.

use super::chip::{Entry, Found, Kind, Record, Stop};
use super::layer::{Layer, State, Where};
use crate::unitlife::{BLOCKS, Fault, Outcome, PAGES, UNITS};

/// Added to the highest sequence that a start finds: more than runs that it may not find.
const SEQUENCE_GAP: u32 = 100;
/// Blocks that a start wants to have before its session counts.
const SESSION_BLOCKS: usize = 2;

/// How a block looks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Look {
    Blank,
    Full,
    Unknown,
}

/// A run, and where it is.
struct Run {
    block: usize,
    page: usize,
    record: Record,
}

/// What a chip has.
struct Scan {
    runs: Vec<Run>,
    looks: [Look; BLOCKS],
    /// The highest sequence of any run.
    newest: u32,
}

impl Scan {
    fn of(layer: &Layer) -> Self {
        let mut scan = Self { runs: Vec::new(), looks: [Look::Unknown; BLOCKS], newest: 0 };
        for block in (0..BLOCKS).filter(|block| !layer.chip.is_bad[*block]) {
            for page in 0..PAGES {
                match layer.chip.read(block, page) {
                    Found::Record(record) => {
                        scan.runs.push(Run { block, page, record: record.clone() });
                        if page == PAGES - 1 {
                            scan.looks[block] = Look::Full;
                        }
                    }
                    Found::Blank if page == 0 => scan.looks[block] = Look::Blank,
                    Found::Blank | Found::Garbage => {}
                }
            }
        }
        scan.runs.sort_by_key(|run| run.record.sequence);
        scan.newest = scan.runs.last().map_or(0, |run| run.record.sequence);
        scan
    }

    /// Leaves out what does not count though it reads.
    fn judge(&mut self, layer: &Layer) {
        let is_session = |run: &&Run| run.record.kind == Kind::Session;
        let sessions: Vec<_> = self.runs.iter().filter(is_session).map(|run| (run.block, run.page)).collect();
        let is_left = |run: &Run| {
            let has_session = sessions.contains(&(run.block, run.page + 1));
            run.record.kind == Kind::Trial && !has_session && !layer.has(Fault::CountTrials)
        };
        for run in self.runs.iter().filter(|run| is_left(run)) {
            self.looks[run.block] = Look::Unknown;
        }
        self.runs.retain(|run| !is_left(run));
        let gaps = self.runs.last().map(|run| run.record.gaps.clone()).unwrap_or_default();
        let is_in = |run: &Run| {
            let sequence = run.record.sequence;
            gaps.iter().any(|(after, last)| (after + 1..=*last).contains(&sequence))
        };
        for run in self.runs.iter().filter(|run| is_in(run)) {
            self.looks[run.block] = Look::Unknown;
        }
        self.runs.retain(|run| !is_in(run));
    }

    /// The run before the last one. If it does not read, an erase of it began, and so the last run is whole.
    fn before(&self) -> Option<&Run> {
        let last = &self.runs.last()?.record;
        let mut sequence = last.sequence - 1;
        while let Some((after, _)) = last.gaps.iter().find(|(_, end)| *end == sequence) {
            sequence = *after;
        }
        self.runs.iter().find(|run| run.record.sequence == sequence)
    }

    /// The blocks that may be taken, if the last run lists the good blocks `listed`.
    fn candidates(&self, listed: &[usize]) -> Vec<usize> {
        let before = self.before().map(|run| &run.record.listed);
        let is_before = |block: &usize| before.is_none_or(|before| before.contains(block));
        let both = listed.iter().copied().filter(is_before);
        let (mut all, others): (Vec<_>, Vec<_>) = both.partition(|block| self.looks[*block] != Look::Unknown);
        let missing = SESSION_BLOCKS.saturating_sub(all.len());
        all.extend(others.into_iter().take(missing));
        if all.is_empty() { listed.to_vec() } else { all }
    }
}

impl Layer {
    /// Starts the disk on the chip.
    pub fn start(&mut self) -> Result<Outcome, Stop> {
        let mut scan = Scan::of(self);
        scan.judge(self);
        let Some(last) = scan.runs.last() else { return Err(Stop::NoBlock) };
        self.know(&scan, &last.record.listed);
        self.sequence = scan.newest + SEQUENCE_GAP;
        self.gaps.clone_from(&last.record.gaps);
        self.gaps.push((last.record.sequence, self.sequence));
        let is_good = |block: &usize| !self.chip.is_bad[*block];
        let good: Vec<usize> = last.record.listed.iter().copied().filter(is_good).collect();
        self.candidates = Some(scan.candidates(&good));
        if self.has(Fault::ProgramAfterCut) {
            self.go_on(last.block);
        }
        let entries = self.trial(&scan.runs, last);
        self.run(Kind::Trial, entries)?;
        while !self.run(Kind::Session, [Entry::Nothing; UNITS])? {
            self.run(Kind::Trial, entries)?;
        }
        self.settle()
    }

    /// What the trial holds: what the last run does, and if that is a session, what its trial does.
    fn trial(&self, runs: &[Run], last: &Run) -> [Entry; UNITS] {
        let mut entries = [Entry::Nothing; UNITS];
        let is_trial = |run: &Run| {
            last.record.kind == Kind::Session && (run.block, run.page + 1) == (last.block, last.page)
        };
        let place = |run: &Run| (run.block, run.page);
        for run in runs.iter().filter(|run| is_trial(run) || place(run) == place(last)) {
            for (unit, entry) in entries.iter_mut().enumerate() {
                let counts = [Where::At(run.block, run.page), Where::Marked(run.block, run.page)];
                if counts.contains(&self.at[unit]) && !self.has(Fault::TrustWeak) {
                    *entry = run.record.entries[unit];
                }
            }
        }
        entries
    }

    /// Notes what the runs say.
    fn know(&mut self, scan: &Scan, listed: &[usize]) {
        self.listed = listed.to_vec();
        for block in 0..BLOCKS {
            let is_listed = listed.contains(&block);
            let is_blank = scan.looks[block] == Look::Blank;
            self.state[block] = match self.chip.is_bad[block] {
                true => State::Bad,
                false if is_blank && (!is_listed || self.has(Fault::TrustBlank)) => State::Blank,
                false => State::Closed,
            };
            let is_unknown = scan.looks[block] == Look::Unknown || is_listed;
            self.is_murky[block] = is_unknown && self.state[block] == State::Closed;
        }
        for Run { block, page, record } in &scan.runs {
            if listed.contains(block) && !self.has(Fault::CountListed) {
                continue;
            }
            for (unit, entry) in record.entries.iter().enumerate() {
                match entry {
                    Entry::Nothing => {}
                    Entry::Trimmed => self.at[unit] = Where::Marked(*block, *page),
                    Entry::Content(_) => {
                        self.at[unit] = Where::At(*block, *page);
                        self.names[*block][*page][unit] = true;
                    }
                }
            }
        }
    }

    /// With a fault only: goes on in the block.
    fn go_on(&mut self, block: usize) {
        let is_blank = |page: &usize| matches!(self.chip.read(block, *page), Found::Blank);
        if let Some(page) = (0..PAGES).find(is_blank) {
            (self.next, self.is_murky[block]) = (Some((block, page)), false);
        }
    }

    /// Wipes what the cut can have touched.
    fn settle(&mut self) -> Result<Outcome, Stop> {
        let is_left = |it: &Self, block: &usize| it.is_murky[*block] && it.state[*block] == State::Closed;
        for block in 0..BLOCKS {
            if is_left(self, &block) && self.listed.contains(&block) {
                self.wipe(block)?;
            }
        }
        let rest: Vec<usize> = (0..BLOCKS).filter(|block| is_left(self, block)).collect();
        if !rest.is_empty() {
            self.clear(&rest)?;
        }
        self.gaps.clear();
        self.run(Kind::Plain, [Entry::Nothing; UNITS])?;
        self.tend()
    }
}
