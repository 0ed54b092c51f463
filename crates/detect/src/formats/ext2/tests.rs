//! A small file system made by hand: 300 blocks of 1 KiB in two groups.
//!
//! Group 0: superblock 1, descriptors 2, map 3, inode map 4, inodes 5 and 6.
//! Group 1, from block 257: copies 257 and 258, then 259, 260, 261 and 262.

use crate::formats::ext2::*;
use crate::formats::format::Link;
use crate::formats::testing::{Counts, Dice, count, history_cancels, put16, put32};

mod ext4;

const DISK_BYTES: u64 = 300 * 1024;
/// Where its inodes are.
const TABLE: Block = 5;

pub(super) fn superblock() -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    let words = [(0x0, 32), (0x4, 300), (0x14, 1), (0x20, 256), (0x28, 16), (0x4C, 1), (0x54, 11)];
    words.into_iter().for_each(|(at, value)| put32(&mut bytes, at, value));
    put16(&mut bytes, 0x34, 3);
    put16(&mut bytes, 0x38, 0xEF53);
    put16(&mut bytes, 0x3A, 1);
    put16(&mut bytes, 0x58, 128);
    bytes
}

pub(super) fn descriptors() -> Vec<u8> {
    descriptors_of(32)
}

/// The descriptors, each of so many bytes.
pub(super) fn descriptors_of(bytes_in_one: usize) -> Vec<u8> {
    let mut bytes = vec![0; 1024];
    for (n, place) in [3, 4, 5, 259, 260, 261].into_iter().enumerate() {
        put32(&mut bytes, n / 3 * bytes_in_one + n % 3 * 4, place);
    }
    bytes
}

pub(super) fn contents(superblock: Vec<u8>, descriptors: Vec<u8>) -> Contents {
    let mut contents = Contents::default();
    contents.insert(Addr(1024), superblock);
    contents.insert(Addr(2048), descriptors);
    contents
}

pub(super) fn ext2() -> Box<dyn Format> {
    probe(DISK_BYTES, &contents(superblock(), descriptors())).found()
}

/// An inode in use, of a regular file.
pub(super) fn inode(generation: u32, pointers: &[u32]) -> Vec<u8> {
    let mut bytes = vec![0; 128];
    put16(&mut bytes, 0, 0x81A4);
    put16(&mut bytes, 0x1A, 1);
    put32(&mut bytes, 0x64, generation);
    pointers.iter().enumerate().for_each(|(n, block)| put32(&mut bytes, 0x28 + 4 * n, *block));
    bytes
}

/// A block of inodes: these, from the first on.
fn table(inodes: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = inodes.concat();
    bytes.resize(1024, 0);
    bytes
}

fn pointers(blocks: &[u32]) -> Vec<u8> {
    let mut bytes: Vec<u8> = blocks.iter().flat_map(|block| block.to_le_bytes()).collect();
    bytes.resize(1024, 0);
    bytes
}

fn unlinked(blocks: Range<Block>, kind: Kind) -> Change {
    Change::Unlinked(Link { blocks, kind })
}

fn linked(blocks: Range<Block>, kind: Kind) -> Change {
    Change::Linked(Link { blocks, kind })
}

#[test]
fn superblock_then_descriptors_are_asked_for() {
    let mut seen = Contents::default();
    let first = Extent::new(1024, 1024);
    assert!(matches!(probe(DISK_BYTES, &seen), Probe::Needs(asked) if asked == [first]));
    seen.insert(Addr(1024), superblock());
    let second = Extent::new(2048, 1024);
    assert!(matches!(probe(DISK_BYTES, &seen), Probe::Needs(asked) if asked == [second]));
    seen.insert(Addr(2048), descriptors());
    assert!(matches!(probe(DISK_BYTES, &seen), Probe::Is(_)));
    assert_eq!(probe(DISK_BYTES - 1, &seen).refusal(), "the file system ends beyond the disk");
}

#[test]
fn other_content_is_not_ext2() {
    assert!(matches!(probe(2047, &Contents::default()), Probe::IsNot));
    assert!(matches!(probe(DISK_BYTES, &contents(vec![0; 1024], vec![])), Probe::IsNot));
    assert!(matches!(probe(DISK_BYTES, &contents(vec![0x53; 1024], vec![])), Probe::IsNot));
}

