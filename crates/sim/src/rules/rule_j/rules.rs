//! The disks of a guest that journals, and the rules under test that watch them.
//! Below a journal that is here that is rule J; below one that lies elsewhere rule E, which does
//! not see the log, and rule J below the log's own [`device`].

use crate::rules::differential::{Differential, Watchers};
use crate::rules::rule_e;
use crate::rules::rule_e::toy::{SUPER, Toy};
use crate::rules::rule_j::device;
use crate::rules::rule_j::device::{WIDE_BYTES, Wider};
use crate::rules::rule_j::log::Area;
use crate::rules::rule_j::reference::{Reading, Reference};
use crate::rules::rule_j::setup::Setup;
use quietus_core::base::units::Millis;
use quietus_core::watch::{Class, Verdict};
use quietus_detect::formats::format::{Block, Format};
use quietus_detect::rules::options::{Options, Sensitive};
use quietus_detect::rules::rule_j::RuleJ;
use std::collections::BTreeMap;
use std::hash::Hasher;

/// Versions of the rules that watch a disk.
pub type Watched = Differential<{ WIDE_BYTES as usize }>;

/// The versions that watch, and how the reference reads the page.
pub type Seen = (Watchers, Reading);

/// Rule J begins to watch `disk`, which `format` finds a file system on, with its journal in `area`.
pub fn differential(
    format: impl Fn(&[Wider]) -> Box<dyn Format>,
    area: Area,
    (watchers, reading): Seen,
    disk: Vec<Wider>,
    options: Options,
    now: Millis,
    seen_from_start: bool,
) -> Watched {
    let journal = format(&disk).journal().expect("it has one");
    let rule = RuleJ::attach(format(&disk), journal, options, now, seen_from_start);
    let reference = Reference::attach(format(&disk), area, reading, options, now, seen_from_start);
    let differential = Differential::new(Box::new(rule), Box::new(reference), disk, now).watched_by(watchers);
    if watchers == Watchers::Product { differential } else { differential.at_once() }
}

#[derive(Debug)]
pub struct Rules {
    setup: Setup,
    seen: Seen,
    differential: Watched,
    /// The journal's disk, if that is another.
    device: Option<Watched>,
}

impl Rules {
    /// The rules, as they begin to watch an empty file system.
    pub fn new(setup: &Setup, seen: Seen) -> Self {
        let disk = setup.disk().0;
        let log = setup.external_journal.map(|_| device::disk(setup.area(), &disk));
        Self::attach(setup.clone(), seen, (disk, log), Millis(1_000_000))
    }

    fn attach(setup: Setup, seen: Seen, disks: (Vec<Wider>, Option<Vec<Wider>>), now: Millis) -> Self {
        let (toy, area, options) = (setup.toy(), setup.area(), setup.options());
        let (disk, log) = disks;
        let toy = toy.found(&disk[SUPER as usize]);
        let differential = match &log {
            None => self::differential(|_| Box::new(toy), area, seen, disk, options, now, true),
            Some(_) => {
                let toy = Toy { has_external_journal: true, ..toy };
                rule_e::differential(toy, disk, options, now, true).watched_by(seen.0)
            }
        };
        let area = Area { first: device::FIRST, ..area };
        let device = log.map(|it| self::differential(device::found, area, seen, it, options, now, true));
        Self { setup, seen, differential, device }
    }

    /// The server is killed, and started again.
    pub fn restart(&mut self) {
        let log = self.device.as_ref().map(|it| it.disk.clone());
        let disks = (self.differential.disk.clone(), log);
        *self = Self::attach(self.setup.clone(), self.seen, disks, self.differential.now);
    }

    /// The disk that `block` of the file system lies on, and its number there.
    fn lies(&mut self, block: Block) -> (&mut Watched, Block) {
        match (&mut self.device, self.setup.area().at(block)) {
            (Some(device), Some(at)) => (device, device::FIRST + at),
            _ => (&mut self.differential, block),
        }
    }

    /// The disk, and the journal's if that is another.
    pub fn disks(&mut self) -> impl Iterator<Item = &mut Watched> {
        std::iter::once(&mut self.differential).chain(&mut self.device)
    }

    pub fn disk(&self) -> Vec<&[u8]> {
        let mut disk: Vec<_> = self.differential.disk.iter().map(|it| it.as_slice()).collect();
        let area = self.setup.area();
        for at in (0..area.len).filter(|_| self.device.is_some()) {
            let device = self.device.as_ref().expect("it is there");
            disk[area.block(at) as usize] = &device.disk[(device::FIRST + at) as usize];
        }
        disk
    }

    /// Writes `bytes` to `block`, in this many parts. Returns the blocks to destroy before that.
    pub fn write(&mut self, block: Block, bytes: &[u8], parts: usize) -> Result<Vec<Block>, String> {
        let (disk, there) = self.lies(block);
        let mut taken = Vec::new();
        for (part, from) in bytes.chunks(bytes.len() / parts).zip((0..).step_by(bytes.len() / parts)) {
            taken.extend(disk.write(there, from, part)?);
        }
        Ok(taken.into_iter().map(|it| block + it - there).collect())
    }

    /// A program that knows nothing of the file system reads its superblock.
    pub fn opened(&mut self) -> Result<(), String> {
        let is_observed = self.setup.external_journal.is_some_and(|it| !it.hides_reads);
        if is_observed { self.differential.look(SUPER) } else { Ok(()) }
    }

    /// Reads one block that the rules want; false if there is no such block.
    pub fn read_one(&mut self) -> Result<bool, String> {
        self.disks().try_fold(false, |read, it| Ok(read || it.read_one()?))
    }

    /// Takes all verdicts that there are; with `all`, also those that may settle
    /// themselves.
    pub fn verdicts(&mut self, all: bool) -> Result<BTreeMap<Block, Verdict>, String> {
        let mut verdicts = self.differential.verdicts(all)?;
        if let Some(device) = &mut self.device {
            let first = self.setup.area().first;
            let residue = device.verdicts(all)?.into_iter();
            verdicts.extend(residue.map(|(block, verdict)| (first + block - device::FIRST, verdict)));
        }
        Ok(verdicts)
    }

    /// Destroys the content of `block`; no rule is told.
    pub fn destroy(&mut self, block: Block) {
        let (disk, there) = self.lies(block);
        disk.disk[there as usize].fill(0);
    }

    pub fn is_over(&self) -> bool {
        self.differential.is_over() || self.device.as_ref().is_some_and(Differential::is_over)
    }

    pub fn is_plain(&self, block: Block) -> bool {
        self.differential.class(block) == Some(Class::Plain)
    }

    /// Whether the rules have always read what they want.
    pub fn read_at_once(&self) -> bool {
        self.device.is_none() && self.seen.0 != Watchers::Product
    }

    /// Whether the rules know what lies below content: a cache would hide that.
    pub fn knows_layers(&self) -> bool {
        self.device.is_none() && !self.setup.is_cached
    }

    pub fn digest(&self, hasher: &mut dyn Hasher) {
        std::iter::once(&self.differential).chain(&self.device).for_each(|it| it.digest(hasher));
    }
}

impl Setup {
    /// How much is inferred: little time below an external journal, so that doubts settle within a
    /// history.
    fn options(&self) -> Options {
        let settle_ms = match (self.external_journal, self.is_cached) {
            (Some(_), _) => 500,
            (None, true) => 2000,
            (None, false) => 8000,
        };
        let sensitive = if self.has_marks { Sensitive::Marked } else { Sensitive::All };
        Options { reorder_window_ms: 1000, settle_ms, sensitive, ..Options::default() }
    }
}
