//! Small file systems made by hand.

use crate::formats::fat::*;
use crate::formats::format::Link;
use crate::formats::testing::{probed, put16, put32};
use quietus_core::base::units::Extent;

const DISK_BYTES: u64 = 64 << 20;

fn head(sectors_in_cluster: u8, reserved: u16) -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..3].copy_from_slice(&[0xEB, 0x3C, 0x90]);
    put16(&mut bytes, 0x0B, 512);
    bytes[0x0D] = sectors_in_cluster;
    put16(&mut bytes, 0x0E, reserved);
    bytes[0x10] = 2;
    bytes[0x15] = 0xF8;
    put16(&mut bytes, 510, 0xAA55);
    bytes
}

/// FAT16: 4 reserved sectors, two tables of 80, a root directory of 32, and from
/// sector 196 on 10,000 clusters of 4 sectors.
pub(super) fn boot16() -> Vec<u8> {
    let mut bytes = head(4, 4);
    put16(&mut bytes, 0x11, 512);
    put16(&mut bytes, 0x13, 40_196);
    put16(&mut bytes, 0x16, 80);
    put32(&mut bytes, 0x27, 0x1234_5678);
    bytes
}

/// FAT32: 32 reserved sectors, two tables of 512, and from sector 1056 on 65,496
/// clusters of one.
pub(super) fn boot32() -> Vec<u8> {
    let mut bytes = head(1, 32);
    put32(&mut bytes, 0x20, 1056 + 65_496);
    put32(&mut bytes, 0x24, 512);
    put32(&mut bytes, 0x2C, 2);
    put32(&mut bytes, 0x43, 0x1234_5678);
    bytes
}

/// FAT12: 1 reserved sector, two tables of 9, a root directory of 14, and from
/// sector 33 on 2,847 clusters of one: a floppy disk.
fn boot12() -> Vec<u8> {
    let mut bytes = head(1, 1);
    bytes[0x15] = 0xF0;
    put16(&mut bytes, 0x11, 224);
    put16(&mut bytes, 0x13, 2880);
    put16(&mut bytes, 0x16, 9);
    bytes
}

/// The result of a probe of `boot`, with the first bytes `table` of the table.
fn found(boot: &[u8], table: &[u8]) -> Probe {
    let mut disk = boot.to_vec();
    disk.resize(1 << 20, 0);
    let fat = usize::from(u16::from_le_bytes([boot[0x0E], boot[0x0F]])) * 512;
    disk[fat..fat + table.len()].copy_from_slice(table);
    probed(probe, DISK_BYTES, &disk)
}

fn fat(boot: &[u8], table: &[u8]) -> Box<dyn Format> {
    found(boot, table).found()
}

fn fat16() -> Box<dyn Format> {
    fat(&boot16(), &[0xF8, 0xFF, 0xFF, 0xFF])
}

fn fat32() -> Box<dyn Format> {
    fat(&boot32(), &table32(&[0x0FFF_FFFF]))
}

fn fat12() -> Box<dyn Format> {
    fat(&boot12(), &[0xF0, 0xFF, 0xFF])
}

/// The table's first bytes with these entries from 2 on.
fn table16(entries: &[u16]) -> Vec<u8> {
    [0xFFF8, 0xFFFF].iter().chain(entries).flat_map(|it| it.to_le_bytes()).collect()
}

fn table32(entries: &[u32]) -> Vec<u8> {
    [0x0FFF_FFF8, 0x0FFF_FFFF].iter().chain(entries).flat_map(|it| it.to_le_bytes()).collect()
}

fn at(sector: u64, bytes: &[u8]) -> Extent<Addr> {
    Extent::new(sector * 512, bytes.len() as u64)
}

fn shown(format: &dyn Format, sector: u64, bytes: &[u8]) -> Vec<(Range<Block>, bool)> {
    let shown = format.map(at(sector, bytes), bytes).unwrap();
    shown.into_iter().map(|it| (it.blocks, it.allocated)).collect()
}

