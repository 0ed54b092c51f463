//! What of the host is put, under which label, and which snapshots are meant.

use crate::program::{error, text, told};
use crate::schemas::all_valid;
use crate::vault::program::{Vault, folder, noise, numbers};
use serde_json::{Value, json};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The paths that a snapshot has below the folder `top`, or below `a` if that was put as a relative path.
fn listed(vault: &Vault, snapshot: &str) -> Vec<String> {
    let output = vault.run("list", &[snapshot]);
    let path = |line: Value| {
        let path = line["path"].as_str().expect("a path").to_owned();
        format!("/{path}").rsplit_once("/a/").map(|(_, inside)| inside.to_owned())
    };
    all_valid(&output.stdout).into_iter().filter_map(path).collect()
}

fn tree(vault: &Vault) -> PathBuf {
    let top = vault.beside("a");
    folder(&top.join("keep"), &[1]);
    folder(&top.join("tmp"), &[2]);
    top
}

#[test]
fn an_exclude_is_of_a_path_however_that_and_the_source_are_named() {
    let vault = Vault::new(&[]);
    let top = tree(&vault);
    let absolute = top.join("tmp");
    for source in ["a", "./a", text(&top)] {
        for exclude in ["a/tmp", "./a/tmp", text(&absolute), "tmp", "a/t*"] {
            let put = vault.json("put", &["some", source, "--exclude", exclude]);
            assert_eq!(listed(&vault, "some"), ["keep", "keep/file 1"], "{source} without {exclude}");
            assert_eq!(put["unmatched_excludes"], Value::Array(Vec::new()), "{source} without {exclude}");
        }
    }
    let wrong = "/a/tmp/";
    let put = vault.json("put", &["some", text(&top), "--exclude", wrong, "--exclude", "keep"]);
    assert_eq!(put["unmatched_excludes"], json!([wrong]));
    let shown = vault.plain("put", &["some", text(&top), "--exclude", wrong]);
    assert!(shown.contains("note: --exclude \"/a/tmp/\" matched nothing"), "{shown}");
}

#[test]
fn patterns_come_from_files_too() {
    let vault = Vault::new(&[]);
    let top = tree(&vault);
    let list = vault.beside("list");
    fs::write(&list, "# what is not kept\n\ntmp\n*.never\n").expect("a file");
    let put = vault.json("put", &["some", text(&top), "--exclude-from", "list"]);
    assert_eq!(listed(&vault, "some"), ["keep", "keep/file 1"]);
    assert_eq!(put["unmatched_excludes"], json!(["*.never"]));
    fs::write(&list, "ok\n[bad\n").expect("a file");
    for (name, why) in [("list", "--exclude-from list: line 2: \"[bad\""), ("missing", "missing")] {
        vault.assert_refused("put", &["some", text(&top), "--exclude-from", name], why);
    }
}

#[test]
fn caches_and_other_file_systems_are_left_out_if_asked() {
    let vault = Vault::new(&[]);
    let top = tree(&vault);
    fs::write(top.join("tmp/CACHEDIR.TAG"), "Signature: 8a477f597d28d172789f06886806bc55\n# x\n")
        .expect("a file");
    fs::write(top.join("keep/CACHEDIR.TAG"), "no signature").expect("a file");
    vault.json("put", &["some", text(&top), "--exclude-caches"]);
    let expected = ["keep", "keep/CACHEDIR.TAG", "keep/file 1", "tmp", "tmp/CACHEDIR.TAG"];
    assert_eq!(listed(&vault, "some"), expected);
    vault.json("put", &["all", text(&top)]);
    assert_eq!(listed(&vault, "all").len(), expected.len() + 1);
    // `/dev/shm`, where it is, is another file system than `/dev`.
    let device = |path: &str| fs::metadata(path).map(|it| it.dev()).ok();
    if device("/dev/shm").is_some() && device("/dev/shm") != device("/dev") {
        let name = format!("quietus-{}", std::process::id());
        let below = Path::new("/dev/shm").join(&name);
        fs::write(&below, b"x").expect("a file");
        let has = |args: &[&str]| {
            // What `/dev` has beside that need not be readable.
            vault.run("put", &[&["dev", "/dev", "--exclude", "/dev/[!s]*"], args].concat());
            let list = told(&vault.run("list", &["dev"]));
            assert!(list.contains("\"dev/shm\""), "{list}");
            list.contains(&name)
        };
        let found = (has(&[]), has(&["--one-file-system"]));
        fs::remove_file(below).expect("it goes");
        assert_eq!(found, (true, false));
    }
}

