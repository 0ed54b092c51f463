//! Marks: the flag `s` of an inode, and the way from a marked file or folder to its blocks
//! (`docs/decisions/0025-marks.md`).

use crate::formats::ext2::inode::OF_ATTRIBUTES;
use crate::formats::ext2::names::Pointer;
use crate::formats::ext2::{Ext, children};
use crate::formats::format::{Block, Branch, Format as _, Marking, Owner, Role};
use crate::input::bytes::head;
use crate::mutant::{self, Mutant};
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// Length of an entry that takes a whole block of 64 KiB, which 16 bits do not hold.
const REC_LEN_ALL: [u16; 2] = [0, u16::MAX];

/// The head of a folder's entry (`struct ext2_dir_entry_2`); the name follows.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawEntry {
    inode: U32,
    rec_len: U16,
    name_len: u8,
    _file_type: u8,
}

impl Ext {
    /// Whether a marked file leads to all its content. With an external journal, copies lie there; with
    /// `inline_data`, entries lie in inodes; with `ea_inode`, attributes have inodes of their own.
    pub(super) fn follows_marks(&self) -> bool {
        !self.has_external_journal()
            && !self.superblock.features.inline_data
            && !self.superblock.features.ea_inode
    }

    fn branch(&self, pointer: &Pointer, is_folder: bool) -> Option<Branch> {
        let is_folder = is_folder && pointer.at != OF_ATTRIBUTES && !mutant::is(Mutant::FolderNotFollowed);
        let blocks = self.accept(pointer)?;
        let role = Role { level: pointer.level, is_folder };
        Some(Branch { start: blocks.start, end: blocks.end, role })
    }
}

impl Marking for Ext {
    fn owners(&self, block: Block, content: &[u8]) -> Vec<Owner> {
        let slots = content.chunks_exact(self.superblock.s_inode_size as usize);
        let owner = |(number, bytes)| {
            let inode = self.inode(number, bytes);
            let (is_in_use, is_marked) = (inode.has_content(), inode.is_marked());
            Owner { number, generation: inode.generation(), is_in_use, is_marked }
        };
        self.numbers(block).zip(slots).map(owner).collect()
    }

    fn branches_of(&self, block: Block, content: &[u8], number: u32) -> Vec<Branch> {
        let mut found = Vec::new();
        if let Some(n) = self.numbers(block).position(|it| it == number) {
            let inode = self.inode(number, self.slot(content, n as u32));
            inode.all_pointers(|pointer| found.extend(self.branch(&pointer, inode.is_folder())));
        }
        found
    }

    fn branches(&self, role: Role, content: &[u8]) -> Vec<Branch> {
        children(role.level, content).filter_map(|it| self.branch(&it, role.is_folder)).collect()
    }

    /// Linear blocks, and those of a tree of hashes: there, one entry covers the numbers of the tree. An entry whose length is
    /// not valid ends the list.
    fn entries(&self, content: &[u8]) -> Vec<u32> {
        let (mut found, mut rest) = (Vec::new(), content);
        while let Some(RawEntry { inode, rec_len, name_len, .. }) = head::<RawEntry>(rest) {
            let len = if REC_LEN_ALL.contains(&rec_len.get()) { 1 << 16 } else { rec_len.get().into() };
            let name = rest.get(size_of::<RawEntry>()..size_of::<RawEntry>() + usize::from(*name_len));
            let is_child = inode.get() != 0 && name.is_some_and(|it| ![&b"."[..], b".."].contains(&it));
            if len < size_of::<RawEntry>() || len > rest.len() {
                break;
            }
            found.extend(is_child.then_some(inode.get()));
            rest = &rest[len..];
        }
        found
    }

    fn table_of(&self, number: u32) -> Option<Block> {
        self.place_of_inode(number).map(|(block, _)| block)
    }

    /// Blocks that are allocated in advance belong to an extent, and are not written.
    fn owners_write(&self) -> bool {
        !self.superblock.features.extents
    }

    /// `data=writeback` uses data blocks again at once. It is known where it is the default. A bit of a map of
    /// `bigalloc` stands for more blocks than those of a file.
    fn frees_wait(&self) -> bool {
        !self.superblock.is_writeback && !self.superblock.features.bigalloc
    }
}

#[cfg(test)]
mod tests;
