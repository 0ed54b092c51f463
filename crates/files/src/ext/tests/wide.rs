//! Block numbers of more than 32 bits.

use super::memory::{EXT4, Memory, Sound};
use super::read_back::whole;
use super::*;
use crate::Unread;
use quietus_core::base::units::{Addr, Extent};

/// Bytes of 2^32 blocks of 1 KiB.
const HIGH: u64 = 1 << 42;

/// An image of which every block can also be read 2^32 blocks further on.
struct Twice(Memory);

impl Source for Twice {
    fn bytes(&self) -> u64 {
        HIGH + self.0.bytes()
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        self.0.read(Extent::new(at.start.0 % HIGH, at.len))
    }
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

#[test]
fn upper_halves_of_block_numbers_count() {
    let mut sound = Sound::new(EXT4);
    let file = sound.inode_at("file");
    let word = |at: usize| u32::from_le_bytes(sound.bytes[at..at + 4].try_into().unwrap());
    let groups = ((1_u64 << 32) + 3072 - 1).div_ceil(u64::from(word(1024 + 0x20))) as u32;
    let s_inodes_count = groups * word(1024 + 0x28);
    let bytes = &mut sound.bytes;
    put(bytes, 1024 + 0x150, 1);
    put(bytes, 1024, s_inodes_count);
    // The table of inodes in the descriptor, and the start of the first extent.
    put(bytes, 2048 + 0x28, 1);
    bytes[file + 0x28 + 12 + 6] = 1;
    let mut source = Twice(Memory { bytes: bytes.clone(), reads: 0 });
    let mut volume = open(&mut source).unwrap();
    let file = file_at(&mut source, &mut *volume, "file");
    let runs = read_back::runs(&mut source, &mut *volume, file);
    assert!(runs.iter().all(|run| run.place.unwrap().0 >= HIGH), "{runs:?}");
    let content = whole(&mut source, &mut *volume, file);
    assert_eq!(content, [memory::CONTENT; 3000]);
}
