//! The memory that a vault of 100 million chunks needs, counted in structures of a hundredth of it.

use std::collections::HashMap;

use quietus_vault::index::{IndexEntry, Location, Part, PartBuilder, Recent};
use quietus_vault::live::Live;
use quietus_vault::{ContainerSequence, Fingerprint, Ordinal};

const CHUNKS: usize = 100_000_000;
const SCALE: usize = 100;
const MIB: f64 = (1 << 20) as f64;
/// Entries of the index that `quietus vault` keeps in memory before a merge.
const RECENT_ENTRIES: usize = 1 << 18;
/// Bytes of an entry of a B-tree whose nodes are half full: no tree needs more.
const TREE_ENTRY_BYTES: usize = 2 * size_of::<(Fingerprint, Location)>();
/// Chunks of content that a chunk of metadata names, on average, at least.
const NAMED: usize = 100;

/// A part of the index. Its size depends on the number of entries alone: the fingerprints are only in order.
fn part() -> Part {
    let mut builder = PartBuilder::new((CHUNKS / SCALE) as u64);
    for ordinal in 0..(CHUNKS / SCALE) as u64 {
        let mut fingerprint = Fingerprint([0; 32]);
        fingerprint.0[..8].copy_from_slice(&ordinal.to_be_bytes());
        let location = Location { ordinal: Ordinal(ordinal), container: ContainerSequence(ordinal / 1150) };
        let _page = builder.push(IndexEntry { fingerprint, location });
    }
    builder.finish().0
}

#[test]
fn a_vault_of_100_million_chunks_needs_512_mib_at_most() {
    // Two while the index is merged.
    let parts = 2 * SCALE * part().bytes();
    let recent = 2 * Recent::new(RECENT_ENTRIES).entries_max() * TREE_ENTRY_BYTES;
    let live = SCALE * Live::new(Ordinal((CHUNKS / SCALE) as u64)).bytes();
    // The chunks that one put refers to, those that a sanitization was told of, and those of metadata that it entered: a
    // bit each, at most.
    let bits = 3 * CHUNKS / 8;
    // The chunks of metadata of a put that refers to all of them.
    let metadata: HashMap<Ordinal, (u8, Fingerprint)> = HashMap::with_capacity(CHUNKS / NAMED);
    let metadata = metadata.capacity() * 8 / 7 * (size_of::<(Ordinal, (u8, Fingerprint))>() + 1);
    let slots = CHUNKS / 1150 * 64;
    let sum = [parts, recent, live, bits, metadata, slots];
    let mib = sum.map(|bytes| (bytes as f64 / MIB).round());
    let total: f64 = mib.iter().sum();
    println!("parts, recent, live, bits, metadata of a put, slots: {mib:?}; {total} MiB");
    assert!(total <= 512.0, "{mib:?}: {total} MiB");
}
