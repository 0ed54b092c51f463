//! exFAT as mkfs.exfat makes it, filled here and checked by fsck.exfat.

use crate::image::{Image, content};
use crate::tool::{check, made};
use crate::tree::{at, listed, names, runs, whole};
use quietus_core::base::units::Addr;
use quietus_files::{Error, Kind, Run, Time, Volume, exfat, path};

/// A volume that can be filled, of clusters of 512 bytes.
#[derive(Clone)]
pub struct Disk {
    pub image: Image,
}

pub const FOLDER: u16 = 0x10;
pub const ARCHIVE: u16 = 0x20;
pub const IN_CHAIN: u8 = 1;
pub const IN_ONE_PIECE: u8 = 3;

/// A file as its entries have it.
#[derive(Clone, Copy)]
pub struct File<'a> {
    pub name: &'a str,
    pub attributes: u16,
    pub flags: u8,
    pub cluster: u32,
    pub valid: u64,
    pub bytes: u64,
}

impl Disk {
    fn new(name: &str) -> Self {
        Self { image: made("mkfs.exfat", name, 4 << 10, &["-c", "512"]) }
    }

    pub fn table(&self) -> u64 {
        self.image.u32(80) * 512
    }

    pub fn cluster(&self, n: u32) -> u64 {
        self.image.u32(88) * 512 + u64::from(n - 2) * 512
    }

    pub fn root(&self) -> u64 {
        self.cluster(self.image.u32(96) as u32)
    }

    pub fn set(&mut self, n: u32, value: u32) {
        self.image.put(self.table() + u64::from(n) * 4, &value.to_le_bytes());
    }

    /// Writes `bytes` to these clusters, as a chain or without one, and marks them as used.
    pub fn fill(&mut self, clusters: &[u32], has_chain: bool, bytes: &[u8]) {
        for (n, part) in clusters.iter().zip(bytes.chunks(512)) {
            self.image.put(self.cluster(*n), part);
        }
        for n in clusters {
            let bitmap = self.cluster(2) + u64::from(n - 2) / 8;
            self.image.bytes[bitmap as usize] |= 1 << ((n - 2) % 8);
        }
        if has_chain {
            clusters.windows(2).for_each(|pair| self.set(pair[0], pair[1]));
            self.set(*clusters.last().unwrap(), u32::MAX);
        }
    }

    /// The byte behind the last entry of the root.
    fn end_of_root(&self) -> u64 {
        let root = self.root();
        (root..).step_by(32).find(|at| self.image.bytes[*at as usize] == 0).unwrap()
    }

    /// Adds a file to the root, with its set in one cluster. Returns where its entry lies.
    pub fn add(&mut self, file: File) -> u64 {
        let at = self.end_of_root();
        self.image.put(at, &set(file));
        at
    }

    /// Adds sets to the root, which goes on in cluster 800, and has not come there yet.
    pub fn add_all(&mut self, sets: &[u8]) {
        let (at, end) = (self.end_of_root(), self.root() + 512);
        let (here, there) = sets.split_at(sets.len().min((end - at) as usize));
        self.image.put(at, here);
        self.image.put(self.cluster(800), there);
    }

    pub fn open(&mut self) -> Box<dyn Volume> {
        exfat::open(&mut self.image).unwrap()
    }
}

fn sum(entries: &[u8]) -> u16 {
    let bytes = entries.iter().enumerate().filter(|(at, _)| !matches!(at, 2 | 3));
    bytes.fold(0_u16, |sum, (_, byte)| sum.rotate_right(1).wrapping_add(u16::from(*byte)))
}

fn hash(name: &str) -> u16 {
    let upper: Vec<u8> = name
        .replace('ß', "\0")
        .to_uppercase()
        .replace('\0', "ß")
        .encode_utf16()
        .flat_map(u16::to_le_bytes)
        .collect();
    upper.iter().fold(0_u16, |sum, byte| sum.rotate_right(1).wrapping_add(u16::from(*byte)))
}

/// The entries of a file: 2026-11-30, 12:34:56 when written, in a zone one hour and a quarter behind UTC.
pub fn set(file: File) -> Vec<u8> {
    let mut units: Vec<u16> = file.name.encode_utf16().collect();
    let (length, names) = (units.len(), units.len().div_ceil(15));
    units.resize(names * 15, 0);
    let stamp: u32 = (46 << 9 | 11 << 5 | 30) << 16 | 12 << 11 | 34 << 5 | 28;
    let mut first = [0_u8; 32];
    (first[0], first[1], first[20], first[21]) = (0x85, 1 + names as u8, 150, 7);
    first[4..6].copy_from_slice(&file.attributes.to_le_bytes());
    [8, 12, 16].iter().for_each(|at| first[*at..at + 4].copy_from_slice(&stamp.to_le_bytes()));
    // Made in a zone five hours before UTC, read in an unknown one.
    (first[22], first[23], first[24]) = (0x80 | 20, 0x80 | (0x80 - 5), 0x7F);
    let mut stream = [0_u8; 32];
    (stream[0], stream[1], stream[3]) = (0xC0, file.flags, length as u8);
    stream[4..6].copy_from_slice(&hash(file.name).to_le_bytes());
    stream[8..16].copy_from_slice(&file.valid.to_le_bytes());
    stream[20..24].copy_from_slice(&file.cluster.to_le_bytes());
    stream[24..].copy_from_slice(&file.bytes.to_le_bytes());
    let mut entries = [first, stream].concat();
    for name in units.chunks(15) {
        entries.extend([0xC1, 0]);
        entries.extend(name.iter().flat_map(|it| it.to_le_bytes()));
    }
    resum(&mut entries);
    entries
}

