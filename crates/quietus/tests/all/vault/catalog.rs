//! A catalog that was damaged, is older than the pool, or is gone; and the files that never change.

use crate::program::{flip, text};
use crate::vault::program::{Vault, folder, noise};
use serde_json::json;
use std::fs;
use std::path::PathBuf;

/// A vault of the folders `a`, `b`, `c`, each a snapshot of its name.
fn some_vault() -> (Vault, Vec<PathBuf>) {
    let vault = Vault::new(&["--compress", "none"]);
    let tops: Vec<PathBuf> = ["a", "b", "c"].into_iter().map(|name| vault.beside(name)).collect();
    for (top, first) in tops.iter().zip([1, 10, 20]) {
        folder(top, &(first..first + 4).collect::<Vec<_>>());
        vault.put(&top.file_name().expect("a name").to_string_lossy(), top);
    }
    (vault, tops)
}

fn assert_whole(vault: &Vault, tops: &[PathBuf]) {
    for top in tops {
        let name = top.file_name().expect("a name").to_string_lossy().into_owned();
        vault.assert_back(&name, top);
    }
}

/// Fills the vault, so that everything is overwritten that counts as free; and sanitizes it.
fn use_on(vault: &Vault, seed: u64) {
    let more = vault.beside("more");
    fs::create_dir_all(&more).expect("a directory");
    for round in 0..3 {
        fs::write(more.join("file"), noise(seed + round, 9 << 20)).expect("a file");
        let snapshot = vault.put("more", &more);
        vault.json("forget", &[&snapshot]);
    }
    vault.sanitize();
}

#[test]
fn a_catalog_that_is_gone_is_made_anew_of_the_pool_and_what_was_forgotten_is_named() {
    let (vault, tops) = some_vault();
    vault.json("hold", &["2", "--name", "law", "--why", "case 5"]);
    vault.json("forget", &["0"]);
    fs::remove_file(vault.path().join("catalog")).expect("a catalog");
    assert!(vault.refused("list", &[]).contains("quietus vault repair"));
    let said = vault.findings("repair", &[]);
    assert_eq!((&said["found"], &said["unmet"]), (&json!([3, 4, 5]), &json!([0])), "{said}");
    assert_eq!(said["lost_holds"], json!([{ "name": "law", "snapshots": [2] }]), "{said}");
    assert_whole(&vault, &tops);
    let needle = noise(1, 64);
    assert!(vault.count(&needle) > 0);
    vault.json("forget", &["a"]);
    vault.sanitize();
    assert_eq!(vault.count(&needle), 0, "what was forgotten again is destroyed");
    assert_whole(&vault, &tops[1..]);
    vault.assert_whole();
}

#[test]
fn a_catalog_that_is_older_than_the_pool_overwrites_nothing() {
    let (vault, mut tops) = some_vault();
    let (path, older) = (vault.path().join("catalog"), vault.beside("older"));
    fs::copy(&path, &older).expect("a copy");
    tops.push(vault.beside("d"));
    folder(&tops[3], &[30, 31, 32]);
    vault.put("d", &tops[3]);
    vault.json("forget", &["0"]);
    fs::copy(&older, &path).expect("a copy");
    let said = vault.refused("put", &["e", text(&tops[3])]);
    assert!(said.contains("older than the pool") && said.contains("quietus vault repair"), "{said}");
    let said = vault.findings("repair", &[]);
    assert_eq!((&said["back"], &said["found"]), (&json!([0]), &json!([4])), "{said}");
    assert_whole(&vault, &tops);
    use_on(&vault, 800);
    assert_whole(&vault, &tops);
}

#[test]
fn a_repair_of_a_whole_vault_changes_nothing() {
    let (vault, tops) = some_vault();
    vault.json("forget", &["0"]);
    let said = vault.json("repair", &[]);
    assert_eq!((&said["known"], &said["found"]), (&json!([1, 2]), &json!([])), "{said}");
    let receipt = vault.sanitize();
    assert_eq!(receipt["statement"]["receipts"].as_array().map(Vec::len), Some(1), "{receipt}");
    assert_whole(&vault, &tops[1..]);
}

#[test]
fn a_changed_bit_of_a_file_that_never_changes_is_noticed_and_set_right() {
    let (vault, tops) = some_vault();
    for name in ["secret", "vault.toml", "key", "key.pub"] {
        let path = vault.path().join(name);
        let whole = fs::read(&path).expect("a file");
        let bytes = whole.len() as u64;
        for at in [0, bytes / 2, bytes - 1] {
            flip(&path, at);
            let said = match name {
                "key" | "key.pub" => vault.refused("prove", &[]),
                _ => vault.refused("put", &["more", text(&tops[0])]),
            };
            assert!(
                said.contains(name) && (said.contains("repair") || said.contains("restore")),
                "{name}: {said}"
            );
            assert_eq!(vault.json("repair", &[])["mended"], json!([name]), "{name}, byte {at}");
            assert!(fs::read(&path).expect("a file") == whole, "{name}, byte {at}");
        }
    }
    assert_whole(&vault, &tops);
    assert_eq!(vault.snapshots(), 3, "nothing was put");
}

#[test]
fn a_line_of_vault_toml_that_was_changed_on_purpose_can_be_confirmed() {
    let (vault, tops) = some_vault();
    let path = vault.path().join("vault.toml");
    let toml = fs::read_to_string(&path).expect("text").replace("\"none\"", "\"zstd\"");
    fs::write(&path, &toml).expect("a file");
    let said = vault.refused("list", &[]);
    let new = said.split("the lines have \"").nth(1).and_then(|rest| rest.get(..8)).expect("the new value");
    let at = toml.rfind("lines = \"").expect("a field") + 9;
    fs::write(&path, [&toml[..at], new, &toml[at + 8..]].concat()).expect("a file");
    assert_whole(&vault, &tops);
}
