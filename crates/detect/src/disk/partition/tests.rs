use crate::disk::partition::{
    Contents, Missing, PARTITIONS_MAX, Partition, Table, read, refuse_overlaps, sectors,
};
use quietus_core::base::units::{Addr, Extent};

/// The bytes of a disk.
pub(crate) struct Image {
    pub bytes: Vec<u8>,
}

/// A disk of so many MiB of zeros.
pub(crate) fn image(mib: usize) -> Image {
    Image { bytes: vec![0; mib << 20] }
}

/// An entry of a boot record, in sectors.
pub(crate) fn entry(kind: u8, first: u32, sectors: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[4] = kind;
    bytes[8..12].copy_from_slice(&first.to_le_bytes());
    bytes[12..].copy_from_slice(&sectors.to_le_bytes());
    bytes
}

impl Image {
    pub(crate) fn mbr(self, entries: &[[u8; 16]]) -> Self {
        self.record(0, entries)
    }

    pub(crate) fn record(mut self, sector: u32, entries: &[[u8; 16]]) -> Self {
        let record = &mut self.bytes[sector as usize * 512..][..512];
        record[446..446 + entries.len() * 16].copy_from_slice(&entries.concat());
        record[510..].copy_from_slice(&[0x55, 0xAA]);
        self
    }

    pub(crate) fn read(&self) -> Option<Table> {
        self.seen(read)
    }

    /// What `look` makes of the disk, once it has read all that it asks for.
    pub(crate) fn seen<T>(&self, look: impl Fn(u64, &Contents) -> Result<T, Missing>) -> T {
        let (len, mut contents) = (self.bytes.len() as u64, Contents::default());
        loop {
            let Missing(extents) = match look(len, &contents) {
                Ok(seen) => return seen,
                Err(missing) => missing,
            };
            for it in extents {
                assert!(contents.get(it).is_none(), "asked for twice");
                contents.insert(it.start, self.bytes[it.start.0 as usize..it.end() as usize].to_vec());
            }
        }
    }
}

/// The partitions that are not refused.
pub(crate) fn partitions(table: &Table) -> Vec<(u32, Extent<Addr>)> {
    assert_eq!(table.broken, None);
    let fine = table.partitions.iter().filter(|it| it.refused.is_none());
    fine.map(|it| (it.number, it.extent)).collect()
}

/// The partitions that are refused, and why.
pub(crate) fn refusals(table: &Table) -> Vec<(u32, String)> {
    let refused = table.partitions.iter().filter_map(|it| Some((it.number, it.refused.as_ref()?)));
    refused.map(|(number, why)| (number, why.to_string())).collect()
}

#[test]
fn a_disk_of_zeros_or_of_nothing_has_no_table() {
    assert_eq!(image(1).read(), None);
    assert_eq!(Image { bytes: vec![0; 511] }.read(), None);
    assert_eq!(Image { bytes: Vec::new() }.read(), None);
}

#[test]
fn a_partition_beyond_the_disk_or_over_the_table_is_refused() {
    let (beyond, over) = ("it ends beyond the disk", "it lies over the partition table");
    for (entries, refused) in [
        (&[entry(1, 100, 10), entry(1, 2000, 49)][..], &[(2, beyond.to_string())][..]),
        (&[entry(1, 100, 10), entry(1, 2000, 48)], &[]),
        (&[entry(1, u32::MAX, u32::MAX)], &[(1, beyond.to_string())]),
        (&[entry(1, 0, 10), entry(1, 10, 10)], &[(1, over.to_string())]),
    ] {
        assert_eq!(refusals(&image(1).mbr(entries).read().unwrap()), refused);
    }
}

fn partition(number: u32, start: u64, end: u64) -> Partition {
    Partition { number, extent: Extent::between(start, end), refused: None }
}

/// All pairs are compared, one with the other.
fn literally_overlapping(partitions: &[Partition]) -> Vec<u32> {
    let others =
        |a: &Partition| partitions.iter().any(|b| a.number != b.number && a.extent.overlaps(b.extent));
    partitions.iter().filter(|it| others(it)).map(|it| it.number).collect()
}

#[test]
fn whatever_overlaps_is_found() {
    // Every set of up to four of the ranges within 0..5.
    let ranges: Vec<_> = (0..5).flat_map(|start| (start..=5).map(move |end| (start, end))).collect();
    let mut checked = 0;
    for code in 0..ranges.len().pow(4) {
        let mut partitions: Vec<_> = (0..4)
            .map(|n| ranges[code / ranges.len().pow(n) % ranges.len()])
            .zip(1..)
            .map(|((start, end), number)| partition(number, start, end))
            .collect();
        partitions.sort_by_key(|it| (it.extent.start, it.number));
        let expected = literally_overlapping(&partitions);
        refuse_overlaps(&mut partitions);
        let refused: Vec<_> =
            partitions.iter().filter(|it| it.refused.is_some()).map(|it| it.number).collect();
        assert_eq!(refused, expected, "{partitions:?}");
        checked += 1;
    }
    assert_eq!(checked, 160_000);
}

#[test]
fn more_partitions_than_are_watched_are_refused() {
    let mut table =
        Table { name: "GPT", partitions: Vec::new(), broken: None, pieces: vec![Extent::new(0, 512)] };
    table.partitions = (1..=200).map(|n| partition(n, u64::from(n) * 512, u64::from(n + 1) * 512)).collect();
    crate::disk::partition::judge(&mut table, 1 << 20);
    assert_eq!(partitions(&table).len(), PARTITIONS_MAX);
    assert!(refusals(&table).iter().all(|(_, why)| why == "only 128 partitions of a disk are watched"));
}

#[test]
fn sectors_that_no_disk_reaches_end_at_the_last_address() {
    assert_eq!(sectors(u64::MAX, u64::MAX, 4096), Extent::between(u64::MAX, u64::MAX));
    assert_eq!(sectors(1, u64::MAX, 512), Extent::between(512, u64::MAX));
}
