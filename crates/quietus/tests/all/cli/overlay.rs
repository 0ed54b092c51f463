//! Overlays, as a user runs them.

use crate::cli::program::Disk;
use std::ops::Deref;
use std::path::Path;
use std::process::Command;

const SIZE: usize = 2 << 20;

/// A disk above an image of 2 MiB, `golden` beside it.
struct Bench(Disk);

impl Bench {
    fn new(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let golden = dir.path().join("golden");
        std::fs::write(&golden, vec![7; SIZE]).expect("an image");
        let base = ["--store", "overlay", "--base", text(&golden)];
        Self(Disk::made(dir, &[&base[..], args].concat()))
    }

    fn refused(&self, command: &str, args: &[&str]) -> String {
        let output = self.run(command, args);
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    }
}

impl Deref for Bench {
    type Target = Disk;

    fn deref(&self) -> &Disk {
        &self.0
    }
}

fn text(path: &Path) -> &str {
    path.to_str().expect("text")
}

#[test]
fn what_is_purged_reads_as_zeros_and_the_base_is_not_touched() {
    let bench = Bench::new(&["--size", "4M"]);
    assert_eq!(bench.json("purge", &["65536+65536"])["newly_dead_bytes"], 65536);
    let out = bench.beside("out");
    let done = bench.json("export", &[text(&out)]);
    assert_eq!((&done["size_bytes"], &done["live_bytes"]), (&(2 * SIZE).into(), &(SIZE - 65536).into()));
    let mut wanted = vec![7; SIZE];
    wanted[65536..131_072].fill(0);
    wanted.resize(2 * SIZE, 0);
    assert!(std::fs::read(&out).expect("the image") == wanted);
    assert!(std::fs::read(bench.beside("golden")).expect("the base") == vec![7; SIZE]);
    assert!(bench.refused("export", &[text(&out)]).contains("already exists"));
}

#[test]
fn a_served_overlay_says_how_large_it_is_and_packs_and_is_locked() {
    let bench = Bench::new(&["--mode", "packed"]);
    let server = bench.serve(&[]);
    let status = bench.json("status", &[]);
    let space = &status["space"];
    assert_eq!((&space["live_bytes"], &status["store"]["mode"]), (&0.into(), &"packed".into()), "{status}");
    assert_eq!(space["before"].as_array().map(Vec::len), Some(1), "{status}");
    assert_eq!(bench.json("compact", &[])["done"], true);
    assert_eq!(bench.json("verify", &[])["ok"], true);
    let out = bench.beside("out");
    for (command, args) in [("rebase", vec!["--base", text(&out)]), ("commit", vec![])] {
        assert!(bench.refused(command, &args).contains("in use by process"), "{command}");
    }
    for (command, args) in [("export", vec![text(&out)]), ("commit", vec!["--to", text(&out)])] {
        assert_eq!(bench.json(command, &args)["live_bytes"], SIZE);
        assert!(std::fs::read(&out).expect("the image") == vec![7; SIZE]);
        std::fs::remove_file(&out).expect("it is there");
    }
    drop(server);
    let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
    let shown = quietus.args(["status", "--verbose"]).arg(bench.path()).output();
    let shown = String::from_utf8(shown.expect("it runs").stdout).expect("text");
    assert!(shown.contains("overlay      packed, above ") && shown.contains("on the host, for"), "{shown}");
}

#[test]
fn a_commit_goes_to_the_base_or_to_a_new_image() {
    let bench = Bench::new(&[]);
    bench.json("purge", &["0+4096"]);
    let new = bench.beside("new");
    bench.json("commit", &["--to", text(&new)]);
    let committed = std::fs::read(&new).expect("the image");
    assert!(committed[..4096] == [0; 4096] && committed[4096..] == vec![7; SIZE - 4096]);
    assert!(std::fs::read(bench.beside("golden")).expect("the base") == vec![7; SIZE]);
    let done = bench.json("commit", &[]);
    assert_eq!((&done["written_bytes"], &done["purged_bytes"]), (&0.into(), &4096.into()));
    assert!(std::fs::read(bench.beside("golden")).expect("the base") == committed);
    assert_eq!(bench.json("rebase", &["--base", text(&new)])["copied_bytes"], 0, "it is the same");
}

#[test]
fn what_makes_no_sense_is_refused_with_what_to_do() {
    let bench = Bench::new(&[]);
    let other = bench.beside("other");
    let golden = bench.beside("golden");
    let create = |args: &[&str]| {
        let mut quietus = Command::new(env!("CARGO_BIN_EXE_quietus"));
        let output = quietus.arg("create").arg(&other).args(args).output().expect("it runs");
        assert!(!output.status.success() && !other.exists(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let base = text(&golden);
    for (args, says) in [
        (&["--base", base][..], "--store overlay"),
        (&["--store", "overlay"], "--base"),
        (&["--store", "overlay", "--base", base, "--adopt", base], "--adopt"),
        (&["--store", "overlay", "--base", base, "--medium", "x"], "--medium"),
        (&["--store", "overlay", "--base", base, "--size", "1M"], "larger"),
        (&["--store", "overlay", "--base", "nowhere"], "missing"),
        (&["--mode", "lazy", "--size", "1M"], "--store overlay"),
        (&["--policy", "none", "--size", "1M"], "overlays only"),
    ] {
        let error = create(args);
        assert!(error.contains(says), "{args:?}: {error}");
    }
    assert!(bench.refused("rebase", &["--base", "nowhere"]).contains("missing"));
    std::fs::write(&golden, vec![8; SIZE]).expect("a write");
    std::fs::File::options()
        .write(true)
        .open(&golden)
        .and_then(|it| it.set_modified(std::time::UNIX_EPOCH))
        .expect("it is ours");
    assert!(bench.refused("status", &[]).contains("has changed"));
    std::fs::remove_file(&golden).expect("it is there");
    assert!(bench.refused("status", &[]).contains("put it back"));
}

#[test]
fn what_is_free_on_the_medium_is_read_for_a_proof() {
    let bench = Bench::new(&["--mode", "punch"]);
    bench.json("purge", &["0+65536"]);
    bench.json("shred", &["--now"]);
    let proof = bench.json("prove", &[]);
    assert_eq!(
        (&proof["statement"]["bytes"]["dead"], &proof["statement"]["bytes"]["queued"]),
        (&65536.into(), &0.into())
    );
    let bench = Bench::new(&["--policy", "none"]);
    assert!(bench.refused("prove", &[]).contains("only frees what dies"));
}