#[test]
fn every_block_has_its_kind() {
    let format = ext2();
    let kinds: Vec<Kind> = (0..300).map(|block| format.kind(block)).collect();
    let (g, m, i, f) = (Kind::Geometry, Kind::Map, Kind::Inodes, Kind::Fixed);
    assert_eq!(kinds[..8], [f, g, g, m, f, i, i, Kind::Data]);
    assert_eq!(kinds[256..264], [Kind::Data, f, f, m, f, i, i, Kind::Data]);
    assert!(kinds[8..256].iter().chain(&kinds[264..]).all(|kind| *kind == Kind::Data));
    assert_eq!(format.survey(Kind::Map), [3..4, 259..260]);
    assert_eq!(format.survey(Kind::Inodes), [5..7, 261..263]);
    assert_eq!(format.survey(Kind::Geometry), [Range { start: 1, end: 3 }]);
    assert_eq!(format.survey(Kind::Data), []);
}

/// The map of group 0, with only metadata allocated: blocks 1 to 6.
fn map_0() -> Vec<u8> {
    let mut map = vec![0; 1024];
    map[0] = 0b0011_1111;
    map[32..].fill(0xFF);
    map
}

fn map_1() -> Vec<u8> {
    let mut map = vec![0xFF; 1024];
    map[1] = 0b1110_0111;
    map
}

fn shown(block: u64, from: usize, map: &[u8]) -> Result<Vec<Shown>, Reason> {
    ext2().map(Extent::new(block * 1024 + from as u64, map.len() as u64), map)
}

#[test]
fn a_map_or_a_part_of_one_shows_runs_of_its_own_blocks() {
    let run = |blocks, allocated| Shown { blocks, allocated };
    let all = vec![run(257..268, true), run(268..270, false), run(270..300, true)];
    for (block, map, part, expected) in [
        (3, map_0(), 0..1024, vec![run(1..7, true), run(7..257, false)]),
        (3, map_0(), 1..2, vec![run(9..17, false)]),
        (3, map_0(), 31..33, vec![run(249..257, false)]),
        (3, map_0(), 512..1024, vec![]),
        (3, map_0(), 0..0, vec![]),
        (259, map_1(), 0..1024, all),
        (259, map_1(), 5..6, vec![run(297..300, true)]),
    ] {
        assert_eq!(shown(block, part.start, &map[part.clone()]), Ok(expected), "{block}: {part:?}");
    }
}

#[test]
fn a_map_with_metadata_free_is_none() {
    let reason = |group| Err(Reason(format!("the map of group {group} shows metadata as free")));
    for bit in 0..6 {
        let mut map = map_0();
        map[0] &= !(1 << bit);
        assert_eq!(shown(3, 0, &map), reason(0), "{bit}");
        map = map_1();
        map[0] &= !(1 << bit);
        assert_eq!(shown(259, 0, &map), reason(1), "{bit}");
    }
    assert_eq!(shown(259, 0, &[0; 512]), reason(1));
}

#[test]
fn behind_a_map_all_bits_are_alike() {
    let reason = Reason("the map of group 0 has mixed bits after its last block".into());
    let mut map = map_0();
    map[700] = 0xFE;
    assert_eq!(shown(3, 0, &map), Err(reason.clone()));
    assert_eq!(shown(3, 512, &map[512..]), Err(reason.clone()));
    map[700..].fill(0);
    assert_eq!(shown(3, 0, &map), Err(reason));
    map[32..].fill(0);
    assert!(shown(3, 0, &map).is_ok());
}

#[test]
fn what_is_not_within_a_map_is_none() {
    for (block, len) in [(4, 1024), (8, 1024), (3, 1025), (u64::MAX >> 11, 512), (300, 1)] {
        assert!(shown(block, 0, &vec![0xFF; len]).is_err(), "{block} {len}");
    }
    assert!(shown(3, 1023, &[0xFF; 2]).is_err());
}

