//! The costs of serving, counted: ways down the index, places, operations.

mod damage;
mod lives;
mod sets;

use super::stubs::HomePage;
use super::*;
use crate::base::cell::Cells;
use crate::base::steps::taken;
use crate::base::units::{EpochRange, Scope, Session};
use crate::erase::policy::Policy;
use crate::media::medium::{Capabilities, Medium, MediumError};
use crate::media::place::Place;
use crate::owed::Owed;
use crate::request::{Question, Reply};
use crate::store::{Epochs, ForgetStep, Kind, Opening, Rekey};
use std::cell::RefCell;

const DISK: [u8; 16] = [4; 16];
/// Blocks of a long request.
const LONG: u64 = 256;
/// The disk is so many of those.
const TIMES: u64 = 8;

/// A medium in memory, and what its first byte has been since it was made.
pub(super) struct Memory(RefCell<Vec<u8>>, RefCell<Vec<u8>>);

impl Medium for Memory {
    fn size(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(&self.0.borrow()[pos.0 as usize..][..into.len()]);
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], _: bool) -> Result<(), MediumError> {
        self.0.borrow_mut()[pos.0 as usize..][..from.len()].copy_from_slice(from);
        self.1.borrow_mut().extend(from.first().filter(|_| pos == Pos(0)));
        Ok(())
    }

    fn sync(&self) -> Result<(), MediumError> {
        Ok(())
    }

    fn punch(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("jobs are only looked at")
    }

    fn zero(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("no space is kept")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: true, erases: false }
    }
}

fn memory(bytes: u64) -> Memory {
    memory_of(vec![0; bytes as usize])
}

pub(super) fn memory_of(bytes: Vec<u8>) -> Memory {
    Memory(RefCell::new(bytes), RefCell::default())
}

/// An empty store whose blocks are sealed with stubs of 64 bytes.
fn store() -> Versions {
    let kept = opening::view(0, 0, &index::lingering::Lingering::default(), &BlockSet::default());
    opened(64, Some(&kept), &memory(0), &"zero".parse().expect("a policy"))
}

/// An empty store above `data`, whose stubs have so many bytes; without what a clean stop has `kept`, it is opened as after a crash.
fn opened(stub_bytes: usize, kept: Option<&[u8]>, data: &Memory, policy: &Policy) -> Versions {
    let layout = Layout { stub_bytes, half_bytes: 4 << 20 };
    let [map, stubs, root] = new_media([1 << 16, layout.half(1).end(), ROOT_BYTES]);
    open_on([data, &map, &stubs, &root], (layout, Session(1)), (kept, policy, false)).expect("a new store")
}

/// The media of the index, the stubs and the root of a new disk, with these sizes in bytes.
fn new_media(bytes: [u64; 3]) -> [Memory; 3] {
    let media = bytes.map(memory);
    let root = format_root(DISK, Cells::new([1; 32]));
    for (medium, first) in media.iter().zip([format_index(DISK), format_stubs(DISK), root]) {
        medium.write(Pos(0), &first, true).expect("there is space");
    }
    media
}

/// Opens the store on its media: content, index, stubs, root.
fn open_on(
    media: [&Memory; 4],
    (layout, session): (Layout, Session),
    (kept, policy, read_only): (Option<&[u8]>, &Policy, bool),
) -> Result<Versions, VersionsError> {
    let setup = Setup { layout, sessions: session.into() };
    let mut opening = Opening {
        kind: &Kind::Versions(setup),
        disk: DISK,
        size: TIMES * LONG * BLOCK_BYTES,
        kept,
        policy,
        read_only,
        memory_bytes: 64 << 20,
        keys: None,
        staged: &[],
        entropy: &mut [2; 32],
        owed: &mut Owed::default(),
    };
    Versions::open(&setup, &mut opening, media.map(|medium| medium as &dyn Medium))
}

fn extent(block: u64, blocks: u64) -> Extent<Addr> {
    Extent::new(block * BLOCK_BYTES, blocks * BLOCK_BYTES)
}

impl Versions {
    fn commit(&mut self) {
        Batch::all_of(self);
        self.end_checkpoint();
    }

