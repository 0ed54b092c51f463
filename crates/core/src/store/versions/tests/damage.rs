//! Bits that flip on the media of the index and the log, told from what a crash leaves.

use super::*;
use crate::store::StoreError;
use crate::store::versions::stubs::root::{RootError, place_of};
use crate::tree::HEAD_BYTES;

const SECTOR: usize = 512;
/// Where the newest head lies of a disk [with two heads](with_two_heads), after the head of its session.
const NEWEST: u64 = PAGE_BYTES as u64;

/// The media of a disk: content, index, stubs, root; and how often it was opened.
struct Media([Memory; 4], std::cell::Cell<u16>);

impl Media {
    /// Those of a new disk whose blocks are sealed with stubs of 64 bytes: six in a sector of the log.
    fn new() -> Self {
        let [map, stubs, root] = new_media([1 << 20, layout().homes().0 + (1 << 20), ROOT_BYTES + (1 << 16)]);
        Self([memory(1 << 20), map, stubs, root], std::cell::Cell::new(0))
    }

    fn open(&self, read_only: bool) -> Result<Versions, VersionsError> {
        self.open_kept(read_only, None)
    }

    fn open_kept(&self, read_only: bool, kept: Option<&[u8]>) -> Result<Versions, VersionsError> {
        self.1.set(self.1.get() + 1);
        self.open_with(Session(self.1.get()), read_only, kept)
    }

    fn open_as(&self, session: Session, read_only: bool) -> Result<Versions, VersionsError> {
        self.open_with(session, read_only, None)
    }

    fn open_with(
        &self,
        session: Session,
        read_only: bool,
        kept: Option<&[u8]>,
    ) -> Result<Versions, VersionsError> {
        let policy = "zero".parse().expect("a policy");
        open_on(self.0.each_ref(), (layout(), session), (kept, &policy, read_only))
    }

    fn on(&self, id: MediumId) -> &Memory {
        let [data, map, stubs, root] = &self.0;
        match id {
            MediumId::Map => map,
            MediumId::Stubs => stubs,
            MediumId::Root => root,
            _ => data,
        }
    }

    /// Carries a checkpoint out.
    fn checkpoint(&self, store: &mut Versions) {
        for (places, bytes) in Batch::all_writes(store) {
            let mut bytes = &bytes[..];
            for place in places.iter() {
                let (now, rest) = bytes.split_at(place.extent.len as usize);
                self.on(place.on).write(place.extent.start, now, true).expect("there is space");
                bytes = rest;
            }
        }
        store.end_checkpoint();
    }

    /// Writes two blocks, and commits that: one sector.
    fn commit(&self, store: &mut Versions, block: u64) {
        store.write(block, 2);
        self.checkpoint(store);
    }

    fn index(&self, store: &mut Versions) {
        store.committing.wants_index = true;
        self.checkpoint(store);
    }

    /// Gives the half of the log that was turned away from another cell.
    fn renew(&self, store: &mut Versions) {
        let job = store.background(false).expect("half a log is to be destroyed");
        let Job::Renew(places, fresh) = &job else { panic!("{job:?}") };
        self.on(MediumId::Root).write(places[0].extent.start, fresh, true).expect("there is space");
        store.background_done(JobEnd::Done(&[]));
    }

    fn flip(&self, on: MediumId, at: u64) {
        self.on(on).0.borrow_mut()[at as usize] ^= 0x10;
    }

    fn bytes(&self) -> Vec<Vec<u8>> {
        self.0.iter().map(|it| it.0.borrow().clone()).collect()
    }

    fn restore(&self, bytes: &[Vec<u8>]) {
        self.0.iter().zip(bytes).for_each(|(it, bytes)| it.0.borrow_mut().clone_from(bytes));
    }
}

fn layout() -> Layout {
    Layout { stub_bytes: 64, half_bytes: 64 * SECTOR as u64 }
}

fn blocks(store: &Versions) -> u64 {
    store.allocated_bytes() / BLOCK_BYTES
}

