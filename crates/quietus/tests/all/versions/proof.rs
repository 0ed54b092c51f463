//! What `prove` says of a disk that keeps versions.

use crate::program::{copy, overwrite};
use crate::versions::judge::{
    BLOCK, Bench, WITH_STUBS, ask, bring_home, cells_of, filled, forget, half, stop, write,
};
use crate::versions::verify::{HEAD, PAGE, RECORD, SECTOR, is_filled};
use quietus::epochs;
use quietus::front::control::{Call, Shredded};
use quietus::open_disk::OpenDisk;
use quietus::proof::{Proof, Receipt};
use quietus_core::base::cell::Cell;
use quietus_core::base::units::{Epoch, EpochRange, Extent, Session};
use quietus_core::base::zeros::is_zeros;
use quietus_core::request::Op;
use quietus_core::store::StoreStatus;
use quietus_core::store::versions::VersionsStatus;
use quietus_seal::Seal;

/// The receipt of a proof, whose signature is valid.
fn prove(disk: &OpenDisk) -> Proof {
    let receipt: Receipt = disk.answer(&Call::Prove, None, &mut |_, _| true).expect("a proof");
    let text = serde_json::to_string(&receipt).expect("text");
    let Receipt { statement, .. } = Receipt::parse(&text, None).expect("a valid receipt");
    let changed = Receipt::parse(&text.replace("\"kept\":", "\"kept\":1"), None);
    assert!(changed.is_err(), "the signature covers the epochs");
    statement
}

/// Destroys all that is owed.
fn drain(disk: &OpenDisk) {
    disk.reply(&Call::Shred, None, &mut |_, _| true).expect("all is destroyed");
    disk.engine.shred_now();
    assert!(disk.engine.wait_until_drained(|_| true));
}

fn put(bench: &Bench, name: &str, at: usize, bytes: &[u8]) {
    overwrite(&bench.path().join(name), at as u64, bytes);
    std::fs::File::open(bench.path().join(name)).and_then(|it| it.sync_all()).expect("a sync");
}

#[test]
fn what_kept_epochs_show_is_not_dead_and_what_a_forgotten_one_showed_has_no_stub() {
    for seal in WITH_STUBS {
        for are_at_home in [false, true] {
            let bench = Bench::new(seal);
            let (disk, _) = filled(&bench);
            if are_at_home {
                bring_home(&disk);
            }
            drain(&disk);
            let before = prove(&disk);
            assert!(before.is_clean(), "{seal}: {before:?}");
            forget(&disk, Epoch(1));
            drain(&disk);
            let after = prove(&disk);
            assert!(after.is_clean(), "{seal}: {after:?}");
            let (had, has) = (before.stubs.expect("stubs"), after.stubs.expect("stubs"));
            assert!(has.live >= 64 && had.read_bytes > 0 && has.owed == 0, "{seal}: {had:?}, {has:?}");
            let root = has.root;
            assert!(root.cells >= 3 && root.owed == 0 && root.read_bytes >= 8192, "{seal}: {root:?}");
            let (had, has) = (before.epochs.expect("epochs"), after.epochs.expect("epochs"));
            assert_eq!((had.forgotten + 1, had.kept - 1), (has.forgotten, has.kept));
            assert_eq!(had.shown_bytes - has.shown_bytes, 24 * BLOCK, "{seal}: what only epoch 1 showed");
        }
    }
}

fn store(disk: &OpenDisk) -> VersionsStatus {
    let StoreStatus::Versions(store) = disk.engine.status().store else { panic!("another store") };
    store
}

#[test]
fn after_a_kill_or_a_stop_status_proof_and_shred_say_alike_that_nothing_is_left_of_what_was_forgotten() {
    for seal in Seal::ALL {
        let bench = Bench::new(seal);
        let (disk, only) = filled(&bench);
        drain(&disk);
        let before = (store(&disk).stored_bytes, disk.engine.status().counters.destroyed_bytes);
        forget(&disk, Epoch(1));
        let after = (store(&disk).stored_bytes, disk.engine.status().counters.destroyed_bytes);
        let bytes = only.len() as u64 * 4096;
        assert_eq!(
            (before.0 - after.0, after.1 - before.1),
            (bytes, bytes),
            "{seal}: what is stored falls, and what is destroyed counts"
        );
        // As a kill would leave it.
        let dir = tempfile::tempdir().expect("a directory");
        let twin = dir.path().join("disk");
        let copied = || disk.engine.ask(|volume| volume.is_at_rest().then(|| copy(bench.path(), &twin)));
        while copied().is_none() {}
        stop(disk, false);
        for (path, when) in
            [(twin.as_path(), "killed"), (twin.as_path(), "looked at"), (bench.path(), "stopped")]
        {
            let disk = OpenDisk::open(path, true, &mut |_, _| true).expect("it opens");
            assert_eq!(store(&disk).owed_bytes, 0, "{seal}, {when}");
            assert!(prove(&disk).is_clean(), "{seal}, {when}");
            let shred: Shredded = disk.answer(&Call::Shred, None, &mut |_, _| true).expect("an answer");
            assert_eq!((shred.done, shred.destroyed_bytes), (true, 0), "{seal}, {when}");
            disk.close(false, |_| true);
        }
    }
}

