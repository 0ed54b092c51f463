//! FAT: clusters of chance, which fsck.fat finds without a fault.

use super::{Said, checked, owned, said};
use crate::fat::{Disk, FOLDER, filled, short};
use crate::image::Dice;
use crate::tool::check;
use crate::tree::at;
use quietus_files::{Error, FileId, Owner};
use std::collections::{BTreeMap, BTreeSet};

const ARCHIVE: u8 = 0x20;
const SECTOR_BYTES: u64 = 512;

/// A volume that is filled by chance, and who has its clusters.
struct Scattered {
    disk: Disk,
    dice: Dice,
    /// Clusters that are not used yet.
    free: Vec<u64>,
    truth: BTreeMap<u64, Owner>,
    names: u32,
}

impl Scattered {
    fn new(name: &str, bits: u64) -> Self {
        let (disk, mut dice) = (Disk::new(name, bits), Dice(bits));
        let mut free: Vec<u64> = (3..1500).collect();
        (1..free.len()).rev().for_each(|n| free.swap(n, dice.below(n as u64 + 1) as usize));
        // Some lie together.
        free[..300].sort_unstable();
        Self { disk, dice, free, truth: BTreeMap::new(), names: 0 }
    }

    fn take(&mut self, count: u64) -> Vec<u64> {
        (0..count).map(|_| self.free.pop().unwrap()).collect()
    }

    fn name(&mut self) -> [u8; 11] {
        self.names += 1;
        format!("N{:<10}", self.names).as_bytes().try_into().unwrap()
    }

    /// Makes a file, and gives its entry, which is to lie at `at`.
    fn file(&mut self, at: u64) -> Vec<u8> {
        let bytes = self.dice.below(4 * self.disk.cluster_bytes());
        let clusters = self.take(bytes.div_ceil(self.disk.cluster_bytes()));
        if !clusters.is_empty() {
            self.disk.chain(&clusters);
        }
        let owner = Owner::File(FileId { number: at, generation: 0 });
        self.truth.extend(clusters.iter().map(|it| (*it, owner)));
        short(&self.name(), ARCHIVE, clusters.first().copied().unwrap_or(0), bytes as u32)
    }

    /// Makes a folder with others below it, and gives its entry.
    fn folder(&mut self, parent: u64, depth: u64) -> Vec<u8> {
        let in_cluster = self.disk.cluster_bytes() / 32;
        let count = 5 + self.dice.below(20);
        // The last cluster is perhaps not used.
        let extra = self.dice.below(2);
        let clusters = self.take((2 + count).div_ceil(in_cluster) + extra);
        let own = clusters[0];
        let empty = vec![0; clusters.len() * self.disk.cluster_bytes() as usize];
        self.disk.fill(&clusters, &empty);
        self.truth.extend(clusters.iter().map(|it| (*it, Owner::System)));
        let place =
            |disk: &Disk, n: u64| disk.cluster(clusters[(n / in_cluster) as usize]) + n % in_cluster * 32;
        let dots = [short(b".          ", FOLDER, own, 0), short(b"..         ", FOLDER, parent, 0)];
        self.disk.image.put(place(&self.disk, 0), &dots.concat());
        for n in 2..2 + count {
            let at = place(&self.disk, n);
            let entry = self.entry(at, own, depth);
            self.disk.image.put(at, &entry);
        }
        short(&self.name(), FOLDER, own, 0)
    }

    /// Makes something whose entry is to lie at `at`: a file, a folder, or one of these that is deleted.
    fn entry(&mut self, at: u64, parent: u64, depth: u64) -> Vec<u8> {
        match self.dice.below(12) {
            0 | 1 if depth > 0 && self.free.len() > 700 => self.folder(parent, depth - 1),
            2 => {
                let mut entry = self.file(at);
                let owner = Owner::File(FileId { number: at, generation: 0 });
                let gone: Vec<u64> = self.truth.iter().filter(|it| *it.1 == owner).map(|it| *it.0).collect();
                gone.iter().for_each(|n| self.disk.set(*n, 0));
                self.truth.retain(|_, it| *it != owner);
                entry[0] = 0xE5;
                entry
            }
            _ => self.file(at),
        }
    }
}

