//! Key files that are older than their disk, or went another way: nothing is sealed with them, and nothing is lost.

use crate::program::copy;
use crate::versions::judge::{Bench, ask, content, write};
use quietus::disk::DiskDir;
use quietus::disk::keys::{KeysError, Source};
use quietus::front::control::Call;
use quietus::open_disk::OpenDisk;
use quietus::proof::Checks;
use quietus_core::request::Op;
use quietus_seal::Seal;
use std::path::Path;

/// The seals that have keys.
fn with_keys() -> impl Iterator<Item = Seal> {
    Seal::ALL.into_iter().filter(|seal| seal.has_keys())
}

/// Writes ten blocks from `block` on in a session of their own.
fn session(bench: &Bench, block: u64) {
    let disk = bench.open();
    write(&disk, block..block + 10, 1);
    ask(&disk, Op::Flush, 0, 0);
    disk.close(true, |_| true);
}

fn reads(disk: &OpenDisk, block: u64) -> bool {
    (block..block + 10).all(|block| ask(disk, Op::Read, block, 1) == content(block, 1))
}

/// Why the keys do not open for a start that writes.
fn refused(path: &Path, source: &Source) -> String {
    let mut dir = DiskDir::open(path).expect("it opens");
    let error = dir.unlock(source).expect_err("the keys are refused");
    assert!(matches!(&error, KeysError::File { path, .. } if path.ends_with("keys")), "{error}");
    error.to_string()
}

/// The findings of a look at a disk that is not served, about `what`.
fn findings(bench: &Bench, what: &str) -> Vec<String> {
    let disk = OpenDisk::open(bench.path(), true, &mut |_, _| true).expect("it opens");
    let call = Call::Verify { read_data: false };
    let answer: Checks = disk.answer(&call, None, &mut |_, _| true).expect("an answer");
    let bad = answer.checks.into_iter().filter(|it| !it.ok && it.what == what);
    bad.map(|it| it.detail).collect()
}

#[test]
fn a_backup_of_the_keys_from_before_the_last_start_is_refused_and_nothing_is_lost_either_way() {
    for seal in with_keys() {
        let bench = Bench::new(seal);
        session(&bench, 0);
        let backup = bench.file("keys");
        session(&bench, 20);
        let newest = bench.file("keys");
        bench.put("keys", &backup);
        let why = refused(bench.path(), bench.source());
        assert!(why.contains("no session 1") && why.contains("only those up to 0"), "{seal}: {why}");
        assert!(why.contains("Put back the newest key file"), "{why}");
        assert!(bench.file("keys") == backup, "{seal}: a refused key file is as it was");
        let found = findings(&bench, "keys");
        assert!(found.len() == 1 && found[0].contains("no session 1"), "{seal}: {found:?}");
        let stubs = findings(&bench, "stubs");
        let is_named = stubs.iter().any(|it| it.contains("stubs of versions name session 1"));
        assert_eq!(is_named, seal.dies_with_stub(), "{seal}: {stubs:?}");
        let disk = bench.look().expect("a reader gets what there is");
        assert!(reads(&disk, 0), "{seal}");
        drop(disk);
        bench.put("keys", &newest);
        assert_eq!(findings(&bench, "keys"), [""; 0], "{seal}");
        session(&bench, 40);
        let disk = bench.open();
        assert!([0, 20, 40].into_iter().all(|block| reads(&disk, block)), "{seal}");
        disk.close(true, |_| true);
    }
}

#[test]
fn the_keys_of_a_copy_of_the_disk_that_went_on_by_itself_are_refused() {
    for seal in with_keys() {
        let bench = Bench::new(seal);
        session(&bench, 0);
        let dir = tempfile::tempdir().expect("a directory");
        let twin = dir.path().join("disk");
        copy(bench.path(), &twin);
        for _ in 0..2 {
            let disk = OpenDisk::open_unlocked(&twin, false, Some(bench.source()), &mut |_, _| true);
            disk.expect("it opens").close(true, |_| true);
        }
        session(&bench, 20);
        std::fs::copy(twin.join("keys"), bench.path().join("keys")).expect("a copy");
        let why = refused(bench.path(), bench.source());
        assert!(why.contains("session 1 of the key file is not the session 1"), "{seal}: {why}");
        assert!(findings(&bench, "keys").iter().any(|it| it.contains("is not the session 1")), "{seal}");
    }
}

#[test]
fn keys_whose_last_session_is_damaged_are_refused_and_newer_keys_are_not() {
    let bench = Bench::new(Seal::RandomKey);
    session(&bench, 0);
    let (older, path) = (tempfile::tempdir().expect("a directory"), bench.path().to_path_buf());
    let then = older.path().join("disk");
    copy(&path, &then);
    session(&bench, 20);
    let newest = bench.file("keys");
    // All of an older disk with the newest keys: as after a restore of everything but the keys.
    std::fs::copy(path.join("keys"), then.join("keys")).expect("a copy");
    for is_again in [false, true] {
        let disk = OpenDisk::open_unlocked(&then, false, Some(bench.source()), &mut |_, _| true);
        let disk = disk.expect("it opens");
        assert!(reads(&disk, 0) && (!is_again || reads(&disk, 30)));
        write(&disk, 30..40, 1);
        disk.close(true, |_| true);
    }
    let mut damaged = newest;
    damaged[73 * 4096 + 32 + 5] ^= 4;
    bench.put("keys", &damaged);
    let why = refused(&path, bench.source());
    assert!(why.contains("record of session 1") && why.contains("damaged"), "{why}");
}
