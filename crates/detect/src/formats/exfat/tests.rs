//! A small file system made by hand: sectors of 512 bytes, a table in sectors 24
//! to 31, and from sector 64 on 1,000 clusters of 2 sectors. The bitmap is in
//! cluster 2, the root directory begins in cluster 4.

use crate::formats::exfat::boot::checksum;
use crate::formats::exfat::*;
use crate::formats::testing::{probed, put32};

pub(super) const DISK_BYTES: u64 = 2 << 20;
/// The block, of 1 KiB, of the first cluster.
const HEAP: Block = 32;

pub(super) fn boot() -> Vec<u8> {
    let mut bytes = vec![0; 512];
    bytes[..11].copy_from_slice(b"\xEB\x76\x90EXFAT   ");
    let words = [(72, 2064), (80, 24), (84, 8), (88, 64), (92, 1000), (96, 4), (100, 0x1234_5678)];
    words.into_iter().for_each(|(at, value)| put32(&mut bytes, at, value));
    (bytes[105], bytes[108], bytes[109], bytes[110]) = (1, 9, 1, 1);
    bytes[510..].copy_from_slice(&[0x55, 0xAA]);
    bytes
}

/// A disk of `boot`, with its checksum.
fn disk(boot: &[u8]) -> Vec<u8> {
    let mut disk = vec![0; DISK_BYTES as usize];
    disk[..512].copy_from_slice(boot);
    let sum = checksum(&disk[..11 * 512]);
    (0..128).for_each(|n| put32(&mut disk, 11 * 512 + n * 4, sum));
    let table = [0xFFFF_FFF8, u32::MAX, u32::MAX, u32::MAX, u32::MAX];
    table.into_iter().enumerate().for_each(|(n, entry)| put32(&mut disk, 24 * 512 + n * 4, entry));
    let root = (64 + 2 * 2) * 512;
    disk[root] = 0x83;
    disk[root + 32] = 0x81;
    put32(&mut disk, root + 32 + 20, 2);
    put32(&mut disk, root + 32 + 24, 125);
    disk
}

fn exfat() -> Box<dyn Format> {
    found(&disk(&boot())).found()
}

fn found(disk: &[u8]) -> Probe {
    probed(probe, disk.len() as u64, disk)
}

#[test]
fn the_places_are_those_of_the_specification() {
    let format = exfat();
    assert_eq!((format.name(), format.block_bytes(), format.blocks()), ("exfat", 1024, HEAP + 1000));
    let kinds = [0, 1, HEAP - 1, HEAP, HEAP + 1].map(|it| format.kind(it));
    assert_eq!(kinds, [Kind::Geometry, Kind::Fixed, Kind::Fixed, Kind::Map, Kind::Data]);
    assert!(format.was_clean() && format.map_needs_rest() && !format.map_is_final());
    assert_eq!(format.hidden(), ["content beyond the valid data length of a file"]);
}

fn shown(at: u64, bytes: &[u8]) -> Result<Vec<(Range<Block>, bool)>, Reason> {
    let shown = exfat().map(Extent::new(at, bytes.len() as u64), bytes)?;
    Ok(shown.into_iter().map(|it| (it.blocks, it.allocated)).collect())
}

#[test]
fn the_bitmap_shows_each_cluster_once() {
    let mut bitmap = vec![0; 1024];
    bitmap[..2].copy_from_slice(&[0b0000_1111, 0b1000_0000]);
    let runs = [(0..4, true), (4..15, false), (15..16, true), (16..1000, false)];
    let runs: Vec<_> = runs.into_iter().map(|(it, is)| (HEAP + it.start..HEAP + it.end, is)).collect();
    assert_eq!(shown(32 * 1024, &bitmap), Ok(runs));
}

#[test]
fn a_part_of_the_bitmap_shows_its_own_clusters() {
    let at = 32 * 1024 + 2;
    assert_eq!(shown(at, &[0xFF]), Ok(Vec::from([(HEAP + 16..HEAP + 24, true)])));
    assert_eq!(shown(32 * 1024 + 124, &[0; 900]), Ok(Vec::from([(HEAP + 992..HEAP + 1000, false)])));
    assert_eq!(shown(32 * 1024 + 512, &[0; 512]), Ok(Vec::new()));
}

#[test]
fn a_bitmap_that_has_itself_or_the_root_directory_free_is_none() {
    for free in [0b1111_1110, 0b1111_1011] {
        assert!(shown(32 * 1024, &[free]).unwrap_err().0.contains("metadata as free"));
    }
    assert!(shown(32 * 1024, &[0b0000_0101]).is_ok());
}

#[test]
fn it_becomes_and_ceases_to_be_consistent() {
    let (clean, mut dirty) = (boot(), boot());
    dirty[106] = 2;
    let format = exfat();
    let change = |old: &[u8], new: &[u8]| {
        let whole = |bytes: &[u8]| [bytes, &[0; 512]].concat();
        format.geometry(0, &whole(old), &whole(new))
    };
    assert_eq!(change(&clean, &dirty), Geometry::InUse);
    assert_eq!(change(&dirty, &clean), Geometry::Unmounted);
    assert_eq!(change(&clean, &clean), Geometry::Same);
    let mut mended = boot();
    mended[200] = 1;
    assert_eq!(change(&dirty, &mended), Geometry::Clean);
    let mut failed = boot();
    failed[106] = 4;
    assert_eq!(change(&dirty, &failed), Geometry::Same);
    let mut other = boot();
    other[100] = 1;
    assert_eq!(change(&clean, &other), Geometry::Changed);
    assert_eq!(change(&clean, &[0; 512]), Geometry::Changed);
}

#[test]
fn what_lies_behind_the_boot_sector_is_checked() {
    let entry = (64 + 2 * 2) * 512 + 32;
    for (what, at, value, why) in [
        ("a wrong checksum", 11 * 512 + 300, 0, "checksum"),
        ("no bitmap", entry, 0x82, "names no bitmap"),
        ("a bitmap before the clusters", entry + 20, 0, "bitmap is invalid"),
        ("a bitmap behind the clusters", entry + 20, 1002, "bitmap is invalid"),
        ("a bitmap that is too short", entry + 24, 124, "bitmap is invalid"),
        ("a bitmap of nothing", entry + 24, 0, "bitmap is invalid"),
        ("a bitmap of 4 GiB", entry + 28, 1, "bitmap is invalid"),
        ("a bitmap in pieces", 24 * 512 + 8, 7, "one piece"),
    ] {
        let mut disk = disk(&boot());
        put32(&mut disk, at, value);
        assert!(found(&disk).refusal().contains(why), "{what}");
    }
}

#[test]
fn what_is_no_exfat_is_none() {
    assert!(matches!(found(&vec![0; 4096]), Probe::IsNot));
    assert!(matches!(probe(511, &Contents::default()), Probe::IsNot));
}