#[test]
fn the_places_are_those_of_the_specification() {
    let format = fat16();
    assert_eq!((format.name(), format.block_bytes(), format.blocks()), ("fat16", 2048, 49 + 10_000));
    let kinds: Vec<_> = [0, 1, 20, 21, 40, 41, 48, 49].iter().map(|it| format.kind(*it)).collect();
    let (boot, map, fixed, root) = (Kind::Geometry, Kind::Map, Kind::Fixed, Kind::Inodes);
    assert_eq!(kinds, [boot, map, map, fixed, fixed, root, root, Kind::Data]);
    let survey = |kind| format.survey(kind).into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(survey(Kind::Map), (1..21).collect::<Vec<_>>());
    assert_eq!(survey(Kind::Geometry), [0]);
    assert_eq!(survey(Kind::Inodes), (1..21).chain(41..49).collect::<Vec<_>>());
    assert_eq!((fat32().kind(1056), fat32().kind(1057)), (root, Kind::Data));
    assert!(format.map_is_final(), "what an entry says");
    let figures = format.figures();
    assert!(figures.contains(&("clusters", 10_000)) && figures.contains(&("bytes in a cluster", 2048)));
}

#[test]
fn a_table_shows_each_cluster_once() {
    let (format, table) = (fat16(), table16(&[3, 0xFFFF, 0, 0xFFF7]));
    assert_eq!(shown(&*format, 4, &table), [(49..51, true), (51..52, false), (52..53, true)]);
    let (format, table) = (fat32(), table32(&[0x0FFF_FFFF, 0xF000_0000, 1]));
    assert_eq!(shown(&*format, 32, &table), [(1056..1057, true), (1057..1058, false), (1058..1059, true)]);
}

#[test]
fn a_part_of_a_table_shows_its_own_clusters() {
    let format = fat16();
    let part = [0_u8; 512];
    assert_eq!(shown(&*format, 5, &part), [(49 + 254..49 + 510, false)]);
    let both = format.map(Extent::new(2048, 1024), &[&table16(&[1; 254])[..], &part].concat()).unwrap();
    assert_eq!(both.len(), 2);
}

#[test]
fn what_lies_behind_the_last_cluster_is_not_shown() {
    // Entry 10,001 is the last: byte 20,002 of the table.
    let last = shown(&*fat16(), 4 + 39, &[0; 512]);
    assert_eq!(last, [(49 + 9982..49 + 10_000, false)]);
    assert_eq!(shown(&*fat16(), 4 + 40, &[0; 512]), []);
}

#[test]
fn an_entry_that_straddles_two_sectors_is_shown_by_both_together() {
    let format = fat12();
    let table = vec![0; 1024];
    // Entry 341 has its low 4 bits in byte 511, the rest in byte 512: block 33 + 339.
    let first = format.map(at(2, &table[..512]), &table[..512]).unwrap();
    assert_eq!(first.first().unwrap().blocks.start, 33 + 340);
    let head = [&[0xF0, 0xFF, 0xFF][..], &[0; 509]].concat();
    assert_eq!(shown(&*format, 1, &head), [(33..33 + 339, false)]);
    let reach = [&head[..], &[0]].concat();
    assert_eq!(shown(&*format, 1, &reach), [(33..33 + 340, false)]);
    assert_eq!(format.map_reach_bytes(), 1);
    assert_eq!((fat16().map_reach_bytes(), fat32().map_reach_bytes()), (0, 0));
    let mut half = head;
    half[511] = 0x10;
    assert_eq!(shown(&*format, 1, &half), [(33..33 + 339, false), (33 + 339..33 + 340, true)]);
}

#[test]
fn a_table_without_the_media_descriptor_is_none() {
    let format = fat16();
    for head in [[0xF0, 0xFF, 0xFF, 0xFF], [0; 4], [0xF8, 0xFF, 0, 0]] {
        assert!(format.map(at(4, &head), &head).unwrap_err().0.contains("is invalid"));
        assert!(matches!(found(&boot16(), &head), Probe::Refused(_)));
    }
}

#[test]
fn the_root_directory_is_not_free() {
    let table = table32(&[0, 5]);
    assert!(fat32().map(at(32, &table), &table).unwrap_err().0.contains("entry 2"));
}

fn named(changes: &[Change]) -> Vec<(bool, Range<Block>)> {
    let one = |change: &Change| match change {
        Change::Unlinked(link) => (false, link.blocks.clone()),
        Change::Linked(link) => (true, link.blocks.clone()),
    };
    changes.iter().map(one).collect()
}

fn block16(entries: &[u16]) -> Vec<u8> {
    let mut bytes = table16(entries);
    bytes.resize(2048, 0);
    bytes
}

