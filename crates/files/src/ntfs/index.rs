//! The entries of a folder: the index `$I30`, whose root lies in the record, and whose blocks lie in clusters.
//!
//! 1. The index is a tree, and is not read as one: all of its blocks that `$BITMAP` has in use are read in their order. So a walk ends, and
//!    a damaged block, or one that cannot be read, hides its own names only.
//! 2. The first damage is the error given at the end.

use crate::ntfs::disk::{Disk, FIRST_USER_RECORD, damaged};
use crate::ntfs::name::{FILE_NAME, Name};
use crate::ntfs::node::Node;
use crate::ntfs::stream::Stream;
use crate::{Error, FileId, names};
use quietus_detect::formats::ntfs::list::{number_of, sequence_of};
use quietus_detect::formats::ntfs::record::{RawProtected, restored};
use std::mem::offset_of;
use std::ops::ControlFlow;
use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Types of the attributes.
const INDEX_ROOT: u32 = 0x90;
const INDEX_ALLOCATION: u32 = 0xA0;
const BITMAP: u32 = 0xB0;
/// `$I30` in UTF-16: the attributes' name.
const I30: &[u8] = b"$\0I\x003\x000\0";
/// Possible sizes of a block.
const BLOCK_BYTES: std::ops::RangeInclusive<u64> = 512..=65_536;
/// Most bytes of the root, which lies in a record.
const ROOT_BYTES_MAX: u64 = 4096;
/// Most bytes of all blocks: some thirty million names.
const BLOCKS_BYTES_MAX: u64 = 4 << 30;
/// Bytes of the bitmap that are read at once.
const BITMAP_BYTES: usize = 4096;
/// Flag of the root: there are blocks.
const LARGE_INDEX: u8 = 1;
/// Flag of an entry: it ends its block, and has no name.
const INDEX_ENTRY_END: u16 = 2;

/// The head of a root.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawRoot {
    kind: U32,
    _collation_rule: U32,
    index_block_size: U32,
    _clusters_per_index_block: u8,
    _reserved: [u8; 3],
    header: RawHeader,
}

/// The head of the entries of a root or a block. Offsets count from here.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawHeader {
    entries_offset: U32,
    index_length: U32,
    _allocated_size: U32,
    flags: u8,
    _reserved: [u8; 3],
}

/// The head of a block.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawBlock {
    protected: RawProtected,
    _lsn: U64,
    _index_block_vcn: U64,
    _header: RawHeader,
}

/// The head of an entry. A name follows.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned, Clone, Copy, Debug)]
#[repr(C)]
struct RawEntry {
    indexed_file: U64,
    length: U16,
    key_length: U16,
    flags: U16,
    _reserved: U16,
}

const _: () = {
    assert!(offset_of!(RawRoot, index_block_size) == 8 && offset_of!(RawRoot, header) == 16);
    assert!(offset_of!(RawBlock, _header) == 0x18 && size_of::<RawHeader>() == 16);
    assert!(offset_of!(RawEntry, flags) == 0x0C && size_of::<RawEntry>() == 16);
};

/// A name in a folder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Indexed {
    /// The name.
    pub name: String,
    /// The file that has it.
    pub file: FileId,
    /// Only DOS sees the name.
    is_dos: bool,
}

impl Indexed {
    /// Whether a user sees the name: it is no second name for DOS, and not of the system.
    pub(super) fn is_visible(&self) -> bool {
        !self.is_dos && self.file.number >= FIRST_USER_RECORD
    }
}

/// An entry with its length: its name, the lack of one, or damage of the name.
type Next = (Result<Option<Indexed>, String>, usize);

/// The entry at the start of `bytes`; `None` if it ends them.
fn entry(bytes: &[u8]) -> Result<Option<Next>, String> {
    let (raw, _) = RawEntry::read_from_prefix(bytes).map_err(|_| "an entry is cut off")?;
    if raw.flags.get() & INDEX_ENTRY_END != 0 {
        return Ok(None);
    }
    let (length, key_length) = (usize::from(raw.length), usize::from(raw.key_length));
    let whole = bytes.get(size_of::<RawEntry>()..length).filter(|_| length.is_multiple_of(8));
    let key = whole.and_then(|it| it.get(..key_length));
    let key = key.ok_or_else(|| format!("an entry with length {length}, key_length {key_length}"))?;
    Ok(Some((indexed(raw.indexed_file.get(), key), length)))
}

/// The name `key` of the file `reference`. The root names itself `.`, which is no name.
fn indexed(reference: u64, key: &[u8]) -> Result<Option<Indexed>, String> {
    let Name { units, is_dos } = Name::from_bytes(key)?;
    let file = FileId { number: number_of(reference), generation: sequence_of(reference).into() };
    match names::from_units(&units) {
        Some(name) => Ok(Some(Indexed { name, file, is_dos })),
        None if units == [u16::from(b'.')] => Ok(None),
        None => Err(format!("the name of record {} is empty, or has a / or NUL", file.number)),
    }
}

/// The folder that is walked, and what came of that so far.
struct Walk<'f> {
    number: u64,
    found: &'f mut dyn FnMut(Indexed) -> bool,
    damage: Result<(), Error>,
}

