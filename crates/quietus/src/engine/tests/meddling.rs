//! Another program meddles with the files of a disk that is in use.

use super::*;
use std::fs::OpenOptions;
use std::path::Path;

fn cut_off(path: &Path) {
    let medium = OpenOptions::new().write(true).open(path.join("data"));
    medium.and_then(|it| it.set_len(4096)).expect("it is ours");
}

/// Why the disk is latched, after `act` on a disk with content and `meddle` in its directory.
fn reason(meddle: impl Fn(&Path), act: impl Fn(&Engine)) -> String {
    let (bench, _dir, engine) = opened();
    ask(&engine, Op::Write(vec![7; 1 << 20].into()), 0, 1 << 20).expect("a write");
    ask(&engine, Op::Flush, 0, 0).expect("a flush");
    meddle(&bench.path);
    act(&engine);
    let status = engine.status();
    let refused = ask(&engine, Op::Write(vec![8; 512].into()), 0, 512);
    assert!(matches!(refused, Err(Refusal::Latched(_) | Refusal::Io(_))), "{refused:?}, {status:?}");
    status.latched.expect("it is latched")
}

fn flush(engine: &Engine) {
    ask(engine, Op::Flush, 0, 0).expect_err("it is not durable");
}

#[test]
fn a_medium_that_was_cut_off_is_not_made_as_long_again() {
    let write_last = |engine: &Engine| {
        ask(engine, Op::Write(vec![9; 4096].into()), SIZE - 4096, 4096).expect_err("it would hide the cut");
        flush(engine);
    };
    assert!(reason(cut_off, write_last).contains(&format!("truncated from {SIZE} to 4096 bytes")));
    let reads = |engine: &Engine| {
        let error = ask(engine, Op::Read, 65536, 4096).expect_err("it is gone");
        assert!(error.to_string().contains("truncated"), "{error}");
        flush(engine);
    };
    assert!(reason(cut_off, reads).contains("truncated"));
    let trims = |engine: &Engine| {
        // The journal is whole; but the look at all files that follows a request may come before.
        if let Err(refusal) = ask(engine, Op::Trim, 0, 65536) {
            assert!(refusal.to_string().contains("truncated"), "{refusal}");
        }
        engine.shred_now();
        engine.wait_until_drained(|_| true);
    };
    assert!(reason(cut_off, trims).contains("truncated"));
}

fn delete(path: &Path) {
    std::fs::remove_file(path.join("data")).expect("it is ours");
}

fn replace(path: &Path) {
    std::fs::rename(path.join("data"), path.join("elsewhere")).expect("it is ours");
    std::fs::copy(path.join("elsewhere"), path.join("data")).expect("room");
}

#[test]
fn a_file_that_was_deleted_is_noticed_at_the_next_flush_and_any_change_at_the_next_look() {
    let looks = |engine: &Engine| drop(engine.check_media().expect_err("it is not what it was"));
    for act in [flush, looks] {
        assert!(reason(delete, act).contains("deleted while in use"));
    }
    assert!(reason(replace, looks).contains("replaced by another file while in use"));
    let moves = |path: &Path| std::fs::rename(path.join("data"), path.join("elsewhere")).expect("it is ours");
    assert!(reason(moves, flush).contains("moved away while in use"));
    let journal = |path: &Path| std::fs::remove_file(path.join("journal")).expect("it is ours");
    assert!(reason(journal, flush).contains("journal: deleted while in use"));
    let trims =
        |engine: &Engine| drop(ask(engine, Op::Trim, 0, 65536).expect_err("the disk would not know of it"));
    assert!(reason(journal, trims).contains("deleted while in use"));
}

#[test]
fn a_guest_that_never_flushes_does_not_go_on_for_long_on_a_medium_that_is_gone() {
    for meddle in [delete, replace] {
        let (bench, _dir, engine) = opened();
        meddle(&bench.path);
        let ends = Instant::now() + Duration::from_secs(60);
        while engine.status().latched.is_none() {
            assert!(Instant::now() < ends, "the files are not looked at");
            // Once it is latched, writes are refused.
            let _ = ask(&engine, Op::Write(vec![7; 4096].into()), 0, 4096);
        }
    }
}

#[test]
fn a_directory_that_was_moved_does_no_harm() {
    let (bench, _dir, engine) = opened();
    std::fs::rename(&bench.path, bench.path.with_extension("moved")).expect("it is ours");
    ask(&engine, Op::Write(vec![7; 4096].into()), SIZE - 4096, 4096).expect("a write");
    ask(&engine, Op::Flush, 0, 0).expect("a flush");
    assert_eq!(engine.check_media(), Ok(()));
}
