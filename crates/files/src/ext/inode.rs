//! An inode: attributes, and where its content begins.

use crate::ext::bytes::{at, slice};
use crate::ext::disk::{Disk, Kept};
use crate::ext::superblock::Superblock;
use crate::ext::units::{FsBlock, Ino};
use crate::{Attributes, Error, Kind, Time};
use quietus_detect::formats::ext2::raw::{
    EXT4_EXTENTS_FL, EXT4_INLINE_DATA_FL, RawInode, S_IFDIR, S_IFLNK, S_IFMT, S_IFREG, SECTOR_BYTES,
};
use std::mem::offset_of;
use zerocopy::little_endian::{I32, U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const S_IFIFO: u16 = 0x1000;
const S_IFCHR: u16 = 0x2000;
const S_IFBLK: u16 = 0x6000;
const S_IFSOCK: u16 = 0xC000;
const PERMISSIONS: u16 = 0o7777;

const EXT4_ENCRYPT_FL: u32 = 0x800;
const EXT4_HUGE_FILE_FL: u32 = 0x4_0000;
const EXT4_EA_INODE_FL: u32 = 0x20_0000;
const EXT4_CASEFOLD_FL: u32 = 0x4000_0000;

/// Bits of the extra field of a time that extend its seconds. The others are nanoseconds.
const EXT4_EPOCH_BITS: u32 = 2;
const NANOSECONDS_MAX: u32 = 999_999_999;
/// Bytes of an inode that every file system has.
pub(super) const GOOD_OLD_BYTES: usize = size_of::<RawInode>();

/// The fields of an inode behind its head, of which it has as many as `i_extra_isize` says.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawExtra {
    i_extra_isize: U16,
    _i_checksum_hi: U16,
    i_ctime_extra: U32,
    i_mtime_extra: U32,
    i_atime_extra: U32,
    i_crtime: I32,
    i_crtime_extra: U32,
}

const _: () = assert!(offset_of!(RawExtra, i_crtime) == 0x10 && size_of::<RawExtra>() == 0x18);

/// Where the content of a file begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Content {
    /// `i_block` is the root of a tree of extents.
    Extents,
    /// `i_block` holds pointers, and pointers to blocks of pointers.
    Indirect,
    /// `i_block` and an extended attribute are the content.
    Inline,
    /// `i_block` holds the text of a link.
    Text,
    /// There is no content.
    Nothing,
}

/// An inode in use, consistent in itself.
pub(super) struct Inode {
    pub ino: Ino,
    pub kind: Kind,
    pub content: Content,
    /// Size of the content in bytes, below 2^63.
    pub i_size: u64,
    /// The block of extended attributes.
    pub i_file_acl: Option<FsBlock>,
    /// All bytes of the inode.
    bytes: Vec<u8>,
}

impl Inode {
    /// Reads an inode that is in use.
    pub fn read(disk: &mut Disk, ino: Ino) -> Result<Self, Error> {
        let found = Self::of(disk.superblock, ino, raw(disk, ino)?)?;
        if found.head().i_links_count == 0 && !found.is_ea_inode() {
            return Err(ino.damaged("i_links_count 0: the file is deleted"));
        }
        Ok(found)
    }

    /// The inode in `bytes`, which may be of a file that has no name any more.
    pub fn of(superblock: &Superblock, ino: Ino, bytes: Vec<u8>) -> Result<Self, Error> {
        let head: &RawInode = at(&bytes, 0).ok_or_else(|| ino.damaged("cut off"))?;
        let kind = kind(ino, head)?;
        let content = content(head, kind, superblock);
        let i_size = size(ino, head, kind, superblock)?;
        let i_file_acl = head.i_file_acl(superblock.features.wide);
        let i_file_acl = Some(FsBlock(i_file_acl)).filter(|it| it.0 != 0);
        let found = Self { ino, kind, content, i_size, i_file_acl, bytes };
        found.check_extra()?;
        Ok(found)
    }

    fn check_extra(&self) -> Result<(), Error> {
        let i_extra_isize = self.i_extra_isize();
        let is_size = GOOD_OLD_BYTES + i_extra_isize <= self.bytes.len() && i_extra_isize.is_multiple_of(4);
        if is_size { Ok(()) } else { Err(self.ino.damaged(&format!("i_extra_isize {i_extra_isize}"))) }
    }

    fn head(&self) -> &RawInode {
        at(&self.bytes, 0).expect("read checks the length")
    }

