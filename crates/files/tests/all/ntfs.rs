//! NTFS as mkntfs makes it, filled by ntfscp, or by ntfs-3g through FUSE, and read by ntfscat beside us.

use crate::image::{Image, content};
use crate::tool::{made, path, run, worked};
use crate::tree::{at, listed, names, runs, whole};
use quietus_files::{Error, Kind, Source, Volume, ntfs, path};
use std::ops::Range;

pub mod mounted;
pub mod records;

/// Files beside those with a meaning, so that the root has blocks of its index.
const FILLERS: usize = 60;
const UNICODE: &str = "Größe 名前 😀.txt";

/// A file of the host, while it exists.
struct HostFile(std::path::PathBuf);

impl HostFile {
    fn new(name: &str, bytes: &[u8]) -> Self {
        let path = path(name);
        std::fs::write(&path, bytes).unwrap();
        Self(path)
    }
}

impl Drop for HostFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A volume with clusters and sectors of these sizes, as mkntfs makes it.
fn empty(name: &str, mib: u64, cluster: &str, sector: &str) -> Image {
    made("mkntfs", name, mib << 10, &["-F", "-Q", "-q", "-c", cluster, "-s", sector])
}

/// Has ntfscp write a file, or the stream of one.
fn copy(name: &str, image: &str, bytes: &[u8], to: &str, stream: &[&str]) {
    let file = HostFile::new(&format!("{name}.copied"), bytes);
    let from = file.0.to_str().unwrap();
    run("ntfscp", &[&["-q"], stream, &[image, from, to]].concat(), "");
}

/// A volume with some files in its root, and the content of the large one.
pub fn filled(name: &str, mib: u64, cluster: &str, sector: &str) -> (Image, Vec<u8>) {
    let mut image = empty(name, mib, cluster, sector);
    let large = content(9, 200_001);
    worked(&format!("{name}.filled"), &mut image, |path| {
        copy(name, path, b"small", "small", &[]);
        copy(name, path, &large, "large", &[]);
        copy(name, path, b"names", UNICODE, &[]);
        copy(name, path, b"beside", "small", &["-N", "note"]);
        copy(name, path, &large[..60_000], "small", &["-N", "long note"]);
        copy(name, path, &large[..70_000], "small", &["-N", "too long"]);
        (0..FILLERS)
            .for_each(|n| copy(name, path, &[], &format!("a file that fills the folder {n:02}"), &[]));
    });
    (image, large)
}

pub fn open(image: &mut Image) -> Box<dyn Volume> {
    ntfs::open(image).unwrap()
}

/// Where record `number` lies, of the records of 1024 bytes that lie together from the first on.
pub fn record(image: &Image, number: u64) -> Range<u64> {
    let cluster_bytes = image.u16(0x0B) * image.bytes[0x0D] as u64;
    let at = image.u32(0x30) * cluster_bytes + number * 1024;
    at..at + 1024
}

/// Where the first attribute of `kind` lies in record `number`.
pub fn attribute(image: &Image, number: u64, kind: u64) -> u64 {
    let record = record(image, number);
    let mut at = record.start + image.u16(record.start + 0x14);
    while image.u32(at) != kind {
        assert!(at < record.end, "record {number} has {kind:#x}");
        at += image.u32(at + 4);
    }
    at
}

/// The places of the first `count` records, and of the blocks of all folders.
pub fn metadata(image: &Image, count: u64) -> Vec<Range<u64>> {
    let mut places: Vec<_> =
        (0..count).map(|n| record(image, n)).map(|it| it.start..it.start + 500).collect();
    let blocks = (0..image.bytes.len()).step_by(4096).filter(|at| image.bytes[*at..].starts_with(b"INDX"));
    places.extend(blocks.map(|at| at as u64..at as u64 + 1000));
    places
}

