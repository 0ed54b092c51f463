use crate::formats::exfat::boot::*;
use crate::formats::exfat::tests::{DISK_BYTES, boot};
use crate::formats::testing::{put8, put32};

fn read(bytes: &[u8]) -> Result<Boot, Reason> {
    Boot::from_bytes(bytes, DISK_BYTES)
}

#[test]
fn a_boot_sector_says_so_three_times() {
    assert!(is_boot(&boot()));
    for at in [0, 1, 2, 3, 7, 10, 510, 511] {
        let mut bytes = boot();
        bytes[at] ^= 1;
        assert!(!is_boot(&bytes), "byte {at}");
    }
}

macro_rules! lies {
    ($($name:ident: $field:literal, $put:ident $at:literal $value:expr;)*) => {
        $(#[test]
        fn $name() {
            let mut bytes = boot();
            assert!(read(&bytes).is_ok());
            $put(&mut bytes, $at, $value);
            assert_eq!(read(&bytes).unwrap_err().field(), $field);
        })*
    };
}

lies! {
    something_where_fat_has_its_sizes: "MustBeZero", put8 11 2;
    something_at_the_end_of_those: "MustBeZero", put8 63 1;
    shorter_than_its_clusters: "VolumeLength", put32 72 1000;
    a_table_in_the_boot_regions: "FatOffset", put32 80 23;
    a_table_too_small: "FatLength", put32 84 7;
    clusters_before_the_end_of_the_table: "ClusterHeapOffset", put32 88 31;
    no_clusters: "ClusterCount", put32 92 0;
    more_clusters_than_there_can_be: "ClusterCount", put32 92 u32::MAX;
    a_root_directory_before_the_clusters: "FirstClusterOfRootDirectory", put32 96 1;
    a_root_directory_behind_the_clusters: "FirstClusterOfRootDirectory", put32 96 1002;
    a_revision_to_come: "FileSystemRevision", put8 105 2;
    sectors_too_small: "BytesPerSectorShift", put8 108 8;
    sectors_too_large: "BytesPerSectorShift", put8 108 13;
    clusters_too_large: "SectorsPerClusterShift", put8 109 17;
}

#[test]
fn two_bitmaps_are_refused() {
    for (at, value) in [(110, 2), (110, 0), (106, 1)] {
        let mut bytes = boot();
        bytes[at] = value;
        assert!(read(&bytes).unwrap_err().0.contains("TexFAT"));
    }
}

#[test]
fn a_file_system_beyond_the_disk_is_refused() {
    let bytes = boot();
    assert!(Boot::from_bytes(&bytes, 2064 * 512).is_ok());
    assert!(Boot::from_bytes(&bytes, 2064 * 512 - 1).unwrap_err().0.contains("beyond the disk"));
    let mut endless = boot();
    put32(&mut endless, 76, u32::MAX);
    assert!(read(&endless).unwrap_err().0.contains("beyond the disk"));
}

#[test]
fn the_flags_and_the_percentage_are_of_no_file_system() {
    let (old, mut new) = (boot(), boot());
    for at in [106, 107, 112] {
        new[at] ^= 4;
    }
    assert!(is_only_state(&old, &new));
    assert_eq!(checksum(&old), checksum(&new));
    new[100] ^= 1;
    assert!(!is_only_state(&old, &new));
    assert_ne!(checksum(&old), checksum(&new));
    assert!(!read(&old).unwrap().is_same(&read(&new).unwrap()));
}

#[test]
fn blocks_are_as_large_as_the_place_of_the_clusters_allows() {
    let block = |heap: u32| {
        let mut bytes = boot();
        put32(&mut bytes, 88, heap);
        put32(&mut bytes, 92, 900);
        read(&bytes).unwrap().block_bytes()
    };
    assert_eq!([64, 66, 65].map(block), [1024, 1024, 512]);
}
