//! Marks (`chattr +s`), as a client sees them: what the guest frees of a marked file is destroyed, the rest is freed.

use crate::nbd::client::*;
use crate::nbd::watched::ext2::{MOUNTS, STATE, SUPERBLOCK, tool};
use crate::program::{Disk, Server, holds, private, text, wait_until};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use tempfile::TempDir;

/// Bytes of a block of the file system.
const BLOCK: u64 = 1024;
/// Content of each file, in blocks.
const BLOCKS: usize = 64;
const MARKED: &str = "content of the marked file. ";
const PLAIN: &str = "content of the other file. ";

/// The disk with an ext2 that has two files, one of them marked; and the first byte of each block of both.
struct Bench {
    disk: Disk,
    image: std::path::PathBuf,
    /// Options of `serve`.
    serve: Vec<String>,
    marked: Vec<u64>,
    plain: Vec<u64>,
}

impl Bench {
    fn new() -> Self {
        let create = ["--idle-after", "50ms", "--policy", "purge-2", "--adopt"];
        Self::made(tempfile::tempdir().unwrap(), &create, &[])
    }

    /// A disk that keeps versions, and begins with that content; epochs close on command.
    fn keeping_versions() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let key = dir.path().join("key");
        private(&key, &[7; 32]);
        let key = ["--key-file", text(&key)];
        let create = [&["--store", "versions", "--epoch", "manual"], &key[..], &["--from"]].concat();
        Self::made(dir, &create, &key)
    }

    /// In `dir`, made with these options and the image, and served with those.
    fn made(dir: TempDir, create: &[&str], serve: &[&str]) -> Self {
        let image = dir.path().join("image");
        let path = text(&image);
        tool("mke2fs", &["-q", "-F", "-b", "1024", path, "4096k"]);
        let blocks = [("marked", MARKED), ("plain", PLAIN)].map(|(name, text)| {
            let file = dir.path().join(name);
            std::fs::write(&file, &text.repeat(4000).as_bytes()[..BLOCKS * BLOCK as usize]).unwrap();
            tool("debugfs", &["-w", "-R", &format!("write {} {name}", file.display()), path]);
            let listed = tool("debugfs", &["-R", &format!("blocks {name}"), path]);
            let numbers = listed.split_whitespace().map(|it| it.parse::<u64>().unwrap() * BLOCK);
            let content = std::fs::read(&image).unwrap();
            // The list has the indirect blocks, too.
            let block = |at: u64| String::from_utf8_lossy(&content[at as usize..][..BLOCK as usize]);
            let has_text = |at: &u64| block(*at).contains(text);
            let found: Vec<u64> = numbers.filter(has_text).collect();
            assert_eq!(found.len(), BLOCKS);
            found
        });
        tool("debugfs", &["-w", "-R", "set_inode_field marked flags 1", path]);
        let disk = Disk::made(dir, &[create, &[path]].concat());
        let [marked, plain] = blocks;
        let serve = serve.iter().copied().map(String::from).collect();
        Self { disk, image, serve, marked, plain }
    }

    /// Serves it to a guest that mounts it and is active, until nothing of the other file is unsettled any more.
    fn serve(&self) -> (Server, Client<UnixStream>) {
        let own = self.serve.iter().map(String::as_str);
        let follow = ["--sensitive", "marked", "--attached", "direct", "--settle", "1s"];
        let server = self.disk.serve(&own.chain(follow).collect::<Vec<_>>());
        wait_until(|| {
            let found = self.disk.json("sensitive", &[]);
            let place = &found["sensitive"]["places"][0];
            place["file_system"] == "ext2" && place["everything"].is_null()
        });
        let mut client = server.connect();
        client.agree(Style::Structured);
        let mut superblock = std::fs::read(&self.image).unwrap()[SUPERBLOCK..][..BLOCK as usize].to_vec();
        (superblock[STATE], superblock[MOUNTS]) = (0, 1);
        assert_eq!(client.write(0, SUPERBLOCK as u64, &superblock), 0);
        let unsettled = || {
            let found = self.disk.json("sensitive", &[]);
            let mut figures = found["sensitive"]["places"][0]["figures"].as_array().unwrap().iter();
            figures.find(|it| it["name"] == "unsettled blocks").unwrap()["value"].as_u64().unwrap()
        };
        let first = unsettled();
        wait_until(|| {
            // Only activity of the guest settles anything.
            assert_eq!(client.write(0, SUPERBLOCK as u64, &superblock), 0);
            unsettled() + BLOCKS as u64 <= first
        });
        (server, client)
    }

    fn holds(&self, text: &str) -> bool {
        holds(&self.image, text.as_bytes())
    }

    /// Bytes that receipts with this act are for, of what was trimmed, and most passes of such a receipt.
    fn receipts(&self, act: &str) -> (u64, u64) {
        let log = std::fs::read_to_string(self.disk.path().join("audit.jsonl")).unwrap();
        let lines = log.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let (mut bytes, mut passes) = (0, 0);
        for line in lines.filter(|it| it["event"] == "receipt") {
            for run in line["runs"].as_array().unwrap() {
                let numbers: Vec<i64> =
                    run.as_array().unwrap().iter().map(|it| it.as_i64().unwrap()).collect();
                let kind = &line["kinds"][numbers[1] as usize];
                if kind["act"] == act && kind["cause"] == "trim" {
                    let units: i64 = numbers[2..].iter().skip(1).step_by(2).sum();
                    bytes += units as u64 * line["unit"].as_u64().unwrap();
                    passes = passes.max(kind["passes"].as_u64().unwrap());
                }
            }
        }
        (bytes, passes)
    }
}