#[test]
fn a_flipped_bit_before_durable_commits_is_refused_by_name_and_a_torn_end_is_not() {
    let media = Media::new();
    let mut store = media.open(false).expect("a new store");
    (0..5).for_each(|n| media.commit(&mut store, 10 * n));
    let whole = media.bytes();
    let log = layout().half(0).start.0;
    for sector in 0..4 {
        // Its checksum, number, epoch, session, count, check, and the first record.
        for byte in [0, 5, 12, 16, 17, 20, 28, 33, 40] {
            let at = log + sector * SECTOR as u64;
            media.flip(MediumId::Stubs, at + byte);
            let refused = media.open(false).map(|_| ()).expect_err("commits would be lost");
            assert_eq!(
                refused,
                VersionsError::DamagedSector { at, sequence: sector + 1, to: 4 },
                "byte {byte}"
            );
            assert!(StoreError::from(refused).to_string().contains("up to sector 4"));
            let rest = media.open(true).expect("what is left can be read");
            assert_eq!(blocks(&rest), 2 * sector);
            media.restore(&whole);
        }
    }
    // Nothing shows that the last sector was durable.
    media.flip(MediumId::Stubs, log + 4 * SECTOR as u64);
    assert_eq!(blocks(&media.open(false).expect("a crash leaves that, too")), 8);
}

#[test]
fn a_damaged_cell_of_the_half_of_the_log_in_use_is_refused_by_name_and_nothing_is_lost() {
    let media = Media::new();
    let mut store = media.open(false).expect("a new store");
    (0..5).for_each(|n| media.commit(&mut store, 10 * n));
    let whole = media.bytes();
    let cell = |half| place_of(half).extent.start.0;
    for byte in [0, 31] {
        media.flip(MediumId::Root, cell(0) + byte);
        let flipped = media.bytes();
        let refused = media.open(false).map(|_| ()).expect_err("the commits are hidden under that cell");
        assert!(matches!(refused, VersionsError::Root(RootError::OtherTime { .. })), "{refused}");
        assert!(refused.to_string().contains("the root does not fit sector"), "{refused}");
        assert_eq!(media.bytes()[2..], flipped[2..], "stubs and root are as they were");
        media.restore(&whole);
    }
    // Nothing lies in the other half.
    media.flip(MediumId::Root, cell(1));
    assert_eq!(blocks(&media.open(false).expect("no commit needs it")), 10);
    media.restore(&whole);
    assert_eq!(blocks(&media.open(false).expect("it is whole")), 10);
}

#[test]
fn a_commit_of_several_sectors_that_a_crash_tore_anywhere_is_dropped_as_ever() {
    let media = Media::new();
    let mut store = media.open(false).expect("a new store");
    media.commit(&mut store, 0);
    store.write(100, 30);
    media.checkpoint(&mut store);
    let whole = media.bytes();
    let log = layout().half(0).start.0 as usize;
    for torn in 1..6 {
        let at = log + torn * SECTOR;
        media.on(MediumId::Stubs).0.borrow_mut()[at..at + SECTOR].fill(0);
        let store = media.open(false).expect("that commit was not durable");
        assert_eq!(blocks(&store), 2 + 6 * (torn as u64 - 1));
        assert!(media.on(MediumId::Stubs).0.borrow()[at..log + 8 * SECTOR].iter().all(|byte| *byte == 0));
        media.restore(&whole);
    }
    assert_eq!(blocks(&media.open(false).expect("it is whole")), 32);
}

/// A disk whose newest head, the third one, lies in the second page of the index, with no commit behind it; and the store.
fn with_two_heads() -> (Media, Versions) {
    let media = Media::new();
    let mut store = media.open(false).expect("a new store");
    media.commit(&mut store, 0);
    media.index(&mut store);
    media.renew(&mut store);
    media.commit(&mut store, 10);
    media.index(&mut store);
    (media, store)
}

