//! What is made, and how content comes in and goes out.

use super::{BLOCK, SLOTS, assert_filled, client, fill, made, serve, with_key};
use crate::program::{Disk, holds, text};
use quietus_core::base::zeros::is_zeros;
use std::os::unix::fs::MetadataExt;

#[test]
fn a_sealed_disk_has_whole_blocks_a_key_tree_with_space_for_its_log_and_one_key_in_its_root() {
    for (size, bytes) in [("512", 4096), ("2560", 4096), ("1M", 1 << 20), ("1052160", (1 << 20) + 4096)] {
        let disk = made(&["--size", size]);
        let about = |name: &str| std::fs::metadata(disk.path().join(name)).expect("a file");
        assert_eq!((about("data").len(), about("root").len()), (bytes, 12288), "{size}");
        let keytree = about("keytree");
        let (log, taken) = (2 * 2_797_568, keytree.blocks() * 512);
        assert!(keytree.len() > log && (log..log + (1 << 20)).contains(&taken), "{size}: {keytree:?}");
        assert!(!disk.path().join("keys").exists() && !disk.path().join("map").exists(), "{size}");
        let root = std::fs::read(disk.path().join("root")).expect("a root");
        assert!(is_zeros(&root[SLOTS[0]..SLOTS[1]]) && !is_zeros(&root[SLOTS[1]..]), "{size}");
    }
}

#[test]
fn the_last_sectors_of_an_odd_disk_are_kept() {
    let disk = made(&["--size", "1052160"]);
    let server = serve(&disk);
    let mut of = client(&server);
    fill(&mut of, 255, 0x33, BLOCK + 7 * 512);
    drop(of);
    server.stop();
    let server = serve(&disk);
    let mut of = client(&server);
    assert_filled(&mut of, 255, 0x33, BLOCK + 7 * 512);
}

#[test]
fn the_medium_holds_ciphertext_and_equal_blocks_differ() {
    let disk = made(&["--size", "1M"]);
    let server = serve(&disk);
    let mut of = client(&server);
    fill(&mut of, 0, 0x41, 4 * BLOCK);
    drop(of);
    server.stop();
    let data = std::fs::read(disk.path().join("data")).expect("data");
    for name in ["data", "keytree", "journal", "root"] {
        assert!(!holds(&disk.path().join(name), &[0x41; 32]), "{name} has content");
    }
    let sectors: std::collections::BTreeSet<_> = data[..4 * BLOCK].chunks(512).collect();
    assert_eq!(sectors.len(), 4 * BLOCK / 512, "each sector has its own tweak, each block its own key");
    assert!(is_zeros(&data[4 * BLOCK..]), "nothing else was written");
}

#[test]
fn an_image_is_copied_in_and_stays_as_it_is_and_its_content_goes_out_again() {
    let mut image = vec![0; 3 << 20];
    for (n, part) in image.chunks_mut(100_000).enumerate().filter(|(n, _)| n % 3 > 0) {
        part.fill(n as u8);
    }
    let disk = Disk::on(&image, &["--store", "sealed", "--no-credential", "--from"]);
    let from = disk.beside("image");
    assert!(std::fs::read(&from).expect("the image") == image, "the image has changed");
    assert!(!holds(&disk.path().join("data"), &image[100_000..100_064]), "data has content");
    let out = disk.beside("out");
    disk.json("export", &[text(&out)]);
    assert!(std::fs::read(&out).expect("an image") == image, "another image");
    disk.assert_refused("verify", &["--read-data", "--key-file", "nope", "--nonsense"], 2, "--nonsense");
    assert_eq!(disk.json("verify", &["--read-data"])["ok"], true);
}

#[test]
fn only_its_credential_opens_a_disk_and_none_is_needed_to_delete() {
    let (disk, key) = with_key();
    let server = disk.serve(&["--detect", "off", "--key-file", &key]);
    let mut of = client(&server);
    fill(&mut of, 0, 0x41, 8 * BLOCK);
    drop(of);
    server.stop();
    let other = disk.beside("other");
    crate::program::private(&other, &[8; 32]);
    let (out, other) = (disk.beside("out"), text(&other).to_string());
    disk.assert_refused("export", &[text(&out), "--key-file", &other], 1, "give the right one");
    disk.json("purge", &["0+16K", "--yes"]);
    disk.json("shred", &["--now"]);
    disk.json("export", &[text(&out), "--key-file", &key]);
    let image = std::fs::read(&out).expect("an image");
    assert!(is_zeros(&image[..4 * BLOCK]) && image[4 * BLOCK..8 * BLOCK].iter().all(|it| *it == 0x41));
    disk.assert_refused("key", &["rotate", "--key-file", &key], 1, "cannot be rotated");
}

#[test]
fn a_new_disk_says_that_a_copy_of_it_is_no_backup_and_list_names_its_store() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("vm1");
    let mut create = crate::program::quietus();
    create.arg("create").arg(&path).args(["--size", "1M", "--store", "sealed", "--no-credential"]);
    let said = crate::program::succeeds(&mut create);
    for words in ["a copy of the directory is no backup", "quietus export", "no credential", "within 10 min"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    let listed = crate::program::succeeds(crate::program::quietus().arg("list").arg(dir.path()));
    assert!(listed.contains("sealed"), "{listed}");
}
