//! Who has which blocks: each inode in use says that of its own, and the superblock and the descriptors of the rest.
//!
//! 1. A block of an inode table is one roll, and all fixed metadata together is one. So what changes is read again, and nothing else.
//! 2. An inode is in use that has a kind, and was not deleted. A file without a name that is still open has its blocks.
//! 3. Blocks of pointers, and of extended attributes, are metadata: of the file system, not of the file.
//! 4. What cannot be understood is an error of its roll: then it is not known who has what.

use crate::ext::Ext;
use crate::ext::blocks::all_pieces;
use crate::ext::bytes::at;
use crate::ext::disk::{Disk, Kept};
use crate::ext::inode::{self, Inode};
use crate::ext::superblock::{SUPERBLOCK_AT, Superblock};
use crate::ext::units::{FsBlock, Ino};
use crate::{Error, FileId, Moved, Owner, Owners, Roll, Source};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::ext2::raw::RawInode;
use std::ops::Range;
use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

/// The roll of the fixed metadata. The others have the number of their first inode.
const FIXED: Roll = Roll { number: 0, at: Addr(0) };
/// Most rolls, and most groups, of a file system whose owners are looked at: 16 million inodes in use, and 128 TiB.
const ROLLS_MAX: usize = 1 << 20;
const GROUPS_MAX: u64 = 1 << 20;
/// No inode of the group is in use, and its table has perhaps never been written.
const BG_INODE_UNINIT: u16 = 0x1;

/// A descriptor of a group, as far as it says where metadata lies (`struct ext4_group_desc`).
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawDescriptor {
    bg_block_bitmap: U32,
    bg_inode_bitmap: U32,
    bg_inode_table: U32,
    _from_0xc: [u8; 6],
    bg_flags: U16,
    _from_0x14: [u8; 8],
    bg_itable_unused: U16,
    _bg_checksum: U16,
}

/// The upper halves, which follow where block numbers have 64 bits.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawUpper {
    bg_block_bitmap: U32,
    bg_inode_bitmap: U32,
    bg_inode_table: U32,
    _from_0x2c: [u8; 6],
    bg_itable_unused: U16,
}

const _: () = {
    assert!(
        size_of::<RawDescriptor>() == 0x20 && std::mem::offset_of!(RawDescriptor, bg_itable_unused) == 0x1C
    );
    assert!(std::mem::offset_of!(RawUpper, bg_itable_unused) == 0x12);
};

/// Where the metadata of a group lies.
#[derive(Clone, Copy)]
struct Group {
    maps: [u64; 2],
    table: u64,
    /// How many inodes at the beginning of the table may be in use.
    used: u32,
}

impl Group {
    fn read(disk: &mut Disk, group: u32) -> Result<Self, Error> {
        let superblock = disk.superblock;
        let (block, start) = superblock.descriptor(group);
        let content = disk.kept(Kept::Descriptors, block)?;
        let cut = || Error::Damaged(format!("the descriptor of group {group} is cut off"));
        let low: &RawDescriptor = at(content, start).ok_or_else(cut)?;
        let high = at::<RawUpper>(content, start + size_of::<RawDescriptor>());
        let high = high.filter(|_| superblock.features.wide);
        let number =
            |low: U32, high: Option<U32>| u64::from(high.map_or(0, U32::get)) << 32 | u64::from(low.get());
        let unused = u32::from(high.map_or(0, |it| it.bg_itable_unused.get())) << 16;
        let unused = unused | u32::from(low.bg_itable_unused.get());
        let inodes = superblock.s_inodes_per_group;
        let used = match low.bg_flags.get() {
            _ if !superblock.features.group_csum => inodes,
            flags if flags & BG_INODE_UNINIT != 0 => 0,
            _ => inodes.saturating_sub(unused),
        };
        let maps = [
            number(low.bg_block_bitmap, high.map(|it| it.bg_block_bitmap)),
            number(low.bg_inode_bitmap, high.map(|it| it.bg_inode_bitmap)),
        ];
        Ok(Self { maps, table: number(low.bg_inode_table, high.map(|it| it.bg_inode_table)), used })
    }
}

