//! Tables of chance, against the dullest model: all clusters seen so far, in a list.

use crate::clusters::owners::{Claim, Folders, walk};
use crate::clusters::walk::{Node, Place, Stream, plain};
use crate::clusters::*;
use crate::{Attributes, FileId, Kind, Owner, Unread};

/// Clusters of 2 bytes, which hold their own number; the table begins at byte 8.
struct Disk {
    bytes: Vec<u8>,
    layout: Layout,
    next: Vec<u32>,
}

impl Source for Disk {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn read(&mut self, at: Extent<Addr>) -> Result<Vec<u8>, Unread> {
        Ok(self.bytes[at.start.0 as usize..at.end() as usize].to_vec())
    }
}

struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u32) -> u32 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % end
    }
}

fn write(table: &mut [u8], entries: Entries, n: u32, value: u32) {
    let at = entries.bytes(n).start as usize;
    let value = value.to_le_bytes();
    match entries {
        Entries::Fat(Width::Fat12) if n.is_multiple_of(2) => {
            (table[at], table[at + 1]) = (value[0], table[at + 1] & 0xF0 | value[1] & 0xF);
        }
        Entries::Fat(Width::Fat12) => {
            (table[at], table[at + 1]) = (table[at] & 0xF | value[0] << 4, value[0] >> 4 | value[1] << 4);
        }
        Entries::Fat(Width::Fat16) => table[at..at + 2].copy_from_slice(&value[..2]),
        Entries::Fat(Width::Fat32) | Entries::ExFat => table[at..at + 4].copy_from_slice(&value),
    }
}

/// A disk with this table from cluster 2 on; the first two entries are 0.
fn disk(entries: Entries, next: &[u32]) -> Disk {
    let clusters = next.len() as u32;
    let table_bytes = entries.bytes(clusters + 1).end;
    let mut table = vec![0; table_bytes as usize];
    next.iter().zip(FIRST_CLUSTER..).for_each(|(value, n)| write(&mut table, entries, n, *value));
    let heap = (FIRST_CLUSTER..FIRST_CLUSTER + clusters).flat_map(|n| (n as u16).to_le_bytes());
    let bytes = [0; 8].into_iter().chain(table).chain(heap).collect();
    let layout =
        Layout { entries, table: 8..8 + table_bytes, heap: 8 + table_bytes, cluster_bytes: 2, clusters };
    Disk { bytes, layout, next: next.to_vec() }
}

/// The clusters of the chain from `first` on, each once; and whether it ever comes back.
fn all_of(disk: &Disk, first: u32) -> (Vec<u32>, bool) {
    let mut seen = vec![first];
    let mut at = first;
    loop {
        at = disk.next[(at - FIRST_CLUSTER) as usize];
        let is_loop = seen.contains(&at);
        if is_loop || !disk.layout.is_cluster(at) {
            return (seen, is_loop);
        }
        seen.push(at);
    }
}

/// The first `len` clusters of the chain from `first` on, if it is sound so far; and whether it ever comes back.
fn modelled(disk: &Disk, first: u32, len: usize) -> (Option<Vec<u32>>, bool) {
    let (seen, is_loop) = all_of(disk, first);
    (seen.get(..len).map(<[u32]>::to_vec), is_loop)
}

fn node(first: u32, bytes: u64) -> Node {
    let attributes = Attributes { kind: Kind::Regular, ..plain(bytes) };
    Node { attributes, stream: Stream { place: Place::Chain(first), bytes, is_open: false } }
}

/// The numbers of the clusters that the content is made of.
fn content(clusters: &mut Clusters, disk: &mut Disk, first: u32, len: usize) -> Result<Vec<u32>, Error> {
    let content = clusters.content(disk, node(first, 2 * len as u64), 0, 2 * len)?;
    Ok(content.chunks(2).map(|it| u16::from_le_bytes([it[0], it[1]]).into()).collect())
}

/// A volume of one file, or of the same file without end.
struct Volume {
    clusters: Clusters,
    file: Claim,
    is_endless: bool,
}

const FILE: FileId = FileId { number: 7, generation: 0 };

impl Volume {
    /// Of a file of `len` clusters.
    fn new(disk: &Disk, first: u32, len: usize) -> Self {
        let stream = Stream { place: Place::Chain(first), bytes: 2 * len as u64, is_open: false };
        let file = Claim { owner: Owner::File(FILE), stream, is_folder: false };
        Self { clusters: Clusters::new(disk.layout.clone()), file, is_endless: false }
    }

    /// The clusters of the file, as the walk tells them.
    fn told(&mut self, disk: &mut Disk, wanted: Option<FileId>) -> Result<Vec<u32>, Error> {
        let (mut told, heap) = (Vec::new(), disk.layout.heap);
        walk(self, disk, wanted, &mut |owner, extent| {
            assert_eq!(owner, Owner::File(FILE));
            told.extend((extent.start.0..extent.end()).step_by(2).map(|at| ((at - heap) / 2) as u32 + 2));
        })?;
        Ok(told)
    }
}

impl Folders for Volume {
    fn touch(&self, _: &mut dyn Source) -> Result<(), Error> {
        Ok(())
    }

    fn clusters(&mut self) -> &mut Clusters {
        &mut self.clusters
    }

    fn top(&self) -> Stream {
        Stream { place: Place::Piece(0), bytes: 1, is_open: false }
    }

