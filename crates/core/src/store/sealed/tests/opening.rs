//! Starts, and why some are refused.

use super::*;
use crate::store::label::LABEL_BYTES;
use crate::store::sealed::layout::Layout;
use crate::store::sealed::{RootError, SealedError, root};

const SIZE: u64 = 13_000 * BLOCK_BYTES;

fn refused(bench: &Bench, keys: Option<KeysPosition>) -> SealedError {
    match bench.start(keys, &[]) {
        Err(StoreError::Sealed(error)) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_start_that_is_read_only_writes_nothing_and_another_one_leaves_one_top_cell() {
    let mut bench = Bench::new(SIZE);
    bench.begin_purge(&[3..4]);
    while let Some(job) = bench.store.background(false) {
        let is_turn = matches!(job, Job::Turn(_));
        let read = bench.perform(&job, 2);
        if is_turn {
            break;
        }
        bench.store.background_done(JobEnd::Done(&read));
    }
    let (map, root) = (bench.map.content(), bench.root.content());
    let syncs = [&bench.map, &bench.root].map(|medium| medium.syncs.get());
    let store = open_as(true, SIZE, [&bench.data, &bench.map, &bench.root], None, &[], 3).expect("it opens");
    assert_eq!((store.position().purge, store.is_purging()), (2, false));
    assert!(bench.map.content() == map && bench.root.content() == root);
    assert_eq!([&bench.map, &bench.root].map(|medium| medium.syncs.get()), syncs);
    let [old, new] = [1, 2].map(|purge| root::area(root::slot_of(purge)).extent);
    let before = [bench.root.bytes(old), bench.root.bytes(new)];
    assert!(before.iter().all(|slot| slot != &vec![0; 4096]));
    bench.start(None, &[]).expect("it opens");
    assert_eq!([bench.root.bytes(old), bench.root.bytes(new)], [vec![0; 4096], before[1].clone()]);
    assert_eq!(bench.map.syncs.get(), syncs[0] + 1);
    // The slot in use; two passes; zeros.
    assert_eq!(bench.root.syncs.get(), syncs[1] + 4);
}

#[test]
fn an_old_top_cell_that_its_medium_keeps_is_destroyed_later() {
    let mut bench = Bench::new(SIZE);
    bench.root.is_stubborn.set(true);
    bench.restart();
    assert!(bench.store.is_purging());
    bench.root.is_stubborn.set(false);
    let job = bench.step().expect("the cell is still to be destroyed");
    assert_eq!(job, Job::Destroy(vec![root::area(0)]));
    assert!(!bench.store.is_purging() && bench.store.background(true).is_none());
    bench.purge(&[0..1]);
}

#[test]
fn a_root_that_is_older_than_the_journal_is_refused() {
    let bench = Bench::new(SIZE);
    let known = Some(KeysPosition { purge: 2, log: 0 });
    assert_eq!(refused(&bench, known), SealedError::Older { root: 1, journal: 2 });
    assert!(bench.start(Some(KeysPosition { purge: 1, log: 0 }), &[]).is_ok());
    assert!(
        bench.start(Some(KeysPosition { purge: 0, log: 9 }), &[]).is_ok(),
        "that was the log of another purge"
    );
}

#[test]
fn a_journal_that_lacks_more_than_the_last_purge_is_refused() {
    let mut bench = Bench::new(SIZE);
    bench.purge(&[1..2]);
    bench.purge(&[3..4]);
    let of = |purge| Some(KeysPosition { purge, log: 0 });
    assert!(bench.start(of(3), &[]).is_ok());
    assert!(bench.start(of(2), &[]).is_ok(), "the frame of the last purge was lost in a crash");
    assert_eq!(refused(&bench, of(1)), SealedError::OldJournal { root: 3, journal: 1 });
}

#[test]
fn a_log_that_is_shorter_than_the_journal_says_is_refused() {
    let mut bench = Bench::new(SIZE);
    bench.write(5..6);
    bench.checkpoint();
    let known = bench.store.position();
    assert!(bench.start(Some(known), &[]).is_ok());
    bench.map.flip(Layout::new(DISK, SIZE).log_half(1).start.0 + 100);
    assert_eq!(refused(&bench, Some(known)), SealedError::ShortLog { found: 0, journal: 1 });
}

#[test]
fn a_start_writes_again_what_of_the_log_the_journal_does_not_know_of() {
    let mut bench = Bench::new(SIZE);
    let mut known = vec![bench.store.position()];
    for block in 5..8 {
        bench.write(block..block + 1);
        bench.checkpoint();
        known.push(bench.store.position());
    }
    for position in known {
        let written = bench.map.written.get();
        assert!(bench.start(Some(position), &[]).is_ok());
        assert_eq!(bench.map.written.get() - written, 512 * u64::from(3 - position.log));
    }
}

#[test]
fn a_root_without_a_whole_cell_or_of_another_time_is_refused() {
    let mut bench = Bench::new(SIZE);
    let root = bench.root.content();
    bench.purge(&[1..2]);
    let newer = bench.root.content();
    bench.root.put_back(&root);
    assert_eq!(bench.start(None, &[]).map(|it| it.position().purge), Ok(1), "both top pages are still there");
    bench.root.put_back(&newer);
    bench.purge(&[1..2]);
    bench.root.put_back(&root);
    assert_eq!(refused(&bench, None), SealedError::TopPage { purge: 1 });
    bench.root.flip(root::area(1).extent.start.0 + 10);
    assert_eq!(refused(&bench, None), SealedError::NoTop);
}

#[test]
fn a_newer_top_cell_that_opens_nothing_yields_to_the_older_one() {
    let bench = Bench::new(SIZE);
    let cell = Cells::new([1; 32]).draw_key();
    let place = root::slot_place(0).extent.start;
    bench.root.write(place, &root::slot_bytes(DISK, 2, &cell), true).expect("memory is written");
    assert_eq!(bench.start(None, &[]).map(|it| it.position().purge), Ok(1));
    assert_eq!(bench.root.bytes(root::area(0).extent), vec![0; 4096]);
}

#[test]
fn media_that_are_short_damaged_or_of_another_disk_are_refused() {
    let bench = Bench::new(SIZE);
    let short = Sparse::new(map_bytes(SIZE) - 1);
    short.put_back(&bench.map.content());
    let start = |map: &Sparse, root: &Sparse| open(SIZE, [&bench.data, map, root], None, &[], 2).map(|_| ());
    let needed = map_bytes(SIZE);
    assert_eq!(start(&short, &bench.root), Err(SealedError::MapShort { found: needed - 1, needed }.into()));
    let other = Sparse::new(needed);
    let top = Sparse::new(ROOT_BYTES);
    format(&other, &top, [8; 16], SIZE, Cells::new([7; 32])).expect("a disk is made");
    let found = u128::from_be_bytes([8; 16]);
    assert_eq!(start(&other, &bench.root), Err(SealedError::MapOtherDisk { found }.into()));
    assert_eq!(start(&bench.map, &top), Err(SealedError::Root(RootError::OtherDisk { found }).into()));
    other.flip(3);
    assert_eq!(start(&other, &bench.root), Err(SealedError::MapHead.into()));
    assert_eq!(start(&Sparse::new(0), &bench.root), Err(SealedError::MapHead.into()));
    let data = Sparse::new(SIZE - 1);
    let error = open(SIZE, [&data, &bench.map, &bench.root], None, &[], 2).map(|_| ());
    assert_eq!(error, Err(StoreError::Short { medium: SIZE - 1, disk: SIZE }));
    let huge = open(u64::MAX, [&Sparse::new(u64::MAX), &bench.map, &bench.root], None, &[], 2).map(|_| ());
    assert_eq!(huge, Err(SealedError::Size { size: u64::MAX }.into()));
}

#[test]
fn the_view_of_a_clean_stop_says_what_has_data() {
    let mut bench = Bench::new(SIZE);
    bench.store.unmap(Extent::new(0, SIZE));
    bench.store.begin_write(Extent::new(4096, 4096), Epoch(0));
    let view = bench.store.view();
    let mut opening = Opening {
        kind: &Kind::Sealed,
        disk: DISK,
        size: SIZE,
        kept: Some(&view),
        policy: &Policy::none(),
        read_only: false,
        memory_bytes: 0,
        entropy: &mut [5; 32],
        keys: None,
        staged: &[],
        owed: &mut Default::default(),
    };
    let media: [&dyn Medium; 3] = [&bench.data, &bench.map, &bench.root];
    let (store, knows) = Sealed::open(&mut opening, media).expect("the disk opens");
    assert!(knows);
    assert_eq!(store.allocated_bytes(), 4096);
    opening.kept = None;
    let (store, knows) = Sealed::open(&mut opening, media).expect("the disk opens");
    assert!(!knows);
    assert_eq!(store.allocated_bytes(), SIZE);
}

#[test]
fn what_lies_behind_the_label_of_the_root_is_destroyed_at_the_start() {
    let bench = Bench::new(SIZE);
    let whole = bench.root.content();
    for at in [LABEL_BYTES as u64, 511, 512, 4095] {
        bench.root.flip(at);
        assert_eq!(open(SIZE, [&bench.data, &bench.map, &bench.root], None, &[], 2).map(|_| ()), Ok(()));
        assert_eq!(bench.root.content(), whole, "byte {at}");
    }
}
