//! The same small file system with what ext4 adds.

use crate::formats::ext2::extents::tests::node_of;
use crate::formats::ext2::tests::*;

const EXTENTS_FL: u32 = 0x8_0000;
/// Blocks of extents at their leaves.
const LEAF: Kind = Kind::Pointers(0x11);

/// Extents, descriptors with checksums.
fn superblock() -> Vec<u8> {
    let mut bytes = crate::formats::ext2::tests::superblock();
    put32(&mut bytes, 0x60, 0x40);
    put32(&mut bytes, 0x64, 0x10);
    bytes
}

fn format(superblock: Vec<u8>, descriptors: Vec<u8>) -> Box<dyn Format> {
    probe(DISK_BYTES, &contents(superblock, descriptors)).found()
}

fn ext4() -> Box<dyn Format> {
    format(superblock(), descriptors())
}

/// A node of extents: length and first block of each.
fn node(bytes: usize, depth: u16, entries: &[(u16, u32)]) -> Vec<u8> {
    let entries: Vec<_> = entries.iter().map(|(len, block)| (0, *len, u64::from(*block))).collect();
    node_of(bytes, depth, &entries)
}

/// Few different extents, so that they meet; sometimes no node.
pub(super) fn random_node(bytes: usize, dice: &mut Dice) -> Vec<u8> {
    let most = (bytes as u32 / 12 - 1).min(6);
    let entries: Vec<(u16, u32)> =
        (0..dice.below(most + 1)).map(|_| (dice.below(5) as u16, 7 + dice.below(17))).collect();
    let mut node = node(bytes, dice.below(2) as u16, &entries);
    put16(&mut node, 0, [0xF30A, 0xF30A, 0xF30A, 0][dice.below(4) as usize]);
    node
}

/// A file with this root.
fn file(generation: u32, root: &[u8]) -> Vec<u8> {
    let mut bytes = inode(generation, &[]);
    put32(&mut bytes, 0x20, EXTENTS_FL);
    bytes[0x28..0x64].copy_from_slice(root);
    bytes
}

fn of_extents(entries: &[(u16, u32)]) -> Vec<u8> {
    table(&[file(1, &node(60, 0, entries))])
}

#[test]
fn it_is_called_ext4() {
    assert_eq!((ext2().name(), ext4().name()), ("ext2", "ext4"));
    assert!(ext4().hidden().is_empty(), "without a journal");
}

#[test]
fn a_file_of_extents_grows_and_shrinks() {
    let format = ext4();
    let diff = |old: &[u8], new: &[u8]| format.diff(TABLE, Kind::Inodes, old, new);
    let (short, long) = (of_extents(&[(10, 20)]), of_extents(&[(15, 20), (4, 100)]));
    assert_eq!(diff(&table(&[]), &short), [linked(20..30, Kind::Data)]);
    assert_eq!(diff(&short, &long), [linked(30..35, Kind::Data), linked(100..104, Kind::Data)]);
    assert_eq!(diff(&long, &short), [unlinked(30..35, Kind::Data), unlinked(100..104, Kind::Data)]);
    let mut deleted = long.clone();
    put32(&mut deleted, 0x14, 1);
    assert_eq!(diff(&long, &deleted), [unlinked(20..35, Kind::Data), unlinked(100..104, Kind::Data)]);
}

#[test]
fn a_file_that_keeps_its_blocks_in_another_form_is_named_as_before() {
    for (what, old, new) in [
        ("an extent is written at last", of_extents(&[(32768 + 10, 20)]), of_extents(&[(10, 20)])),
        ("pointers become an extent", table(&[inode(1, &[20, 21])]), of_extents(&[(2, 20)])),
    ] {
        assert_eq!(ext4().diff(TABLE, Kind::Inodes, &old, &new), [], "{what}");
    }
}

