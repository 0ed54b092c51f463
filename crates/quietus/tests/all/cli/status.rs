//! What `status` and `shred` tell people.

use crate::program::{Disk, quietus, text, told, tool, wait_until};
use serde_json::Value;
use std::os::unix::fs::FileExt;

/// A disk with 64 KiB that are not destroyed unasked.
fn waiting() -> Disk {
    let disk = Disk::on(&[1; 1 << 20], &["--idle-after", "1h", "--deadline", "2h", "--adopt"]);
    disk.json("purge", &["0+65536"]);
    disk
}

#[test]
fn the_first_line_says_whether_everything_deleted_is_gone() {
    let disk = waiting();
    let screen = disk.shown("status", &[]);
    assert!(screen.starts_with("deleted    64.00 KiB wait; "), "{screen}");
    assert!(screen.contains("queued; until `quietus serve`, or `quietus shred --now`"), "{screen}");
    assert!(screen.contains("not served") && screen.contains("health     good"), "{screen}");
    let server = disk.serve(&[]);
    disk.json("purge", &["65536+4096"]);
    let screen = disk.shown("status", &[]);
    assert!(screen.contains("until 1 h without a request, at most 2 h; `quietus shred --now`"), "{screen}");
    assert_eq!(disk.json("status", &[])["waiting"][0]["bytes"], 69632);
    disk.json("shred", &["--now"]);
    let screen = disk.shown("status", &[]);
    assert!(screen.starts_with("deleted    gone"), "{screen}");
    assert!(screen.contains(" (as far as deletions are known: 68.00 KiB so far"), "{screen}");
    assert!(!screen.contains("waiting"), "{screen}");
    assert_eq!(disk.json("status", &[])["waiting"], Value::Array(Vec::new()));
    drop(server);
}

#[test]
fn the_summary_is_short_and_counters_are_for_those_who_ask() {
    let disk = waiting();
    let screen = disk.shown("status", &[]);
    assert!(screen.lines().count() <= 10 && !screen.contains("deaths by source"), "{screen}");
    let verbose = disk.shown("status", &["--verbose"]);
    assert!(verbose.starts_with(screen.lines().next().expect("a line")), "{verbose}");
    for line in ["deaths by source", "guarantee    overwriting "] {
        assert!(verbose.contains(line), "{line}: {verbose}");
    }
}

#[test]
fn a_check_says_the_result_the_time_and_the_policy_first_whose_the_key_is_and_what_the_medium_promises() {
    let disk = waiting();
    disk.json("shred", &["--now"]);
    let receipt = disk.beside("receipt.json");
    let receipt = text(&receipt);
    for screen in [disk.shown("shred", &["--now"]), disk.shown("prove", &["-o", receipt])] {
        assert!(!screen.contains("guarantee") && !screen.contains("- medium"), "{screen}");
    }
    assert!(disk.shown("status", &[]).contains(": overwriting "), "the summary");
    let key = disk.path().join("key.pub");
    for (key, said) in [
        (&[][..], "signed       self-signed, by a key that was not checked: "),
        (&["--key", text(&key)], "signed       the signature is valid, by the given key "),
    ] {
        let (status, lines) = ended(&[&["prove", "--check", receipt], key].concat());
        assert_eq!(status, Some(0), "{lines:?}");
        assert!(lines[0].starts_with("result       gone"), "{lines:?}");
        assert!(lines[1].starts_with("time         20") && lines[1].ends_with('Z'), "{lines:?}");
        assert_eq!(lines[2], "policy       clear");
        assert!(lines[3].starts_with(said), "{lines:?}");
        assert!(lines.iter().any(|line| line.starts_with("guarantee    overwriting ")), "{lines:?}");
    }
}

