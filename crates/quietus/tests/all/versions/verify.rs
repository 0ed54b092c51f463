//! `verify` finds each byte that was changed behind the disk's back, says where it is, and reads the rest all the same.

use crate::versions::judge::{BLOCK, Bench, bring_home, filled, forget, half, stop};
use crate::versions::proof::brought_back;
use quietus::front::control::{Call, Epochs};
use quietus::open_disk::OpenDisk;
use quietus::proof::Checks;
use quietus_core::base::units::Epoch;
use quietus_core::base::zeros::is_zeros;
use quietus_seal::Seal;
use std::os::unix::fs::FileExt;

pub(crate) const PAGE: usize = 4096;
pub(crate) const SECTOR: usize = 512;
/// Where homes begin, with stubs of 64 bytes.
const HOMES: usize = PAGE + 2 * half(64);
/// The entries of a sector begin here; each has this length, with a stub of `random-key`; the stub begins there.
pub(crate) const HEAD: usize = 32;
const ENTRY: usize = 80;
pub(crate) const RECORD: usize = 16;

/// The findings of a look at the disk, which is not served: the file, and what is wrong.
fn findings(bench: &Bench, read_data: bool) -> Vec<(String, String)> {
    let disk = match bench.look() {
        Ok(disk) => disk,
        Err(error) => return vec![("open".into(), error)],
    };
    let found = findings_of(&disk, read_data);
    disk.close(false, |_| true);
    found
}

/// The findings of a look at an open disk.
fn findings_of(disk: &OpenDisk, read_data: bool) -> Vec<(String, String)> {
    let answer: Checks = disk.answer(&Call::Verify { read_data }, None, &mut |_, _| true).expect("an answer");
    let bad: Vec<_> = answer.checks.into_iter().filter(|it| !it.ok).collect();
    assert_eq!(answer.ok, bad.is_empty());
    bad.into_iter().map(|it| (it.what, it.detail)).collect()
}

fn flip(bench: &Bench, name: &str, at: usize) {
    crate::program::flip(&bench.path().join(name), at as u64);
}

/// What a look finds while one byte is changed.
fn flipped(bench: &Bench, name: &str, at: usize) -> Vec<(String, String)> {
    flip(bench, name, at);
    let found = findings(bench, true);
    flip(bench, name, at);
    found
}

/// A disk with two epochs, whose stubs are in the log and at home.
fn disk(seal: Seal) -> Bench {
    let bench = Bench::new(seal);
    let (disk, _) = filled(&bench);
    bring_home(&disk);
    crate::versions::judge::write(&disk, 100..120, 1);
    stop(disk, true);
    assert_eq!(findings(&bench, true), [], "{seal}: nothing is wrong yet");
    bench
}

pub(crate) fn is_filled(bytes: &[u8]) -> bool {
    !is_zeros(bytes)
}

#[test]
fn a_disk_that_is_well_is_said_to_be_with_every_seal_also_after_a_forget() {
    for seal in Seal::ALL {
        let bench = disk(seal);
        let running = bench.open();
        forget(&running, Epoch(1));
        let served = running
            .answer::<Checks>(&Call::Verify { read_data: true }, None, &mut |_, _| true)
            .expect("an answer");
        assert!(served.ok, "{seal}: {served:?}");
        stop(running, true);
        assert_eq!(findings(&bench, true), [], "{seal}");
    }
}

#[test]
fn each_page_of_the_index_that_was_changed_is_named() {
    let bench = disk(Seal::RandomKey);
    let map = bench.file("map");
    let mut named = 0;
    for page in (0..map.len() / PAGE).filter(|page| is_filled(&map[page * PAGE..][..PAGE])) {
        let found = flipped(&bench, "map", page * PAGE + 40);
        let is_named = |(_, detail): &(String, String)| {
            let at = [format!("byte {}:", page * PAGE), format!("page {page} of the index")];
            detail.contains("damaged") && at.iter().any(|at| detail.contains(at))
        };
        // Without the newest head a start takes the one before, which the root does not fit.
        let is_refused =
            page < 2 && found.iter().any(|(what, it)| what == "open" && it.contains("the root does not fit"));
        assert!(found.is_empty() || is_refused || found.iter().any(is_named), "page {page}: {found:?}");
        named += usize::from(!found.is_empty());
    }
    assert!(named >= 6, "{named} pages are in use");
    assert_eq!(findings(&bench, true), []);
}

