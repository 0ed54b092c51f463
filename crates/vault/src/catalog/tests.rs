use super::*;
use crate::container::Class;
use crate::testing::{Memory, Noise, fingerprint};
use crate::{ContainerSequence, ForgetId, Ordinal, PutId, Reference, RunId, SlotNumber, SnapshotId, VaultId};

pub(super) const LAYOUT: Layout =
    Layout { vault: VaultId([5; 16]), slots: 600, slot_bytes: 64 << 10, half_bytes: 16 << 10 };

/// The whole knowledge of a catalog.
fn known(catalog: &Catalog<'_>) -> (State, Vec<SlotEntry>) {
    let slots = (0..LAYOUT.slots).map(|slot| catalog.table().entry(SlotNumber(slot)));
    (catalog.state().clone(), slots.collect())
}

fn new(seed: u64) -> Memory {
    Memory::new(LAYOUT.bytes(), seed)
}

/// A commit that could come next.
fn some_changes(catalog: &Catalog<'_>, noise: &mut Noise) -> Vec<Change> {
    let next = catalog.state().next;
    let slot = SlotNumber((noise.next() % u64::from(LAYOUT.slots)) as u32);
    let oldest = catalog.state().roots.first_key_value().map(|(snapshot, _)| *snapshot);
    let owed = catalog.state().obligations.first_key_value().map(|(forget, _)| *forget);
    match noise.next() % 13 {
        0..3 => vec![Change::Open(slot, next.container, Class::Metadata)],
        3 => vec![Change::Seal(slot), Change::Given(Ordinal(next.ordinal.0 + noise.next() % 9))],
        4 => vec![Change::Condemn(slot), Change::Destroyed(SlotNumber(slot.0 / 2))],
        5 => {
            let root = Reference { fingerprint: fingerprint(noise), ordinal: next.ordinal };
            vec![Change::Commit(next.snapshot, root)]
        }
        6 => {
            let forget = |snapshot| Change::Forget(next.forget, Owed::Snapshot(snapshot));
            oldest.map(forget).into_iter().collect()
        }
        7 => {
            let met = owed.map(|forget| Change::Met(forget, next.run, 2));
            [Some(Change::Begin(next.run)), met, Some(Change::End(next.run))].into_iter().flatten().collect()
        }
        8 => {
            let slots = vec![slot; noise.next() as usize % 9];
            vec![Change::Index(IndexPart { slots, entries: noise.next(), merged: next.container })]
        }
        9 => vec![Change::BeginPut(next.put)],
        10 => {
            let put = PutId(next.put.0 / 2);
            vec![Change::Forget(next.forget, Owed::Put(put)), Change::EndPut(PutId(put.0 / 2))]
        }
        11 => {
            let name = format!("hold {}", noise.next() % 3);
            let hold = |snapshot| Change::Hold(name.clone(), snapshot);
            oldest.map_or(vec![Change::Release(name.clone())], |snapshot| {
                let root = Reference { fingerprint: fingerprint(noise), ordinal: next.ordinal };
                vec![hold(snapshot), Change::Replace(snapshot, root)]
            })
        }
        _ => vec![Change::Recorded(noise.next() % 3, LogHead { lines: noise.next(), hash: [7; 32] })],
    }
}

#[test]
fn a_cut_at_any_write_leaves_what_was_before_a_commit_or_after_it() {
    for seed in 0..400 {
        let (medium, mut noise) = (new(seed), Noise(seed));
        let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
        let mut old = known(&catalog);
        for _ in 0..6 {
            medium.light_fuse((noise.next() % 150) as u32 + 1);
            loop {
                let changes = some_changes(&catalog, &mut noise);
                let committed = catalog.commit(&changes);
                let new = known(&catalog);
                if committed.is_err() {
                    assert!(medium.is_off());
                    assert_eq!(catalog.commit(&[]), Err(CatalogError::Broken));
                    medium.cut();
                    catalog = Catalog::open(&medium).unwrap();
                    let found = known(&catalog);
                    assert!(found == old || found == new, "seed {seed}: neither before nor after");
                    old = found;
                    break;
                }
                old = new;
            }
            // A start of its own is cut short too.
            medium.light_fuse((noise.next() % 8) as u32 + 1);
            let _ = Catalog::open(&medium);
            medium.cut();
            catalog = Catalog::open(&medium).unwrap();
            assert!(known(&catalog) == old, "seed {seed}: a start that was cut short changed something");
        }
    }
}