    /// Writes the log, and no head.
    fn commit_log(&mut self) {
        assert!(self.begin_checkpoint(true));
        while self.next_batch().is_some() {}
        self.end_checkpoint();
    }

    /// Makes a head, and renews the cell of the half of the log before it.
    fn write_index(&mut self) {
        self.committing.wants_index = true;
        self.commit();
        let job = self.background(false).expect("half a log is to be destroyed");
        assert!(matches!(job, Job::Renew(..)), "{job:?}");
        self.background_done(JobEnd::Done(&[]));
    }

    /// Takes a job that gives space back: where.
    fn punch(&mut self) -> (Job, Vec<Place>) {
        let job = self.background(false).expect("space is to be given back");
        let Job::Punch(space) = &job else { panic!("{job:?}") };
        let places = space.iter().map(|extent| Place { on: MediumId::Data, extent: *extent }).collect();
        (job, places)
    }

    /// Writes some blocks; returns where they lie.
    fn write(&mut self, block: u64, blocks: u64) -> Vec<Place> {
        let at = extent(block, blocks);
        let WritePlan::To(places) = self.begin_write(at, self.open) else { panic!("no place for {at:?}") };
        let session = self.catalog.log.sessions().newest();
        let stub = vec![7; self.catalog.layout.stub_bytes];
        let sealing = |n| Sealing { session, number: n, stub: stub[..].into() };
        self.end_write(at, Written::There((0..blocks as u32).map(sealing).collect()));
        places.iter().collect()
    }
}

/// The kept epochs that still show content which has died.
fn showing_dead(store: &Versions) -> Vec<u64> {
    let reply = store.answer(&Question::ShowingDead(Epoch(0)));
    let Ok(Reply::Epochs(epochs)) = reply else { panic!("{reply:?}") };
    epochs.iter().map(|it| it.epoch.0).collect()
}

#[test]
fn epochs_that_show_what_has_died_since_are_named_until_they_are_forgotten() {
    let mut store = store();
    for _ in 1..=4 {
        // Block 0 has a version in each epoch, block 9 one in the first.
        store.write(0, 1);
        if store.open == Epoch(1) {
            store.write(9, 3);
        }
        store.close(5);
        store.commit();
    }
    let dies = |store: &mut Versions, block, is_told: bool| {
        if is_told {
            store.note_death(extent(block, 1), store.open);
        }
        store.leave(extent(block, 1), store.open);
        store.commit();
        showing_dead(store)
    };
    assert_eq!(dies(&mut store, 10, false), [0; 0], "a death that is not told names none");
    assert_eq!(dies(&mut store, 0, true), [4]);
    store.write(0, 1);
    assert_eq!(dies(&mut store, 0, true), [4], "nothing but the open epoch has shown that");
    store.note_death(extent(200, 1), store.open);
    store.write(200, 1);
    store.write(200, 1);
    assert_eq!(showing_dead(&store), [4], "nothing was there that could die");
    let kept =
        index::lingering::Lingering::from_bytes(&store.catalog.lingering.to_bytes()).expect("whole bytes");
    assert_eq!((kept.first(Epoch(0)), kept.first(Epoch(5))), (Some(Epoch(4)), None));
    assert_eq!(dies(&mut store, 9, true), [1, 2, 3, 4]);
    Epochs::forget(&mut store, Scope::Epochs(EpochRange { from: Epoch(2), to: Epoch(3) }).into());
    assert_eq!(showing_dead(&store), [1, 4]);
}

#[test]
fn a_refused_death_is_of_no_account_in_the_next_epoch() {
    let mut store = store();
    store.write(0, 1);
    store.close(5);
    store.note_death(extent(0, 1), store.open);
    store.close(6);
    store.write(0, 1);
    store.commit();
    assert_eq!(showing_dead(&store), [0; 0]);
}

#[test]
fn after_a_crash_every_epoch_that_had_closed_may_show_what_has_died() {
    let unknown = index::lingering::Lingering::unknown(Epoch(3));
    assert_eq!(
        [0, 1, 2, 3].map(|from| unknown.first(Epoch(from)).map(|it| it.0)),
        [Some(1), Some(1), Some(2), None]
    );
}

