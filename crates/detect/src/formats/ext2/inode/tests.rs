use crate::formats::ext2::inode::*;
use crate::formats::ext2::superblock::tests::from_bytes;
use crate::formats::ext2::tests::{inode, superblock};
use crate::formats::testing::{put16, put32};

/// The first block and the level of each pointer, under these incompatible and
/// read-only compatible features.
fn owned_with(features: (u32, u32), number: u32, bytes: &[u8]) -> Vec<(u64, u8)> {
    let mut head = superblock();
    put32(&mut head, 0x60, features.0);
    put32(&mut head, 0x64, features.1);
    put16(&mut head, 0xFE, 64);
    if features.1 & 0x200 != 0 {
        [(0x14, 0), (0x1C, 3), (0x24, 32)].into_iter().for_each(|(at, value)| put32(&mut head, at, value));
    }
    let superblock = from_bytes(&head, 300 * 1024).unwrap();
    let mut found = Vec::new();
    Inode::new(bytes, number, &superblock).pointers(|it| found.push((it.blocks.start, it.level)));
    found.retain(|it| it.0 != 0);
    found
}

fn owned(number: u32, bytes: &[u8]) -> Vec<(u64, u8)> {
    owned_with((0, 0), number, bytes)
}

fn file() -> Vec<u8> {
    inode(9, &[101, 102])
}

fn with_mode(mode: u16) -> Vec<u8> {
    let mut bytes = file();
    put16(&mut bytes, 0, mode);
    bytes
}

#[test]
fn the_last_three_pointers_are_indirect() {
    let all: Vec<u32> = (101..116).collect();
    let mut expected: Vec<(u64, u8)> = (101..113).map(|block| (block, 0)).collect();
    expected.extend([(113, 1), (114, 2), (115, 3)]);
    assert_eq!(owned(12, &inode(9, &all)), expected);
}

#[test]
fn an_inode_without_links_owns_nothing() {
    let mut bytes = file();
    put16(&mut bytes, 0x1A, 0);
    assert_eq!(owned(12, &bytes), []);
}

#[test]
fn an_inode_with_a_time_of_deletion_owns_nothing() {
    let mut bytes = file();
    put32(&mut bytes, 0x14, 1);
    assert_eq!(owned(12, &bytes), []);
}

#[test]
fn the_bad_blocks_need_neither_links_nor_mode() {
    let mut bytes = with_mode(0);
    put16(&mut bytes, 0x1A, 0);
    assert_eq!(owned(1, &bytes), [(101, 0), (102, 0)]);
    assert_eq!(owned(7, &bytes), []);
}

#[test]
fn only_files_folders_and_long_links_have_pointers() {
    for (mode, has) in
        [(0x8, true), (0x4, true), (0x2, false), (0x6, false), (0x1, false), (0xC, false), (0x3, false)]
    {
        assert_eq!(!owned(12, &with_mode(mode << 12 | 0o644)).is_empty(), has, "{mode:#x}");
    }
}

#[test]
fn only_reserved_inodes_need_no_mode() {
    assert_eq!(owned(10, &with_mode(0)).len(), 2);
    assert_eq!(owned(11, &with_mode(0)), []);
}

#[test]
fn a_short_link_is_text() {
    let mut bytes = with_mode(0xA1FF);
    assert_eq!(owned(12, &bytes), []);
    put32(&mut bytes, 0x1C, 2);
    assert_eq!(owned(12, &bytes).len(), 2);
}

#[test]
fn attributes_of_a_short_link_are_no_content() {
    let mut bytes = with_mode(0xA1FF);
    put32(&mut bytes, 0x1C, 2);
    put32(&mut bytes, 0x68, 200);
    assert_eq!(owned(12, &bytes), [(200, 0)]);
    put32(&mut bytes, 0x1C, 4);
    assert_eq!(owned(12, &bytes), [(200, 0), (101, 0), (102, 0)]);
}

#[test]
fn devices_have_attributes() {
    let mut bytes = with_mode(0x61B0);
    put32(&mut bytes, 0x68, 200);
    assert_eq!(owned(12, &bytes), [(200, 0)]);
}

#[test]
fn attributes_of_a_short_link_take_a_cluster() {
    let mut bytes = with_mode(0xA1FF);
    put32(&mut bytes, 0x1C, 16);
    put32(&mut bytes, 0x68, 200);
    assert_eq!(owned_with((0, 0x200), 12, &bytes), [(200, 0)]);
    assert_eq!(owned_with((0, 0), 12, &bytes).len(), 3);
}

#[test]
fn where_attributes_have_inodes_a_short_link_is_told_by_its_length() {
    let mut bytes = with_mode(0xA1FF);
    put32(&mut bytes, 0x1C, 8);
    for (len, is_text) in [(1, true), (59, true), (60, false), (0, false)] {
        put32(&mut bytes, 0x4, len);
        assert_eq!(owned_with((0x400, 0), 12, &bytes).is_empty(), is_text, "{len}");
    }
}

#[test]
fn attributes_may_lie_beyond_32_bits() {
    let mut bytes = with_mode(0x61B0);
    put32(&mut bytes, 0x68, 200);
    put16(&mut bytes, 0x76, 1);
    assert_eq!(owned(12, &bytes), [(200, 0)]);
    assert_eq!(owned_with((0x80, 0), 12, &bytes), [((1 << 32) + 200, 0)]);
}

#[test]
fn inline_content_is_no_pointers() {
    let mut bytes = file();
    put32(&mut bytes, 0x20, 0x1000_0000);
    put32(&mut bytes, 0x68, 200);
    assert_eq!(owned(12, &bytes), [(200, 0)]);
}

/// A file of one extent at block 150.
fn of_extents(mode: u16, depth: u16) -> Vec<u8> {
    let mut bytes = with_mode(mode);
    put32(&mut bytes, 0x20, 0x8_0000);
    bytes[0x28..0x64].fill(0);
    [(0x28, 0xF30A), (0x2A, 1), (0x2C, 4), (0x2E, depth), (0x38, 3)]
        .into_iter()
        .for_each(|(at, value)| put16(&mut bytes, at, value));
    put32(&mut bytes, if depth == 0 { 0x3C } else { 0x38 }, 150);
    bytes
}

#[test]
fn a_tree_of_extents_is_followed_from_its_root() {
    for mode in [0x81A4, 0x41ED, 0xA1FF] {
        assert_eq!(owned(12, &of_extents(mode, 0)), [(150, 0)], "{mode:#x}");
    }
    for depth in 1..=5 {
        assert_eq!(owned(12, &of_extents(0x81A4, depth)), [(150, 0x10 + depth as u8)]);
    }
    for depth in [6, 0x100, 0xFFFF] {
        assert_eq!(owned(12, &of_extents(0x81A4, depth)), [], "{depth}");
    }
    assert_eq!(owned(12, &of_extents(0x61B0, 0)), []);
    let mut deleted = of_extents(0x81A4, 0);
    put16(&mut deleted, 0x1A, 0);
    assert_eq!(owned(12, &deleted), []);
}

#[test]
fn cut_off_bytes_own_nothing() {
    for bytes in [file(), of_extents(0x81A4, 0)] {
        for len in 0..0x28 {
            assert_eq!(owned(12, &bytes[..len]), []);
        }
    }
}