#[test]
fn a_table_names_what_its_entries_lead_to() {
    let chain: &[u16] = &[3, 4, 7, 0, 0, 0xFFFF];
    for (what, old, new, expected) in [
        ("a chain, but for its head", &[][..], chain, &[(true, 50..52), (true, 54..55)][..]),
        ("a chain that goes", chain, &[], &[(false, 50..52), (false, 54..55)]),
        (
            "another predecessor",
            &[4, 0xFFFF, 0xFFFF],
            &[0xFFFF, 4, 0xFFFF],
            &[(false, 51..52), (true, 51..52)],
        ),
        ("entries that lead nowhere", &[], &[1, 0xFFF6, 0xFFF7, 0xFFF8, 0xFFFF, 10_002], &[]),
        ("the last cluster", &[], &[10_001], &[(true, 49 + 9999..49 + 10_000)]),
        ("a circle", &[], &[3, 2, 4], &[(true, 50..51), (true, 49..50), (true, 51..52)]),
    ] {
        let found = fat16().diff(1, Kind::Map, &block16(old), &block16(new));
        assert_eq!(named(&found), expected, "{what}");
    }
    let table = table32(&[3, 2, 0xF000_0005]);
    let table = [&table[..], &vec![0; 512 - table.len()]].concat();
    assert_eq!(named(&fat32().pointers(32, Kind::Map, &table)), [(true, 1057..1058), (true, 1059..1060)]);
    let mut upper_bits = table.clone();
    upper_bits[15] ^= 0xF0;
    assert_eq!(fat32().diff(32, Kind::Map, &table, &upper_bits), []);
}

fn geometry(format: &dyn Format, old: &[u8], new: &[u8]) -> Geometry {
    let whole = |bytes: &[u8]| [bytes, &vec![0; format.block_bytes() as usize - bytes.len()]].concat();
    format.geometry(0, &whole(old), &whole(new))
}

#[test]
fn a_change_of_the_boot_sector_means_what_it_leaves_alone() {
    let with = |mut boot: Vec<u8>, at: usize, value: u8| {
        boot[at] = value;
        boot
    };
    let (of_32, mounted_32) = (boot32(), with(boot32(), 0x41, 1));
    let (of_16, mounted_16, mended) = (boot16(), with(boot16(), 0x25, 1), with(boot16(), 0x2B, b'X'));
    let (other, none, follows) = (with(boot16(), 0x27, 5), vec![0; 512], [&of_16[..], &[1; 1536]].concat());
    for (what, format, old, new, expected) in [
        ("mounted by Linux", fat32(), &of_32, &mounted_32, Geometry::InUse),
        ("unmounted by Linux", fat32(), &mounted_32, &of_32, Geometry::Unmounted),
        ("the same", fat32(), &of_32, &of_32, Geometry::Same),
        ("mended by a tool, which unmounts nothing", fat16(), &mounted_16, &mended, Geometry::Clean),
        ("changed by a tool", fat16(), &of_16, &mended, Geometry::Same),
        ("another number", fat16(), &of_16, &other, Geometry::Changed),
        ("no boot sector any more", fat16(), &of_16, &none, Geometry::Changed),
        ("no boot sector before", fat16(), &none, &of_16, Geometry::Changed),
        ("what follows in its block", fat16(), &of_16, &follows, Geometry::Same),
    ] {
        assert_eq!(geometry(&*format, old, new), expected, "{what}");
    }
    assert_eq!(fat16().geometry(3, &[0; 512], &[1; 512]), Geometry::Changed);
}

#[test]
fn it_was_clean_only_if_boot_sector_and_table_say_so() {
    let mut mounted = boot16();
    mounted[0x25] = 1;
    assert!(fat16().was_clean());
    assert!(!fat(&mounted, &[0xF8, 0xFF, 0xFF, 0xFF]).was_clean());
    assert!(!fat(&boot16(), &[0xF8, 0xFF, 0xFF, 0x7F]).was_clean(), "Windows had it mounted");
    assert!(!fat(&boot16(), &[0xF8, 0xFF, 0xFF, 0xBF]).was_clean(), "it failed");
    assert!(!fat(&boot32(), &[0xF8, 0xFF, 0xFF, 0x0F, 0xFF, 0xFF, 0xFF, 0x07, 1, 0, 0, 0]).was_clean());
    assert!(fat12().was_clean());
}

#[test]
fn ext2_that_kept_a_boot_sector_is_not_fat() {
    let mut head = boot16();
    head.resize(HEAD_BYTES as usize, 0);
    put16(&mut head, EXT2_MAGIC_AT, EXT2_MAGIC);
    assert!(matches!(found(&head, &[]), Probe::IsNot));
    assert!(matches!(found(&[0; 512], &[]), Probe::IsNot));
    assert!(matches!(probe(1024, &Contents::default()), Probe::IsNot));
}

