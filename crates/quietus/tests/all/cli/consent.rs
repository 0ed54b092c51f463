//! What cannot be undone is said first, and asked at a terminal.

use crate::cli::adopted;
use crate::program::{Disk, holds, quietus, signal, terminal, text, tree};
use rustix::process::Signal;
use serde_json::Value;
use std::fs::File;
use std::io::{Read, Write};
use std::path::Path;
use std::process::Child;

/// A command at a terminal, which has asked: the command, the person's end, and all that was shown.
struct Asked {
    child: Child,
    person: File,
    shown: String,
}

impl Asked {
    fn by(dir: &Path, args: &[&str]) -> Self {
        let (person, other) = terminal();
        let mut quietus = quietus();
        quietus.args(args).current_dir(dir).env("QUIETUS_LOG", "error");
        let child = quietus.stdin(other()).stderr(other()).stdout(other()).spawn().expect("it runs");
        drop(quietus);
        let mut asked = Self { child, person, shown: String::new() };
        asked.read_until("[y/N] ");
        asked
    }

    fn read_until(&mut self, end: &str) {
        while !self.shown.ends_with(end) {
            let mut byte = [0];
            self.person.read_exact(&mut byte).expect("a byte");
            self.shown.push(byte[0].into());
        }
    }

    /// Types `keys`; the exit status.
    fn answered(mut self, keys: &str) -> (Option<i32>, String) {
        self.person.write_all(keys.as_bytes()).expect("keys");
        let status = self.child.wait().expect("it ends");
        (status.code(), std::mem::take(&mut self.shown))
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_purge_at_a_terminal_goes_on_only_after_a_yes() {
    let secret = b"the combination is 4711";
    let (image, disk) = adopted(secret);
    let asked = || Asked::by(disk.dir.path(), &["purge", "disk", "256K+64K", "--now"]);
    for keys in ["n\n", "\n", "what?\n"] {
        let (status, shown) = asked().answered(keys);
        assert_eq!(status, Some(1), "{keys:?}");
        assert!(shown.contains("about to destroy that content for ever: 1 ranges of disk"), "{shown}");
        assert!(shown.contains("64.00 KiB of 1.00 MiB, of which 64.00 KiB hold content"), "{shown}");
    }
    let interrupted = asked();
    signal(&interrupted.child, Signal::INT);
    assert_eq!(interrupted.answered("").0, Some(130));
    assert!(holds(&image, secret), "nothing was agreed to");
    assert_eq!(asked().answered("y\n").0, Some(0));
    assert!(!holds(&image, secret));
}

#[test]
fn a_forget_at_a_terminal_says_what_would_die() {
    let disk = Disk::on(&[7; 1 << 20], &["--store", "versions", "--seal", "none", "--from"]);
    disk.json("epoch", &["--name", "monday"]);
    let asked = |args: &[&str]| Asked::by(disk.dir.path(), args).answered("n\n");
    for args in [
        &["forget", "disk@monday"][..],
        &["forget", "disk", "--chain", "0+4096"],
        &["restore", "disk@monday"],
    ] {
        let (status, shown) = asked(args);
        assert_eq!(status, Some(1), "{args:?}: {shown}");
    }
    assert_eq!(disk.json("versions", &[])["versions"].as_array().map(Vec::len), Some(1), "it is kept");
}

#[test]
fn a_dry_run_says_what_would_be_done_and_changes_nothing() {
    let (image, disk) = adopted(b"a secret");
    let over = text(&image);
    let overlay = Disk::new(&["--store", "overlay", "--base", over]);
    for disk in [&disk, &overlay] {
        disk.json("shred", &["--now"]);
    }
    let before = [&disk, &overlay].map(|it| tree(it.dir.path()));
    let purge = disk.json("purge", &["0+4096", "8192+4096", "--dry-run"]);
    assert_eq!(
        (&purge["ranges"], &purge["bytes"], &purge["live_bytes"]),
        (&2.into(), &8192.into(), &8192.into())
    );
    let commit = overlay.json("commit", &["--dry-run"]);
    assert_eq!((&commit["base"], &commit["written_bytes"]), (&over.into(), &0.into()));
    let fresh = Disk { dir: tempfile::tempdir().expect("a directory") };
    let made = fresh.json("create", &["--size", "1M", "--dry-run"]);
    assert_eq!(made["destroys"], Value::Array(Vec::new()));
    assert!(!fresh.path().exists());
    assert!(before == [&disk, &overlay].map(|it| tree(it.dir.path())), "something has changed");
}
