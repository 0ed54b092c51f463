use super::*;

const DISK: DiskId = DiskId([5; 16]);
const PAGE: Page = Page(77);
const GEOMETRY: Geometry =
    Geometry { page_bytes: 2048, spare_bytes: 64, block_pages: 64, blocks: 1024, correctable_bits: 4 };

fn run(sequence: u64, first: u32, units: u32) -> Run {
    let entry = |n| Entry { unit: Unit(n), checksum: n + 100 };
    let marks = vec![
        Mark { first: Unit(1000), count: 7, is_lost: false },
        Mark { first: Unit(2000), count: 1, is_lost: true },
    ];
    Run { sequence, kind: RunKind::Session, first, entries: (0..units).map(entry).collect(), marks }
}

fn record(runs: Vec<Run>) -> Record {
    Record {
        erases: 9,
        rest: 0,
        listed: vec![EraseBlock(3), EraseBlock(1000)],
        gaps: vec![Gap { after: 5, last: 8 }],
        runs,
    }
}

fn bytes(record: &Record) -> Vec<u8> {
    record.to_bytes(DISK, GEOMETRY.page_bytes, PAGE, |run| run.first + 2 * run.entries.len() as u32)
}

/// The page with its checksum made anew, after a change.
fn changed(record: &Record, at: usize, to: u8) -> Vec<u8> {
    let mut bytes = bytes(record);
    bytes[at] = to;
    finish(bytes, PAGE, GEOMETRY.page_bytes)
}

#[test]
fn a_record_is_read_as_written() {
    let record = record(vec![run(12, 10, 3), run(11, 1, 4)]);
    assert_eq!(Record::from_bytes(&bytes(&record), DISK, PAGE), Some(record));
}

#[test]
fn a_record_has_the_bytes_of_its_format() {
    let mut small = record(vec![run(12, 10, 1)]);
    small.runs[0].entries[0] = Entry { unit: Unit(0x0403_0201), checksum: 0x0807_0605 };
    let bytes = bytes(&small);
    assert_eq!(bytes[..8], *b"QFLASHR1");
    assert_eq!(bytes[8..24], [5; 16]);
    assert_eq!(bytes[28..40], [9, 0, 0, 0, 0, 0, 2, 0, 1, 0, 1, 0]);
    assert_eq!(bytes[40..48], [3, 0, 0, 0, 0xe8, 3, 0, 0]);
    assert_eq!(bytes[48..64], [5, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(bytes[64..80], [12, 0, 0, 0, 0, 0, 0, 0, 10, 0, 1, 0, 2, 0, 2, 0]);
    assert_eq!(bytes[80..89], [1, 2, 3, 4, 0, 5, 6, 7, 8]);
    assert_eq!(bytes[89..98], [0xe8, 3, 0, 0, 0, 7, 0, 0, 0]);
    assert_eq!(bytes[98..107], [0xd0, 7, 0, 0, 0, 1, 0, 0, 0x80]);
    assert!(bytes[107..].iter().all(|byte| *byte == 0));
    let checksum = crc32c::crc32c(&[&77_u32.to_le_bytes()[..], &bytes[..24], &bytes[28..]].concat());
    assert_eq!(bytes[24..28], checksum.to_le_bytes());
}

#[test]
fn a_record_that_has_no_room_for_a_run_names_the_record_that_has_it() {
    let runs = vec![run(12, 40, 150), run(11, 20, 150), run(10, 1, 1)];
    let read = Record::from_bytes(&bytes(&record(runs.clone())), DISK, PAGE).unwrap();
    assert!(read.runs == runs[..1], "only the newest run has room");
    assert_eq!(read.rest, 320);
}

#[test]
fn a_record_of_another_page_disk_or_kind_is_refused() {
    let bytes = bytes(&record(vec![run(12, 10, 3)]));
    assert_eq!(Record::from_bytes(&bytes, DISK, Page(78)), None);
    assert_eq!(Record::from_bytes(&bytes, DiskId([6; 16]), PAGE), None);
    assert_eq!(Header::from_bytes(&bytes, GEOMETRY, PAGE), None);
    for at in 0..100 {
        let mut bytes = bytes.clone();
        bytes[at] ^= 1;
        assert_eq!(Record::from_bytes(&bytes, DISK, PAGE), None, "byte {at}");
    }
}

#[test]
fn a_field_that_is_corrupt_beneath_a_right_checksum_is_refused() {
    let record = record(vec![run(12, 10, 1)]);
    for (at, to, field) in [
        (35, 255, "number of listed blocks"),
        (37, 255, "number of gaps"),
        (39, 255, "number of runs"),
        (75, 255, "number of units"),
        (77, 255, "number of marks"),
        (78, 3, "kind"),
        (84, 1, "fifth byte of a unit"),
        (93, 1, "fifth byte of a mark"),
    ] {
        assert_eq!(Record::from_bytes(&changed(&record, at, to), DISK, PAGE), None, "{field}");
    }
}

#[test]
fn a_header_is_read_as_written_and_refused_on_a_chip_of_another_shape() {
    let header = Header { erases: 4, units: 5 };
    let bytes = header.to_bytes(DISK, GEOMETRY, PAGE);
    assert_eq!(Header::from_bytes(&bytes, GEOMETRY, PAGE), Some((DISK, header)));
    assert_eq!(bytes[28..48], [4, 0, 0, 0, 5, 0, 0, 0, 0, 8, 0, 0, 64, 0, 0, 0, 0, 4, 0, 0]);
    for other in [
        Geometry { page_bytes: 4096, ..GEOMETRY },
        Geometry { block_pages: 32, ..GEOMETRY },
        Geometry { blocks: 1023, ..GEOMETRY },
    ] {
        assert_eq!(Header::from_bytes(&bytes, other, PAGE), None);
    }
}
