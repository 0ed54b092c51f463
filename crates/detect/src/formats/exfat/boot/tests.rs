use crate::formats::exfat::boot::*;
use crate::formats::exfat::tests::{DISK_BYTES, boot};
use crate::formats::testing::{lies_are_named, put32};

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

#[test]
fn each_field_that_lies_is_named() {
    let lies = [
        ("something where fat has its sizes", "MustBeZero", 11, 1, 2),
        ("something at the end of those", "MustBeZero", 63, 1, 1),
        ("shorter than its clusters", "VolumeLength", 72, 4, 1000),
        ("a table in the boot regions", "FatOffset", 80, 4, 23),
        ("a table too small", "FatLength", 84, 4, 7),
        ("clusters before the end of the table", "ClusterHeapOffset", 88, 4, 31),
        ("no clusters", "ClusterCount", 92, 4, 0),
        ("more clusters than there can be", "ClusterCount", 92, 4, 0xFFFF_FFFF),
        ("a root directory before the clusters", "FirstClusterOfRootDirectory", 96, 4, 1),
        ("a root directory behind the clusters", "FirstClusterOfRootDirectory", 96, 4, 1002),
        ("a revision to come", "FileSystemRevision", 105, 1, 2),
        ("sectors too small", "BytesPerSectorShift", 108, 1, 8),
        ("sectors too large", "BytesPerSectorShift", 108, 1, 13),
        ("clusters too large", "SectorsPerClusterShift", 109, 1, 17),
    ];
    lies_are_named(&boot(), |bytes| Some(read(bytes).err()?.field().into()), &lies);
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
