use crate::formats::ext2::journal::*;
use crate::formats::ext2::probe;
use crate::formats::ext2::tests::{self, descriptors, inode, superblock};
use crate::formats::format::{Format, Geometry};
use crate::formats::testing::{put16, put32};

const DISK_BYTES: u64 = 300 * 1024;
const TABLE: u64 = 5 * 1024;

/// A disk whose journal is inode 8, with these pointers.
fn contents(i_size: u32, pointers: &[u32]) -> Contents {
    let mut bytes = inode(1, pointers);
    put32(&mut bytes, 4, i_size);
    with_inode(&bytes)
}

fn with_inode(inode: &[u8]) -> Contents {
    let mut table = vec![0; 1024];
    table[7 * 128..].copy_from_slice(inode);
    let mut contents = with_superblock(journaled());
    contents.insert(Addr(TABLE), table);
    contents
}

fn with_superblock(superblock: Vec<u8>) -> Contents {
    tests::contents(superblock, descriptors())
}

fn journaled() -> Vec<u8> {
    let mut bytes = superblock();
    put32(&mut bytes, 0x5C, 4);
    put32(&mut bytes, 0xE0, 8);
    bytes
}

fn found(contents: &Contents) -> Box<dyn Format> {
    probe(DISK_BYTES, contents).found()
}

fn nonsense(contents: &Contents) -> bool {
    probe(DISK_BYTES, contents).refusal() == "the journal's inode is invalid"
}

#[test]
fn direct_pointers_are_followed_in_order() {
    let format = found(&contents(4 * 1024, &[40, 41, 30, 31, 99]));
    assert_eq!(format.journal(), Some(vec![40..42, 30..32]));
    assert_eq!(format.name(), "ext3");
}

#[test]
fn the_table_is_asked_for() {
    let asked = probe(DISK_BYTES, &with_superblock(journaled()));
    assert!(matches!(asked, Probe::Needs(asked) if asked == [Extent::new(TABLE, 1024)]));
}

#[test]
fn an_external_journal_is_out_of_sight() {
    let mut superblock = journaled();
    assert!(!found(&contents(2048, &[40, 41])).has_external_journal());
    put32(&mut superblock, 0xE0, 0);
    let format = found(&with_superblock(superblock.clone()));
    assert!(format.has_external_journal() && format.map_needs_rest() && format.journal().is_none());
    let another = [&superblock[..0xD0], &[7; 16], &superblock[0xE0..]].concat();
    assert_eq!(format.geometry(1, &superblock, &another), Geometry::Changed);
    assert_eq!(format.geometry(1, &superblock, &journaled()), Geometry::Changed);
}

#[test]
fn a_mount_is_counted() {
    let format = found(&contents(2048, &[40, 41]));
    let mounted = |count| {
        let mut bytes = journaled();
        put32(&mut bytes, 0x60, 4);
        put16(&mut bytes, 0x34, count);
        bytes
    };
    assert_eq!(format.geometry(1, &mounted(3), &mounted(4)), Geometry::Mounted);
    assert_eq!(format.geometry(1, &mounted(0xFFFF), &mounted(0)), Geometry::Mounted);
    for count in [0, 2, 5] {
        assert_eq!(format.geometry(1, &mounted(3), &mounted(count)), Geometry::InUse, "{count}");
    }
}

#[test]
fn who_reads_a_superblock_or_a_copy_opens_the_file_system() {
    let format = found(&contents(2048, &[40, 41]));
    let is_opened = |at, len| format.is_opened_by(Extent::new(at, len));
    assert!(is_opened(1024, 1) && is_opened(0, 4096) && is_opened(2047, 512) && is_opened(0, DISK_BYTES));
    assert!(!is_opened(0, 1024) && !is_opened(2048, 100_000));
}

#[test]
fn a_journal_that_cannot_be_is_refused() {
    assert!(found(&contents(2048, &[40, 41])).journal().is_some());
    for pointers in [[40, 0], [40, 40], [40, 300], [40, 3], [0, 0]] {
        assert!(nonsense(&contents(2048, &pointers)), "{pointers:?}");
    }
    assert!(nonsense(&contents(0, &[40, 41])));
    let mut superblock = journaled();
    put32(&mut superblock, 0xE0, 33);
    assert!(nonsense(&with_superblock(superblock)));
}

#[test]
fn a_deleted_inode_or_a_directory_is_no_journal() {
    for (at, value) in [(0, 0x41ED), (0x1A, 0), (0x14, 1)] {
        let mut bytes = inode(1, &[40, 41]);
        put32(&mut bytes, 4, 2048);
        put16(&mut bytes, at, value);
        assert!(nonsense(&with_inode(&bytes)), "{at:#x}");
    }
}

#[test]
fn pointers_that_lead_in_circles_end() {
    let mut all = contents(u32::MAX, &[0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 50]);
    all.insert(Addr(50 * 1024), 50_u32.to_le_bytes().repeat(256));
    assert!(nonsense(&all));
}

#[test]
fn a_journal_says_whether_it_is_mounted() {
    let format = found(&contents(2048, &[40, 41]));
    assert!(format.was_clean());
    let block = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = journaled();
        change(&mut bytes);
        bytes
    };
    let clean = block(&|_| {});
    let mounted = block(&|bytes| put32(bytes, 0x60, 4));
    assert_eq!(format.geometry(1, &clean, &mounted), Geometry::InUse);
    assert_eq!(format.geometry(1, &mounted, &clean), Geometry::Unmounted);
    let without_it = block(&|bytes| put16(bytes, 0x3A, 0));
    assert_eq!(format.geometry(1, &clean, &without_it), Geometry::Changed);
    assert!(probe(DISK_BYTES, &with_superblock(without_it)).refusal().contains("without its journal"));
    let another = block(&|bytes| put32(bytes, 0x10C, 77));
    assert_eq!(format.geometry(1, &clean, &another), Geometry::Changed);
}