    fn i_flags(&self) -> u32 {
        self.head().i_flags.get()
    }

    /// Bytes of the fields behind the head; 0 if there are no such fields.
    pub fn i_extra_isize(&self) -> usize {
        at::<U16>(&self.bytes, GOOD_OLD_BYTES).map_or(0, |it| it.get().into())
    }

    /// The space for extended attributes behind the fields. Linux looks for no attributes where there are no fields.
    pub fn attribute_space(&self) -> &[u8] {
        match self.i_extra_isize() {
            0 => &[],
            bytes => self.bytes.get(GOOD_OLD_BYTES + bytes..).unwrap_or_default(),
        }
    }

    pub fn i_block(&self) -> &[u8] {
        self.head().i_block.as_bytes()
    }

    /// The pointers in `i_block`.
    pub fn pointers(&self) -> [u32; 15] {
        self.head().i_block.map(U32::get)
    }

    /// Whether the names in the folder, or the content of the file, are encrypted.
    pub fn is_encrypted(&self) -> bool {
        self.i_flags() & EXT4_ENCRYPT_FL != 0
    }

    /// Whether the folder compares names without case.
    pub fn is_casefolded(&self) -> bool {
        self.i_flags() & EXT4_CASEFOLD_FL != 0
    }

    /// Whether the inode holds the value of an extended attribute.
    pub fn is_ea_inode(&self) -> bool {
        self.i_flags() & EXT4_EA_INODE_FL != 0
    }

    pub fn i_generation(&self) -> u32 {
        self.head().i_generation.get()
    }

    pub fn attributes(&self, superblock: &Superblock) -> Attributes {
        let head = self.head();
        let wide = |high: U16, low: U16| u32::from(high) << 16 | u32::from(low);
        let (ctime, mtime, atime) = (&head.i_ctime, &head.i_mtime, &head.i_atime);
        Attributes {
            kind: self.kind,
            bytes: self.i_size,
            allocated_bytes: self.allocated_bytes(superblock),
            mode: Some(u32::from(head.i_mode.get() & PERMISSIONS)),
            owner: Some((wide(head.l_i_uid_high, head.i_uid), wide(head.l_i_gid_high, head.i_gid))),
            links: Some(head.i_links_count.into()),
            modified: Some(self.time(*mtime, offset_of!(RawExtra, i_mtime_extra))),
            accessed: Some(self.time(*atime, offset_of!(RawExtra, i_atime_extra))),
            changed: Some(self.time(*ctime, offset_of!(RawExtra, i_ctime_extra))),
            born: self.born(),
        }
    }

    /// The field behind the head at byte `offset` there, if `i_extra_isize` covers it.
    fn extra<T: FromBytes + Immutable + KnownLayout + Unaligned + std::marker::Copy>(
        &self,
        offset: usize,
    ) -> Option<T> {
        let is_covered = offset + size_of::<T>() <= self.i_extra_isize();
        at(&self.bytes, GOOD_OLD_BYTES + offset).copied().filter(|_| is_covered)
    }

    fn time(&self, seconds: I32, extra: usize) -> Time {
        let extra = self.extra::<U32>(extra).map_or(0, U32::get);
        let epoch = i64::from(extra & ((1 << EXT4_EPOCH_BITS) - 1)) << 32;
        let nanoseconds = (extra >> EXT4_EPOCH_BITS).min(NANOSECONDS_MAX);
        Time { seconds: i64::from(seconds.get()) + epoch, nanoseconds }
    }

    fn born(&self) -> Option<Time> {
        let i_crtime = self.extra::<I32>(offset_of!(RawExtra, i_crtime))?;
        Some(self.time(i_crtime, offset_of!(RawExtra, i_crtime_extra)))
    }

    fn allocated_bytes(&self, superblock: &Superblock) -> u64 {
        let head = self.head();
        let high = if superblock.features.huge_file { head.l_i_blocks_high.get() } else { 0 };
        let i_blocks = u64::from(high) << 32 | u64::from(head.i_blocks_lo);
        let is_huge = superblock.features.huge_file && self.i_flags() & EXT4_HUGE_FILE_FL != 0;
        i_blocks * if is_huge { u64::from(superblock.block_bytes()) } else { SECTOR_BYTES.into() }
    }
}

