//! Roots and keys that are not of the disk, or not of its time.

use super::{BLOCK, SLOT_BYTES, SLOTS, assert_filled, client, fill, made, purged, serve, trim};
use crate::program::{Disk, copy, error, flip, overwrite, private, quietus, text, tree};
use crate::vault::device::Loop;
use quietus::offline::{Repaired, repair};
use std::path::Path;

/// Where both places of the top page lie in the key tree.
const TOP_PAGE: [u64; 2] = [5_599_232, 5_603_328];

/// Checks that no command opens the disk, and that the error says `why`.
#[track_caller]
fn assert_lost(disk: &Disk, why: &str) {
    let output = disk.server(&["--run", "true"]).output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.code() == Some(1) && said.contains(why), "{why}: {output:?}");
    disk.assert_refused("shred", &["--now"], 1, why);
}

/// Purges blocks of the disk that were written for that.
fn purge_again(disk: &Disk) {
    let server = serve(disk);
    let mut of = client(&server);
    fill(&mut of, 100, 0x42, BLOCK);
    trim(&mut of, 100, 1);
    disk.json("shred", &["--now"]);
    drop(of);
    server.stop();
}

#[test]
fn without_its_root_or_with_another_disks_a_disk_is_lost_and_says_so() {
    let (disk, other) = (purged(), purged());
    let root = disk.path().join("root");
    let whole = std::fs::read(&root).expect("a root");
    std::fs::copy(other.path().join("root"), &root).expect("a copy");
    assert_lost(&disk, "that of another disk");
    std::fs::write(&root, vec![0; whole.len()]).expect("zeros");
    assert_lost(&disk, "no valid head");
    std::fs::write(&root, &whole[..8192]).expect("a shorter root");
    assert_lost(&disk, "12288");
    let mut empty = whole.clone();
    empty[SLOTS[0]..].fill(0);
    std::fs::write(&root, &empty).expect("a root without cells");
    assert_lost(&disk, "no whole top cell");
    std::fs::remove_file(&root).expect("it was there");
    assert_lost(&disk, "the root is missing");
    std::fs::write(&root, &whole).expect("a root");
    assert_filled(&mut client(&serve(&disk)), 0, 0x41, 8 * BLOCK);
}

#[test]
fn a_device_with_the_root_of_a_disk_does_not_become_the_root_of_another_one() {
    let Some(device) = Loop::new(&[0; 64 << 10]) else { return };
    let disk = made(&["--size", "1M", "--root", &device.name]);
    let key = disk.beside("secret");
    private(&key, &[7; 32]);
    let key = ["--key-file", text(&key)];
    for (store, option, key) in
        [("sealed", "--root", &key[..]), ("versions", "--root", &key[..]), ("in-place", "--medium", &[])]
    {
        let mut create = quietus();
        create.arg("create").arg(disk.beside("other")).args([
            "--store",
            store,
            "--size",
            "1M",
            option,
            &device.name,
        ]);
        let (status, said) = error(&create.args(key).arg("--yes").output().expect("it runs"));
        assert!(status == Some(1) && said.contains("the device of a disk's root"), "{store}: {said}");
    }
    drop(serve(&disk));
    // A device that is cleared is free.
    std::fs::write(&device.name, [0; 12 << 10]).expect("zeros");
    drop(serve(&made(&["--size", "1M", "--root", &device.name])));
}

#[test]
fn a_root_from_before_a_purge_does_not_bring_dead_content_back() {
    let disk = purged();
    let root = disk.path().join("root");
    let old = std::fs::read(&root).expect("a root");
    purge_again(&disk);
    purge_again(&disk);
    let new = std::fs::read(&root).expect("a root");
    std::fs::write(&root, &old).expect("the old root");
    assert_lost(&disk, "the root");
    std::fs::write(&root, &new).expect("the new root");
    assert_filled(&mut client(&serve(&disk)), 0, 0x41, 8 * BLOCK);
}

