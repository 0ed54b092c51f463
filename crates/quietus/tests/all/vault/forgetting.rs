//! What is forgotten is destroyed, and nothing else is; a hold keeps its snapshots.

use crate::program::{quietus, told};
use crate::vault::program::{Vault, assert_same, folder, noise, numbers, report};
use serde_json::Value;
use std::fs;

#[test]
fn a_forgotten_snapshot_is_nowhere_once_the_vault_is_sanitized() {
    for policy in ["clear", "random,zero", "ff"] {
        let vault = Vault::new(&["--compress", "none", "--policy", policy]);
        let (one, two) = (vault.beside("one"), vault.beside("two"));
        folder(&one, &[1, 2, 3]);
        folder(&two, &[1, 2, 3, 4, 5]);
        fs::write(two.join("a telling name"), noise(77, 5000)).expect("a file");
        vault.put("one", &one);
        let second = vault.put("two", &two);
        let needles = [noise(4, 64), noise(77, 64), b"a telling name".to_vec()];
        assert!(needles.iter().all(|needle| vault.count(needle) > 0), "stored as they are");
        let dry = vault.json("forget", &[&second, "--dry-run"]);
        assert!(dry["chunks"].as_u64() > Some(3) && numbers(&vault.json("list", &[])).len() == 2, "{dry}");
        vault.json("forget", &[&second]);
        assert!(vault.refused("get", &[&second]).contains("unknown snapshot"));
        vault.findings("prove", &[]);
        let dry = vault.json("sanitize", &["--dry-run"]);
        assert!(dry["statement"]["dead_chunks"].as_u64() > Some(3), "{dry}");
        assert!(needles.iter().all(|needle| vault.count(needle) > 0), "a dry run destroys nothing");
        let receipt = vault.sanitize();
        assert_eq!(receipt["statement"]["receipts"][0]["of"]["snapshot"].to_string(), second, "{receipt}");
        assert_eq!(receipt["statement"]["dead_chunks"], dry["statement"]["dead_chunks"]);
        assert!(needles.iter().all(|needle| vault.count(needle) == 0), "{policy}");
        vault.assert_back("one", &one);
        let again = vault.sanitize();
        assert_eq!(again["statement"]["destroyed_containers"], 0, "there was nothing to do: {again}");
    }
}

#[test]
fn a_path_is_taken_out_of_all_snapshots_at_once() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.beside("a");
    folder(&top.join("ann/mail"), &[1, 2]);
    folder(&top.join("bob"), &[3, 4]);
    fs::write(top.join("bob/ann.pst"), noise(50, 4000)).expect("a file");
    let first = vault.put("daily", &top);
    folder(&top.join("ann/mail"), &[5]);
    let second = vault.put("daily", &top);
    vault.put("bob", &top.join("bob"));
    let args = ["--path", "**/ann", "--path", "*.pst"];
    let dry = vault.json("forget", &[&args[..], &["--dry-run"]].concat());
    assert_eq!((dry["files"].as_u64(), numbers(&dry).len()), (Some(2 + 1 + 3 + 1 + 1), 3), "{dry}");
    assert_eq!(vault.owed(), 0, "a dry run does nothing");
    vault.json("hold", &[&first, "--name", "case 5"]);
    vault.assert_refused("forget", &args, "is held (\"case 5\")");
    assert_eq!(vault.owed(), 0, "what is refused is not begun");
    for args in [&["--path", "no such"][..], &["--path", "no such", "--dry-run"], &["0", "--path", "no such"]]
    {
        let said = vault.findings("forget", args);
        assert_eq!((&said["files"], said["forgets"].as_array().map(Vec::len)), (&Value::from(0), Some(0)));
    }
    assert_eq!(vault.owed(), 0, "no receipt claims anything for it");
    vault.json("release", &["--name", "case 5"]);
    vault.sanitize();
    assert!(vault.count(&noise(5, 64)) > 0, "nothing was forgotten yet");
    let forgotten = vault.json("forget", &args);
    assert_eq!((forgotten["files"].as_u64(), numbers(&forgotten).len()), (Some(8), 3));
    let receipt = vault.sanitize();
    assert_eq!(receipt["statement"]["receipts"].as_array().map(Vec::len), Some(3), "{receipt}");
    for seed in [1, 2, 5, 50] {
        assert_eq!(vault.count(&noise(seed, 64)), 0);
    }
    assert_eq!(vault.count(b"ann.pst"), 0);
    fs::remove_file(top.join("bob/ann.pst")).expect("a file");
    for snapshot in [&first, &second] {
        let (_into, there) = vault.get(snapshot, &top);
        assert!(!there.join("ann").exists());
        assert_same(&top.join("bob"), &there.join("bob"));
    }
    assert_eq!(vault.json("list", &[])["snapshots"][0]["files"], 2, "what a list says has changed too");
}

#[test]
fn a_pattern_that_matches_nothing_is_named_also_beside_others() {
    let vault = Vault::new(&[]);
    let top = vault.beside("a");
    folder(&top.join("ann/mail"), &[1]);
    folder(&top.join("bob"), &[2]);
    vault.json("put", &["daily", "a"]);
    let forget = |args: &[&str]| {
        let output = vault.run("forget", args);
        (output.status.code(), report(&output)["unmatched_paths"].clone())
    };
    // What lies below a path that is taken out is matched, too.
    let covered = ["--path", "a/ann", "--path", "a/ann/mail/*", "--dry-run"];
    assert_eq!(forget(&covered), (Some(0), serde_json::json!([])));
    let args = ["--path", "a/ann", "--path", "a/anne/mail", "--path", "*.pst"];
    let unmatched = serde_json::json!(["a/anne/mail", "*.pst"]);
    assert_eq!(forget(&[&args[..], &["--dry-run"]].concat()), (Some(3), unmatched.clone()));
    let output = vault.command_plain("forget").args(args).output().expect("it runs");
    let said = told(&output);
    assert_eq!(output.status.code(), Some(3), "what was meant may still be there: {said}");
    assert!(said.starts_with("1 files (") && said.contains("forgotten in 1 snapshots"), "{said}");
    assert!(
        said.contains("NOTHING MATCHED --path \"a/anne/mail\"\nNOTHING MATCHED --path \"*.pst\"\n"),
        "{said}"
    );
    assert_eq!(forget(&args), (Some(3), serde_json::json!(["a/ann", "a/anne/mail", "*.pst"])), "it is gone");
}