    fn claims(
        &mut self,
        _: &mut dyn Source,
        _: Stream,
        found: &mut dyn FnMut(Claim) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let times = if self.is_endless { usize::MAX } else { 1 };
        (0..times).try_for_each(|_| found(self.file))
    }
}

const KINDS: [Entries; 4] =
    [Entries::Fat(Width::Fat12), Entries::Fat(Width::Fat16), Entries::Fat(Width::Fat32), Entries::ExFat];

#[test]
fn a_chain_is_that_of_the_model_or_an_error() {
    let (mut dice, mut sound, mut loops) = (Dice(7), 0, 0);
    for round in 0..4000 {
        let entries = KINDS[round % 4];
        let count = 1 + dice.below(12);
        let mut value = || match dice.below(12) {
            0 => 0,
            1 | 2 => entries.end(),
            3 => entries.end() - 1,
            _ => FIRST_CLUSTER + dice.below(count + 1),
        };
        let next: Vec<_> = (0..count).map(|_| value()).collect();
        let mut disk = disk(entries, &next);
        let mut clusters = Clusters::new(disk.layout.clone());
        for first in FIRST_CLUSTER..FIRST_CLUSTER + count {
            let len = 1 + dice.below(count + 2) as usize;
            let (model, is_loop) = modelled(&disk, first, len);
            match content(&mut clusters, &mut disk, first, len) {
                Ok(found) => assert_eq!(Some(found), model, "{next:?} from {first}"),
                Err(error) => assert!(model.is_none() || is_loop, "{next:?} from {first}: {error}"),
            }
            sound += u32::from(model.is_some());
            loops += u32::from(is_loop);
        }
    }
    assert!(sound > 1000 && loops > 1000, "{sound} {loops}");
}

#[test]
fn a_file_has_the_whole_chain_of_the_model_or_it_is_an_error() {
    let (mut dice, mut longer, mut loops) = (Dice(8), 0, 0);
    for round in 0..4000 {
        let entries = KINDS[round % 4];
        let count = 1 + dice.below(12);
        let mut value = || match dice.below(12) {
            0 => 0,
            1 | 2 => entries.end(),
            3 => entries.end() - 1,
            _ => FIRST_CLUSTER + dice.below(count + 1),
        };
        let next: Vec<_> = (0..count).map(|_| value()).collect();
        let mut disk = disk(entries, &next);
        for first in FIRST_CLUSTER..FIRST_CLUSTER + count {
            let len = 1 + dice.below(count) as usize;
            let (model, is_loop) = all_of(&disk, first);
            let mut volume = Volume::new(&disk, first, len);
            let told = volume.told(&mut disk, None);
            assert_eq!(volume.told(&mut disk, Some(FILE)), told);
            match told {
                Ok(told) => assert!(told == model && !is_loop && model.len() >= len, "{next:?} from {first}"),
                Err(error) => assert!(is_loop || model.len() < len, "{next:?} from {first}: {error}"),
            }
            longer += u32::from(!is_loop && model.len() > len);
            loops += u32::from(is_loop);
        }
    }
    assert!(longer > 1000 && loops > 1000, "{longer} {loops}");
}

#[test]
fn a_volume_with_too_many_files_or_clusters_is_refused() {
    let mut disk = disk(Entries::Fat(Width::Fat16), &[0xFFFF; 3]);
    let mut volume = Volume::new(&disk, 2, 1);
    volume.is_endless = true;
    let refused = volume.told(&mut disk, None).unwrap_err();
    assert_eq!(refused, Error::Unsupported("the volume has more than 1048576 files".into()));
    volume.is_endless = false;
    assert_eq!(volume.told(&mut disk, None), Ok(vec![2]));
    volume.clusters.layout.clusters = (1 << 27) + 1;
    let refused = volume.told(&mut disk, None).unwrap_err();
    assert_eq!(refused, Error::Unsupported("the volume has 134217729 clusters, more than 134217728".into()));
}

#[test]
fn a_chain_over_many_pieces_of_the_table_is_read_in_any_order() {
    for entries in KINDS {
        let count = 4000;
        // Each cluster leads to the one 1,501 before it, around the end: 4,000 and 1,501 have no common divisor.
        let mut next: Vec<_> = (0..count).map(|n| FIRST_CLUSTER + (n + count - 1501) % count).collect();
        next[1501] = entries.end();
        let mut disk = disk(entries, &next);
        let mut clusters = Clusters::new(disk.layout.clone());
        let found = content(&mut clusters, &mut disk, FIRST_CLUSTER, count as usize).unwrap();
        assert_eq!(Some(&found), modelled(&disk, FIRST_CLUSTER, count as usize).0.as_ref());
        for at in (0..count as usize).step_by(7).rev() {
            let part = clusters.content(&mut disk, node(FIRST_CLUSTER, 8000), 2 * at as u64, 2).unwrap();
            assert_eq!(u32::from(u16::from_le_bytes([part[0], part[1]])), found[at]);
        }
    }
}

#[test]
fn what_lies_behind_the_end_of_a_file_is_not_its_damage() {
    let entries = Entries::Fat(Width::Fat16);
    for next in [&[3, 0][..], &[3, 9], &[3, 0xFFF7], &[3, 4, 0xFFF8]] {
        let mut disk = disk(entries, next);
        let mut clusters = Clusters::new(disk.layout.clone());
        assert_eq!(content(&mut clusters, &mut disk, 2, 2), Ok(vec![2, 3]), "{next:?}");
    }
}