#[test]
fn what_a_purge_left_in_the_other_slot_is_destroyed_at_the_next_start() {
    let disk = purged();
    let root = disk.path().join("root");
    let old = std::fs::read(&root).expect("a root");
    purge_again(&disk);
    let new = std::fs::read(&root).expect("a root");
    let is_used = |root: &[u8], at: usize| root[at..at + SLOT_BYTES].iter().any(|byte| *byte != 0);
    let of_old = SLOTS.into_iter().find(|at| is_used(&old, *at) && !is_used(&new, *at));
    if let Some(at) = of_old {
        overwrite(&root, at as u64, &old[at..at + SLOT_BYTES]);
        let server = serve(&disk);
        assert_filled(&mut client(&server), 0, 0x41, 8 * BLOCK);
        server.stop();
        let now = std::fs::read(&root).expect("a root");
        assert!(!is_used(&now, at), "the old key is still there");
    }
}

#[test]
fn a_copy_of_the_directory_from_before_a_purge_is_no_backup() {
    let disk = purged();
    let copied = disk.beside("copied");
    copy(&disk.path(), &copied);
    // The root is where it was: outside of the copy.
    purge_again(&disk);
    std::fs::copy(disk.path().join("root"), copied.join("root")).expect("the root");
    let old = Disk { dir: tempfile::tempdir().expect("a directory") };
    std::fs::rename(&copied, old.path()).expect("a new name");
    assert_lost(&old, "top page");
}

#[test]
fn a_flipped_bit_in_the_key_tree_is_noticed_and_never_shows_other_content() {
    let whole = purged();
    let keytree = std::fs::read(whole.path().join("keytree")).expect("a key tree");
    let places: Vec<u64> = (0..keytree.len() as u64)
        .step_by(512)
        .filter(|at| keytree[*at as usize..].iter().take(512).any(|byte| *byte != 0))
        .collect();
    assert!(places.len() > 8, "{places:?}");
    for at in places.iter().step_by(places.len() / 8).chain([&0, &8]) {
        let disk = Disk { dir: tempfile::tempdir().expect("a directory") };
        copy(&whole.path(), &disk.path());
        flip(&disk.path().join("keytree"), *at + 20);
        look(&disk, *at);
    }
}

/// Checks that the disk shows what it had, or refuses.
fn look(disk: &Disk, at: u64) {
    let out = disk.beside("out");
    let exported = disk.run("export", &[crate::program::text(&out)]);
    if exported.status.success() {
        let image = std::fs::read(&out).expect("an image");
        assert!(image[..8 * BLOCK].iter().all(|byte| *byte == 0x41), "byte {at}");
        assert!(image[8 * BLOCK..12 * BLOCK].iter().all(|byte| *byte == 0), "byte {at}");
    } else {
        let said = String::from_utf8_lossy(&exported.stderr).into_owned();
        assert!(said.contains("key") || said.contains("page"), "byte {at}: {said}");
    }
}

#[test]
fn repair_mends_the_journal_of_a_sealed_disk_and_names_what_it_cannot_mend() {
    let disk = purged();
    assert_eq!(disk.json("repair", &[])["left"], serde_json::Value::Null);
    let keytree: &Path = &disk.path().join("keytree");
    TOP_PAGE.into_iter().for_each(|at| flip(keytree, at + 100));
    let repaired = disk.run("repair", &[]);
    let said = String::from_utf8_lossy(&repaired.stdout).into_owned();
    assert!(said.contains("does not open the top page"), "{repaired:?}");
}

/// Repairs the disk, or only says how.
fn repaired(disk: &Disk, dry_run: bool) -> Repaired {
    repair(&disk.path(), dry_run, &mut |_, _| true).expect("a report")
}

