//! The toy file system in blocks as large as a volume's.
//!
//! A block begins with the toy's block of 64 bytes. One of data has two cells of
//! tagged content behind it, one in its first sector and one in its last, so
//! that a torn write shows.

use crate::content::{CELL_BYTES, Tag, fill};
use crate::rule_e::toy::{self, Bytes, MAP, SUPER, Super, TABLE, Toy};
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};
use quietus_detect::format::{Block, Change, Contents, Format, Geometry, Kind, Probe, Prober, Reason, Shown};
use quietus_detect::properties::{EXT2, Properties};
use std::ops::Range;

/// The bytes of `block`, from the file system's first byte on.
fn place(block: Block) -> Extent<Addr> {
    Extent::new(u64::from(block) * BLOCK_BYTES, BLOCK_BYTES)
}

/// `page` as it lies on the disk `at` a block, with content of `tag` behind it.
#[must_use]
pub fn widened(at: Extent<Addr>, page: &Bytes, tag: Option<Tag>) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES as usize];
    bytes[..toy::BLOCK_BYTES].copy_from_slice(page);
    if let Some(tag) = tag {
        for from in [CELL_BYTES, BLOCK_BYTES - CELL_BYTES] {
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
#[must_use]
pub fn narrowed(bytes: &[u8]) -> Bytes {
    bytes[..toy::BLOCK_BYTES].try_into().expect("the lengths are the same")
}

/// Finds the toy file system.
pub const PROBER: Prober = |disk_bytes, contents: &Contents| {
    let Some(bytes) = contents.get(place(SUPER)) else { return Probe::Needs(vec![place(SUPER)]) };
    let Some(found) = Super::from_bytes(bytes) else { return Probe::IsNot };
    let blocks = (disk_bytes / BLOCK_BYTES) as Block;
    let toy = Toy { blocks, inode_blocks: 1, journal: 0, was_clean: found.is_clean };
    Probe::Is(Box::new(Wide { toy, block_bytes: BLOCK_BYTES as u32, has_external_journal: false }))
};

/// The toy as a format of blocks of any size, with its journal, if it has one.
#[derive(Clone, Copy, Debug)]
pub struct Wide {
    /// The toy.
    pub toy: Toy,
    /// Bytes of a block.
    pub block_bytes: u32,
    /// Its journal lies on another device; that of the toy is never written.
    pub has_external_journal: bool,
}

impl Wide {
    /// `toy` in blocks of its own size.
    #[must_use]
    pub fn narrow(toy: Toy) -> Self {
        Self { toy, block_bytes: toy::BLOCK_BYTES as u32, has_external_journal: false }
    }
}

impl Format for Wide {
    fn name(&self) -> &'static str {
        "toy"
    }

    fn properties(&self) -> Properties {
        EXT2
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn blocks(&self) -> Block {
        self.toy.blocks
    }

    fn was_clean(&self) -> bool {
        self.toy.was_clean
    }

    fn kind(&self, block: Block) -> Kind {
        match block {
            SUPER => Kind::Geometry,
            MAP => Kind::Map,
            _ if block < self.toy.journal_first() => Kind::Inodes,
            _ => Kind::Data,
        }
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        let range = match kind {
            Kind::Geometry => SUPER..SUPER + 1,
            Kind::Map => MAP..MAP + 1,
            Kind::Inodes => TABLE..self.toy.journal_first(),
            _ => return Vec::new(),
        };
        Vec::from([range])
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let first = (at.start.0 % u64::from(self.block_bytes)) as Block;
        let shown = bytes.iter().zip(first..self.toy.blocks);
        let shown: Vec<_> =
            shown.map(|(byte, block)| Shown { blocks: block..block + 1, allocated: *byte != 0 }).collect();
        match shown.iter().find(|it| !it.allocated && it.blocks.start < self.toy.first_data()) {
            Some(lie) => Err(Reason(format!("block {} is metadata and free", lie.blocks.start))),
            None => Ok(shown),
        }
    }

    fn diff(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        self.toy.diff(block, kind, &narrowed(old), &narrowed(new))
    }

    fn journal(&self) -> Option<Vec<Range<Block>>> {
        let first = self.toy.journal_first();
        let is_here = self.toy.journal > 0 && !self.has_external_journal;
        is_here.then(|| std::iter::once(first..first + self.toy.journal).collect())
    }

    fn has_external_journal(&self) -> bool {
        self.has_external_journal
    }

    fn map_needs_rest(&self) -> bool {
        self.has_external_journal
    }

    fn is_opened_by(&self, extent: Extent<Addr>) -> bool {
        extent.overlaps(Extent::new(0, self.block_bytes.into()))
    }

    fn geometry(&self, _: Block, old: &[u8], new: &[u8]) -> Geometry {
        toy::geometry(old, new)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
