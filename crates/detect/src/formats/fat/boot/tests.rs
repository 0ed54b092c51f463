use crate::formats::fat::boot::*;
use crate::formats::fat::tests::{boot16, boot32};
use crate::formats::testing::{lies_are_named, put16, put32};

const DISK_BYTES: u64 = 64 << 20;

fn read(bytes: &[u8]) -> Result<Boot, Reason> {
    Boot::from_bytes(bytes, DISK_BYTES)
}

#[test]
fn other_sectors_are_no_boot_sectors() {
    let lies = [
        ("a sector that does not jump is no boot sector", "", 0, 1, 0x33),
        ("a short jump goes over a nop", "", 2, 1, 0x91),
        ("a sector without the signature is no boot sector", "", 510, 2, 0x55AA),
        ("sectors of no bytes", "", 0x0B, 2, 0),
        ("sectors too small", "", 0x0B, 2, 256),
        ("sectors of an odd size", "", 0x0B, 2, 768),
        ("sectors too large", "", 0x0B, 2, 8192),
        ("clusters of no sectors", "", 0x0D, 1, 0),
        ("clusters of an odd size", "", 0x0D, 1, 3),
        ("no tables", "", 0x10, 1, 0),
        ("too many tables", "", 0x10, 1, 5),
        ("no medium", "", 0x15, 1, 0),
        ("an unknown medium", "", 0x15, 1, 0xF7),
    ];
    lies_are_named(&boot16(), |bytes| (!is_boot(bytes)).then(String::new), &lies);
}

#[test]
fn ntfs_is_told_by_its_whole_name() {
    let mut bytes = boot16();
    bytes[3..11].copy_from_slice(b"NTFS    ");
    assert!(!is_boot(&bytes));
    bytes[3..11].copy_from_slice(b"NTFSnote");
    assert!(is_boot(&bytes));
    bytes[3..11].copy_from_slice(b"EXFAT   ");
    assert!(!is_boot(&bytes));
}

#[test]
fn each_field_that_lies_is_named() {
    let of_16 = [
        ("no reserved sectors", "BPB_RsvdSecCnt", 0x0E, 2, 0),
        ("more reserved sectors than there are", "BPB_TotSec", 0x0E, 2, 65535),
        ("no root directory", "BPB_RootEntCnt", 0x11, 2, 0),
        ("a root directory of half a sector", "BPB_RootEntCnt", 0x11, 2, 520),
        ("no sectors", "BPB_TotSec", 0x13, 2, 0),
        ("fewer sectors than metadata", "BPB_TotSec", 0x13, 2, 180),
        ("not one cluster", "BPB_TotSec", 0x13, 2, 199),
        ("a table too small", "BPB_FATSz", 0x16, 2, 4),
    ];
    let of_32 = [
        ("no table", "BPB_FATSz", 0x24, 4, 0),
        ("a table too small for the clusters", "BPB_FATSz", 0x24, 4, 8),
        ("a fixed root directory in fat32", "BPB_RootEntCnt", 0x11, 2, 512),
        ("a version to come", "BPB_FSVer", 0x2A, 2, 1),
        ("a root directory before the clusters", "BPB_RootClus", 0x2C, 4, 1),
        ("a root directory behind the clusters", "BPB_RootClus", 0x2C, 4, 65_498),
    ];
    let refused = |bytes: &[u8]| Some(read(bytes).err()?.field().to_string());
    lies_are_named(&boot16(), refused, &of_16);
    lies_are_named(&boot32(), refused, &of_32);
}

#[test]
fn the_last_cluster_may_be_the_root_directory() {
    let mut bytes = boot32();
    assert_eq!(read(&bytes).unwrap().clusters(), 65_496);
    put32(&mut bytes, 0x2C, 65_497);
    assert!(read(&bytes).is_ok());
}

#[test]
fn a_file_system_beyond_the_disk_is_refused() {
    let bytes = boot32();
    let all = read(&bytes).unwrap().bytes();
    assert!(Boot::from_bytes(&bytes, all).is_ok());
    assert!(Boot::from_bytes(&bytes, all - 1).unwrap_err().0.contains("beyond the disk"));
}