#[test]
fn rules_thin_each_series_by_itself() {
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1]);
    for name in ["one", "two", "one", "two", "one"] {
        vault.put(name, &top);
    }
    let text = |args: &[&str]| vault.json("forget", args);
    assert_eq!(numbers(&text(&["--keep-last", "1", "--dry-run"])), [0, 1, 2]);
    assert_eq!(numbers(&text(&["--keep-daily", "7", "--name", "one"])), [0, 2], "all are of one day");
    vault.json("hold", &["1", "--name", "law", "--why", "a court asked"]);
    assert_eq!(numbers(&text(&["--keep-last", "1"])), [0; 0], "what is held is kept");
    vault.json("release", &["--name", "law"]);
    assert_eq!(numbers(&text(&["--keep-last", "1"])), [1]);
    assert_eq!(numbers(&vault.json("list", &[])), [3, 4]);
    let log = fs::read_to_string(vault.path().join("audit.jsonl")).expect("a log");
    for part in
        ["\"event\":\"held\"", "a court asked", "\"event\":\"released\"", "\"event\":\"forgets\"", "uid "]
    {
        assert!(log.contains(part), "{part}: {log}");
    }
}

#[test]
fn what_would_forget_too_much_is_refused() {
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1]);
    (0..2).for_each(|_| drop(vault.put("daily", &top)));
    vault.json("hold", &["0", "--name", "law"]);
    for (command, args, why) in [
        ("forget", &["daily"][..], "snapshots 0, 1 have the name \"daily\""),
        ("forget", &["0"], "snapshot 0 is held (\"law\")"),
        ("forget", &["1", "0"], "snapshot 0 is held (\"law\")"),
        ("forget", &["--keep-last", "0"], "the rules keep nothing"),
        ("forget", &["--path", "/"], "--path \"/\" is not a valid pattern"),
        ("release", &["--name", "other"], "unknown hold \"other\""),
        ("hold", &["9", "--name", "law"], "unknown snapshot 9"),
        ("hold", &["0", "--name", ""], "the name of a hold has 0 bytes"),
    ] {
        vault.assert_refused(command, args, why);
    }
    assert_eq!(numbers(&vault.json("list", &[])), [0, 1], "all of them or none");
}

#[test]
fn a_check_says_the_result_the_time_the_policy_and_whose_the_key_is_and_refuses_what_was_changed() {
    let vault = Vault::new(&[]);
    vault.folder("a", &[1, 2]);
    vault.json("put", &["some", "a"]);
    vault.json("forget", &["some"]);
    vault.json("sanitize", &["--dry-run", "-o", "dry.json"]);
    vault.run("prove", &["-o", "waiting.json"]);
    vault.json("sanitize", &["-o", "sanitized.json", "--read-only", "--share", "50%"]);
    vault.json("prove", &["-o", "clean.json"]);
    let check = |name: &str, key: &[&str]| {
        let mut quietus = quietus();
        quietus.args(["vault", "prove", "--check", name]).args(key).current_dir(vault.dir.path());
        let output = quietus.output().expect("it runs");
        (output.status.code(), told(&output).lines().map(str::to_owned).collect::<Vec<_>>())
    };
    for (name, status, result) in [
        ("dry.json", 3, "result       nothing was destroyed: a dry run"),
        (
            "waiting.json",
            3,
            "result       NOT gone: 3 places hold content of no snapshot; run `quietus vault sanitize`",
        ),
        ("sanitized.json", 0, "result       gone"),
        ("clean.json", 0, "result       gone"),
    ] {
        for (key, said) in [
            (&[][..], "signed       self-signed, by a key that was not checked: "),
            (&["--key", "vault/key.pub"], "signed       the signature is valid, by the given key "),
        ] {
            let (code, lines) = check(name, key);
            assert_eq!(code, Some(status), "{name}: {lines:?}");
            assert!(lines[0].starts_with(result), "{name}: {lines:?}");
            assert!(lines[1].starts_with("time         20") && lines[1].ends_with('Z'), "{name}: {lines:?}");
            assert_eq!(lines[2], "policy       clear", "{name}");
            assert!(lines[3].starts_with(said), "{name}: {lines:?}");
        }
    }
    let said = check("clean.json", &[]).1.join("\n");
    assert!(said.contains("get `key.pub` from the vault's owner, and give it with --key"), "{said}");
    assert!(check("clean.json", &[]).1[0].ends_with(": the medium holds only content of snapshots"));
    assert!(check("sanitized.json", &[]).1[0].ends_with(": nothing is left of 1 forgets"));
    for name in ["sanitized.json", "clean.json"] {
        let signed = fs::read_to_string(vault.beside(name)).expect("a file");
        let changed = signed.replacen("\"policy\": \"clear\"", "\"policy\": \"dod-3\"", 1);
        fs::write(vault.beside(name), changed).expect("a file");
        assert_eq!(check(name, &["--key", "vault/key.pub"]).0, Some(1), "{name} was changed");
    }
}
