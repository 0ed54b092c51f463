//! FAT12, FAT16 and FAT32: the places of their metadata, and the meaning of a change.
//!
//! The structures read, and the behaviour relied on: `docs/formats/fat.md`.
//!
//! 1. The names in a block are a function of its place and its content alone: the exact inverse
//!    unlinks later whatever was linked.
//! 2. Only blocks that may hold data are ever named.
//! 3. The table is the last word: for Linux and for every check, a chain ends at an entry of 0,
//!    whatever else names the cluster.
//! 4. A directory's entry names the first cluster of a file, and does not delay a death: it may be
//!    older or newer than the table.
//! 5. No input can cause a panic or a loop, or take more memory than the bytes handed in.

use crate::formats::difference::Difference;
use crate::formats::fat::boot::{BOOT_BYTES, Boot, FIRST_CLUSTER, is_boot};
use crate::formats::fat::directory::{Head, heads};
use crate::formats::fat::table::{Entry, Width};
use crate::formats::format::{
    Block, Change, Contents, Format, Geometry, Kind, Probe, Reason, Shown, part_within,
};
use crate::formats::properties::{Properties, VFAT};
use crate::input::bytes::head;
use quietus_core::base::units::{Addr, Extent};
use std::ops::Range;
use zerocopy::little_endian::U16;

pub mod boot;
mod directory;
pub mod table;

/// Bytes read first: the boot sector, and the place of ext2's magic number.
pub const HEAD_BYTES: u64 = 2048;
const EXT2_MAGIC_AT: usize = 1080;
const EXT2_MAGIC: u16 = 0xEF53;

/// Kind assumed for a block of a directory: it names the first clusters of files, and of
/// directories like itself.
const DIRECTORY: Kind = Kind::Pointers(1);

/// A FAT file system from the first byte of the disk on.
#[derive(Debug)]
pub struct Fat {
    boot: Boot,
    block_bytes: u64,
    /// Clusters and the two entries before them.
    entries: u32,
    disk_bytes: u64,
    was_clean: bool,
}

/// Looks for FAT: asks for the boot sector, then for the head of the table.
#[must_use]
pub fn probe(disk_bytes: u64, contents: &Contents) -> Probe {
    Probe::of(Fat::find(disk_bytes, contents))
}

/// Whether a volume that begins with `bytes`, of [`HEAD_BYTES`], claims to be FAT, and not ext2 behind the boot sector of an earlier FAT.
#[must_use]
pub fn is_fat(bytes: &[u8]) -> bool {
    is_boot(bytes) && !has_ext2_magic(bytes)
}

fn has_ext2_magic(bytes: &[u8]) -> bool {
    bytes.get(EXT2_MAGIC_AT..).and_then(head::<U16>).is_some_and(|it| *it == EXT2_MAGIC)
}

impl Fat {
    fn find(disk_bytes: u64, contents: &Contents) -> Result<Self, Probe> {
        let head = contents.head(0, HEAD_BYTES, disk_bytes)?;
        if !is_fat(head) {
            return Err(Probe::IsNot);
        }
        let boot = Boot::from_bytes(head, disk_bytes)?;
        let table = contents.needed(Extent::new(boot.fat().start, BOOT_BYTES))?;
        let fat = Self::new(boot, disk_bytes, table);
        // The first of the two entries without a cluster repeats the media descriptor, and neither is free.
        (0..FIRST_CLUSTER).try_for_each(|n| fat.check(n, fat.boot.width.entry(table, 0, n)))?;
        Ok(fat)
    }

    fn new(boot: Boot, disk_bytes: u64, table: &[u8]) -> Self {
        let clean = boot.width.clean_bits();
        let is_clean = boot.width.entry(table, 0, 1).value & clean == clean;
        Self {
            block_bytes: boot.block_bytes(),
            entries: boot.clusters() as u32 + FIRST_CLUSTER,
            disk_bytes,
            was_clean: is_clean && !boot.is_dirty,
            boot,
        }
    }

