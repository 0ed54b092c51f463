//! What a differential test cannot show: reads that come late, what is waited for, stops and starts, refusals, marks, and
//! what ends the inference. All else both versions of the rule are shown (`sim/src/rules/rule_j/fuzz.rs`), and have to agree on.

use crate::formats::testing::Dice;
use crate::rules::rule_j::*;
use toy::*;

mod cached;
mod marks;
mod parts;
mod refused;
mod toy;
mod unwritten;

/// Mounted, all of what was dead before handed out.
fn mounted(free: &[Block]) -> Disk {
    let mut disk = Disk::new(free);
    disk.wait(500);
    let mut expected = [free, &residue()].concat();
    expected.sort_unstable();
    assert_eq!(disk.dead(), expected);
    disk.mount();
    assert_eq!(disk.dead(), [0; 0]);
    disk
}

#[test]
fn what_is_free_waits_for_commits_then_for_proof_and_then_for_nothing() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit(5, 1, &[50]);
    let waits = |disk: &Disk, cause| {
        let (found, run) = disk.rule.waiting().next().expect("it waits");
        found == cause && run == Extent::new(50 * 1024, 1024) && disk.rule.waiting().count() == 1
    };
    assert!(waits(&disk, WaitsFor::Commits));
    disk.commit_other(6, 4);
    assert!(waits(&disk, WaitsFor::Proof));
    disk.observe(Observation::Cut);
    assert!(waits(&disk, WaitsFor::Proof), "its evidence is being made durable");
    disk.observe(Observation::Proven);
    assert!(waits(&disk, WaitsFor::Proof), "its turn has not come");
    assert_eq!(disk.dead(), [50]);
    assert_eq!(disk.rule.waiting().count(), 0);
}

/// A commit that frees block 50: its copy of the map came before its descriptor, and was not read yet.
fn copied_before_its_descriptor() -> Disk {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(5, &map(&[50]));
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.is_lazy = true;
    disk.log(6, &header(2, 6));
    disk
}

