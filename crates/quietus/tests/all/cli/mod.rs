//! The program as a user runs it.

mod completing;
mod consent;
mod idle;
mod keys;
mod killed;
mod overlay;
mod places;
mod private;
pub(crate) mod read_only;
mod status;
mod stopping;
mod usage;

use crate::program::{Disk, holds, overwrite, quietus, succeeds, text, told, tool, wait_until};
use serde_json::Value;
use std::path::{Path, PathBuf};

/// A disk in place on an image with a secret, which lies beside it.
fn adopted(secret: &[u8]) -> (PathBuf, Disk) {
    let mut content = vec![1; 1 << 20];
    content[300_000..][..secret.len()].copy_from_slice(secret);
    let disk = Disk::on(&content, &["--deadline", "1h", "--adopt"]);
    (disk.beside("image"), disk)
}

#[test]
fn what_is_purged_is_gone_from_the_medium_and_the_proof_says_so() {
    let secret = b"the combination is 4711";
    let (image, disk) = adopted(secret);
    assert!(holds(&image, secret));
    let purged = disk.json("purge", &["262144+65536"]);
    assert_eq!(purged["newly_dead_bytes"], 65536);
    let shredded = disk.json("shred", &["--now"]);
    assert_eq!((&shredded["done"], holds(&image, secret)), (&Value::Bool(true), false));
    let receipt = disk.beside("receipt.json");
    let proof = disk.json("prove", &["-o", text(&receipt)]);
    assert_eq!(proof["statement"]["bytes"]["dead"], 65536);
    assert_eq!(proof["statement"]["violations"], Value::Array(Vec::new()));
    let ways = proof["statement"]["read_ways"].as_object().expect("how it was read");
    let known = ["around-cache", "after-eviction", "from-cache"];
    assert!(ways.keys().all(|way| known.contains(&way.as_str())), "{ways:?}");
    let read: u64 = ways.values().filter_map(Value::as_u64).sum();
    assert_eq!(Some(read), proof["statement"]["read_bytes"].as_u64());

    let key = disk.path().join("key.pub");
    let check = |path: &Path| {
        let output = quietus().args(["prove", "--key"]).arg(&key).arg("--check").arg(path).output();
        output.expect("it runs").status.code()
    };
    assert_eq!(check(&receipt), Some(0));
    let forged = std::fs::read_to_string(&receipt).expect("text").replace("65536", "65537");
    std::fs::write(&receipt, forged).expect("a write");
    assert_eq!(check(&receipt), Some(1));
}

#[test]
fn dead_content_that_comes_back_fails_the_proof() {
    let (image, disk) = adopted(b"x");
    disk.json("purge", &["0+65536"]);
    disk.json("shred", &["--now"]);
    overwrite(&image, 4096, b"an operator put this back behind our back");
    let output = disk.run("prove", &[]);
    assert_eq!(output.status.code(), Some(3));
    let receipt: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(receipt["statement"]["violations"], serde_json::json!([{ "start": 4096, "len": 4096 }]));
}

#[test]
fn a_running_server_answers_and_keeps_a_second_one_out() {
    let disk = Disk::new(&["--size", "64M"]);
    let mut server = disk.serve(&[]);
    assert_eq!(disk.json("status", &[])["served"], true);
    assert_eq!(disk.json("verify", &[])["ok"], true);
    let holder = format!("in use by process {}", server.child.id());
    for args in [&[][..], &["--read-only"]] {
        disk.assert_refused("serve", args, 1, &holder);
    }
    // A crash leaves neither a lock nor a socket in the way.
    server.child.kill().expect("it lives");
    server.child.wait().expect("it ends");
    let again = disk.serve(&[]);
    drop(again);
    assert_eq!(disk.json("status", &[])["served"], false);
}

#[test]
fn a_medium_that_was_cut_off_while_it_is_served_is_named() {
    for args in [&[][..], &["--read-only"]] {
        let disk = Disk::new(&["--size", "1M"]);
        let _server = disk.serve(args);
        let medium = std::fs::File::options().write(true).open(disk.path().join("data"));
        medium.and_then(|it| it.set_len(4096)).expect("it is ours");
        let verified = disk.run("verify", &[]);
        let (code, text) = (verified.status.code(), told(&verified));
        assert!(code == Some(3) && text.contains("truncated from 1048576 to 4096"), "{args:?}: {text}");
        let latched = disk.json("status", &[])["latched"].clone();
        assert!(latched.as_str().is_some_and(|it| it.contains("truncated")), "{args:?}: {latched}");
    }
}

#[test]
fn a_conservative_overwrite_keeps_the_content() {
    let secret = b"this stays";
    let (image, disk) = adopted(secret);
    disk.json("purge", &["--conservative", "262144+65536"]);
    let done = disk.json("shred", &["--now"]);
    assert_eq!(done["rewritten_bytes"], 65536);
    assert!(holds(&image, secret));
    assert_eq!(disk.json("status", &[])["owed"]["suspicious_bytes"], 65536);
}