pub fn resum(entries: &mut [u8]) {
    let sum = sum(entries);
    entries[2..4].copy_from_slice(&sum.to_le_bytes());
}

/// Files without content, whose sets of 4 entries lie across the ends of clusters behind one set of 3.
fn many() -> Vec<u8> {
    let name = |n: usize| if n == 0 { "first".to_string() } else { format!("a name of two entries {n:03}") };
    let empty =
        |name: &str| set(File { name, attributes: ARCHIVE, flags: IN_CHAIN, cluster: 0, valid: 0, bytes: 0 });
    (0..10).flat_map(|n| empty(&name(n))).collect()
}

/// A volume with files of each kind, and the content of the file that has some.
pub fn filled(name: &str) -> (Disk, Vec<u8>) {
    let mut disk = Disk::new(name);
    let bytes = content(3, 2000);
    disk.fill(&[200, 201, 300, 250], true, &bytes);
    disk.fill(&[400, 401, 402], false, &bytes);
    disk.fill(&[500, 501, 502], false, &many());
    disk.fill(&[600, 700, 650], true, &many());
    let chain = File {
        name: "Größe.txt",
        attributes: ARCHIVE,
        flags: IN_CHAIN,
        cluster: 200,
        valid: 1900,
        bytes: 2000,
    };
    disk.add(chain);
    disk.add(File { name: "piece", flags: IN_ONE_PIECE, cluster: 400, valid: 1500, bytes: 1500, ..chain });
    disk.fill(&[800], true, &[]);
    let folder = File { attributes: FOLDER, valid: 1536, bytes: 1536, ..chain };
    let root = disk.image.u32(96) as u32;
    let rest = [
        set(File { name: "in one piece", flags: IN_ONE_PIECE, cluster: 500, ..folder }),
        set(File { name: "in a chain", cluster: 600, ..folder }),
    ]
    .concat();
    disk.fill(&[root, 800], true, &[]);
    disk.add_all(&rest);
    (disk, bytes)
}

#[test]
fn files_are_read_as_they_were_written() {
    let (mut disk, bytes) = filled("exfat.filled");
    check("fsck.exfat", "exfat.checked", &disk.image);
    let mut volume = disk.open();
    let image = &mut disk.image;
    assert_eq!(volume.name(), "exFAT");
    assert_eq!(names(&mut *volume, image, "/"), ["Größe.txt", "piece", "in one piece", "in a chain"]);
    assert_eq!(whole(&mut *volume, image, "/grÖßE.TXT"), [&bytes[..1900], &[0; 100]].concat());
    assert_eq!(whole(&mut *volume, image, "/PIECE"), bytes[..1500]);
    assert!(path::walk(&mut *volume, image, b"/GROSSE.TXT").is_err());
}

#[test]
fn a_set_that_lies_across_clusters_is_found_in_a_piece_and_in_a_chain() {
    let (mut disk, _) = filled("exfat.across");
    let mut volume = disk.open();
    for folder in ["/in one piece", "/in a chain"] {
        let names = names(&mut *volume, &mut disk.image, folder);
        assert_eq!(names.len(), 10);
        for name in names {
            let file = at(&mut *volume, &mut disk.image, &format!("{folder}/{name}"));
            assert_eq!(volume.attributes(&mut disk.image, file).unwrap().kind, Kind::Regular, "{name}");
        }
    }
}

#[test]
fn the_times_are_utc_as_far_as_the_offset_is_known() {
    let (mut disk, _) = filled("exfat.times");
    let mut volume = disk.open();
    let file = at(&mut *volume, &mut disk.image, "/piece");
    let found = volume.attributes(&mut disk.image, file).unwrap();
    let time = |seconds, nanoseconds| Some(Time { seconds, nanoseconds });
    assert_eq!(found.born, time(1_796_042_096 - 5 * 3600 + 1, 500_000_000));
    assert_eq!(found.modified, time(1_796_042_096 + 75 * 60, 70_000_000));
    assert_eq!(found.accessed, time(1_796_042_096, 0));
    assert_eq!((found.bytes, found.allocated_bytes, found.mode, found.owner), (1500, 1536, None, None));
}

