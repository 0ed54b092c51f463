//! Rule E below a file system whose journal lies elsewhere, and rule J below the
//! journal: the same guest, whose writes go to the one disk or to the other.

use super::device;
use super::device::WIDE_BYTES;
use super::guest::Mode;
use super::log::Area;
use super::place::place;
use super::play::{Elsewhere, Play, Setup, Step};
use super::rules::Rules;
use super::trial::setup_of;
use crate::rule_e::literal::Literal;
use crate::rule_e::search::happen_and_finish;
use crate::rule_e::toy::{SUPER, Super, Toy};
use crate::rule_e::trial::{Part, walked_through};
use crate::rule_e::wide::Wide;
use crate::twin::{Twin, Version};
use quietus_core::units::{Extent, Millis};
use quietus_core::watch::Verdict;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use quietus_detect::rule_e::RuleE;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Content of a block.
type Wider = [u8; WIDE_BYTES as usize];

/// Little, so that doubts settle within a history.
const OPTIONS: Options =
    Options { grade: Grade::Generation, eager: false, reorder_window_ms: 1000, settle_ms: 500 };

/// Both versions of rule E and the disk that they watch; both of rule J, and the
/// journal's.
#[derive(Debug)]
pub struct Apart {
    toy: Toy,
    area: Area,
    hides_reads: bool,
    compares: bool,
    twin: Twin<{ WIDE_BYTES as usize }>,
    device: Twin<{ WIDE_BYTES as usize }>,
}

fn twin(toy: Toy, disk: Vec<Wider>, now: Millis, compares: bool) -> Twin<{ WIDE_BYTES as usize }> {
    let was_clean = Super::from_bytes(&disk[SUPER as usize]).is_some_and(|it| it.is_clean);
    let toy = Toy { was_clean, ..toy };
    let format = Wide { toy, block_bytes: WIDE_BYTES, has_external_journal: true };
    let rule = Box::new(RuleE::attach(Box::new(format), OPTIONS, now, true));
    let literal = Box::new(Literal::attach(format, OPTIONS, now, true));
    let twin = Twin::new(rule, Some(literal), disk, now);
    if compares { twin } else { twin.alone() }
}

impl Apart {
    /// Both versions, as they begin to watch `disk`.
    fn attach(setup: &Setup, disk: &[Vec<u8>], compares: bool) -> Self {
        let (toy, area) = (setup.toy(), setup.area());
        let disk: Vec<Wider> =
            disk.iter().map(|it| it.as_slice().try_into().expect("it is a block")).collect();
        let now = Millis(1_000_000);
        let device = device::twin(area, device::disk(area, &disk), OPTIONS, now, compares);
        let hides_reads = setup.elsewhere.is_some_and(|it| it.hides_reads);
        Self { toy, area, hides_reads, compares, twin: twin(toy, disk, now, compares), device }
    }

    /// Which block of the journal's disk `block` is, if it is one.
    fn logged(&self, block: Block) -> Option<Block> {
        Some(device::FIRST + self.area.at(block)?)
    }

    /// The guest's number for that block of the journal's disk.
    fn called(&self, logged: Block) -> Block {
        self.area.block(logged - device::FIRST)
    }

    /// `bytes` go to a block of the journal's disk, from `from` on.
    fn log(&mut self, logged: Block, from: usize, bytes: &[u8]) -> Result<Vec<Block>, String> {
        let start = place(logged, WIDE_BYTES).start.0 + from as u64;
        let taken = self.device.write(Extent::new(start, bytes.len() as u64), bytes, true)?;
        Ok(taken.into_iter().map(|it| self.called(it)).collect())
    }
}

impl Rules for Apart {
    fn disk(&self) -> Vec<&[u8]> {
        let content = |(block, bytes)| match self.logged(block) {
            Some(logged) => self.device.content(logged).as_slice(),
            None => bytes,
        };
        (0..).zip(self.twin.disk().iter().map(|it| it.as_slice())).map(content).collect()
    }

