//! Files whose attributes lie in several records, made by hand.

use super::{FILLERS, attribute, filled, open, record};
use crate::image::Image;
use crate::tree::{at, names, runs, whole};
use quietus_files::{Error, FileId, ntfs};

/// The record that is made to extend others: one of the system's that has no use.
pub const EXTENSION: u64 = 15;
/// Clusters that the first part of a file keeps.
pub const KEPT: u64 = 5;
const CLUSTER_BYTES: u64 = 4096;

/// The end of each 512 bytes of a record, which the update sequence has.
fn ends(record: &[u8]) -> [(usize, usize); 2] {
    let usa = usize::from(record[4]);
    [(usa + 2, 510), (usa + 4, 1022)]
}

/// Record `number`, with other bytes between its header and its end.
pub fn change(image: &mut Image, number: u64, change: impl FnOnce(&mut [u8])) {
    let start = record(image, number).start;
    let bytes = &mut image.bytes[start as usize..][..1024];
    for (saved, end) in ends(bytes) {
        bytes.copy_within(saved..saved + 2, end);
    }
    change(bytes);
    let usa = usize::from(bytes[4]);
    for (saved, end) in ends(bytes) {
        bytes.copy_within(end..end + 2, saved);
        bytes.copy_within(usa..usa + 2, end);
    }
}

/// Gives record `number` these attributes, and lets it extend the record `base`, or no record if that is 0.
fn set_attributes(image: &mut Image, number: u64, base: u64, attributes: &[u8]) {
    change(image, number, |bytes| {
        let start = usize::from(bytes[0x14]);
        let end = start + attributes.len();
        bytes[start..end].copy_from_slice(attributes);
        bytes[end..end + 4].fill(0xFF);
        bytes[0x18..0x1C].copy_from_slice(&(end as u32 + 8).to_le_bytes());
        bytes[0x20..0x28].copy_from_slice(&base.to_le_bytes());
    });
}

/// The number of a record, and its sequence number.
fn reference(image: &Image, number: u64) -> u64 {
    number | image.u16(record(image, number).start + 0x10) << 48
}

/// The attributes of a record, whole, with their types.
fn attributes(image: &Image, number: u64) -> Vec<(u64, Vec<u8>)> {
    let record = record(image, number);
    let (mut at, mut found) = (record.start + image.u16(record.start + 0x14), Vec::new());
    while image.u32(at) != 0xFFFF_FFFF {
        let len = image.u32(at + 4);
        found.push((image.u32(at), image.bytes[at as usize..][..len as usize].to_vec()));
        at += len;
    }
    found
}

/// The clusters from `vcn` to `end` of the attribute `data`, which lie together from `lcn` on.
fn part(data: &[u8], vcn: u64, end: u64, lcn: u64) -> Vec<u8> {
    let mut part = data[..0x40].to_vec();
    (part[4], part[0x20]) = (0x48, 0x40);
    part[0x10..0x18].copy_from_slice(&vcn.to_le_bytes());
    part[0x18..0x20].copy_from_slice(&(end - 1).to_le_bytes());
    part.extend([0x21, (end - vcn) as u8, lcn as u8, (lcn >> 8) as u8, 0, 0, 0, 0]);
    part
}

/// An entry of a list of attributes.
fn entry(kind: u64, vcn: u64, mft_reference: u64) -> Vec<u8> {
    let head = [kind as u8, 0, 0, 0, 32, 0, 0, 26];
    [head.to_vec(), [vcn, mft_reference, 0].iter().flat_map(|it| it.to_le_bytes()).collect()].concat()
}

/// A list of attributes with these entries, within the record.
fn list(entries: &[Vec<u8>]) -> Vec<u8> {
    let entries = entries.concat();
    let len = entries.len() as u8;
    let head = [0x20, 0, 0, 0, 24 + len, 0, 0, 0, 0, 0, 24, 0, 0, 0, 9, 0, len, 0, 0, 0, 24, 0, 0, 0];
    [head.to_vec(), entries].concat()
}

/// Splits the content of a file, which lies together: its clusters from [`KEPT`] on lie from `lcn` on, as record `extension` says.
fn split(image: &mut Image, number: u64, lcn: u64, extension: u64) {
    let (own, other) = (reference(image, number), reference(image, extension));
    let data_at = attribute(image, number, 0x80);
    let end = image.u32(data_at + 0x18) + 1;
    let (mut kept, mut entries, mut moved) = (Vec::new(), Vec::new(), Vec::new());
    let first = first_lcn(image, number);
    for (kind, bytes) in attributes(image, number) {
        entries.push(entry(kind, 0, own));
        if kind == 0x80 {
            entries.push(entry(kind, KEPT, other));
            moved = part(&bytes, KEPT, end, lcn);
            kept.push(part(&bytes, 0, KEPT, first));
        } else {
            kept.push(bytes);
        }
    }
    kept.insert(1, list(&entries));
    set_attributes(image, number, 0, &kept.concat());
    set_attributes(image, extension, own, &moved);
}

/// The first cluster of a file, whose first pair has a place of one to three bytes.
fn first_lcn(image: &Image, number: u64) -> u64 {
    let data = attribute(image, number, 0x80);
    let pair = data + image.u16(data + 0x20);
    let sizes = u64::from(image.bytes[pair as usize]);
    image.u32(pair + 1 + (sizes & 0xF)) & ((1 << ((sizes >> 4) * 8)) - 1)
}