#[test]
fn a_damaged_copy_of_a_head_costs_nothing_and_is_written_again() {
    let (media, mut store) = with_two_heads();
    media.commit(&mut store, 20);
    let whole = media.bytes();
    for byte in [0, 9, 40, 100, 511, 512, 700, 1023] {
        media.flip(MediumId::Map, NEWEST + byte);
        assert_eq!(blocks(&media.open(false).expect("the other copy counts")), 6, "byte {byte}");
        let newest = |media: &[Vec<u8>]| media[1][NEWEST as usize..][..HEAD_BYTES].to_vec();
        assert_eq!(newest(&media.bytes()), newest(&whole), "byte {byte} is as it was");
        media.restore(&whole);
    }
}

#[test]
fn a_lost_newest_head_is_refused_by_name_and_an_older_one_is_not_taken_in_silence() {
    let (media, mut store) = with_two_heads();
    let before = media.bytes();
    let lose = |at: u64| [0, 512].into_iter().for_each(|copy| media.flip(MediumId::Map, at + copy + 100));
    lose(NEWEST);
    // After a crash nothing says which head was the newer one.
    let refused = media.open(false).map(|_| ()).expect_err("it may have been the newer one");
    assert_eq!(refused, VersionsError::LostHead { at: NEWEST });
    let rest = media.open(true).expect("what is left can be read");
    assert!(
        rest.killing.stopped.as_ref().is_some_and(|why| why.contains("both copies of the head at byte 4096"))
    );
    media.restore(&before);
    media.commit(&mut store, 20);
    media.commit(&mut store, 30);
    let after = media.bytes();
    lose(NEWEST);
    let refused = media.open(false).map(|_| ()).expect_err("commits would be lost");
    assert_eq!(refused, VersionsError::OldHead { at: NEWEST, from: 3, to: 4 });
    assert!(StoreError::from(refused).to_string().contains("sectors 3 to 4"));
    assert_eq!(blocks(&media.open(true).expect("what is left can be read")), 4);
    media.restore(&after);
    media.renew(&mut store);
    lose(NEWEST);
    let refused = media.open(false).map(|_| ()).expect_err("the log cannot be opened with the older head");
    assert!(matches!(refused, VersionsError::Root(_) | VersionsError::OldHead { .. }), "{refused}");
}

#[test]
fn an_index_from_before_the_last_clean_stop_is_refused_and_a_start_that_believes_it_is_a_defect() {
    let (media, mut store) = with_two_heads();
    media.renew(&mut store);
    let old = media.bytes();
    media.index(&mut store);
    let view = Store::view(&store);
    media.open_kept(false, Some(&view)).expect("the index is of the time of the stop");
    // Everything but the newest head is as it was: no commit came in between.
    media.restore(&old);
    let refused = media.open_kept(false, Some(&view)).map(|_| ()).expect_err("that is an older index");
    assert_eq!(refused, VersionsError::OlderIndex { found: 3, stopped: 4 });
    let rest = media.open_kept(true, Some(&view)).expect("it can be read");
    assert!(rest.killing.stopped.as_ref().is_some_and(|why| why.contains("generation 4")));
    crate::mutant::activate(Some(Mutant::BelieveOldHead));
    assert!(media.open_kept(false, Some(&view)).is_ok(), "the defect takes it");
    crate::mutant::activate(None);
}