    fn write(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String> {
        match self.logged(block) {
            Some(logged) => self.log(logged, 0, bytes),
            None => self.twin.write(place(block, WIDE_BYTES), bytes, true),
        }
    }

    fn write_in_parts(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String> {
        let Some(logged) = self.logged(block) else { return self.write(block, bytes) };
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let mut taken = self.log(logged, 0, first)?;
        taken.extend(self.log(logged, first.len(), second)?);
        Ok(taken)
    }

    fn opened(&mut self) -> Result<(), String> {
        if self.hides_reads { Ok(()) } else { self.twin.look(SUPER) }
    }

    fn read_one(&mut self) -> Result<bool, String> {
        Ok(self.twin.read_one()? || self.device.read_one()?)
    }

    fn cut(&mut self) {
        self.twin.cut();
        self.device.cut();
    }

    fn proven(&mut self) {
        self.twin.proven();
        self.device.proven();
    }

    fn verdicts(&mut self, all: bool) -> Result<BTreeMap<Block, Verdict>, String> {
        let mut verdicts = self.twin.verdicts(true, all)?;
        let residue = self.device.verdicts(true, all)?;
        verdicts.extend(residue.into_iter().map(|(logged, verdict)| (self.called(logged), verdict)));
        Ok(verdicts)
    }

    fn destroy(&mut self, block: Block) {
        match self.logged(block) {
            Some(logged) => self.device.destroy(logged),
            None => self.twin.destroy(block),
        }
    }

    fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.twin.pass(ms)?;
        self.device.pass(ms)
    }

    fn restart(&mut self) {
        let (disk, now) = (self.twin.disk().to_vec(), self.twin.now());
        self.twin = twin(self.toy, disk, now, self.compares);
        self.device = device::twin(self.area, self.device.disk().to_vec(), OPTIONS, now, self.compares);
    }

    fn is_over(&self) -> bool {
        self.twin.is_over() || self.device.is_over()
    }

    fn read_at_once(&self) -> bool {
        false
    }

    fn knows_layers(&self) -> bool {
        false
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        for twin in [&self.twin, &self.device] {
            twin.disk().hash(&mut hasher);
            if let Some(literal) = twin.literal() {
                Version::digest(literal, &mut hasher);
            }
        }
        hasher.finish()
    }
}

fn apart(compares: bool) -> impl Fn(&Setup, Vec<Vec<u8>>) -> Box<dyn Rules> {
    move |setup, disk| Box::new(Apart::attach(setup, &disk, compares))
}

/// Everything, for histories below a journal that is here as well as elsewhere.
#[must_use]
pub fn setup_large(mode: Mode) -> Setup {
    let elsewhere = Elsewhere { reorders: false, hides_reads: false };
    Setup { elsewhere: Some(elsewhere), ..Setup::large(mode) }
}

/// The guest of `seed`.
fn setup_elsewhere(seed: u64) -> Setup {
    let elsewhere = Elsewhere { reorders: seed % 5 < 2, hides_reads: seed % 7 < 2 };
    Setup { elsewhere: Some(elsewhere), splits: seed % 11 < 5, ..setup_of(seed) }
}

/// The walk of `seed`, above both versions.
#[must_use]
pub fn walked(seed: u64) -> Part {
    lived(seed, true)
}

/// The walk of `seed`, above the product alone.
#[must_use]
pub fn judged(seed: u64) -> Part {
    lived(seed, false)
}

fn lived(seed: u64, compares: bool) -> Part {
    let setup = setup_elsewhere(seed);
    walked_through("a guest with its journal elsewhere", seed, || Play::new(&setup, apart(compares)))
}

/// Lets `steps` happen to a guest of `setup`, above the product; and above the
/// page's version, if it `compares`.
///
/// # Errors
/// The first broken promise.
pub fn retold(setup: &Setup, steps: &[Step], compares: bool) -> Result<(), String> {
    happen_and_finish(&mut Play::new(setup, apart(compares)), steps).map(drop)
}