#[test]
fn a_page_of_a_turn_that_was_cut_short_does_not_count_later() {
    for (seed, fuse) in (0..80).map(|n| (n / 4, n % 4 + 1)) {
        let medium = new(seed);
        let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
        let generation = catalog.log.next_generation();
        while catalog.log.has_space(0) {
            catalog.commit(&[Change::Recorded(0, LogHead::default())]).unwrap();
        }
        assert_eq!(catalog.log.next_generation(), generation);
        medium.light_fuse(fuse as u32);
        let open = Change::Open(SlotNumber(3), ContainerSequence(0), Class::Data);
        assert!(catalog.commit(&[open]).is_err(), "the turn is cut short");
        medium.cut();
        let found = opened(&medium).unwrap();
        for _ in 0..3 {
            assert!(opened(&medium).unwrap() == found, "seed {seed}, fuse {fuse}");
        }
    }
}

/// A catalog with some frames behind its snapshot.
fn some_catalog() -> Memory {
    let (medium, mut noise) = (new(1), Noise(1));
    let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
    for _ in 0..12 {
        let changes = some_changes(&catalog, &mut noise);
        catalog.commit(&changes).unwrap();
    }
    medium
}

/// The state that is read.
fn opened(medium: &Memory) -> Result<(State, Vec<SlotEntry>), CatalogError> {
    Catalog::open(medium).map(|catalog| known(&catalog))
}

/// Where the sector of a copy of a frame begins, of a catalog with frames of a sector each: frame 0 is the snapshot.
fn frame(number: usize, copy: usize) -> usize {
    let sectors = if number == 0 { 1 } else { 2 * number + copy };
    LAYOUT.half(1).0 as usize + sectors * SECTOR
}

/// The state that is read after the bytes were changed.
fn found_after(change: impl FnOnce(&mut [u8])) -> Result<(State, Vec<SlotEntry>), CatalogError> {
    let medium = some_catalog();
    medium.bytes(change);
    opened(&medium)
}

#[test]
fn a_frame_that_was_changed_is_told_from_a_torn_one() {
    let sound = found_after(|_| {}).unwrap();
    for copy in 0..2 {
        assert!(found_after(|bytes| bytes[frame(3, copy) + 28] ^= 1) == Ok(sound.clone()));
    }
    let both = |number| found_after(|bytes| (0..2).for_each(|copy| bytes[frame(number, copy) + 28] ^= 1));
    let damaged = CatalogError::Damaged("a frame of the log is invalid that is not the last one");
    assert_eq!(both(3), Err(damaged));
    assert!(both(12).is_ok(), "nothing relied on a last frame that is torn");
    let snapshots = found_after(|bytes| {
        bytes[frame(0, 0) + 28] ^= 1;
        bytes[LAYOUT.half(0).0 as usize + SECTOR + 28] ^= 1;
    });
    assert_eq!(snapshots, Err(CatalogError::Damaged("no valid snapshot in either half of the log")));
}

const SECTOR: usize = 512;

#[test]
fn one_changed_bit_costs_nothing_wherever_it_is() {
    let sound = found_after(|_| {}).unwrap();
    let mut noise = Noise(8);
    let bytes = LAYOUT.bytes() as usize;
    // The head, the beginning of each half, the pages; and anywhere.
    let halves = [0, 1].map(|half| LAYOUT.half(half).0 as usize);
    let regions =
        [(0, 60), (halves[0], 2048), (halves[1], 16 * SECTOR), (LAYOUT.half(2).0 as usize, 4096), (0, bytes)];
    for (start, length) in regions {
        for _ in 0..60 {
            let medium = some_catalog();
            for when in ["at once", "another snapshot later"] {
                let at = start + noise.next() as usize % length;
                medium.bytes(|bytes| bytes[at] ^= 1 << (noise.next() % 8));
                let found = opened(&medium);
                assert!(found == Ok(sound.clone()), "byte {at}, {when}: {:?}", found.err());
            }
        }
    }
}

