//! exFAT: as the bitmap and the sets say it.

use super::{Said, checked, owned, said};
use crate::exfat::{ARCHIVE, Disk, File, IN_CHAIN, IN_ONE_PIECE, filled, resum, set};
use crate::tool::check;
use crate::tree::at;
use quietus_files::{Error, Owner};
use std::collections::BTreeSet;

const CLUSTER_BYTES: u64 = 512;

/// Who has cluster `n`.
fn of(said: &Said, disk: &Disk, n: u32) -> Vec<Owner> {
    said.get(&(disk.cluster(n) / CLUSTER_BYTES)).into_iter().flatten().copied().collect()
}

/// A volume with files in a chain and in one piece, both with clusters that were never written.
fn made(name: &str) -> Disk {
    let (mut disk, _) = filled(name);
    let file = File {
        name: "unwritten",
        attributes: ARCHIVE,
        flags: IN_ONE_PIECE,
        cluster: 900,
        valid: 10,
        bytes: 1500,
    };
    disk.fill(&[900, 901, 902], false, &[]);
    disk.fill(&[910, 950, 920], true, &[]);
    disk.add_all(
        &[set(file), set(File { name: "scattered", flags: IN_CHAIN, cluster: 910, ..file })].concat(),
    );
    disk
}

#[test]
fn each_cluster_has_the_owner_whose_set_names_it() {
    let mut disk = made("owners.exfat");
    check("fsck.exfat", "owners.exfat.checked", &disk.image);
    let mut volume = disk.open();
    let said = checked(&mut *volume, &mut disk.image, CLUSTER_BYTES);
    let files = [
        ("/Größe.txt", &[200, 201, 300, 250][..]),
        ("/piece", &[400, 401, 402]),
        ("/unwritten", &[900, 901, 902]),
        ("/scattered", &[910, 950, 920]),
    ];
    let mut of_files = BTreeSet::new();
    for (path, clusters) in files {
        let file = at(&mut *volume, &mut disk.image, path);
        for n in clusters {
            assert_eq!(of(&said, &disk, *n), [Owner::File(file)], "{path}: {n}");
            of_files.insert(*n);
        }
    }
    let count = disk.image.u32(92) as u32;
    let mut used = 0;
    for n in (2..2 + count).filter(|n| !of_files.contains(n)) {
        let bits = disk.image.bytes[(disk.cluster(2) + u64::from(n - 2) / 8) as usize];
        let is_used = bits & 1 << ((n - 2) % 8) != 0;
        used += u32::from(is_used);
        let expected = if is_used { vec![Owner::System] } else { vec![] };
        assert_eq!(of(&said, &disk, n), expected, "cluster {n}");
    }
    assert!(used > 10, "the bitmap, the table and folders: {used}");
    let system = BTreeSet::from([Owner::System]);
    assert!((0..disk.cluster(2) / CLUSTER_BYTES).all(|it| said.get(&it) == Some(&system)));
    assert_eq!(said.range(disk.cluster(2 + count) / CLUSTER_BYTES..).next(), None);
}

#[test]
fn clusters_that_two_files_share_are_told_with_both_and_a_deleted_file_has_none() {
    let mut disk = made("owners.exfat.shared");
    disk.set(910, 300);
    disk.set(250, 330);
    disk.set(330, u32::MAX);
    let mut volume = disk.open();
    let said = checked(&mut *volume, &mut disk.image, CLUSTER_BYTES);
    let [one, other] = ["/Größe.txt", "/scattered"].map(|it| at(&mut *volume, &mut disk.image, it));
    let (first, both) = (Owner::File(one), vec![Owner::File(one), Owner::File(other)]);
    let cases = [(200, vec![first]), (300, both.clone()), (250, both.clone()), (330, both), (950, vec![])];
    for (n, expected) in cases {
        assert_eq!(of(&said, &disk, n), expected, "cluster {n}");
    }
    // The entries of a deleted file are not in use.
    for entry in 0..3 {
        disk.image.bytes[(one.number + entry * 32) as usize] &= 0x7F;
    }
    let said = checked(&mut *volume, &mut disk.image, CLUSTER_BYTES);
    assert_eq!((of(&said, &disk, 200), of(&said, &disk, 300)), (vec![], vec![Owner::File(other)]));
    assert_eq!(owned(&mut *volume, &mut disk.image, one, CLUSTER_BYTES), Ok(BTreeSet::new()));
}

