use crate::disk::partition::tests::{Image, entry, image, partitions, refusals};
use quietus_core::base::units::Extent;

/// 1 MiB each, in sectors.
const MIB: u32 = 2048;

#[test]
fn primary_partitions_lie_where_their_entries_say() {
    let image = image(64).mbr(&[entry(0x83, 63, 100), entry(0, 0, 0), entry(0x0C, MIB, 7)]);
    let table = image.read().unwrap();
    assert_eq!(table.name, "MBR");
    assert_eq!(
        partitions(&table),
        [(1, Extent::new(63 * 512, 100 * 512)), (3, Extent::new(1 << 20, 7 * 512))]
    );
}

#[test]
fn a_boot_sector_of_a_file_system_is_no_table() {
    let mut fat = image(4).mbr(&[entry(0x83, 63, 100)]);
    fat.bytes[446] = 0x41;
    assert_eq!(fat.read(), None);
    let mut last = image(4).mbr(&[entry(0x83, 63, 100)]);
    last.bytes[446 + 48] = 1;
    assert_eq!(last.read(), None);
    assert_eq!(image(4).mbr(&[]).read(), None, "no entry is used");
    let mut unsigned = image(4).mbr(&[entry(0x83, 63, 100)]);
    unsigned.bytes[510] = 0;
    assert_eq!(unsigned.read(), None);
}

/// An extended partition of 16 MiB from sector 2 MiB on, with these records:
/// where, and its two entries, all relative as the format has it.
fn extended(records: &[(u32, [[u8; 16]; 2])]) -> Image {
    let mut image = image(64).mbr(&[entry(0x83, MIB, MIB), entry(0x05, 2 * MIB, 16 * MIB)]);
    for (at, entries) in records {
        image = image.record(2 * MIB + at, entries);
    }
    image
}

const LAST: [u8; 16] = [0; 16];

#[test]
fn logical_partitions_are_found_along_their_chain() {
    let image = extended(&[
        (0, [entry(0x83, 63, 100), entry(0x05, MIB, MIB)]),
        (MIB, [entry(0x83, 1, 99), entry(0x05, 3 * MIB, MIB)]),
        (3 * MIB, [entry(0x83, 8, 10), LAST]),
    ]);
    let at = |sector: u32, count: u64| Extent::new(u64::from(sector) * 512, count * 512);
    let table = image.read().unwrap();
    assert_eq!(
        partitions(&table),
        [
            (1, at(MIB, u64::from(MIB))),
            (5, at(2 * MIB + 63, 100)),
            (6, at(3 * MIB + 1, 99)),
            (7, at(5 * MIB + 8, 10)),
        ]
    );
    let records = [2 * MIB, 3 * MIB, 5 * MIB].map(|sector| at(sector, 1));
    assert!(records.iter().all(|record| table.pieces.contains(record)));
}

fn broken(image: &Image) -> String {
    let table = image.read().unwrap();
    assert_eq!(partitions(&table).len(), 1, "the primary one does not depend on the chain");
    let [(2, why)] = &refusals(&table)[..] else { panic!("{table:?}") };
    why.clone()
}

#[test]
fn a_chain_that_is_broken_is_left() {
    let first = |next| (0, [entry(0x83, 63, 100), entry(0x05, next, MIB)]);
    let loops = extended(&[first(MIB), (MIB, [entry(0x83, 1, 99), entry(0x05, 0, MIB)])]);
    let endless = (0..200).map(|n| (n, [entry(0x83, 63, 1), entry(0x05, n + 1, 1)]));
    for (why, disk) in [
        ("comes back to itself", loops),
        ("comes back to itself", extended(&[(0, [LAST, entry(0x05, 0, MIB)])])),
        ("is too long", extended(&endless.collect::<Vec<_>>())),
        ("leaves its extended partition", extended(&[first(16 * MIB)])),
        ("is torn", extended(&[first(MIB)])),
        ("ends beyond the disk", image(8).mbr(&[entry(0x83, MIB, MIB), entry(0x0F, 32 * MIB, MIB)])),
    ] {
        assert_eq!(broken(&disk), format!("the chain of logical partitions {why}"));
    }
}

#[test]
fn a_logical_partition_outside_of_its_extended_one_is_refused() {
    let table = extended(&[(0, [entry(0x83, 63, 20 * MIB), LAST])]).read().unwrap();
    assert_eq!(refusals(&table), [(5, "it leaves its extended partition".to_string())]);
    let empty = extended(&[]).read().unwrap();
    assert_eq!((partitions(&empty).len(), refusals(&empty).len()), (1, 0), "it may be empty");
}