#[test]
fn a_snapshot_that_was_durable_and_is_gone_is_made_of_the_one_before() {
    let sound = found_after(|_| {}).unwrap();
    let medium = some_catalog();
    opened(&medium).unwrap();
    // The start has made a snapshot in half 0.
    let snapshot = LAYOUT.half(0).0 as usize + SECTOR;
    medium.bytes(|bytes| bytes[snapshot + 40] ^= 1);
    let catalog = Catalog::read(&medium, LAYOUT).unwrap();
    assert!(catalog.is_damaged() && catalog.is_doubtful() && known(&catalog) == sound);
    drop(catalog);
    opened(&medium).unwrap();
    assert!(!Catalog::read(&medium, LAYOUT).unwrap().is_damaged(), "damage is mended at once");
}

#[test]
fn an_older_page_of_the_table_is_never_taken() {
    let medium = new(7);
    let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
    let open = |slot, container| Change::Open(SlotNumber(slot), ContainerSequence(container), Class::Data);
    catalog.commit(&[open(0, 0), open(400, 1)]).unwrap();
    opened(&medium).unwrap();
    let pages = LAYOUT.half(2).0 as usize..LAYOUT.half(2).0 as usize + 2 * 4096;
    let older = medium.bytes(|bytes| bytes[pages.clone()].to_vec());
    let mut catalog = Catalog::open(&medium).unwrap();
    catalog.commit(&[open(1, 2), Change::Seal(SlotNumber(0))]).unwrap();
    drop(catalog);
    opened(&medium).unwrap();
    let newer = medium.bytes(|bytes| bytes[pages.clone()].to_vec());
    let mut flipped = newer.clone();
    flipped[4096 + 100] ^= 1;
    let place = [
        &flipped[..],
        &[&older[..4096], &newer[4096..]].concat(),
        &[&newer[..4096], &older[4096..]].concat(),
    ];
    for page in place {
        medium.bytes(|bytes| bytes[pages.clone()].copy_from_slice(page));
        let catalog = Catalog::read(&medium, LAYOUT).unwrap();
        assert_eq!(catalog.table().entry(SlotNumber(0)).state, SlotState::Sealed);
        assert!(catalog.table().lost().is_empty());
    }
    for page in [&older[..], &[0; 2 * 4096], &[&older[..4096], &flipped[4096..]].concat()] {
        medium.bytes(|bytes| bytes[pages.clone()].copy_from_slice(page));
        let catalog = Catalog::read(&medium, LAYOUT).unwrap();
        assert_eq!(catalog.table().lost().len(), 254, "it is not known what the slots of that page have");
        assert!(
            !catalog.table().free().contains(&SlotNumber(2)),
            "a slot with unknown content counts as free"
        );
        assert_eq!(catalog.table().entry(SlotNumber(400)).state, SlotState::Open);
    }
}

#[test]
fn changes_that_fit_into_no_half_are_there_twice_all_the_same() {
    let medium = new(9);
    let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
    let holds = (0..140).map(|snapshot| Change::Hold("long ".repeat(12), SnapshotId(snapshot)));
    catalog.commit(&holds.collect::<Vec<_>>()).unwrap();
    let wanted = known(&catalog);
    drop(catalog);
    for half in 0..2 {
        let bytes = medium.bytes(|bytes| bytes.to_vec());
        medium.bytes(|bytes| bytes[LAYOUT.half(half).0 as usize + SECTOR + 100] ^= 1);
        let catalog = Catalog::open(&medium).unwrap();
        assert!(known(&catalog) == wanted, "half {half}");
        drop(catalog);
        medium.bytes(|there| there.copy_from_slice(&bytes));
    }
}

#[test]
fn a_record_of_another_program_is_named() {
    let medium = new(2);
    let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
    let (pos, bytes) = catalog.log.append(&[200, 1]).unwrap();
    medium.write(pos, &bytes, true).unwrap();
    assert_eq!(opened(&medium), Err(CatalogError::Record { frame: 3 }));
    let beyond = state::encode(&[Change::Condemn(SlotNumber(LAYOUT.slots))]);
    let medium = new(3);
    let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
    let (pos, bytes) = catalog.log.append(&beyond).unwrap();
    medium.write(pos, &bytes, true).unwrap();
    assert_eq!(opened(&medium), Err(CatalogError::Damaged("a record names a slot beyond the last one")));
}