#[test]
fn a_damaged_head_of_a_key_tree_or_a_root_is_written_anew_where_the_root_opens_the_key_tree() {
    let disk = purged();
    let whole = tree(&disk.path());
    for (files, at) in [(&["keytree"][..], 3), (&["root"], 9), (&["keytree", "root"], 20), (&["root"], 31)] {
        files.iter().for_each(|file| flip(&disk.path().join(file), at));
        assert_lost(&disk, "`quietus repair` writes it anew");
        for dry_run in [true, false] {
            let done = repaired(&disk, dry_run);
            assert_eq!(
                (done.heads, done.left),
                (files.iter().map(ToString::to_string).collect(), None),
                "byte {at}"
            );
        }
        for file in ["keytree", "root"] {
            assert!(tree(&disk.path())[Path::new(file)] == whole[Path::new(file)], "{file}, byte {at}");
        }
    }
    assert_filled(&mut client(&serve(&disk)), 0, 0x41, 8 * BLOCK);
}

#[test]
fn a_damaged_head_stays_where_nothing_proves_whose_the_medium_is() {
    let (disk, other) = (purged(), purged());
    let [root, keytree] = ["root", "keytree"].map(|file| disk.path().join(file));
    let whole = std::fs::read(&root).expect("a root");
    std::fs::copy(other.path().join("root"), &root).expect("a copy");
    flip(&root, 9);
    let before = std::fs::read(&root).expect("a root");
    let done = repaired(&disk, false);
    let left = done.left.clone().unwrap_or_default();
    assert!(done.is_empty() && left.contains("the head of `root` is damaged"), "{done:?}");
    assert!(left.contains("the content of the disk is lost"), "{left}");
    assert!(std::fs::read(&root).expect("a root") == before, "nothing was written");
    std::fs::write(&root, &whole).expect("the root");
    flip(&keytree, 9);
    TOP_PAGE.into_iter().for_each(|at| flip(&keytree, at + 100));
    let done = repaired(&disk, false);
    assert!(done.is_empty() && done.left.is_some_and(|left| left.contains("`keytree` is damaged")));
    assert_lost(&disk, "no valid head");
}

#[test]
fn a_journal_of_another_time_is_refused_with_what_really_helps_and_repair_does_not_name_itself_as_the_cure() {
    let disk = purged();
    let journal = disk.path().join("journal");
    let old = std::fs::read(&journal).expect("a journal");
    purge_again(&disk);
    let new = std::fs::read(&journal).expect("a journal");
    std::fs::write(&journal, &old).expect("the old journal");
    let helps = "the journal is of another time: put back the one that the last stop left";
    assert_lost(&disk, helps);
    let done = repaired(&disk, false);
    let left = done.left.clone().unwrap_or_default();
    assert!(
        done.is_empty() && left.contains(helps) && !left.to_lowercase().contains("run `quietus repair`"),
        "{left}"
    );
    std::fs::write(&journal, &new).expect("the new journal");
    assert_filled(&mut client(&serve(&disk)), 0, 0x41, 8 * BLOCK);
}

#[test]
fn a_sealed_disk_is_not_made_over_content() {
    let disk = made(&["--size", "1M"]);
    let image = disk.beside("image");
    std::fs::write(&image, [7; 8192]).expect("an image");
    let create = |args: &[&str]| {
        let mut quietus = crate::program::quietus();
        let output = quietus.arg("create").arg(disk.beside("other")).args(args).output().expect("it runs");
        crate::program::error(&output)
    };
    let image = crate::program::text(&image);
    let (status, said) = create(&["--store", "sealed", "--no-credential", "--adopt", image]);
    assert!(status == Some(2) && said.contains("copy the image with --from"), "{said}");
    let (status, said) = create(&["--store", "sealed", "--no-credential", "--medium", image, "--size", "1M"]);
    assert!(status == Some(1) && said.contains("already exists"), "{said}");
    assert_eq!(std::fs::read(image).expect("it"), [7; 8192]);
}