#[test]
fn a_file_without_a_length_is_read_to_its_end() {
    let vault = Vault::new(&[]);
    let files = ["/proc/version", "/proc/filesystems", "/sys/kernel/mm/transparent_hugepage/enabled"];
    for path in files.into_iter().filter(|path| Path::new(path).exists()) {
        let put = vault.json("put", &["kernel", path]);
        assert_eq!(put["left_out_count"], 0, "{put}");
        let shown = told(&vault.run("cat", &["kernel", path]));
        assert_eq!(shown, fs::read_to_string(path).expect("text"), "{path}");
    }
}

#[test]
fn folders_are_listed_as_folders_and_a_refusal_is_printed_once() {
    let vault = Vault::new(&[]);
    tree(&vault);
    vault.json("put", &["some", "a"]);
    let list = vault.plain("list", &["some", "a/keep"]);
    let is_line = |line: &str, kind: &str, path: &str| line.starts_with(kind) && line.ends_with(path);
    let lines: Vec<&str> = list.lines().collect();
    assert!(is_line(lines[0], "d ", " a/keep/") && is_line(lines[1], "- ", " a/keep/file 1"), "{list}");
    let found = vault.plain("find", &["keep"]);
    assert!(found.starts_with("d ") && found.contains(" a/keep/  (in 0)"), "{found}");

    let output = vault.command_plain("put").args(["some", "a", "/proc/self/mem"]).output().expect("it runs");
    let (status, all) = error(&output);
    let all = told(&output) + &all;
    assert_eq!(status, Some(3), "{all}");
    assert_eq!(all.matches("/proc/self/mem").count(), 1, "{all}");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_told_of() {
    let vault = Vault::new(&[]);
    let top = vault.folder("a", &[1]);
    let growing = top.join("growing");
    fs::write(&growing, noise(7, 30 << 20)).expect("a file");
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let put = std::thread::scope(|scope| {
        scope.spawn(|| {
            use std::io::Write;
            let mut file = fs::File::options().append(true).open(&growing).expect("a file");
            while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                file.write_all(b"x").expect("a write");
                std::thread::sleep(std::time::Duration::from_millis(1));
            }
        });
        let put = vault.json("put", &["some", "a"]);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        put
    });
    assert_eq!((&put["changed"], &put["changed_count"]), (&json!(["a/growing"]), &1.into()), "{put}");
}

#[test]
fn tags_and_hosts_select_snapshots_and_each_host_has_its_own_series() {
    let vault = Vault::new(&[]);
    let top = tree(&vault);
    let put = |args: &[&str]| vault.json("put", &[&["daily", text(&top)], args].concat());
    put(&["--host", "one", "--tag", "full", "--tag", "kept"]);
    put(&["--host", "two", "--tag", "full"]);
    put(&["--host", "two"]);
    let named = put(&[]);
    assert!(named["host"].as_str().is_some_and(|host| !host.is_empty()), "{named}");
    let list = |args: &[&str]| numbers(&vault.json("list", args));
    assert_eq!((list(&["--tag", "full"]), list(&["--tag", "full", "--tag", "kept"])), (vec![0, 1], vec![0]));
    assert_eq!((list(&["--host", "two"]), list(&["--host", "two", "--tag", "full"])), (vec![1, 2], vec![1]));
    assert_eq!((list(&["--name", "weekly"]), list(&["--name", "daily"]).len()), (vec![], 4));
    assert_eq!(vault.json("list", &[])["snapshots"][0]["tags"], json!(["full", "kept"]));
    // The last one of each series is kept: one of each host.
    let dry = |args: &[&str]| numbers(&vault.json("forget", &[args, &["--dry-run"]].concat()));
    assert_eq!(dry(&["--keep-last", "1"]), [1]);
    assert_eq!((dry(&["--keep-hourly", "1"]), dry(&["--keep-within", "30d"])), (vec![1], vec![]));
    assert_eq!(
        (dry(&["--keep-last", "1", "--host", "one"]), dry(&["--keep-last", "1", "--host", "two"])),
        (vec![], vec![1])
    );
    let forgotten = vault.json("forget", &["--path", "tmp", "--tag", "full", "--dry-run"]);
    assert_eq!(numbers(&forgotten), [0, 1]);
    let output = vault.run("forget", &["0", "--tag", "full"]);
    assert_eq!(error(&output).0, Some(2), "a filter says nothing of a snapshot that is named: {output:?}");
    let args = ["daily", text(&top), "--tag", "a\nb"];
    vault.assert_refused("put", &args, "invalid tag \"a\\nb\": control characters");
}
