//! Disks in a vault.

use crate::program::{overwrite, quietus, succeeds, text, told};
use crate::vault::program::{Vault, noise};
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

const SIZE: u64 = 16 << 20;

fn run(args: &[&str]) {
    succeeds(quietus().env("QUIETUS_LOG", "error").args(args));
}

/// A disk beside the vault that keeps versions, with the content of `image`.
fn versions(vault: &Vault, image: &Path) -> PathBuf {
    let path = vault.beside("vm");
    run(&["create", text(&path), "--store", "versions", "--seal", "none", "--from", text(image)]);
    path
}

/// A disk in place on a copy of `image`.
fn in_place(vault: &Vault, image: &Path) -> PathBuf {
    let (path, medium) = (vault.beside("vm"), vault.beside("medium"));
    fs::copy(image, &medium).expect("a copy");
    run(&["create", text(&path), "--adopt", text(&medium)]);
    path
}

/// An image of which little is live.
fn image(vault: &Vault) -> PathBuf {
    let path = vault.beside("content");
    let file = File::create(&path).expect("a file");
    file.set_len(SIZE).expect("a size");
    file.write_all_at(&noise(1, 300_000), 1 << 20).expect("a write");
    file.write_all_at(&noise(2, 4096), SIZE - 4096).expect("a write");
    path
}

fn put(vault: &Vault, disk: &Path) -> serde_json::Value {
    vault.json("put", &["disks", "--disk", text(disk)])
}

/// The image of a snapshot that a put made, restored.
fn restored(vault: &Vault, put: &serde_json::Value) -> (tempfile::TempDir, PathBuf) {
    vault.get(&put["snapshot"].to_string(), Path::new("/vm.img"))
}

fn assert_equal(one: &Path, other: &Path) {
    assert!(fs::read(one).expect("a file") == fs::read(other).expect("a file"), "{one:?} {other:?}");
}

#[test]
fn a_disk_comes_back_as_a_sparse_image_and_is_stored_once() {
    let stores: [fn(&Vault, &Path) -> PathBuf; 2] = [in_place, versions];
    for make in stores {
        let vault = Vault::new(&[]);
        let content = image(&vault);
        let disk = make(&vault, &content);
        let said = put(&vault, &disk);
        assert_eq!((said["files"].as_u64(), said["bytes"].as_u64()), (Some(1), Some(SIZE)), "{said}");
        let (_into, path) = restored(&vault, &said);
        assert_equal(&path, &content);
        let about = fs::metadata(&path).expect("a file");
        assert!(about.blocks() * 512 < 1 << 20, "{} blocks", about.blocks());
        assert_eq!(about.permissions().mode() & 0o777, 0o600);
        // The folder has another time, and the snapshot.
        let again = put(&vault, &disk);
        assert!(again["new_chunks"].as_u64() <= Some(2), "{again}");
        assert_eq!(vault.owed(), 0);
        vault.assert_whole();
    }
}

#[test]
fn an_epoch_of_a_disk_is_put_as_it_was() {
    let vault = Vault::new(&[]);
    let content = image(&vault);
    let disk = versions(&vault, &content);
    run(&["epoch", text(&disk), "--name", "monday"]);
    run(&["purge", text(&disk), "1M+64K"]);
    let monday = PathBuf::from(format!("{}@monday", disk.display()));
    let (old, new) = (put(&vault, &monday), put(&vault, &disk));
    let (_into, path) = restored(&vault, &old);
    assert_equal(&path, &content);
    overwrite(&content, 1 << 20, &[0; 64 << 10]);
    let (_into, path) = restored(&vault, &new);
    assert_equal(&path, &content);
    let diff = vault.run("diff", &[&old["snapshot"].to_string(), &new["snapshot"].to_string()]);
    assert!(told(&diff).contains("vm.img"), "{diff:?}");
}

#[test]
fn a_disk_that_does_not_fit_leaves_no_snapshot() {
    let vault = Vault { dir: tempfile::tempdir().expect("a directory") };
    vault.json("init", &["--size", "2M", "--container", "128K"]);
    let path = vault.beside("content");
    fs::write(&path, noise(3, 4 << 20)).expect("a file");
    let disk = in_place(&vault, &path);
    vault.assert_refused("put", &["disks", "--disk", text(&disk)], "vault full");
    assert_eq!(vault.snapshots(), 0);
    assert_eq!(vault.owed(), 1);
}