impl Superblock {
    fn inodes_in_block(&self) -> u32 {
        self.block_bytes() / self.s_inode_size
    }

    fn table_blocks(&self) -> u64 {
        self.s_inodes_per_group.div_ceil(self.inodes_in_block()).into()
    }

    /// The blocks of superblocks and descriptors.
    fn heads(&self) -> Vec<Range<u64>> {
        let (first, bytes) = (u64::from(self.s_first_data_block), u64::from(self.block_bytes()));
        let descriptors = self.groups().div_ceil((self.block_bytes() / self.s_desc_size).into());
        let tables = if self.features.meta_bg { u64::from(self.s_first_meta_bg) } else { descriptors };
        let primary = 0..SUPERBLOCK_AT / bytes + 1;
        let mut all = Vec::from([primary]);
        for group in 0..self.groups() {
            let start = first + group * u64::from(self.s_blocks_per_group);
            let group = group as u32;
            if self.has_super(group) {
                all.push(start..start + 1 + tables.min(descriptors));
            }
            let (own, _) = self.descriptor(group);
            all.push(own.0..own.0 + 1);
            if self.features.meta_bg {
                // Copies of the descriptors lie at the start of some groups, behind the superblock if there is one.
                all.push(start..start + 2);
            }
        }
        all
    }
}

impl Ext {
    fn check_groups(&self) -> Result<(), Error> {
        let groups = self.superblock.groups();
        let why = || Error::Unsupported(format!("ext: {groups} groups of blocks, more than {GROUPS_MAX}"));
        if groups <= GROUPS_MAX { Ok(()) } else { Err(why()) }
    }

    /// The bytes of some blocks that lie within the file system.
    fn extent(&self, first: u64, blocks: u64) -> Option<Extent<Addr>> {
        let bytes = u64::from(self.superblock.block_bytes());
        let end = first.checked_add(blocks)?.min(self.superblock.s_blocks_count);
        (first < end).then(|| Extent::between(first * bytes, end * bytes))
    }

    fn fixed(
        &self,
        source: &mut dyn Source,
        found: &mut dyn FnMut(Owner, Extent<Addr>),
    ) -> Result<(), Error> {
        let superblock = &self.superblock;
        self.check_groups()?;
        let mut all = superblock.heads();
        all.extend(superblock.s_mmp_block.map(|block| block..block + 1));
        let disk = &mut self.disk(source);
        for group in 0..superblock.groups() {
            let Group { maps, table, .. } = Group::read(disk, group as u32)?;
            all.extend(maps.map(|map| map..map.saturating_add(1)));
            all.push(table..table.saturating_add(superblock.table_blocks()));
        }
        for blocks in all {
            let extent = self.extent(blocks.start, blocks.end - blocks.start);
            extent.into_iter().for_each(|extent| found(Owner::System, extent));
        }
        Ok(())
    }

    /// Tells what the inode in `bytes` has, if it is in use.
    fn inode_owns(
        &self,
        disk: &mut Disk,
        ino: Ino,
        bytes: &[u8],
        found: &mut dyn FnMut(Owner, Extent<Addr>),
    ) -> Result<(), Error> {
        let head: &RawInode = at(bytes, 0).ok_or_else(|| ino.damaged("cut off"))?;
        // A file without a name that is still open has the number of the next one there; a deleted one has a time.
        let is_deleted = head.i_links_count == 0 && head.i_dtime.get() > self.superblock.s_inodes_count;
        if head.i_mode == 0 || is_deleted {
            return Ok(());
        }
        let inode = Inode::of(&self.superblock, ino, bytes.to_vec())?;
        let file = FileId { number: ino.0.into(), generation: inode.i_generation().into() };
        let mut give = |owner, first: FsBlock, blocks| {
            self.extent(first.0, blocks).into_iter().for_each(|extent| found(owner, extent));
        };
        let nodes =
            all_pieces(disk, &inode, &mut |piece| give(Owner::File(file), piece.first, piece.blocks))?;
        nodes.into_iter().chain(inode.i_file_acl).for_each(|block| give(Owner::System, block, 1));
        Ok(())
    }
}

