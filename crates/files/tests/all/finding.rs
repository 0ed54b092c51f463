//! Disks with partitions, made by sfdisk and by hand.

use crate::fat::{Disk, filled};
use crate::image::Image;
use crate::tool::{labelled, made};
use quietus_core::base::units::Extent;
use quietus_files::{Error, finding};

const MIB: usize = 1 << 20;

/// A disk of 64 MiB with partitions of 8 MiB from 1 MiB on, which hold these contents.
pub fn partitioned(contents: &[&[u8]]) -> Image {
    let mut image = Image::new(vec![0; 64 * MIB]);
    for (n, content) in contents.iter().enumerate() {
        let start = MIB * (1 + 8 * n);
        let mut entry = [0; 16];
        entry[4] = 0x0C;
        entry[8..12].copy_from_slice(&(start as u32 / 512).to_le_bytes());
        entry[12..].copy_from_slice(&(8 * MIB as u32 / 512).to_le_bytes());
        image.put(446 + 16 * n as u64, &entry);
        image.put(start as u64, content);
    }
    image.put(510, &[0x55, 0xAA]);
    image
}

fn floppy(name: &str) -> Vec<u8> {
    filled(name, 12).0.image.bytes
}

fn open(image: &Image, partition: Option<u32>) -> Result<(&'static str, Option<u32>), Error> {
    let mut found = finding::open(Box::new(image.clone()), partition)?;
    let root = found.volume.root();
    assert!(found.volume.find(&mut *found.source, root, b"folder").unwrap().is_some());
    Ok((found.volume.name(), found.partition))
}

#[test]
fn a_file_system_on_the_whole_disk_needs_no_table() {
    let image = Image::new(floppy("finding.whole"));
    assert_eq!(open(&image, None), Ok(("FAT12", None)));
    let error = open(&image, Some(1)).unwrap_err();
    assert!(error.to_string().starts_with("no partition 1: the"), "{error}");
}

#[test]
fn the_only_partition_with_a_file_system_is_taken() {
    let image = partitioned(&[b"LUKS\xBA\xBE", &floppy("finding.only")]);
    assert_eq!(open(&image, None), Ok(("FAT12", Some(2))));
    assert_eq!(open(&image, Some(2)), Ok(("FAT12", Some(2))));
    let text = "a LUKS container, which is not read";
    assert_eq!(open(&image, Some(1)), Err(Error::Unknown(text.into())));
    assert_eq!(
        open(&image, Some(5)),
        Err(Error::Missing("partition 5: the partition table has 1, 2".into()))
    );
}

#[test]
fn of_several_partitions_with_a_file_system_one_must_be_chosen() {
    let floppy = floppy("finding.several");
    let image = partitioned(&[&floppy, b"XFSB", &floppy]);
    let text = "several partitions have a file system; 1: 8.0 MiB, FAT12; \
                2: 8.0 MiB, xfs, which is not read; 3: 8.0 MiB, FAT12";
    assert_eq!(open(&image, None), Err(Error::Several(text.into())));
    assert_eq!(open(&image, Some(3)), Ok(("FAT12", Some(3))));
}

#[test]
fn a_disk_without_a_file_system_says_what_there_is() {
    let text = "no partition has a file system that is read; 1: 8.0 MiB, xfs, which is not read";
    assert_eq!(open(&partitioned(&[b"XFSB"]), None), Err(Error::Unknown(text.into())));
    let mut image = Image::new(vec![0; MIB]);
    image.put(0, b"hello");
    let error = open(&image, None).unwrap_err().to_string();
    assert!(
        error.starts_with("no file system that is known; the first bytes are [68, 65, 6c, 6c, 6f, 00"),
        "{error}"
    );
    assert!(matches!(open(&Image::default(), None), Err(Error::Unknown(_))));
}

#[test]
fn a_boot_sector_that_a_table_left_in_place_is_one_more_choice() {
    let mut image = partitioned(&[&floppy("finding.stale")]);
    let table = image.bytes[446..512].to_vec();
    image.put(0, &floppy("finding.stale.whole")[..MIB]);
    image.put(446, &table);
    let text = "several partitions have a file system; 0 (the whole disk): 64.0 MiB, FAT12; \
                1: 8.0 MiB, FAT12";
    assert_eq!(open(&image, None), Err(Error::Several(text.into())));
    assert_eq!(open(&image, Some(finding::WHOLE)), Ok(("FAT12", None)));
    assert_eq!(open(&image, Some(1)), Ok(("FAT12", Some(1))));
    image.put(14, &[0, 0]);
    assert_eq!(open(&image, None), Ok(("FAT12", Some(1))), "a damaged one is no choice");
}

#[test]
fn a_table_that_contradicts_itself_is_damaged() {
    let mut image = labelled("finding.broken", 64 << 10, "label: gpt\nsize=16384\n");
    image.bytes[512 + 60] ^= 1;
    let backup = image.bytes.len() - 512 + 60;
    image.bytes[backup] ^= 1;
    for partition in [None, Some(1)] {
        let error = open(&image, partition).unwrap_err().to_string();
        assert!(error.starts_with("damaged: the partition table (GPT"), "{error}");
    }
    let image = partitioned(&[b"XFSB"]);
    let mut beyond = image.clone();
    beyond.bytes.truncate(4 * MIB);
    let error = open(&beyond, Some(1)).unwrap_err();
    assert_eq!(error, Error::Damaged("partition 1: it ends beyond the disk".into()));
}

#[test]
fn a_damaged_file_system_says_so() {
    let mut disk = Disk::new("finding.damaged", 12);
    disk.image.put(14, &[0, 0]);
    let error = open(&disk.image, None).unwrap_err();
    assert!(matches!(&error, Error::Damaged(text) if text.contains("BPB_RsvdSecCnt")), "{error}");
    let error = open(&partitioned(&[&disk.image.bytes]), None).unwrap_err();
    assert!(error.to_string().contains("1: 8.0 MiB, damaged: FAT"), "{error}");
}

#[test]
fn a_gpt_of_sfdisk_is_read() {
    let mut image = labelled("finding.gpt", 64 << 10, "label: gpt\nstart=2048, size=16384\nsize=16384\n");
    image.put(MIB as u64 * 9, &floppy("finding.in.gpt"));
    assert_eq!(open(&image, None), Ok(("FAT12", Some(2))));
    let error = open(&image, Some(1)).unwrap_err().to_string();
    assert!(error.starts_with("no file system that is known; the first bytes are [00, 00"), "{error}");
}

#[test]
fn exfat_is_found_where_it_is() {
    let exfat = made("mkfs.exfat", "finding.exfat", 8 << 10, &[]);
    let found = finding::open(Box::new(partitioned(&[&exfat.bytes])), None).ok().unwrap();
    assert_eq!((found.volume.name(), found.source.bytes()), ("exFAT", 8 * MIB as u64));
    assert_eq!(found.place, Extent::new(MIB as u64, 8 * MIB as u64));
}

#[test]
fn ntfs_is_found_where_it_is() {
    let ntfs = made("mkntfs", "finding.ntfs", 8 << 10, &["-F", "-Q", "-q"]);
    let found = finding::open(Box::new(partitioned(&[&ntfs.bytes])), None).ok().unwrap();
    assert_eq!((found.volume.name(), found.partition), ("NTFS", Some(1)));
}
