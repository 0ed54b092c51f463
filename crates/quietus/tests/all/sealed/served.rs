//! Sealed disks that are served: what is written, dies, and is there again after a stop or a kill.

use super::{BLOCK, assert_filled, client, fill, made, purged, purges, serve, trim};
use crate::nbd::client::{EPERM, FLUSH, FUA, READ};
use crate::program::told;
use quietus_core::base::zeros::is_zeros;

#[test]
fn what_was_flushed_is_there_after_a_kill() {
    let disk = made(&["--size", "4M"]);
    for round in 1..6_u8 {
        let server = serve(&disk);
        let mut of = client(&server);
        if round > 1 {
            assert_filled(&mut of, 0, round - 1, 200 * BLOCK);
            assert_filled(&mut of, 200, 0, 824 * BLOCK);
        }
        fill(&mut of, 0, round, 200 * BLOCK);
        assert_eq!(of.write(0, 300 * BLOCK as u64, &[9; 512]), 0);
        trim(&mut of, 300, 1);
        // Dropping the server kills it.
    }
    assert_eq!(disk.json("verify", &["--read-data"])["ok"], true);
}

#[test]
fn dead_content_reads_as_zeros_at_once_and_its_keys_are_destroyed() {
    let disk = made(&["--size", "1M"]);
    let first = purges(&disk);
    let server = serve(&disk);
    let mut of = client(&server);
    fill(&mut of, 0, 0x41, 20 * BLOCK);
    trim(&mut of, 8, 4);
    assert_filled(&mut of, 8, 0, 4 * BLOCK);
    let shredded = disk.json("shred", &["--now"]);
    assert_eq!(
        (&shredded["done"], &shredded["waiting"]),
        (&true.into(), &serde_json::json!([])),
        "{shredded}"
    );
    let status = disk.json("status", &[]);
    assert_eq!(
        (&status["store"]["is_purging"], &status["root_life_ms"]),
        (&false.into(), &serde_json::Value::Null)
    );
    assert!(purges(&disk) > first, "{status}");
    assert_filled(&mut of, 0, 0x41, 8 * BLOCK);
    assert_filled(&mut of, 12, 0x41, 8 * BLOCK);
    drop(of);
    server.stop();
    let data = std::fs::read(disk.path().join("data")).expect("data");
    assert!(is_zeros(&data[8 * BLOCK..12 * BLOCK]), "dead blocks hold something");
    let log = told(&disk.run("deaths", &[]));
    assert!(log.contains("\"act\":\"rekeyed\""), "{log}");
}

#[test]
fn dead_blocks_are_written_again_before_and_after_their_purge_and_survive_a_kill() {
    let disk = made(&["--size", "1M", "--idle-after", "1h"]);
    let server = serve(&disk);
    let mut of = client(&server);
    fill(&mut of, 0, 0x41, 32 * BLOCK);
    trim(&mut of, 0, 16);
    fill(&mut of, 4, 0x42, 4 * BLOCK);
    assert_eq!(of.write(FUA, 10 * BLOCK as u64 + 512, &[0x43; 512]), 0);
    drop(of);
    drop(server);
    let server = serve(&disk);
    let mut of = client(&server);
    let check = |of: &mut _| {
        assert_filled(of, 0, 0, 4 * BLOCK);
        assert_filled(of, 4, 0x42, 4 * BLOCK);
        let part = of.read(0, 10 * BLOCK as u64, 1536).expect("bytes");
        assert!(is_zeros(&part[..512]) && is_zeros(&part[1024..]) && part[512..1024] == [0x43; 512]);
        assert_filled(of, 16, 0x41, 16 * BLOCK);
    };
    check(&mut of);
    disk.json("shred", &["--now"]);
    check(&mut of);
    drop(of);
    drop(server);
    let server = serve(&disk);
    check(&mut client(&server));
    assert_eq!(disk.json("verify", &["--read-data"])["ok"], true);
}

#[test]
fn a_part_of_a_block_dies_alone() {
    let disk = made(&["--size", "1M"]);
    let server = serve(&disk);
    let mut of = client(&server);
    fill(&mut of, 0, 0x41, 2 * BLOCK);
    disk.shown("purge", &["512+1K", "--yes", "--now"]);
    let found = of.read(0, 0, 2 * BLOCK).expect("bytes");
    assert!(is_zeros(&found[512..1536]));
    assert!(found[..512].iter().chain(&found[1536..]).all(|byte| *byte == 0x41));
    disk.shown("purge", &["4K+4K", "--conservative", "--yes", "--now"]);
    assert_filled(&mut of, 1, 0x41, BLOCK);
    drop(of);
    server.stop();
    assert_eq!(disk.json("verify", &["--read-data"])["ok"], true);
}

#[test]
fn a_disk_is_served_to_be_read_only_and_nothing_of_it_changes() {
    let disk = purged();
    let before = crate::program::tree(&disk.path());
    let server = disk.serve(&["--detect", "off", "--read-only"]);
    let mut of = client(&server);
    assert_filled(&mut of, 0, 0x41, 8 * BLOCK);
    assert_filled(&mut of, 8, 0, 4 * BLOCK);
    assert_eq!(of.write(0, 0, &[1; 512]), EPERM);
    assert_eq!(of.request(FLUSH, 0, 0, 0), 0);
    assert_eq!(of.request(READ, 0, 0, 512), 0);
    drop(of);
    server.stop();
    for name in ["data", "journal", "keytree", "root"] {
        let now = crate::program::tree(&disk.path());
        assert!(before[std::path::Path::new(name)] == now[std::path::Path::new(name)], "{name} has changed");
    }
}

#[test]
fn the_status_says_what_a_sealed_disk_can_and_cannot_do() {
    let disk = purged();
    let said = disk.shown("status", &[]);
    for words in
        ["sealed     purge ", "early keys", "can be read until its block dies", "root, ", "within 10 min"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let status = disk.json("status", &[]);
    let guarantees = &status["guarantees"];
    assert_eq!(
        (&guarantees["medium"]["holds"], &guarantees["root"]["holds"]),
        (&"ciphertext".into(), &"keys".into())
    );
}
