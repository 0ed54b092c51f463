//! Paths are found in all snapshots, and two snapshots are compared.

use crate::schemas::all_valid;
use crate::vault::program::{Vault, folder, noise};
use serde_json::Value;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::time::{Duration, UNIX_EPOCH};

/// The lines that a command answers, and its exit status.
fn lines(vault: &Vault, command: &str, args: &[&str]) -> (Vec<Value>, i32) {
    let output = vault.run(command, args);
    (all_valid(&output.stdout), output.status.code().expect("no signal"))
}

/// The paths of a find below `top`, each with its size and snapshots; and the last line.
fn found(vault: &Vault, top: &Path, pattern: &str) -> (Vec<(String, u64, String)>, Value, i32) {
    let (mut lines, status) = lines(vault, "find", &[pattern]);
    let last = lines.pop().expect("a last line");
    let about =
        |it: &Value| (inside(top, it), it["bytes"].as_u64().expect("a size"), it["snapshots"].to_string());
    (lines.iter().map(about).collect(), last, status)
}

/// Where an entry is, from `top` on.
fn inside(top: &Path, entry: &Value) -> String {
    let path = Path::new("/").join(entry["path"].as_str().expect("a path"));
    path.strip_prefix(top).expect("below it").to_str().expect("text").into()
}

fn write(path: &Path, content: &[u8]) {
    fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
    fs::write(path, content).expect("a file");
}

#[test]
fn each_version_of_a_path_is_found_with_the_snapshots_that_have_it() {
    let vault = Vault::new(&[]);
    let top = vault.beside("tree");
    write(&top.join("mail/ann.pst"), b"one");
    write(&top.join("old/deep/bob.pst"), b"three");
    write(&top.join("ann.txt"), b"no mail");
    vault.put("daily", &top);
    // Time of the folder aside, everything else is the same here.
    write(&top.join("new"), b"x");
    vault.put("daily", &top);
    write(&top.join("mail/ann.pst"), b"another one");
    fs::remove_dir_all(top.join("old")).expect("a folder");
    vault.put("daily", &top);
    let (all, last, status) = found(&vault, &top, "*.pst");
    let expected =
        [("mail/ann.pst", 3, "[0,1]"), ("mail/ann.pst", 11, "[2]"), ("old/deep/bob.pst", 5, "[0,1]")];
    assert_eq!(all, expected.map(|(path, bytes, all)| (path.into(), bytes, all.into())));
    assert_eq!((last["found"].as_u64(), last["searched"].as_u64(), status), (Some(3), Some(3), 0));
    let (all, _, _) = found(&vault, &top, "**/old/*/*");
    assert_eq!(all, [("old/deep/bob.pst".into(), 5, "[0,1]".into())]);
    assert_eq!(found(&vault, &top, "*.doc").0, []);
    assert!(vault.refused("find", &["["]).contains("the pattern \"[\" is not a valid pattern"));
}

#[test]
fn a_time_before_1970_and_a_name_that_is_not_text_are_told() {
    let vault = Vault::new(&[]);
    let top = vault.beside("tree");
    let path = top.join(OsStr::from_bytes(b"no \xff text"));
    write(&path, b"old");
    let file = fs::File::open(&path).expect("a file");
    let before = UNIX_EPOCH - Duration::new(2, 1);
    file.set_modified(before).expect("a time");
    vault.json("put", &["daily", "tree"]);
    let (found, _) = lines(&vault, "find", &["no*"]);
    let (listed, _) = lines(&vault, "list", &["daily", "tree"]);
    vault.folder("other", &[1]);
    vault.json("put", &["other", "other"]);
    let (compared, _) = lines(&vault, "diff", &["daily", "other"]);
    let removed = compared.iter().find(|it| it["path"] == "tree/no \u{fffd} text").expect("it is told");
    for entry in [&found[0], &listed[1]] {
        assert_eq!(entry["path"], "tree/no \u{fffd} text");
        assert_eq!(entry["modified"], "1969-12-31T23:59:57.999999999Z");
    }
    assert_eq!(removed["before"]["modified"], "1969-12-31T23:59:57.999999999Z");
    assert!(vault.plain("find", &["no*"]).contains(" 1969-12-31T23:59:57.999Z "));
}

