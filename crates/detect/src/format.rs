//! What each file system supplies: where its metadata lies, and what a change
//! of it says. Everything else is shared by all of them.
//!
//! Nothing here trusts what it reads: a guest is hostile input. Every function
//! is total, and its work and memory are bounded by the bytes handed in.

use crate::properties::Properties;
use quietus_core::units::{Addr, Extent};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The number of a block of the file system.
pub type Block = u32;

/// What a block of the file system is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// It describes the file system itself: a change may make it another one.
    Geometry,
    /// It says which blocks are allocated.
    Map,
    /// It holds inodes: pointers of generations.
    Inodes,
    /// It holds pointers, of a level of the format's own: 1 to blocks of data, 2
    /// to blocks of level 1, and so on; further levels where there are pointers
    /// of more than one sort.
    Pointers(u8),
    /// Metadata in a fixed place that says nothing about any other block.
    Fixed,
    /// Anything else.
    Data,
}

/// What a map says of some blocks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The blocks.
    pub blocks: Range<Block>,
    /// Allocated, else free.
    pub allocated: bool,
}

/// A pointer: some blocks, and what they are taken to hold
/// ([`Kind::Data`] or [`Kind::Pointers`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    /// The first block and, where more than one is named, those behind it.
    pub blocks: Range<Block>,
    /// What is to be found there.
    pub kind: Kind,
}

/// How pointers changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A generation named these blocks, and does so no more.
    Unlinked(Link),
    /// A generation names these blocks now.
    Linked(Link),
}

/// What a write to [`Kind::Geometry`] means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Geometry {
    /// Nothing that matters has changed.
    Same,
    /// It is the same file system, and says that it is in use.
    InUse,
    /// The same, and that it was mounted once more: whatever a recovery had to
    /// write was written before.
    Mounted,
    /// It was in use and has been unmounted, by the file system itself: all
    /// that it holds was written before.
    Unmounted,
    /// It says that it is whole, and was not before or was changed by a tool:
    /// what it holds may still be on its way.
    Clean,
    /// It may be another one, or none.
    Changed,
}

/// Why nothing can be inferred, in words: an unknown feature, by name; a field
/// that lies.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason(pub String);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One file system's format. Blocks are numbered from the first byte of the
/// disk; numbers at or beyond [`Format::blocks`] are never handed in.
pub trait Format: Send + fmt::Debug {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// How it updates the disk.
    fn properties(&self) -> Properties;

    /// Bytes in a block: a power of two.
    fn block_bytes(&self) -> u32;

    /// How many blocks there are.
    fn blocks(&self) -> Block;

    /// Whether everything it holds had been written when it was probed: it is
    /// not mounted, and was unmounted in order.
    fn was_clean(&self) -> bool;

    /// Whether it says on the disk that it is in use, whoever mounts it. If not, it
    /// may be when it was clean, and what it holds be on its way.
    fn tells_of_mounts(&self) -> bool {
        true
    }

    /// Whether a map alone proves nothing, not even to the eager.
    fn always_two_witnesses(&self) -> bool {
        false
    }

    /// What `block` is for, by its place alone; [`Kind::Data`] where that
    /// decides nothing.
    fn kind(&self, block: Block) -> Kind;

    /// The blocks whose place makes them of `kind`, [`Kind::Geometry`],
    /// [`Kind::Map`] or [`Kind::Inodes`], ascending, disjoint. Maps and
    /// geometry that hold pointers are among the inodes too.
    fn survey(&self, kind: Kind) -> Vec<Range<Block>>;

    /// What `bytes`, a part of a map written at `at`, say of the blocks that
    /// just this part is about, ascending.
    ///
    /// # Errors
    /// It is no map: blocks are free that cannot be.
    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason>;

    /// Whether nothing brings back what a map on the disk shows free: neither the
    /// file system nor a check of it believes a pointer more than the map. Then
    /// names hold up no death.
    fn map_is_final(&self) -> bool {
        false
    }

    /// Whether what a map shows free is only doubted until the file system has
    /// come to rest, or has been active for so long that all it had to write has
    /// been written: what names blocks is not read.
    fn map_needs_rest(&self) -> bool {
        false
    }

    /// Bytes behind a map, in the one that follows, that belong to the last that
    /// it says. With them it is handed in where they are at hand.
    fn map_reach_bytes(&self) -> u64 {
        0
    }

    /// What `bytes` at `at` say, as [`Format::map`] has it, if they were read
    /// when everything had been written: then what other metadata says of the
    /// map counts too.
    ///
    /// # Errors
    /// It is no map: blocks are free that cannot be.
    fn map_at_rest(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        self.map(at, bytes)
    }

