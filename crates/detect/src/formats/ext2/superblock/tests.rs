use crate::formats::ext2::superblock::*;
use crate::formats::ext2::tests::superblock;
use crate::formats::testing::{lies_are_named, put32};

const DISK_BYTES: u64 = 300 * 1024;

pub(in crate::formats::ext2) fn from_bytes(bytes: &[u8], disk_bytes: u64) -> Result<Superblock, Reason> {
    Superblock::new(RawSuperblock::from_bytes(bytes).unwrap(), disk_bytes)
}

fn read(bytes: &[u8]) -> Result<Superblock, Reason> {
    from_bytes(bytes, DISK_BYTES)
}

fn with(words: &[(usize, u32)]) -> Vec<u8> {
    let mut bytes = superblock();
    words.iter().for_each(|(at, value)| put32(&mut bytes, *at, *value));
    bytes
}

#[test]
fn each_field_that_lies_is_named() {
    let lies = [
        ("no inodes", "s_inodes_count", 0x0, 4, 0),
        ("an inode too many", "s_inodes_count", 0x0, 4, 33),
        ("no blocks", "s_blocks_count", 0x4, 4, 0),
        ("only the boot block", "s_blocks_count", 0x4, 4, 1),
        ("a group more than its inodes", "s_inodes_count", 0x4, 4, 514),
        ("too many groups", "s_blocks_per_group", 0x4, 4, 0xFFFF_FFFF),
        ("groups begin too early", "s_first_data_block", 0x14, 4, 0),
        ("groups begin too late", "s_first_data_block", 0x14, 4, 2),
        ("blocks too large", "s_log_block_size", 0x18, 4, 7),
        ("blocks much too large", "s_log_block_size", 0x18, 4, 0xFFFF_FFFF),
        ("clusters larger than blocks", "s_log_cluster_size", 0x1C, 4, 1),
        ("no blocks in a group", "s_blocks_per_group", 0x20, 4, 0),
        ("groups smaller than their inodes", "s_blocks_per_group", 0x20, 4, 2),
        ("groups larger than a map", "s_blocks_per_group", 0x20, 4, 8193),
        ("no inodes in a group", "s_inodes_per_group", 0x28, 4, 0),
        ("inodes beyond a map", "s_inodes_per_group", 0x28, 4, 8193),
        ("revision unknown", "s_rev_level", 0x4C, 4, 2),
        ("reserved inode first", "s_first_ino", 0x54, 4, 10),
        ("first inode beyond the last", "s_first_ino", 0x54, 4, 33),
        ("inodes of nothing", "s_inode_size", 0x58, 2, 0),
        ("inodes too small", "s_inode_size", 0x58, 2, 64),
        ("inodes of an odd size", "s_inode_size", 0x58, 2, 192),
        ("inodes larger than a block", "s_inode_size", 0x58, 2, 2048),
        ("more reserved than a block can name", "s_reserved_gdt_blocks", 0xCE, 2, 257),
        ("blocks counted by more bits than there are", "s_blocks_count_hi", 0x150, 4, 1),
    ];
    lies_are_named(&superblock(), |bytes| Some(read(bytes).err()?.field().into()), &lies);
}

#[test]
fn meta_groups_from_beyond_the_last() {
    let of = |first: u32| read(&with(&[(0x60, 0x10), (0x104, first)]));
    assert!(of(1).is_ok());
    assert_eq!(of(2).unwrap_err().field(), "s_first_meta_bg");
}

#[test]
fn a_file_system_of_the_hurd_is_refused() {
    assert!(read(&with(&[(0x48, 1)])).unwrap_err().0.contains("Hurd"));
}

#[test]
fn revision_0_has_inodes_of_128_bytes_and_its_features_are_read_too() {
    let found = read(&with(&[(0x4C, 0), (0x54, 0), (0x58, 0)])).unwrap();
    assert_eq!((found.s_inode_size, found.s_first_ino), (128, 11));
    assert!(read(&with(&[(0x4C, 0), (0x60, 0x8)])).is_err());
}