#[test]
fn files_are_read_as_ntfscp_wrote_them() {
    for (cluster, sector, mib) in [
        ("512", "512", 8),
        ("4096", "512", 8),
        ("65536", "512", 32),
        ("4096", "4096", 16),
        ("2097152", "512", 64),
    ] {
        let (mut image, large) = filled(&format!("ntfs.{cluster}.{sector}"), mib, cluster, sector);
        let mut volume = open(&mut image);
        assert_eq!(volume.name(), "NTFS");
        let found = names(&mut *volume, &mut image, "/");
        assert_eq!(found.len(), 3 + FILLERS, "{found:?}");
        assert_eq!(whole(&mut *volume, &mut image, "/SMALL"), b"small");
        assert_eq!(whole(&mut *volume, &mut image, "/large"), large);
        assert_eq!(whole(&mut *volume, &mut image, "/grÖßE 名前 😀.TXT"), b"names");
        assert!(path::walk(&mut *volume, &mut image, b"/smal").is_err());
        assert!(path::walk(&mut *volume, &mut image, b"/$MFT").is_ok(), "it is hidden, and there");
    }
}

#[test]
fn ntfsls_and_ntfscat_find_the_same() {
    let (mut image, large) = filled("ntfs.others", 8, "4096", "512");
    let (listed, read) = worked("ntfs.others.read", &mut image, |path| {
        (run("ntfsls", &[path], ""), run("ntfscat", &[path, "large"], ""))
    });
    assert_eq!(read, large);
    let mut volume = open(&mut image);
    let mut found = names(&mut *volume, &mut image, "/");
    let mut expected: Vec<_> = str::from_utf8(&listed).unwrap().lines().filter(|it| !it.is_empty()).collect();
    found.sort_unstable();
    expected.sort_unstable();
    assert_eq!(found, expected);
}

#[test]
fn a_small_file_lies_in_its_record_and_a_large_one_in_runs() {
    let (mut image, large) = filled("ntfs.runs", 8, "512", "512");
    let mut volume = open(&mut image);
    let small = at(&mut *volume, &mut image, "/small");
    let found = runs(&mut *volume, &mut image, small).unwrap();
    assert!(matches!(&found[..], [it] if (it.at, it.bytes, it.place) == (0, 5, None)), "{found:?}");
    let file = at(&mut *volume, &mut image, "/large");
    let mut read = Vec::new();
    for run in runs(&mut *volume, &mut image, file).unwrap() {
        assert_eq!(run.at, read.len() as u64);
        let start = run.place.unwrap().0 as usize;
        read.extend_from_slice(&image.bytes[start..start + run.bytes as usize]);
    }
    assert_eq!(read, large);
    let attributes = volume.attributes(&mut image, file).unwrap();
    assert_eq!((attributes.kind, attributes.bytes, attributes.links), (Kind::Regular, 200_001, Some(1)));
    assert_eq!(attributes.allocated_bytes, 200_192);
    assert_eq!((attributes.mode, attributes.owner), (None, None));
    assert!(attributes.modified.unwrap().seconds > 1_700_000_000, "{attributes:?}");
}