#[test]
fn a_tree_that_grows_deeper_names_its_node() {
    let format = ext4();
    let (flat, deep) = (of_extents(&[(10, 20)]), table(&[file(1, &node(60, 1, &[(0, 50)]))]));
    let changes = format.diff(TABLE, Kind::Inodes, &flat, &deep);
    assert_eq!(changes, [unlinked(20..30, Kind::Data), linked(50..51, LEAF)]);
    let leaf = node(1024, 0, &[(10, 20), (2, 40)]);
    let links = [linked(20..30, Kind::Data), linked(40..42, Kind::Data)];
    assert_eq!(format.diff(50, LEAF, &[0; 1024], &leaf), links);
    let index = node(1024, 1, &[(0, 60), (0, 70)]);
    assert_eq!(
        format.diff(50, Kind::Pointers(0x12), &[0; 1024], &index),
        [linked(60..61, LEAF), linked(70..71, LEAF)]
    );
    assert_eq!(format.diff(50, LEAF, &[0; 1024], &index), [], "of another depth");
    assert_eq!(
        format.diff(50, LEAF, &leaf, &index),
        [unlinked(20..30, Kind::Data), unlinked(40..42, Kind::Data)]
    );
}

#[test]
fn impossible_extents_name_nothing() {
    let format = ext4();
    let impossible =
        [(10, 0), (1, 1), (2, 6), (3, 255), (1, 300), (2, 299), (32768, 7), (1, u32::MAX), (0, 20)];
    for extent in impossible {
        assert_eq!(format.diff(TABLE, Kind::Inodes, &[0; 1024], &of_extents(&[extent])), [], "{extent:?}");
    }
    let edge = of_extents(&[(1, 7), (1, 299)]);
    let links = [linked(7..8, Kind::Data), linked(299..300, Kind::Data)];
    assert_eq!(format.diff(TABLE, Kind::Inodes, &[0; 1024], &edge), links);
    let mut beyond = of_extents(&[(1, 20)]);
    put16(&mut beyond, 0x28 + 12 + 6, 1);
    assert_eq!(format.diff(TABLE, Kind::Inodes, &[0; 1024], &beyond), []);
}

/// Descriptors of which the second says that its map was never written.
fn second_uninit() -> Vec<u8> {
    with(&descriptors(), 0x32, 3)
}

fn at(block: u64, from: u64, len: u64) -> Extent<Addr> {
    Extent::new(block * 1024 + from, len)
}

fn run(blocks: Range<Block>, allocated: bool) -> Shown {
    Shown { blocks, allocated }
}

#[test]
fn a_map_that_was_never_written_is_not_believed_at_rest() {
    let format = format(superblock(), second_uninit());
    let all = Ok(vec![run(257..263, true), run(263..300, false)]);
    for garbage in [0, 0x5A, 0xFF] {
        assert_eq!(format.map_at_rest(at(259, 0, 1024), &[garbage; 1024]), all, "{garbage:#x}");
    }
    let part = |from, len| format.map_at_rest(at(259, from, len), &vec![0x5A; len as usize]);
    assert_eq!(part(0, 1), Ok(vec![run(257..263, true), run(263..265, false)]));
    assert_eq!(part(5, 1), Ok(vec![run(297..300, false)]));
    assert_eq!(part(512, 512), Ok(vec![]));
    assert!(format.map_at_rest(at(259, 1000, 25), &[0; 25]).is_err());
    let unsummed = self::format(crate::formats::ext2::tests::superblock(), second_uninit());
    assert!(
        unsummed.map_at_rest(at(259, 0, 1024), &[0; 1024]).is_err(),
        "without checksums flags mean nothing"
    );
}

/// The map may well reach the disk before the descriptor that says that there
/// is one.
#[test]
fn a_map_that_is_written_is_believed_whatever_the_descriptor_says() {
    let format = format(superblock(), second_uninit());
    let expected = [run(257..268, true), run(268..270, false), run(270..300, true)];
    assert_eq!(format.map(at(259, 0, 1024), &map_1()), Ok(expected.to_vec()));
    assert!(format.map(at(259, 0, 1024), &[0x5A; 1024]).is_err());
}