#[test]
fn a_read_of_many_blocks_takes_few_ways_down_the_index() {
    let mut store = store();
    for n in 0..TIMES {
        store.write(n * LONG, LONG);
    }
    taken();
    let at = extent(3 * LONG, LONG);
    assert_eq!(Mapped::missing(&store, at), None);
    assert_eq!(Store::locate(&store, at).iter().count(), 1, "written in one go");
    assert!(taken() <= 10, "a leaf has as many entries");
}

#[test]
fn a_write_of_a_block_that_its_epoch_has_written_before_takes_few_ways_down_the_index() {
    let mut store = store();
    store.write(0, LONG);
    taken();
    store.write(7, 1);
    assert!(taken() <= 2, "what was there, of which, never durable, nothing is left; the new version");
}

#[test]
fn a_slot_whose_space_is_being_given_back_is_not_taken_and_one_that_was_taken_keeps_its_space() {
    let mut store = store();
    let old = store.write(0, 8);
    store.commit();
    store.write(0, 8);
    store.commit();
    assert_eq!(store.background(false), None, "stubs in the log die with their half");
    assert_eq!(store.map_state(), MapState::Due);
    store.write_index();
    store.write(200, 1);
    store.write_index();
    let (_, places) = store.punch();
    assert_eq!(places, old);
    let meanwhile = store.write(100, 8);
    assert!(meanwhile.iter().all(|it| old.iter().all(|old| old.extent.overlap(it.extent).is_none())));
    store.background_done(JobEnd::GivenUp);
    assert_eq!(store.backlog(false), Backlog::WhenIdle);
    assert_eq!(store.write(50, 8), old, "the space is used again");
    assert_eq!((store.background(false), store.backlog(false)), (None, Backlog::Nothing));
}

#[test]
fn the_durable_index_frees_slots_of_which_nothing_is_left_though_nothing_else_is_to_be_committed() {
    let mut store = store();
    for _ in 0..2 {
        store.write(0, 8);
        store.commit();
    }
    assert_eq!(store.background(false), None, "stubs in the log die with their half");
    store.write_index();
    let stored = |store: &Versions| {
        Store::status(store).versions().expect("this kind of store").stored_bytes / BLOCK_BYTES
    };
    assert_eq!((stored(&store), store.map_state()), (16, MapState::Behind));
    store.commit();
    assert_eq!((stored(&store), store.map_state()), (8, MapState::Durable));
}

#[test]
fn a_write_has_room_for_the_index_the_homes_and_their_cells_before_it_begins() {
    for (stub_bytes, wanted) in
        [(64, &[MediumId::Map, MediumId::Stubs, MediumId::Root][..]), (0, &[MediumId::Map, MediumId::Stubs])]
    {
        let policy = "zero".parse().expect("a policy");
        let mut store = opened(stub_bytes, None, &memory(0), &policy);
        let mut lacking = Vec::new();
        while let Some(place) = store.lacks_space(extent(0, LONG), false) {
            lacking.push(place.on);
            store.reserved(place);
        }
        assert_eq!(lacking, wanted, "{stub_bytes}");
    }
}