#[test]
fn copies_follow_the_powers_of_3_5_and_7() {
    let found = read(&with(&[(0x64, 1)])).unwrap();
    let copies: Vec<u32> = (0..400).filter(|group| found.has_super(*group)).collect();
    assert_eq!(copies, [0, 1, 3, 5, 7, 9, 25, 27, 49, 81, 125, 243, 343]);
}

#[test]
fn the_last_blocks_that_32_bits_count_are_no_overflow() {
    let sizes = [(0x14, 0), (0x18, 2), (0x1C, 2), (0x20, 32768), (0x28, 32)];
    let bytes = with(&[&[(0x0, 32 << 17), (0x4, u32::MAX)][..], &sizes].concat());
    let found = from_bytes(&bytes, u64::MAX).unwrap();
    assert_eq!(found.groups(), 1 << 17);
    assert_eq!(found.group((1 << 17) - 1), u32::MAX - 32767..u32::MAX);
    assert_eq!(found.descriptors().count(), 1024);
}

#[test]
fn more_blocks_than_32_bits_count_are_refused() {
    let bytes = with(&[(0x60, 0x80), (0xFC, 64 << 16), (0x150, 1)]);
    assert_eq!(read(&bytes).unwrap_err().0, "it has 2^32 blocks or more, which is not supported");
}

#[test]
fn wide_descriptors_have_a_size() {
    let of = |size: u32| read(&with(&[(0x60, 0x80), (0xFC, size << 16)])).map(|it| it.s_desc_size);
    assert_eq!((of(64), of(256), of(1024)), (Ok(64), Ok(256), Ok(1024)));
    for size in [0, 32, 63, 96, 2048] {
        assert_eq!(of(size).unwrap_err().field(), "s_desc_size", "{size}");
    }
    assert_eq!(read(&with(&[(0xFC, 64 << 16)])).unwrap().s_desc_size, 32, "not wide");
}

/// Clusters of 8 blocks of 1 KiB, 32 in a group, from block 0 on.
const CLUSTERED: [(usize, u32); 4] = [(0x64, 0x200), (0x14, 0), (0x1C, 3), (0x24, 32)];

#[test]
fn clusters_have_blocks() {
    let found = read(&with(&CLUSTERED)).unwrap();
    assert_eq!((found.cluster_blocks(), found.super_block(0), found.group(1)), (8, 1, 256..300));
    assert_eq!(found.descriptor_block(0), 2);
}

#[test]
fn clusters_that_cannot_be_are_refused() {
    for (at, value, field) in [
        (0x14, 1, "s_first_data_block"),
        (0x18, 4, "s_log_cluster_size"),
        (0x1C, 21, "s_log_cluster_size"),
        (0x1C, u32::MAX, "s_log_cluster_size"),
        (0x1C, 2, "s_clusters_per_group"),
        (0x24, 33, "s_clusters_per_group"),
        (0x24, u32::MAX, "s_clusters_per_group"),
        (0x64, 0, "s_log_cluster_size"),
    ] {
        let bytes = with(&[&CLUSTERED[..], &[(at, value)]].concat());
        assert_eq!(read(&bytes).unwrap_err().field(), field, "{at:#x} {value}");
    }
}

#[test]
fn more_clusters_than_a_map_has_bits() {
    let words = [(0x64, 0x200), (0x14, 0), (0x1C, 1), (0x20, 16384 + 2), (0x24, 8192 + 1)];
    assert_eq!(read(&with(&words)).unwrap_err().field(), "s_blocks_per_group");
}

#[test]
fn the_block_against_many_mounts_is_one_of_the_file_system() {
    let of = |low, high| read(&with(&[(0x60, 0x100), (0x168, low), (0x16C, high)])).map(|it| it.s_mmp_block);
    assert_eq!(of(9, 0), Ok(9));
    for (low, high) in [(0, 0), (300, 0), (9, 1)] {
        assert_eq!(of(low, high).unwrap_err().field(), "s_mmp_block", "{low} {high}");
    }
    assert_eq!(read(&with(&[(0x168, 9)])).unwrap().s_mmp_block, 0, "without the feature");
}