#[test]
fn descriptors_are_believed_as_they_are_written() {
    let mut format = ext4();
    let garbage = [0; 1024];
    let at_rest = |format: &dyn Format| format.map_at_rest(at(259, 0, 1024), &garbage);
    assert!(at_rest(&*format).is_err());
    assert_eq!(format.geometry(2, &descriptors(), &second_uninit()), Geometry::Same);
    format.learn(2, &second_uninit());
    assert!(at_rest(&*format).is_ok());
    assert!(format.map_at_rest(at(3, 0, 1024), &garbage).is_err(), "the other group has a map");
    format.learn(1, &second_uninit());
    format.learn(3, &descriptors());
    assert!(at_rest(&*format).is_ok(), "other blocks say nothing of it");
    format.learn(2, &descriptors());
    assert!(at_rest(&*format).is_err());
}

#[test]
fn orphans_in_a_file_make_no_other_file_system() {
    let mut old = with(&superblock(), 0x3A, 0);
    put32(&mut old, 0x5C, 0x1000);
    let mut new = old.clone();
    put32(&mut new, 0x64, 0x1_0010);
    assert_eq!(format(old.clone(), descriptors()).geometry(1, &old, &new), Geometry::InUse);
}

#[test]
fn every_field_that_ext4_adds_makes_it_another_file_system() {
    let mut old = superblock();
    put32(&mut old, 0x60, 0x1C0);
    put16(&mut old, 0xFE, 64);
    put16(&mut old, 0x168, 100);
    let format = format(old.clone(), descriptors_of(64));
    for (at, value) in [(0x60, 0x40), (0x64, 0x210), (0x64, 0), (0xFE, 128), (0x168, 101)] {
        assert_eq!(format.geometry(1, &old, &with(&old, at, value)), Geometry::Changed, "{at:#x}");
    }
}

/// The same places, with clusters of 2 blocks from block 0 on.
fn clustered() -> Box<dyn Format> {
    let mut bytes = superblock();
    [(0x14, 0), (0x1C, 1), (0x24, 128), (0x64, 0x210)]
        .into_iter()
        .for_each(|(at, value)| put32(&mut bytes, at, value));
    let mut groups = descriptors();
    put16(&mut groups, 0x32, 2);
    format(bytes, groups)
}

#[test]
fn a_bit_is_a_cluster() {
    let format = clustered();
    assert_eq!(
        [0, 1, 2, 7, 256, 257, 258].map(|block| format.kind(block)),
        [Kind::Fixed, Kind::Geometry, Kind::Geometry, Kind::Data, Kind::Fixed, Kind::Fixed, Kind::Data]
    );
    let mut map = vec![0; 1024];
    map[0] = 0b0100_1111;
    map[16..].fill(0xFF);
    let expected = [run(0..8, true), run(8..12, false), run(12..14, true), run(14..256, false)];
    assert_eq!(format.map(at(3, 0, 1024), &map), Ok(expected.to_vec()));
    assert_eq!(format.map(at(3, 1, 1), &map[1..2]), Ok(vec![run(16..32, false)]));
    for bit in 0..4 {
        let mut map = map.clone();
        map[0] &= !(1 << bit);
        assert!(format.map(at(3, 0, 1024), &map).is_err(), "{bit}");
    }
    map[17] = 0;
    assert!(format.map(at(3, 0, 1024), &map).is_err(), "behind the last cluster");
}

#[test]
fn clusters_with_metadata_are_never_free() {
    let expected = [run(256..264, true), run(264..300, false)];
    assert_eq!(clustered().map_at_rest(at(259, 0, 1024), &[0; 1024]), Ok(expected.to_vec()));
}

#[test]
fn the_last_cluster_may_be_cut_off() {
    let mut map = vec![0xFF; 1024];
    map[2] = 0b1101_1111;
    let shown = clustered().map(at(259, 2, 1), &map[2..3]);
    assert_eq!(shown, Ok(vec![run(288..298, true), run(298..300, false)]));
}
