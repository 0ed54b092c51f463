//! What is put comes back as it was, with all that a file has, and nothing else is touched.

use crate::program::{error, told};
use crate::vault::program::{Vault, assert_same, folder, noise};
use rustix::fs::{AtFlags, CWD, FileType, Mode, Timespec, Timestamps, XattrFlags};
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

/// Whether the host lets this user make devices and give files away.
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

fn set_time(path: &Path, seconds: i64) {
    let time = Timespec { tv_sec: seconds, tv_nsec: 123_456_789 };
    let times = Timestamps { last_access: time, last_modification: time };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).expect("a time");
}

/// Gives a file and a folder ACLs, where the host has them: user 1001 and group 7, and a mask.
fn set_acls(file: &Path, folder: &Path) {
    let none = u32::MAX;
    let entries = [(1_u16, 6_u16, none), (2, 4, 1001), (4, 4, none), (8, 6, 7), (16, 6, none), (32, 0, none)];
    let entry = |(tag, rights, id): (u16, u16, u32)| {
        [&tag.to_le_bytes()[..], &rights.to_le_bytes(), &id.to_le_bytes()].concat()
    };
    let acl = [2_u32.to_le_bytes().to_vec(), entries.map(entry).concat()].concat();
    for (path, name) in [(file, "system.posix_acl_access"), (folder, "system.posix_acl_default")] {
        let _ = rustix::fs::setxattr(path, name, &acl, XattrFlags::empty());
    }
}

/// A folder of everything that a file system has.
pub fn zoo(top: &Path) {
    folder(&top.join("plain"), &[1, 2, 3]);
    fs::create_dir_all(top.join("deep/er/est")).expect("a directory");
    fs::write(top.join("deep/er/est/big"), noise(9, 3_000_000)).expect("a file");
    fs::write(top.join("empty"), b"").expect("a file");
    fs::write(top.join("text"), "the same line\n".repeat(5000)).expect("a file");
    let odd = OsString::from_vec(b"odd \xff\n name".to_vec());
    fs::write(top.join(odd), b"bytes that are no text").expect("a file");
    symlink("../nowhere", top.join("dangling")).expect("a link");
    symlink("/etc", top.join("absolute")).expect("a link");
    fs::hard_link(top.join("text"), top.join("deep/again")).expect("a link");
    let sparse = fs::File::create(top.join("sparse")).expect("a file");
    sparse.set_len(5 << 20).expect("a length");
    std::os::unix::fs::FileExt::write_all_at(&sparse, &noise(5, 10_000), 1 << 20).expect("content");
    rustix::fs::mknodat(CWD, top.join("pipe"), FileType::Fifo, Mode::RUSR, 0).expect("a pipe");
    rustix::fs::mknodat(CWD, top.join("socket"), FileType::Socket, Mode::RUSR, 0).expect("a socket");
    let set = |path: PathBuf, value: &[u8]| {
        rustix::fs::setxattr(path, "user.quietus", value, XattrFlags::empty()).is_ok()
    };
    set(top.join("text"), b"an attribute\0with a zero, and\n21 more=lines\n");
    set(top.join("deep"), b"of a folder");
    fs::set_permissions(top.join("text"), fs::Permissions::from_mode(0o640)).expect("a mode");
    set_acls(&top.join("plain/file 1"), &top.join("plain"));
    fs::set_permissions(top.join("deep/er"), fs::Permissions::from_mode(0o500)).expect("a mode");
    if is_root() {
        let device = rustix::fs::makedev(250, 300);
        rustix::fs::mknodat(CWD, top.join("device"), FileType::CharacterDevice, Mode::RUSR, device)
            .expect("a device");
        std::os::unix::fs::chown(top.join("empty"), Some(1234), Some(5678)).expect("an owner");
        std::os::unix::fs::lchown(top.join("dangling"), Some(77), Some(88)).expect("an owner");
        fs::set_permissions(top.join("empty"), fs::Permissions::from_mode(0o4755)).expect("a mode");
    }
    for (name, seconds) in [("text", -5), ("dangling", 7), ("deep/er", 1_000_000_000), ("sparse", 3)] {
        set_time(&top.join(name), seconds);
    }
}

/// The extended attributes that are compared.
const ATTRIBUTES: [&str; 3] = ["user.quietus", "system.posix_acl_access", "system.posix_acl_default"];

/// All that is known of an entry.
#[derive(PartialEq, Eq, Debug)]
pub struct About {
    pub mode: u32,
    pub owner: (u32, u32),
    pub modified: (i64, i64),
    pub device: u64,
    pub names: u64,
    pub content: Option<Vec<u8>>,
    /// Extended attributes that a test sets.
    pub attributes: Vec<Option<Vec<u8>>>,
    pub is_sparse: bool,
}