    /// Whether entry `n` can hold `entry`.
    fn check(&self, n: u32, entry: Entry) -> Result<(), Reason> {
        let is_possible = match n {
            0 => entry.value & 0xFF == u32::from(self.boot.bpb_media),
            1 => entry.value != 0,
            _ => entry.value != 0 || !self.is_root(n),
        };
        if is_possible || !entry.is_whole {
            return Ok(());
        }
        Err(Reason(format!("entry {n} of the file allocation table is invalid")))
    }

    fn is_root(&self, cluster: u32) -> bool {
        self.boot.width == Width::Fat32 && cluster == self.boot.bpb_root_clus
    }

    fn bytes_of(&self, block: Block) -> Range<u64> {
        let start = u64::from(block) * self.block_bytes;
        start..start + self.block_bytes
    }

    fn blocks_of(&self, bytes: &Range<u64>) -> Range<Block> {
        let end = if bytes.is_empty() {
            bytes.start / self.block_bytes
        } else {
            bytes.end.div_ceil(self.block_bytes)
        };
        (bytes.start / self.block_bytes) as Block..end as Block
    }

    /// The blocks of `cluster`, which is one.
    fn cluster(&self, cluster: u32) -> Range<Block> {
        let first = self.boot.heap() + u64::from(cluster - FIRST_CLUSTER) * self.boot.cluster_bytes();
        self.blocks_of(&(first..first + self.boot.cluster_bytes()))
    }

    /// The blocks that an entry of `value` names, if they may hold data (invariant 2).
    fn named(&self, value: u32) -> Option<Range<Block>> {
        let is_cluster = (FIRST_CLUSTER..self.entries).contains(&value) && !self.is_root(value);
        is_cluster.then(|| self.cluster(value))
    }

    /// The part of `bytes` at `at` that lies in the table: its first byte within the table, the
    /// bytes, and the entries that they touch.
    fn part<'a>(&self, at: Addr, bytes: &'a [u8]) -> (u64, &'a [u8], Range<u32>) {
        let (from, bytes) = part_within(&self.boot.fat(), at, bytes);
        let touched = self.boot.width.touched(&(from..from + bytes.len() as u64));
        (from, bytes, touched.start.min(self.entries)..touched.end.min(self.entries))
    }

    fn diff_table(&self, block: Block, old: &[u8], new: &[u8]) -> Difference {
        let mut difference = Difference::default();
        let at = Addr(self.bytes_of(block).start);
        let ((from, old, entries), (_, new, _)) = (self.part(at, old), self.part(at, new));
        for n in entries.start.max(FIRST_CLUSTER)..entries.end {
            let [was, is] = [old, new].map(|bytes| self.boot.width.entry(bytes, from, n));
            if was != is && is.is_whole {
                difference.lose_one(self.named(was.value), Kind::Data);
                difference.gain_one(self.named(is.value), Kind::Data);
            }
        }
        difference
    }

    /// The part of `bytes`, a block of a directory, that holds entries: the root directory of FAT12
    /// and FAT16 may begin in the middle of a block.
    fn entries<'a>(&self, block: Block, bytes: &'a [u8]) -> &'a [u8] {
        let root = self.boot.root();
        let skipped = if root.is_empty() { 0 } else { root.start.saturating_sub(self.bytes_of(block).start) };
        usize::try_from(skipped).ok().and_then(|it| bytes.get(it..)).unwrap_or_default()
    }

    fn diff_directory(&self, block: Block, old: &[u8], new: &[u8]) -> Difference {
        let mut difference = Difference::default();
        let [old, new] = [old, new].map(|bytes| heads(self.entries(block, bytes), self.boot.width));
        let at = |heads: &[Option<Head>], n: usize| heads.get(n).copied().flatten();
        for n in 0..old.len().max(new.len()) {
            let (was, is) = (at(&old, n), at(&new, n));
            if was != is {
                was.into_iter().for_each(|it| difference.lose_one(self.named(it.cluster), it.kind()));
                is.into_iter().for_each(|it| difference.gain_one(self.named(it.cluster), it.kind()));
            }
        }
        difference
    }

    /// The bytes of the root directory in a fixed place; for FAT32, its first cluster.
    fn root(&self) -> Range<u64> {
        match self.boot.width {
            Width::Fat32 => {
                let blocks = self.cluster(self.boot.bpb_root_clus);
                self.bytes_of(blocks.start).start..self.bytes_of(blocks.end).start
            }
            _ => self.boot.root(),
        }
    }

    /// Whether only the state differs, as when Linux mounts or unmounts.
    fn is_only_state(&self, old: &[u8], new: &[u8]) -> bool {
        let state = if self.boot.width == Width::Fat32 { 0x41 } else { 0x25 };
        let same = |(at, (old, new)): (usize, (&u8, &u8))| at == state || old == new;
        old.iter().zip(new).take(BOOT_BYTES as usize).enumerate().all(same)
    }

    fn boot_change(&self, old: &[u8], new: &[u8]) -> Geometry {
        let known = |bytes: &[u8]| {
            let boot = is_boot(bytes).then(|| Boot::from_bytes(bytes, self.disk_bytes).ok()).flatten();
            boot.filter(|it| self.boot.is_same(it))
        };
        match (known(old), known(new)) {
            (_, None) | (None, _) => Geometry::Changed,
            (_, Some(new)) if new.is_dirty => Geometry::InUse,
            (Some(was), _) if !was.is_dirty => Geometry::Same,
            _ if self.is_only_state(old, new) => Geometry::Unmounted,
            _ => Geometry::Clean,
        }
    }
}