fn trim(client: &mut Client<UnixStream>, blocks: &[u64]) {
    for at in blocks {
        assert_eq!(client.request(TRIM, 0, *at, BLOCK), 0);
    }
}

#[test]
fn what_is_trimmed_of_a_marked_file_is_destroyed_and_the_rest_is_freed() {
    let bench = Bench::new();
    let (_server, mut client) = bench.serve();
    trim(&mut client, &bench.marked);
    trim(&mut client, &bench.plain);
    bench.disk.json("shred", &["--now"]);
    assert!(!bench.holds(MARKED) && !bench.holds(PLAIN), "both read as zeros");
    let said = bench.disk.shown("prove", &[]);
    assert!(said.contains("only what is marked"), "{said}");
    assert!(said.contains("names of deleted files in live folders"), "{said}");
    let bytes = BLOCKS as u64 * BLOCK;
    assert_eq!(bench.disk.json("status", &[])["counters"]["plain_bytes"], bytes);
    wait_until(|| bench.receipts("plain") == (bytes, 0));
    assert_eq!(bench.receipts("shredded"), (bytes, 2));
}

/// The file system of `before` after these files are deleted.
fn without(disk: &Disk, before: &[u8], names: &[&str]) -> Vec<u8> {
    let copy = disk.beside("copy");
    std::fs::write(&copy, before).unwrap();
    for name in names {
        tool("debugfs", &["-w", "-R", &format!("rm {name}"), text(&copy)]);
    }
    std::fs::read(&copy).unwrap()
}

/// Writes the blocks in which `after` differs from `before`.
fn write_changed(client: &mut Client<UnixStream>, before: &[u8], after: &[u8]) {
    for (n, block) in after.chunks(BLOCK as usize).enumerate() {
        let at = n * BLOCK as usize;
        if before[at..][..BLOCK as usize] != *block {
            assert_eq!(client.write(0, at as u64, block), 0);
        }
    }
}

/// The kept epochs that still show marked content which has died: number, and name.
fn showing_dead(disk: &Disk) -> Vec<(u64, Option<String>)> {
    let listed = disk.json("sensitive", &[])["sensitive"]["epochs"].clone();
    let epoch = |it: &Value| (it["epoch"].as_u64().unwrap(), it["name"].as_str().map(Into::into));
    listed.as_array().map(|all| all.iter().map(epoch).collect()).unwrap_or_default()
}

#[test]
fn where_versions_are_kept_what_is_marked_dies_with_its_file_and_the_epochs_that_show_it_are_named() {
    let bench = Bench::keeping_versions();
    let before = std::fs::read(&bench.image).unwrap();
    let (server, mut client) = bench.serve();
    let destroyed = || {
        bench.disk.json("shred", &["--now"]);
        bench.disk.json("status", &[])["counters"]["destroyed_bytes"].as_u64().unwrap()
    };
    bench.disk.json("epoch", &["--name", "audit"]);
    let without_plain = without(&bench.disk, &before, &["plain"]);
    write_changed(&mut client, &before, &without_plain);
    bench.disk.json("epoch", &[]);
    destroyed();
    assert_eq!(showing_dead(&bench.disk), [], "nothing marked has died");
    write_changed(&mut client, &without_plain, &without(&bench.disk, &before, &["plain", "marked"]));
    wait_until(|| {
        destroyed();
        !showing_dead(&bench.disk).is_empty()
    });
    let shown: Vec<_> = showing_dead(&bench.disk).into_iter().map(|(epoch, _)| epoch).collect();
    let kept = bench.disk.json("versions", &[])["versions"].clone();
    let kept: Vec<u64> = kept.as_array().unwrap().iter().map(|it| it["epoch"].as_u64().unwrap()).collect();
    assert_eq!(shown, kept);
    assert!(showing_dead(&bench.disk).iter().any(|(_, name)| name.as_deref() == Some("audit")));
    for command in ["status", "sensitive"] {
        let said = bench.disk.shown(command, &[]);
        assert!(said.contains("still show content which has died") && said.contains("audit"), "{said}");
    }
    let proof = bench.disk.json("prove", &[])["statement"]["sensitive"].clone();
    assert_eq!((&proof["mode"], proof["epochs"].as_array().unwrap().len()), (&"marked".into(), kept.len()));
    let limits = proof["limits"].to_string();
    assert!(limits.contains("names of deleted files") && limits.contains("extended attributes"), "{limits}");
    drop((server, client));
}

#[test]
fn without_a_file_system_that_has_marks_all_content_is_sensitive_and_status_says_so() {
    let disk = Disk::new(&["--size", "1M", "--policy", "purge-2", "--idle-after", "1h"]);
    let said = disk.shown("sensitive", &[]);
    assert!(said.contains("all content: disk is not served"), "{said}");
    let server = disk.serve(&["--sensitive", "marked"]);
    let mut client = server.connect();
    client.agree(Style::Structured);
    assert_eq!(client.write(0, 0, &[7; 8192]), 0);
    trim(&mut client, &[0]);
    let found = disk.json("sensitive", &[]);
    assert_eq!(found["sensitive"]["mode"], "marked");
    let why = &found["sensitive"]["places"][0]["everything"];
    assert!(why.as_str().is_some_and(|it| it.starts_with("no file system is known")), "{found}");
    let shred = disk.json("shred", &["--now"]);
    assert_eq!((&shred["destroyed_bytes"], &shred["plain_bytes"]), (&BLOCK.into(), &0.into()));
}
