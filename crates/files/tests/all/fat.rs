//! FAT as mkfs.fat makes it, filled here and checked by fsck.fat.

use crate::image::{Image, content};
use crate::tool::{check, made};
use crate::tree::{at, listed, names, runs, whole};
use quietus_core::base::units::Addr;
use quietus_files::{Attributes, Error, FileId, Kind, Run, Time, Volume, fat, path};

/// A volume that can be filled.
#[derive(Clone)]
pub struct Disk {
    pub image: Image,
    bits: u64,
}

/// Attributes of entries.
pub const FOLDER: u8 = 0x10;
const ARCHIVE: u8 = 0x20;

impl Disk {
    pub fn new(name: &str, bits: u64) -> Self {
        let (kib, args): (_, &[&str]) = match bits {
            12 => (1440, &["-F", "12"]),
            16 => (16 << 10, &["-F", "16"]),
            _ => (40 << 10, &["-F", "32", "-s", "1"]),
        };
        Self { image: made("mkfs.fat", name, kib, args), bits }
    }

    fn fat(&self) -> u64 {
        self.image.u16(14) * 512
    }

    fn fat_bytes(&self) -> u64 {
        if self.bits == 32 { self.image.u32(36) * 512 } else { self.image.u16(22) * 512 }
    }

    pub fn fixed_root(&self) -> u64 {
        self.fat() + 2 * self.fat_bytes()
    }

    pub fn cluster_bytes(&self) -> u64 {
        u64::from(self.image.bytes[13]) * 512
    }

    pub fn cluster(&self, n: u64) -> u64 {
        self.fixed_root() + self.image.u16(17) * 32 + (n - 2) * self.cluster_bytes()
    }

    /// The first byte of the root.
    pub fn root(&self) -> u64 {
        if self.bits == 32 { self.cluster(2) } else { self.fixed_root() }
    }

    /// Writes entry `n` of both tables.
    pub fn set(&mut self, n: u64, value: u64) {
        for table in [self.fat(), self.fat() + self.fat_bytes()] {
            match self.bits {
                12 => {
                    let at = table + n * 3 / 2;
                    let old = self.image.u16(at);
                    let new = if n.is_multiple_of(2) {
                        old & 0xF000 | value & 0xFFF
                    } else {
                        old & 0xF | (value & 0xFFF) << 4
                    };
                    self.image.put(at, &(new as u16).to_le_bytes());
                }
                16 => self.image.put(table + n * 2, &(value as u16).to_le_bytes()),
                _ => self.image.put(table + n * 4, &(value as u32 & 0x0FFF_FFFF).to_le_bytes()),
            }
        }
        if self.bits == 32 {
            self.image.put(512 + 488, &[0xFF; 4]);
        }
    }

    pub fn chain(&mut self, clusters: &[u64]) {
        for pair in clusters.windows(2) {
            self.set(pair[0], pair[1]);
        }
        self.set(*clusters.last().unwrap(), 0x0FFF_FFFF);
    }

    /// Writes `bytes` to these clusters, as a chain.
    pub fn fill(&mut self, clusters: &[u64], bytes: &[u8]) {
        self.chain(clusters);
        for (n, part) in clusters.iter().zip(bytes.chunks(self.cluster_bytes() as usize)) {
            self.image.put(self.cluster(*n), part);
        }
    }

    pub fn open(&mut self) -> Box<dyn Volume> {
        fat::open(&mut self.image).unwrap()
    }
}

/// An entry of a file: 2026-11-30, 12:34:56 when written, a second and 230 ms later when made, read the day after.
pub fn short(name: &[u8; 11], attr: u8, cluster: u64, size: u32) -> Vec<u8> {
    let (date, time) = (46 << 9 | 11 << 5 | 30_u16, 12 << 11 | 34 << 5 | 28_u16);
    let mut entry = vec![0; 32];
    entry[..11].copy_from_slice(name);
    (entry[11], entry[13]) = (attr, 123);
    let words = [
        (14, time),
        (16, date),
        (18, 46 << 9 | 12 << 5 | 1),
        (20, (cluster >> 16) as u16),
        (22, time),
        (24, date),
        (26, cluster as u16),
    ];
    words.iter().for_each(|(at, word)| entry[*at..at + 2].copy_from_slice(&word.to_le_bytes()));
    entry[28..].copy_from_slice(&size.to_le_bytes());
    entry
}

/// The parts of a long name, in the order in which they lie before `short`.
pub fn long(name: &str, short: &[u8]) -> Vec<u8> {
    let sum = short[..11].iter().fold(0_u8, |sum, byte| sum.rotate_right(1).wrapping_add(*byte));
    let mut units: Vec<u16> = name.encode_utf16().collect();
    if !units.len().is_multiple_of(13) {
        units.push(0);
    }
    units.resize(units.len().div_ceil(13) * 13, 0xFFFF);
    let count = units.len() / 13;
    let part = |n: usize| {
        let mut entry = vec![0; 32];
        (entry[0], entry[11], entry[13]) = (n as u8 | if n == count { 0x40 } else { 0 }, 0x0F, sum);
        let places = (1..11).step_by(2).chain((14..26).step_by(2)).chain([28, 30]);
        for (at, unit) in places.zip(&units[(n - 1) * 13..]) {
            entry[at..at + 2].copy_from_slice(&unit.to_le_bytes());
        }
        entry
    };
    (1..=count).rev().flat_map(part).chain(short.to_vec()).collect()
}

