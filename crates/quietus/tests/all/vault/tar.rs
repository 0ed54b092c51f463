//! Archives as snapshots.

use crate::vault::program::{Vault, assert_same, folder, noise};
use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::{Command, Stdio};
use tar::{Builder, EntryType, Header};

#[test]
fn what_tar_writes_comes_back_as_files() {
    let vault = Vault::new(&[]);
    let top = vault.beside("a");
    folder(&top.join("sub"), &[1, 2]);
    folder(&top.join(format!("long {}", "name ".repeat(40))), &[3]);
    symlink("sub", top.join("link")).expect("a link");
    fs::hard_link(top.join("sub/file 1"), top.join("again")).expect("a link");
    let tar = Command::new("tar")
        .args(["--format=pax", "-cf", "a.tar", "a"])
        .current_dir(vault.dir.path())
        .output();
    assert!(tar.expect("tar runs").status.success());
    let archive = fs::File::open(vault.beside("a.tar")).expect("a file");
    let put = vault.command("put").args(["piped", "--tar", "-"]).stdin(Stdio::from(archive)).output();
    assert!(put.expect("it runs").status.success());
    vault.json("get", &["piped", "--into", "back"]);
    let back = vault.beside("back/a");
    assert_same(&top, &back);
    assert_eq!(fs::read_link(back.join("link")).expect("a link").to_str(), Some("sub"));
    let about = |path: &str| fs::metadata(back.join(path)).expect("a file");
    assert_eq!(about("again").ino(), about("sub/file 1").ino());
    let before = fs::metadata(top.join("sub/file 2")).expect("a file");
    assert_eq!(
        (before.mtime(), before.mtime_nsec()),
        (about("sub/file 2").mtime(), about("sub/file 2").mtime_nsec())
    );
    let again = vault.json("put", &["again", "--tar", "a.tar", "--exclude", "sub", "--exclude", "again"]);
    assert_eq!(again["files"], 2, "{again}");
}

#[test]
fn an_archive_that_leads_elsewhere_is_taken_without_that() {
    let vault = Vault::new(&["--compress", "none"]);
    let mut archive = Builder::new(Vec::new());
    let mut add = |path: &[u8], of: EntryType, target: Option<&str>, content: &[u8]| {
        let mut header = Header::new_old();
        header.as_mut_bytes()[..path.len()].copy_from_slice(path);
        header.set_entry_type(of);
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        if let Some(target) = target {
            header.set_link_name_literal(target).expect("a target");
        }
        header.set_cksum();
        archive.append(&header, content).expect("an entry");
    };
    let secret = noise(8, 3000);
    add(b"../outside", EntryType::Regular, None, &secret);
    add(b"a/../../outside", EntryType::Regular, None, &secret);
    add(b"/rooted", EntryType::Regular, None, b"within");
    add(b"link", EntryType::Symlink, Some("/"), b"");
    add(b"link/below", EntryType::Regular, None, b"through a link");
    add(b"hard", EntryType::Link, Some("../../etc/passwd"), b"");
    add(b"good", EntryType::Regular, None, b"content");
    let bytes = archive.into_inner().expect("an archive");
    fs::write(vault.beside("evil.tar"), &bytes).expect("a file");
    let output = vault.run("put", &["evil", "--tar", "evil.tar"]);
    assert_eq!(output.status.code(), Some(3), "{output:?}");
    let said = String::from_utf8(output.stdout).expect("text");
    assert!(said.contains("\"left_out_count\":4"), "{said}");
    vault.json("get", &["evil", "--into", "back"]);
    assert_eq!(fs::read(vault.beside("back/rooted")).expect("a file"), b"within");
    assert_eq!(fs::read(vault.beside("back/good")).expect("a file"), b"content");
    assert!(!vault.beside("outside").exists());
    let owed = vault.json("status", &[]);
    assert_eq!(
        owed["owed"].as_array().map(Vec::len),
        Some(1),
        "what was stored of it and left out is owed: {owed}"
    );
    assert!(vault.count(b"through a link") > 0);
    vault.sanitize();
    assert_eq!(vault.count(b"through a link"), 0);
    assert_eq!(vault.count(&secret[..64]), 0, "what was left out is in the vault");
}

#[test]
fn an_archive_that_ends_early_makes_no_snapshot() {
    let vault = Vault::new(&[]);
    let mut archive = Builder::new(Vec::new());
    let mut header = Header::new_gnu();
    header.set_size(1 << 20);
    header.set_mode(0o644);
    archive.append_data(&mut header, "big", &noise(1, 1 << 20)[..]).expect("an entry");
    let bytes = archive.into_inner().expect("an archive");
    let mut child =
        vault.command("put").args(["cut", "--tar", "-"]).stdin(Stdio::piped()).spawn().expect("it runs");
    let _ = child.stdin.take().expect("a pipe").write_all(&bytes[..600_000]);
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
    assert_eq!(vault.json("list", &[])["snapshots"].as_array().map(Vec::len), Some(0));
    vault.sanitize();
    assert_eq!(vault.count(&noise(1, 64)), 0);
}

/// An archive of one entry whose header says that so many bytes follow.
fn says(of: EntryType, size: u64, content: &[u8]) -> Vec<u8> {
    let mut header = Header::new_gnu();
    header.set_entry_type(of);
    header.set_path("entry").expect("a path");
    header.set_size(size);
    header.set_mode(0o644);
    header.set_cksum();
    [header.as_bytes(), content].concat()
}

#[test]
fn an_archive_that_lies_about_lengths_is_refused_without_memory_for_them() {
    let vault = Vault::new(&[]);
    let endless = vec![b'a'; 8 << 20];
    let limited = "headers of an entry have more than 1048576 bytes";
    for (archive, why) in [
        (says(EntryType::Regular, u64::MAX >> 1, &noise(1, 5000)), "read the archive"),
        (says(EntryType::GNULongName, u64::MAX >> 1, b"name"), "read the archive"),
        (says(EntryType::GNULongName, 8 << 20, &endless), limited),
        (says(EntryType::XHeader, 8 << 20, &endless), limited),
    ] {
        fs::write(vault.beside("lies.tar"), &archive).expect("a file");
        let said = vault.refused("put", &["lies", "--tar", "lies.tar"]);
        assert!(said.contains(why), "{why}: {said}");
        assert_eq!(vault.json("list", &[])["snapshots"].as_array().map(Vec::len), Some(0));
    }
}

#[test]
fn names_that_are_no_text_and_long_ones_are_taken() {
    use std::os::unix::ffi::OsStringExt;
    let vault = Vault::new(&[]);
    let name = std::ffi::OsString::from_vec([&b"no \xff text "[..], &[b'n'; 200]].concat());
    fs::create_dir(vault.beside("a")).expect("a directory");
    fs::write(vault.beside("a").join(&name), b"content").expect("a file");
    let mut archive = Builder::new(Vec::new());
    archive.append_dir_all("a", vault.beside("a")).expect("entries");
    fs::write(vault.beside("odd.tar"), archive.into_inner().expect("an archive")).expect("a file");
    vault.json("put", &["odd", "--tar", "odd.tar"]);
    vault.json("get", &["odd", "--into", "back"]);
    assert_eq!(fs::read(vault.beside("back/a").join(&name)).expect("a file"), b"content");
}
