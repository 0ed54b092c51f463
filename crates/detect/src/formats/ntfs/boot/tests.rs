use crate::formats::ntfs::boot::*;
use crate::formats::ntfs::tests::{DISK_BYTES, boot, put};

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

macro_rules! lies {
    ($($name:ident: $field:literal, $at:literal $value:expr;)*) => {
        $(#[test]
        fn $name() {
            let mut bytes = boot();
            assert!(read(&bytes).is_ok());
            put(&mut bytes, $at, &$value);
            assert_eq!(read(&bytes).unwrap_err().field(), $field);
        })*
    };
}

lies! {
    sectors_of_no_power_of_two: "bytes_per_sector", 0x0B 513_u16.to_le_bytes();
    sectors_too_small: "bytes_per_sector", 0x0B 256_u16.to_le_bytes();
    sectors_too_large: "bytes_per_sector", 0x0B 8192_u16.to_le_bytes();
    clusters_of_no_sectors: "sectors_per_cluster", 0x0D [0];
    clusters_of_no_power_of_two: "sectors_per_cluster", 0x0D [3];
    clusters_of_a_number_that_is_neither: "sectors_per_cluster", 0x0D [0x81];
    clusters_too_large: "sectors_per_cluster", 0x0D [0xF3];
    reserved_sectors: "reserved_sectors", 0x0E [1];
    tables_of_a_fat: "fats", 0x10 [2];
    a_root_directory_of_a_fat: "root_entries", 0x11 [1];
    sectors_of_a_fat: "sectors", 0x13 [1];
    sectors_in_a_table_of_a_fat: "sectors_per_fat", 0x16 [1];
    sectors_of_a_large_fat: "large_sectors", 0x20 [1];
    a_table_behind_the_end: "mft_lcn", 0x30 64_u64.to_le_bytes();
    a_table_on_the_boot_sector: "mft_lcn", 0x30 0_u64.to_le_bytes();
    a_mirror_behind_the_end: "mftmirr_lcn", 0x38 u64::MAX.to_le_bytes();
    a_mirror_on_the_table: "mftmirr_lcn", 0x38 4_u64.to_le_bytes();
    records_of_no_clusters: "clusters_per_mft_record", 0x40 [0];
    records_too_small: "clusters_per_mft_record", 0x40 [0xF8];
    records_too_large: "clusters_per_mft_record", 0x40 [2];
    records_larger_than_any_number: "clusters_per_mft_record", 0x40 [0x80];
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
    assert!(read(&bytes).unwrap_err().0.contains("clusters of 512 bytes"));
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
    put(&mut bytes, 0x28, &(1_u64 << 40).to_le_bytes()[..0]);
    put(&mut bytes, 0x28, &(1_u64 << 30).to_le_bytes());
    bytes[0x0D] = 0xF4;
    assert_eq!(sizes(&bytes), (2 << 20, 1024, 4096));
    bytes[0x0D] = 0xF8;
    assert_eq!(sizes(&bytes), (128 << 10, 1024, 4096));
    bytes[0x0D] = 2;
    assert_eq!(sizes(&bytes), (1024, 1024, 1024));
}