fn dots(own: u64) -> Vec<u8> {
    [short(b".          ", FOLDER, own, 0), short(b"..         ", FOLDER, 0, 0)].concat()
}

const LONG: &str = "A long näme, with — dashes.text";

/// A volume with files of each kind, and the content of the two files that have some.
pub fn filled(name: &str, bits: u64) -> (Disk, [Vec<u8>; 2]) {
    let mut disk = Disk::new(name, bits);
    let cluster = disk.cluster_bytes() as usize;
    let contents = [content(1, cluster * 3 + 100), content(2, cluster)];
    disk.fill(&[10, 11, 20, 15], &contents[0]);
    disk.fill(&[30], &contents[1]);
    let mut readme = short(b"README  TXT", ARCHIVE, 10, contents[0].len() as u32);
    readme[12] = 0x18;
    let inner = long(LONG, &short(b"ALONGN~1TEX", ARCHIVE, 30, contents[1].len() as u32));
    let folder = [dots(40), inner].concat();
    disk.fill(&[40], &folder);
    let gone = long("deleted name", &short(b"DELETE~1   ", ARCHIVE, 0, 0));
    let gone: Vec<u8> = gone.chunks(32).flat_map(|it| [&[0xE5][..], &it[1..]].concat()).collect();
    let entries =
        [readme, gone, short(b"FOLDER     ", FOLDER, 40, 0), short(b"\x9AMPTY   DAT", ARCHIVE, 0, 0)];
    disk.image.put(disk.root(), &entries.concat());
    (disk, contents)
}

#[test]
fn files_of_each_width_are_read_as_they_were_written() {
    for bits in [12, 16, 32] {
        let (mut disk, contents) = filled(&format!("fat{bits}.filled"), bits);
        check("fsck.fat", &format!("fat{bits}.checked"), &disk.image);
        let mut volume = disk.open();
        assert_eq!(volume.name(), format!("FAT{bits}"));
        let image = &mut disk.image;
        assert_eq!(names(&mut *volume, image, "/"), ["readme.txt", "FOLDER", "ÜMPTY.DAT"]);
        assert_eq!(names(&mut *volume, image, "/FOLDER"), [LONG]);
        assert_eq!(whole(&mut *volume, image, "/readme.txt"), contents[0]);
        assert_eq!(whole(&mut *volume, image, &format!("/folder/{LONG}")), contents[1]);
        assert_eq!(whole(&mut *volume, image, "/ümpty.dat"), b"");
    }
}

#[test]
fn a_name_is_found_in_any_case_and_by_its_short_form() {
    let (mut disk, _) = filled("fat12.cases", 12);
    let mut volume = disk.open();
    let image = &mut disk.image;
    let file = at(&mut *volume, image, &format!("/FOLDER/{LONG}"));
    for name in ["/folder/a LONG NÄME, with — dashes.TEXT", "/Folder/alongn~1.tex"] {
        assert_eq!(at(&mut *volume, image, name), file);
    }
    for (name, shown) in
        [("/nothing", "no /nothing"), ("/folder/x/y", "no /FOLDER/x"), ("/\u{FF}", "no /\u{FF}")]
    {
        assert_eq!(path::walk(&mut *volume, image, name.as_bytes()).unwrap_err().to_string(), shown);
    }
    assert!(path::walk(&mut *volume, image, b"/\xFF").is_err());
    assert_eq!(path::walk(&mut *volume, image, b"/readme.txt/x"), Err(Error::NotA("folder")));
    let folder = at(&mut *volume, image, "/folder");
    assert_eq!(volume.read(image, folder, 0, 1), Err(Error::NotA("regular file")));
    assert_eq!(volume.link(image, file), Err(Error::NotA("symbolic link")));
    assert_eq!(volume.extended(image, file), Ok(Vec::new()));
}

#[test]
fn an_entry_says_when_a_file_was_made_written_and_read() {
    let (mut disk, contents) = filled("fat16.times", 16);
    let mut volume = disk.open();
    let (root, cluster) = (disk.root(), disk.cluster_bytes());
    let image = &mut disk.image;
    let file = at(&mut *volume, image, "/README.TXT");
    assert_eq!(file, FileId { number: root, generation: 0 });
    assert_eq!(path::walk(&mut *volume, image, format!("#{root}").as_bytes()), Ok(file));
    let time = |seconds, nanoseconds| Some(Time { seconds, nanoseconds });
    let expected = Attributes {
        kind: Kind::Regular,
        bytes: contents[0].len() as u64,
        allocated_bytes: 4 * cluster,
        mode: None,
        owner: None,
        links: None,
        modified: time(1_796_042_096, 0),
        accessed: time(1_796_083_200, 0),
        changed: None,
        born: time(1_796_042_097, 230_000_000),
    };
    assert_eq!(volume.attributes(image, file), Ok(expected));
    let folder = at(&mut *volume, image, "/folder");
    let folder = volume.attributes(image, folder).unwrap();
    assert_eq!((folder.kind, folder.bytes), (Kind::Folder, cluster));
    let top = volume.root();
    assert_eq!(volume.attributes(image, top).unwrap().bytes, 512 * 32);
}

