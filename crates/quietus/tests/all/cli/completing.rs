//! Completion, as a shell asks for it: the program itself says what fits, opens nothing for that, and answers at once.

use crate::program::{Disk, private, quietus, succeeds, terminal, text, told};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::SystemTime;

/// The candidates for the last one of `words`. They come at once: 124 would be the status else.
fn candidates(dir: &Path, words: &[&str]) -> Vec<String> {
    let mut quietus = Command::new("timeout");
    quietus.args(["30", env!("CARGO_BIN_EXE_quietus"), "--", "quietus"]).args(words).current_dir(dir);
    quietus.env("COMPLETE", "bash").env("_CLAP_IFS", "\n");
    quietus.env("_CLAP_COMPLETE_INDEX", words.len().to_string());
    let output = quietus.stdin(Stdio::null()).output().expect("it runs");
    assert!(output.status.success() && output.stderr.is_empty(), "{words:?}: {output:?}");
    told(&output).lines().map(Into::into).collect()
}

/// All files below `dir`, and when each was changed.
fn files(dir: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let entries = std::fs::read_dir(dir).expect("a directory").flatten();
    entries.map(|it| (it.path(), it.metadata().expect("a file").modified().expect("a time"))).collect()
}

/// A disk that keeps versions, with an epoch `before-upgrade`. A person would be asked for its passphrase.
fn versions() -> (Disk, PathBuf) {
    let dir = tempfile::tempdir().expect("a directory");
    let [phrase, image] = ["phrase", "image"].map(|name| dir.path().join(name));
    private(&phrase, b"correct horse battery staple");
    std::fs::write(&image, vec![7; 1 << 20]).expect("an image");
    let keys = ["--passphrase-file", text(&phrase)];
    let args = ["--from", text(&image), "--store", "versions", "--epoch", "manual"];
    let disk = Disk::made(dir, &[&args[..], &keys].concat());
    let server = disk.serve(&keys);
    disk.json("epoch", &["--name", "before-upgrade"]);
    drop(server);
    (disk, phrase)
}

#[test]
fn policies_and_commands_are_completed() {
    let dir = tempfile::tempdir().expect("a directory");
    let found = |words: &[&str]| candidates(dir.path(), words);
    assert_eq!(found(&["create", "d", "--policy", "d"]), ["dod-3"]);
    assert_eq!(found(&["create", "d", "--policy", ""]).iter().filter(|it| !it.starts_with("--")).count(), 6);
    assert_eq!(found(&["vault", "init", "v", "--policy", "pur"]), ["purge-2"]);
    assert_eq!(found(&["doc"]), ["doctor"]);
    assert_eq!(found(&["doctor", "--ro"]), ["--root"]);
    std::fs::write(dir.path().join("mine.root"), "").expect("a file");
    for command in [&["create", "d"][..], &["doctor"]] {
        let roots = |begun| found(&[command, &["--root", begun]].concat());
        assert_eq!(roots("m"), ["mine.root", "memory"], "{command:?}");
        assert_eq!(roots("./m"), ["./mine.root"], "{command:?}");
    }
}

#[test]
fn epochs_of_a_disk_are_completed_and_it_is_left_alone_and_by_number_too_where_it_is_served() {
    let (disk, phrase) = versions();
    let before = files(&disk.path());
    let found = |words: &[&str]| candidates(disk.dir.path(), words);
    assert_eq!(found(&["forget", "disk@b"]), ["disk@before-upgrade"]);
    assert_eq!(found(&["forget", "disk@"]), ["disk@before-upgrade"]);
    assert_eq!(found(&["hold", "disk@..b"]), ["disk@..before-upgrade"]);
    for command in ["diff", "restore", "export"] {
        assert_eq!(found(&[command, "disk@bef"]), ["disk@before-upgrade"], "{command}");
    }
    assert_eq!(found(&["forget", "disk@x"]), [""; 0]);
    assert_eq!(found(&["forget", "nope@"]), [""; 0]);
    assert_eq!(found(&["forget", "di"]), ["disk/"], "before the @ it is a directory");
    assert_eq!(files(&disk.path()), before, "nothing was made or written");
    let _server = disk.serve(&["--passphrase-file", text(&phrase)]);
    assert_eq!(found(&["forget", "disk@"]), ["disk@before-upgrade", "disk@1"]);
    assert_eq!(found(&["forget", "disk@1..1"]), ["disk@1..1"]);
}

