//! The interface that each file system implements: where its metadata lies, and the meaning of a
//! change. The rules share everything else.
//!
//! Nothing here trusts its input: a guest is hostile. Every function is total, and its work and
//! memory are bounded by the bytes handed in.

use crate::formats::properties::Properties;
use quietus_core::base::units::{Addr, Extent};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

/// The number of a block in the file system.
pub type Block = u32;

/// Purpose of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Describes the file system itself: a change may make it another file system.
    Geometry,
    /// Allocation map: which blocks are allocated.
    Map,
    /// Inodes: pointers of generations.
    Inodes,
    /// Pointers, of a level of the format's own: 1 points to data, 2 to blocks of level 1, and so
    /// on. Further levels stand for pointers of other sorts.
    Pointers(u8),
    /// Metadata in a fixed place that says nothing about any other block.
    Fixed,
    /// Anything else: content of files, or free.
    Data,
}

/// A run of blocks, as a map shows it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    /// The blocks.
    pub blocks: Range<Block>,
    /// Whether the blocks are allocated; free otherwise.
    pub allocated: bool,
}

/// A pointer: blocks, and the kind of content expected there ([`Kind::Data`] or
/// [`Kind::Pointers`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Link {
    /// The named blocks, one or more.
    pub blocks: Range<Block>,
    /// Kind of the named blocks.
    pub kind: Kind,
}

/// A change of pointers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// A generation no longer names these blocks.
    Unlinked(Link),
    /// A generation names these blocks now.
    Linked(Link),
}

/// The meaning of a write to [`Kind::Geometry`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Geometry {
    /// Nothing that matters has changed.
    Same,
    /// The same file system, now in use.
    InUse,
    /// The same file system, mounted once more: a recovery has finished its writes.
    Mounted,
    /// The same file system, unmounted in order by its driver: everything it holds was written
    /// before.
    Unmounted,
    /// The same file system, now marked clean, or changed by a tool: its content may still be on
    /// its way.
    Clean,
    /// Perhaps another file system, or none.
    Changed,
}

/// Reason why nothing can be inferred: an unknown feature, by name, or an impossible field.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reason(pub String);

impl Reason {
    /// A field of `structure` with an impossible value.
    pub(crate) fn invalid(structure: &str, field: &str, value: impl fmt::Display) -> Self {
        Self(format!("{structure} has an invalid field: `{field}` is {value}"))
    }

    /// The field that the reason names.
    #[cfg(test)]
    pub(crate) fn field(&self) -> &str {
        self.0.split('`').nth(1).unwrap_or_default()
    }
}

/// Refuses `structure` unless its `field`, which has this `value`, is possible.
pub(crate) fn ensure(
    holds: bool,
    structure: &str,
    field: &str,
    value: impl fmt::Display,
) -> Result<(), Reason> {
    if holds { Ok(()) } else { Err(Reason::invalid(structure, field, value)) }
}

/// As [`ensure`], for a field of a boot sector.
pub(crate) fn ensure_boot(holds: bool, field: &str, value: impl fmt::Display) -> Result<(), Reason> {
    ensure(holds, "the boot sector", field, value)
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The part of `bytes` at `at` that lies in `place`: its first byte within `place`, and the bytes.
pub(crate) fn part_within<'a>(place: &Range<u64>, at: Addr, bytes: &'a [u8]) -> (u64, &'a [u8]) {
    let skipped = place.start.saturating_sub(at.0);
    let from = (at.0 + skipped).saturating_sub(place.start);
    let left = (place.end - place.start).saturating_sub(from);
    let bytes = usize::try_from(skipped).ok().and_then(|it| bytes.get(it..)).unwrap_or_default();
    (from, &bytes[..bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX))])
}

/// Role of a block in the tree of a marked file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Role {
    /// Level of the pointers in the block, as in [`Kind::Pointers`]; 0 if it has no pointers.
    pub level: u8,
    /// Whether the block, or the blocks below it, hold the entries of a folder.
    pub is_folder: bool,
}

impl Role {
    /// The least role.
    pub const MIN: Self = Self { level: 0, is_folder: false };
    /// The greatest role.
    pub const MAX: Self = Self { level: u8::MAX, is_folder: true };

    /// Whether the content of the block leads to more of the tree.
    #[must_use]
    pub fn leads_on(self) -> bool {
        self > Self::MIN
    }
}

/// Blocks in the tree of a marked file.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Branch {
    /// The first of the blocks.
    pub start: Block,
    /// The block after the last one.
    pub end: Block,
    /// The role of each.
    pub role: Role,
}

/// An inode, as far as marks are concerned.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Owner {
    /// The number by which folders name the inode.
    pub number: u32,
    /// A number that differs from that of other files with the same inode number.
    pub generation: u32,
    /// Whether the inode belongs to a file, perhaps one without a name that is still open.
    pub is_in_use: bool,
    /// Whether the inode has the mark itself.
    pub is_marked: bool,
}

/// Marks of files (`chattr +s`), and the way from a marked file to all its blocks.
pub trait Marking {
    /// The inodes in `content` of `block`, one of the blocks of inodes.
    fn owners(&self, block: Block, content: &[u8]) -> Vec<Owner>;

