use crate::formats::ext2::extents::*;
use crate::formats::testing::{Dice, put16, put32};

/// A node of so many bytes with these entries: file block, length, first block.
pub(in crate::formats::ext2) fn node_of(bytes: usize, depth: u16, entries: &[(u32, u16, u64)]) -> Vec<u8> {
    let header = [0xF30A, entries.len() as u16, (bytes / 12 - 1) as u16, depth];
    let mut bytes = vec![0; bytes];
    header.into_iter().enumerate().for_each(|(n, value)| put16(&mut bytes, 2 * n, value));
    for (n, (file, len, block)) in entries.iter().enumerate() {
        let at = 12 * (n + 1);
        put32(&mut bytes, at, *file);
        if depth == 0 {
            put16(&mut bytes, at + 4, *len);
            put16(&mut bytes, at + 6, (block >> 32) as u16);
            put32(&mut bytes, at + 8, *block as u32);
        } else {
            put32(&mut bytes, at + 4, *block as u32);
            put16(&mut bytes, at + 8, (block >> 32) as u16);
        }
    }
    bytes
}

fn node(depth: u16, entries: &[(u32, u16, u64)]) -> Vec<u8> {
    node_of(1024, depth, entries)
}

fn found(node: &[u8], depth: u8) -> Vec<(std::ops::Range<u64>, u8)> {
    pointers(node, depth).map(|it| (it.blocks, it.level)).collect()
}

#[test]
fn a_leaf_names_ranges() {
    let leaf = node(0, &[(0, 3, 100), (7, 1, (5 << 32) + 9)]);
    assert_eq!(found(&leaf, 0), [(100..103, 0), ((5 << 32) + 9..(5 << 32) + 10, 0)]);
}

#[test]
fn what_is_not_written_yet_is_named_too() {
    let lens = [(32768, 32768), (32769, 1), (65535, 32767), (0, 0), (1, 1)];
    for (ee_len, len) in lens {
        assert_eq!(found(&node(0, &[(0, ee_len, 100)]), 0), [(100..100 + len, 0)], "{ee_len}");
    }
}

#[test]
fn an_index_names_nodes_of_the_level_below() {
    for depth in 1..=5_u8 {
        let index = node(depth.into(), &[(0, 0, 100), (9, 0, (1 << 32) + 1)]);
        let level = 0x10 + depth;
        assert_eq!(found(&index, depth), [(100..101, level), ((1 << 32) + 1..(1 << 32) + 2, level)]);
        assert_eq!(depth_of(level), Some(depth - 1));
    }
    assert_eq!([0, 1, 3, 0x10, 0x16, 0xFF].map(depth_of), [None; 6]);
}

#[test]
fn a_header_that_lies_makes_it_no_node() {
    let leaf = node(0, &[(0, 3, 100)]);
    assert_eq!(found(&leaf, 0).len(), 1);
    for (at, value) in [(0, 0xF30B), (2, 85), (4, 85), (4, 0), (6, 1), (6, 0x100)] {
        let mut leaf = leaf.clone();
        put16(&mut leaf, at, value);
        assert_eq!(found(&leaf, 0), [], "{at} {value}");
    }
    assert_eq!(found(&leaf, 1), [], "another depth");
    assert_eq!(found(&leaf[..1019], 0), [], "there is no room for so many");
    assert_eq!(found(&[], 0), []);
    assert_eq!(found(&node(0, &[]), 0), []);
}

#[test]
fn random_nodes_have_no_more_entries_than_bytes() {
    let mut dice = Dice(9);
    for _ in 0..4000 {
        let len = dice.below(200);
        let mut bytes = dice.bytes(len);
        if bytes.len() >= 8 {
            put16(&mut bytes, 0, 0xF30A);
            put16(&mut bytes, 6, dice.below(7) as u16);
        }
        for depth in 0..=5 {
            assert!(pointers(&bytes, depth).count() * 12 <= bytes.len());
        }
    }
}
