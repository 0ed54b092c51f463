//! exFAT: the places of its metadata, and the meaning of a change.
//!
//! The structures read, and the behaviour relied on: `docs/formats/exfat.md`.
//!
//! 1. The bitmap is trusted only after some time, or once the file system is marked consistent:
//!    directories name clusters, and are not read.
//! 2. The bits of the bitmap's own clusters, and of the root directory's first, are checked: a map
//!    that shows them free is not valid.
//! 3. No input can cause a panic or a loop, or take more memory than the bytes handed in.

use crate::formats::exfat::boot::{BOOT_BYTES, Boot, FIRST_CLUSTER, is_boot, is_only_state};
use crate::formats::format::{Block, Contents, Format, Geometry, Kind, Probe, Reason, Shown, part_within};
use crate::formats::properties::{Properties, VFAT};
use crate::input::bits;
use crate::input::bytes::all;
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;
use zerocopy::little_endian::{U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

pub mod boot;

/// Bytes of the root directory that are searched for the bitmap's entry.
const ROOT_BYTES_MAX: u64 = 4096;
/// Type of the entry of the bitmap.
const ALLOCATION_BITMAP: u8 = 0x81;
const BITMAP_CLUSTERS_MAX: u64 = 1 << 14;
const END_OF_CHAIN: u32 = 0xFFFF_FFFF;

/// An exFAT file system from the first byte of the disk on.
#[derive(Debug)]
pub struct ExFat {
    boot: Boot,
    block_bytes: u64,
    bitmap: Range<u64>,
    disk_bytes: u64,
}

/// Looks for exFAT: asks for the boot sector, then for the boot region and the head of the root
/// directory, then for the chain of the bitmap.
#[must_use]
pub fn probe(disk_bytes: u64, contents: &Contents) -> Probe {
    Probe::of(ExFat::find(disk_bytes, contents))
}

/// A directory's entry of an allocation bitmap (specification, section 7.1).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    entry_type: u8,
    _from_1: [u8; 19],
    first_cluster: U32,
    data_length: U64,
}

const _: () = assert!(size_of::<RawEntry>() == 32);

/// The first cluster of the bitmap, and its length in bytes.
fn bitmap_entry(root: &[u8]) -> Option<(u32, u64)> {
    let entry = all::<RawEntry>(root).iter().find(|it| it.entry_type == ALLOCATION_BITMAP)?;
    Some((entry.first_cluster.get(), entry.data_length.get()))
}

/// The place in the table of the chain of a bitmap of `len` bytes from `first` on.
fn bitmap_chain(boot: &Boot, first: u32, len: u64) -> Result<Extent<Addr>, Reason> {
    let clusters = len.div_ceil(boot.cluster_bytes());
    let is_size = len == u64::from(boot.cluster_count).div_ceil(8) && clusters <= BITMAP_CLUSTERS_MAX;
    let last = u64::from(first) + clusters.saturating_sub(1);
    let is_place = boot.is_cluster(first) && u32::try_from(last).is_ok_and(|it| boot.is_cluster(it));
    if !is_size || !is_place {
        return Err(Reason("the entry of the allocation bitmap is invalid".into()));
    }
    Ok(Extent::new(boot.entry_at(first), clusters * 4))
}

/// Checks that the bitmap lies in one piece, as every formatter makes it.
fn check_chain(first: u32, table: &[u8]) -> Result<(), Reason> {
    if let Some((last, others)) = all::<U32>(table).split_last()
        && *last == END_OF_CHAIN
        && others.iter().zip(first + 1..).all(|(entry, next)| *entry == next)
    {
        return Ok(());
    }
    Err(Reason("the allocation bitmap does not lie in one piece".into()))
}

impl ExFat {
    fn find(disk_bytes: u64, contents: &Contents) -> Result<Self, Probe> {
        let bytes = contents.head(0, BOOT_BYTES, disk_bytes)?;
        if !is_boot(bytes) {
            return Err(Probe::IsNot);
        }
        let boot = Boot::from_bytes(bytes, disk_bytes)?;
        let region = Extent::new(BOOT_BYTES, boot.region_bytes() - BOOT_BYTES);
        let root = boot.cluster_at(boot.first_cluster_of_root_directory);
        let root = Extent::new(root, boot.cluster_bytes().min(ROOT_BYTES_MAX));
        let read = contents.all_needed(&[region, root])?;
        if !boot.is_summed(&[bytes, read[0]].concat()) {
            return Err(Reason("the checksum of the boot region is wrong".into()).into());
        }
        let (first, len) =
            bitmap_entry(read[1]).ok_or_else(|| Reason("the root directory names no bitmap".into()))?;
        let chain = bitmap_chain(&boot, first, len)?;
        check_chain(first, contents.needed(chain)?)?;
        let start = boot.cluster_at(first);
        Ok(Self { block_bytes: boot.block_bytes(), bitmap: start..start + len, disk_bytes, boot })
    }