#[test]
fn content_that_was_changed_is_named_by_block_epoch_and_place_and_the_rest_is_read() {
    let bench = disk(Seal::RandomKey);
    let data = bench.file("data");
    let slots: Vec<_> =
        (0..data.len()).step_by(BLOCK as usize).filter(|at| is_filled(&data[*at..][..PAGE])).collect();
    let mut named = 0;
    for at in slots.iter().step_by(10) {
        let found = flipped(&bench, "data", at + 1234);
        // Ciphertext of what died may stay.
        let [(what, detail)] = &found[..] else {
            assert!(found.is_empty(), "{found:?}");
            continue;
        };
        assert!(
            what == "data" && detail.contains(&format!("byte {at}: block")) && detail.contains("of epoch"),
            "{detail}"
        );
        named += 1;
    }
    assert!(named >= 5, "{named} slots");
}

#[test]
fn stubs_that_were_changed_in_the_log_or_at_home_are_named() {
    let bench = disk(Seal::RandomKey);
    let stubs = bench.file("stubs");
    let filled_sectors = |range: std::ops::Range<usize>| {
        let sectors =
            range.step_by(SECTOR).filter(|at| stubs.get(at + HEAD..at + SECTOR).is_some_and(is_filled));
        sectors.collect::<Vec<_>>()
    };
    let (log, mut homes) = (filled_sectors(PAGE..HOMES), filled_sectors(HOMES..stubs.len()));
    homes.truncate(3);
    assert_eq!(homes.len(), 3);
    let mut named_in_log = 0;
    for sector in log.iter().chain(&homes) {
        let is_log = *sector < HOMES;
        let entry =
            (0..6).map(|n| sector + HEAD + n * ENTRY).find(|at| is_filled(&stubs[at + RECORD..][..16]));
        let Some(entry) = entry else {
            assert!(is_log, "a sector of homes has stubs");
            continue;
        };
        let found = flipped(&bench, "stubs", entry + RECORD + 5);
        // A half whose cell is gone has nothing that could be opened.
        if is_log && found.is_empty() {
            continue;
        }
        named_in_log += usize::from(is_log);
        assert!(
            matches!(&found[..], [(what, detail)] if what == "data" && detail.contains("of epoch")),
            "{found:?}"
        );
        // The block of the record: at home no version has such a stub; the log has a sector that is damaged.
        let found = flipped(&bench, "stubs", if is_log { entry + 5 } else { entry + 4 });
        let at = if is_log { *sector } else { entry + RECORD };
        let is_named =
            |(what, detail): &(String, String)| what == "stubs" && detail.contains(&format!("byte {at}:"));
        assert!(found.iter().any(is_named), "{at}: {found:?}");
    }
    assert!(named_in_log > 0, "the log has stubs without homes");
}

#[test]
fn pages_of_homes_that_do_not_fit_their_cells_are_named_and_so_is_what_is_no_cell_of_any() {
    let bench = disk(Seal::RandomKey);
    let (stubs, root) = (bench.file("stubs"), bench.file("root"));
    let has_stubs = |at: &usize| stubs.get(at + HEAD..at + SECTOR).is_some_and(is_filled);
    let sector = (HOMES..stubs.len()).step_by(SECTOR).find(has_stubs).expect("a sector with homes");
    let found = flipped(&bench, "stubs", sector + 3);
    let wanted = format!("byte {sector}:");
    assert!(matches!(&found[..], [(what, it)] if what == "stubs" && it.contains(&wanted)), "{found:?}");
    let cell = (8192..root.len()).step_by(32).find(|at| is_filled(&root[*at..at + 32])).expect("a cell");
    let found = flipped(&bench, "root", cell + 3);
    let is_named = |kind: &str| found.iter().any(|(what, _)| what == kind);
    assert!(is_named("stubs") && is_named("data"), "{found:?}");
    let free = (8192..root.len()).step_by(32).rfind(|at| !is_filled(&root[*at..at + 32])).expect("none");
    let running = bench.open();
    flip(&bench, "root", free);
    let found = findings_of(&running, false);
    assert!(matches!(&found[..], [(what, it)] if what == "cells" && it.contains(&format!("byte {free}:"))));
    flip(&bench, "root", free);
    assert_eq!(findings_of(&running, true), []);
    running.close(true, |_| true);
}