#[test]
fn a_server_that_says_nothing_is_not_waited_for() {
    let (disk, _) = versions();
    let socket = disk.path().join("control.sock");
    // The server was killed.
    std::fs::remove_file(&socket).expect("a socket");
    let silent = UnixListener::bind(&socket).expect("a socket");
    assert_eq!(candidates(disk.dir.path(), &["forget", "disk@"]), [""; 0]);
    drop(silent);
    // A file of names that never ends.
    std::fs::remove_file(disk.path().join("epochs.json")).expect("a file");
    std::os::unix::fs::symlink("/dev/zero", disk.path().join("epochs.json")).expect("a link");
    assert_eq!(candidates(disk.dir.path(), &["forget", "disk@"]), [""; 0]);
}

#[test]
fn snapshots_of_a_vault_are_completed_and_it_is_left_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(dir.path().join("file"), "content").expect("a file");
    for line in [
        "init vault --size 64M --container 128K",
        "put vault daily file",
        "put vault daily file",
        "put vault weekly file",
        "put vault no*word file",
    ] {
        succeeds(quietus().arg("vault").args(line.split(' ')).current_dir(dir.path()));
    }
    let vault = dir.path().join("vault");
    let before = files(&vault);
    // An empty word could also become an option.
    let found = |words: &[&str]| {
        let mut all = candidates(dir.path(), words);
        all.retain(|it| !it.starts_with("--"));
        all
    };
    for command in ["get", "cat", "list", "forget", "hold", "diff"] {
        assert_eq!(
            found(&["vault", command, "vault", ""]),
            ["daily", "weekly", "0", "1", "2", "3"],
            "{command}"
        );
    }
    assert_eq!(found(&["vault", "diff", "vault", "1", "w"]), ["weekly"]);
    assert_eq!(found(&["vault", "mount", "vault", "/mnt", "--snapshot", "d"]), ["daily"]);
    assert_eq!(found(&["vault", "get", "nope", ""]), [""; 0]);
    assert_eq!(files(&vault), before, "nothing was made or written");
}

/// The path of programs, with ours.
fn path() -> String {
    let own = Path::new(env!("CARGO_BIN_EXE_quietus")).parent().expect("a directory");
    format!("{}:{}", own.display(), std::env::var("PATH").unwrap_or_default())
}

/// What bash makes of `typed`, which has Tabs: all that it shows until `end`, or until it is clear that this will not come.
fn typed_to_bash(dir: &Path, typed: &str, end: &str) -> String {
    let (mut person, other) = terminal();
    let mut bash = Command::new("timeout");
    bash.args(["--foreground", "60", "bash", "--norc", "--noprofile", "-i"]).current_dir(dir);
    bash.env("PATH", path()).env("PS1", "").env("TERM", "dumb").env("INPUTRC", "/dev/null");
    let mut child = bash.stdin(other()).stdout(other()).stderr(other()).spawn().expect("it runs");
    drop(bash);
    let mut shown = String::new();
    for (keys, end) in [("source <(quietus completions bash); echo re''ady\n", "ready"), (typed, end)] {
        person.write_all(keys.as_bytes()).expect("keys");
        let mut byte = [0];
        // The terminal closes when bash has ended.
        while !shown.contains(end) && person.read(&mut byte).is_ok_and(|read| read > 0) {
            shown.push(byte[0].into());
        }
    }
    let _ = child.kill();
    child.wait().expect("it ends");
    shown
}

#[test]
fn a_person_who_presses_tab_in_bash_gets_the_epoch_behind_the_at() {
    if Command::new("bash").arg("--version").output().is_err() {
        return println!("skipped: there is no bash");
    }
    let (disk, _) = versions();
    for (typed, end) in [
        ("echo x; quietus forget disk@b\t--dry-run", "quietus forget disk@before-upgrade --dry-run"),
        ("quietus hold disk@..b\t--why=x", "quietus hold disk@..before-upgrade --why=x"),
        ("quietus create d --policy=do\t--size", "quietus create d --policy=dod-3 --size"),
    ] {
        let shown = typed_to_bash(disk.dir.path(), typed, end);
        assert!(shown.contains(end), "{typed:?}: {shown:?}");
    }
}
