use super::*;
use crate::ext2::tests::{put16, put32, superblock};

const DISK_BYTES: u64 = 300 * 1024;

fn read(bytes: &[u8]) -> Result<Superblock, Reason> {
    Superblock::from_bytes(bytes, DISK_BYTES)
}

macro_rules! lies {
    ($($name:ident: $field:literal, $put:ident $at:literal $value:expr;)*) => {
        $(#[test]
        fn $name() {
            let mut bytes = superblock();
            $put(&mut bytes, $at, $value);
            assert_eq!(read(&bytes).unwrap_err(), super::lies($field));
        })*
    };
}

lies! {
    no_inodes: "s_inodes_count", put32 0x0 0;
    an_inode_too_many: "s_inodes_count", put32 0x0 33;
    no_blocks: "s_blocks_count", put32 0x4 0;
    only_the_boot_block: "s_blocks_count", put32 0x4 1;
    a_group_more_than_its_inodes: "s_inodes_count", put32 0x4 514;
    too_many_groups: "s_blocks_per_group", put32 0x4 u32::MAX;
    groups_begin_too_early: "s_first_data_block", put32 0x14 0;
    groups_begin_too_late: "s_first_data_block", put32 0x14 2;
    blocks_too_large: "s_log_block_size", put32 0x18 7;
    blocks_much_too_large: "s_log_block_size", put32 0x18 u32::MAX;
    fragments_smaller_than_blocks: "s_log_frag_size", put32 0x1C 1;
    no_blocks_in_a_group: "s_blocks_per_group", put32 0x20 0;
    groups_smaller_than_their_inodes: "s_blocks_per_group", put32 0x20 2;
    groups_larger_than_a_map: "s_blocks_per_group", put32 0x20 8193;
    no_inodes_in_a_group: "s_inodes_per_group", put32 0x28 0;
    inodes_beyond_a_map: "s_inodes_per_group", put32 0x28 8193;
    revision_unknown: "s_rev_level", put32 0x4C 2;
    reserved_inode_first: "s_first_ino", put32 0x54 10;
    first_inode_beyond_the_last: "s_first_ino", put32 0x54 33;
    inodes_of_nothing: "s_inode_size", put16 0x58 0;
    inodes_too_small: "s_inode_size", put16 0x58 64;
    inodes_of_an_odd_size: "s_inode_size", put16 0x58 192;
    inodes_larger_than_a_block: "s_inode_size", put16 0x58 2048;
    more_reserved_than_a_block_can_name: "s_reserved_gdt_blocks", put16 0xCE 257;
    more_blocks_than_32_bits_count: "s_blocks_count_hi", put32 0x150 1;
}

#[test]
fn meta_groups_from_beyond_the_last() {
    let mut bytes = superblock();
    put32(&mut bytes, 0x60, 0x10);
    put32(&mut bytes, 0x104, 1);
    assert!(read(&bytes).is_ok());
    put32(&mut bytes, 0x104, 2);
    assert_eq!(read(&bytes).unwrap_err(), lies("s_first_meta_bg"));
}

#[test]
fn a_file_system_of_the_hurd_is_refused() {
    let mut bytes = superblock();
    put32(&mut bytes, 0x48, 1);
    assert!(read(&bytes).unwrap_err().0.contains("Hurd"));
}

#[test]
fn revision_0_has_inodes_of_128_bytes() {
    let mut bytes = superblock();
    put32(&mut bytes, 0x4C, 0);
    put32(&mut bytes, 0x54, 0);
    put16(&mut bytes, 0x58, 0);
    let found = read(&bytes).unwrap();
    assert_eq!((found.s_inode_size, found.s_first_ino), (128, 11));
}

#[test]
fn features_of_revision_0_are_read_too() {
    let mut bytes = superblock();
    put32(&mut bytes, 0x4C, 0);
    put32(&mut bytes, 0x60, 0x40);
    assert!(read(&bytes).is_err());
}

#[test]
fn copies_follow_the_powers_of_3_5_and_7() {
    let mut bytes = superblock();
    put32(&mut bytes, 0x64, 1);
    let found = read(&bytes).unwrap();
    let copies: Vec<u32> = (0..400).filter(|group| found.has_super(*group)).collect();
    assert_eq!(copies, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343]);
}

#[test]
fn the_last_blocks_that_32_bits_count_are_no_overflow() {
    let mut bytes = superblock();
    let words = [(0x4, u32::MAX), (0x14, 0), (0x18, 2), (0x1C, 2), (0x20, 32768), (0x28, 32)];
    words.into_iter().for_each(|(at, value)| put32(&mut bytes, at, value));
    put32(&mut bytes, 0x0, 32 << 17);
    let found = Superblock::from_bytes(&bytes, u64::MAX).unwrap();
    assert_eq!(found.groups(), 1 << 17);
    assert_eq!(found.group((1 << 17) - 1), u32::MAX - 32767..u32::MAX);
    assert_eq!(found.descriptors().count(), 1024);
}
