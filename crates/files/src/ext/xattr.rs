//! Extended attributes: within the inode, in a block of their own, and with values in inodes.
//!
//! 1. An entry, its name and its value lie within the space of the attributes.
//! 2. The values of one file have at most [`VALUES_BYTES_MAX`] bytes.

use crate::ext::acl;
use crate::ext::bytes::{at, slice};
use crate::ext::disk::Disk;
use crate::ext::inode::Inode;
use crate::ext::units::Ino;
use crate::{Error, ExtendedAttribute};
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const EXT4_XATTR_MAGIC: u32 = 0xEA02_0000;
/// Entries begin at multiples of this.
const EXT4_XATTR_ROUND: usize = 4;
/// Bytes of the magic number ahead of the attributes within an inode.
const MAGIC_BYTES: usize = 4;
/// Largest value of Linux (`XATTR_SIZE_MAX`).
const VALUE_BYTES_MAX: u32 = 65_536;
/// Most bytes of the values of one file: a block of attributes whose values have inodes holds a hundred of the largest.
const VALUES_BYTES_MAX: u64 = 16 << 20;

/// The index of the name that inline data has, and the rest of that name.
const SYSTEM: u8 = 7;
const INLINE_DATA: &[u8] = b"data";

/// The header of a block of attributes (`fs/ext4/xattr.h`).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawHeader {
    h_magic: U32,
    _h_refcount: U32,
    h_blocks: U32,
    _from_0xc: [u8; 20],
}

/// An entry. The name follows.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    e_name_len: u8,
    e_name_index: u8,
    e_value_offs: U16,
    e_value_inum: U32,
    e_value_size: U32,
    _e_hash: U32,
}

const _: () = {
    assert!(size_of::<RawHeader>() == 32 && size_of::<RawEntry>() == 16);
    assert!(offset_of!(RawEntry, e_value_size) == 8);
};

/// An attribute, and where its value lies.
pub(super) struct Entry {
    e_name_index: u8,
    name: Vec<u8>,
    value: Value,
}

enum Value {
    Here(Vec<u8>),
    InInode(Ino, u32),
}

/// The entries among `space`, whose first entry lies at byte `first`. Places of values count from byte `base`.
fn entries(ino: Ino, space: &[u8], first: usize, base: usize) -> Result<Vec<Entry>, Error> {
    let (mut found, mut from) = (Vec::new(), first);
    loop {
        let mark = at::<U32>(space, from).ok_or_else(|| ino.damaged("extended attributes without an end"))?;
        if *mark == 0 {
            return Ok(found);
        }
        let entry = entry(space, from, base).map_err(|what| ino.damaged(&format!("attribute: {what}")))?;
        from += (size_of::<RawEntry>() + entry.name.len()).next_multiple_of(EXT4_XATTR_ROUND);
        found.push(entry);
    }
}

fn entry(space: &[u8], from: usize, base: usize) -> Result<Entry, String> {
    let raw: &RawEntry = at(space, from).ok_or("cut off")?;
    let e_name_len = usize::from(raw.e_name_len);
    let name = slice(space, from + size_of::<RawEntry>(), e_name_len);
    let name = name.filter(|it| !it.contains(&0)).ok_or_else(|| format!("e_name_len {e_name_len}"))?;
    let (e_value_offs, e_value_size) = (usize::from(raw.e_value_offs), raw.e_value_size.get());
    if e_value_size > VALUE_BYTES_MAX {
        return Err(format!("e_value_size {e_value_size}"));
    }
    let value = match raw.e_value_inum.get() {
        0 => slice(space, base + e_value_offs, e_value_size as usize)
            .or((e_value_size == 0).then_some(&[][..]))
            .map(|value| Value::Here(value.to_vec()))
            .ok_or_else(|| format!("e_value_offs {e_value_offs}, e_value_size {e_value_size}"))?,
        e_value_inum => Value::InInode(Ino(e_value_inum), e_value_size),
    };
    Ok(Entry { e_name_index: raw.e_name_index, name: name.to_vec(), value })
}

