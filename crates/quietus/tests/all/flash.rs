//! Disks on raw NAND flash, on files that stand for chips.

use crate::nbd::client::{Client, FLUSH, Style, TRIM};
use crate::program::{Disk, Server, flip, overwrite, private, quietus, text, told};
use std::collections::BTreeSet;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;

const BLOCK: usize = 4096;

/// A disk with further `args` on a new chip of `blocks` blocks of 128 KiB.
fn made(blocks: u32, args: &[&str]) -> Disk {
    let dir = tempfile::tempdir().expect("a directory");
    let place = format!("nand:{},chip=slc-2k,blocks={blocks}", text(&dir.path().join("chip")));
    Disk::made(dir, &[&["--idle-after", "1h", "--medium", &place], args].concat())
}

fn chip(disk: &Disk) -> PathBuf {
    disk.beside("chip")
}

fn client(server: &Server) -> Client<UnixStream> {
    let mut client = server.connect();
    client.agree(Style::Structured);
    client
}

fn serve(disk: &Disk) -> Server {
    disk.serve(&["--detect", "off"])
}

/// The content of block `block` in round `round`, which no other has.
fn content(round: u32, block: usize) -> Vec<u8> {
    format!("<round {round:6} block {block:6}>").into_bytes().repeat(BLOCK / 27 + 1)[..BLOCK].to_vec()
}

fn write(of: &mut Client<UnixStream>, round: u32, block: usize) {
    assert_eq!(of.write(0, (block * BLOCK) as u64, &content(round, block)), 0);
}

fn flush(of: &mut Client<UnixStream>) {
    assert_eq!(of.request(FLUSH, 0, 0, 0), 0);
}

fn trim(of: &mut Client<UnixStream>, block: usize, blocks: usize) {
    assert_eq!(of.request(TRIM, 0, (block * BLOCK) as u64, (blocks * BLOCK) as u64), 0);
}

#[track_caller]
fn assert_there(of: &mut Client<UnixStream>, block: usize, bytes: &[u8]) {
    assert!(
        of.read(0, (block * BLOCK) as u64, BLOCK).expect("bytes") == bytes,
        "block {block} reads otherwise"
    );
}

/// The contents that any page of the chip holds: round and block.
fn on_chip(disk: &Disk) -> BTreeSet<(u32, usize)> {
    let bytes = std::fs::read(chip(disk)).expect("a chip");
    let starts = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'<').map(|(at, _)| at);
    let words = starts.filter_map(|at| std::str::from_utf8(bytes.get(at..at + 27)?).ok());
    let number = |text: &str| text.trim().parse().ok();
    let known = words.filter_map(|it| {
        let (round, block) = it.strip_prefix("<round ")?.strip_suffix('>')?.split_once(" block ")?;
        Some((number(round)? as u32, number(block)?))
    });
    known.collect()
}

#[test]
fn what_dies_in_place_is_gone_from_each_page_of_the_chip_with_all_that_lay_there_before() {
    let disk = made(128, &["--store", "in-place", "--size", "4M"]);
    let server = serve(&disk);
    let mut of = client(&server);
    for round in 0..3 {
        (0..64).for_each(|block| write(&mut of, round, block));
        flush(&mut of);
    }
    let there = on_chip(&disk);
    assert!(there.contains(&(0, 5)) && there.contains(&(2, 5)), "a write leaves the old content elsewhere");
    trim(&mut of, 0, 32);
    assert_there(&mut of, 5, &[0; BLOCK]);
    // Two of them are written again, which waits for nothing.
    write(&mut of, 3, 7);
    write(&mut of, 3, 8);
    flush(&mut of);
    assert!(on_chip(&disk).contains(&(2, 7)), "it is not destroyed yet");
    let shredded = disk.json("shred", &["--now"]);
    assert_eq!(
        (&shredded["done"], &shredded["waiting"]),
        (&true.into(), &serde_json::json!([])),
        "{shredded}"
    );
    let left: Vec<_> =
        on_chip(&disk).into_iter().filter(|(round, block)| *round < 3 && *block < 32).collect();
    assert!(left.is_empty(), "rounds and blocks on the chip: {left:?}");
    (32..64).for_each(|block| assert_there(&mut of, block, &content(2, block)));
    assert_there(&mut of, 7, &content(3, 7));
    assert_there(&mut of, 9, &[0; BLOCK]);
    drop(of);
    server.stop();
    let log = told(&disk.run("deaths", &[]));
    assert!(log.contains("\"act\":\"erased\"") && log.contains("\"passes\":0"), "{log}");
    let proof = disk.beside("proof.json");
    let proven = disk.json("prove", &["-o", text(&proof)]);
    let found = &proven["statement"]["chip"];
    assert_eq!((&found["pages_read"], &found["remains"]), (&(128 * 64).into(), &0.into()), "{found}");
    assert_eq!(disk.json("verify", &[])["ok"], true);
    let server = serve(&disk);
    let mut of = client(&server);
    (32..64).for_each(|block| assert_there(&mut of, block, &content(2, block)));
    assert_there(&mut of, 8, &content(3, 8));
}

