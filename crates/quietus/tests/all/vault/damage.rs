//! A medium that was changed behind the vault's back.

use crate::schemas::valid;
use crate::vault::program::{Vault, assert_same, folder, noise, report};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;

/// Where the needle is in the pool.
fn find(vault: &Vault, needle: &[u8]) -> u64 {
    let bytes = fs::read(vault.path().join("pool")).expect("a file");
    bytes.windows(needle.len()).position(|window| window == needle).expect("stored as it is") as u64
}

fn write(vault: &Vault, at: u64, bytes: &[u8]) {
    let pool = fs::File::options().write(true).open(vault.path().join("pool")).expect("a file");
    pool.write_all_at(bytes, at).expect("a write");
}

fn text(path: &Path) -> String {
    path.to_str().expect("text").into()
}

#[test]
fn damage_is_named_by_the_files_and_snapshots_that_it_hits() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.beside("a");
    folder(&top, &[1]);
    fs::write(top.join("large"), noise(2, 5 << 20)).expect("a file");
    vault.put("one", &top);
    folder(&top.join("sub"), &[3]);
    vault.put("two", &top);
    fs::remove_file(top.join("large")).expect("it goes");
    vault.put("three", &top);
    write(&vault, find(&vault, &noise(2, 5 << 20)[4 << 20..][..64]) + 5, b"?");
    write(&vault, find(&vault, &noise(3, 64)) + 5, b"?");
    let output = vault.run("verify", &[]);
    let said = report(&output);
    let path = |name: &str| text(&top.join(name))[1..].to_owned();
    let expected = serde_json::json!([
        { "path": path("large"), "snapshots": [0, 1] },
        { "path": path("sub/file 3"), "snapshots": [1, 2] },
    ]);
    assert_eq!(
        (&said["damaged"], &said["damaged_count"], &said["unread_count"]),
        (&expected, &2.into(), &0.into())
    );
    // A folder that cannot be read is named, too.
    write(&vault, find(&vault, b"file 3"), b"F");
    let output = vault.command_plain("verify").output().expect("it runs");
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&format!("DAMAGED: {} (in 0-1)", path("large"))), "{said}");
    assert!(said.contains(&format!("NOT READ: /{} of snapshot 1, 2: ", path("sub"))), "{said}");
    assert!(said.contains("put these files again"), "{said}");
}

#[test]
fn a_changed_chunk_is_found_and_costs_its_file_alone() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.beside("a");
    folder(&top, &[1, 2, 3]);
    vault.put("some", &top);
    assert_eq!(vault.json("verify", &[])["faults_count"], 0);
    let at = find(&vault, &noise(2, 64));
    write(&vault, at + 5, b"?");
    let output = vault.run("verify", &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.contains("checksum") && said.contains("restore the pool from a copy"), "{said}");
    let said = valid(&said);
    let (damaged, path) = (&said["damaged"][0], text(&top.join("file 2")));
    assert_eq!((&said["damaged_count"], &damaged["path"]), (&1.into(), &path[1..].into()), "{said}");
    assert_eq!(damaged["snapshots"], serde_json::json!([0]));
    let output = vault.run("get", &["some", "--into", "back"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let back = vault.beside("back").join(top.strip_prefix("/").expect("absolute"));
    assert!(!back.join("file 2").exists(), "a part of a file passes for the file");
    for name in ["file 1", "file 3"] {
        assert!(fs::read(top.join(name)).expect("a file") == fs::read(back.join(name)).expect("a file"));
    }
}

#[test]
fn a_damaged_folder_is_whole_again_once_its_files_were_put_again() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.beside("a");
    folder(&top, &[1, 2, 3]);
    folder(&top.join("deep/er"), &[4]);
    vault.put("daily", &top);
    for name in [&b"file 2"[..], b"file 4"] {
        write(&vault, find(&vault, name), b"F");
        // The damage is found where a put needs the folder: nothing has read all of the vault.
        vault.put("daily", &top);
        let (_into, back) = vault.get("0", &top);
        assert_same(&top, &back);
    }
    assert_eq!(vault.json("verify", &[])["ok"], true);
}

#[test]
fn a_snapshot_whose_beginning_is_damaged_is_listed_and_can_be_forgotten() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.beside("a");
    folder(&top, &[1]);
    vault.put("the damaged one", &top);
    vault.put("kept", &top);
    write(&vault, find(&vault, b"the damaged one"), b"T");
    let list = vault.json("list", &[]);
    assert!(list["snapshots"][0]["fault"].is_string() && list["snapshots"][1]["name"] == "kept", "{list}");
    let said = vault.refused("sanitize", &[]);
    assert!(said.contains("checksum"), "{said}");
    vault.json("forget", &["0"]);
    vault.sanitize();
    assert_eq!(vault.json("verify", &[])["ok"], true);
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
    let head = find(&vault, &noise(1, 64)) / (128 << 10) * (128 << 10) + 20;
    write(&vault, head, b"?");
    vault.json("forget", &[&snapshot]);
    let output = vault.run("sanitize", &["-o", "receipt.json"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let receipt = report(&output);
    let said = &receipt["statement"];
    assert_eq!(
        (said["left"].as_u64(), said["receipts"].as_array().map(Vec::len)),
        (Some(1), Some(0)),
        "{said}"
    );
    assert_eq!(said["owed"].as_array().map(Vec::len), Some(1), "{said}");
    let residue = said["residue"][0]["why"].as_str().expect("a reason");
    assert!(residue.contains("checksum") && residue.contains("put the files"), "{said}");
    assert_eq!(vault.count(&noise(2, 64)), 0, "what is dead elsewhere is destroyed");
    assert_eq!(vault.count(&noise(1, 64)), 1, "what a repair could bring back is there");
    let check = ["vault", "prove", "--check", "receipt.json"];
    let checked = Command::new(env!("CARGO_BIN_EXE_quietus"))
        .args(check)
        .current_dir(vault.dir.path())
        .output()
        .expect("it runs");
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
    let top = vault.beside("a");
    folder(&top, &[1, 2]);
    vault.put("some", &top);
    assert_eq!(vault.run("prove", &[]).status.code(), Some(0));
    // The last slot is free.
    write(&vault, (64 << 20) - 5000, b"a secret");
    let output = vault.run("prove", &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8(output.stdout).expect("text").contains("bytes in a free slot"));
    write(&vault, (64 << 20) - 5000, &[0; 8]);
    // Behind the chunks of the first container.
    write(&vault, (128 << 10) - 1, b"x");
    let output = vault.run("prove", &[]);
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.contains("bytes that belong to no chunk"), "{said}");
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
    assert_eq!(of, (&serde_json::json!({}), &(slot_bytes * slots).into(), &slots.into()));
    let top = vault.beside("a");
    folder(&top, &[1, 2, 3]);
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
    let top = vault.beside("a");
    folder(&top, &[1]);
    vault.put("some", &top);
    vault.json("hold", &["0", "--name", "law", "--why", "good"]);
    vault.json("release", &["--name", "law"]);
    let path = vault.path().join("audit.jsonl");
    let text = fs::read_to_string(&path).expect("a log");
    fs::write(&path, text.replace("\"why\":\"good\"", "\"why\":\"evil\"")).expect("a log");
    let output = vault.run("verify", &[]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    assert!(String::from_utf8(output.stdout).expect("text").contains("audit_log"));
}
