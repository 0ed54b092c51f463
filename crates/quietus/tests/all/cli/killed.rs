//! Commands on an overlay that is not served are killed at any instant, and begun again.

use crate::program::{Disk, quietus, text};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

const SIZE: usize = 6 << 20;
const KILLS: u32 = 12;

/// An image with content in two of three stretches of 100,000 bytes.
fn image(phase: usize) -> Vec<u8> {
    let mut bytes = vec![0; SIZE];
    for (n, part) in bytes.chunks_mut(100_000).enumerate() {
        if !(n + phase).is_multiple_of(3) {
            part.fill(n as u8 + 50 * phase as u8 + 1);
        }
    }
    bytes
}

/// A disk above an image, and another image beside it.
fn bench() -> (Disk, PathBuf) {
    let disk = Disk::on(&image(1), &["--store", "overlay", "--base"]);
    let other = disk.beside("other");
    std::fs::write(&other, image(2)).expect("an image");
    (disk, other)
}

/// Begins `command` and kills it within `whole`, `KILLS` times.
fn kill(disk: &Disk, command: &str, args: &[&str], whole: Duration) {
    for n in 0..KILLS {
        let mut quietus = quietus();
        quietus.arg(command).arg(disk.path()).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quietus.spawn().expect("it runs");
        // Neither in step with the machine nor in order of time.
        std::thread::sleep(whole * (n * 7 % KILLS + 1) / (KILLS + 1));
        let _ = child.kill();
        child.wait().expect("it has ended");
    }
}

/// Kills `command` on a disk that is `made`, of which another one says how long it takes, and begins it again; the disk, and the other image.
fn killed(command: &str, made: fn() -> (Disk, PathBuf), args: fn(&Path) -> Vec<&str>) -> (Disk, PathBuf) {
    let (alike, other) = made();
    let begins = Instant::now();
    alike.json(command, &args(&other));
    let whole = begins.elapsed();
    let (disk, other) = made();
    kill(&disk, command, &args(&other), whole);
    disk.json(command, &args(&other));
    let out = disk.beside("out");
    disk.json("export", &[text(&out)]);
    assert!(std::fs::read(&out).expect("the image") == image(1), "it shows something else");
    assert_eq!(disk.json("verify", &[])["ok"], true);
    (disk, other)
}

fn rebase(other: &Path) -> Vec<&str> {
    vec!["--base", text(other)]
}

#[test]
fn a_rebase_that_was_killed_is_begun_again() {
    killed("rebase", bench, rebase);
}

#[test]
fn a_commit_that_was_killed_is_begun_again() {
    let rebased = || {
        let (disk, other) = bench();
        disk.json("rebase", &rebase(&other));
        (disk, other)
    };
    let (_disk, other) = killed("commit", rebased, |_| Vec::new());
    assert!(std::fs::read(&other).expect("the base") == image(1), "the base is not what the disk showed");
}