#[test]
fn new_files_are_linked_and_deleted_ones_unlinked() {
    let format = ext2();
    let file = inode(7, &[10, 11, 12, 0, 20, 0, 0, 0, 0, 0, 0, 0, 30, 40, 50]);
    let links = [
        (10..13, Kind::Data),
        (20..21, Kind::Data),
        (30..31, Kind::Pointers(1)),
        (40..41, Kind::Pointers(2)),
        (50..51, Kind::Pointers(3)),
    ];
    let second = |inode: &[u8]| table(&[vec![0; 128], inode.to_vec()]);
    let (empty, full) = (table(&[]), second(&file));
    let of = |change: fn(Range<Block>, Kind) -> Change| {
        links.iter().map(|(blocks, kind)| change(blocks.clone(), *kind)).collect::<Vec<_>>()
    };
    assert_eq!(format.diff(TABLE, Kind::Inodes, &empty, &full), of(linked));
    assert_eq!(format.diff(TABLE, Kind::Inodes, &full, &empty), of(unlinked));
    let mut deleted = file;
    put16(&mut deleted, 0x1A, 0);
    assert_eq!(format.diff(TABLE, Kind::Inodes, &full, &second(&deleted)), of(unlinked));
}

#[test]
fn a_pointer_that_moves_within_its_owner_is_lost_and_found() {
    let inodes = [[10, 20], [20, 10]].map(|blocks| table(&[inode(1, &blocks)]));
    let words = [[10, 20], [20, 10]].map(|blocks| pointers(&blocks));
    for (block, kind, [old, new]) in [(TABLE, Kind::Inodes, inodes), (9, Kind::Pointers(1), words)] {
        let (changes, mut counts) = (ext2().diff(block, kind, &old, &new), Counts::new());
        count(&changes, &mut counts);
        assert_eq!((changes.len(), counts), (4, Counts::new()), "{changes:?}");
    }
}

#[test]
fn a_block_of_another_owner_or_generation_is_unlinked_before_it_is_linked() {
    let new = table(&[inode(1, &[10]), inode(2, &[])]);
    for old in [[inode(1, &[]), inode(2, &[10])], [inode(3, &[10]), inode(2, &[])]] {
        let expected = [unlinked(10..11, Kind::Data), linked(10..11, Kind::Data)];
        assert_eq!(ext2().diff(TABLE, Kind::Inodes, &table(&old), &new), expected);
    }
}

#[test]
fn levels_of_pointers_lead_down_to_data() {
    let format = ext2();
    let (old, new) = (pointers(&[]), pointers(&[10, 11]));
    assert_eq!(format.diff(9, Kind::Pointers(1), &old, &new), [linked(10..12, Kind::Data)]);
    for level in [2, 3] {
        let kind = Kind::Pointers(level - 1);
        assert_eq!(format.diff(9, Kind::Pointers(level), &old, &new), [linked(10..12, kind)]);
    }
    for kind in [Kind::Pointers(0), Kind::Pointers(4), Kind::Pointers(255), Kind::Data, Kind::Map] {
        assert_eq!(format.diff(9, kind, &old, &new), []);
    }
}

#[test]
fn impossible_pointers_name_nothing() {
    let format = ext2();
    let bad = [0, 1, 2, 3, 4, 5, 6, 257, 262, 300, 301, u32::MAX];
    let nothing = vec![0; 1024];
    assert_eq!(format.diff(9, Kind::Pointers(1), &nothing, &pointers(&bad)), []);
    assert_eq!(format.diff(TABLE, Kind::Inodes, &nothing, &table(&[inode(1, &bad)])), []);
    assert_eq!(
        format.diff(9, Kind::Pointers(1), &nothing, &pointers(&[299])),
        [linked(299..300, Kind::Data)]
    );
}

#[test]
fn a_block_of_inodes_elsewhere_holds_none() {
    let new = table(&[inode(1, &[10])]);
    assert_eq!(ext2().diff(9, Kind::Inodes, &[0; 1024], &new), []);
    assert_eq!(ext2().diff(u32::MAX, Kind::Inodes, &[0; 1024], &new), []);
}

#[test]
fn inodes_are_numbered_through_the_groups() {
    let mut bad_blocks = inode(0, &[10]);
    put16(&mut bad_blocks, 0, 0);
    put16(&mut bad_blocks, 0x1A, 0);
    let new = table(&[bad_blocks]);
    assert_eq!(ext2().diff(5, Kind::Inodes, &[0; 1024], &new), [linked(10..11, Kind::Data)]);
    for block in [6, 261, 262] {
        assert_eq!(ext2().diff(block, Kind::Inodes, &[0; 1024], &new), [], "inode 1 is not in block {block}");
    }
}

