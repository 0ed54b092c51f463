//! NTFS: the places of its metadata, and the meaning of a change.
//!
//! The structures read, and the behaviour relied on: `docs/formats/ntfs.md`.
//!
//! 1. The names in a block are a function of its place and its content alone: the exact inverse
//!    unlinks later whatever was linked.
//! 2. Each record names its own clusters. Lists of attributes are followed only for `$MFT` itself,
//!    and nothing depends on which record extends which.
//! 3. A record that is inconsistent, or partly written, may name any block: as long as there is
//!    one, nothing is called dead ([`Format::unknown`]).
//! 4. `$MFT` may grow while it is watched; if anything else moves, the volume counts as another
//!    file system.
//! 5. No input can cause a panic or a loop, or take more memory than the head of the volume did.

use crate::formats::difference::Difference;
use crate::formats::format::{Block, Change, Contents, Format, Geometry, Kind, Probe, Reason, Shown};
use crate::formats::ntfs::layout::Layout;
use crate::formats::ntfs::lie::Lie;
use crate::formats::ntfs::record::{Record, Value};
use crate::formats::ntfs::volume::Volume;
use crate::formats::properties::{NTFS, Properties};
use crate::input::bits;
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;

pub mod boot;
mod layout;
pub mod lie;
pub mod list;
mod log;
pub mod record;
pub mod runs;
mod volume;

/// An NTFS from the first byte of the disk on.
#[derive(Debug)]
pub struct Ntfs {
    disk_bytes: u64,
    volume: Volume,
    layout: Layout,
    /// Present content of the extents by which the volume was recognised.
    head: Contents,
}

/// Looks for NTFS: asks for the boot sector, then for the system's records, then for the extensions
/// of `$MFT` and the head of `$LogFile`.
#[must_use]
pub fn probe(disk_bytes: u64, contents: &Contents) -> Probe {
    Probe::of(Ntfs::find(disk_bytes, contents))
}

impl Volume {
    /// Whether a driver that marks the volume as in use is above it. Other drivers set no mark.
    fn is_in_use(&self) -> bool {
        self.is_dirty || self.is_logged
    }
}

impl Ntfs {
    fn find(disk_bytes: u64, contents: &Contents) -> Result<Self, Probe> {
        let volume = volume::find(disk_bytes, contents)?;
        let layout = Layout::new(&volume)?;
        let mut head = Contents::default();
        for at in &volume.sources {
            if let Some(bytes) = contents.get(*at) {
                head.insert(at.start, bytes.to_vec());
            }
        }
        Ok(Self { disk_bytes, volume, layout, head })
    }

    /// The file system that a probe would find, were `block` to hold `content`.
    fn with(&self, block: Block, content: &[u8]) -> Option<Self> {
        let mut head = self.head.clone();
        let bytes = u64::from(self.block_bytes());
        head.overwrite(Extent::new(u64::from(block) * bytes, bytes), content);
        Self::find(self.disk_bytes, &head).ok()
    }

    /// Whether `other` is this file system at another time.
    fn goes_on_in(&self, other: &Self) -> bool {
        self.volume.boot == other.volume.boot
            && self.volume.bitmap == other.volume.bitmap
            && self.layout.goes_on_in(&other.layout)
    }

    fn slots<'a>(&self, content: &'a [u8]) -> impl Iterator<Item = &'a [u8]> {
        content.chunks_exact(self.volume.boot.record_bytes as usize)
    }

    fn diff_records(&self, old: &[u8], new: &[u8]) -> Difference {
        let mut difference = Difference::default();
        for (old, new) in self.slots(old).zip(self.slots(new)) {
            if old != new {
                self.diff_record(known(old).as_ref(), known(new).as_ref(), &mut difference);
            }
        }
        difference
    }

    fn diff_record(&self, old: Option<&Record>, new: Option<&Record>, difference: &mut Difference) {
        for (blocks, shift) in old.iter().flat_map(|it| self.named(it).unwrap_or_default()) {
            difference.lose(blocks, 0, shift);
        }
        if old.map(Record::generation) != new.map(Record::generation) {
            difference.settle();
        }
        for (blocks, shift) in new.iter().flat_map(|it| self.named(it).unwrap_or_default()) {
            difference.gain(blocks, 0, shift);
        }
        difference.settle();
    }

    /// The blocks that `record` names, each with its distance from its place in the file, in the
    /// attribute that names it.
    fn named(&self, record: &Record) -> Result<Vec<(Range<Block>, u64)>, Lie> {
        let blocks = self.volume.boot.cluster_bytes / self.volume.boot.block_bytes();
        let mut named = Vec::new();
        for attribute in record.attributes() {
            let attribute = attribute?;
            let Value::Elsewhere(clusters) = attribute.value else { continue };
            let sort = u64::from(crc32c::crc32c_append(attribute.kind, attribute.name)) << 32;
            for run in clusters.runs(self.volume.boot.clusters)? {
                let shift = sort.wrapping_add(run.lcn.wrapping_sub(run.vcn).wrapping_mul(blocks));
                named.push(((run.lcn * blocks) as Block..((run.lcn + run.len) * blocks) as Block, shift));
            }
        }
        Ok(named)
    }

    /// The part of `bytes` at `at` that lies in the bitmap, and its first cluster.
    fn part<'a>(&self, at: Addr, bytes: &'a [u8]) -> Result<(u64, &'a [u8]), Reason> {
        let found = self.volume.bitmap.at(at.0);
        let (first, end) = found.ok_or_else(|| Reason(format!("no map lies at byte {}", at.0)))?;
        let len = bytes.len().min(usize::try_from(end - at.0).unwrap_or(usize::MAX));
        Ok((first * 8, &bytes[..len]))
    }

    fn blocks_of(&self, clusters: Range<u64>) -> Range<Block> {
        let blocks = self.volume.boot.cluster_bytes / self.volume.boot.block_bytes();
        (clusters.start * blocks) as Block..(clusters.end * blocks) as Block
    }

    /// Checks that the clusters of the geometry and of the bitmap are not free.
    fn check_bits(&self, clusters: &Range<u64>, bytes: &[u8]) -> Result<(), Reason> {
        let blocks = self.volume.boot.cluster_bytes / self.volume.boot.block_bytes();
        let bits =
            |fixed: Range<Block>| u64::from(fixed.start) / blocks..u64::from(fixed.end).div_ceil(blocks);
        if self.layout.fixed().any(|fixed| bits::has_clear(bytes, clusters, &bits(fixed))) {
            return Err(Reason("$Bitmap shows metadata as free".into()));
        }
        Ok(())
    }
}