pub fn all(top: &Path) -> BTreeMap<PathBuf, About> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![PathBuf::new()]);
    while let Some(path) = pending.pop() {
        let here = top.join(&path);
        let about = fs::symlink_metadata(&here).expect("an entry");
        let attribute = |name: &str| {
            let mut value = [0; 100];
            let length = rustix::fs::lgetxattr(&here, name, &mut value[..]);
            length.ok().map(|length| value[..length].to_vec())
        };
        let content = match about.file_type() {
            of if of.is_file() => Some(fs::read(&here).expect("a file")),
            of if of.is_symlink() => Some(fs::read_link(&here).expect("a link").into_os_string().into_vec()),
            _ => None,
        };
        if about.is_dir() {
            let entries = fs::read_dir(&here).expect("a directory").flatten();
            pending.extend(entries.map(|entry| path.join(entry.file_name())));
        }
        let about = About {
            mode: about.mode(),
            owner: (about.uid(), about.gid()),
            modified: (about.mtime(), about.mtime_nsec()),
            device: about.rdev(),
            names: if about.is_dir() { 0 } else { about.nlink() },
            content,
            attributes: ATTRIBUTES.map(attribute).to_vec(),
            is_sparse: about.len() > 4 << 20 && about.blocks() * 512 < 1 << 20,
        };
        found.insert(path, about);
    }
    found
}

#[test]
fn all_that_a_file_has_comes_back_from_every_kind_of_vault() {
    for args in [&["--compress", "lz4"][..], &["--compress", "zstd"], &["--compress", "none"]] {
        let vault = Vault::new(args);
        let top = vault.beside("zoo");
        zoo(&top);
        let before = all(&top);
        let snapshot = vault.put("animals", &top);
        let (_into, there) = vault.get(&snapshot, &top);
        let after = all(&there);
        assert!(before.keys().eq(after.keys()), "{:?}", after.keys());
        for (path, about) in &before {
            let found = &after[path];
            assert!(about == found, "{path:?}: {about:?}, restored: {found:?}");
        }
        assert!(after[Path::new("sparse")].is_sparse && after[Path::new("text")].names == 2);
        vault.assert_whole();
    }
}

#[test]
fn a_second_snapshot_stores_what_has_changed_and_nothing_else() {
    let vault = Vault::new(&[]);
    let top = vault.folder("files", &[1, 2, 3, 4, 5, 6, 7, 8]);
    // An absolute path would bring the folders above it, and other tests change the times of the one for temporary files.
    let put = || vault.json("put", &["daily", "files"]);
    let (first, again) = (put(), put());
    assert!(first["new_bytes"].as_u64() > Some(100_000), "{first}");
    assert_eq!((again["new_chunks"].as_u64(), again["snapshot"].as_u64()), (Some(0), Some(1)), "{again}");
    let mut changed = fs::read(top.join("file 8")).expect("a file");
    changed.extend(b"one more line");
    fs::write(top.join("file 8"), changed).expect("a file");
    let third = put();
    assert!(third["new_bytes"].as_u64() < Some(80_000), "{third}");
    assert_eq!(vault.snapshots(), 3);
    let stats = vault.json("stats", &[]);
    assert!(stats["all_bytes"].as_u64() > stats["data"]["raw_bytes"].as_u64().map(|it| 2 * it), "{stats}");
}

#[test]
fn paths_and_patterns_choose_what_is_put_and_restored() {
    let vault = Vault::new(&[]);
    let top = vault.beside("a");
    folder(&top.join("keep/this"), &[1]);
    folder(&top.join("keep/other"), &[2]);
    folder(&top.join("not"), &[3]);
    fs::write(top.join("keep/x.tmp"), b"temporary").expect("a file");
    let args = ["some", "a/keep", "a/not", "--exclude", "*.tmp", "--exclude", "/a/not"];
    let put = vault.json("put", &args);
    assert_eq!(put["files"], 2, "{put}");
    vault.json("get", &["some", "--into", "back", "a/keep/this", "/a/keep/other/file 2"]);
    assert_same(&top.join("keep/this"), &vault.beside("back/a/keep/this"));
    assert_same(&top.join("keep/other"), &vault.beside("back/a/keep/other"));
    let shown = vault.run("cat", &["some", "a/keep/this/file 1"]);
    assert!(shown.stdout == fs::read(top.join("keep/this/file 1")).expect("a file"));
    assert_eq!(told(&vault.run("list", &["some", "a/keep"])).lines().count(), 5);
    for (command, args, why) in [
        ("get", &["some", "a/nothing"][..], "a/nothing: not in the snapshot"),
        ("get", &["some", "../a"], "`..` in a path"),
        ("get", &["99"], "unknown snapshot 99"),
        ("cat", &["some", "a/keep"], "not a file of the snapshot"),
        ("put", &["x", "a/../a"], "name the absolute path"),
        ("put", &["x", "b"], "b: cannot read it"),
        ("put", &["x", "a", "--exclude", "[z"], "--exclude \"[z\" is not a valid pattern"),
    ] {
        vault.assert_refused(command, args, why);
    }
}