#[test]
fn runs_are_as_long_as_the_clusters_lie_together() {
    let (mut disk, contents) = filled("fat32.runs", 32);
    let mut volume = disk.open();
    let place = [10, 20, 15].map(|it| Some(Addr(disk.cluster(it))));
    let file = at(&mut *volume, &mut disk.image, "/README.TXT");
    let len = contents[0].len() as u64;
    let expected = [(0, 1024, place[0]), (1024, 512, place[1]), (1536, len - 1536, place[2])];
    let expected = expected.map(|(at, bytes, place)| Run { at, bytes, place });
    assert_eq!(runs(&mut *volume, &mut disk.image, file).unwrap(), expected);
}

#[test]
fn a_chain_that_ends_too_early_or_leads_astray_is_an_error_of_its_file() {
    for (n, value, text) in [
        (11, 0x0FFF_FFFF, "the chain of cluster 10 ends after 1024 bytes, and the file has 1636"),
        (11, 10, "the chain of cluster 10 comes back to cluster 10"),
        (11, 0, "entry 11 of the file allocation table is 0x0"),
        (20, 0x0FFF_FFF7, "entry 20 of the file allocation table is 0xffffff7"),
        (20, 0x00FF_FFFF, "entry 20 of the file allocation table is 0xffffff"),
    ] {
        let (mut disk, contents) = filled("fat32.chains", 32);
        disk.set(n, value);
        let mut volume = disk.open();
        let file = at(&mut *volume, &mut disk.image, "/README.TXT");
        let error = volume.read(&mut disk.image, file, 0, 1 << 20).unwrap_err();
        assert_eq!(error, Error::Damaged(text.into()));
        assert_eq!(runs(&mut *volume, &mut disk.image, file), Err(error));
        assert_eq!(whole(&mut *volume, &mut disk.image, &format!("/FOLDER/{LONG}")), contents[1]);
    }
}

#[test]
fn a_folder_whose_chain_is_a_loop_is_listed_up_to_there() {
    let (mut disk, _) = filled("fat16.loop", 16);
    let entries: Vec<u8> =
        (0..64).flat_map(|n| short(format!("{n:<11}").as_bytes().try_into().unwrap(), 0, 0, 0)).collect();
    disk.fill(&[40, 41], &entries.repeat(2)[..2 * disk.cluster_bytes() as usize]);
    disk.set(41, 40);
    let mut volume = disk.open();
    let (names, result) = listed(&mut *volume, &mut disk.image, "/folder");
    assert_eq!(names.len() as u64, 2 * disk.cluster_bytes() / 32);
    assert_eq!(result, Err(Error::Damaged("the chain of cluster 40 comes back to cluster 40".into())));
}

#[test]
fn a_folder_has_65536_entries_at_most() {
    let (mut disk, _) = filled("fat16.many", 16);
    let per_cluster = disk.cluster_bytes() / 32;
    let clusters: Vec<u64> = (100..=100 + 65_536 / per_cluster).collect();
    disk.fill(&clusters, &short(b"SAME       ", 0, 0, 0).repeat(clusters.len() * per_cluster as usize));
    disk.image.put(disk.root() + 3 * 32, &short(b"FOLDER     ", FOLDER, 100, 0));
    let mut volume = disk.open();
    let (names, result) = listed(&mut *volume, &mut disk.image, "/folder");
    assert_eq!(names.len(), 65_536);
    assert!(result.unwrap_err().to_string().contains("more entries than its format allows"));
}

#[test]
fn a_number_that_is_that_of_no_entry_is_none() {
    let (mut disk, _) = filled("fat12.numbers", 12);
    let mut volume = disk.open();
    let root = disk.root();
    for number in [1, 32, root + 1, root + 32, root + 20 * 32, u64::MAX, u64::MAX / 32 * 32] {
        let path = format!("#{number}");
        let error = path::walk(&mut *volume, &mut disk.image, path.as_bytes()).unwrap_err();
        assert_eq!(error, Error::Missing(format!("entry at byte {number}")));
    }
    assert!(path::walk(&mut *volume, &mut disk.image, b"#x").is_err());
}

#[test]
fn what_does_not_begin_with_a_boot_sector_is_unknown() {
    for bytes in [0, 100, 512, 4096] {
        assert!(matches!(fat::open(&mut Image::new(vec![0; bytes])), Err(Error::Unknown(_))));
    }
    let mut disk = Disk::new("fat16.damaged", 16);
    disk.image.put(14, &[0, 0]);
    let error = fat::open(&mut disk.image).err().unwrap();
    assert_eq!(
        error.to_string(),
        "damaged: FAT: the boot sector has an invalid field: `BPB_RsvdSecCnt` is 0"
    );
}