#[test]
fn pages_all_of_whose_stubs_die_are_not_read_and_of_the_others_what_stays_goes_under_another_cell() {
    let mut store = store();
    let (layout, per_page) = (store.catalog.layout, store.catalog.layout.per_page());
    store.write(0, 3 * per_page);
    store.committing.wants_index = true;
    let writes = Batch::all_writes(&mut store);
    store.end_checkpoint();
    let third = |place: Place| Some(layout.page(HomePage(2)).inside(place.extent)?.start.0 as usize);
    let image = writes.iter().find_map(|(places, bytes)| {
        let (place, part) =
            places.parts().find(|(it, _)| it.on == MediumId::Stubs && third(*it).is_some())?;
        Some(bytes[part][third(place)?..][..PAGE_BYTES].to_vec())
    });
    let image = image.expect("the page is written as a whole");
    // Two pages as a whole, and one block of the third.
    store.write(0, 2 * per_page + 1);
    store.commit();
    let mut seen = Vec::new();
    while let Some(job) = store.background(false) {
        let mut read = &[][..];
        match &job {
            Job::Read(places) => {
                assert!(*places == [Place { on: MediumId::Stubs, extent: layout.page(HomePage(2)) }]);
                read = &image;
                seen.push(("read", 1, 0));
            }
            Job::Rekey(Rekey { keys, content, old }) => {
                assert_eq!((keys.1.len(), content.1.len()), (32, PAGE_BYTES));
                seen.push(("rekey", content.0.len(), old.len()));
            }
            _ => {}
        }
        store.background_done(JobEnd::Done(read));
    }
    assert_eq!(seen, [("read", 1, 0), ("rekey", 1, 3)]);
    assert_eq!(store.catalog.history.owed(), 0);
}

#[test]
fn a_page_of_stubs_that_is_not_under_its_cell_stops_the_jobs_and_the_status_says_so() {
    let mut store = store();
    store.write(0, 2);
    store.write_index();
    store.write(0, 1);
    store.commit();
    let job = store.background(false).expect("a stub at home is owed");
    assert!(matches!(job, Job::Read(_)), "{job:?}");
    store.background_done(JobEnd::Done(&[0; PAGE_BYTES]));
    assert_eq!(store.backlog(true), Backlog::Nothing);
    let StoreStatus::Versions(status) = Store::status(&store) else { panic!("another store") };
    let why = status.stopped.expect("nothing is destroyed");
    assert!(why.starts_with("4096 bytes of stubs at byte ") && status.owed_bytes == BLOCK_BYTES, "{why}");
}

/// A store whose block 0 has left its place, and that place. Its stub is at home.
fn left_at_home() -> (Versions, Place) {
    let mut store = store();
    store.write(0, 1);
    store.write_index();
    let left = store.leave(extent(0, 1), store.open)[0];
    (store, left)
}

#[cfg(debug_assertions)]
#[test]
fn mutants_of_jobs_are_caught() {
    use crate::mutant::{self, Mutant};
    for mutant in Mutant::OF_JOBS {
        mutant::activate(Some(mutant));
        let (mut store, _) = left_at_home();
        let job = store.background(true);
        mutant::activate(None);
        assert!(job.is_some(), "{mutant:?}");
    }
}

#[test]
fn a_stub_that_the_journal_owes_dies_once_the_journal_says_so_durably() {
    let (mut store, left) = left_at_home();
    assert_eq!(store.background(true), None, "a crash could take the death back, and not the cell");
    store.owed_durably(&[left.extent]);
    let job = store.background(true).expect("nothing else waits");
    assert!(matches!(&job, Job::Rekey(Rekey { content, old, .. }) if content.0.is_empty() && old.len() == 1));
}

#[test]
fn a_checkpoint_goes_on_where_nothing_is_left_of_the_versions_that_were_to_come_home() {
    let mut store = opened(0, None, &memory(0), &"zero".parse().expect("a policy"));
    store.write(0, 1);
    store.commit();
    store.committing.wants_index = true;
    assert!(store.begin_checkpoint(false));
    let left = store.leave(extent(0, 1), store.open)[0];
    store.owed_durably(&[left.extent]);
    store.reclaim(&[left.extent]);
    let batches: Vec<Batch> = std::iter::from_fn(|| store.next_batch()).collect();
    store.end_checkpoint();
    assert!(
        batches.iter().all(|batch| !batch.writes.is_empty()),
        "each has a write whose end the next one follows"
    );
    assert!(batches.iter().rev().take(2).all(|batch| batch.ends_phase), "the pages of the index; the head");
}