#[test]
fn shred_waits_for_what_is_being_forgotten() {
    for seal in Seal::ALL {
        let bench = Bench::new(seal);
        let (disk, _) = filled(&bench);
        epochs::forget(&disk.engine, EpochRange { from: Epoch(1), to: Epoch(1) }).expect("it is noted");
        let shred: Shredded = disk.answer(&Call::Shred, None, &mut |_, _| true).expect("an answer");
        assert!(shred.done);
        assert_eq!((store(&disk).owed_bytes, disk.engine.status().owed.forgets.len()), (0, 0), "{seal}");
        assert!(prove(&disk).is_clean(), "{seal}");
        disk.close(true, |_| true);
    }
}

/// The homes of stubs in a page that was brought back, hidden under the cell that the page has now.
pub(crate) fn brought_back(
    stub_bytes: usize,
    before: (&[u8], &[u8]),
    now: (&[u8], &[u8]),
) -> Vec<(usize, Vec<u8>)> {
    let (entry, homes) = (RECORD + stub_bytes, PAGE + 2 * half(stub_bytes));
    let mut found = Vec::new();
    for sector in (homes..before.0.len() / SECTOR * SECTOR).step_by(SECTOR) {
        let page = (sector - homes) / PAGE;
        let [was, is] = [before.1, now.1].map(|root| cells_of(root, page));
        for at in (sector + HEAD..=sector + SECTOR - entry).step_by(entry) {
            let [had, has] = [before.0, now.0].map(|stubs| &stubs[at..at + entry]);
            if is_filled(had) && !is_filled(has) {
                let number = |from: usize, to: usize| {
                    had[from..to].iter().rev().fold(0, |n, it| n << 8 | u32::from(*it))
                };
                let mut stub = had.to_vec();
                let used = |cells: &[Cell]| cells.iter().find(|cell| cell.is_whole()).cloned();
                for cell in [used(&was), used(&is)].into_iter().flatten() {
                    cell.mask(Session(number(5, 7) as u16), number(7, 11), &mut stub[RECORD..]);
                }
                found.push((at, stub));
            }
        }
    }
    found
}

/// Each stub that is put back into its home, under the cell of its page, is found. Under the cell that is gone, it belongs to no version.
fn plant(seal: Seal) {
    let bench = Bench::new(seal);
    let (disk, only) = filled(&bench);
    bring_home(&disk);
    let (before, root) = (bench.file("stubs"), bench.file("root"));
    forget(&disk, Epoch(1));
    drain(&disk);
    assert!(prove(&disk).is_clean());
    let (now, fresh) = (bench.file("stubs"), bench.file("root"));
    let homes = brought_back(seal.stub_bytes(), (&before, &root), (&now, &fresh));
    assert!(homes.len() >= only.len(), "{seal}: something was destroyed");
    homes.iter().for_each(|(at, home)| put(&bench, "stubs", *at, home));
    let proof = prove(&disk);
    let found = proof.stubs.as_ref().expect("stubs");
    assert!(!proof.is_clean() && found.residue.len() == homes.len(), "{seal}: {found:?}");
    assert!(homes.iter().all(|(at, _)| found.residue.contains(&((at + RECORD) as u64))), "{seal}: {found:?}");
    homes.iter().for_each(|(at, home)| put(&bench, "stubs", *at, &vec![0; home.len()]));
    assert!(prove(&disk).is_clean());
    let cells = (8192..root.len()).step_by(32).filter(|at| root[*at..at + 32] != fresh[*at..at + 32]);
    let old: Vec<_> = cells.filter(|at| is_filled(&root[*at..at + 32])).collect();
    assert!(!old.is_empty(), "{seal}: a page got another cell");
    for at in old {
        put(&bench, "root", at, &root[at..at + 32]);
        let proof = prove(&disk);
        let found = &proof.stubs.as_ref().expect("stubs").root;
        assert!(!proof.is_clean() && found.residue == [at as u64], "{seal}: {found:?}");
        put(&bench, "root", at, &fresh[at..at + 32]);
    }
    assert!(prove(&disk).is_clean());
}

#[test]
fn a_stub_of_a_forgotten_epoch_that_lies_at_home_is_found_and_so_is_a_cell_that_was_destroyed() {
    WITH_STUBS.into_iter().for_each(plant);
}

#[test]
fn where_the_content_itself_dies_free_slots_are_read_and_what_is_kept_is_not_dead() {
    for seal in [Seal::None, Seal::AesXts] {
        let bench = Bench::new(seal);
        let (disk, _) = filled(&bench);
        drain(&disk);
        let clean = prove(&disk);
        assert!(clean.is_clean() && clean.stubs.is_none(), "{seal}: {clean:?}");
        let before = bench.file("data");
        forget(&disk, Epoch(1));
        // What was freed is free for new content once a head of the index says so.
        write(&disk, 200..201, 1);
        assert_eq!(epochs::close(&disk.engine, 7), Ok(Epoch(3)));
        ask(&disk, Op::Flush, 0, 0);
        forget(&disk, Epoch(3));
        drain(&disk);
        let proof = prove(&disk);
        assert!(proof.is_clean(), "{seal}: {proof:?}");
        let now = bench.file("data");
        let died = (0..now.len()).step_by(BLOCK as usize).find(|at| {
            let (had, has) = (&before[*at..][..BLOCK as usize], &now[*at..][..BLOCK as usize]);
            had != has && is_zeros(has)
        });
        let died = died.expect("the content of a slot was destroyed");
        put(&bench, "data", died, &before[died..][..BLOCK as usize]);
        let proof = prove(&disk);
        assert!(!proof.is_clean(), "{seal}: {proof:?}");
        assert_eq!(proof.violations, [Extent::new(died as u64, BLOCK)], "{seal}");
    }
}
