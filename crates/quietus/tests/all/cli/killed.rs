//! Commands on an overlay that is not served are killed at any instant, and begun again.

use crate::program::{Disk, quietus, text};
use std::path::PathBuf;
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

/// A disk above an image, which it shows; and another image beside it.
fn bench() -> (Disk, Vec<u8>, PathBuf) {
    let disk = Disk::on(&image(1), &["--store", "overlay", "--base"]);
    let other = disk.beside("other");
    std::fs::write(&other, image(2)).expect("an image");
    (disk, image(1), other)
}

/// How long `command` takes to its end, on a disk of its own.
fn time(disk: &Disk, command: &str, args: &[&str]) -> Duration {
    let begins = Instant::now();
    disk.json(command, args);
    begins.elapsed()
}

/// Begins `command` and kills it within `whole`, `KILLS` times.
fn kill(disk: &Disk, command: &str, args: &[&str], whole: Duration, mut after: impl FnMut(bool)) {
    for n in 0..KILLS {
        let mut quietus = quietus();
        quietus.arg(command).arg(disk.path()).args(args).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = quietus.spawn().expect("it runs");
        // Neither in step with the machine nor in order of time.
        std::thread::sleep(whole * (n * 7 % KILLS + 1) / (KILLS + 1));
        let _ = child.kill();
        after(child.wait().expect("it has ended").success());
    }
}

fn shows(disk: &Disk, wanted: &[u8]) {
    let out = disk.beside("out");
    disk.json("export", &[text(&out)]);
    assert!(std::fs::read(&out).expect("the image") == wanted, "it shows something else");
}

#[test]
fn a_rebase_that_was_killed_is_begun_again() {
    let (alike, _, other) = bench();
    let args = ["--base", text(&other)];
    let whole = time(&alike, "rebase", &args);
    let (disk, shown, other) = bench();
    let args = ["--base", text(&other)];
    kill(&disk, "rebase", &args, whole, |_| ());
    disk.json("rebase", &args);
    shows(&disk, &shown);
    assert_eq!(disk.json("verify", &[])["ok"], true);
}

#[test]
fn a_commit_that_was_killed_is_begun_again() {
    let made = || {
        let (disk, shown, other) = bench();
        disk.json("rebase", &["--base", text(&other)]);
        (disk, shown, other)
    };
    let whole = time(&made().0, "commit", &[]);
    let (disk, shown, other) = made();
    kill(&disk, "commit", &[], whole, |_| ());
    disk.json("commit", &[]);
    assert!(std::fs::read(&other).expect("the base") == shown, "the base is not what the disk showed");
    shows(&disk, &shown);
    assert_eq!(disk.json("verify", &[])["ok"], true);
}

#[test]
fn an_export_that_was_killed_has_no_image_or_all_of_it() {
    let (disk, shown, other) = bench();
    disk.json("rebase", &["--base", text(&other)]);
    let out = disk.beside("image");
    let args = [text(&out)];
    let whole = time(&disk, "export", &args);
    std::fs::remove_file(&out).expect("it was made");
    kill(&disk, "export", &args, whole, |ended| {
        assert!(!ended || out.exists());
        if out.exists() {
            assert!(std::fs::read(&out).expect("the image") == shown, "a part of it");
            std::fs::remove_file(&out).expect("it is there");
        }
    });
    disk.json("export", &args);
    let kept = std::fs::read_dir(out.parent().expect("a directory")).expect("it").flatten();
    let kept: Vec<_> =
        kept.map(|it| it.file_name()).filter(|it| it.to_string_lossy().starts_with('.')).collect();
    assert!(kept.is_empty(), "{kept:?}");
    shows(&disk, &shown);
}
