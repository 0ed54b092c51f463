//! Vaults that can only be read: all that does not write is done as ever, and nothing is written.

use crate::cli::read_only::View;
use crate::program::{error, quietus, tree};
use crate::schemas::all_valid;
use crate::vault::program::{Vault, assert_same, folder};
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

/// A vault with two snapshots, `a` of which is forgotten in part; its audit log has lines that the next start would add to.
fn filled() -> (Vault, PathBuf) {
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1, 2, 3]);
    vault.json("put", &["daily", "a"]);
    folder(&top, &[4]);
    vault.json("put", &["daily", "a"]);
    vault.json("forget", &["0"]);
    vault.json("put", &["daily", "a"]);
    (vault, top)
}

/// Reads the vault at `path` in every way, and tries to write to it.
fn read_all(vault: &Vault, path: &Path, top: &Path, quietus: &dyn Fn() -> Command) {
    let run = |command: &str, args: &[&str]| -> Output {
        let mut quietus = quietus();
        quietus.args(["--json", "vault", command]).arg(path).args(args).current_dir(vault.dir.path());
        quietus.output().expect("it runs")
    };
    for (command, args) in [
        ("list", &[][..]),
        ("list", &["daily", "a"]),
        ("status", &[]),
        ("stats", &[]),
        ("verify", &[]),
        ("find", &["file*"]),
        ("diff", &["1", "2"]),
        ("cat", &["2", "a/file 4"]),
        ("get", &["daily", "--into", "out/back"]),
        ("get", &["daily", "--tar", "out/back.tar"]),
        ("forget", &["1", "--dry-run"]),
    ] {
        let output = run(command, args);
        assert!(output.status.success() && output.stderr.is_empty(), "{command}: {output:?}");
        if command != "cat" {
            all_valid(&output.stdout);
        }
    }
    assert_same(top, &vault.beside("out/back/a"));
    fs::remove_dir_all(vault.beside("out/back")).expect("a folder");
    fs::remove_file(vault.beside("out/back.tar")).expect("a file");
    for (command, args) in [
        ("put", &["daily", "a"][..]),
        ("forget", &["1"]),
        ("forget", &["--path", "file*"]),
        ("hold", &["1", "--name", "law"]),
        ("sanitize", &[]),
        ("prove", &[]),
    ] {
        let output = run(command, args);
        let (status, said) = error(&output);
        assert!(status == Some(1) && said.contains("is read-only here"), "{command}: {said}");
    }
    // Two at once.
    let output = |mut quietus: Command| {
        quietus.arg("vault").arg("list").arg(path).stdout(Stdio::null()).spawn().expect("it runs")
    };
    let both = [output(quietus()), output(quietus())];
    assert!(both.map(|mut it| it.wait().expect("it ends").success()).iter().all(|it| *it));
}

#[test]
fn a_vault_on_a_read_only_mount_is_read_in_every_way_and_changes_nothing() {
    let (vault, top) = filled();
    fs::create_dir(vault.beside("out")).expect("a folder");
    let before = tree(&vault.path());
    let Some(view) = View::of(&vault.path(), vault.beside("view")) else {
        return eprintln!("skipped: nothing can be mounted here");
    };
    for _ in ["with a lock", "without"] {
        read_all(&vault, &view.0, &top, &quietus);
        fs::remove_file(vault.path().join("lock")).unwrap_or_default();
    }
    let mut after = tree(&vault.path());
    after.insert("lock".into(), before[Path::new("lock")].clone());
    assert!(before == after, "something was written");
    drop(view);
    vault.json("put", &["daily", "a"]);
}

#[test]
fn a_vault_that_this_user_may_only_read_is_read() {
    let (vault, top) = filled();
    let is_root = rustix::process::geteuid().is_root();
    let user = if is_root { 65_534 } else { rustix::process::geteuid().as_raw() };
    fs::create_dir(vault.beside("out")).expect("a folder");
    let before = tree(&vault.path());
    let run = |args: &[&str]| {
        let done = Command::new(args[0]).args(&args[1..]).current_dir(vault.dir.path()).status();
        assert!(done.expect("it runs").success(), "{args:?}");
    };
    if is_root {
        run(&["chown", "-R", &user.to_string(), "."]);
    }
    run(&["chmod", "-R", "a-w", "vault"]);
    read_all(&vault, &vault.path(), &top, &|| {
        let mut quietus = quietus();
        if is_root {
            quietus.uid(user);
        }
        quietus
    });
    run(&["chmod", "-R", "u+w", "vault"]);
    assert!(before == tree(&vault.path()), "something was written");
}