#[test]
fn what_was_flushed_is_there_after_a_kill_and_what_died_stays_dead() {
    for store in [&["--store", "in-place"][..], &["--store", "sealed", "--no-credential"]] {
        let disk = made(192, &[store, &["--size", "4M"]].concat());
        for round in 1..5 {
            let server = serve(&disk);
            let mut of = client(&server);
            if round > 1 {
                (0..50).for_each(|block| assert_there(&mut of, block, &content(round - 1, block)));
                assert_there(&mut of, 100, &[0; BLOCK]);
            }
            (0..50).for_each(|block| write(&mut of, round, block));
            write(&mut of, round, 100);
            flush(&mut of);
            trim(&mut of, 100, 1);
            disk.json("shred", &["--now"]);
            // Never flushed. Dropping the server kills it.
            write(&mut of, round, 200);
        }
        assert_eq!(disk.json("verify", &["--read-data"])["ok"], true, "{store:?}");
        assert!(on_chip(&disk).iter().all(|(_, block)| *block != 100), "{store:?}");
    }
}

#[test]
fn the_wear_of_a_chip_is_told_whether_its_disk_is_served_or_not() {
    let disk = made(192, &["--store", "sealed", "--no-credential", "--size", "4M"]);
    let before = disk.json("wear", &[]);
    let server = serve(&disk);
    let mut of = client(&server);
    for round in 0..8 {
        (0..1000).for_each(|block| write(&mut of, round, block));
        flush(&mut of);
    }
    let served = disk.json("wear", &[]);
    drop(of);
    server.stop();
    let after = disk.json("wear", &[]);
    let erases = |wear: &serde_json::Value| wear["operations"]["erases"].as_u64().expect("a number");
    assert!(
        erases(&before) < erases(&served) && erases(&served) <= erases(&after),
        "{before} {served} {after}"
    );
    assert_eq!((&after["blocks"], &after["endurance"]), (&192.into(), &100_000.into()), "{after}");
    let plain = Disk::new(&["--size", "1M"]);
    plain.assert_refused("wear", &[], 1, "lies on no flash chip");
}

#[test]
fn a_chip_that_does_not_suit_is_refused_by_name_and_nothing_is_left_behind() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| text(&dir.path().join(name)).to_string();
    let create = |args: &[&str]| {
        let output = quietus().args([&["create", &at("disk")], args].concat()).output().expect("it runs");
        assert!(!output.status.success() && !dir.path().join("disk").exists(), "{args:?}");
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let (new, foreign) =
        (format!("nand:{},chip=slc-2k,blocks=128", at("new")), format!("nand:{}", at("foreign")));
    std::fs::write(at("foreign"), vec![7; 1 << 20]).expect("a file");
    for (args, why) in [
        (&["--medium", &foreign][..], "is no chip"),
        (&["--medium", &format!("nand:{}", at("nothing"))], "chip= and blocks="),
        (&["--medium", "nand:/dev/null"], "/dev/null"),
        (&["--medium", &new, "--size", "1G"], "--size"),
        (&["--medium", &format!("nand:{},chip=slc-9k,blocks=9", at("new"))], "slc-2k"),
        (
            &["--size", "1M", "--store", "sealed", "--no-credential", "--root", "nand"],
            "--medium nand:/dev/mtd4",
        ),
    ] {
        let said = create(args);
        assert!(said.contains(why), "{args:?}: {said}");
        assert!(!dir.path().join("new").exists(), "{args:?} left a chip behind");
    }
    assert!(std::fs::read(at("foreign")).expect("a file") == vec![7; 1 << 20], "a foreign file has changed");
}

