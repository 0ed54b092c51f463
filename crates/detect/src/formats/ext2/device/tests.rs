use crate::formats::ext2::device::*;
use crate::formats::ext2::probe;
use crate::formats::testing::{self, put32};

const DISK_BYTES: u64 = 300 * 1024;

/// The superblock of a device of so many blocks of `1024 << s_log_block_size`.
fn superblock(s_blocks_count: u32, s_log_block_size: u32) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    for (at, value) in [(0x4, s_blocks_count), (0x18, s_log_block_size), (0x38, 0xEF53), (0x60, 0x8)] {
        put32(&mut bytes, at, value);
    }
    bytes[0x68..0x78].copy_from_slice(b"0123456789abcdef");
    bytes
}

fn with(at: usize, value: u32) -> Vec<u8> {
    let mut bytes = superblock(300, 0);
    put32(&mut bytes, at, value);
    bytes
}

fn probed(superblock: Vec<u8>) -> Probe {
    let mut disk = vec![0; DISK_BYTES as usize];
    disk[1024..2048].copy_from_slice(&superblock);
    testing::probed(probe, DISK_BYTES, &disk)
}

#[test]
fn the_journal_lies_behind_the_superblock() {
    for (s_log_block_size, blocks, first) in [(0, 300, 2), (1, 150, 1), (2, 75, 1), (6, 4, 1)] {
        let format = probed(superblock(blocks, s_log_block_size)).found();
        assert_eq!((format.block_bytes(), format.blocks()), (1024 << s_log_block_size, blocks));
        let journal = std::iter::once(first..blocks).collect();
        assert_eq!((format.journal(), format.journal_first()), (Some(journal), first));
        assert!(format.survey(Kind::Geometry).into_iter().flatten().eq([first - 1]));
        assert_eq!(format.kind(first - 1), Kind::Geometry);
        assert!((first..blocks).all(|block| format.kind(block) == Kind::Data));
        assert!(format.survey(Kind::Map).is_empty() && !format.has_external_journal());
    }
    assert_eq!(probed(superblock(300, 0)).found().kind(0), Kind::Fixed);
}

#[test]
fn each_field_that_lies_is_named() {
    for (at, value, field) in
        [(0x18, 7, "s_log_block_size"), (0x150, 1, "s_blocks_count_hi"), (0x4, 2, "s_blocks_count")]
    {
        let why = format!("the superblock has an invalid field: `{field}` is {value}");
        assert_eq!(probed(with(at, value)).refusal(), why);
    }
    assert_eq!(probed(superblock(301, 0)).refusal(), "the journal's device ends beyond the disk");
    assert!(probed(superblock(u32::MAX, 6)).refusal().contains("ends beyond"));
}

#[test]
fn features_that_are_not_understood_are_named_and_others_change_nothing() {
    assert_eq!(probed(with(0x5C, 0x400)).refusal(), "the feature `fast_commit` is not understood");
    assert_eq!(probed(with(0x60, 1 << 20 | 8)).refusal(), "the feature `FEATURE_I20` is not understood");
    assert_eq!(probed(with(0x64, 0x400)).found().journal_first(), 2);
}

#[test]
fn only_another_device_is_a_change() {
    let format = probed(superblock(300, 0)).found();
    let change = |new: &[u8]| format.geometry(1, &superblock(300, 0), new);
    let mut told = superblock(300, 0);
    told[0x2C] = 9;
    assert_eq!(change(&told), Geometry::Same);
    for (at, value) in [(0x4, 299), (0x18, 1), (0x38, 0), (0x60, 0), (0x60, 0x18), (0x68, 0), (0x5C, 0x400)] {
        let expected = if (at, value) == (0x60, 0x18) { Geometry::Same } else { Geometry::Changed };
        assert_eq!(change(&with(at, value)), expected, "{at:#x}");
    }
    assert_eq!(change(&[]), Geometry::Changed);
}

#[test]
fn of_larger_blocks_the_superblock_lies_in_the_first() {
    let format = probed(superblock(75, 2)).found();
    let mut block = vec![0; 4096];
    block[1024..2048].copy_from_slice(&superblock(75, 2));
    assert_eq!(format.geometry(0, &block, &block), Geometry::Same);
    block[1024 + 0x68] ^= 1;
    assert_eq!(format.geometry(0, &block, &block), Geometry::Changed);
}
