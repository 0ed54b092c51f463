//! Marks (`chattr +s`), as a client sees them: what the guest frees of a marked file is destroyed, the rest is freed.

use crate::client::*;
use crate::ext2::{MOUNTS, STATE, SUPERBLOCK, tool};
use crate::program::{Disk, Served, quietus};
use serde_json::Value;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

/// Bytes of a block of the file system.
const BLOCK: u64 = 1024;
/// Content of each file, in blocks.
const BLOCKS: usize = 64;
const MARKED: &str = "content of the marked file. ";
const PLAIN: &str = "content of the other file. ";

fn json(command: &str, disk: &Disk, args: &[&str]) -> Value {
    let output = quietus().args(["--json", command]).arg(disk.path()).args(args).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// The disk with an ext2 that has two files, one of them marked; and the first byte of each block of both.
struct Bench {
    disk: Disk,
    image: std::path::PathBuf,
    marked: Vec<u64>,
    plain: Vec<u64>,
}

impl Bench {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let image = dir.path().join("image");
        let path = image.to_str().unwrap();
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
        let disk = Disk::made(dir, &["--adopt", path, "--idle-after", "50ms", "--policy", "purge-2"]);
        let [marked, plain] = blocks;
        Self { disk, image, marked, plain }
    }

    /// Serves it to a guest that mounts it and is active, until nothing of the other file is unsettled any more.
    fn serve(&self) -> (Served, Client<UnixStream>) {
        let server = self.disk.serve(&["--sensitive", "marked", "--attached", "direct", "--settle", "1s"]);
        wait_until(|| {
            let found = json("sensitive", &self.disk, &[]);
            let place = &found["sensitive"]["places"][0];
            place["file_system"] == "ext2" && place["everything"].is_null()
        });
        let mut client = server.connect();
        client.agree(Style::Structured);
        let mut superblock = std::fs::read(&self.image).unwrap()[SUPERBLOCK..][..BLOCK as usize].to_vec();
        (superblock[STATE], superblock[MOUNTS]) = (0, 1);
        assert_eq!(client.write(0, SUPERBLOCK as u64, &superblock), 0);
        let unsettled = || {
            let found = json("sensitive", &self.disk, &[]);
            let figures = found["sensitive"]["places"][0]["figures"].as_array().unwrap().clone();
            figures.iter().find(|it| it[0] == "unsettled blocks").and_then(|it| it[1].as_u64()).unwrap()
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
        std::fs::read(&self.image).unwrap().windows(text.len()).any(|it| it == text.as_bytes())
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

fn wait_until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed().as_secs() < 60, "not after a minute");
        std::thread::sleep(Duration::from_millis(50));
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
    json("shred", &bench.disk, &["--now"]);
    assert!(!bench.holds(MARKED) && !bench.holds(PLAIN), "both read as zeros");
    let bytes = BLOCKS as u64 * BLOCK;
    assert_eq!(json("status", &bench.disk, &[])["counters"]["plain_bytes"], bytes);
    wait_until(|| bench.receipts("plain") == (bytes, 0));
    assert_eq!(bench.receipts("shredded"), (bytes, 2));
}

#[test]
fn what_is_deleted_of_a_marked_file_is_destroyed_and_the_rest_costs_nothing() {
    let bench = Bench::new();
    let before = std::fs::read(&bench.image).unwrap();
    let (_server, mut client) = bench.serve();
    let after = without_files(&bench.disk, &before);
    for (n, block) in after.chunks(BLOCK as usize).enumerate() {
        let at = n * BLOCK as usize;
        if before[at..][..BLOCK as usize] != *block {
            assert_eq!(client.write(0, at as u64, block), 0);
        }
    }
    wait_until(|| {
        json("shred", &bench.disk, &["--now"]);
        !bench.holds(MARKED)
    });
    assert!(bench.holds(PLAIN), "a pass went over what nobody had marked");
    assert_eq!(bench.receipts("plain"), (0, 0), "what is only inferred is no event");
}

/// The file system of `before` after both files are deleted.
fn without_files(disk: &Disk, before: &[u8]) -> Vec<u8> {
    let copy = disk.0.path().join("copy");
    std::fs::write(&copy, before).unwrap();
    remove(&copy, "marked");
    remove(&copy, "plain");
    std::fs::read(&copy).unwrap()
}

fn remove(image: &Path, name: &str) {
    tool("debugfs", &["-w", "-R", &format!("rm {name}"), image.to_str().unwrap()]);
}

#[test]
fn without_a_file_system_that_has_marks_all_content_is_sensitive_and_status_says_so() {
    let disk = Disk::made(tempfile::tempdir().unwrap(), &["--size", "1M", "--policy", "purge-2"]);
    let server = disk.serve(&["--sensitive", "marked"]);
    let mut client = server.connect();
    client.agree(Style::Structured);
    assert_eq!(client.write(0, 0, &[7; 8192]), 0);
    trim(&mut client, &[0]);
    let found = json("sensitive", &disk, &[]);
    assert_eq!(found["sensitive"]["mode"], "marked");
    let why = &found["sensitive"]["places"][0]["everything"];
    assert!(why.as_str().is_some_and(|it| it.starts_with("no file system is known")), "{found}");
    let shred = json("shred", &disk, &["--now"]);
    assert_eq!((&shred["destroyed_bytes"], &shred["plain_bytes"]), (&BLOCK.into(), &0.into()));
}

#[test]
fn marks_that_nothing_could_follow_are_refused() {
    let disk = Disk::made(tempfile::tempdir().unwrap(), &["--size", "1M"]);
    for detect in ["off", "fat", "exfat", "ntfs"] {
        let mut serve = quietus();
        serve.arg("serve").arg(disk.path()).args(["--sensitive", "marked", "--detect", detect]);
        let output = serve.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("cannot follow marks with --detect {detect}")), "{said}");
    }
    let output = quietus().arg("sensitive").arg(disk.path()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("all content: disk is not served"), "{said}");
}