/// The record in `bytes`, if it is consistent and in use.
fn known(bytes: &[u8]) -> Option<Record> {
    Record::from_bytes(bytes).ok().flatten()
}

impl Format for Ntfs {
    fn name(&self) -> &'static str {
        "ntfs"
    }

    fn properties(&self) -> Properties {
        NTFS
    }

    fn block_bytes(&self) -> u32 {
        self.volume.boot.block_bytes() as u32
    }

    fn blocks(&self) -> Block {
        self.volume.boot.blocks() as Block
    }

    fn was_clean(&self) -> bool {
        !self.volume.is_in_use()
    }

    fn tells_of_mounts(&self) -> bool {
        false
    }

    fn always_two_witnesses(&self) -> bool {
        true
    }

    fn kind(&self, block: Block) -> Kind {
        self.layout.kind(block)
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        self.layout.of(kind)
    }

    fn map_needs_rest(&self) -> bool {
        self.volume.is_logged
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let (first, bytes) = self.part(at.start, bytes)?;
        let end = (first + bytes.len() as u64 * 8).min(self.volume.boot.clusters);
        if first >= end {
            return Ok(Vec::new());
        }
        self.check_bits(&(first..end), bytes)?;
        let shown = |(bits, allocated): (Range<usize>, bool)| Shown {
            blocks: self.blocks_of(first + bits.start as u64..first + bits.end as u64),
            allocated,
        };
        Ok(bits::runs(bytes, 0..(end - first) as usize).map(shown).collect())
    }

    fn diff(&self, block: Block, _: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        if !self.layout.inodes.contains(block) {
            return Vec::new();
        }
        self.diff_records(old, new).changes()
    }

    fn unknown(&self, block: Block, content: &[u8]) -> Option<Reason> {
        if !self.layout.inodes.contains(block) {
            return None;
        }
        let in_block = u64::from(self.block_bytes()) / self.volume.boot.record_bytes;
        let first = self.layout.blocks_before(block) * in_block;
        let lie = |bytes| match Record::from_bytes(bytes) {
            Ok(record) => record.and_then(|it| self.named(&it).err()),
            Err(lie) => Some(lie),
        };
        let mut lying = (first..).zip(self.slots(content)).filter_map(|(n, bytes)| Some((n, lie(bytes)?)));
        lying.next().map(|(number, lie)| volume::lies(number, lie))
    }

    fn geometry(&self, block: Block, old: &[u8], new: &[u8]) -> Geometry {
        if old == new {
            return Geometry::Same;
        }
        match self.with(block, new) {
            Some(now) if self.goes_on_in(&now) => match (self.volume.is_in_use(), now.volume.is_in_use()) {
                (_, true) => Geometry::InUse,
                (true, false) => Geometry::Clean,
                (false, false) => Geometry::Same,
            },
            None if self.unknown(block, new).is_some() => Geometry::Same,
            _ => Geometry::Changed,
        }
    }

    fn learn(&mut self, block: Block, content: &[u8]) -> bool {
        let before = self.layout.inodes.len();
        if let Some(now) = self.with(block, content).filter(|now| self.goes_on_in(now)) {
            *self = now;
        }
        self.layout.inodes.len() > before
    }

    fn hidden(&self) -> &'static [&'static str] {
        &["content beyond the initialized size of a file"]
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("file system blocks", self.volume.boot.blocks()),
            ("clusters", self.volume.boot.clusters),
            ("bytes in a block", self.volume.boot.block_bytes()),
            ("bytes in a cluster", self.volume.boot.cluster_bytes),
            ("records of $MFT", self.volume.mft_bytes / self.volume.boot.record_bytes),
        ]
    }
}

#[cfg(test)]
mod tests;