    /// The blocks that the inode `number` in `content` of `block` names, if it is in use.
    fn branches_of(&self, block: Block, content: &[u8], number: u32) -> Vec<Branch>;

    /// The blocks named in `content` of a block of pointers in this `role`.
    fn branches(&self, role: Role, content: &[u8]) -> Vec<Branch>;

    /// The numbers of the inodes that the entries in `content` of a folder's block name, but for the folder
    /// itself and its parent.
    fn entries(&self, content: &[u8]) -> Vec<u32>;

    /// The block of inodes in which the inode `number` lies; `None` if there is no such inode.
    fn table_of(&self, number: u32) -> Option<Block>;

    /// Whether each owner writes all its blocks. Otherwise a block may belong to one file, and hold the content
    /// of another for as long as the file lasts.
    fn owners_write(&self) -> bool;

    /// Whether a block that a transaction of the journal frees is not used again before that transaction is
    /// durable, and each block that a map shows allocated belongs to a file.
    fn frees_wait(&self) -> bool;
}

/// The format of one file system. Blocks are numbered from the first byte of the disk; numbers at
/// or beyond [`Format::blocks`] are never handed in.
pub trait Format: Send + fmt::Debug {
    /// Name of the format, as a user knows it.
    fn name(&self) -> &'static str;

    /// Guarantees of the file system's updates.
    fn properties(&self) -> Properties;

    /// Bytes in a block: a power of two.
    fn block_bytes(&self) -> u32;

    /// Number of blocks.
    fn blocks(&self) -> Block;

    /// Whether the file system was unmounted in order, with everything written, when it was probed.
    fn was_clean(&self) -> bool;

    /// Whether the disk shows that the file system is in use, whichever driver mounts it. Otherwise
    /// it may be mounted while it looks clean, with writes still on their way.
    fn tells_of_mounts(&self) -> bool {
        true
    }

    /// Whether a map alone never proves a death, not even with the option `eager`.
    fn always_two_witnesses(&self) -> bool {
        false
    }

    /// Kind of `block` by its place alone; [`Kind::Data`] where the place decides nothing.
    fn kind(&self, block: Block) -> Kind;

    /// The blocks that are of `kind` by their place ([`Kind::Geometry`], [`Kind::Map`] or
    /// [`Kind::Inodes`]; with [`Format::marking`] also [`Kind::Fixed`]), ascending and disjoint. Maps and geometry that hold pointers are among
    /// the inodes too.
    fn survey(&self, kind: Kind) -> Vec<Range<Block>>;

    /// The blocks that `bytes` show, ascending, where `bytes` are a part of a map written at `at`.
    ///
    /// # Errors
    /// The part is not valid: a block is free that cannot be.
    fn map(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason>;

    /// Whether a map on the disk is the last word on free blocks: neither the file system nor a
    /// check of it trusts a pointer more than the map. Then names do not delay a death.
    fn map_is_final(&self) -> bool {
        false
    }

    /// Whether a block that a map shows free stays unconfirmed until the file system comes to rest,
    /// or was active for long enough to write everything. Such a format does not read names.
    fn map_needs_rest(&self) -> bool {
        false
    }

    /// Bytes after a part of a map that complete its last entry. The caller adds them where it has
    /// them.
    fn map_reach_bytes(&self) -> u64 {
        0
    }

    /// The blocks that `bytes` at `at` show, as [`Format::map`] has it, for bytes that were read
    /// when everything had been written: other metadata about the map counts too.
    ///
    /// # Errors
    /// The part is not valid: a block is free that cannot be.
    fn map_at_rest(&self, at: Extent<Addr>, bytes: &[u8]) -> Result<Vec<Shown>, Reason> {
        self.map(at, bytes)
    }

    /// Takes new `content` of `block`, of [`Kind::Geometry`], which left the file system the same.
    /// Returns whether there are more inodes than before: [`Format::survey`] and [`Format::kind`]
    /// include them from now on.
    fn learn(&mut self, _block: Block, _content: &[u8]) -> bool {
        false
    }

    /// Reason why the names in `block`, one of the blocks of inodes, cannot be known from its
    /// `content`. Such a block names nothing, and may name any block.
    fn unknown(&self, _block: Block, _content: &[u8]) -> Option<Reason> {
        None
    }

    /// Changes of pointers when `block` goes from `old` to `new`. Its `kind` is [`Kind::Inodes`],
    /// [`Kind::Pointers`], or another that [`Format::survey`] counts among the inodes. A block of
    /// zeros names nothing. The same pointer of the same generation on both sides is no change.
    fn diff(&self, _block: Block, _kind: Kind, _old: &[u8], _new: &[u8]) -> Vec<Change> {
        Vec::new()
    }

    /// All pointers in `content` of a block of `kind`, as linked.
    fn pointers(&self, block: Block, kind: Kind, content: &[u8]) -> Vec<Change> {
        self.diff(block, kind, &vec![0; content.len()], content)
    }

    /// Whether [`Self::unwritten`] may find some.
    fn has_unwritten(&self) -> bool {
        false
    }

    /// The blocks of data that `content` of `block`, of a `kind` as for [`Self::diff`], names as unwritten: their
    /// owner reads zeros there, whatever they hold.
    fn unwritten(&self, _block: Block, _kind: Kind, _content: &[u8]) -> Vec<Range<Block>> {
        Vec::new()
    }

    /// The blocks of the journal, in the journal's own order. A file system with a journal of its
    /// own gets rule J, any other rule E. No block of the journal is fixed metadata, and none is
    /// listed twice.
    fn journal(&self) -> Option<Vec<Range<Block>>> {
        None
    }

    /// The journal's own number for its first block, the superblock.
    fn journal_first(&self) -> u32 {
        0
    }

    /// Whether the journal is external, out of sight: a recovery from it writes maps that are older
    /// than those on the disk. A recovery ends before [`Geometry::Mounted`], or before the file
    /// system is marked as not in use.
    fn has_external_journal(&self) -> bool {
        false
    }

    /// Whether a host that mounts the file system afresh must read something in `extent` before its
    /// first write.
    fn is_opened_by(&self, _extent: Extent<Addr>) -> bool {
        false
    }

    /// Marks of files; `None` if the format has none, or if they cannot all be followed.
    fn marking(&self) -> Option<&dyn Marking> {
        None
    }

    /// Bytes that tell the file system from any other, however its size changes; `None` if it has none.
    fn identity(&self) -> Option<Vec<u8>> {
        None
    }

    /// The meaning of a change of `block`, of [`Kind::Geometry`], from `old` to `new`.
    fn geometry(&self, block: Block, old: &[u8], new: &[u8]) -> Geometry;

    /// Deleted content that cannot be told from that of files, for the status (decision 34).
    fn hidden(&self) -> &'static [&'static str] {
        &[]
    }