fn geometry(old: &[u8], new: &[u8]) -> Geometry {
    ext2().geometry(1, old, new)
}

fn with(bytes: &[u8], at: usize, value: u16) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    put16(&mut bytes, at, value);
    bytes
}

#[test]
fn mounting_and_unmounting_are_told_from_checking() {
    let clean = superblock();
    let mounted = with(&with(&clean, 0x3A, 0), 0x34, 4);
    let unmounted = with(&mounted, 0x3A, 1);
    assert_eq!(geometry(&clean, &clean), Geometry::Same);
    assert_eq!(geometry(&clean, &mounted), Geometry::Mounted);
    assert_eq!(geometry(&mounted, &with(&mounted, 0xC, 99)), Geometry::InUse);
    assert_eq!(geometry(&mounted, &unmounted), Geometry::Unmounted);
    assert_eq!(geometry(&mounted, &with(&unmounted, 0x34, 0)), Geometry::Clean);
    assert_eq!(geometry(&mounted, &with(&unmounted, 0x40, 1)), Geometry::Clean);
    let never = |bytes: &[u8]| with(bytes, 0x34, 0);
    assert_eq!(geometry(&never(&mounted), &never(&unmounted)), Geometry::Clean);
    assert_eq!(geometry(&unmounted, &with(&unmounted, 0x78, 1)), Geometry::Clean);
    assert_eq!(geometry(&mounted, &with(&unmounted, 0x3A, 3)), Geometry::Same);
}

#[test]
fn every_field_of_the_layout_makes_it_another_file_system() {
    let old = superblock();
    let fields =
        [0x0, 0x4, 0x14, 0x18, 0x20, 0x28, 0x38, 0x54, 0x58, 0x60, 0x64, 0x68, 0x76, 0xCE, 0x108, 0x24C];
    for at in fields {
        let new = with(&old, at, u16::from_le_bytes([old[at], old[at + 1]]) ^ 1);
        assert_eq!(geometry(&old, &new), Geometry::Changed, "{at:#x}");
    }
    assert_eq!(geometry(&old, &[]), Geometry::Changed);
    assert_eq!(geometry(&old, &[0; 1024]), Geometry::Changed);
}

#[test]
fn fields_that_move_nothing_make_no_other_file_system() {
    let mounted = with(&superblock(), 0x3A, 0);
    for at in [0xC, 0x10, 0x2C, 0x30, 0x34, 0x40, 0x5A, 0x78, 0xE8, 0x174] {
        assert_eq!(geometry(&mounted, &with(&mounted, at, 77)), Geometry::InUse, "{at:#x}");
    }
    let large_file = with(&mounted, 0x64, 2);
    assert_eq!(geometry(&mounted, &large_file), Geometry::InUse);
    let journal = with(&mounted, 0x5C, 4);
    assert_eq!(geometry(&mounted, &journal), Geometry::Changed);
}

#[test]
fn only_places_in_descriptors_matter() {
    let (format, old) = (ext2(), descriptors());
    let others = [0xC, 0xE, 0x10, 0x12, 0x2C, 0x40, 0x3FE].map(|at| (at, Geometry::Same));
    let places = [0x0, 0x4, 0x8, 0x20, 0x24, 0x28].map(|at| (at, Geometry::Changed));
    for (at, expected) in others.into_iter().chain(places) {
        assert_eq!(format.geometry(2, &old, &with(&old, at, 99)), expected, "{at:#x}");
    }
    assert_eq!(format.geometry(2, &old, &old[..40]), Geometry::Changed);
    assert_eq!(format.geometry(9, &old, &[]), Geometry::Changed);
}

#[test]
fn random_content_makes_nothing_panic() {
    let mut dice = Dice(1);
    let format = ext2();
    for _ in 0..4000 {
        let (lens, block) = ([dice.below(1100), dice.below(1100)], dice.below(300));
        let [old, new] = lens.map(|len| dice.bytes(len));
        for level in (0..5).chain(0x10..0x17) {
            format.diff(block, Kind::Pointers(level), &old, &new);
        }
        format.diff(block, Kind::Inodes, &old, &new);
        format.geometry(block, &old, &new);
        let at = Extent::new(u64::from(dice.below(400 * 1024)), new.len() as u64);
        let _ = format.map(at, &new);
    }
}

