use super::*;
use crate::ext2::tests::{inode, put16, put32};

fn owned(number: u32, bytes: &[u8]) -> Vec<(u32, u8)> {
    let inode = Inode { bytes, number, first_ino: 11, block_bytes: 1024 };
    let mut owned = Vec::new();
    inode.pointers(|it| owned.push((it.block, it.level)));
    owned.retain(|it| it.0 != 0);
    owned
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
    let mut expected: Vec<(u32, u8)> = (101..113).map(|block| (block, 0)).collect();
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
fn extents_and_inline_content_are_no_pointers() {
    for flag in [0x8_0000, 0x1000_0000] {
        let mut bytes = file();
        put32(&mut bytes, 0x20, flag);
        put32(&mut bytes, 0x68, 200);
        assert_eq!(owned(12, &bytes), [(200, 0)]);
    }
}

#[test]
fn cut_off_bytes_own_nothing() {
    let bytes = file();
    for len in 0..0x28 {
        assert_eq!(owned(12, &bytes[..len]), []);
    }
}
