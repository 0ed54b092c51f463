//! Rule E below a file system whose journal lies elsewhere, out of sight: the
//! same guest, of whose writes those to the log are not shown.

use super::log::Area;
use super::play::{Elsewhere, Play, Setup, Step, WIDE_BYTES};
use super::rules::Rules;
use super::trial::setup_of;
use crate::rule_e::literal::Literal;
use crate::rule_e::search::happen_and_finish;
use crate::rule_e::toy::{SUPER, Super, Toy};
use crate::rule_e::trial::{Part, taken};
use crate::rule_e::whole::wide::Wide;
use crate::twin::{Twin, Version};
use quietus_core::units::{Extent, Millis};
use quietus_core::watch::Verdict;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use quietus_detect::rule_e::RuleE;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What a block holds.
type Wider = [u8; WIDE_BYTES as usize];

/// Little, so that doubts settle within a history.
const OPTIONS: Options =
    Options { grade: Grade::Generation, eager: false, reorder_window_ms: 1000, settle_ms: 500 };

/// Both versions of rule E, the disk that they watch, and one that they do not.
#[derive(Debug)]
pub struct Unseen {
    toy: Toy,
    area: Area,
    hides_reads: bool,
    compares: bool,
    twin: Twin<{ WIDE_BYTES as usize }>,
    /// The other device: the blocks of the journal.
    log: Vec<Wider>,
}

fn twin(toy: Toy, disk: Vec<Wider>, now: Millis, compares: bool) -> Twin<{ WIDE_BYTES as usize }> {
    let was_clean = Super::from_bytes(&disk[SUPER as usize]).is_some_and(|it| it.is_clean);
    let toy = Toy { was_clean, ..toy };
    let format = Wide { toy, block_bytes: WIDE_BYTES, has_journal_elsewhere: true };
    let rule = Box::new(RuleE::attach(Box::new(format), OPTIONS, now, true));
    let literal = Box::new(Literal::attach(format, OPTIONS, now, true));
    let twin = Twin::new(rule, Some(literal), disk, now);
    if compares { twin } else { twin.alone() }
}

impl Unseen {
    /// They begin to watch `disk`.
    fn attach(setup: &Setup, disk: &[Vec<u8>], compares: bool) -> Self {
        let (toy, area) = (setup.toy(), setup.area());
        let disk: Vec<Wider> =
            disk.iter().map(|it| it.as_slice().try_into().expect("it is a block")).collect();
        let log = disk[area.first as usize..(area.first + area.len) as usize].to_vec();
        let hides_reads = setup.elsewhere.is_some_and(|it| it.hides_reads);
        Self { toy, area, hides_reads, compares, twin: twin(toy, disk, Millis(1_000_000), compares), log }
    }

    /// Which block of the other device `block` is, if it is one.
    fn logged(&self, block: Block) -> Option<usize> {
        let n = block.checked_sub(self.area.first).filter(|n| *n < self.area.len)?;
        Some(n as usize)
    }
}

impl Rules for Unseen {
    fn disk(&self) -> Vec<&[u8]> {
        let content = |(block, bytes)| match self.logged(block) {
            Some(n) => self.log[n].as_slice(),
            None => bytes,
        };
        (0..).zip(self.twin.disk().iter().map(|it| it.as_slice())).map(content).collect()
    }

    fn write(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String> {
        if let Some(n) = self.logged(block) {
            self.log[n].copy_from_slice(bytes);
            return Ok(Vec::new());
        }
        let extent = Extent::new(u64::from(block) * u64::from(WIDE_BYTES), u64::from(WIDE_BYTES));
        self.twin.write(extent, bytes, true)
    }

    fn opened(&mut self) -> Result<(), String> {
        if self.hides_reads { Ok(()) } else { self.twin.look(SUPER) }
    }

    fn read_one(&mut self) -> Result<bool, String> {
        self.twin.read_one()
    }

    fn cut(&mut self) {
        self.twin.cut();
    }

    fn proven(&mut self) {
        self.twin.proven();
    }

    fn verdicts(&mut self, all: bool) -> Result<BTreeMap<Block, Verdict>, String> {
        self.twin.verdicts(true, all)
    }

    fn destroy(&mut self, block: Block) {
        self.twin.destroy(block);
    }

    fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.twin.pass(ms)
    }

    fn restart(&mut self) {
        let (disk, now) = (self.twin.disk().to_vec(), self.twin.now());
        self.twin = twin(self.toy, disk, now, self.compares);
    }

    fn is_over(&self) -> bool {
        self.twin.is_over()
    }

    fn read_at_once(&self) -> bool {
        false
    }

    fn knows_layers(&self) -> bool {
        false
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.twin.disk(), &self.log).hash(&mut hasher);
        if let Some(literal) = self.twin.literal() {
            Version::digest(literal, &mut hasher);
        }
        hasher.finish()
    }
}

fn unseen(compares: bool) -> impl Fn(&Setup, Vec<Vec<u8>>) -> Box<dyn Rules> {
    move |setup, disk| Box::new(Unseen::attach(setup, &disk, compares))
}

/// The guest of `seed`.
fn setup_elsewhere(seed: u64) -> Setup {
    let elsewhere = Elsewhere { reorders: seed % 5 < 2, hides_reads: seed % 7 < 2 };
    Setup { elsewhere: Some(elsewhere), splits: false, ..setup_of(seed) }
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
    taken("a guest with its journal elsewhere", seed, || Play::new(&setup, unseen(compares)))
}

/// Lets `steps` happen to a guest of `setup`, above the product; and above the
/// page's version, if it `compares`.
///
/// # Errors
/// The first broken promise.
pub fn retold(setup: &Setup, steps: &[Step], compares: bool) -> Result<(), String> {
    happen_and_finish(&mut Play::new(setup, unseen(compares)), steps).map(drop)
}
