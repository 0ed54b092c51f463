//! The entries of a folder, in the order in which they lie. The index of a folder (`dir_index`) looks like unused entries,
//! and so does the checksum at the end of a block.

use crate::ext::bytes::{at, slice};
use crate::ext::units::Ino;
use std::mem::offset_of;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Entries begin at multiples of this.
const EXT4_DIR_ROUND: usize = 4;
/// The largest block, whose length does not fit `rec_len`.
const LARGEST_BLOCK_BYTES: usize = 65_536;

/// The head of an entry (`struct ext4_dir_entry_2`). The name follows.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    inode: U32,
    rec_len: U16,
    name_len: u8,
    /// The upper half of the length of the name, without the feature `filetype`.
    file_type: u8,
}

const HEAD_BYTES: usize = size_of::<RawEntry>();

const _: () = assert!(HEAD_BYTES == 8 && offset_of!(RawEntry, name_len) == 6);

/// Entries of one block, or of one part of an inline folder. The first impossible entry ends them.
pub(super) struct Entries<'a> {
    block: &'a [u8],
    from: usize,
    has_file_type: bool,
}

impl<'a> Entries<'a> {
    pub fn new(block: &'a [u8], has_file_type: bool) -> Self {
        Self { block, from: 0, has_file_type }
    }

    /// The entry at the current byte, unused or not, and its length.
    fn entry(&self) -> Result<(Ino, &'a [u8], usize), String> {
        let (block, from) = (self.block, self.from);
        let raw: &RawEntry = at(block, from).ok_or_else(|| format!("an entry at byte {from} is cut off"))?;
        let rec_len = rec_len(raw.rec_len.get(), block.len());
        let high = if self.has_file_type { 0 } else { usize::from(raw.file_type) << 8 };
        let name_len = usize::from(raw.name_len) | high;
        let is_length = rec_len.is_multiple_of(EXT4_DIR_ROUND)
            && rec_len >= (HEAD_BYTES + name_len).next_multiple_of(EXT4_DIR_ROUND)
            && rec_len <= block.len() - from;
        let name = slice(block, from + HEAD_BYTES, name_len).filter(|_| is_length);
        let name = name.ok_or_else(|| format!("rec_len {rec_len}, name_len {name_len} at byte {from}"))?;
        Ok((Ino(raw.inode.get()), name, rec_len))
    }
}

/// The length of an entry, where the largest block has a length of its own.
fn rec_len(rec_len: u16, block_bytes: usize) -> usize {
    match rec_len {
        0 | u16::MAX if block_bytes == LARGEST_BLOCK_BYTES => LARGEST_BLOCK_BYTES,
        _ => rec_len.into(),
    }
}

impl<'a> Iterator for Entries<'a> {
    type Item = Result<(Ino, &'a [u8]), String>;

    /// The next entry that is used, without `.` and `..`.
    fn next(&mut self) -> Option<Self::Item> {
        while self.from < self.block.len() {
            let (ino, name, rec_len) = match self.entry() {
                Ok(entry) => entry,
                Err(what) => {
                    self.from = self.block.len();
                    return Some(Err(what));
                }
            };
            self.from += rec_len;
            match name {
                _ if ino.0 == 0 => {}
                b"." | b".." => {}
                _ if name.is_empty() || name.contains(&0) || name.contains(&b'/') => {
                    return Some(Err(format!("the name of inode {} is empty, or has a / or NUL", ino.0)));
                }
                _ => return Some(Ok((ino, name))),
            }
        }
        None
    }
}
