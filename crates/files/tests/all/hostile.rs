//! Volumes and tables in which single bytes were changed: no panic, and no more reads than a folder's or a request's share.

use crate::finding::partitioned;
use crate::image::{Dice, Image};
use crate::tree::ask_everything;
use crate::{exfat, fat, ntfs};
use quietus_files::{Error, Source, Volume, finding};
use std::ops::Range;

const FLIPS: u64 = 3000;
/// Most bytes read for one volume of at most 1000 files: each question to one of them reads a few entries, and up to 20,000 bytes.
const READ_BYTES_MAX: u64 = 1 << 30;

type Reader = fn(&mut dyn Source) -> Result<Box<dyn Volume>, Error>;

/// Opens `image` with one to four other bytes in `places`, and asks everything. Returns how many volumes could be opened.
fn flip(image: &mut Image, reader: Reader, places: &[Range<u64>], seed: u64) -> u64 {
    let mut dice = Dice(seed);
    let mut opened = 0;
    for _ in 0..FLIPS {
        let mut whole = Vec::new();
        for _ in 0..=dice.below(4) {
            let place = &places[dice.below(places.len() as u64) as usize];
            let at = place.start + dice.below(place.end - place.start);
            whole.push((at as usize, image.bytes[at as usize]));
            image.bytes[at as usize] = dice.below(256) as u8;
        }
        image.read_bytes = 0;
        if let Ok(mut volume) = reader(image) {
            opened += 1;
            ask_everything(&mut *volume, image);
        }
        assert!(image.read_bytes < READ_BYTES_MAX, "{}", image.read_bytes);
        whole.into_iter().rev().for_each(|(at, byte)| image.bytes[at] = byte);
    }
    opened
}

#[test]
fn other_bytes_in_a_volume_of_fat_cause_no_panic() {
    for bits in [12, 16, 32] {
        let (mut disk, _) = fat::filled(&format!("fat{bits}.flipped"), bits);
        let (root, folder, table) = (disk.root(), disk.cluster(40), disk.image.u16(14) * 512);
        let places = [0..64, table..table + 90, root..root + 192, folder..folder + 192];
        let opened = flip(&mut disk.image, quietus_files::fat::open, &places, bits);
        assert!(opened > FLIPS / 3, "{opened}");
    }
}

#[test]
fn other_bytes_in_a_volume_of_exfat_cause_no_panic() {
    let (mut disk, _) = exfat::filled("exfat.flipped");
    let (root, table) = (disk.root(), disk.table());
    let folders = [500, 501, 600, 700, 800].map(|it| disk.cluster(it));
    let mut places = vec![0..8, root..root + 512, table + 160 * 4..table + 800 * 4];
    places.extend(folders.map(|it| it..it + 512));
    let opened = flip(&mut disk.image, quietus_files::exfat::open, &places, 1);
    assert!(opened > FLIPS / 3, "{opened}");
}

#[test]
fn other_bytes_in_a_volume_of_ntfs_cause_no_panic() {
    let (mut image, _) = ntfs::filled("ntfs.flipped", 8, "4096", "512");
    let mut places = ntfs::metadata(&image, 100);
    places.push(0..80);
    // The records that all others depend on.
    places.extend([0, 5, 10].map(|n| places[n].clone()));
    let opened = flip(&mut image, quietus_files::ntfs::open, &places, 1);
    assert!(opened > FLIPS / 3, "{opened}");
}

#[test]
fn other_bytes_in_files_of_several_records_cause_no_panic() {
    let (mut image, file, _) = ntfs::records::split_large("ntfs.flipped.split");
    let places = [file.number, ntfs::records::EXTENSION].map(|n| ntfs::record(&image, n));
    let opened = flip(&mut image, quietus_files::ntfs::open, &places, 2);
    assert_eq!(opened, FLIPS);
}

#[test]
fn other_bytes_in_files_that_a_mount_made_cause_no_panic() {
    let name = "ntfs.flipped.mounted";
    let Some(mut image) = ntfs::mounted::mounted(name, "4096", ntfs::mounted::fill_all) else { return };
    // Files begin with record 64.
    let records = ntfs::metadata(&image, 90).into_iter().skip(64);
    let places: Vec<_> = records.chain(ntfs::mounted::lists(&image)).collect();
    let opened = flip(&mut image, quietus_files::ntfs::open, &places, 3);
    assert!(opened > FLIPS / 3, "{opened}");
}

#[test]
fn other_bytes_in_a_partition_table_cause_no_panic() {
    let mut image = partitioned(&[&fat::filled("table.flipped", 12).0.image.bytes]);
    image.bytes.truncate(9 << 20);
    let (mut dice, mut opened) = (Dice(5), 0);
    for _ in 0..500 {
        let mut image = image.clone();
        for _ in 0..=dice.below(3) {
            image.bytes[446 + dice.below(66) as usize] = dice.below(256) as u8;
        }
        opened += u32::from(finding::open(Box::new(image), None).is_ok());
    }
    assert!(opened > 50, "{opened}");
}
