use crate::formats::ntfs::boot::*;
use crate::formats::ntfs::tests::{DISK_BYTES, boot, put};
use crate::formats::testing::lies_are_named;

fn read(bytes: &[u8]) -> Result<Boot, Reason> {
    Boot::from_bytes(bytes, DISK_BYTES)
}

#[test]
fn a_boot_sector_says_so_twice() {
    assert!(is_boot(&boot()));
    for at in [3, 7, 10, 510, 511] {
        let mut bytes = boot();
        bytes[at] ^= 1;
        assert!(!is_boot(&bytes), "byte {at}");
    }
}

#[test]
fn each_field_that_lies_is_named() {
    let lies = [
        ("sectors of no power of two", "bytes_per_sector", 0x0B, 2, 513),
        ("sectors too small", "bytes_per_sector", 0x0B, 2, 256),
        ("sectors too large", "bytes_per_sector", 0x0B, 2, 8192),
        ("clusters of no sectors", "sectors_per_cluster", 0x0D, 1, 0),
        ("clusters of no power of two", "sectors_per_cluster", 0x0D, 1, 3),
        ("clusters of a number that is neither", "sectors_per_cluster", 0x0D, 1, 0x81),
        ("clusters too large", "sectors_per_cluster", 0x0D, 1, 0xF3),
        ("reserved sectors", "reserved_sectors", 0x0E, 1, 1),
        ("tables of a fat", "fats", 0x10, 1, 2),
        ("a root directory of a fat", "root_entries", 0x11, 1, 1),
        ("sectors of a fat", "sectors", 0x13, 1, 1),
        ("sectors in a table of a fat", "sectors_per_fat", 0x16, 1, 1),
        ("sectors of a large fat", "large_sectors", 0x20, 1, 1),
        ("a table behind the end", "mft_lcn", 0x30, 8, 64),
        ("a table on the boot sector", "mft_lcn", 0x30, 8, 0),
        ("a mirror behind the end", "mftmirr_lcn", 0x38, 8, u64::MAX),
        ("a mirror on the table", "mftmirr_lcn", 0x38, 8, 4),
        ("records of no clusters", "clusters_per_mft_record", 0x40, 1, 0),
        ("records too small", "clusters_per_mft_record", 0x40, 1, 0xF8),
        ("records too large", "clusters_per_mft_record", 0x40, 1, 2),
        ("records larger than any number", "clusters_per_mft_record", 0x40, 1, 0x80),
    ];
    lies_are_named(&boot(), |bytes| Some(read(bytes).err()?.field().into()), &lies);
}

#[test]
fn more_sectors_than_the_disk_has_are_refused() {
    let mut bytes = boot();
    put(&mut bytes, 0x28, &(DISK_BYTES / 512 + 1).to_le_bytes());
    assert!(read(&bytes).unwrap_err().0.contains("beyond the disk"));
}

#[test]
fn clusters_smaller_than_a_record_are_refused_by_name() {
    let mut bytes = boot();
    bytes[0x0D] = 1;
    assert!(read(&bytes).unwrap().check_blocks().unwrap_err().0.contains("clusters of 512 bytes"));
}

#[test]
fn sizes_are_numbers_or_powers_of_two() {
    let mut bytes = boot();
    let sizes = |bytes: &[u8]| {
        let boot = Boot::from_bytes(bytes, u64::MAX).unwrap();
        (boot.cluster_bytes, boot.record_bytes, boot.block_bytes())
    };
    assert_eq!(sizes(&bytes), (4096, 1024, 4096));
    bytes[0x40] = 1;
    assert_eq!(sizes(&bytes), (4096, 4096, 4096));
    bytes[0x40] = 0xF6;
    put(&mut bytes, 0x28, &(1_u64 << 30).to_le_bytes());
    bytes[0x0D] = 0xF4;
    assert_eq!(sizes(&bytes), (2 << 20, 1024, 4096));
    bytes[0x0D] = 0xF8;
    assert_eq!(sizes(&bytes), (128 << 10, 1024, 4096));
    bytes[0x0D] = 2;
    assert_eq!(sizes(&bytes), (1024, 1024, 1024));
}
