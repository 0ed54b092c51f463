//! States of the past, as the program shows them: compared, restored, and backed up by clients.

use crate::nbd::client::*;
use crate::program::{Server, overwrite, quietus, succeeds, text};
use crate::versions::served::Bench;
use serde_json::Value;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::Path;

pub const BLOCK: u64 = 4096;

/// A disk that keeps versions, whose epochs close on command.
pub fn past(size: &str) -> Bench {
    Bench::new(&["--size", size, "--epoch", "manual"])
}

pub fn serve(past: &Bench) -> Server {
    past.disk.serve(&["--key-file", &past.key, "--detect", "off"])
}

/// Ranges in a report: first byte, and length.
pub fn ranges(diff: &Value) -> Vec<(u64, u64)> {
    let number = |run: &Value, name: &str| run[name].as_u64().unwrap();
    diff["ranges"].as_array().unwrap().iter().map(|run| (number(run, "start"), number(run, "len"))).collect()
}

/// What `diff` says of two epochs, or of one and the current state.
pub fn diff(past: &Bench, from: &str, to: Option<&str>) -> Value {
    let to: Vec<String> = to.iter().map(|to| past.target(to)).collect();
    past.json_at("diff", from, &to.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A client that has begun.
pub fn client(served: &Server) -> Client<UnixStream> {
    let mut client = served.connect();
    client.agree(Style::Structured);
    client
}

pub fn put(client: &mut Client<UnixStream>, block: u64, blocks: u64, byte: u8) {
    let payload = vec![byte; (blocks * BLOCK) as usize];
    assert_eq!(client.write(0, block * BLOCK, &payload), 0);
}

/// The disk as the program exports it.
pub fn exported(past: &Bench, at: &str) -> Vec<u8> {
    let image = past.disk.beside(format!("image-{at}"));
    let _ = std::fs::remove_file(&image);
    let args = [text(&image), "--key-file", &past.key];
    match at {
        "" => past.disk.json("export", &args),
        at => past.json_at("export", at, &args),
    };
    std::fs::read(&image).unwrap()
}

#[test]
fn diff_names_the_ranges_that_were_written_or_freed_in_between_served_or_not() {
    let past = past("64M");
    let served = serve(&past);
    let mut guest = client(&served);
    put(&mut guest, 0, 4, 1);
    put(&mut guest, 100, 2, 1);
    assert_eq!(past.close(&[]).0, 1);
    put(&mut guest, 1, 2, 2);
    put(&mut guest, 16383, 1, 2);
    past.disk.json("epoch", &["--name", "before-upgrade"]);
    assert_eq!(guest.request(TRIM, 0, 100 * BLOCK, 2 * BLOCK), 0);
    put(&mut guest, 2, 1, 3);
    let changed = |from: &str, to: Option<&str>| {
        let diff = diff(&past, from, to);
        let blocks: Vec<_> =
            ranges(&diff).into_iter().map(|(start, len)| [start / BLOCK, len / BLOCK]).collect();
        let sum = blocks.iter().map(|it| it[1]).sum::<u64>() * BLOCK;
        assert_eq!((&diff["differing_bytes"], &diff["next"]), (&sum.into(), &Value::Null));
        blocks
    };
    let check = || {
        assert_eq!(changed("1", Some("2")), [[1, 2], [16383, 1]]);
        assert_eq!(changed("before-upgrade", Some("1")), [[1, 2], [16383, 1]]);
        assert_eq!(changed("2", None), [[2, 1], [100, 2]]);
        assert_eq!(changed("1", None), [[1, 2], [100, 2], [16383, 1]]);
        assert_eq!(changed("1", Some("1")), [[0; 2]; 0]);
    };
    check();
    assert_eq!(guest.request(FLUSH, 0, 0, 0), 0);
    drop(guest);
    drop(served);
    check();
    let text = succeeds(quietus().args(["diff", &past.target("1"), &past.target("2")]));
    assert!(text.starts_with("            4096             8192\n"), "{text}");
    assert!(text.ends_with("epoch 1 and epoch 2 differ in 2 ranges: 12.00 KiB\n"), "{text}");
}

/// Three epochs of a disk of 64 MiB: content is written, then partly replaced and freed, then more is written. What each
/// shows, and the current state.
pub fn history(past: &Bench) -> Vec<Vec<u8>> {
    let served = serve(past);
    let mut guest = client(&served);
    put(&mut guest, 0, 600, 1);
    put(&mut guest, 5000, 40, 1);
    assert_eq!(past.close(&[]).0, 1);
    put(&mut guest, 10, 300, 2);
    assert_eq!(guest.request(TRIM, 0, 5000 * BLOCK, 40 * BLOCK), 0);
    put(&mut guest, 9000, 10, 2);
    assert_eq!(past.close(&[]).0, 2);
    put(&mut guest, 100, 3, 3);
    put(&mut guest, 16383, 1, 3);
    assert_eq!(guest.request(FLUSH, 0, 0, 0), 0);
    ["1", "2", ""].map(|at| exported(past, at)).to_vec()
}

#[test]
fn restore_makes_an_epoch_the_current_state_and_keeps_the_one_before() {
    let past = past("64M");
    let shown = history(&past);
    let restored = |at: &str| past.json_at("restore", at, &["--key-file", &past.key]);
    let done = restored("1");
    assert_eq!([&done["epoch"], &done["before"]], [1, 3]);
    let (written, zeroed) = ((300 + 40) * BLOCK, 11 * BLOCK);
    assert_eq!([&done["written_bytes"], &done["zeroed_bytes"]], [written, zeroed]);
    for (at, n) in [("", 0), ("1", 0), ("2", 1), ("3", 2)] {
        assert!(exported(&past, at) == shown[n], "{at:?}");
    }
    // What is there already is not written.
    let again = restored("1");
    assert_eq!([&again["before"], &again["written_bytes"], &again["zeroed_bytes"]], [4, 0, 0]);
    let served = serve(&past);
    let back = past.json_at("restore", "3", &[]);
    // Nothing has changed since, so that no epoch is made.
    assert_eq!([&back["epoch"], &back["before"]], [3, 4]);
    assert!(exported(&past, "") == shown[2]);
    let mut guest = client(&served);
    assert_eq!(guest.read(0, 100 * BLOCK, 1), Ok(vec![3]));
    put(&mut guest, 0, 1, 9);
}

#[test]
fn restore_refuses_a_disk_that_clients_use_and_not_one_whose_writes_are_watched() {
    let past = past("1M");
    let served = serve(&past);
    let mut guest = client(&served);
    put(&mut guest, 0, 1, 1);
    assert_eq!(past.close(&[]).0, 1);
    put(&mut guest, 0, 1, 2);
    past.assert_refused("restore", "1", &[], 1, "1 clients use the disk; disconnect them");
    assert_eq!(guest.read(0, 0, 1), Ok(vec![2]));
    guest.say_request(DISC, 0, 0, 0, 0);
    assert!(guest.is_closed());
    // A client of the past does not matter.
    let mut reader = served.connect();
    assert_eq!(reader.verdict(OPT_GO, &info_request("disk@1", &[])), ACK);
    past.assert_refused("restore", "5", &[], 1, "epoch 5 has not closed yet");
    past.json_at("restore", "1", &[]);
    assert_eq!(client(&served).read(0, 0, 1), Ok(vec![1]));
    drop(served);
    let watched = past.disk.serve(&["--key-file", &past.key]);
    let mut guest = client(&watched);
    put(&mut guest, 0, 1, 3);
    guest.say_request(DISC, 0, 0, 0, 0);
    assert!(guest.is_closed());
    past.json_at("restore", "1", &[]);
    assert_eq!(client(&watched).read(0, 0, 1), Ok(vec![1]));
}

/// An image with content in two places and half a sector behind a block.
fn sparse_image(path: &Path) -> Vec<u8> {
    let mut bytes = vec![0; (24 << 20) + 4096 + 256];
    std::fs::File::create(path).and_then(|it| it.set_len(bytes.len() as u64)).unwrap();
    for (byte, run) in [(5, 4096..1 << 20), (6, 9 << 20..(9 << 20) + 5000), (7, 24 << 20..bytes.len())] {
        bytes[run.clone()].fill(byte);
        overwrite(path, run.start as u64, &bytes[run]);
    }
    bytes
}

#[test]
fn a_disk_that_begins_with_an_image_shows_it_and_takes_no_space_for_its_holes() {
    let dir = tempfile::tempdir().unwrap();
    let image = dir.path().join("golden");
    let mut bytes = sparse_image(&image);
    bytes.resize(bytes.len().next_multiple_of(512), 0);
    let past = Bench::new(&["--epoch", "manual", "--from", text(&image)]);
    assert!(exported(&past, "") == bytes);
    let taken = std::fs::metadata(past.disk.path().join("data")).unwrap().blocks() * 512;
    assert!(taken < 2 << 20, "{taken}");
    assert_eq!(past.close(&[]).0, 1);
    assert!(exported(&past, "1") == bytes);
    assert_eq!(past.disk.json("verify", &[])["ok"], true);
}

#[test]
fn versions_shows_what_each_epoch_changed_and_what_forgetting_it_would_destroy() {
    let past = past("64M");
    history(&past);
    let listed = |args: &[&str]| {
        let versions = past.disk.json("versions", args)["versions"].as_array().unwrap().clone();
        let number = |it: &Value, name: &str| it[name].as_u64().map(|bytes| bytes / BLOCK);
        versions
            .iter()
            .map(|it| (number(it, "changed_bytes"), number(it, "unique_bytes")))
            .collect::<Vec<_>>()
    };
    assert_eq!(listed(&[]), [(Some(640), None), (Some(350), None)]);
    // Only epoch 1 shows what epoch 2 replaced or freed; and three blocks of epoch 2 were replaced later.
    let all = [(Some(640), Some(340)), (Some(350), Some(3))];
    assert_eq!(listed(&["--unique"]), all);
    let served = serve(&past);
    assert_eq!(listed(&["--unique"]), all);
    let retired = || past.disk.json("status", &[])["store"]["retired_bytes"].as_u64().unwrap() / BLOCK;
    assert_eq!(retired(), 343);
    past.forget("1");
    assert_eq!((listed(&["--unique"]), retired()), (vec![all[1]], 3));
    put(&mut client(&served), 0, 1, 9);
    assert_eq!(past.close(&[]).0, 3);
    assert_eq!(listed(&["--unique"])[1], (Some(5), Some(0)), "three, one and one");
    let text = past.disk.shown("versions", &["--unique"]);
    assert!(text.starts_with("       epoch  closed"), "{text}");
    assert!(text.contains("1.37 MiB"), "{text}");
}