#[test]
fn a_disk_that_failed_says_so_first() {
    let disk = waiting();
    let _server = disk.serve(&[]);
    let medium = std::fs::File::options().write(true).open(disk.beside("image"));
    medium.and_then(|it| it.set_len(4096)).expect("it is ours");
    let screen = disk.shown("status", &[]);
    assert!(screen.starts_with("deleted    NOT gone: 64.00 KiB cannot be destroyed"), "{screen}");
    assert!(screen.contains("health     READ-ONLY, nothing is destroyed any more"), "{screen}");
}

/// Bytes of a file that was deleted before the disk was adopted.
const DELETED: u64 = 65536;

/// What waits, once that is known, on a disk of 32 MiB whose file system is made with `args`, and where
/// only the file system itself and [`DELETED`] bytes in free blocks hold data.
fn waiting_below(args: &[&str]) -> Option<Value> {
    let dir = tempfile::tempdir().expect("a directory");
    let image = dir.path().join("image");
    let file = std::fs::File::create(&image).expect("an image");
    file.set_len(32 << 20).expect("holes");
    tool("mke2fs", &[&["-q", "-F"], args, &[text(&image)]].concat())?;
    file.write_all_at(&[7; DELETED as usize], 20 << 20).expect("content");
    let disk = Disk::new(&["--adopt", text(&image), "--deadline", "1h", "--idle-after", "1h"]);
    let _server = disk.serve(&[]);
    let mut status = Value::Null;
    wait_until(|| {
        status = disk.json("status", &[]);
        status["holes_unknown"] == false && status["waiting"] != Value::Array(Vec::new())
    });
    Some(status["waiting"].clone())
}

#[test]
fn free_blocks_without_data_wait_for_nothing() {
    for args in [&[][..], &["-O", "has_journal,extent"]] {
        let Some(waiting) = waiting_below(args) else { return };
        let bytes = waiting[0]["bytes"].as_u64().expect("a number");
        assert!(waiting[0]["for"] == "evidence" && waiting.as_array().is_some_and(|it| it.len() == 1));
        // mke2fs writes zeros here and there.
        assert!((DELETED..1 << 20).contains(&bytes), "{waiting}");
    }
}

/// How a command ends, and its lines.
fn ended(args: &[&str]) -> (Option<i32>, Vec<String>) {
    let output = quietus().args(args).output().expect("it runs");
    (output.status.code(), told(&output).lines().map(String::from).collect())
}

#[test]
fn less_than_a_script_requires_is_exit_status_3() {
    let disk = waiting();
    let path = disk.path();
    let path = text(&path);
    assert_eq!(ended(&["status", path]).0, Some(0));
    assert_eq!(ended(&["status", path, "--require", "clear"]).0, Some(3), "something waits");
    assert_eq!(disk.json("status", &[])["verdict"]["state"], "waits");
    disk.json("shred", &["--now"]);
    let is_gone = disk.json("status", &[])["verdict"]["state"] == "gone";
    let wanted = if is_gone { Some(0) } else { Some(3) };
    for command in ["status", "prove"] {
        assert_eq!(ended(&[command, path, "--require", "clear"]).0, wanted, "as the medium allows");
        assert_eq!(ended(&[command, path, "--require", "purge"]).0, Some(3), "one pass is no purge");
    }
}

#[test]
fn what_was_overwritten_before_its_space_was_given_back_counts_as_destroyed() {
    let disk = waiting();
    disk.json("shred", &["--now"]);
    let statement = disk.json("prove", &[])["statement"].clone();
    let number = |name: &str| statement[name].as_u64().expect("a number");
    // A host that gives no space back has all of it to read.
    assert_eq!(number("read_bytes") + number("destroyed_bytes"), 65536, "{statement}");
    assert_eq!(number("hole_bytes"), number("destroyed_bytes"), "nothing else is dead");
    let (_, lines) = ended(&["prove", text(&disk.path())]);
    let said =
        lines.iter().any(|line| line.contains("64.00 KiB  of the dead bytes: overwritten, then given back"));
    assert_eq!(said, number("destroyed_bytes") > 0, "{lines:?}");
}
