//! The device of an external journal (`journal_dev`): a superblock that marks it as one, and the
//! journal behind it.
//!
//! No map lies here, so rule J looks only for the journal's residue. The journal counts its blocks
//! from the first byte of the device.

use crate::formats::ext2::features::{check_journal, is_journal};
use crate::formats::ext2::raw::RawSuperblock;
use crate::formats::ext2::superblock::{SUPERBLOCK_AT, SUPERBLOCK_BYTES, ensure};
use crate::formats::format::{Block, Contents, Format, Geometry, Kind, Probe, Reason, Shown};
use crate::formats::properties::{EXT3_WRITEBACK, Properties};
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;

/// The contents of its superblock, consistent in themselves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Device {
    s_blocks_count: u32,
    s_log_block_size: u32,
    s_uuid: [u8; 16],
}

impl Device {
    /// The device whose superblock is `raw`, on a disk of `disk_bytes`.
    fn new(raw: &RawSuperblock, disk_bytes: u64) -> Result<Self, Reason> {
        check_journal(raw)?;
        let found = Self {
            s_blocks_count: raw.s_blocks_count.get(),
            s_log_block_size: raw.s_log_block_size.get(),
            s_uuid: raw.s_uuid,
        };
        ensure(found.s_log_block_size <= 6, "s_log_block_size", found.s_log_block_size)?;
        ensure(raw.s_blocks_count_hi == 0, "s_blocks_count_hi", raw.s_blocks_count_hi)?;
        ensure(found.s_blocks_count > found.journal_first(), "s_blocks_count", found.s_blocks_count)?;
        if found.bytes() > disk_bytes {
            return Err(Reason("the journal's device ends beyond the disk".into()));
        }
        Ok(found)
    }

    /// Recognises the device by the journal's superblock too, which changes at each mount before
    /// the log does. The device's own superblock never changes, and would not reveal an unobserved
    /// mount.
    pub(super) fn find(raw: &RawSuperblock, disk_bytes: u64, contents: &Contents) -> Result<Self, Probe> {
        let found = Self::new(raw, disk_bytes)?;
        let at = u64::from(found.journal_first()) * u64::from(found.block_bytes());
        contents.needed(Extent::new(at, SUPERBLOCK_BYTES))?;
        Ok(found)
    }

    fn bytes(&self) -> u64 {
        u64::from(self.s_blocks_count) * u64::from(self.block_bytes())
    }

    fn super_block(&self) -> Block {
        (SUPERBLOCK_AT / u64::from(self.block_bytes())) as Block
    }
}

impl Format for Device {
    fn name(&self) -> &'static str {
        "external journal"
    }

    fn properties(&self) -> Properties {
        // The properties of the file system, which lies elsewhere: the weakest.
        EXT3_WRITEBACK
    }

    fn block_bytes(&self) -> u32 {
        1024 << self.s_log_block_size
    }

    fn blocks(&self) -> Block {
        self.s_blocks_count
    }

    /// Only the journal knows its state.
    fn was_clean(&self) -> bool {
        false
    }

    fn kind(&self, block: Block) -> Kind {
        match block.cmp(&self.super_block()) {
            std::cmp::Ordering::Less => Kind::Fixed,
            std::cmp::Ordering::Equal => Kind::Geometry,
            std::cmp::Ordering::Greater => Kind::Data,
        }
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        let is_here = kind == Kind::Geometry;
        is_here.then(|| self.super_block()..self.journal_first()).into_iter().collect()
    }

    fn map(&self, at: Extent<Addr>, _bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        Err(Reason(format!("no map lies at byte {}", at.start.0)))
    }

    fn journal(&self) -> Option<Vec<Range<Block>>> {
        Some(std::iter::once(self.journal_first()..self.s_blocks_count).collect())
    }

    fn journal_first(&self) -> u32 {
        self.super_block() + 1
    }

    fn geometry(&self, _block: Block, _old: &[u8], new: &[u8]) -> Geometry {
        let at = (SUPERBLOCK_AT % u64::from(self.block_bytes())) as usize;
        let superblock = new.get(at..).and_then(RawSuperblock::from_bytes).filter(|it| is_journal(it));
        match superblock.map(|it| Self::new(it, self.bytes())) {
            Some(Ok(it)) if it == *self => Geometry::Same,
            _ => Geometry::Changed,
        }
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![("bytes in a block", self.block_bytes().into())]
    }
}

#[cfg(test)]
mod tests;