#[test]
fn a_copy_that_came_before_its_descriptor_is_read() {
    let mut disk = copied_before_its_descriptor();
    assert!(disk.rule.agenda().is_working);
    assert_eq!(disk.dead(), [0; 0]);
    disk.read();
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_copy_that_is_overwritten_is_seen_before() {
    let mut disk = copied_before_its_descriptor();
    disk.log(5, &[0; BYTES]);
    assert_eq!(disk.dead(), [50]);
    assert_eq!(disk.rule.wants(), None);
}

#[test]
fn what_was_written_while_a_copy_was_read_lives() {
    let mut disk = copied_before_its_descriptor();
    disk.data(50);
    disk.read();
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn commits_wait_for_those_before_them() {
    let mut disk = copied_before_its_descriptor();
    disk.commit(7, 7, &[]);
    assert_eq!(disk.dead(), [0; 0]);
    assert_eq!(disk.figure("free by a committed map"), 0);
    disk.read();
    assert_eq!(disk.figure("free by a committed map"), 0);
    assert_eq!(disk.dead(), [50]);
    assert_eq!(disk.figure("commits received"), 3);
}

#[test]
fn a_block_written_in_parts_has_not_arrived_until_all_of_them_are_read() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.is_lazy = true;
    let (at, map) = (u64::from(place(5)) * 1024, map(&[50]));
    disk.write_at(at, &map[..512]);
    assert_eq!(disk.rule.wants(), None);
    disk.write_at(at + 512, &map[512..]);
    let asked = disk.rule.wants().unwrap();
    disk.write_at(at, &map[..512]);
    disk.log(6, &header(2, 6));
    disk.observe(Observation::Given { extent: asked, content: Some(&[0; BYTES]) });
    assert_eq!(disk.figure("commits received"), 1);
    disk.write_at(at + 512, &map[512..]);
    disk.read();
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn what_was_written_before_a_commit_was_read_may_have_been_written_after_it() {
    let mut disk = mounted(&[50]);
    disk.log(1, &descriptor(5, &[(40, 0)]));
    disk.log(2, &[9; BYTES]);
    disk.is_lazy = true;
    disk.log_in_parts(3, &header(2, 5));
    disk.data(50);
    disk.read();
    assert_eq!(disk.figure("commits received"), 1);
    disk.commit_other(6, 4);
    assert_eq!(disk.dead(), [0; 0]);
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn what_was_written_in_parts_and_not_read_yet_is_no_residue() {
    let mut disk = mounted(&[]);
    disk.is_lazy = true;
    let at = u64::from(place(2)) * 1024;
    disk.write_at(at, &[9; 512]);
    disk.log(0, &superblock(5, 1));
    assert_eq!(disk.dead(), [0; 0]);
    disk.write_at(at + 512, &[9; 512]);
    disk.log(0, &superblock(5, 1));
    assert_eq!(disk.dead(), [0; 0]);
    disk.read();
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn a_copy_that_is_wanted_is_no_residue_yet() {
    let mut disk = mounted(&[50]);
    disk.log(2, &map(&[50]));
    disk.log(1, &descriptor(5, &[(MAP, 0)]));
    disk.is_lazy = true;
    disk.log(3, &header(2, 5));
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), [0; 0]);
    let asked = disk.rule.wants().unwrap();
    assert_eq!(disk.dead(), [0; 0]);
    disk.observe(Observation::Given { extent: asked, content: Some(&map(&[50])) });
    assert_eq!(disk.dead(), [1, 2, 3].map(place));
    assert_eq!(disk.rule.broken(), None);
}

#[test]
fn a_map_that_has_the_journal_free_is_none() {
    let mut disk = mounted(&[]);
    disk.commit(5, 1, &[place(7)]);
    assert!(disk.rule.broken().unwrap().0.contains("journal"));
    assert!(disk.verdict().is_none());
}

#[test]
fn an_unknown_feature_stops_inference_by_name() {
    let mut log = superblock(5, 0);
    put(&mut log, 0x28, 0x20);
    let disk = Disk::with(&log, true, true);
    assert!(disk.rule.broken().unwrap().0.contains("fast_commit"));
}

#[test]
fn a_read_that_fails_stops_inference() {
    let mut disk = mounted(&[]);
    disk.observe(Observation::Given { extent: Extent::new(0, BYTES as u64), content: None });
    assert!(disk.rule.broken().is_some());
}

#[test]
fn a_file_system_that_is_freed_is_gone() {
    for block in [SUPER, place(0)] {
        let mut disk = mounted(&[]);
        disk.observe(Observation::Arrived {
            extent: Extent::new(u64::from(block) * 1024, 1024),
            content: Content::Zeros,
        });
        assert!(disk.rule.has_changed());
    }
}

#[test]
fn a_clean_stop_forgets_nothing() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit(5, 1, &[50]);
    disk.commit_other(6, 4);
    disk.data(51);
    disk.commit(7, 7, &[50, 51]);
    let mut disk = disk.restarted(true);
    assert_eq!(disk.dead(), [50]);
    disk.commit_other(8, 10);
    assert_eq!(disk.dead(), [51]);
}

#[test]
fn a_stop_below_an_unmounted_file_system_forgets_nothing() {
    let mut disk = mounted(&[50]);
    disk.log(0, &superblock(5, 0));
    disk.mark(0);
    disk.wait(500);
    let mut disk = disk.restarted(false);
    assert_eq!(disk.dead(), [0; 0]);
    disk.mark(1);
    disk.log(0, &superblock(6, 3));
    disk.data(50);
    disk.commit_other(6, 3);
    disk.commit_other(7, 6);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn what_came_before_the_log_was_found_again_is_no_residue() {
    let mut disk = mounted(&[50]);
    disk.commit_other(5, 1);
    disk.is_lazy = true;
    let mut disk = disk.restarted(true);
    disk.commit_other(6, 4);
    disk.read();
    disk.log(0, &superblock(5, 1));
    assert_eq!(disk.dead(), [0; 0]);
    assert_eq!(disk.figure("free by a committed map"), 0);
}

#[test]
fn amid_a_transaction_nothing_is_kept() {
    let mut disk = mounted(&[]);
    disk.log(1, &descriptor(5, &[(40, 0)]));
    assert_eq!(disk.rule.view(), None);
}

#[test]
fn a_view_that_is_cut_off_is_none() {
    let disk = mounted(&[50]);
    let view = disk.rule.view().unwrap();
    for len in 0..view.len() {
        assert!(!mounted(&[50]).rule.resume(&view[..len]), "{len}");
    }
}

#[test]
fn only_so_many_commits_wait() {
    let mut commits = Commits::default();
    assert!((0..64).all(|_| commits.push(1, false).is_some()));
    assert_eq!(commits.push(1, false), None);
}

#[test]
fn nothing_that_is_written_makes_it_panic() {
    let mut dice = Dice(11);
    let mut random = |below| dice.below(below);
    for _ in 0..300 {
        let mut disk = mounted(&[50]);
        for _ in 0..60 {
            let tid = 4 + random(6);
            let bytes = match random(7) {
                0 => superblock(tid, random(20)),
                1 => header(2, tid),
                2 => header(5, tid),
                3 => descriptor(tid, &[(MAP, random(2)), (random(80), 0)]),
                4 => map(&[50, 45 + random(10)]),
                _ => vec![random(256) as u8; BYTES],
            };
            let cut = if random(4) == 0 { 512 } else { BYTES };
            disk.is_lazy = random(2) == 0;
            let index = random(20);
            let block = if index == 0 || random(3) > 0 { place(index) } else { 2 + random(60) };
            disk.write(block, &bytes[..cut]);
            disk.now = Millis(disk.now.0 + u64::from(random(400)));
        }
        disk.dead();
    }
}