/// A volume whose large file lies in two records, that file, and its content.
pub fn split_large(name: &str) -> (Image, FileId, Vec<u8>) {
    let (mut image, large) = filled(name, 8, "4096", "512");
    let mut volume = open(&mut image);
    let file = at(&mut *volume, &mut image, "/large");
    let lcn = first_lcn(&image, file.number) + KEPT;
    split(&mut image, file.number, lcn, EXTENSION);
    (image, file, large)
}

#[test]
fn a_file_in_two_records_is_read() {
    let (mut image, file, large) = split_large("ntfs.records");
    let mut volume = open(&mut image);
    assert_eq!(whole(&mut *volume, &mut image, "/large"), large);
    let found = runs(&mut *volume, &mut image, file).unwrap();
    let bytes: Vec<_> = found.iter().map(|it| (it.at, it.bytes)).collect();
    assert_eq!(bytes, [(0, KEPT * CLUSTER_BYTES), (KEPT * CLUSTER_BYTES, 200_001 - KEPT * CLUSTER_BYTES)]);
    let attributes = volume.attributes(&mut image, file).unwrap();
    assert_eq!((attributes.bytes, attributes.links), (200_001, Some(1)));
    let text = format!("file with record {EXTENSION}: it extends record {}", file.number);
    assert_eq!(volume.file(&mut image, EXTENSION), Err(Error::Missing(text)));
}

#[test]
fn a_record_that_does_not_extend_the_file_is_an_error_of_that_file() {
    let (image, file, large) = split_large("ntfs.extension");
    for (offset, value, text) in [
        (0x10, 99, "sequence_number 99, not 15"),
        (0x20, 0, &*format!("base_mft_record 0x1000000000000, and record {} lists it", file.number)),
        (0x20, 40, &*format!("base_mft_record 0x1000000000028, and record {} lists it", file.number)),
    ] {
        let mut image = image.clone();
        change(&mut image, EXTENSION, |bytes| bytes[offset] = value);
        let mut volume = open(&mut image);
        let damaged = Err(Error::Damaged(format!("record {EXTENSION}: {text}")));
        assert_eq!(volume.read(&mut image, file, 0, 5), Ok(large[..5].to_vec()), "it is not needed");
        assert_eq!(volume.read(&mut image, file, 30_000, 5), damaged);
        assert_eq!(runs(&mut *volume, &mut image, file).map(|_| Vec::new()), damaged);
        assert_eq!(whole(&mut *volume, &mut image, "/small"), b"small");
    }
}

#[test]
fn parts_that_do_not_follow_each_other_are_an_error() {
    let (image, file, _) = split_large("ntfs.parts");
    let entries = attribute(&image, file.number, 0x20) + 24;
    let second = (entries..).step_by(32).find(|at| image.u32(*at + 8) == KEPT).unwrap();
    let end = KEPT * CLUSTER_BYTES;
    for (vcn, text) in [
        (0, "lowest_vcn of attribute 0x80 does not rise from 0".into()),
        (4, format!("the runs end at byte {end}, and initialized_size is 200001")),
        (6, format!("the runs end at byte {end}, and initialized_size is 200001")),
    ] {
        let mut image = image.clone();
        let within = (second - record(&image, file.number).start) as usize + 8;
        change(&mut image, file.number, |bytes| bytes[within] = vcn);
        let mut volume = open(&mut image);
        let found = runs(&mut *volume, &mut image, file).map(|_| ());
        assert_eq!(found, Err(Error::Damaged(format!("record {}: {text}", file.number))), "{vcn}");
    }
}

#[test]
fn a_list_that_names_the_file_for_each_part_is_no_loop() {
    let (mut image, file, _) = split_large("ntfs.loop");
    let entries = attribute(&image, file.number, 0x20) + 24;
    let second = (entries..).step_by(32).find(|at| image.u32(*at + 8) == KEPT).unwrap();
    let (within, own) =
        ((second - record(&image, file.number).start) as usize + 16, reference(&image, file.number));
    change(&mut image, file.number, |bytes| bytes[within..within + 8].copy_from_slice(&own.to_le_bytes()));
    let mut volume = open(&mut image);
    let text = format!("base_mft_record 0x0, and record {} lists it", file.number);
    let damaged = Error::Damaged(format!("record {}: {text}", file.number));
    assert_eq!(runs(&mut *volume, &mut image, file), Err(damaged));
}

/// Moves all but the first clusters of `$MFT` to byte 6 MiB, and lets record `extension` say so.
pub fn split_mft(image: &mut Image, extension: u64) {
    const MOVED: u64 = 6 << 20;
    let end = image.u32(attribute(image, 0, 0x80) + 0x18) + 1;
    let (start, len) = (record(image, 0).start + KEPT * CLUSTER_BYTES, (end - KEPT) * CLUSTER_BYTES);
    split(image, 0, MOVED / CLUSTER_BYTES, extension);
    let rest = image.bytes[start as usize..][..len as usize].to_vec();
    image.put(start, &vec![0; len as usize]);
    image.put(MOVED, &rest);
}

#[test]
fn a_mft_in_several_records_is_read() {
    let (image, large) = filled("ntfs.split", 8, "4096", "512");
    let mut split = image.clone();
    split_mft(&mut split, EXTENSION);
    let mut volume = open(&mut split);
    assert_eq!(names(&mut *volume, &mut split, "/").len(), 3 + FILLERS);
    assert_eq!(whole(&mut *volume, &mut split, "/large"), large);
    assert_eq!(whole(&mut *volume, &mut split, "/small"), b"small");
    // A record whose place only the record itself tells.
    let mut lost = image;
    split_mft(&mut lost, 30);
    let error = ntfs::open(&mut lost).err().unwrap();
    assert_eq!(error, Error::Damaged("record 30: it lies behind the runs of $MFT".into()));
}
