//! What `prove` and `verify` say of a sealed disk.

use super::{BLOCK, SLOT_BYTES, SLOTS, assert_filled, client, purged, serve, trim};
use crate::program::{Disk, overwrite, text};
use serde_json::{Value, json};

/// The statement of a proof, and its exit status.
fn prove(disk: &Disk) -> (Value, Option<i32>) {
    let receipt = disk.beside("receipt");
    let output = disk.run("prove", &["-o", text(&receipt)]);
    let text = std::fs::read_to_string(&receipt).expect("a receipt");
    let receipt: Value = serde_json::from_str(&text).expect("JSON");
    (receipt["statement"].clone(), output.status.code())
}

/// The place of the slot that has no key.
fn empty_slot(disk: &Disk) -> usize {
    let root = std::fs::read(disk.path().join("root")).expect("a root");
    SLOTS
        .into_iter()
        .find(|at| root[*at..at + SLOT_BYTES].iter().all(|byte| *byte == 0))
        .expect("an empty slot")
}

#[test]
fn a_proof_finds_one_key_in_the_root_and_zeros_where_content_died() {
    let disk = purged();
    let (proof, status) = prove(&disk);
    assert_eq!((status, &proof["violations"]), (Some(0), &json!([])), "{proof}");
    let root = &proof["sealed"]["root"];
    assert_eq!((&root["cells"], &root["owed"], &root["residue"]), (&1.into(), &0.into(), &json!([])));
    assert_eq!(root["read_bytes"], 12288);
    assert_eq!(proof["sealed"]["purge"], disk.json("status", &[])["store"]["purge"]);
    assert_eq!(proof["bytes"]["queued"].as_u64().unwrap_or(0), 0, "{proof}");
    assert!(
        proof["destroyed_bytes"].as_u64() >= Some(4 * BLOCK as u64) || proof["read_bytes"].as_u64() > Some(0)
    );
    assert!(disk.shown("prove", &[]).contains("no key of dead content is left"));
}

#[test]
fn anything_else_in_the_root_is_found_while_the_disk_is_served() {
    let disk = purged();
    let server = serve(&disk);
    let at = empty_slot(&disk);
    overwrite(&disk.path().join("root"), at as u64 + 1000, &[1]);
    let (proof, status) = prove(&disk);
    assert_eq!((status, &proof["sealed"]["root"]["residue"]), (Some(3), &json!([at + 512])), "{proof}");
    let checks = disk.run("verify", &[]);
    let said = String::from_utf8_lossy(&checks.stdout).into_owned();
    assert!(checks.status.code() == Some(3) && said.contains("top cell"), "{said}");
    server.stop();
    let server = serve(&disk);
    assert_eq!(prove(&disk).1, Some(0), "a start destroys what the slot held");
    server.stop();
}

#[test]
fn ciphertext_where_content_died_is_found() {
    let disk = purged();
    let server = serve(&disk);
    overwrite(&disk.path().join("data"), 9 * BLOCK as u64, &[1; 512]);
    let (proof, status) = prove(&disk);
    assert_eq!(status, Some(3));
    assert_eq!(proof["violations"], json!([{"start": 9 * BLOCK, "len": BLOCK}]), "{proof}");
    drop(server);
}

#[test]
fn what_waits_for_a_purge_is_no_clean_proof() {
    let disk = Disk::new(&["--store", "sealed", "--no-credential", "--size", "1M", "--idle-after", "1h"]);
    let server = serve(&disk);
    let mut of = client(&server);
    super::fill(&mut of, 0, 0x41, 8 * BLOCK);
    trim(&mut of, 0, 4);
    let (proof, status) = prove(&disk);
    assert_eq!((status, &proof["bytes"]["queued"]), (Some(3), &(4 * BLOCK).into()), "{proof}");
    disk.json("shred", &["--now"]);
    assert_eq!(prove(&disk).1, Some(0));
    assert_filled(&mut of, 4, 0x41, 4 * BLOCK);
}