#[test]
fn a_move_of_homes_that_was_given_up_knows_its_slots_after_the_cell_of_a_half_was_destroyed_first() {
    let (mut store, left) = left_at_home();
    store.owed_durably(&[left.extent]);
    store.committing.wants_index = true;
    store.commit();
    store.write(9, 1);
    // The cell is not destroyed while a commit is under way.
    assert!(store.begin_checkpoint(false));
    assert!(matches!(store.background(true), Some(Job::Rekey(_))));
    store.background_done(JobEnd::GivenUp);
    while store.next_batch().is_some() {}
    store.end_checkpoint();
    assert!(matches!(store.background(true), Some(Job::Renew(..))));
    store.background_done(JobEnd::Done(&[]));
    assert!(matches!(store.background(true), Some(Job::Rekey(_))));
    store.background_done(JobEnd::Done(&[]));
    assert_eq!(store.residue(left), [Residue { part: left, at: Vec::new(), is_kept: false }]);
}

/// Closes the open epoch, and lets the content of block 0 die, which that epoch shows: the place that it has left.
fn left_while_kept(store: &mut Versions) -> Place {
    store.close(5);
    store.commit();
    let left = store.leave(extent(0, 1), store.open)[0];
    store.owed_durably(&[left.extent]);
    store.commit();
    left
}

/// Begins to forget the first epoch, up to where the index has to be written.
fn begin_forget(store: &mut Versions) {
    Epochs::forget(store, Scope::Epochs(EpochRange { from: Epoch(1), to: Epoch(1) }).into());
    while store.forget_step() == ForgetStep::More {}
}

#[test]
fn a_forget_waits_for_a_stub_at_home_that_was_passed_over_while_the_journal_named_its_slot() {
    let mut store = store();
    store.write(0, 1);
    store.write_index();
    let left = left_while_kept(&mut store);
    begin_forget(&mut store);
    store.write_index();
    while store.forget_step() == ForgetStep::More {}
    assert_eq!(store.background(true), None, "a kept epoch showed it when it left");
    store.reclaim(&[left.extent]);
    assert_eq!(store.forget_step(), ForgetStep::Waits, "the stub is there");
    let job = store.background(true).expect("the stub is to be destroyed");
    assert!(matches!(job, Job::Rekey(_)), "{job:?}");
    store.background_done(JobEnd::Done(&[]));
    assert_eq!(store.forget_step(), ForgetStep::Waits, "the durable index names the slot");
    store.commit();
    let scope = EpochRange { from: Epoch(1), to: Epoch(1) }.into();
    assert_eq!(store.forget_step(), ForgetStep::Done(scope, 1));
}

#[test]
fn a_slot_that_the_journal_names_is_not_taken_though_a_forget_has_destroyed_the_stub_in_the_log() {
    let mut store = store();
    store.write(0, 1);
    let left = left_while_kept(&mut store);
    begin_forget(&mut store);
    assert!(store.residue(left)[0].is_kept);
    store.write_index();
    assert!(store.residue(left)[0] == Residue { part: left, at: Vec::new(), is_kept: false });
    store.commit();
    assert_ne!(store.write(0, 1), [left], "a start would take the new content for the dead one");
    store.reclaim(&[left.extent]);
    store.commit();
    store.commit();
    assert_eq!(store.write(9, 1), [left]);
}

#[test]
fn the_homes_of_stubs_near_each_other_are_written_with_few_operations() {
    let mut store = store();
    for n in 0..TIMES {
        store.write(n * LONG, LONG);
    }
    store.commit();
    store.committing.wants_index = true;
    let mut writes = Batch::all_writes(&mut store);
    writes.pop().expect("the head is last");
    let homes = |places: &Places| places.iter().filter(|place| place.on == MediumId::Stubs).count() as u64;
    let sectors = (TIMES * LONG).div_ceil(store.catalog.layout.per_sector() as u64);
    let homes: u64 = writes.iter().map(|(places, _)| homes(places)).sum();
    assert!(homes <= sectors + TIMES, "{homes} places for {sectors} sectors, six homes each");
    assert!(writes.len() <= 6, "{} operations", writes.len());
    let bytes = |(places, bytes): &(Places, Vec<u8>)| (places.bytes(), bytes.len() as u64);
    assert!(writes.iter().map(bytes).all(|(places, bytes)| places == bytes && bytes <= 64 << 10));
}

