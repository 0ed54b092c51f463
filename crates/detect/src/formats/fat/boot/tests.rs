use crate::formats::fat::boot::*;
use crate::formats::fat::tests::{boot16, boot32};
use crate::formats::testing::{put8, put16, put32};

const DISK_BYTES: u64 = 64 << 20;

fn read(bytes: &[u8]) -> Result<Boot, Reason> {
    Boot::from_bytes(bytes, DISK_BYTES)
}

macro_rules! is_none {
    ($($name:ident: $put:ident $at:literal $value:expr;)*) => {
        $(#[test]
        fn $name() {
            let mut bytes = boot16();
            assert!(is_boot(&bytes));
            $put(&mut bytes, $at, $value);
            assert!(!is_boot(&bytes));
        })*
    };
}

is_none! {
    a_sector_that_does_not_jump_is_no_boot_sector: put8 0 0x33;
    a_short_jump_goes_over_a_nop: put8 2 0x91;
    a_sector_without_the_signature_is_no_boot_sector: put16 510 0x55AA;
    sectors_of_no_bytes: put16 0x0B 0;
    sectors_too_small: put16 0x0B 256;
    sectors_of_an_odd_size: put16 0x0B 768;
    sectors_too_large: put16 0x0B 8192;
    clusters_of_no_sectors: put8 0x0D 0;
    clusters_of_an_odd_size: put8 0x0D 3;
    no_tables: put8 0x10 0;
    too_many_tables: put8 0x10 5;
    no_medium: put8 0x15 0;
    an_unknown_medium: put8 0x15 0xF7;
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

macro_rules! lies {
    ($($name:ident: $field:literal, $boot:ident $put:ident $at:literal $value:expr;)*) => {
        $(#[test]
        fn $name() {
            let mut bytes = $boot();
            assert!(read(&bytes).is_ok());
            $put(&mut bytes, $at, $value);
            assert_eq!(read(&bytes).unwrap_err().field(), $field);
        })*
    };
}

lies! {
    no_reserved_sectors: "BPB_RsvdSecCnt", boot16 put16 0x0E 0;
    more_reserved_sectors_than_there_are: "BPB_TotSec", boot16 put16 0x0E 65535;
    no_root_directory: "BPB_RootEntCnt", boot16 put16 0x11 0;
    a_root_directory_of_half_a_sector: "BPB_RootEntCnt", boot16 put16 0x11 520;
    no_sectors: "BPB_TotSec", boot16 put16 0x13 0;
    fewer_sectors_than_metadata: "BPB_TotSec", boot16 put16 0x13 180;
    not_one_cluster: "BPB_TotSec", boot16 put16 0x13 199;
    a_table_too_small: "BPB_FATSz", boot16 put16 0x16 4;
    no_table: "BPB_FATSz", boot32 put32 0x24 0;
    a_table_too_small_for_the_clusters: "BPB_FATSz", boot32 put32 0x24 8;
    a_fixed_root_directory_in_fat32: "BPB_RootEntCnt", boot32 put16 0x11 512;
    a_version_to_come: "BPB_FSVer", boot32 put16 0x2A 1;
    a_root_directory_before_the_clusters: "BPB_RootClus", boot32 put32 0x2C 1;
    a_root_directory_behind_the_clusters: "BPB_RootClus", boot32 put32 0x2C 65_498;
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