    /// Figures for the status, by name.
    fn figures(&self) -> Vec<(&'static str, u64)>;
}

/// Result of a probe.
#[derive(Debug)]
pub enum Probe {
    /// The prober needs these extents first.
    Needs(Vec<Extent<Addr>>),
    /// The file system was recognised.
    Is(Box<dyn Format>),
    /// Not this file system.
    IsNot,
    /// The file system was recognised, but nothing can be inferred, for this reason.
    Refused(Reason),
}

impl From<Reason> for Probe {
    fn from(reason: Reason) -> Self {
        Self::Refused(reason)
    }
}

impl Probe {
    /// The result of a search that found a file system, or ended before.
    pub(crate) fn of<F: Format + 'static>(found: Result<F, Self>) -> Self {
        match found {
            Ok(format) => Self::Is(Box::new(format)),
            Err(ended) => ended,
        }
    }
}

/// Parts of the disk's content, by the address of their first byte.
#[derive(Clone, Debug, Default)]
pub struct Contents(BTreeMap<u64, Vec<u8>>);

impl Contents {
    /// Adds the content at `at`.
    pub fn insert(&mut self, at: Addr, bytes: Vec<u8>) {
        self.0.insert(at.0, bytes);
    }

    /// Applies a write of `bytes` at `extent` to the parts held.
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

    /// A checksum of all parts held (CRC-32C).
    #[must_use]
    pub fn checksum(&self) -> u32 {
        self.0.iter().fold(0, |crc, (start, part)| {
            crc32c::crc32c_append(crc32c::crc32c_append(crc, &start.to_le_bytes()), part)
        })
    }

    /// The `len` bytes at `start` of a disk of `disk_bytes`, which tell whether a file system is there at all.
    pub(crate) fn head(&self, start: u64, len: u64, disk_bytes: u64) -> Result<&[u8], Probe> {
        self.needed(Extent::within(start, len, disk_bytes).ok_or(Probe::IsNot)?)
    }

    /// The content of `extent`, without which a search cannot go on.
    pub(crate) fn needed(&self, extent: Extent<Addr>) -> Result<&[u8], Probe> {
        self.get(extent).ok_or_else(|| Probe::Needs(vec![extent]))
    }

    /// As [`Self::needed`], for all of `extents`.
    pub(crate) fn all_needed(&self, extents: &[Extent<Addr>]) -> Result<Vec<&[u8]>, Probe> {
        let missing: Vec<_> = extents.iter().copied().filter(|at| self.get(*at).is_none()).collect();
        if !missing.is_empty() {
            return Err(Probe::Needs(missing));
        }
        Ok(extents.iter().filter_map(|at| self.get(*at)).collect())
    }

    /// The content of `extent`, if one part holds all of it.
    #[must_use]
    pub fn get(&self, extent: Extent<Addr>) -> Option<&[u8]> {
        let (start, bytes) = self.0.range(..=extent.start.0).next_back()?;
        let from = usize::try_from(extent.start.0 - start).ok()?;
        bytes.get(from..)?.get(..usize::try_from(extent.len).ok()?)
    }
}

/// Looks for one file system on a disk of `disk_bytes`, in the contents that it has asked for so
/// far; `None` at first.
pub type Prober = fn(disk_bytes: u64, contents: &Contents) -> Probe;