/// Who has cluster `n`.
fn of(said: &Said, disk: &Disk, n: u64) -> Vec<Owner> {
    let first = disk.cluster(n) / SECTOR_BYTES;
    let sectors = first..first + disk.cluster_bytes() / SECTOR_BYTES;
    let all: BTreeSet<_> = sectors.map(|it| said.get(&it).cloned().unwrap_or_default()).collect();
    assert_eq!(all.len(), 1, "cluster {n} has the same owners throughout");
    all.into_iter().flatten().collect()
}

#[test]
fn each_cluster_has_the_owner_whose_chain_it_is_in() {
    for bits in [12, 16, 32] {
        let mut made = Scattered::new(&format!("owners.fat{bits}"), bits);
        for n in 0..12 {
            let at = made.disk.root() + n * 32;
            let entry = if n < 3 { made.folder(0, 2) } else { made.entry(at, 0, 0) };
            made.disk.image.put(at, &entry);
        }
        check("fsck.fat", &format!("owners.fat{bits}.checked"), &made.disk.image);
        let (mut disk, mut truth) = (made.disk, made.truth);
        if bits == 32 {
            truth.insert(2, Owner::System);
        }
        assert!(truth.len() > 300, "{}", truth.len());
        let mut volume = disk.open();
        let said = checked(&mut *volume, &mut disk.image, SECTOR_BYTES);
        for n in 2..2000 {
            let expected: Vec<_> = truth.get(&n).copied().into_iter().collect();
            assert_eq!(of(&said, &disk, n), expected, "FAT{bits}: cluster {n}");
        }
        let before = (0..disk.cluster(2) / SECTOR_BYTES).map(|it| said.get(&it));
        let system = BTreeSet::from([Owner::System]);
        assert!(before.into_iter().all(|it| it == Some(&system)), "tables, and the root");
        let end = disk.cluster(2000) / SECTOR_BYTES;
        assert_eq!(said.range(end..).next(), None);
    }
}

#[test]
fn a_chain_counts_to_its_end_behind_the_size_of_its_file() {
    for bits in [12, 16, 32] {
        let (mut disk, _) = filled(&format!("owners.fat{bits}.behind"), bits);
        disk.chain(&[10, 11, 20, 15, 50, 51]);
        let mut volume = disk.open();
        let file = at(&mut *volume, &mut disk.image, "/readme.txt");
        let expected = vec![Owner::File(file)];
        // The last entry of a chain is written late: that of 51 leads to no cluster.
        for value in [0x0FFF_FFFF, 0, 1, 0x0FFF_FFF7] {
            disk.set(51, value);
            let said = checked(&mut *volume, &mut disk.image, SECTOR_BYTES);
            assert!([10, 11, 20, 15, 50, 51].iter().all(|n| of(&said, &disk, *n) == expected), "{value:#x}");
        }
        for (n, value) in [(51, 20), (51, 51), (11, 0), (20, 0x0FFF_FFFF), (11, 10)] {
            let mut disk = disk.clone();
            disk.set(n, value);
            let damaged = said(&mut *volume, &mut disk.image, SECTOR_BYTES).unwrap_err();
            assert!(matches!(damaged, Error::Damaged(_)), "{n}, {value:#x}");
            assert_eq!(owned(&mut *volume, &mut disk.image, file, SECTOR_BYTES), Err(damaged));
        }
    }
}

#[test]
fn clusters_that_two_files_share_are_told_with_both() {
    let (mut disk, _) = filled("owners.fat.shared", 16);
    let cluster_bytes = disk.cluster_bytes();
    let root = disk.root();
    disk.set(60, 20);
    disk.image.put(root + 8 * 32, &short(b"OTHER      ", ARCHIVE, 60, 3 * cluster_bytes as u32));
    // The root ends at its first entry that was never used.
    (4..8).for_each(|n| disk.image.put(root + n * 32, &[0xE5]));
    let mut volume = disk.open();
    let said = checked(&mut *volume, &mut disk.image, SECTOR_BYTES);
    let [one, other] = ["/readme.txt", "/other"].map(|it| Owner::File(at(&mut *volume, &mut disk.image, it)));
    for (n, expected) in [(10, vec![one]), (60, vec![other]), (20, vec![one, other]), (15, vec![one, other])]
    {
        assert_eq!(of(&said, &disk, n), expected, "cluster {n}");
    }
}