impl Owners for Ext {
    fn rolls(&mut self, source: &mut dyn Source) -> Result<Vec<Roll>, Error> {
        let superblock = &self.superblock;
        self.check_groups()?;
        let (mut rolls, disk) = (vec![FIXED], &mut self.disk(source));
        let (in_block, bytes) = (superblock.inodes_in_block(), u64::from(superblock.block_bytes()));
        for group in 0..superblock.groups() {
            let Group { table, used, .. } = Group::read(disk, group as u32)?;
            let first = group * u64::from(superblock.s_inodes_per_group) + 1;
            for n in 0..u64::from(used.div_ceil(in_block)) {
                let number = first + n * u64::from(in_block);
                let at = table.saturating_add(n).checked_mul(bytes);
                let at =
                    at.ok_or_else(|| Error::Damaged(format!("bg_inode_table {table} of group {group}")))?;
                if rolls.len() >= ROLLS_MAX {
                    return Err(Error::Unsupported(format!(
                        "ext: more than {ROLLS_MAX} blocks of inodes are in use"
                    )));
                }
                rolls.push(Roll { number, at: Addr(at) });
            }
        }
        Ok(rolls)
    }

    fn roll(
        &mut self,
        source: &mut dyn Source,
        roll: Roll,
        found: &mut dyn FnMut(Owner, Extent<Addr>),
    ) -> Result<(), Error> {
        if roll == FIXED {
            return self.fixed(source, found);
        }
        let superblock = &self.superblock;
        let disk = &mut self.disk(source);
        let block = disk.block(FsBlock(roll.at.0 / u64::from(superblock.block_bytes())))?;
        let (bytes, of_group) = (superblock.s_inode_size as usize, u64::from(superblock.s_inodes_per_group));
        let group_end = (roll.number - 1) / of_group * of_group + of_group;
        for (ino, bytes) in (roll.number..=group_end).zip(block.chunks_exact(bytes)) {
            self.inode_owns(disk, Ino(ino as u32), bytes, found)?;
        }
        Ok(())
    }

    fn owned(
        &mut self,
        source: &mut dyn Source,
        file: FileId,
        found: &mut dyn FnMut(Extent<Addr>),
    ) -> Result<(), Error> {
        let disk = &mut self.disk(source);
        let Ok(ino) = u32::try_from(file.number).map(Ino) else { return Ok(()) };
        let bytes = inode::raw(disk, ino)?;
        self.inode_owns(disk, ino, &bytes, &mut |owner, extent| {
            if owner == Owner::File(file) {
                found(extent);
            }
        })
    }

    fn log(&mut self, source: &mut dyn Source) -> Result<(Vec<Extent<Addr>>, u64), Error> {
        let (superblock, mut all) = (&self.superblock, Vec::new());
        let bytes = u64::from(superblock.block_bytes());
        if !superblock.features.has_journal || superblock.s_journal_inum == 0 {
            return Ok((all, bytes));
        }
        let disk = &mut self.disk(source);
        let inode = Inode::read(disk, Ino(superblock.s_journal_inum))?;
        let extent = |first: FsBlock, blocks| self.extent(first.0, blocks);
        all_pieces(disk, &inode, &mut |piece| all.extend(extent(piece.first, piece.blocks)))?;
        Ok((all, bytes))
    }

    fn moved(&self) -> Vec<Moved> {
        let bytes = u64::from(self.superblock.block_bytes());
        let place = |block: FsBlock| Addr(block.0.saturating_mul(bytes));
        let copies = self.copies.iter();
        copies.map(|(home, copy)| Moved { home: place(*home), to: place(copy.block), bytes }).collect()
    }
}
