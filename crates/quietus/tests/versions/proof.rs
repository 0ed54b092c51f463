//! What `prove` says of a disk that keeps versions.

use crate::judge::{BLOCK, Bench, WITH_STUBS, ask, bring_home, filled, forget, write};
use quietus::control::Call;
use quietus::epochs;
use quietus::open_disk::OpenDisk;
use quietus::proof::{self, Proof, Receipt};
use quietus_core::request::Op;
use quietus_core::units::Epoch;
use quietus_seal::Seal;
use std::os::unix::fs::FileExt;

/// The receipt of a proof, whose signature is valid.
fn prove(disk: &OpenDisk) -> Proof {
    let answer = disk.answer(&Call::Prove, None, &mut |_, _| true).expect("a proof");
    let text = serde_json::to_string(&answer).expect("text");
    let Receipt { statement, .. } = proof::check(&text, None).expect("a valid receipt");
    assert!(
        proof::check(&text.replace("\"kept\":", "\"kept\":1"), None).is_err(),
        "the signature covers the epochs"
    );
    statement
}

/// Destroys all that is owed.
fn drain(disk: &OpenDisk) {
    disk.answer(&Call::Shred, None, &mut |_, _| true).expect("all is destroyed");
    disk.engine.shred_now();
    assert!(disk.engine.wait_until_drained(|_| true));
}

fn put(bench: &Bench, name: &str, at: usize, bytes: &[u8]) {
    let file = std::fs::File::options().write(true).open(bench.path().join(name)).expect("a file");
    file.write_all_at(bytes, at as u64).expect("a write");
    file.sync_all().expect("a sync");
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
            let (had, has) = (before.epochs.expect("epochs"), after.epochs.expect("epochs"));
            assert_eq!((had.forgotten + 1, had.kept - 1), (has.forgotten, has.kept));
            assert_eq!(had.shown_bytes - has.shown_bytes, 24 * BLOCK, "{seal}: what only epoch 1 showed");
        }
    }
}

/// Each stub that somebody puts back into its home is found. (Those of the log are hidden under a cell that is gone.)
fn plant(seal: Seal) {
    let bench = Bench::new(seal);
    let (disk, only) = filled(&bench);
    bring_home(&disk);
    let before = bench.file("stubs");
    forget(&disk, Epoch(1));
    drain(&disk);
    assert!(prove(&disk).is_clean());
    let now = bench.file("stubs");
    let sectors = before.chunks(512).enumerate().filter(|(n, sector)| {
        let there = now.get(n * 512..).and_then(|it| it.get(..sector.len()));
        there.is_some_and(|there| there != *sector) && sector.iter().any(|byte| *byte != 0)
    });
    let sectors: Vec<_> = sectors.collect();
    assert!(!sectors.is_empty(), "{seal}: something was destroyed");
    for (n, sector) in &sectors {
        put(&bench, "stubs", n * 512, sector);
    }
    let proof = prove(&disk);
    let found = proof.stubs.as_ref().expect("stubs");
    assert!(!proof.is_clean() && found.residue.len() >= only.len(), "{seal}: {found:?}");
    let is_in = |at: u64| sectors.iter().any(|(n, _)| *n as u64 == at / 512);
    assert!(found.residue.iter().all(|at| is_in(*at)), "{seal}: {found:?}");
    for (n, _) in &sectors {
        put(&bench, "stubs", n * 512, &now[n * 512..(n * 512 + 512).min(now.len())]);
    }
    assert!(prove(&disk).is_clean());
}

#[test]
fn a_stub_of_a_forgotten_epoch_that_lies_at_home_is_found() {
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
            had != has && has.iter().all(|byte| *byte == 0)
        });
        let died = died.expect("the content of a slot was destroyed");
        put(&bench, "data", died, &before[died..][..BLOCK as usize]);
        let proof = prove(&disk);
        assert!(!proof.is_clean() && proof.violations == [(died as u64, BLOCK)], "{seal}: {proof:?}");
    }
}