#[test]
fn a_forget_that_meets_a_damaged_page_of_homes_ends_and_says_so_and_status_does_until_the_next_start() {
    let bench = disk(Seal::RandomKey);
    let stubs = bench.file("stubs");
    let has_stubs = |at: &usize| stubs.get(at + HEAD..at + SECTOR).is_some_and(is_filled);
    let homes = (HOMES..stubs.len()).step_by(SECTOR).filter(has_stubs);
    homes.for_each(|sector| flip(&bench, "stubs", sector + 3));
    let running = bench.open();
    let epochs = Epochs { from: "1".into(), to: None };
    let refused = running.reply(&Call::Forget { epochs, wait: true }, None, &mut |_, _| true);
    let refused = refused.expect_err("what died is not destroyed").to_string();
    assert!(
        refused.contains("the server starts again") && refused.contains("not under their key"),
        "{refused}"
    );
    let status = running.reply(&Call::Status, None, &mut |_, _| true).expect("an answer");
    let shown = serde_json::to_string(&status).expect("text");
    assert!(shown.contains("not under their key"), "{shown}");
    running.close(false, |_| true);
}

#[test]
fn a_stub_that_no_version_has_is_found_and_so_is_a_slot_that_two_have() {
    let bench = disk(Seal::RandomKey);
    let running = bench.open();
    let (before, root) = (bench.file("stubs"), bench.file("root"));
    forget(&running, Epoch(1));
    assert!(running.engine.wait_until_drained(|_| true));
    let (now, fresh) = (bench.file("stubs"), bench.file("root"));
    let homes = brought_back(64, (&before, &root), (&now, &fresh));
    let (home, bytes) = homes.first().expect("a home whose stub was destroyed");
    let file = std::fs::File::options().write(true).open(bench.path().join("stubs")).expect("a file");
    file.write_all_at(bytes, *home as u64).expect("a write");
    let found = findings_of(&running, false);
    let is_named = |(what, it): &(String, String)| {
        what == "stubs" && it.contains(&format!("byte {}: a stub that no version has", home + RECORD))
    };
    assert!(matches!(&found[..], [one] if is_named(one)), "{found:?}");
    file.write_all_at(&[0; ENTRY], *home as u64).expect("a write");
    assert_eq!(findings_of(&running, true), []);
    stop(running, true);
    let map = bench.file("map");
    let file = std::fs::File::options().write(true).open(bench.path().join("map")).expect("a file");
    // Leaves of the tree of versions, whether they are in use or not. An entry has 15 bytes: block, epoch, slot.
    let leaves = (2..map.len() / PAGE).map(|page| (page, map[page * PAGE..][..PAGE].to_vec()));
    for (page, mut bytes) in leaves.filter(|(_, it)| is_filled(it) && it[4..6] == [0, 0] && it[6] > 1) {
        bytes.copy_within(HEAD + 10..HEAD + 15, HEAD + 25);
        let crc = crc32c::crc32c(&bytes[4..]).to_le_bytes();
        bytes[..4].copy_from_slice(&crc);
        file.write_all_at(&bytes, (page * PAGE) as u64).expect("a write");
    }
    let found = findings(&bench, false);
    assert!(found.iter().any(|(_, it)| it.contains("which another version has, too")), "{found:?}");
}

#[test]
fn keys_that_were_changed_are_named_by_page_or_session() {
    let bench = disk(Seal::RandomKey);
    let keys = bench.file("keys");
    let pages = (0..73).filter(|page| is_filled(&keys[page * PAGE..][..PAGE]));
    for page in pages {
        let found = flipped(&bench, "keys", page * PAGE + 100);
        let is_named = |(what, detail): &(String, String)| {
            what == "open" || what == "keys" && detail.contains(&format!("bytes {} to", page * PAGE))
        };
        assert!(found.iter().any(is_named), "page {page}: {found:?}");
    }
    let sessions = 73 * PAGE;
    let found = flipped(&bench, "keys", sessions + 3);
    assert!(found.iter().any(|(what, it)| what == "keys" && it.contains("session 0:")), "{found:?}");
}