#[test]
fn one_wrong_byte_anywhere_but_in_stubs_is_mended() {
    let (media, mut store) = with_two_heads();
    media.renew(&mut store);
    (0..4).for_each(|n| media.commit(&mut store, 20 + 10 * n));
    let (whole, layout) = (media.bytes(), layout());
    let homes = layout.page(HomePage(0)).start.0;
    let log = layout.half(store.catalog.log.position().0).start.0;
    let cells = [4096 + 512 * u64::from(store.catalog.log.position().0), ROOT_BYTES, ROOT_BYTES + 31];
    let places = [
        (MediumId::Stubs, vec![3, 20, 31, homes, homes + 7, log + 1, log + 9, log + 512 + 40]),
        (MediumId::Root, [vec![3, 20, 31], cells.to_vec()].concat()),
    ];
    for (on, at) in places.into_iter().flat_map(|(on, all)| all.into_iter().map(move |at| (on, at))) {
        media.flip(on, at);
        let [_, map, stubs, root] = &media.0;
        let setup = Setup { layout, sessions: Session(1).into() };
        let size = TIMES * LONG * BLOCK_BYTES;
        let done = mend((&setup, DISK, size), RebuildMedia { map, stubs, root }).expect("it is read");
        assert_eq!(done.len(), 1, "{on:?} byte {at}: {done:?}");
        assert!(media.bytes() == whole, "{on:?} byte {at} is as it was");
    }
}

#[test]
fn an_entry_of_the_log_is_replayed_once_whatever_page_the_next_one_waits_for() {
    let media = Media::new();
    let mut store = media.open(false).expect("a new disk");
    for n in 0..TIMES {
        store.write(n * LONG, LONG / 4);
        media.index(&mut store);
        media.renew(&mut store);
    }
    store.free(Block(5), store.open);
    let [there, _] = [5, (TIMES - 1) * LONG].map(|block| store.write(block, 1));
    media.checkpoint(&mut store);
    let store = media.open(false).expect("nothing is damaged");
    let found: Vec<Place> = Store::locate(&store, extent(5, 1)).iter().collect();
    assert_eq!(found, there);
}

#[test]
fn the_number_of_a_session_is_durable_before_anything_is_sealed_and_given_out_once() {
    let media = Media::new();
    let noted = || Sessions::noted(media.on(MediumId::Map), DISK).expect("a head").count;
    assert_eq!(noted(), 0);
    for session in [3, 4, 7] {
        drop(media.open_as(Session(session), false).expect("it opens"));
        assert_eq!(noted(), u32::from(session) + 1);
        drop(media.open_as(Session(session + 1), true).expect("it opens"));
        assert_eq!(noted(), u32::from(session) + 1, "who only reads seals nothing");
    }
    for taken in [7, 6, 0] {
        let error = media.open_as(Session(taken), false).expect_err("it was given out");
        assert_eq!(error, VersionsError::SessionTaken { session: taken.into(), noted: 8 });
    }
    assert_eq!(noted(), 8);
}

#[test]
fn keys_that_lack_a_session_of_the_log_are_refused_though_the_head_that_noted_it_is_damaged() {
    let media = Media::new();
    drop(media.open_as(Session(3), false).expect("it opens"));
    let mut store = media.open_as(Session(6), false).expect("it opens");
    media.commit(&mut store, 0);
    let newest = Sessions::noted(media.on(MediumId::Map), DISK).expect("a head");
    let head = [0, PAGE_BYTES].into_iter().find(|at| {
        let mut bytes = [0; HEAD_BYTES];
        media.on(MediumId::Map).read(Pos(*at as u64), &mut bytes).expect("a head");
        bytes.windows(16).any(|it| it == newest.last)
    });
    let damage = |copy: usize| {
        let at = head.expect("the newest head") + copy * HEAD_BYTES / 2 + 40;
        media.on(MediumId::Map).write(Pos(at as u64), &[0xff; 8], true).expect("a write");
    };
    let whole = media.bytes();
    damage(0);
    let taken = VersionsError::SessionTaken { session: 5, noted: 7 };
    assert_eq!(media.open_as(Session(5), false).err(), Some(taken), "the other copy counts");
    assert!(media.open_as(Session(7), false).is_ok());
    media.restore(&whole);
    [0, 1].into_iter().for_each(damage);
    assert_eq!(media.open_as(Session(5), false).err(), Some(VersionsError::NoSession { session: 6 }));
    let lost = media.open_as(Session(7), false).err();
    assert!(matches!(lost, Some(VersionsError::LostHead { .. })), "{lost:?}");
}
