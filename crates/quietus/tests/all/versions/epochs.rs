//! How epochs are named, found by date, and held, whatever was forgotten, and whatever the clock and the files did.

use crate::program::{Disk, error, quietus, told};
use crate::versions::served::Bench;
use serde_json::json;

#[test]
fn an_epoch_that_is_asked_for_after_the_last_one_was_forgotten_has_the_current_state() {
    let bench = Bench::manual();
    let _server = bench.serve();
    bench.write(0, 1);
    assert_eq!(bench.close(&[]).0, 1);
    bench.forget("1");
    assert_eq!(bench.close(&["--name", "x"]), (2, Some("x".into())));
    assert_eq!((bench.kept(), bench.byte("@x", 0)), (vec![2], 1));
    // The last epoch is kept: no other one is made.
    assert_eq!(bench.close(&[]), (2, Some("x".into())));
    bench.forget("x");
    assert_eq!(bench.close(&[]), (3, None));
}

#[test]
fn a_restore_keeps_the_state_before_though_its_epoch_was_forgotten() {
    let bench = Bench::manual();
    let _server = bench.serve();
    for byte in [1, 2] {
        bench.write(0, byte);
        bench.disk.json("epoch", &[]);
    }
    bench.forget("2");
    assert_eq!(bench.json_at("restore", "1", &["--key-file", &bench.key])["before"], 3);
    assert_eq!([bench.byte("", 0), bench.byte("@3", 0), bench.byte("@1", 0)], [1, 2, 1]);
}

#[test]
fn a_disk_whose_name_a_client_could_take_for_an_epoch_is_not_served() {
    let disk = Disk::new(&["--size", "1M"]);
    let renamed = disk.beside("vm@17");
    std::fs::rename(disk.path(), &renamed).expect("it is ours");
    let (code, error) = error(&quietus().arg("serve").arg(renamed).output().expect("it runs"));
    assert!(code == Some(1) && error.contains("DISK@EPOCH; rename the directory"), "{error}");
}

#[test]
fn the_ends_of_a_range_are_bounds_and_may_be_forgotten_or_left_out() {
    let bench = Bench::manual();
    let _server = bench.serve();
    bench.fill(8);
    bench.forget("3");
    assert_eq!((bench.forget("2..3"), bench.forget("2..4")), ((2, 2), (4, 4)));
    for (at, status, why) in [
        ("2..4", 3, "no epoch from 2 to 4 is kept: they are forgotten"),
        ("5..9", 1, "epoch 9 has not closed yet"),
        ("6..5", 1, "name the earlier one first"),
    ] {
        bench.assert_refused("forget", at, &[], status, why);
    }
    assert_eq!([bench.byte("@first", 0), bench.byte("@last", 0)], [1, 8]);
    let dry = bench.json_at("forget", "6..", &["--dry-run"]);
    assert_eq!((&dry["from"], &dry["to"], &dry["epochs"]), (&json!(6), &json!(8), &json!(3)));
    let held = bench.hold("7..", "case")["holds"]["case"].clone();
    assert_eq!((&held["from"], &held["to"]), (&json!(7), &json!(8)));
    bench.disk.json("release", &["case"]);
    assert_eq!(["last", "6..", ".."].map(|at| bench.forget(at)), [(8, 8), (6, 7), (1, 5)]);
    bench.assert_refused("forget", "last", &[], 1, "no epoch is kept");
}

#[test]
fn the_headings_of_versions_stand_above_their_columns() {
    let bench = Bench::manual();
    let _server = bench.serve();
    bench.fill(2);
    bench.disk.json("epoch", &["--name", "x"]);
    let shown = bench.disk.shown("versions", &["--unique"]);
    let lines: Vec<&str> = shown.lines().collect();
    let column = |line: &str, word: &str| line.find(word).expect(word);
    assert_eq!(lines.len(), 3, "{shown}");
    for line in &lines[1..] {
        assert_eq!(column(lines[0], "closed"), column(line, "20"), "{shown}");
        let end = column(lines[0], "unique") + "unique".len();
        assert!(line[end - 1..].starts_with('B') && !line[end..].starts_with(|it| it != ' '), "{shown}");
    }
    assert_eq!(column(lines[0], "epoch") + "epoch".len(), column(lines[1], "1 ") + 1, "{shown}");
    assert_eq!(column(lines[0], "name"), column(lines[2], "x"), "{shown}");
}

#[test]
fn a_lost_file_of_names_and_holds_is_made_anew_from_the_audit_log_and_nothing_expires() {
    let bench = Bench::manual();
    let server = bench.serve();
    bench.fill(3);
    bench.disk.json("epoch", &["--name", "kept"]);
    bench.hold("1..2", "case");
    let file = bench.disk.path().join("epochs.json");
    // While the disk is served: what was there is known.
    std::fs::remove_file(&file).expect("it is there");
    assert_eq!(bench.disk.json("status", &[])["epochs"]["holds"]["case"]["who"], "legal");
    assert!(std::fs::read_to_string(&file).expect("it is written again").contains("subpoena"));
    let older = std::fs::read(&file).expect("a file");
    drop(server);
    std::fs::remove_file(&file).expect("it is there");
    let verified = bench.disk.run("verify", &[]);
    let text = told(&verified);
    assert!(verified.status.code() == Some(3) && text.contains("missing: the next start"), "{text}");
    assert!(!file.exists(), "a command that only looks writes nothing");
    let server = bench.serve();
    bench.assert_refused("forget", "1", &[], 1, r#"held by "case""#);
    assert_eq!((bench.byte("@kept", 0), bench.disk.json("verify", &[])["ok"].clone()), (3, json!(true)));
    let stopped = bench.disk.json("status", &[])["epochs"]["stopped"].clone();
    assert!(stopped.as_str().is_some_and(|it| it.contains("was missing, and was made anew")), "{stopped}");
    // An older file would lose what came since.
    bench.hold("3", "later");
    drop(server);
    std::fs::write(&file, older).expect("a write");
    let verified = bench.disk.run("verify", &[]);
    let (text, missing) = (told(&verified), r#"has the hold \"later\" on epochs 3 to 3"#);
    assert!(verified.status.code() == Some(3) && text.contains(missing), "{text}");
    // Holds are not known any more when the log is gone as well.
    std::fs::remove_file(&file).expect("it is there");
    std::fs::remove_file(bench.disk.path().join("audit.jsonl")).expect("it is there");
    let lost = "holds would be lost; restore the file";
    bench.disk.assert_refused("serve", &["--key-file", &bench.key], 1, lost);
    std::fs::write(&file, "{}").expect("a write");
    let _server = bench.serve();
    assert_eq!(bench.byte("@3", 0), 3);
}