#[test]
fn a_head_that_says_what_cannot_be_is_refused() {
    let read = |layout: Layout| Layout::from_bytes(&layout.to_bytes());
    assert_eq!(read(LAYOUT), Ok(LAYOUT));
    let field = |field, value| Err(HeadError::Field { field, value });
    assert_eq!(read(Layout { slots: 0, ..LAYOUT }), field("slots", 0));
    assert_eq!(read(Layout { slots: SLOTS_MAX + 1, ..LAYOUT }), field("slots", u64::from(SLOTS_MAX) + 1));
    assert_eq!(read(Layout { slot_bytes: 4096, ..LAYOUT }), field("slot bytes", 4096));
    assert_eq!(read(Layout { slot_bytes: 10_000, ..LAYOUT }), field("slot bytes", 10_000));
    assert_eq!(read(Layout { half_bytes: 4096, ..LAYOUT }), field("half bytes", 4096));
    let changed = |at: usize, value| {
        let mut bytes = LAYOUT.to_bytes();
        bytes[at] = value;
        Layout::from_bytes(&bytes)
    };
    assert_eq!(changed(0, 0), Err(HeadError::Magic));
    assert_eq!(changed(20, 1), Err(HeadError::Checksum));
    let other = new(6);
    Catalog::create(&other, Layout { vault: VaultId([6; 16]), ..LAYOUT }).unwrap();
    assert!(matches!(opened(&other), Err(CatalogError::Other { .. })), "the catalog of another vault");
    assert_eq!(Layout::from_bytes(&[]), Err(HeadError::Magic));
    let mut newer = LAYOUT.to_bytes();
    newer[8] = 3;
    let checksum = crc32c::crc32c(&newer[..48]);
    newer[48..52].copy_from_slice(&checksum.to_le_bytes());
    assert_eq!(Layout::from_bytes(&newer), Err(HeadError::Version(3)));
}

#[test]
fn a_receipt_is_kept_until_it_is_taken() {
    let medium = new(4);
    let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
    let root = Reference { fingerprint: fingerprint(&mut Noise(1)), ordinal: Ordinal(1) };
    let changes = [
        Change::Commit(SnapshotId(0), root),
        Change::Forget(ForgetId(0), Owed::Snapshot(SnapshotId(0))),
        Change::Begin(RunId(0)),
        Change::Met(ForgetId(0), RunId(0), 2),
    ];
    catalog.commit(&changes).unwrap();
    let owed = Owed::Snapshot(SnapshotId(0));
    let receipt = Receipt { forget: ForgetId(0), owed, run: RunId(0), passes: 2 };
    for _ in 0..2 {
        catalog = Catalog::open(&medium).unwrap();
        assert_eq!(catalog.state().receipts, [receipt]);
        assert!(catalog.state().roots.is_empty() && catalog.state().obligations.is_empty());
    }
    catalog.commit(&[Change::Recorded(1, LogHead::default())]).unwrap();
    assert!(Catalog::open(&medium).unwrap().state().receipts.is_empty());
}

#[test]
fn there_is_room_for_what_is_owed_before_there_is_none_for_snapshots() {
    let medium = new(5);
    let mut catalog = Catalog::create(&medium, LAYOUT).unwrap();
    let mut noise = Noise(2);
    while catalog.has_room(0) {
        let root = Reference { fingerprint: fingerprint(&mut noise), ordinal: Ordinal(u64::MAX >> 24) };
        catalog.commit(&[Change::Commit(catalog.state().next.snapshot, root)]).unwrap();
    }
    let snapshots: Vec<SnapshotId> = catalog.state().roots.keys().copied().collect();
    assert!(snapshots.len() > 10, "{} snapshots", snapshots.len());
    let slots: Vec<SlotNumber> = (0..LAYOUT.slots).map(SlotNumber).collect();
    let part = IndexPart { slots, entries: u64::MAX, merged: ContainerSequence(u64::MAX >> 24) };
    catalog.commit(&[Change::Index(part)]).unwrap();
    for snapshot in snapshots {
        let forget = catalog.state().next.forget;
        catalog.commit(&[Change::Forget(forget, Owed::Snapshot(snapshot))]).unwrap();
        catalog.commit(&[Change::Met(forget, RunId(u64::MAX >> 24), 100)]).unwrap();
    }
    catalog = Catalog::open(&medium).unwrap();
    assert!(catalog.has_room(0) || !catalog.state().receipts.is_empty());
}