impl Walk<'_> {
    /// Notes damage, and goes on.
    fn note(&mut self, error: Error) {
        if self.damage.is_ok() {
            self.damage = Err(error);
        }
    }

    /// Gives the entries behind the header at the start of `area`.
    fn entries(&mut self, area: &[u8], place: &str) -> ControlFlow<()> {
        let number = self.number;
        let lie = |what: String| damaged(number, format_args!("{place}: {what}"));
        let Ok((header, _)) = RawHeader::read_from_prefix(area) else {
            self.note(lie("its header is cut off".into()));
            return ControlFlow::Continue(());
        };
        let (start, end) = (header.entries_offset.get() as usize, header.index_length.get() as usize);
        let Some(mut rest) = area.get(start..end) else {
            self.note(lie(format!("entries_offset {start}, index_length {end}")));
            return ControlFlow::Continue(());
        };
        loop {
            let (indexed, length) = match entry(rest) {
                Ok(Some(next)) => next,
                Ok(None) => return ControlFlow::Continue(()),
                Err(what) => {
                    self.note(lie(what));
                    return ControlFlow::Continue(());
                }
            };
            match indexed {
                Ok(Some(indexed)) => {
                    if !(self.found)(indexed) {
                        return ControlFlow::Break(());
                    }
                }
                Ok(None) => {}
                Err(what) => self.note(lie(what)),
            }
            rest = &rest[length..];
        }
    }

    /// Gives the entries of block `n`, which are these `bytes`.
    fn block(&mut self, n: u64, bytes: &[u8]) -> ControlFlow<()> {
        let place = format!("block {n} of its index");
        let is_block = RawBlock::ref_from_prefix(bytes).is_ok_and(|(it, _)| it.protected.magic == *b"INDX");
        let whole =
            if is_block { restored(bytes).map_err(|lie| lie.to_string()) } else { Err("no INDX".into()) };
        match whole {
            Ok(whole) => self.entries(&whole[offset_of!(RawBlock, _header)..], &place),
            Err(what) => {
                self.note(damaged(self.number, format_args!("{place}: {what}")));
                ControlFlow::Continue(())
            }
        }
    }

    /// Gives the entries of all blocks that are in use.
    fn blocks(
        &mut self,
        disk: &mut Disk,
        bitmap: &Stream,
        blocks: &Stream,
        block_bytes: u64,
    ) -> Result<ControlFlow<()>, Error> {
        let count = blocks.bytes / block_bytes;
        for from in (0..count.div_ceil(8)).step_by(BITMAP_BYTES) {
            let bits = bitmap.read(disk, from, BITMAP_BYTES)?;
            let in_use =
                (from * 8..count).zip(bits.iter().flat_map(|byte| (0..8).map(move |n| byte >> n & 1)));
            for (n, _) in in_use.filter(|(_, bit)| *bit == 1) {
                let end = match blocks.read(disk, n * block_bytes, block_bytes as usize) {
                    Ok(bytes) => self.block(n, &bytes),
                    Err(error) => {
                        self.note(error);
                        ControlFlow::Continue(())
                    }
                };
                if end.is_break() {
                    return Ok(end);
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Calls `found` for each name in the folder `node`, until it returns `false`.
pub(super) fn entries(
    disk: &mut Disk,
    node: &Node,
    found: &mut dyn FnMut(Indexed) -> bool,
) -> Result<(), Error> {
    let lie = |what: String| damaged(node.number, what);
    let root = node.stream(disk, INDEX_ROOT, I30)?.ok_or_else(|| lie("it has no $INDEX_ROOT".into()))?;
    let root = root.whole(disk, ROOT_BYTES_MAX)?;
    let (raw, _) = RawRoot::read_from_prefix(&root).map_err(|_| lie("its $INDEX_ROOT is cut off".into()))?;
    let block_bytes = u64::from(raw.index_block_size);
    if raw.kind != FILE_NAME || !block_bytes.is_power_of_two() || !BLOCK_BYTES.contains(&block_bytes) {
        return Err(lie(format!("$INDEX_ROOT of type {:#x}, index_block_size {block_bytes}", raw.kind)));
    }
    let mut walk = Walk { number: node.number, found, damage: Ok(()) };
    if walk.entries(&root[offset_of!(RawRoot, header)..], "its $INDEX_ROOT").is_break() {
        return Ok(());
    }
    if raw.header.flags & LARGE_INDEX == 0 {
        return walk.damage;
    }
    let blocks = node.stream(disk, INDEX_ALLOCATION, I30)?;
    let blocks = blocks.ok_or_else(|| lie("it has no $INDEX_ALLOCATION".into()))?;
    let volume_bytes = disk.boot().clusters * disk.boot().cluster_bytes;
    if blocks.bytes > volume_bytes.min(BLOCKS_BYTES_MAX) {
        return Err(lie(format!("data_size {} of $INDEX_ALLOCATION", blocks.bytes)));
    }
    let bitmap = node.stream(disk, BITMAP, I30)?.ok_or_else(|| lie("its index has no $BITMAP".into()))?;
    match walk.blocks(disk, &bitmap, &blocks, block_bytes)? {
        ControlFlow::Break(()) => Ok(()),
        ControlFlow::Continue(()) => walk.damage,
    }
}

/// Bytes of the index of the folder `node`, and those of its clusters.
pub(super) fn size(disk: &mut Disk, node: &Node) -> Result<(u64, u64), Error> {
    let blocks = node.stream(disk, INDEX_ALLOCATION, I30)?;
    let index = if blocks.is_some() { blocks } else { node.stream(disk, INDEX_ROOT, I30)? };
    Ok(index.map_or((0, 0), |it| (it.bytes, it.allocated_bytes)))
}