#[test]
fn spoilt_superblocks_and_descriptors_are_refused_or_usable() {
    let mut dice = Dice(3);
    let (mut refused, mut usable) = (0, 0);
    for _ in 0..20_000 {
        let (head, groups) = (dice.spoil(superblock()), dice.spoil(descriptors()));
        match probe(DISK_BYTES, &contents(head, groups)) {
            Probe::Is(format) => {
                usable += 1;
                use_all(&*format, &mut dice);
            }
            Probe::Refused(_) => refused += 1,
            Probe::Needs(asked) => assert!(asked.iter().all(|it| it.end() <= DISK_BYTES), "{asked:?}"),
            Probe::IsNot => {}
        }
    }
    assert!(refused > 1000 && usable > 1000, "{refused} {usable}");
}

fn use_all(format: &dyn Format, dice: &mut Dice) {
    let bytes = format.block_bytes();
    assert!(u64::from(format.blocks()) * u64::from(bytes) <= DISK_BYTES);
    for kind in [Kind::Geometry, Kind::Map, Kind::Inodes, Kind::Fixed] {
        for block in format.survey(kind).into_iter().flatten() {
            assert_eq!(format.kind(block), kind);
            assert!(block < format.blocks());
        }
    }
    let (block, content) = (dice.below(format.blocks()), dice.bytes(bytes));
    format.diff(block, format.kind(block), &vec![0; bytes as usize], &content);
    let _ = format.map(Extent::new(u64::from(block) * u64::from(bytes), bytes.into()), &content);
}

#[test]
fn what_is_linked_over_any_history_is_unlinked_by_the_way_back() {
    let mut dice = Dice(4);
    let format = ext2();
    let kinds = [1, 2, 0x11, 0x12].map(Kind::Pointers);
    for (block, kind) in kinds.into_iter().map(|kind| (9, kind)).chain([(TABLE, Kind::Inodes)]) {
        for _ in 0..300 {
            let contents: Vec<_> = (0..8).map(|_| random_content(kind, &mut dice)).collect();
            history_cancels(&*format, block, kind, &contents);
        }
    }
}

#[test]
fn at_first_sight_a_block_names_what_it_gained_over_zeros() {
    let mut dice = Dice(5);
    let format = ext2();
    let kinds = [(TABLE, Kind::Inodes), (9, Kind::Inodes), (9, Kind::Pointers(1)), (9, Kind::Pointers(3))];
    let mut named = 0;
    for (block, kind) in kinds {
        for _ in 0..500 {
            let mut content = random_content(kind, &mut dice);
            content.truncate(1024 - dice.below(300) as usize * dice.below(2) as usize);
            let content = if dice.below(4) == 0 { dice.spoil(content) } else { content };
            let (mut seen, mut gained) = Default::default();
            count(&format.pointers(block, kind, &content), &mut seen);
            count(&format.diff(block, kind, &vec![0; content.len()], &content), &mut gained);
            assert_eq!(seen, gained);
            named += seen.len();
        }
    }
    assert!(named > 10_000, "{named}");
}

/// Few different pointers, so that they meet.
fn random_content(kind: Kind, dice: &mut Dice) -> Vec<u8> {
    if kind >= Kind::Pointers(0x11) {
        return ext4::random_node(1024, dice);
    }
    if kind != Kind::Inodes {
        let blocks: Vec<u32> = (0..256).map(|_| dice.below(24)).collect();
        return pointers(&blocks);
    }
    let inodes: Vec<Vec<u8>> = (0..8).map(|_| random_inode(dice)).collect();
    table(&inodes)
}

fn random_inode(dice: &mut Dice) -> Vec<u8> {
    let blocks: Vec<u32> = (0..15).map(|_| dice.below(24)).collect();
    let mut bytes = inode(dice.below(2), &blocks);
    if dice.below(2) == 0 {
        put32(&mut bytes, 0x20, 0x8_0000);
        bytes[0x28..0x64].copy_from_slice(&ext4::random_node(60, dice));
    }
    put16(&mut bytes, 0, [0, 0x41ED, 0x81A4, 0xA1FF, 0x61B0][dice.below(5) as usize]);
    put16(&mut bytes, 0x1A, dice.below(3) as u16);
    put32(&mut bytes, 0x14, dice.below(4) / 3);
    put32(&mut bytes, 0x68, dice.below(12));
    bytes
}
