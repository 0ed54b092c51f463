//! The toy file systems in blocks as large as a volume's.
//!
//! A block begins with the toy's block of 64 bytes. One of data has two cells of
//! tagged content behind it, one in its first sector and one in its last, so
//! that a torn write shows.

use crate::content::{CELL_BYTES, Tag, fill};
use crate::rule_e::toy::{self, Bytes};
use quietus_core::units::{Addr, Extent};
use quietus_detect::format::{Block, Change, Format, Geometry, Kind, Reason, Shown};
use quietus_detect::properties::Properties;
use std::ops::Range;

/// `page` as it lies on the disk `at` a block, with content of `tag` behind it.
pub fn widened(at: Extent<Addr>, page: &Bytes, tag: Option<Tag>) -> Vec<u8> {
    let mut bytes = vec![0; at.len as usize];
    bytes[..toy::BLOCK_BYTES].copy_from_slice(page);
    if let Some(tag) = tag {
        for from in [CELL_BYTES, at.len - CELL_BYTES] {
            let cell = from as usize..(from + CELL_BYTES) as usize;
            fill(tag, at.start.0 + from, &mut bytes[cell]);
        }
    }
    bytes
}

/// The toy's part of a block.
///
/// # Panics
/// If it is shorter than that.
pub fn narrowed(bytes: &[u8]) -> Bytes {
    bytes[..toy::BLOCK_BYTES].try_into().expect("the lengths are the same")
}

/// A toy as a format of blocks of any size.
#[derive(Clone, Copy, Debug)]
pub struct Wide<F> {
    /// The toy.
    pub toy: F,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// The journal lies on another device; that of the toy is never written.
    pub has_external_journal: bool,
}

impl<F: Format> Format for Wide<F> {
    fn name(&self) -> &'static str {
        self.toy.name()
    }

    fn properties(&self) -> Properties {
        self.toy.properties()
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn blocks(&self) -> Block {
        self.toy.blocks()
    }

    fn was_clean(&self) -> bool {
        self.toy.was_clean()
    }

    fn kind(&self, block: Block) -> Kind {
        self.toy.kind(block)
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        self.toy.survey(kind)
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        assert_eq!(at.len, u64::from(self.block_bytes), "the guest writes whole blocks");
        let block = (at.start.0 / u64::from(self.block_bytes)) as Block;
        self.toy.map(toy::place(block), &narrowed(bytes))
    }

    fn diff(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        self.toy.diff(block, kind, &narrowed(old), &narrowed(new))
    }

    fn journal(&self) -> Option<Vec<Range<Block>>> {
        self.toy.journal().filter(|_| !self.has_external_journal)
    }

    fn has_external_journal(&self) -> bool {
        self.has_external_journal
    }

    fn map_is_final(&self) -> bool {
        self.toy.map_is_final()
    }

    fn map_needs_rest(&self) -> bool {
        self.has_external_journal || self.toy.map_needs_rest()
    }

    fn is_opened_by(&self, extent: Extent<Addr>) -> bool {
        extent.overlaps(Extent::new(0, self.block_bytes.into()))
    }

    fn geometry(&self, block: Block, old: &[u8], new: &[u8]) -> Geometry {
        self.toy.geometry(block, old, new)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