#[test]
fn nothing_that_exists_is_overwritten_and_no_link_is_followed() {
    let vault = Vault::new(&[]);
    let (top, elsewhere) = (vault.beside("a"), vault.beside("elsewhere"));
    folder(&top.join("sub"), &[1, 2]);
    fs::create_dir(&elsewhere).expect("a directory");
    vault.json("put", &["some", "a"]);
    let into = vault.beside("into");
    fs::create_dir_all(into.join("a")).expect("a directory");
    symlink(&elsewhere, into.join("a/sub")).expect("a link");
    vault.findings("get", &["some", "--into", "into"]);
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 0, "it wrote through a link");
    fs::remove_file(into.join("a/sub")).expect("a link");
    fs::create_dir(into.join("a/sub")).expect("a directory");
    fs::write(into.join("a/sub/file 1"), b"precious").expect("a file");
    symlink(elsewhere.join("new"), into.join("a/sub/file 2")).expect("a link");
    vault.findings("get", &["some", "--into", "into"]);
    assert_eq!(fs::read(into.join("a/sub/file 1")).expect("a file"), b"precious");
    assert_eq!(fs::read_dir(&elsewhere).expect("a directory").count(), 0, "it wrote through a link");
}

#[test]
fn a_vault_within_what_is_put_is_no_part_of_it() {
    let vault = Vault::new(&["--compress", "none"]);
    vault.folder("a", &[1]);
    let put = vault.json("put", &["all", "."]);
    assert_eq!((put["files"].as_u64(), put["folders"].as_u64()), (Some(1), Some(1)), "{put}");
}

#[test]
fn a_vault_that_another_program_has_locked_is_refused_and_a_directory_of_something_else_is_none() {
    let vault = Vault::new(&[]);
    let lock = fs::File::open(vault.path().join("lock")).expect("a lock");
    rustix::fs::flock(&lock, rustix::fs::FlockOperation::LockExclusive)
        .expect("no other process has it open");
    let said = vault.refused("list", &[]);
    assert!(said.contains("in use by process") && said.contains("stop that first"), "{said}");
    drop(lock);
    vault.json("list", &[]);
    fs::remove_file(vault.path().join("vault.toml")).expect("a file");
    let said = vault.refused("list", &[]);
    assert!(said.contains("vault.toml") && said.contains("missing"), "{said}");
}

#[test]
fn a_vault_of_another_version_is_refused_and_stays_as_it_is() {
    let vault = Vault::new(&[]);
    let toml = vault.path().join("vault.toml");
    let text = fs::read_to_string(&toml).expect("a file");
    assert!(text.contains("version = 3"), "{text}");
    let before = fs::read(vault.path().join("catalog")).expect("a file");
    for (version, remedy) in [(1, "use the program that made it"), (9, "use a newer program")] {
        let other = format!("version = {version}");
        fs::write(&toml, text.replace("version = 3", &other)).expect("a file");
        for (command, args) in [("status", &[][..]), ("sanitize", &[]), ("put", &["some", "vault"])] {
            let said = vault.refused(command, args);
            let is_named = said.contains(&format!("version {version}")) && said.contains(remedy);
            assert!(is_named, "{command}: {said}");
        }
    }
    assert!(before == fs::read(vault.path().join("catalog")).expect("a file"));
    fs::write(&toml, text).expect("a file");
    vault.json("status", &[]);
}

#[test]
fn a_medium_whose_name_is_not_text_is_refused_and_one_elsewhere_is_made() {
    let vault = Vault { dir: tempfile::tempdir().expect("a directory") };
    let mut init = vault.command("init");
    let output = init.arg("--medium").arg(OsStr::from_bytes(b"no \xff text")).output().expect("it runs");
    let (status, said) = error(&output);
    assert!(status == Some(1) && said.contains("--medium names a path that is not UTF-8"), "{said}");
    assert!(!vault.path().exists());
    vault.json("init", &["--medium", "elsewhere", "--size", "64M"]);
    assert!(vault.beside("elsewhere").exists() && vault.refused("init", &[]).contains("already exists"));
}
