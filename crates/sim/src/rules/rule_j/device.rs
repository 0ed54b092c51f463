//! The journal's own device, as mke2fs makes it of blocks of 1 KiB.

use crate::rules::differential::place;
use crate::rules::rule_j::log::Area;
use quietus_detect::formats::ext2::probe;
use quietus_detect::formats::format::{Block, Contents, Format, Probe};

/// The block of its superblock.
const SUPER: Block = 1;
/// The block of the journal's, and so its number.
pub const FIRST: Block = 2;

/// Bytes of a block: the least that a journal may have.
pub const WIDE_BYTES: u32 = 1024;

pub type Wider = [u8; WIDE_BYTES as usize];

/// A device with the journal that lies in `area` of `disk`.
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
pub fn found(disk: &[Wider]) -> Box<dyn Format> {
    let mut contents = Contents::default();
    for block in [SUPER, FIRST] {
        contents.insert(place(block, WIDE_BYTES).start, disk[block as usize].to_vec());
    }
    match probe(disk.as_flattened().len() as u64, &contents) {
        Probe::Is(format) => format,
        other => panic!("it is a journal's device: {other:?}"),
    }
}