#[test]
fn what_lies_behind_the_valid_data_length_is_a_hole() {
    let (mut disk, _) = filled("exfat.valid");
    let mut volume = disk.open();
    let file = at(&mut *volume, &mut disk.image, "/Größe.txt");
    let run = |at, bytes, cluster| Run { at, bytes, place: Some(Addr(disk.cluster(cluster))) };
    let expected = [run(0, 1024, 200), run(1024, 512, 300), run(1536, 364, 250)];
    assert_eq!(runs(&mut *volume, &mut disk.image.clone(), file).unwrap(), expected);
    let piece = at(&mut *volume, &mut disk.image.clone(), "/piece");
    assert_eq!(runs(&mut *volume, &mut disk.image.clone(), piece).unwrap(), [run(0, 1500, 400)]);
}

#[test]
fn a_damaged_set_hides_no_other_file() {
    let (mut disk, bytes) = filled("exfat.sums");
    let mut volume = disk.open();
    let at = at(&mut *volume, &mut disk.image, "/Größe.txt").number;
    disk.image.bytes[at as usize + 70] ^= 1;
    let (names, result) = listed(&mut *volume, &mut disk.image, "/");
    assert_eq!(names, ["piece", "in one piece", "in a chain"]);
    assert!(
        result
            .unwrap_err()
            .to_string()
            .starts_with(&format!("damaged: SetChecksum of the entry at byte {at} is 0x"))
    );
    assert_eq!(whole(&mut *volume, &mut disk.image, "/piece"), bytes[..1500]);
    assert!(matches!(path::walk(&mut *volume, &mut disk.image, b"/other"), Err(Error::Damaged(_))));
}

#[test]
fn an_impossible_field_of_a_set_is_an_error_of_its_file() {
    for (at, value, text) in [
        (32 + 20, 1, "FirstCluster of the entry at byte {} is 1"),
        (32 + 20, 9000, "FirstCluster of the entry at byte {} is 9000"),
        (32 + 8, 2001, "ValidDataLength of the entry at byte {} is 2001"),
        (32 + 28, 1, "DataLength of the entry at byte {} is 4294969296"),
    ] {
        let (mut disk, bytes) = filled("exfat.fields");
        let mut volume = disk.open();
        let file = crate::tree::at(&mut *volume, &mut disk.image, "/Größe.txt");
        let mut entries = disk.image.bytes[file.number as usize..][..96].to_vec();
        entries[at..at + 4].copy_from_slice(&u32::to_le_bytes(value));
        resum(&mut entries);
        disk.image.put(file.number, &entries);
        let text = text.replace("{}", &(file.number + 32).to_string());
        assert_eq!(volume.attributes(&mut disk.image, file), Err(Error::Damaged(text.clone())));
        assert_eq!(volume.read(&mut disk.image, file, 0, 1), Err(Error::Damaged(text)));
        assert_eq!(names(&mut *volume, &mut disk.image, "/").len(), 4);
        assert_eq!(whole(&mut *volume, &mut disk.image, "/piece"), bytes[..1500]);
    }
}

#[test]
fn a_chain_that_comes_back_is_an_error() {
    let (mut disk, _) = filled("exfat.loop");
    disk.set(300, 201);
    disk.set(650, 700);
    let mut volume = disk.open();
    let file = at(&mut *volume, &mut disk.image, "/Größe.txt");
    let text = "the chain of cluster 200 comes back to cluster 300";
    assert_eq!(runs(&mut *volume, &mut disk.image, file), Err(Error::Damaged(text.into())));
    // The folder is no longer than its three clusters.
    assert_eq!(names(&mut *volume, &mut disk.image, "/in a chain").len(), 10);
    let root = disk.image.u32(96) as u32;
    disk.set(800, root);
    let (names, result) = listed(&mut *volume, &mut disk.image, "/");
    assert_eq!((names.len(), result), (4, Ok(())), "it ends before");
}

#[test]
fn without_its_up_case_table_a_volume_has_the_letters_of_ascii() {
    let (mut disk, _) = filled("exfat.upcase");
    let entry = (disk.root()..).step_by(32).find(|at| disk.image.bytes[*at as usize] == 0x82).unwrap();
    disk.image.bytes[entry as usize + 4] ^= 1;
    let mut volume = disk.open();
    assert!(path::walk(&mut *volume, &mut disk.image, "/GRößE.txt".as_bytes()).is_ok());
    assert!(path::walk(&mut *volume, &mut disk.image, "/GRÖßE.txt".as_bytes()).is_err());
}

#[test]
fn a_boot_region_with_a_wrong_checksum_is_damaged() {
    let mut disk = Disk::new("exfat.region");
    disk.image.bytes[600] ^= 1;
    let error = exfat::open(&mut disk.image).err().unwrap();
    assert_eq!(error.to_string(), "damaged: exFAT: the checksum of the boot region is wrong");
    assert!(matches!(exfat::open(&mut Image::new(vec![0; 512])), Err(Error::Unknown(_))));
}