#[test]
fn what_differs_is_told_and_what_moved_in_time_alone_too() {
    let vault = Vault::new(&[]);
    let top = vault.beside("tree");
    folder(&top.join("same/deep"), &[1, 2, 3]);
    for name in ["content", "mode", "time", "gone/a/b", "kind"] {
        write(&top.join(name), &noise(7, 100_000));
    }
    symlink("here", top.join("link")).expect("a link");
    let set = |name: &str, mode| fs::set_permissions(top.join(name), fs::Permissions::from_mode(mode));
    set("same", 0o755).and(set("mode", 0o644)).expect("a mode");
    let one = vault.put("one", &top);
    let edited = fs::File::options().write(true).open(top.join("content")).expect("a file");
    edited.write_all_at(b"?", 50_000).expect("a write");
    set("same", 0o700).and(set("mode", 0o600)).expect("a mode");
    let time = fs::File::open(top.join("time")).expect("a file");
    time.set_modified(std::time::SystemTime::UNIX_EPOCH).expect("a time");
    fs::remove_dir_all(top.join("gone")).and(fs::remove_file(top.join("kind"))).expect("they go");
    fs::remove_file(top.join("link")).expect("it goes");
    symlink("there", top.join("link")).expect("a link");
    write(&top.join("kind/new"), b"");
    let other = vault.put("other", &top);
    let (mut all, status) = lines(&vault, "diff", &["one", "other"]);
    let last = all.pop().expect("a last line");
    let told = all.iter().map(|it| {
        let what = it["what"].as_array().expect("a list").iter().map(|it| it.as_str().expect("text"));
        let what = what.filter(|it| *it != "attributes").collect::<Vec<_>>().join(", ");
        format!("{} {}: {what}", it["change"].as_str().expect("text"), inside(&top, it))
    });
    let expected = [
        "changed content: content, time",
        "removed gone: ",
        "removed gone/a: ",
        "removed gone/a/b: ",
        "changed kind: kind, mode, time",
        "added kind/new: ",
        "changed link: target, time",
        "changed mode: mode",
        "changed same: mode",
        "changed time: time",
    ];
    assert_eq!(told.collect::<Vec<_>>(), expected);
    let counts = ["added", "removed", "changed"].map(|name| last[name].as_u64().expect("a count"));
    assert_eq!((counts, status), ([1, 3, 6], 0));
    assert_eq!(lines(&vault, "diff", &[&one, &one]).0.len(), 1, "a snapshot differs from itself");
    assert_eq!(lines(&vault, "diff", &[&other, &one]).0.last().expect("a line")["added"], 3);
    assert!(vault.refused("diff", &["one", "nothing"]).contains("unknown snapshot \"nothing\""));
}

#[test]
fn damage_is_named_and_a_folder_that_both_have_is_not_even_read() {
    let vault = Vault::new(&["--compress", "none"]);
    let top = vault.beside("tree");
    write(&top.join("same/a name like no other"), b"a");
    write(&top.join("changes"), b"a");
    vault.put("one", &top);
    write(&top.join("changes"), b"another");
    vault.put("other", &top);
    assert_eq!(vault.count(b"a name like no other"), 1);
    vault.damage(b"a name like no other", 0);
    let (all, status) = lines(&vault, "diff", &["one", "other"]);
    assert_eq!((inside(&top, &all[0]), all.len(), status), ("changes".into(), 2, 0));
    let (all, last, status) = found(&vault, &top, "changes");
    assert_eq!((all.len(), status), (2, 3));
    let unread = last["unread"].to_string();
    assert!(unread.contains("tree/same of snapshot 0, 1: ") && unread.contains("checksum"), "{unread}");
}