#[test]
fn a_second_table_in_force_is_refused() {
    let mut bytes = boot32();
    put16(&mut bytes, 0x28, NOT_MIRRORED);
    assert!(read(&bytes).is_ok());
    put16(&mut bytes, 0x28, NOT_MIRRORED | 1);
    assert!(read(&bytes).unwrap_err().0.contains("in force"));
    put16(&mut bytes, 0x28, 1);
    assert!(read(&bytes).is_ok(), "all tables are written");
}

/// [`boot16`] with so many clusters.
fn with_clusters(clusters: u32) -> Result<Boot, Reason> {
    let mut bytes = boot16();
    bytes[0x0D] = 1;
    put16(&mut bytes, 0x16, 256);
    put16(&mut bytes, 0x13, 0);
    put32(&mut bytes, 0x20, 4 + 2 * 256 + 32 + clusters);
    read(&bytes)
}

#[test]
fn the_number_of_clusters_decides_the_width() {
    let width = |clusters| with_clusters(clusters).map(|it| it.width);
    assert_eq!(width(1), Ok(Width::Fat12));
    assert_eq!(width(4084), Ok(Width::Fat12));
    assert_eq!(width(4085), Ok(Width::Fat16));
    assert_eq!(width(65_524), Ok(Width::Fat16));
    assert!(width(65_525).unwrap_err().0.contains("BPB_TotSec"));
}

#[test]
fn blocks_are_as_large_as_clusters_and_their_places_allow() {
    let block = |change: &dyn Fn(&mut [u8])| {
        let mut bytes = boot16();
        change(&mut bytes);
        read(&bytes).unwrap().block_bytes()
    };
    assert_eq!(block(&|_| {}), 2048);
    assert_eq!(block(&|bytes| bytes[0x0D] = 2), 1024);
    // 199 sectors before the first cluster.
    assert_eq!(block(&|bytes| put16(bytes, 0x0E, 3)), 512);
    // The table begins in the second sector, and so would be in the first block.
    assert_eq!(
        block(&|bytes| {
            put16(bytes, 0x0E, 1);
            put16(bytes, 0x11, 560);
        }),
        512
    );
    assert_eq!(read(&boot32()).unwrap().block_bytes(), 512);
}

#[test]
fn with_one_table_the_root_directory_has_a_block_of_its_own() {
    let mut bytes = boot16();
    // 4 + 82 + 32 = 118 sectors: an odd number of blocks of 1 KiB.
    bytes[0x10] = 1;
    put16(&mut bytes, 0x16, 81);
    put16(&mut bytes, 0x11, 16 * 31);
    bytes[0x0D] = 4;
    let found = read(&bytes).unwrap();
    assert_eq!((found.fat(), found.root()), (2048..43520, 43520..59392));
    assert_eq!(found.heap() % 2048, 0);
    assert_eq!(found.block_bytes(), 512, "in a block of 1 KiB both would meet");
}

#[test]
fn the_state_is_where_linux_has_it() {
    let (mut sixteen, mut thirty_two) = (boot16(), boot32());
    assert!(!read(&sixteen).unwrap().is_dirty && !read(&thirty_two).unwrap().is_dirty);
    (sixteen[0x25], thirty_two[0x41]) = (1, 1);
    assert!(read(&sixteen).unwrap().is_dirty && read(&thirty_two).unwrap().is_dirty);
    (sixteen[0x25], thirty_two[0x41]) = (2, 2);
    assert!(!read(&sixteen).unwrap().is_dirty && !read(&thirty_two).unwrap().is_dirty);
}

#[test]
fn another_id_or_place_is_another_file_system() {
    let known = read(&boot32()).unwrap();
    for (at, value) in [(0x43, 7), (0x0E, 36), (0x2C, 9)] {
        let mut bytes = boot32();
        put16(&mut bytes, at, value);
        assert!(!known.is_same(&read(&bytes).unwrap()), "{at}");
    }
    let mut mounted = boot32();
    mounted[0x41] = 1;
    assert!(known.is_same(&read(&mounted).unwrap()));
}
