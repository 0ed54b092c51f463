//! A medium that was changed behind the vault's back.

use crate::program::{quietus, text, told};
use crate::vault::program::{Vault, folder, noise};
use serde_json::json;
use std::fs;

#[test]
fn damage_is_named_by_the_files_and_snapshots_that_it_hits_and_costs_those_files_alone() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.folder("a", &[1]);
    fs::write(top.join("large"), noise(2, 5 << 20)).expect("a file");
    vault.put("one", &top);
    folder(&top.join("sub"), &[3]);
    vault.put("two", &top);
    fs::remove_file(top.join("large")).expect("it goes");
    vault.put("three", &top);
    vault.damage(&noise(2, 5 << 20)[4 << 20..][..64], 5);
    vault.damage(&noise(3, 64), 5);
    let said = vault.findings("verify", &[]);
    let path = |name: &str| text(&top.join(name))[1..].to_owned();
    let expected = json!([
        { "path": path("large"), "snapshots": [0, 1] },
        { "path": path("sub/file 3"), "snapshots": [1, 2] },
    ]);
    assert_eq!(
        (&said["damaged"], &said["damaged_count"], &said["unread_count"]),
        (&expected, &2.into(), &0.into())
    );
    let said = said.to_string();
    assert!(said.contains("checksum") && said.contains("restore the pool from a copy"), "{said}");
    vault.findings("get", &["two", "--into", "back"]);
    let back = vault.beside("back").join(top.strip_prefix("/").expect("absolute"));
    for name in ["large", "sub/file 3"] {
        assert!(!back.join(name).exists(), "a part of {name} passes for the file");
    }
    assert!(fs::read(back.join("file 1")).expect("a file") == fs::read(top.join("file 1")).expect("a file"));
    // A folder that cannot be read is named, too.
    vault.damage(b"file 3", 0);
    let output = vault.command_plain("verify").output().expect("it runs");
    let said = told(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("DAMAGED: {} (in 0-1)", path("large"))), "{said}");
    assert!(said.contains(&format!("NOT READ: /{} of snapshot 1, 2: ", path("sub"))), "{said}");
    assert!(said.contains("put these files again"), "{said}");
}

#[test]
fn a_damaged_folder_is_whole_again_once_its_files_were_put_again() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.folder("a", &[1, 2, 3]);
    folder(&top.join("deep/er"), &[4]);
    vault.put("daily", &top);
    for name in [&b"file 2"[..], b"file 4"] {
        vault.damage(name, 0);
        // The damage is found where a put needs the folder: nothing has read all of the vault.
        vault.put("daily", &top);
        vault.assert_back("0", &top);
    }
    vault.assert_whole();
}

#[test]
fn a_snapshot_whose_beginning_is_damaged_is_listed_and_can_be_forgotten() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.folder("a", &[1]);
    vault.put("the damaged one", &top);
    vault.put("kept", &top);
    vault.damage(b"the damaged one", 0);
    let list = vault.json("list", &[]);
    assert!(list["snapshots"][0]["fault"].is_string() && list["snapshots"][1]["name"] == "kept", "{list}");
    vault.assert_refused("sanitize", &[], "checksum");
    vault.json("forget", &["0"]);
    vault.sanitize();
    vault.assert_whole();
}

#[test]
fn a_damaged_container_is_named_in_the_receipt_and_destroyed_once_its_files_were_put_again() {
    let vault = Vault::new(&["--compress", "none"]);
    let (kept, gone) = (vault.beside("kept"), vault.beside("gone"));
    folder(&kept, &[1]);
    folder(&gone, &[2]);
    vault.put("kept", &kept);
    let snapshot = vault.put("gone", &gone);
    // The class in the head of the container.
    vault.write(vault.find(&noise(1, 64)) / (128 << 10) * (128 << 10) + 20, b"?");
    vault.json("forget", &[&snapshot]);
    let said = vault.findings("sanitize", &["-o", "receipt.json"])["statement"].clone();
    let count = |name: &str| said[name].as_array().map(Vec::len);
    assert_eq!((&said["left"], count("receipts"), count("owed")), (&1.into(), Some(0), Some(1)), "{said}");
    let residue = said["residue"][0]["why"].as_str().expect("a reason");
    assert!(residue.contains("checksum") && residue.contains("put the files"), "{said}");
    assert_eq!(vault.count(&noise(2, 64)), 0, "what is dead elsewhere is destroyed");
    assert_eq!(vault.count(&noise(1, 64)), 1, "what a repair could bring back is there");
    let mut check = quietus();
    check.args(["vault", "prove", "--check", "receipt.json"]).current_dir(vault.dir.path());
    let checked = check.output().expect("it runs");
    assert_eq!(checked.status.code(), Some(3), "{checked:?}");
    vault.put("kept again", &kept);
    let receipt = vault.sanitize();
    assert_eq!(receipt["statement"]["receipts"].as_array().map(Vec::len), Some(1), "{receipt}");
    assert_eq!(vault.count(&noise(1, 64)), 1, "the damaged copy is destroyed");
    let (_into, back) = vault.get("kept", &kept);
    assert_eq!(fs::read(back.join("file 1")).expect("a file"), noise(1, 1000 + 7919));
}

#[test]
fn a_proof_finds_what_lies_where_nothing_is_to_be() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.folder("a", &[1, 2]);
    vault.put("some", &top);
    vault.json("prove", &[]);
    // The last slot is free.
    vault.write((64 << 20) - 5000, b"a secret");
    assert!(vault.findings("prove", &[]).to_string().contains("bytes in a free slot"));
    vault.write((64 << 20) - 5000, &[0; 8]);
    // Behind the chunks of the first container.
    vault.write((128 << 10) - 1, b"x");
    assert!(vault.findings("prove", &[]).to_string().contains("bytes that belong to no chunk"));
}

#[test]
fn a_proof_reads_what_has_space_and_accounts_for_the_rest() {
    // As large as a vault is that nothing is said of: to read all of it would take minutes.
    let vault = Vault { dir: tempfile::tempdir().expect("a directory") };
    vault.json("init", &[]);
    let (slot_bytes, slots) = (4_718_592_u64, 233_016_u64);
    let proof = |vault: &Vault| vault.json("prove", &[])["statement"].clone();
    let empty = proof(&vault);
    let of = (&empty["read_ways"], &empty["hole_bytes"], &empty["free"]);
    assert_eq!(of, (&json!({}), &(slot_bytes * slots).into(), &slots.into()));
    let top = vault.folder("a", &[1, 2, 3]);
    vault.put("some", &top);
    let full = proof(&vault);
    let ways = full["read_ways"].as_object().expect("ways").values();
    let read: u64 = ways.map(|bytes| bytes.as_u64().expect("bytes")).sum();
    assert!(read > 0 && full["hole_bytes"] == slot_bytes * slots - read, "{full}");
    assert_eq!((&full["containers"], &full["free"]), (&2.into(), &(slots - 2).into()));
}

#[test]
fn a_log_with_a_changed_line_is_no_whole_log() {
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1]);
    vault.put("some", &top);
    vault.json("hold", &["0", "--name", "law", "--why", "good"]);
    vault.json("release", &["--name", "law"]);
    let path = vault.path().join("audit.jsonl");
    let log = fs::read_to_string(&path).expect("a log");
    fs::write(&path, log.replace("\"why\":\"good\"", "\"why\":\"evil\"")).expect("a log");
    assert!(vault.findings("verify", &[]).to_string().contains("audit_log"));
}