#[test]
fn a_checkpoint_of_any_size_is_in_memory_a_mib_at_a_time() {
    let mut store = store();
    for _ in 0..9 {
        for n in 0..TIMES {
            store.write(n * LONG, LONG);
        }
        store.commit_log();
        store.close(5);
    }
    store.committing.wants_index = true;
    let batch_pages = store.catalog.limits.batch;
    let batches = Batch::all_of(&mut store);
    let bytes = |batch: &Batch| batch.writes.iter().map(|(_, bytes)| bytes.len()).sum::<usize>();
    let all: usize = batches.iter().map(bytes).sum();
    assert!(all > 3 * batch_pages * PAGE_BYTES / 2, "{all} bytes");
    // The cells of the root come with the pages that they hide.
    let most = batch_pages * (PAGE_BYTES + 64);
    assert!(
        batches.iter().all(|batch| bytes(batch) <= most),
        "{:?}",
        Vec::from_iter(batches.iter().map(bytes))
    );
    let phases: Vec<_> = batches.iter().map(|batch| batch.ends_phase).collect();
    assert_eq!(
        phases.iter().filter(|ends| **ends).count(),
        3,
        "the log, what comes before the head, the head: {phases:?}"
    );
}

#[test]
fn what_changes_while_a_checkpoint_is_written_is_no_part_of_it() {
    let mut written = Vec::new();
    for meanwhile in [false, true] {
        let mut store = store();
        (0..TIMES).for_each(|n| _ = store.write(n * LONG, LONG));
        store.commit();
        (0..TIMES).for_each(|n| _ = store.write(n * LONG, LONG / 2));
        store.committing.wants_index = true;
        store.begin_checkpoint(false);
        let mut index = Vec::new();
        while let Some(batch) = store.next_batch() {
            let is_index = |(places, _): &(Places, Vec<u8>)| places.first().on == MediumId::Map;
            index.extend(batch.writes.into_iter().filter(is_index));
            if meanwhile {
                (0..TIMES).for_each(|n| _ = store.write(n * LONG, LONG));
                store.close(5);
            }
        }
        store.end_checkpoint();
        written.push(index);
    }
    assert!(written[0].len() > 1 && written[0] == written[1]);
}

#[test]
fn writes_wait_for_the_index_when_stubs_without_a_home_fill_their_memory() {
    let mut store = store();
    store.catalog.limits.stubs = 2 * LONG as usize;
    store.write(0, LONG);
    assert_eq!(store.map_state(), MapState::Due, "many entries are written before they are very many");
    store.commit();
    assert_eq!(store.map_state(), MapState::Durable);
    store.write(LONG, 1);
    assert_eq!(store.map_state(), MapState::Due, "half of the memory is taken, and the index is due");
    store.write(LONG + 1, LONG - 1);
    let at = extent(2 * LONG, 1);
    assert!(matches!(store.begin_write(at, store.open), WritePlan::AwaitJob));
    store.commit();
    assert!(matches!(store.begin_write(at, store.open), WritePlan::To(_)), "all stubs have their homes");
}

#[test]
fn a_write_with_more_stubs_than_there_is_memory_for_has_the_index_written_and_goes_on_alone() {
    let mut store = store();
    store.catalog.limits.stubs = LONG as usize / 2;
    store.write(0, 1);
    store.commit();
    assert_eq!(store.map_state(), MapState::Durable);
    let at = extent(LONG, LONG);
    assert!(matches!(store.begin_write(at, store.open), WritePlan::AwaitJob));
    assert_eq!(store.map_state(), MapState::Due);
    store.commit();
    assert!(matches!(store.begin_write(at, store.open), WritePlan::To(_)));
}

#[test]
fn a_start_after_a_crash_destroys_free_slots_by_all_passes_where_there_are_no_stubs_and_leaves_zeros() {
    let data = memory(600 * BLOCK_BYTES);
    data.0.borrow_mut().fill(1);
    opened(0, None, &data, &"55,ff".parse().expect("a policy"));
    assert_eq!(*data.1.borrow(), [0x55, 0xff, 0], "the passes, and what proofs look for");
    assert!(data.0.borrow().iter().all(|byte| *byte == 0));
}