    fn blocks_of(&self, bytes: &Range<u64>) -> Range<Block> {
        (bytes.start / self.block_bytes) as Block..bytes.end.div_ceil(self.block_bytes) as Block
    }

    /// The blocks of the clusters for `bits`.
    fn clusters(&self, bits: Range<u64>) -> Range<Block> {
        let at =
            |bit: u64| ((self.boot.heap() + bit * self.boot.cluster_bytes()) / self.block_bytes) as Block;
        at(bits.start)..at(bits.end)
    }

    /// The bits of clusters that are never free: the clusters of the bitmap, and the root
    /// directory's first.
    fn fixed_bits(&self) -> [Range<u64>; 2] {
        let bit = |at: u64| (at - self.boot.heap()) / self.boot.cluster_bytes();
        let root = u64::from(self.boot.first_cluster_of_root_directory - FIRST_CLUSTER);
        [bit(self.bitmap.start)..bit(self.bitmap.end - 1) + 1, root..root + 1]
    }

    fn check_bits(&self, shown: &Range<u64>, bytes: &[u8]) -> Result<(), Reason> {
        if self.fixed_bits().iter().any(|fixed| bits::has_clear(bytes, shown, fixed)) {
            return Err(Reason("the allocation bitmap shows metadata as free".into()));
        }
        Ok(())
    }

    fn boot_change(&self, old: &[u8], new: &[u8]) -> Geometry {
        let known = |bytes: &[u8]| {
            let boot = is_boot(bytes).then(|| Boot::from_bytes(bytes, self.disk_bytes).ok()).flatten();
            boot.filter(|it| self.boot.is_same(it))
        };
        match (known(old), known(new)) {
            (_, None) | (None, _) => Geometry::Changed,
            (_, Some(now)) if now.is_dirty() => Geometry::InUse,
            (Some(was), _) if !was.is_dirty() => Geometry::Same,
            (_, Some(now)) if !now.is_clean() => Geometry::Same,
            _ if is_only_state(old, new) => Geometry::Unmounted,
            _ => Geometry::Clean,
        }
    }
}

impl Format for ExFat {
    fn name(&self) -> &'static str {
        "exfat"
    }

    fn properties(&self) -> Properties {
        VFAT
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes as u32
    }

    fn blocks(&self) -> Block {
        self.boot.blocks() as Block
    }

    fn was_clean(&self) -> bool {
        self.boot.is_clean()
    }

    fn kind(&self, block: Block) -> Kind {
        match block {
            0 => Kind::Geometry,
            _ if self.blocks_of(&self.bitmap).contains(&block) => Kind::Map,
            _ if u64::from(block) * self.block_bytes < self.boot.heap() => Kind::Fixed,
            _ => Kind::Data,
        }
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        let range = match kind {
            Kind::Geometry => 0..1,
            Kind::Map => self.blocks_of(&self.bitmap),
            _ => return Vec::new(),
        };
        Vec::from([range])
    }

    fn map_needs_rest(&self) -> bool {
        true
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let (from, bytes) = part_within(&self.bitmap, at.start, bytes);
        let first = from * 8;
        let end = (first + bytes.len() as u64 * 8).min(self.boot.cluster_count.into());
        self.check_bits(&(first..end), bytes)?;
        let shown = |(bits, allocated): (Range<usize>, bool)| Shown {
            blocks: self.clusters(first + bits.start as u64..first + bits.end as u64),
            allocated,
        };
        Ok(bits::runs(bytes, 0..end.saturating_sub(first) as usize).map(shown).collect())
    }

    fn geometry(&self, block: Block, old: &[u8], new: &[u8]) -> Geometry {
        match block {
            0 if old != new => self.boot_change(old, new),
            0 => Geometry::Same,
            _ => Geometry::Changed,
        }
    }

    fn hidden(&self) -> &'static [&'static str] {
        &["content beyond the valid data length of a file"]
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("file system blocks", self.boot.blocks()),
            ("clusters", self.boot.cluster_count.into()),
            ("bytes in a block", self.block_bytes),
            ("bytes in a cluster", self.boot.cluster_bytes()),
        ]
    }
}

#[cfg(test)]
mod tests;
