//! A file system small enough that all of its states can be enumerated.
//!
//! | block | what |
//! | --- | --- |
//! | 0 | the superblock: magic, state, by whom it was written last |
//! | 1 | the map: one byte a block, 0 free |
//! | 2 | inodes of [`INODE_BYTES`] |
//! | behind it, if there is one | a journal |
//! | the rest | data, and blocks of pointers |
//!
//! A block of pointers begins with [`POINTERS`] block numbers of one byte; 0
//! names nothing. Behind them a byte says which of them name blocks of data that were not
//! written: a bit each; and one more is as [`Inode::age`]. Data may begin with anything, so with numbers too.

pub mod marking;

use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::format::{Block, Change, Format, Geometry, Kind, Link, Marking, Reason, Shown};
use quietus_detect::formats::properties::{EXT2, Properties, VFAT};
use quietus_detect::mutant::{self, Mutant};
use std::collections::BTreeMap;
use std::iter;
use std::ops::Range;

pub const BLOCK_BYTES: usize = 64;
pub const INODE_BYTES: usize = 8;
/// Pointers in a block of pointers.
pub const POINTERS: usize = 4;
/// Place of the age in a block of pointers.
pub const AGE: usize = POINTERS + 1;
pub const SUPER: Block = 0;
pub const MAP: Block = 1;
pub const TABLE: Block = 2;
/// The entry at the end of a chain, if the layout is a FAT's.
pub const FAT_END: u8 = 0xFF;

const MAGIC: u8 = 0x51;

pub type Bytes = [u8; BLOCK_BYTES];

/// A block that begins with these bytes.
pub fn page(begin: impl IntoIterator<Item = u8>) -> Bytes {
    let mut bytes = [0; BLOCK_BYTES];
    bytes.iter_mut().zip(begin).for_each(|(byte, it)| *byte = it);
    bytes
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Super {
    /// The superblock says that the file system is whole.
    pub is_clean: bool,
    /// How often a tool has mended it.
    pub mended: u8,
    /// How often it was mounted, where that is counted.
    pub mounts: u8,
}

impl Super {
    pub fn bytes(self) -> Bytes {
        page([MAGIC, u8::from(self.is_clean), self.mended, self.mounts])
    }

    /// The superblock in `bytes`; `None` if these are not a superblock.
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let read = || Self { is_clean: bytes[1] != 0, mended: bytes[2], mounts: bytes[3] };
        (bytes.first() == Some(&MAGIC)).then(read)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Inode {
    /// Changes whenever the inode becomes another file.
    pub generation: u8,
    /// Names in directories; 0 if the inode is not in use and owns nothing.
    pub links: u8,
    pub direct: [u8; 2],
    /// A block of pointers to data.
    pub indirect: u8,
    /// A block of pointers to blocks of pointers.
    pub double: u8,
    /// Which of `direct` name blocks that the file has not written: a bit each.
    pub unwritten: u8,
    /// Changes when the file gives content up and keeps the block, which the rules do not look at.
    pub age: u8,
}

impl Inode {
    pub fn bytes(self) -> [u8; INODE_BYTES] {
        let [first, second] = self.direct;
        [self.generation, self.links, first, second, self.indirect, self.double, self.unwritten, self.age]
    }

    /// From `bytes`, [`INODE_BYTES`] of them.
    pub fn from_bytes(bytes: &[u8]) -> Self {
        Self {
            generation: bytes[0],
            links: bytes[1],
            direct: [bytes[2], bytes[3]],
            indirect: bytes[4],
            double: bytes[5],
            unwritten: bytes[6],
            age: bytes[7],
        }
    }

    /// Blocks that the inode owns, with their kinds.
    pub fn owns(self) -> Vec<(u8, Kind)> {
        if self.links == 0 {
            return Vec::new();
        }
        let mut owned = self.direct.map(|block| (block, Kind::Data)).to_vec();
        owned.extend([(self.indirect, Kind::Pointers(1)), (self.double, Kind::Pointers(2))]);
        owned.retain(|(block, _)| *block != 0);
        owned
    }
}

/// An inode as the format takes it.
fn seen(inode: Inode) -> Inode {
    let links = if mutant::is(Mutant::DeletedInodeOwns) { 1 } else { inode.links };
    Inode { links, ..inode }
}

/// The block of inodes that holds `inodes`.
pub fn table(inodes: &[Inode]) -> Bytes {
    page(inodes.iter().flat_map(|it| it.bytes()))
}

/// Where everything lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Toy {
    /// Blocks of the disk, at most [`BLOCK_BYTES`].
    pub blocks: Block,
    pub journal: Block,
    /// The superblock said that the file system was clean when it was probed.
    pub was_clean: bool,
    /// Bytes of a block, which begins with the toy's of [`BLOCK_BYTES`].
    pub block_bytes: u32,
    /// The journal lies on another device; the toy's own journal is never written.
    pub has_external_journal: bool,
    /// Files have [`marking`].
    pub has_marks: bool,
    /// What a transaction frees is not used again before that is on the disk.
    pub frees_wait: bool,
    pub layout: Layout,
}

/// The metadata behind the superblock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Layout {
    /// As the module's documentation has it.
    #[default]
    Inodes,
    /// As [`crate::rules::rule_e::fat`] has it. The table is final, as in FAT; or it needs rest, as in exFAT.
    Fat { is_final: bool },
}