#[test]
fn another_disks_chip_a_chip_in_use_and_a_damaged_file_are_refused() {
    let [disk, other] = [0, 1].map(|_| made(128, &["--store", "in-place", "--size", "2M"]));
    let server = serve(&disk);
    let mut of = client(&server);
    write(&mut of, 1, 1);
    flush(&mut of);
    let toml = std::fs::read_to_string(other.path().join("disk.toml")).expect("a description");
    let moved = toml.replace(text(&chip(&other)), text(&chip(&disk)));
    std::fs::write(other.path().join("disk.toml"), &moved).expect("a description");
    other.assert_refused("status", &[], 1, "checksum");
    std::fs::write(other.path().join("disk.toml"), &toml).expect("a description");
    drop(of);
    server.stop();

    let (mine, its) = (chip(&disk), chip(&other));
    let kept = std::fs::read(&mine).expect("a chip");
    std::fs::copy(&its, &mine).expect("a copy");
    disk.assert_refused("verify", &[], 1, "another disk");
    std::fs::write(&mine, &kept[..kept.len() / 2]).expect("a shorter chip");
    disk.assert_refused("verify", &[], 1, "chip");
    std::fs::write(&mine, &kept).expect("the chip");
    flip(&mine, 9);
    disk.assert_refused("verify", &[], 1, "chip");
    flip(&mine, 9);
    overwrite(&mine, 0, b"NOTACHIP");
    disk.assert_refused("verify", &[], 1, "chip");
    std::fs::write(&mine, &kept).expect("the chip");
    let server = serve(&disk);
    assert_there(&mut client(&server), 1, &content(1, 1));
}

#[test]
fn overlays_and_versions_grow_and_delete_on_a_chip() {
    for seal in [None, Some("none"), Some("random-key")] {
        let dir = tempfile::tempdir().expect("a directory");
        let (base, key) = (dir.path().join("base"), dir.path().join("key"));
        std::fs::write(&base, vec![0x5a; 1 << 20]).expect("a base");
        private(&key, &[7; 32]);
        let place = format!("nand:{},chip=slc-2k,blocks=800", text(&dir.path().join("chip")));
        let store = match seal {
            None => vec!["--store", "overlay", "--base", text(&base)],
            Some("none") => vec!["--store", "versions", "--seal", "none", "--epoch", "manual"],
            Some(seal) => {
                vec!["--store", "versions", "--seal", seal, "--epoch", "manual", "--key-file", text(&key)]
            }
        };
        let args = [&store[..], &["--size", "4M", "--idle-after", "1h", "--medium", &place]].concat();
        let (key, disk) = (text(&key).to_string(), Disk::made(dir, &args));
        let unlock = if seal == Some("random-key") { &["--key-file", &*key][..] } else { &[] };
        for round in 1..4 {
            let server = disk.serve(&[&["--detect", "off"], unlock].concat());
            let mut of = client(&server);
            if round > 1 {
                (100..200).for_each(|block| assert_there(&mut of, block, &content(round - 1, block)));
                assert_there(&mut of, 50, &[0; BLOCK]);
            }
            (0..200).for_each(|block| write(&mut of, round, block));
            flush(&mut of);
            trim(&mut of, 0, 100);
            flush(&mut of);
            disk.json("shred", &["--now"]);
            let left: Vec<_> = on_chip(&disk).into_iter().filter(|(_, block)| *block < 100).collect();
            assert!(left.is_empty(), "{seal:?}: rounds and blocks on the chip: {left:?}");
            // Dropping the server kills it.
        }
        let proof = disk.beside("proof.json");
        let proven = disk.json("prove", &["-o", text(&proof)]);
        assert_eq!(proven["statement"]["chip"]["remains"], 0, "{seal:?}: {}", proven["statement"]["chip"]);
    }
}