    /// `block`, of [`Kind::Geometry`], holds `content` from now on, which made
    /// it no other file system. Says whether there are more inodes than before:
    /// then [`Format::survey`] and [`Format::kind`] know them.
    fn learn(&mut self, _block: Block, _content: &[u8]) -> bool {
        false
    }

    /// Why it cannot be known what `block`, one of those of inodes, names when it
    /// holds `content`. Then it names nothing, and may name anything.
    fn unknown(&self, _block: Block, _content: &[u8]) -> Option<Reason> {
        None
    }

    /// How pointers change when `block`, of `kind` [`Kind::Inodes`],
    /// [`Kind::Pointers`], or another one where [`Format::survey`] counts it among
    /// the inodes, changes from `old` to `new`. A block of zeros names
    /// nothing. The same pointer of the same generation in both is no change.
    fn diff(&self, block: Block, kind: Kind, old: &[u8], new: &[u8]) -> Vec<Change>;

    /// All pointers in `content`, of a block of `kind`, as gained.
    fn pointers(&self, block: Block, kind: Kind, content: &[u8]) -> Vec<Change> {
        self.diff(block, kind, &vec![0; content.len()], content)
    }

    /// The blocks of its journal, in the journal's own order, if it has one: then
    /// rule J holds, else rule E. None of them is fixed metadata, none is there
    /// twice.
    fn journal(&self) -> Option<Vec<Range<Block>>> {
        None
    }

    /// The number that the journal itself gives the first of those, its superblock.
    fn journal_first(&self) -> u32 {
        0
    }

    /// Whether it has a journal that lies elsewhere, out of sight: a recovery from
    /// it brings maps to the disk that are older than what lies there. It ends
    /// before [`Geometry::Mounted`] is said, or that nothing is in use any more.
    fn has_journal_elsewhere(&self) -> bool {
        false
    }

    /// Whether somebody who has forgotten all that he knew of the file system, and
    /// takes it over, reads something in `extent` before he writes anything.
    fn is_opened_by(&self, _extent: Extent<Addr>) -> bool {
        false
    }

    /// What it means that `block`, of [`Kind::Geometry`], changes from `old` to
    /// `new`.
    fn geometry(&self, block: Block, old: &[u8], new: &[u8]) -> Geometry;

    /// Figures for the status, by name.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// What a probe found out.
#[derive(Debug)]
pub enum Probe {
    /// It has to see these first.
    Needs(Vec<Extent<Addr>>),
    /// It is this one.
    Is(Box<dyn Format>),
    /// It is something else.
    IsNot,
    /// It is this one, and nothing can be inferred: why.
    Refused(Reason),
}

/// Parts of the disk's content, by their first byte.
#[derive(Clone, Debug, Default)]
pub struct Contents(BTreeMap<u64, Vec<u8>>);

impl Contents {
    /// Adds what lies at `at`.
    pub fn insert(&mut self, at: Addr, bytes: Vec<u8>) {
        self.0.insert(at.0, bytes);
    }

    /// `bytes` are written at `extent`: what is held of it changes.
    pub fn overwrite(&mut self, extent: Extent<Addr>, bytes: &[u8]) {
        for (start, part) in self.0.range_mut(..extent.end()) {
            let held = Extent::new(*start, part.len() as u64);
            if let Some(both) = held.overlap(extent) {
                let (to, from) = ((both.start.0 - start) as usize, (both.start.0 - extent.start.0) as usize);
                let len = both.len as usize;
                part[to..to + len].copy_from_slice(&bytes[from..from + len]);
            }
        }
    }

    /// A checksum of everything held (CRC-32C).
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.0.iter().fold(0, |crc, (start, part)| {
            crc32c::crc32c_append(crc32c::crc32c_append(crc, &start.to_le_bytes()), part)
        })
    }

    /// The content of `extent`, if one part holds all of it.
    #[must_use]
    pub fn get(&self, extent: Extent<Addr>) -> Option<&[u8]> {
        let (start, bytes) = self.0.range(..=extent.start.0).next_back()?;
        let from = usize::try_from(extent.start.0 - start).ok()?;
        bytes.get(from..)?.get(..usize::try_from(extent.len).ok()?)
    }
}

/// Looks for one file system on a disk of `disk_bytes`, given the contents that
/// it asked for before; none at first.
pub type Prober = fn(disk_bytes: u64, contents: &Contents) -> Probe;
