//! The journal's own device, as mke2fs makes it of blocks of 1 KiB, and both versions of
//! rule J below it.

use super::literal::Literal;
use super::log::Area;
use super::place::place;
use crate::twin::Twin;
use quietus_core::units::{Addr, Extent, Millis};
use quietus_detect::ext2::probe;
use quietus_detect::format::{Block, Change, Contents, Format, Geometry, Kind, Probe, Reason, Shown};
use quietus_detect::options::Options;
use quietus_detect::properties::{EXT3_WRITEBACK, Properties};
use quietus_detect::rule_j::RuleJ;
use std::ops::Range;

/// The block of its superblock.
const SUPER: Block = 1;
/// The block of the journal's, and so its number.
pub const FIRST: Block = 2;

/// Bytes of a block: the least that a journal may have.
pub const WIDE_BYTES: u32 = 1024;

/// Content of a block.
type Wider = [u8; WIDE_BYTES as usize];

/// The device, as the page's version of the rule has it.
#[derive(Clone, Copy, Debug)]
struct Device {
    blocks: Block,
}

impl Format for Device {
    fn name(&self) -> &'static str {
        "device"
    }

    fn properties(&self) -> Properties {
        EXT3_WRITEBACK
    }

    fn block_bytes(&self) -> u32 {
        WIDE_BYTES
    }

    fn blocks(&self) -> Block {
        self.blocks
    }

    fn was_clean(&self) -> bool {
        false
    }

    fn kind(&self, block: Block) -> Kind {
        if block < FIRST { Kind::Geometry } else { Kind::Data }
    }

    fn survey(&self, _: Kind) -> Vec<Range<Block>> {
        Vec::new()
    }

    fn map(&self, _: Extent<Addr>, _: &[u8]) -> Result<Vec<Shown>, Reason> {
        Err(Reason("no map is here".into()))
    }

    fn diff(&self, _: Block, _: Kind, _: &[u8], _: &[u8]) -> Vec<Change> {
        Vec::new()
    }

    fn geometry(&self, _: Block, _: &[u8], _: &[u8]) -> Geometry {
        Geometry::Changed
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A device with the journal that lies in `area` of `disk`.
#[must_use]
pub fn disk(area: Area, disk: &[Wider]) -> Vec<Wider> {
    let mut device = vec![[0; WIDE_BYTES as usize]; FIRST as usize];
    device.extend(&disk[area.first as usize..(area.first + area.len) as usize]);
    let (s_blocks_count, s_magic, s_feature_incompat) = (FIRST + area.len, 0xEF53_u32, 8_u32);
    for (at, value) in [(0x4, s_blocks_count), (0x38, s_magic), (0x60, s_feature_incompat)] {
        device[SUPER as usize][at..at + 4].copy_from_slice(&value.to_le_bytes());
    }
    device
}

/// The format for which the product takes `disk`.
fn found(disk: &[Wider]) -> Box<dyn Format> {
    let mut contents = Contents::default();
    for block in [SUPER, FIRST] {
        contents.insert(place(block, WIDE_BYTES).start, disk[block as usize].to_vec());
    }
    match probe(disk.as_flattened().len() as u64, &contents) {
        Probe::Is(format) => format,
        other => panic!("it is a journal's device: {other:?}"),
    }
}

/// Rule J begins to watch `disk`, with the journal that `area` lies in elsewhere; and the
/// page's version, if it `compares`.
///
/// # Panics
/// If that is no journal's device.
#[must_use]
pub fn twin(
    area: Area,
    disk: Vec<Wider>,
    options: Options,
    now: Millis,
    compares: bool,
) -> Twin<{ WIDE_BYTES as usize }> {
    let format = found(&disk);
    let journal = format.journal().expect("it has nothing else");
    let device = Device { blocks: format.blocks() };
    let rule = Box::new(RuleJ::attach(format, journal, options, now, true));
    let literal = Literal::attach(device, Area { first: FIRST, ..area }, options, now, true);
    let twin = Twin::new(rule, Some(Box::new(literal)), disk, now);
    if compares { twin.at_once() } else { twin.alone() }
}