impl Toy {
    /// A clean file system of `blocks` blocks, without a journal.
    pub fn new(blocks: Block) -> Self {
        let block_bytes = BLOCK_BYTES as u32;
        Self { blocks, was_clean: true, block_bytes, frees_wait: true, ..Self::default() }
    }

    /// The file system that `superblock` describes.
    pub fn found(self, superblock: &[u8]) -> Self {
        Self { was_clean: Super::from_bytes(superblock).is_some_and(|it| it.is_clean), ..self }
    }

    /// An empty file system.
    pub fn disk(&self) -> Vec<Bytes> {
        let mut disk = vec![[0; BLOCK_BYTES]; self.blocks as usize];
        disk[SUPER as usize] = Super { is_clean: self.was_clean, mended: 0, mounts: 0 }.bytes();
        let in_use = if self.layout == Layout::Inodes { 1 } else { FAT_END };
        disk[MAP as usize][..self.first_data() as usize].fill(in_use);
        disk
    }

    /// The first block that is not metadata in a fixed place.
    pub fn first_data(&self) -> Block {
        self.journal_first() + self.journal
    }

    /// The first block of the journal, if there is one.
    pub fn journal_first(&self) -> Block {
        TABLE + 1
    }

    pub fn data(&self) -> Range<Block> {
        match self.layout {
            Layout::Inodes => self.first_data()..self.blocks,
            Layout::Fat { .. } => self.first_data()..self.directory(),
        }
    }

    /// Pointers in `bytes`: the inode that names (number and generation), and what it names.
    fn links(&self, kind: Kind, bytes: &[u8]) -> Links {
        let found: Vec<((usize, u8), u8, Kind)> = match kind {
            Kind::Inodes => {
                let inodes = bytes.chunks_exact(INODE_BYTES).map(Inode::from_bytes).map(seen).enumerate();
                let owned = |(n, it): (usize, Inode)| {
                    it.owns().into_iter().map(move |(what, kind)| ((n, it.generation), what, kind))
                };
                inodes.flat_map(owned).collect()
            }
            Kind::Pointers(level) => {
                let below = if level > 1 { Kind::Pointers(level - 1) } else { Kind::Data };
                bytes.iter().take(POINTERS).map(|it| ((0, 0), *it, below)).collect()
            }
            _ => Vec::new(),
        };
        let mut links = Links::new();
        for (who, what, kind) in found {
            if self.data().contains(&Block::from(what)) {
                *links.entry((who, what, kind)).or_default() += 1;
            }
        }
        links
    }
}

/// How often each pointer is there.
type Links = BTreeMap<((usize, u8), u8, Kind), u32>;

/// The links among `these` that are not among `those`.
fn without(these: &Links, those: &Links) -> Vec<Link> {
    let mut left = Vec::new();
    for (key, count) in these {
        for _ in those.get(key).copied().unwrap_or(0)..*count {
            let block = Block::from(key.1);
            left.push(Link { blocks: block..block + 1, kind: key.2 });
        }
    }
    left
}

/// The change that a superblock means.
fn geometry(old: &[u8], new: &[u8]) -> Geometry {
    match (Super::from_bytes(old), Super::from_bytes(new)) {
        (_, None) | (None, _) => Geometry::Changed,
        (Some(old), Some(new)) if old == new => Geometry::Same,
        (Some(old), Some(new)) if !new.is_clean && old.mounts != new.mounts => Geometry::Mounted,
        (_, Some(new)) if !new.is_clean => Geometry::InUse,
        (Some(old), Some(new)) if !old.is_clean && old.mended == new.mended => Geometry::Unmounted,
        _ => Geometry::Clean,
    }
}