#[test]
fn a_set_in_the_content_of_a_file_belongs_to_no_folder() {
    let mut disk = made("owners.exfat.fake");
    let place = disk.cluster(400);
    let file =
        File { name: "fake", attributes: ARCHIVE, flags: IN_ONE_PIECE, cluster: 200, valid: 9, bytes: 9 };
    disk.image.put(place, &set(file));
    let mut volume = disk.open();
    let fake = at(&mut *volume, &mut disk.image, &format!("#{place}"));
    assert_eq!(owned(&mut *volume, &mut disk.image, fake, CLUSTER_BYTES), Ok(BTreeSet::new()));
}

#[test]
fn clusters_of_entries_that_are_not_known_are_metadata() {
    let mut disk = made("owners.exfat.vendor");
    let folder = disk.cluster(500);
    let file =
        File { name: "vendor", attributes: ARCHIVE, flags: IN_CHAIN, cluster: 1000, valid: 9, bytes: 9 };
    disk.set(1000, u32::MAX);
    let allocation = |entry_type: u8, flags: u8, flags_at: usize, cluster: u32| {
        let mut entry = [0_u8; 32];
        (entry[0], entry[flags_at], entry[24]) = (entry_type, flags, 1);
        entry[20..24].copy_from_slice(&cluster.to_le_bytes());
        entry
    };
    let mut entries = set(file);
    entries.extend(allocation(0xE1, 3, 1, 1010));
    entries[1] += 1;
    resum(&mut entries);
    entries.extend(allocation(0xA5, 3, 4, 1020));
    entries.extend(allocation(0xA6, 0, 4, 1030));
    disk.image.put(folder, &[0; 512]);
    disk.image.put(folder, &entries);
    let mut volume = disk.open();
    let found = checked(&mut *volume, &mut disk.image, CLUSTER_BYTES);
    let file = at(&mut *volume, &mut disk.image, "/in one piece/vendor");
    assert_eq!(of(&found, &disk, 1000), [Owner::File(file)]);
    assert_eq!(
        (of(&found, &disk, 1010), of(&found, &disk, 1020)),
        (vec![Owner::System], vec![Owner::System])
    );
    assert_eq!(of(&found, &disk, 1030), []);
    // One that has to be known is not understood.
    let at = folder + entries.len() as u64 - 32;
    disk.image.put(at, &[0x86]);
    let text = format!("exFAT: the entry at byte {at} has the type 0x86");
    assert_eq!(said(&mut *volume, &mut disk.image, CLUSTER_BYTES), Err(Error::Unsupported(text)));
}

#[test]
fn what_a_set_cannot_have_is_an_error() {
    let file = |disk: &mut Disk| {
        let mut volume = disk.open();
        at(&mut *volume, &mut disk.image, "/Größe.txt")
    };
    for (offset, value, field) in [
        (32 + 20, 1, "FirstCluster"),
        (32 + 24, 2049, "the chain of cluster 200 ends after 2048 bytes"),
        (32 + 28, 1, "DataLength"),
        (32 + 8, 2001, "ValidDataLength"),
    ] {
        let mut disk = made("owners.exfat.fields");
        let at = file(&mut disk).number;
        let mut entries = disk.image.bytes[at as usize..][..96].to_vec();
        entries[offset..offset + 4].copy_from_slice(&u32::to_le_bytes(value));
        resum(&mut entries);
        disk.image.put(at, &entries);
        let mut volume = disk.open();
        let error = said(&mut *volume, &mut disk.image, CLUSTER_BYTES).unwrap_err();
        assert!(matches!(&error, Error::Damaged(text) if text.contains(field)), "{field}: {error}");
    }
    let mut disk = made("owners.exfat.damaged");
    let at = file(&mut disk).number as usize;
    disk.image.bytes[at + 70] ^= 1;
    let mut volume = disk.open();
    let error = said(&mut *volume, &mut disk.image, CLUSTER_BYTES).unwrap_err();
    assert!(error.to_string().starts_with("damaged: SetChecksum of the entry at byte"), "{error}");
}