#[test]
fn the_journal_counts_in_what_is_guaranteed() {
    let (image, disk) = adopted(b"x");
    let journal = disk.path().join("journal");
    let proof = disk.json("prove", &[]);
    for guarantees in [&disk.json("status", &[])["guarantees"], &proof["statement"]["guarantees"]] {
        assert_eq!(guarantees["medium"]["facts"]["path"], text(&image));
        assert_eq!(guarantees["journal"]["facts"]["path"], text(&journal));
        let levels = [&guarantees["medium"]["level"], &guarantees["journal"]["level"]];
        assert!(levels.contains(&&guarantees["level"]), "{guarantees}");
    }
}

#[test]
fn a_proof_of_another_version_is_checked_and_shown() {
    let (_, disk) = adopted(b"x");
    let mut receipt: quietus::proof::Receipt =
        serde_json::from_value(disk.json("prove", &[])).expect("a receipt");
    let otherwise = serde_json::json!({ "level": "clear", "told": "otherwise" });
    receipt.statement.guarantees = serde_json::from_value(otherwise).expect("as it was signed");
    let key = quietus::disk::DiskDir::open(&disk.path()).and_then(|dir| dir.key()).expect("a key");
    let receipt = quietus::base::signed::Signed::sign(receipt.statement, &key);
    let path = disk.beside("receipt.json");
    std::fs::write(&path, serde_json::to_string(&receipt).expect("plain data")).expect("a write");
    let screen = succeeds(quietus().args(["prove", "--check"]).arg(&path));
    assert!(screen.contains("of another version of Quietus"), "{screen}");
}

#[test]
fn a_size_that_is_no_number_of_sectors_is_rounded_up_and_said_so() {
    let dir = tempfile::tempdir().expect("a directory");
    let create =
        |name: &str, args: &[&str]| succeeds(quietus().arg("create").arg(dir.path().join(name)).args(args));
    // 1.1 GiB are 1181116006.4 bytes.
    let said = create("a", &["--size", "1.1G"]);
    assert!(said.contains("rounded up from 1181116006 to 1181118464 bytes"), "{said}");
    assert_eq!(std::fs::metadata(dir.path().join("a/data")).expect("a medium").len(), 1_181_118_464);
    let said = crate::schemas::valid(&create("b", &["--json", "--size", "1000"]));
    assert_eq!((&said["disk"]["size_bytes"], &said["rounded_up_from_bytes"]), (&4096.into(), &1000.into()));
    let said = crate::schemas::valid(&create("c", &["--json", "--size", "1536"]));
    assert_eq!((&said["disk"]["size_bytes"], &said["rounded_up_from_bytes"]), (&1536.into(), &Value::Null));
}

#[test]
fn completions_are_printed_for_each_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let text = succeeds(quietus().args(["completions", shell]));
        assert!(text.contains("COMPLETE") && text.contains("quietus"), "{shell}: {text}");
    }
}

/// What `status` calls the file system on `image` when it is served with `--detect detect`.
fn detected(image: &Path, detect: &str) -> Value {
    let disk = Disk::new(&["--adopt", text(image), "--deadline", "1h", "--idle-after", "1h"]);
    let _server = disk.serve(&["--detect", detect]);
    let mut watch = Value::Null;
    wait_until(|| {
        watch = disk.json("status", &[])["watch"].clone();
        let is_unknown = |it: &str| it.starts_with("no known file system");
        watch.is_null() || !watch["file_system"].is_null() || watch["state"].as_str().is_some_and(is_unknown)
    });
    watch["file_system"].clone()
}

#[test]
fn what_is_watched_can_be_chosen() {
    let made = [
        ("ext4", "ext2", "mke2fs", &["-q", "-F", "-O", "has_journal,extent"][..]),
        ("fat16", "fat", "mkfs.vfat", &[]),
        ("exfat", "exfat", "mkfs.exfat", &[]),
        ("ntfs", "ntfs", "mkntfs", &["-q", "-F"]),
    ];
    for (name, detect, mkfs, options) in made {
        let dir = tempfile::tempdir().expect("a directory");
        let image = dir.path().join("image");
        std::fs::File::create(&image).and_then(|it| it.set_len(32 << 20)).expect("an image");
        if tool(mkfs, &[options, &[text(&image)]].concat()).is_none() {
            continue;
        }
        let others = ["ext2", "fat", "exfat", "ntfs", "off"].into_iter().filter(|it| *it != detect);
        assert_eq!([detected(&image, "auto"), detected(&image, detect)], [name, name]);
        others.for_each(|other| assert_eq!(detected(&image, other), Value::Null, "{name}, {other}"));
    }
}
