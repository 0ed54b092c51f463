//! Roots in the memory of the server: the disk is empty with each server, and all content is gone without one.

use super::{BLOCK, assert_filled, client, fill, purges, serve, trim};
use crate::program::{Disk, overwrite, quietus, succeeds, text, told, tree};
use quietus_core::base::zeros::is_zeros;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

const BYTES: usize = 1 << 20;
const GONE: &str = "all content is gone: the root was in the memory of a server";

fn made() -> Disk {
    super::made(&["--size", "1M", "--root", "memory"])
}

/// Serves the disk until blocks 0 to 19 are durable and blocks 8 to 11 died; the file with the receipt of that.
fn used(disk: &Disk, kill: bool) -> String {
    let server = serve(disk);
    let mut of = client(&server);
    assert_filled(&mut of, 0, 0, BYTES);
    fill(&mut of, 0, 0x41, 20 * BLOCK);
    trim(&mut of, 8, 4);
    disk.json("shred", &["--now"]);
    assert!(purges(disk) > 1);
    assert_filled(&mut of, 0, 0x41, 8 * BLOCK);
    assert_filled(&mut of, 8, 0, 4 * BLOCK);
    let receipt = told(&disk.run("prove", &[]));
    drop(of);
    // Dropping the server kills it.
    if kill {
        drop(server)
    } else {
        server.stop()
    }
    receipt
}

/// All files of the disk, without that of its lock, which names the process that had it last.
fn left(disk: &Disk) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut all = tree(&disk.path());
    all.remove(Path::new("lock"));
    all
}

/// Checks that a server begins with an empty disk on which nothing is owed.
#[track_caller]
fn assert_anew(disk: &Disk) {
    let server = serve(disk);
    assert_eq!(purges(disk), 1);
    let status = disk.json("status", &[]);
    assert_eq!(
        (&status["latched"], &status["root_life_ms"]),
        (&None::<u8>.into(), &None::<u8>.into()),
        "{status}"
    );
    assert!(is_zeros(&std::fs::read(disk.path().join("data")).expect("data")));
    let mut of = client(&server);
    assert_filled(&mut of, 0, 0, BYTES);
    assert_eq!(disk.json("verify", &["--read-data"])["ok"], true);
    assert_eq!(told(&disk.run("deaths", &[])).matches("\"act\"").count(), 0);
    fill(&mut of, 3, 0x43, BLOCK);
    assert_filled(&mut of, 3, 0x43, BLOCK);
    drop(of);
    server.stop();
}

#[test]
fn each_server_begins_with_an_empty_disk_after_a_stop_and_after_a_kill() {
    let disk = made();
    assert!(!disk.path().join("root").exists());
    for kill in [false, true] {
        used(&disk, kill);
        assert!(!is_zeros(&std::fs::read(disk.path().join("data")).expect("data")));
        assert_anew(&disk);
    }
}

#[test]
fn without_a_server_commands_say_that_all_is_gone_and_change_nothing() {
    let disk = made();
    used(&disk, true);
    let before = left(&disk);
    let out = disk.beside("out");
    for (command, args) in [
        ("status", &[][..]),
        ("deaths", &[]),
        ("prove", &[]),
        ("verify", &[]),
        ("purge", &["0+4K", "--yes"]),
        ("shred", &["--now"]),
        ("export", &[text(&out)]),
    ] {
        disk.assert_refused(command, args, 1, GONE);
    }
    assert!(!out.exists());
    let output = disk.server(&["--read-only", "--run", "true"]).output().expect("it runs");
    assert!(String::from_utf8_lossy(&output.stderr).contains(GONE), "{output:?}");
    assert!(before == left(&disk), "a command changed the disk");
    assert_anew(&disk);
}

#[test]
fn a_second_server_is_refused_and_does_not_begin_the_disk_anew() {
    let disk = made();
    let server = serve(&disk);
    let mut of = client(&server);
    fill(&mut of, 0, 0x41, 20 * BLOCK);
    let second = disk.server(&["--run", "true"]).output().expect("it runs");
    assert_eq!(second.status.code(), Some(1), "{second:?}");
    assert_filled(&mut of, 0, 0x41, 20 * BLOCK);
    trim(&mut of, 0, 1);
    disk.json("shred", &["--now"]);
    assert_filled(&mut of, 1, 0x41, 19 * BLOCK);
}

#[test]
fn a_start_reads_nothing_of_what_an_earlier_server_left() {
    let disk = made();
    used(&disk, true);
    let file = |name: &str| disk.path().join(name);
    let removed = |name: &str| std::fs::remove_file(file(name)).expect("it was there");
    // A start that was cut off between any two of its steps leaves less than this.
    removed("journal");
    assert_anew(&disk);
    removed("keytree");
    removed("view");
    assert_anew(&disk);
    for name in ["journal", "keytree", "view", "audit.jsonl", "data"] {
        used(&disk, true);
        overwrite(&file(name), 0, &[0xee; 9000]);
        assert_anew(&disk);
        std::fs::write(file(name), b"short").expect("a shorter file");
        assert_anew(&disk);
    }
}

#[test]
fn a_receipt_of_an_earlier_server_can_still_be_checked() {
    let disk = made();
    let receipt = used(&disk, false);
    let kept = disk.beside("receipt.json");
    std::fs::write(&kept, receipt).expect("a file");
    assert_anew(&disk);
    let mut check = quietus();
    check.args(["prove", "--check", text(&kept), "--key", text(&disk.path().join("key.pub"))]);
    succeeds(&mut check);
}

#[test]
fn what_the_root_is_and_that_it_ends_with_the_server_is_told() {
    let disk = made();
    let server = serve(&disk);
    for command in ["prove", "status"] {
        let told = disk.shown(command, &[]);
        assert!(told.contains("root in the memory of the server, which "), "{told}");
        assert!(told.contains(": all content is gone when the server stops"), "{told}");
    }
    drop(server);
    let doctor = disk.shown("doctor", &["--root", "memory"]);
    assert!(doctor.contains("root in the memory of the server"), "{doctor}");
}