/// The attributes within an inode.
fn in_inode(inode: &Inode) -> Result<Vec<Entry>, Error> {
    let space = inode.attribute_space();
    match at::<U32>(space, 0) {
        Some(magic) if *magic == EXT4_XATTR_MAGIC => entries(inode.ino, space, MAGIC_BYTES, MAGIC_BYTES),
        _ => Ok(Vec::new()),
    }
}

/// The attributes in the block of an inode.
fn in_block(disk: &mut Disk, inode: &Inode) -> Result<Vec<Entry>, Error> {
    let Some(block) = inode.i_file_acl else { return Ok(Vec::new()) };
    disk.check(block, 1).map_err(|beyond| inode.ino.damaged(&format!("i_file_acl: {beyond}")))?;
    let space = disk.block(block)?;
    let header: &RawHeader = at(&space, 0).ok_or_else(|| inode.ino.damaged("h_magic is cut off"))?;
    if header.h_magic != EXT4_XATTR_MAGIC || header.h_blocks != 1 {
        let (h_magic, h_blocks) = (header.h_magic.get(), header.h_blocks.get());
        return Err(inode.ino.damaged(&format!("h_magic {h_magic:#x}, h_blocks {h_blocks}")));
    }
    entries(inode.ino, &space, size_of::<RawHeader>(), 0)
}

/// The part of inline data that does not fit `i_block`; empty if there is no such part.
pub(super) fn inline_data(inode: &Inode) -> Result<Vec<u8>, Error> {
    let is_it = |entry: &Entry| entry.e_name_index == SYSTEM && entry.name == INLINE_DATA;
    match in_inode(inode)?.into_iter().find(is_it).map(|entry| entry.value) {
        Some(Value::Here(value)) => Ok(value),
        Some(Value::InInode(..)) => Err(inode.ino.damaged("e_value_inum of the inline data is not 0")),
        None => Ok(Vec::new()),
    }
}

/// Reads the value of that many bytes from an inode.
pub(super) type ReadValue<'r> = dyn FnMut(&mut Disk, Ino, u32) -> Result<Vec<u8>, Error> + 'r;

/// All attributes of an inode that Linux shows.
pub(super) fn all(
    disk: &mut Disk,
    inode: &Inode,
    read: &mut ReadValue,
) -> Result<Vec<ExtendedAttribute>, Error> {
    let (mut found, mut bytes) = (Vec::new(), 0);
    for entry in in_inode(inode)?.into_iter().chain(in_block(disk, inode)?) {
        let Some(name) = full_name(entry.e_name_index, &entry.name) else { continue };
        let value = match entry.value {
            Value::Here(value) => value,
            Value::InInode(ino, size) => read(disk, ino, size)?,
        };
        bytes += value.len() as u64;
        if bytes > VALUES_BYTES_MAX {
            return Err(inode.ino.damaged("the values of the attributes exceed 16 MiB"));
        }
        let value = if is_acl(entry.e_name_index) { acl::converted(inode.ino, &value)? } else { value };
        found.push((name, value));
    }
    Ok(found)
}

/// Whether an index stands for an access list.
fn is_acl(e_name_index: u8) -> bool {
    matches!(e_name_index, 2 | 3)
}

/// The name that a program sees; `None` for what Linux keeps to itself.
fn full_name(e_name_index: u8, name: &[u8]) -> Option<Vec<u8>> {
    let prefix: &[u8] = match e_name_index {
        1 => b"user.",
        2 => b"system.posix_acl_access",
        3 => b"system.posix_acl_default",
        4 => b"trusted.",
        6 => b"security.",
        SYSTEM if name != INLINE_DATA => b"system.",
        8 => b"system.richacl",
        10 => b"gnu.",
        _ => return None,
    };
    Some([prefix, name].concat())
}