#[test]
fn streams_are_extended_attributes_up_to_what_linux_can_hold() {
    let (mut image, large) = filled("ntfs.streams", 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/small");
    let mut found = volume.extended(&mut image, file).unwrap();
    found.sort();
    let expected =
        [(b"user.long note".to_vec(), large[..60_000].to_vec()), (b"user.note".to_vec(), b"beside".to_vec())];
    assert_eq!(found, expected);
    let file = at(&mut *volume, &mut image, "/large");
    assert_eq!(volume.extended(&mut image, file).unwrap(), []);
}

#[test]
fn a_record_of_another_file_is_missing() {
    let (mut image, _) = filled("ntfs.reused", 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/small");
    assert_eq!(volume.file(&mut image, file.number), Ok(file));
    for number in [20_000, u64::MAX, u64::MAX / 1024] {
        let missing = Err(Error::Missing(format!("record {number}")));
        assert_eq!(volume.file(&mut image, number), missing);
    }
    let place = record(&image, file.number);
    image.bytes[place.start as usize + 0x10] += 1;
    let expected = format!("no record {} with sequence_number 1: it is 2", file.number);
    assert_eq!(volume.attributes(&mut image, file).unwrap_err().to_string(), expected);
    image.bytes[place.start as usize + 0x16] = 0;
    let missing = Error::Missing(format!("record {}", file.number));
    assert_eq!(volume.read(&mut image, file, 0, 1), Err(missing.clone()));
    assert_eq!(volume.file(&mut image, file.number), Err(missing));
}

#[test]
fn a_record_that_was_half_written_hides_no_other_file() {
    let (mut image, large) = filled("ntfs.torn", 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/small");
    let end = record(&image, file.number).end as usize;
    image.bytes[end - 1] ^= 1;
    let error = volume.read(&mut image, file, 0, 1).unwrap_err().to_string();
    let text = "a part of it was not written (its update sequence does not match)";
    assert_eq!(error, format!("damaged: record {}: {text}", file.number));
    assert_eq!(names(&mut *volume, &mut image, "/").len(), 3 + FILLERS);
    assert_eq!(whole(&mut *volume, &mut image, "/large"), large);
}

#[test]
fn an_impossible_field_of_an_attribute_is_an_error_of_its_file() {
    let (mut image, large) = filled("ntfs.fields", 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/large");
    let data = attribute(&image, file.number, 0x80);
    for (at, value, text) in [
        (0x30, i64::MAX as u64 + 1, "data_size 9223372036854775808"),
        (0x38, 200_002, "initialized_size 200002"),
        (0x30, 200_000, "initialized_size 200001"),
        (0x18, 47, "`highest_vcn` is 47"),
        (0x10, 1, "attribute 0x80 lacks its first part"),
        (0x20, 3, "`mapping_pairs_offset` is 3"),
    ] {
        let mut image = image.clone();
        image.put(data + at, &value.to_le_bytes());
        let Err(error) = volume.read(&mut image, file, 0, 1) else { panic!("{text}") };
        assert_eq!(error, Error::Damaged(format!("record {}: {text}", file.number)));
        assert_eq!(whole(&mut *volume, &mut image, "/small"), b"small");
    }
    let max = i64::MAX as u64;
    image.put(data + 0x30, &max.to_le_bytes());
    assert_eq!(volume.read(&mut image, file, max - 10, 100), Ok(vec![0; 10]), "it was never written");
    assert_eq!(volume.read(&mut image, file, 0, 200_001), Ok(large));
    image.put(data + 0x38, &max.to_le_bytes());
    let text = "the runs end at byte 200704, and initialized_size is 9223372036854775807";
    let damaged = Err(Error::Damaged(format!("record {}: {text}", file.number)));
    assert_eq!(volume.read(&mut image, file, max - 10, 100), damaged);
    assert_eq!(runs(&mut *volume, &mut image, file).map(|_| Vec::new()), damaged);
}

#[test]
fn what_lies_behind_the_initialized_size_is_a_hole() {
    let (mut image, large) = filled("ntfs.initialized", 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/large");
    let data = attribute(&image, file.number, 0x80);
    image.put(data + 0x38, &5000_u64.to_le_bytes());
    assert_eq!(whole(&mut *volume, &mut image, "/large"), [&large[..5000], &vec![0; 195_001]].concat());
    let found = runs(&mut *volume, &mut image, file).unwrap();
    assert_eq!(found.iter().map(|it| it.bytes).sum::<u64>(), 5000);
}

#[test]
fn encrypted_content_is_refused() {
    let (mut image, _) = filled("ntfs.encrypted", 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/large");
    let data = attribute(&image, file.number, 0x80);
    image.put(data + 0x0C, &0x4000_u16.to_le_bytes());
    let refused = Error::Unsupported(format!("record {}: the content is encrypted (EFS)", file.number));
    assert_eq!(volume.read(&mut image, file, 0, 1), Err(refused));
}

#[test]
fn a_block_of_an_index_that_was_half_written_hides_its_own_names_only() {
    let (mut image, _) = filled("ntfs.index", 8, "4096", "512");
    let mut volume = open(&mut image);
    let all = names(&mut *volume, &mut image, "/").len();
    // Of the blocks of 4096 bytes, the last one is of the root: those of $Extend come first.
    let block =
        (0..image.bytes.len()).step_by(4096).rfind(|at| image.bytes[*at..].starts_with(b"INDX")).unwrap();
    image.bytes[block + 511] ^= 1;
    let (names, result) = listed(&mut *volume, &mut image, "/");
    assert!(!names.is_empty() && names.len() < all, "{}", names.len());
    let text = "a part of it was not written (its update sequence does not match)";
    let error = result.unwrap_err().to_string();
    assert!(
        error.starts_with("damaged: record 5: block ") && error.ends_with(&format!("of its index: {text}")),
        "{error}"
    );
    assert_eq!(path::walk(&mut *volume, &mut image, format!("/{}", names[0]).as_bytes()).err(), None);
    assert!(matches!(path::walk(&mut *volume, &mut image, b"/not there"), Err(Error::Damaged(_))));
}

#[test]
fn an_impossible_name_hides_no_other() {
    let (mut image, _) = filled("ntfs.name", 8, "4096", "512");
    let letters: Vec<u8> = "fills the folder 30".encode_utf16().flat_map(u16::to_le_bytes).collect();
    let name = image.bytes.windows(letters.len()).enumerate().filter(|(_, it)| *it == letters);
    let places: Vec<_> = name.map(|(at, _)| at as u64).collect();
    places.iter().for_each(|at| image.put(*at, b"/"));
    let mut volume = open(&mut image);
    let (names, result) = listed(&mut *volume, &mut image, "/");
    assert_eq!(names.len(), 2 + FILLERS);
    let error = result.unwrap_err().to_string();
    assert!(error.ends_with("is empty, or has a / or NUL"), "{error}");
}

#[test]
fn the_record_of_the_mft_is_read_from_its_mirror_if_it_is_damaged() {
    let (mut image, large) = filled("ntfs.mirror", 8, "4096", "512");
    let first = record(&image, 0).start as usize;
    image.bytes[first + 510] ^= 1;
    let mut volume = open(&mut image);
    assert_eq!(whole(&mut *volume, &mut image, "/large"), large);
    let mirror = (image.u32(0x38) * 4096) as usize;
    image.bytes[mirror] = 0;
    let error = ntfs::open(&mut image).err().unwrap();
    assert_eq!(error, Error::Damaged("record 0: it is not in use".into()));
}

#[test]
fn without_its_table_of_upper_cases_a_volume_finds_no_name() {
    let (mut image, _) = filled("ntfs.upcase", 8, "4096", "512");
    let place = record(&image, 10);
    image.bytes[place.start as usize] = 0;
    let mut volume = open(&mut image);
    let error = path::walk(&mut *volume, &mut image, b"/small").unwrap_err();
    assert_eq!(error, Error::Missing("record 10".into()));
    assert_eq!(names(&mut *volume, &mut image, "/").len(), 3 + FILLERS);
}

#[test]
fn what_is_no_ntfs_is_unknown_and_a_damaged_boot_sector_is_named() {
    assert!(matches!(ntfs::open(&mut Image::new(vec![0; 512])), Err(Error::Unknown(_))));
    assert!(matches!(ntfs::open(&mut Image::default()), Err(Error::Unknown(_))));
    let mut image = empty("ntfs.boot", 8, "4096", "512");
    image.put(0x0B, &[0, 0]);
    let error = ntfs::open(&mut image).err().unwrap().to_string();
    assert!(error.starts_with("damaged: NTFS: ") && error.contains("bytes_per_sector"), "{error}");
    assert_eq!(image.bytes(), 8 << 20);
}