impl Format for Toy {
    fn name(&self) -> &'static str {
        if self.layout == Layout::Inodes { "toy" } else { "fat toy" }
    }

    fn properties(&self) -> Properties {
        if self.layout == Layout::Inodes { EXT2 } else { VFAT }
    }

    fn block_bytes(&self) -> u32 {
        self.block_bytes
    }

    fn blocks(&self) -> Block {
        self.blocks
    }

    fn was_clean(&self) -> bool {
        self.was_clean
    }

    fn kind(&self, block: Block) -> Kind {
        match (self.layout, block) {
            (_, SUPER) => Kind::Geometry,
            (_, MAP) | (Layout::Fat { .. }, TABLE) => Kind::Map,
            (Layout::Inodes, TABLE) => Kind::Inodes,
            (Layout::Fat { is_final: true }, _) if block == self.directory() => Kind::Inodes,
            (Layout::Fat { is_final: false }, _) if block == self.directory() => Kind::Fixed,
            _ => Kind::Data,
        }
    }

    fn survey(&self, kind: Kind) -> Vec<Range<Block>> {
        let (root, table) = (self.directory()..self.blocks, MAP..TABLE + 1);
        let (first, more) = match (self.layout, kind) {
            (_, Kind::Geometry) => (SUPER..MAP, None),
            (Layout::Inodes, Kind::Map) => (MAP..TABLE, None),
            (Layout::Inodes, Kind::Inodes) => (TABLE..self.journal_first(), None),
            (Layout::Fat { .. }, Kind::Map) => (table, None),
            (Layout::Fat { is_final }, Kind::Inodes) => (table, is_final.then_some(root)),
            _ => return Vec::new(),
        };
        iter::once(first).chain(more).collect()
    }

    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        let first = || (at.start.0 - u64::from(self.block_bytes)) as Block;
        let shown: Vec<(u8, Block)> = match self.layout {
            Layout::Inodes => bytes.iter().copied().zip(first()..self.blocks).collect(),
            Layout::Fat { .. } => self.entries_in(at, bytes),
        };
        let shown = shown.into_iter();
        let shown: Vec<_> =
            shown.map(|(byte, block)| Shown { blocks: block..block + 1, allocated: byte != 0 }).collect();
        match shown.iter().find(|it| !it.allocated && it.blocks.start < self.first_data()) {
            Some(lie) => Err(Reason(format!("block {} is metadata and free", lie.blocks.start))),
            None => Ok(shown),
        }
    }

    fn diff(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change> {
        if self.layout != Layout::Inodes {
            return self.diff_fat(block, kind, &old[..BLOCK_BYTES], &new[..BLOCK_BYTES]);
        }
        let links = |bytes: &[u8]| self.links(kind, &bytes[..BLOCK_BYTES]);
        let (old, new) = (links(old), links(new));
        let lost = without(&old, &new).into_iter().map(Change::Unlinked);
        lost.chain(without(&new, &old).into_iter().map(Change::Linked)).collect()
    }

    fn has_unwritten(&self) -> bool {
        self.layout == Layout::Inodes
    }

    fn unwritten(&self, block: Block, kind: Kind, content: &[u8]) -> Vec<Range<Block>> {
        if !self.has_unwritten() {
            return Vec::new();
        }
        let among = |pointers: &[u8], bits: u8| {
            let named = pointers.iter().enumerate().filter(move |(n, _)| bits >> n & 1 == 1);
            named.map(|(_, it)| Block::from(*it)).collect::<Vec<_>>()
        };
        let found: Vec<Block> = match kind {
            Kind::Inodes if block == TABLE => {
                let inodes =
                    content[..BLOCK_BYTES].chunks_exact(INODE_BYTES).map(Inode::from_bytes).map(seen);
                inodes.filter(|it| it.links > 0).flat_map(|it| among(&it.direct, it.unwritten)).collect()
            }
            Kind::Pointers(1) => among(&content[..POINTERS], content[POINTERS]),
            _ => Vec::new(),
        };
        found.into_iter().filter(|it| self.data().contains(it)).map(|it| it..it + 1).collect()
    }

    fn journal(&self) -> Option<Vec<Range<Block>>> {
        let first = self.journal_first();
        let is_here = self.journal > 0 && !self.has_external_journal;
        is_here.then(|| iter::once(first..first + self.journal).collect())
    }

    fn has_external_journal(&self) -> bool {
        self.has_external_journal
    }

    fn map_is_final(&self) -> bool {
        self.layout == Layout::Fat { is_final: true }
    }

    fn map_needs_rest(&self) -> bool {
        self.has_external_journal || self.layout == Layout::Fat { is_final: false }
    }

    fn marking(&self) -> Option<&dyn Marking> {
        self.has_marks.then_some(self)
    }

    fn is_opened_by(&self, extent: Extent<Addr>) -> bool {
        self.layout == Layout::Inodes && extent.overlaps(Extent::new(0, self.block_bytes.into()))
    }

    fn geometry(&self, _: Block, old: &[u8], new: &[u8]) -> Geometry {
        geometry(old, new)
    }

    fn figures(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}
