//! An ext2 of 64 blocks of 1 KiB, byte by byte.

use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::format::Block;
use std::ops::Range;

pub const BLOCK_BYTES: usize = 1024;
pub const BLOCKS: Block = 64;
pub const SUPER: Block = 1;
pub const MAP: Block = 3;
/// Blocks of inodes.
pub const TABLE: Range<Block> = 5..9;
pub const DATA: Range<Block> = 9..BLOCKS;
pub const INODES: u32 = 32;
pub const INODE_BYTES: usize = 128;
/// The marked folder.
pub const FOLDER: u32 = 12;
/// Its only block.
pub const FOLDER_BLOCK: Block = 9;
/// A block that means nothing to the watcher: the map of inodes.
pub const IDLE: Block = 4;
const INODES_IN_BLOCK: u32 = (BLOCK_BYTES / INODE_BYTES) as u32;

pub struct Disk(Vec<u8>);

pub fn put16(bytes: &mut [u8], at: usize, value: u16) {
    bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
}

pub fn put32(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

pub fn get32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|it| it.try_into().ok()).map_or(0, u32::from_le_bytes)
}

/// The superblock of a mount that is counted as `mounts`, checked `checks` times.
pub fn superblock(mounts: u16, checks: u32, is_clean: bool) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    let words =
        [(0x0, INODES), (0x4, BLOCKS), (0x14, 1), (0x20, 8192), (0x28, INODES), (0x4C, 1), (0x54, 11)];
    words.into_iter().for_each(|(at, value)| put32(&mut bytes, at, value));
    put16(&mut bytes, 0x34, mounts);
    put16(&mut bytes, 0x38, 0xEF53);
    put16(&mut bytes, 0x3A, u16::from(is_clean));
    put32(&mut bytes, 0x40, checks);
    put16(&mut bytes, 0x58, INODE_BYTES as u16);
    bytes
}

/// The map that shows these blocks allocated.
pub fn map(is_allocated: impl Fn(Block) -> bool) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    for bit in 0..BLOCK_BYTES * 8 {
        let block = bit as Block + 1;
        if !DATA.contains(&block) || is_allocated(block) {
            bytes[bit / 8] |= 1 << (bit % 8);
        }
    }
    bytes
}

/// A folder's block, with entries for these inodes.
pub fn folder(entries: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES];
    let all = [FOLDER, 2].iter().chain(entries);
    let count = all.clone().count();
    for (n, number) in all.enumerate() {
        let at = n * 16;
        put32(&mut bytes, at, *number);
        put16(&mut bytes, at + 4, if n + 1 == count { (BLOCK_BYTES - at) as u16 } else { 16 });
        let name: &[u8] = [&b"."[..], b"..", b"file"][n.min(2)];
        bytes[at + 6] = name.len() as u8;
        bytes[at + 8..at + 8 + name.len()].copy_from_slice(name);
    }
    bytes
}

/// The block of an inode, and its place there.
pub fn place_of(number: u32) -> (Block, usize) {
    let n = number - 1;
    (TABLE.start + n / INODES_IN_BLOCK, (n % INODES_IN_BLOCK) as usize * INODE_BYTES)
}

/// Puts the inode of a plain file over `bytes`.
pub fn put_inode(bytes: &mut [u8], is_in_use: bool, is_flagged: bool, direct: &[Block], generation: u32) {
    bytes.fill(0);
    put16(bytes, 0, 0x81A4);
    put16(bytes, 0x1A, u16::from(is_in_use));
    put32(bytes, 0x20, u32::from(is_flagged));
    direct.iter().enumerate().for_each(|(n, it)| put32(bytes, 0x28 + 4 * n, *it));
    put32(bytes, 0x64, generation);
}

pub fn place(block: Block) -> Extent<Addr> {
    Extent::new(u64::from(block) * BLOCK_BYTES as u64, BLOCK_BYTES as u64)
}

impl Disk {
    /// A clean file system with the marked folder, which is empty.
    pub fn new() -> Self {
        let mut disk = Self(vec![0; BLOCK_BYTES * BLOCKS as usize]);
        disk.put(SUPER, &superblock(1, 1, true));
        let mut descriptor = vec![0; BLOCK_BYTES];
        [3, 4, TABLE.start]
            .into_iter()
            .enumerate()
            .for_each(|(n, place)| put32(&mut descriptor, n * 4, place));
        disk.put(2, &descriptor);
        disk.put(MAP, &map(|block| block == FOLDER_BLOCK));
        disk.put(FOLDER_BLOCK, &folder(&[]));
        let (block, at) = place_of(FOLDER);
        let mut table = disk.block(block).to_vec();
        put16(&mut table, at, 0x41ED);
        put16(&mut table, at + 0x1A, 2);
        put32(&mut table, at + 0x20, 1);
        put32(&mut table, at + 0x28, FOLDER_BLOCK);
        disk.put(block, &table);
        disk
    }

    pub fn put(&mut self, block: Block, content: &[u8]) {
        let at = block as usize * BLOCK_BYTES;
        self.0[at..at + BLOCK_BYTES].copy_from_slice(content);
    }

    pub fn at(&self, extent: Extent<Addr>) -> &[u8] {
        &self.0[extent.start.0 as usize..extent.end() as usize]
    }

    pub fn block(&self, block: Block) -> &[u8] {
        &self.0[block as usize * BLOCK_BYTES..][..BLOCK_BYTES]
    }
}