/// An entry of a directory: DIR_Name's first byte, DIR_Attr, first cluster, when it was created.
fn entry(name: u8, attr: u8, cluster: u32, created: u8) -> Vec<u8> {
    let mut entry = vec![b' '; 32];
    (entry[0], entry[11], entry[13]) = (name, attr, created);
    put16(&mut entry, 20, (cluster >> 16) as u16);
    put16(&mut entry, 26, cluster as u16);
    entry
}

fn directory(entries: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = entries.concat();
    bytes.resize(2048, 0);
    bytes
}

#[test]
fn a_directory_names_the_first_clusters_of_files_and_directories() {
    let format = fat16();
    let held = directory(&[entry(b'A', 0x20, 3, 0), entry(b'B', 0x20, 9, 0), entry(b'C', 0x20, 0, 0)]);
    for kind in [Kind::Inodes, DIRECTORY] {
        assert_eq!(named(&format.pointers(41, kind, &held)), [(true, 50..51), (true, 56..57)]);
    }
    let held = directory(&[entry(b'A', 0x20, 3, 0), entry(b'D', 0x10, 4, 0)]);
    let link = |blocks, kind| Change::Linked(Link { blocks, kind });
    let expected = [link(50..51, Kind::Data), link(51..52, DIRECTORY)];
    assert_eq!(format.pointers(41, Kind::Inodes, &held), expected);
}

#[test]
fn entries_that_are_about_no_file_name_nothing() {
    let dots =
        [entry(b'.', 0x10, 3, 0), entry(0xE5, 0x20, 3, 0), entry(b'V', 0x08, 3, 0), entry(b'L', 0x0F, 3, 0)];
    let far = [entry(b'F', 0x20, 1, 0), entry(b'G', 0x20, 10_002, 0)];
    let behind = [entry(0, 0, 0, 0), entry(b'H', 0x20, 3, 0)];
    let held = directory(&[&dots[..], &far, &behind].concat());
    assert_eq!(fat16().pointers(41, Kind::Inodes, &held), []);
}

#[test]
fn a_directory_that_changes_loses_and_gains_names() {
    let mut grown = entry(b'A', 0x20, 3, 0);
    put32(&mut grown, 28, 4711);
    let again = &[(false, 50..51), (true, 50..51)];
    for (what, entries, expected) in [
        ("a deleted entry", vec![entry(0xE5, 0x20, 3, 0)], &[(false, 50..51)][..]),
        ("no entry", vec![], &[(false, 50..51)]),
        ("another name", vec![entry(b'B', 0x20, 3, 0)], again),
        ("another time of creation", vec![entry(b'A', 0x20, 3, 1)], again),
        ("another size", vec![grown], &[]),
    ] {
        let held = directory(&[entry(b'A', 0x20, 3, 0)]);
        let found = fat16().diff(41, Kind::Inodes, &held, &directory(&entries));
        assert_eq!(named(&found), expected, "{what}");
    }
}

#[test]
fn only_fat32_has_more_than_16_bits_of_a_first_cluster() {
    let held = directory(&[entry(b'A', 0x20, 0x1_0002, 0)]);
    assert_eq!(named(&fat16().pointers(41, Kind::Inodes, &held)), [(true, 49..50)]);
    assert_eq!(named(&fat32().pointers(1056, Kind::Inodes, &held[..512])), []);
    let held = directory(&[entry(b'A', 0x20, 65_497, 0)]);
    assert_eq!(
        named(&fat32().pointers(1056, Kind::Inodes, &held[..512])),
        [(true, 1056 + 65_495..1056 + 65_496)]
    );
}

#[test]
fn a_root_directory_that_begins_in_the_middle_of_a_block_is_read_from_there() {
    // 5 reserved sectors, two tables of 83: the root directory begins at sector 171,
    // the clusters at 172: blocks of 2048 bytes, the root in the last quarter of one.
    let mut boot = boot16();
    put16(&mut boot, 0x0E, 5);
    put16(&mut boot, 0x16, 83);
    put16(&mut boot, 0x11, 16);
    put16(&mut boot, 0x13, 172 + 40_000);
    let format = fat(&boot, &[0xF8, 0xFF, 0xFF, 0xFF]);
    assert_eq!((format.block_bytes(), format.kind(42), format.kind(43)), (2048, Kind::Inodes, Kind::Data));
    let table = table16(&[4; 100]);
    let held = [
        &[&table[..], &vec![0; 1536 - table.len()]].concat()[..],
        &directory(&[entry(b'A', 0x20, 2, 0)])[..512],
    ];
    assert_eq!(named(&format.pointers(42, Kind::Inodes, &held.concat())), [(true, 43..44)]);
}
