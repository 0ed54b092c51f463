use crate::formats::ext2::extents::tests::node_of;
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
fn only_files_folders_and_long_links_have_pointers() {
    for (mode, has) in
        [(0x8, true), (0x4, true), (0x2, false), (0x6, false), (0x1, false), (0xC, false), (0x3, false)]
    {
        assert_eq!(!owned(12, &with_mode(mode << 12 | 0o644)).is_empty(), has, "{mode:#x}");
    }
}

const BOTH: &[(u64, u8)] = &[(101, 0), (102, 0)];
/// The block of attributes alone, and with the content.
const ATTRIBUTES: &[(u64, u8)] = &[(200, 0)];
const ALL: &[(u64, u8)] = &[(200, 0), (101, 0), (102, 0)];

/// What it is, features, number, mode; fields of 32 bits: where, and the value; what it owns.
type Row<'a> = (&'a str, (u32, u32), u32, u16, &'a [(usize, u32)], &'a [(u64, u8)]);

#[test]
fn what_an_inode_owns_depends_on_its_fields_and_on_features() {
    const FILE: u16 = 0x81A4;
    const LINK: u16 = 0xA1FF;
    const DEVICE: u16 = 0x61B0;
    let (none, bigalloc, wide, ea_inode) = ((0, 0), (0, 0x200), (0x80, 0), (0x400, 0));
    let far: &[(u64, u8)] = &[((1 << 32) + 200, 0)];
    let rows: [Row<'_>; 20] = [
        ("a file without links", none, 12, FILE, &[(0x1A, 0)], &[]),
        ("a file with a time of deletion", none, 12, FILE, &[(0x14, 1)], &[]),
        ("the bad blocks, without links or mode", none, 1, 0, &[(0x1A, 0)], BOTH),
        ("another inode without links or mode", none, 7, 0, &[(0x1A, 0)], &[]),
        ("a reserved inode without a mode", none, 10, 0, &[], BOTH),
        ("the first inode that is not reserved, without a mode", none, 11, 0, &[], &[]),
        ("inline content", none, 12, FILE, &[(0x20, 0x1000_0000), (0x68, 200)], ATTRIBUTES),
        ("a device", none, 12, DEVICE, &[(0x68, 200)], ATTRIBUTES),
        ("attributes beyond 32 bits", wide, 12, DEVICE, &[(0x68, 200), (0x76, 1)], far),
        ("the same without the feature", none, 12, DEVICE, &[(0x68, 200), (0x76, 1)], ATTRIBUTES),
        ("a short link", none, 12, LINK, &[], &[]),
        ("a long link", none, 12, LINK, &[(0x1C, 2)], BOTH),
        ("a short link with attributes", none, 12, LINK, &[(0x1C, 2), (0x68, 200)], ATTRIBUTES),
        ("a long link with attributes", none, 12, LINK, &[(0x1C, 4), (0x68, 200)], ALL),
        ("attributes that take a cluster", bigalloc, 12, LINK, &[(0x1C, 16), (0x68, 200)], ATTRIBUTES),
        ("as many blocks without clusters", none, 12, LINK, &[(0x1C, 16), (0x68, 200)], ALL),
        ("a link of one letter, by its length", ea_inode, 12, LINK, &[(0x1C, 8), (0x4, 1)], &[]),
        ("the longest short link, by its length", ea_inode, 12, LINK, &[(0x1C, 8), (0x4, 59)], &[]),
        ("the shortest long link, by its length", ea_inode, 12, LINK, &[(0x1C, 8), (0x4, 60)], BOTH),
        ("a link of no length", ea_inode, 12, LINK, &[(0x1C, 8), (0x4, 0)], BOTH),
    ];
    for (what, features, number, mode, fields, expected) in rows {
        let mut bytes = with_mode(mode);
        fields.iter().for_each(|(at, value)| put32(&mut bytes, *at, *value));
        assert_eq!(owned_with(features, number, &bytes), expected, "{what}");
    }
}

/// A file of one extent at block 150.
fn of_extents(mode: u16, depth: u16) -> Vec<u8> {
    let mut bytes = with_mode(mode);
    put32(&mut bytes, 0x20, 0x8_0000);
    bytes[0x28..0x64].copy_from_slice(&node_of(60, depth, &[(0, 3, 150)]));
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
