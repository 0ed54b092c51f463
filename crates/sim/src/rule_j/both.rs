//! The product, and the page's version beside it, as rules on trial.

use super::device::WIDE_BYTES;
use super::literal::Literal;
use super::log::Area;
use super::play::Setup;
use super::rules::Rules;
use crate::rule_e::toy::{SUPER, Super, Toy};
use crate::rule_e::wide::Wide;
use crate::twin::{Twin, Version};
use quietus_core::units::{Extent, Millis};
use quietus_core::watch::Verdict;
use quietus_detect::format::{Block, Format};
use quietus_detect::options::{Grade, Options};
use quietus_detect::rule_j::RuleJ;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Content of a block.
type Wider = [u8; WIDE_BYTES as usize];

/// Both versions of rule J begin to watch `disk`.
#[must_use]
pub fn twin(
    (toy, area): (Toy, Area),
    disk: Vec<Wider>,
    options: Options,
    now: Millis,
    seen_from_start: bool,
) -> Twin<{ WIDE_BYTES as usize }> {
    let was_clean = Super::from_bytes(&disk[SUPER as usize]).is_some_and(|it| it.is_clean);
    let format =
        Wide { toy: Toy { was_clean, ..toy }, block_bytes: area.block_bytes, has_external_journal: false };
    let journal = format.journal().expect("it has one");
    let rule = Box::new(RuleJ::attach(Box::new(format), journal, options, now, seen_from_start));
    let literal = Box::new(Literal::attach(format, area, options, now, seen_from_start));
    Twin::new(rule, Some(literal), disk, now)
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Both {
    toy: Toy,
    area: Area,
    options: Options,
    compares: bool,
    twin: Twin<{ WIDE_BYTES as usize }>,
}

impl Both {
    /// Both versions, as they begin to watch `disk`.
    #[must_use]
    pub fn attach(setup: &Setup, disk: &[Vec<u8>], compares: bool) -> Self {
        let (toy, area) = (setup.toy(), setup.area());
        let options =
            Options { grade: Grade::Generation, eager: false, reorder_window_ms: 1000, settle_ms: 8000 };
        let disk = disk.iter().map(|it| it.as_slice().try_into().expect("it is a block")).collect();
        let twin = twin((toy, area), disk, options, Millis(1_000_000), true);
        let twin = if compares { twin.at_once() } else { twin.alone() };
        Self { toy, area, options, compares, twin }
    }
}

impl Rules for Both {
    fn disk(&self) -> Vec<&[u8]> {
        self.twin.disk().iter().map(|it| it.as_slice()).collect()
    }

    fn write(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String> {
        let bytes_of_block = u64::from(self.area.block_bytes);
        let extent = Extent::new(u64::from(block) * bytes_of_block, bytes_of_block);
        self.twin.write(extent, bytes, true)
    }

    fn write_in_parts(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String> {
        let (first, second) = bytes.split_at(bytes.len() / 2);
        let start = u64::from(block) * u64::from(self.area.block_bytes);
        let extent = |start, part: &[u8]| Extent::new(start, part.len() as u64);
        let mut taken = self.twin.write(extent(start, first), first, true)?;
        let start = start + first.len() as u64;
        taken.extend(self.twin.write(extent(start, second), second, true)?);
        Ok(taken)
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
        let twin = twin((self.toy, self.area), disk, self.options, now, true);
        self.twin = if self.compares { twin.at_once() } else { twin.alone() };
    }

    fn is_over(&self) -> bool {
        self.twin.is_over()
    }

    fn read_at_once(&self) -> bool {
        self.compares
    }

    fn knows_layers(&self) -> bool {
        true
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.twin.disk().hash(&mut hasher);
        if let Some(literal) = self.twin.literal() {
            Version::digest(literal, &mut hasher);
        }
        hasher.finish()
    }
}