/// The bytes of an inode, whatever is in them.
pub(super) fn raw(disk: &mut Disk, ino: Ino) -> Result<Vec<u8>, Error> {
    let (group, index) = disk.superblock.place_of(ino)?;
    let (block_bytes, inode_bytes) = (disk.block_bytes(), u64::from(disk.superblock.s_inode_size));
    let start = u64::from(index) * inode_bytes;
    let table = bg_inode_table(disk, group)?;
    let block = FsBlock(table.0.saturating_add(start / block_bytes));
    disk.check(block, 1)
        .map_err(|beyond| ino.damaged(&format!("bg_inode_table of group {group}: {beyond}")))?;
    let block = disk.kept(Kept::Inodes, block)?;
    let found = slice(block, (start % block_bytes) as usize, inode_bytes as usize);
    Ok(found.ok_or_else(|| ino.damaged("cut off"))?.to_vec())
}

/// The first block of the inode table of a group.
fn bg_inode_table(disk: &mut Disk, group: u32) -> Result<FsBlock, Error> {
    const BG_INODE_TABLE_LO: usize = 0x8;
    const BG_INODE_TABLE_HI: usize = 0x28;
    let (block, start) = disk.superblock.descriptor(group);
    let is_wide = disk.superblock.features.wide;
    let block = disk.kept(Kept::Descriptors, block)?;
    let word = |offset| at::<U32>(block, start + offset).map_or(0, |it| u64::from(it.get()));
    let high = if is_wide { word(BG_INODE_TABLE_HI) } else { 0 };
    Ok(FsBlock(high << 32 | word(BG_INODE_TABLE_LO)))
}

/// The generation of an inode, in use or not; `None` if the inode cannot be read.
pub(super) fn generation(disk: &mut Disk, ino: Ino) -> Option<u32> {
    let bytes = raw(disk, ino).ok()?;
    at::<RawInode>(&bytes, 0).map(|it| it.i_generation.get())
}

fn kind(ino: Ino, head: &RawInode) -> Result<Kind, Error> {
    let i_mode = head.i_mode.get();
    let (major, minor) = device(head.i_block[0].get(), head.i_block[1].get());
    Ok(match i_mode & S_IFMT {
        S_IFREG => Kind::Regular,
        S_IFDIR => Kind::Folder,
        S_IFLNK => Kind::Link,
        S_IFIFO => Kind::Pipe,
        S_IFSOCK => Kind::Socket,
        S_IFCHR => Kind::Character(major, minor),
        S_IFBLK => Kind::Block(major, minor),
        _ => return Err(ino.damaged(&format!("i_mode {i_mode:#o} is no kind of file"))),
    })
}

/// The numbers of a device: the old form in the first word, or the new one in the second.
fn device(old: u32, new: u32) -> (u32, u32) {
    if old != 0 {
        (old >> 8 & 0xFF, old & 0xFF)
    } else {
        ((new & 0xF_FF00) >> 8, new & 0xFF | new >> 12 & 0xF_FF00)
    }
}

fn size(ino: Ino, head: &RawInode, kind: Kind, superblock: &Superblock) -> Result<u64, Error> {
    let has_high = kind == Kind::Regular || superblock.features.large_dir;
    let i_size = head.i_size(has_high);
    if i_size < 1 << 63 { Ok(i_size) } else { Err(ino.damaged(&format!("i_size {i_size} is 2^63 or more"))) }
}

fn content(head: &RawInode, kind: Kind, superblock: &Superblock) -> Content {
    let i_flags = head.i_flags.get();
    match kind {
        Kind::Pipe | Kind::Socket | Kind::Character(..) | Kind::Block(..) => Content::Nothing,
        Kind::Regular | Kind::Folder | Kind::Link if i_flags & EXT4_INLINE_DATA_FL != 0 => Content::Inline,
        Kind::Link if is_fast_symlink(head, superblock) => Content::Text,
        Kind::Regular | Kind::Folder | Kind::Link if i_flags & EXT4_EXTENTS_FL != 0 => Content::Extents,
        Kind::Regular | Kind::Folder | Kind::Link => Content::Indirect,
    }
}

fn is_fast_symlink(head: &RawInode, superblock: &Superblock) -> bool {
    let features = &superblock.features;
    let has_attributes = head.i_file_acl(features.wide) != 0;
    let of_attributes = if has_attributes { superblock.cluster_bytes() / u64::from(SECTOR_BYTES) } else { 0 };
    head.is_fast_symlink(features.ea_inode, of_attributes)
}