#[test]
fn what_no_folder_has_an_entry_of_has_nothing() {
    let (mut disk, _) = filled("owners.fat.deleted", 12);
    // What looks like an entry is the content of a file.
    let fake = short(b"FAKE       ", ARCHIVE, 30, 100);
    let place = disk.cluster(20);
    disk.image.put(place, &fake);
    let mut volume = disk.open();
    let nothing = Ok(BTreeSet::new());
    let file = at(&mut *volume, &mut disk.image, "/readme.txt");
    for number in [place, place + 32, 1, 32, u64::MAX] {
        let none = FileId { number, generation: 0 };
        assert_eq!(owned(&mut *volume, &mut disk.image, none, SECTOR_BYTES), nothing, "{number}");
    }
    disk.image.put(file.number, &[0xE5]);
    let said = checked(&mut *volume, &mut disk.image, SECTOR_BYTES);
    assert_eq!(of(&said, &disk, 10), []);
    assert_eq!(owned(&mut *volume, &mut disk.image, file, SECTOR_BYTES), nothing);
}

#[test]
fn an_entry_without_a_name_that_is_listed_has_its_clusters() {
    let (mut disk, _) = filled("owners.fat.nameless", 12);
    let at = disk.root();
    disk.image.put(at, b"           ");
    let mut volume = disk.open();
    let said = checked(&mut *volume, &mut disk.image, SECTOR_BYTES);
    assert_eq!(of(&said, &disk, 10), [Owner::File(FileId { number: at, generation: 0 })]);
}

#[test]
fn folders_that_hold_themselves_end_and_files_share_no_more_than_the_volume_has() {
    let (mut disk, _) = filled("owners.fat.circle", 16);
    let root = disk.root();
    let slot = disk.cluster(40) + 10 * 32;
    // Behind the entries of the folder: itself, and again.
    (3..10).for_each(|n| disk.image.put(disk.cluster(40) + n * 32, &[0xE5]));
    (10..14).for_each(|n| disk.image.put(slot + (n - 10) * 32, &short(b"CIRCLE     ", FOLDER, 40, 0)));
    let mut volume = disk.open();
    let found = checked(&mut *volume, &mut disk.image, SECTOR_BYTES);
    assert_eq!(of(&found, &disk, 40), [Owner::System]);
    let long: Vec<u64> = (1000..4000).collect();
    disk.chain(&long);
    (4..24).for_each(|n| disk.image.put(root + n * 32, &short(b"SAME       ", ARCHIVE, 1000, 100)));
    disk.image.read_bytes = 0;
    let error = said(&mut *volume, &mut disk.image, SECTOR_BYTES).unwrap_err();
    assert_eq!(error, Error::Unsupported("files share more clusters than the volume has".into()));
    assert!(disk.image.read_bytes < 1 << 20, "{}", disk.image.read_bytes);
    let last = FileId { number: root + 23 * 32, generation: 0 };
    let own = owned(&mut *volume, &mut disk.image, last, SECTOR_BYTES).unwrap();
    assert_eq!(own.len() as u64, 3000 * disk.cluster_bytes() / SECTOR_BYTES);
}

#[test]
fn a_folder_that_is_damaged_before_its_end_is_an_error() {
    let (mut disk, _) = filled("owners.fat.folder", 16);
    let full = short(b"SAME       ", 0, 0, 0).repeat(disk.cluster_bytes() as usize / 32);
    disk.fill(&[40], &full);
    disk.set(40, 0);
    let mut volume = disk.open();
    let text = "entry 40 of the file allocation table is 0x0";
    assert_eq!(said(&mut *volume, &mut disk.image, SECTOR_BYTES), Err(Error::Damaged(text.into())));
    let place = disk.cluster(40);
    disk.image.put(place + 64, &[0]);
    let found = checked(&mut *volume, &mut disk.image, SECTOR_BYTES);
    assert_eq!(of(&found, &disk, 40), [Owner::System], "it ends before");
}
