use crate::disk::partition::Table;
use crate::disk::partition::gpt::crc32;
use crate::disk::partition::tests::{Image, entry, image, partitions, refusals};
use quietus_core::base::units::Extent;

const ENTRIES: usize = 128;
const ENTRY: usize = 128;

/// A disk of 64 MiB with a GPT that has these partitions (first and last
/// sector), as `sgdisk` makes it, for sectors of `sector` bytes.
fn gpt(sector: usize, partitions: &[(u64, u64)]) -> Image {
    let mut image = image(64).mbr(&[entry(0xEE, 1, u32::MAX)]);
    let mut entries = vec![0; ENTRIES * ENTRY];
    for (entry, (first, last)) in entries.chunks_exact_mut(ENTRY).zip(partitions) {
        entry[..16].fill(7);
        entry[32..40].copy_from_slice(&first.to_le_bytes());
        entry[40..48].copy_from_slice(&last.to_le_bytes());
    }
    let last = image.bytes.len() / sector - 1;
    let table = entries.len() / sector;
    for (lba, entries_lba) in [(1, 2), (last, last - table)] {
        let header = header(lba, entries_lba, (2 + table, last - table - 1), &entries);
        image.bytes[lba * sector..][..512].copy_from_slice(&header);
        image.bytes[entries_lba * sector..][..entries.len()].copy_from_slice(&entries);
    }
    image
}

fn header(lba: usize, entries_lba: usize, usable: (usize, usize), entries: &[u8]) -> Vec<u8> {
    let mut header = vec![0; 512];
    header[..8].copy_from_slice(b"EFI PART");
    put(&mut header, 12, 4, 92);
    put(&mut header, 24, 8, lba);
    put(&mut header, 40, 8, usable.0);
    put(&mut header, 48, 8, usable.1);
    put(&mut header, 72, 8, entries_lba);
    put(&mut header, 80, 4, ENTRIES);
    put(&mut header, 84, 4, ENTRY);
    put(&mut header, 88, 4, crc32(entries) as usize);
    seal(&mut header);
    header
}

fn put(bytes: &mut [u8], at: usize, len: usize, number: usize) {
    bytes[at..at + len].copy_from_slice(&(number as u64).to_le_bytes()[..len]);
}

fn seal(header: &mut [u8]) {
    header[16..20].fill(0);
    let crc = crc32(&header[..92]);
    header[16..20].copy_from_slice(&crc.to_le_bytes());
}

const TWO: &[(u64, u64)] = &[(2048, 4095), (4096, 8191)];

fn two() -> Vec<(u32, Extent<quietus_core::base::units::Addr>)> {
    vec![(1, Extent::new(1 << 20, 1 << 20)), (2, Extent::new(2 << 20, 2 << 20))]
}

#[test]
fn the_checksum_is_the_one_of_ethernet() {
    assert_eq!(crc32(b"123456789"), 0xCBF4_3926);
}

#[test]
fn partitions_lie_where_their_entries_say_in_sectors_of_either_size() {
    for (sector, entries, expected) in
        [(512, TWO, two()), (4096, &[(256, 511), (512, 1023)], two()), (512, &[], vec![])]
    {
        let table = gpt(sector, entries).read().unwrap();
        let found = (table.name, partitions(&table), refusals(&table));
        assert_eq!(found, ("GPT", expected, vec![]), "{sector}: {entries:?}");
    }
}

#[test]
fn entries_beside_the_protective_one_do_not_count() {
    let hybrid = gpt(512, TWO).mbr(&[entry(0xEE, 1, 2047), entry(0x0C, 3000, 20_000)]);
    assert_eq!(partitions(&hybrid.read().unwrap()), two());
}

#[test]
fn without_a_protective_entry_there_is_no_gpt() {
    let image = gpt(512, TWO).mbr(&[entry(0x83, 3000, 20_000)]);
    assert_eq!(image.read().unwrap().name, "MBR");
    let mut image = gpt(512, TWO);
    image.bytes[..512].fill(0);
    assert_eq!(image.read(), None);
}

/// The table, once `break_it` has changed the first header (which then is
/// sealed anew).
fn with_first(break_it: impl Fn(&mut [u8])) -> Table {
    let mut image = gpt(512, TWO);
    let header = &mut image.bytes[512..1024];
    break_it(header);
    seal(header);
    image.read().unwrap()
}

#[test]
fn each_field_that_lies_makes_the_backup_count() {
    // Offset, bytes, what it says wrongly.
    for (at, len, lies) in [
        (0, 1, &[0x65][..]),
        (12, 4, &[91, 513]),
        (24, 8, &[2]),
        (40, 8, &[200_000, 3]),
        (48, 8, &[131_072]),
        (72, 8, &[0, 131_071, usize::MAX]),
        (80, 4, &[0, 4096, 127]),
        (84, 4, &[64, 192, 8192]),
        (88, 4, &[1]),
    ] {
        for number in lies {
            let table = with_first(|header| put(header, at, len, *number));
            let expected = ("GPT, by its backup", two());
            assert_eq!((table.name, partitions(&table)), expected, "{at}: {number}");
        }
    }
    assert_eq!(with_first(|_| {}).name, "GPT");
}

#[test]
fn a_header_or_entries_of_another_checksum_make_the_backup_count() {
    for at in [512 + 56, 512 + 16, 1024 + 40, 1024 + 16 * 1024 - 1] {
        let mut image = gpt(512, TWO);
        image.bytes[at] ^= 1;
        let table = image.read().unwrap();
        assert_eq!((table.name, partitions(&table)), ("GPT, by its backup", two()), "{at}");
    }
}

#[test]
fn two_broken_copies_refuse_the_disk() {
    let mut image = gpt(512, TWO);
    image.bytes[1024] ^= 1;
    let last = image.bytes.len() - 512;
    image.bytes[last] ^= 1;
    let table = image.read().unwrap();
    let why = table.broken.unwrap().to_string();
    let first =
        "the first copy is invalid (the header has an invalid field: `PartitionEntryArrayCRC32` is 0x";
    assert!(why.starts_with(first), "{why}");
    assert!(why.ends_with("), and so is the backup (the signature is missing)"), "{why}");
    assert_eq!(table.partitions, []);
}

#[test]
fn entries_that_lie_are_refused_alone() {
    let table = gpt(512, &[(5000, 4999), (2048, 4095), (33, 40), (130_000, u64::MAX)]).read().unwrap();
    let usable = "it lies outside of the sectors that its table calls usable".to_string();
    let backwards = (1, "it ends before it begins".into());
    assert_eq!(refusals(&table), [(3, usable.clone()), backwards, (4, usable)]);
    assert_eq!(partitions(&table), [(2, two()[0].1)]);
}

#[test]
fn a_table_full_of_one_partition_watches_none() {
    let table = gpt(512, &[(2048, 4095); 128]).read().unwrap();
    assert_eq!((table.partitions.len(), partitions(&table).len()), (128, 0));
    assert!(refusals(&table).iter().all(|(_, why)| why == "it overlaps another partition"));
}