impl Format for Fat {
    fn name(&self) -> &'static str {
        match self.boot.width {
            Width::Fat12 => "fat12",
            Width::Fat16 => "fat16",
            Width::Fat32 => "fat32",
        }
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
        self.was_clean
    }

    fn kind(&self, block: Block) -> Kind {
        let contains = |bytes: Range<u64>| self.blocks_of(&bytes).contains(&block);
        match block {
            0 => Kind::Geometry,
            _ if contains(self.boot.fat()) => Kind::Map,
            _ if contains(self.root()) => Kind::Inodes,
            _ if u64::from(block) * self.block_bytes < self.boot.heap() => Kind::Fixed,
            _ => Kind::Data,
        }
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        let (table, root) = (self.blocks_of(&self.boot.fat()), self.blocks_of(&self.root()));
        match kind {
            Kind::Geometry => std::iter::once(0..1).collect(),
            Kind::Map => std::iter::once(table).collect(),
            Kind::Inodes => Vec::from([table, root]),
            _ => Vec::new(),
        }
    }

    fn map_is_final(&self) -> bool {
        true
    }

    fn map_reach_bytes(&self) -> u64 {
        u64::from(self.boot.width == Width::Fat12)
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let (from, bytes, entries) = self.part(at.start, bytes);
        let mut shown: Vec<Shown> = Vec::new();
        for n in entries {
            let entry = self.boot.width.entry(bytes, from, n);
            self.check(n, entry)?;
            if n >= FIRST_CLUSTER && (entry.is_whole || entry.value != 0) {
                show(&mut shown, self.cluster(n), entry.value != 0);
            }
        }
        Ok(shown)
    }

    fn diff(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        match kind {
            Kind::Map => self.diff_table(block, old, new).changes(),
            Kind::Inodes | DIRECTORY => self.diff_directory(block, old, new).changes(),
            _ => Vec::new(),
        }
    }

    fn geometry(&self, block: Block, old: &[u8], new: &[u8]) -> Geometry {
        match block {
            0 if old != new => self.boot_change(old, new),
            0 => Geometry::Same,
            _ => Geometry::Changed,
        }
    }

    fn hidden(&self) -> &'static [&'static str] {
        &["clusters that a file reserves beyond its size"]
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        vec![
            ("file system blocks", self.boot.blocks()),
            ("clusters", self.boot.clusters()),
            ("bytes in a block", self.block_bytes),
            ("bytes in a cluster", self.boot.cluster_bytes()),
        ]
    }
}

fn show(shown: &mut Vec<Shown>, blocks: Range<Block>, allocated: bool) {
    match shown.last_mut() {
        Some(last) if last.allocated == allocated && last.blocks.end == blocks.start => {
            last.blocks.end = blocks.end;
        }
        _ => shown.push(Shown { blocks, allocated }),
    }
}

#[cfg(test)]
mod tests;
