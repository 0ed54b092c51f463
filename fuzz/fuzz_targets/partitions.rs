//! Whatever a partition table says, it is read in bounded rounds, and the
//! partitions that are not refused are disjoint and lie within the disk.
#![no_main]
use libfuzzer_sys::fuzz_target;
use quietus_core::base::units::Extent;
use quietus_detect::formats::format::Contents;
use quietus_detect::partition::{Missing, PARTITIONS_MAX, Table, read};

const DISK_BYTES: usize = 1 << 20;
/// A chain of logical partitions takes one for each record.
const ROUNDS_MAX: usize = 1024;

/// A disk that holds the input from its start on, and its last sector at the
/// end; the first byte says whether sector 0 is signed, protective or neither.
fn disk(data: &[u8]) -> Vec<u8> {
    let mut disk = vec![0; DISK_BYTES];
    let Some((sort, data)) = data.split_first() else { return disk };
    let len = data.len().min(DISK_BYTES);
    disk[..len].copy_from_slice(&data[..len]);
    if sort & 1 != 0 {
        disk[510..512].copy_from_slice(&[0x55, 0xAA]);
        (0..4).for_each(|n| disk[446 + 16 * n] &= 0x80);
    }
    if sort & 2 != 0 {
        disk[450] = 0xEE;
    }
    if let Some(header) = data.last_chunk::<512>() {
        disk[DISK_BYTES - 512..].copy_from_slice(header);
    }
    disk
}

fn read_all(disk: &[u8]) -> Option<Table> {
    let mut contents = Contents::default();
    for _ in 0..ROUNDS_MAX {
        let Missing(extents) = match read(disk.len() as u64, &contents) {
            Ok(table) => return table,
            Err(missing) => missing,
        };
        for it in extents {
            assert!(contents.get(it).is_none(), "asked for twice");
            contents.insert(it.start, disk[it.start.0 as usize..it.end() as usize].to_vec());
        }
    }
    panic!("it asks for ever");
}

fuzz_target!(|data: &[u8]| {
    let disk = disk(data);
    let Some(table) = read_all(&disk) else { return };
    let fine: Vec<_> = table.partitions.iter().filter(|it| it.refused.is_none()).collect();
    assert!(fine.len() <= PARTITIONS_MAX);
    let whole = Extent::new(0, disk.len() as u64);
    for (n, it) in fine.iter().enumerate() {
        assert!(it.extent.is_empty() || whole.overlap(it.extent) == Some(it.extent));
        assert!(!table.pieces.iter().any(|piece| piece.overlaps(it.extent)));
        assert!(!fine[..n].iter().any(|other| other.extent.overlaps(it.extent)));
    }
});
