use super::*;
use quietus_core::watch::WaitsFor;
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
    assert_eq!(disk.dead(), [free, &residue_without(&[])].concat().tap_sort());
    disk.mount();
    assert_eq!(disk.dead(), [0; 0]);
    disk
}

trait TapSort {
    fn tap_sort(self) -> Self;
}

impl TapSort for Vec<Block> {
    fn tap_sort(mut self) -> Self {
        self.sort_unstable();
        self
    }
}

#[test]
fn a_block_that_is_free_one_commit_after_its_write_lives() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit(5, 1, &[50]);
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn a_block_that_is_free_two_commits_after_its_write_is_dead() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit(5, 1, &[50]);
    disk.commit_other(6, 4);
    assert_eq!(disk.dead(), [50]);
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

#[test]
fn a_block_that_was_not_written_lately_is_dead_at_once() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn nothing_is_dead_before_the_evidence_is_durable() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    assert!(disk.verdict().is_none() && disk.rule.agenda().unproven_since.is_some());
    disk.observe(Observation::Cut);
    assert!(disk.verdict().is_none());
    disk.observe(Observation::Proven);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_write_revives() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    assert_eq!(disk.data(50), [50]);
    assert_eq!(disk.dead(), [0; 0]);
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [0; 0]);
    disk.commit_other(8, 10);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn what_was_condemned_is_dead_though_another_has_the_block() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    disk.commit(7, 7, &[]);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_new_owner_who_writes_revives_what_was_condemned() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    disk.commit(7, 7, &[]);
    assert_eq!(disk.write_at(50 * 1024 + 512, &[1; 512]), [50]);
    assert_eq!(disk.dead(), [0; 0]);
    assert_eq!(disk.data(50), [50]);
    assert_eq!(disk.data(50), [0; 0]);
}

#[test]
fn an_unmount_in_order_takes_no_death_back() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    disk.commit(7, 7, &[]);
    disk.write(MAP, &map(&[]));
    disk.log(0, &superblock(8, 0));
    disk.mark(0);
    disk.wait(500);
    assert!(disk.dead().contains(&50));
}

#[test]
fn at_grade_block_what_is_owned_does_not_die() {
    let mut disk = mounted(&[]);
    disk.rule.options.grade = Grade::Block;
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    disk.commit(7, 7, &[]);
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn a_tool_takes_back_what_it_finds_an_owner_of() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    disk.log(0, &superblock(7, 0));
    disk.mark(0);
    disk.write(MAP, &map(&[]));
    disk.wait(500);
    assert!(!disk.dead().contains(&50));
}

#[test]
fn what_is_free_and_written_is_destroyed_before_it_is_written_again() {
    let mut disk = mounted(&[50]);
    assert_eq!(disk.data(50), [0; 0]);
    assert_eq!(disk.data(50), [50]);
    disk.commit(5, 1, &[]);
    assert_eq!(disk.data(50), [0; 0]);
}

#[test]
fn a_transaction_counts_when_all_of_it_has_arrived() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(6, &header(2, 6));
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    assert_eq!(disk.figure("commits received"), 1);
    disk.log(5, &map(&[50]));
    assert_eq!(disk.figure("commits received"), 2);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_copy_that_came_before_its_descriptor_is_read() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(5, &map(&[50]));
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.is_lazy = true;
    disk.log(6, &header(2, 6));
    assert!(disk.rule.agenda().is_working);
    assert_eq!(disk.dead(), [0; 0]);
    disk.read();
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_copy_that_is_overwritten_is_seen_before() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(5, &map(&[50]));
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.is_lazy = true;
    disk.log(6, &header(2, 6));
    disk.log(5, &[0; BYTES]);
    assert_eq!(disk.dead(), [50]);
    assert_eq!(disk.rule.wants(), None);
}

#[test]
fn what_was_written_while_a_copy_was_read_lives() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(5, &map(&[50]));
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.is_lazy = true;
    disk.log(6, &header(2, 6));
    disk.data(50);
    disk.read();
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn commits_wait_for_those_before_them() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(5, &map(&[50]));
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.is_lazy = true;
    disk.log(6, &header(2, 6));
    disk.commit(7, 7, &[]);
    assert_eq!(disk.dead(), [0; 0]);
    assert_eq!(disk.figure("free by a committed map"), 0);
    disk.read();
    assert_eq!(disk.figure("free by a committed map"), 0);
    assert_eq!(disk.dead(), [50]);
    assert_eq!(disk.figure("commits received"), 3);
}

#[test]
fn an_escaped_map_is_restored() {
    let mut disk = mounted(&[]);
    disk.data(2);
    disk.commit_other(5, 1);
    let mut copy = map(&[2]);
    copy[..4].fill(0);
    disk.log(4, &descriptor(6, &[(MAP, 1)]));
    disk.log(5, &copy);
    disk.log(6, &header(2, 6));
    assert_eq!(disk.dead(), [0; 0]);
    assert_eq!(disk.rule.broken(), None);
}

#[test]
fn blocks_written_in_parts_are_read() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    for (index, bytes) in [(4, descriptor(6, &[(MAP, 0)])), (5, map(&[50])), (6, header(2, 6))] {
        disk.log_in_parts(index, &bytes);
    }
    assert_eq!(disk.dead(), [50]);
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
fn a_descriptor_that_is_written_again_leads_anew() {
    let mut disk = mounted(&[]);
    disk.log(1, &descriptor(5, &[(40, 0), (41, 0), (42, 0)]));
    disk.log(1, &descriptor(5, &[(40, 0)]));
    disk.log(2, &[9; BYTES]);
    disk.log(3, &header(2, 5));
    assert_eq!(disk.figure("commits received"), 1);
}

#[test]
fn what_was_free_and_is_allocated_again_is_suspicious_if_it_was_not_written_since() {
    let mut disk = mounted(&[50, 51]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.data(51);
    disk.commit(6, 4, &[]);
    assert_eq!(disk.data(50), [50]);
    assert_eq!(disk.data(51), [0; 0]);
}

#[test]
fn what_was_free_is_suspicious_once_that_is_not_known_any_more() {
    let mut disk = mounted(&[50, 51]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.data(51);
    disk.log(0, &superblock(8, 1));
    assert_eq!(disk.figure("free by a committed map"), 0);
    assert_eq!(disk.data(50), [50]);
    assert_eq!(disk.data(51), [0; 0]);
}

#[test]
fn numbers_that_come_again_count_for_nothing_yet() {
    let mut disk = mounted(&[50]);
    disk.commit_other(5, 1);
    disk.commit_other(6, 4);
    disk.data(50);
    disk.commit_other(7, 7);
    disk.log(0, &superblock(3, 0));
    disk.log(0, &superblock(3, 1));
    disk.commit(3, 1, &[50]);
    assert!(!disk.dead().contains(&50));
    disk.commit_other(4, 4);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_block_of_what_was_received_is_not_fresh_when_it_is_written_again() {
    let mut disk = mounted(&[]);
    disk.commit_other(5, 1);
    disk.log(3, &header(2, 5));
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), [1, 2, 3].map(place));
}

#[test]
fn the_log_goes_round() {
    let mut disk = mounted(&[]);
    for n in 0..5 {
        disk.commit_other(5 + n, 1 + 3 * n);
    }
    disk.data(50);
    disk.commit_other(10, 16);
    disk.log(0, &superblock(10, 16));
    disk.log(19, &descriptor(11, &[(MAP, 0)]));
    disk.log(1, &map(&[50]));
    disk.log(2, &header(2, 11));
    assert_eq!(disk.figure("commits received"), 7);
    assert_eq!(
        disk.dead(),
        residue_without(&[16, 17, 18, 19, 1, 2]).into_iter().chain([50]).collect::<Vec<_>>()
    );
}

#[test]
fn what_lies_before_the_tail_is_dead() {
    let mut disk = mounted(&[]);
    disk.commit_other(5, 1);
    disk.commit_other(6, 4);
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [0; 0]);
    disk.log(10, &descriptor(8, &[(40, 0)]));
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), [1, 2, 3].map(place));
    disk.log(0, &superblock(8, 10));
    assert_eq!(disk.dead(), [4, 5, 6, 7, 8, 9].map(place));
}

#[test]
fn an_empty_journal_is_dead_but_for_its_superblock() {
    let mut disk = mounted(&[]);
    disk.commit_other(5, 1);
    disk.log(4, &descriptor(6, &[(40, 0)]));
    disk.log(0, &superblock(6, 0));
    assert_eq!(disk.dead(), [1, 2, 3, 4].map(place));
}

#[test]
fn a_block_of_the_log_that_is_written_again_lives() {
    let mut disk = mounted(&[]);
    disk.commit_other(5, 1);
    disk.log(0, &superblock(6, 4));
    disk.log(2, &[1; BYTES]);
    assert_eq!(disk.dead(), [1, 3].map(place));
}

#[test]
fn a_transaction_that_was_missed_makes_all_maps_unknown() {
    let mut disk = mounted(&[50]);
    disk.data(50);
    disk.commit_other(6, 4);
    disk.commit_other(7, 7);
    disk.commit_other(8, 10);
    assert_eq!(disk.dead(), [0; 0]);
    assert_eq!(disk.figure("commits received"), 2);
    disk.commit(9, 13, &[50]);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_journal_in_use_is_learned_from_a_commit_block() {
    let mut disk = Disk::with(&[50], 1, &superblock(5, 1), false, false);
    disk.wait(1000);
    assert_eq!(disk.figure("place in the journal known (1: yes)"), 0);
    disk.log(6, &header(2, 6));
    disk.log(0, &superblock(6, 4));
    assert_eq!(disk.dead(), residue_without(&[4, 5, 6]));
    disk.commit(7, 7, &[50]);
    assert_eq!(disk.dead(), [0; 0]);
    disk.commit_other(8, 10);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_log_that_begins_anew_is_dead_and_maps_are_unknown() {
    let mut disk = mounted(&[50]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.log(4, &descriptor(6, &[(40, 0)]));
    disk.log(0, &superblock(7, 1));
    assert_eq!(disk.dead(), [1, 2, 3, 4].map(place));
    disk.commit_other(7, 1);
    disk.commit_other(8, 4);
    assert_eq!(disk.dead(), [0; 0]);
    disk.commit(9, 7, &[50]);
    assert_eq!(disk.dead(), [50]);
}

#[test]
fn a_tail_that_makes_no_sense_revives_the_journal() {
    let mut disk = mounted(&[50]);
    disk.commit_other(5, 1);
    disk.commit_other(6, 4);
    disk.log(0, &superblock(6, 4));
    disk.log(0, &superblock(5, 7));
    assert_eq!(disk.dead(), [0; 0]);
    assert_eq!(disk.figure("free by a committed map"), 0);
}

#[test]
fn a_map_that_has_the_journal_free_is_none() {
    let mut disk = mounted(&[]);
    disk.commit(5, 1, &[place(7)]);
    assert!(disk.rule.broken().unwrap().0.contains("journal"));
    assert!(disk.verdict().is_none());
}

#[test]
fn a_map_that_is_none_stops_inference() {
    let mut disk = mounted(&[]);
    disk.commit(5, 1, &[MAP]);
    assert!(disk.rule.broken().is_some());
}

#[test]
fn an_unknown_feature_stops_inference_by_name() {
    let mut log = superblock(5, 0);
    put(&mut log, 0x28, 0x20);
    let disk = Disk::with(&[], 0, &log, true, true);
    assert!(disk.rule.broken().unwrap().0.contains("fast_commit"));
}

#[test]
fn a_read_that_fails_stops_inference() {
    let mut disk = mounted(&[]);
    disk.observe(Observation::Given { extent: Extent::new(0, BYTES as u64), content: None });
    assert!(disk.rule.broken().is_some());
}

#[test]
fn maps_in_place_say_nothing_while_it_is_mounted() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit_other(6, 4);
    disk.write(MAP, &map(&[50]));
    disk.wait(1000);
    assert_eq!(disk.dead(), [0; 0]);
}

#[test]
fn an_unmount_in_order_settles_everything() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit(5, 1, &[50]);
    disk.write(MAP, &map(&[50]));
    disk.log(0, &superblock(6, 0));
    disk.mark(0);
    assert_eq!(disk.dead(), [1, 2, 3].map(place));
    disk.wait(500);
    assert_eq!(disk.dead(), [50]);
    assert!(!disk.rule.agenda().is_working);
}

#[test]
fn what_a_tool_frees_is_unconfirmed_if_it_was_written_recently() {
    let mut disk = mounted(&[]);
    disk.log(0, &superblock(5, 0));
    disk.mark(0);
    disk.wait(500);
    disk.data(50);
    disk.write(MAP, &map(&[50, 51]));
    disk.wait(500);
    assert_eq!(disk.dead(), [51]);
}

#[test]
fn a_map_that_was_committed_is_newer_than_what_lies_in_place() {
    let mut disk = Disk::new(&[50]);
    disk.mount();
    disk.commit(5, 1, &[]);
    disk.wait(500);
    assert!(!disk.dead().contains(&50));
}

#[test]
fn a_map_that_may_have_been_committed_unseen_is_not_believed_in_place() {
    let mut disk = Disk::new(&[50, 51]);
    disk.mark(1);
    disk.log(3, &header(2, 5));
    disk.wait(500);
    assert_eq!(disk.figure("free by a committed map"), 0);
    assert!(!disk.dead().contains(&51));
}

#[test]
fn what_was_written_since_an_attach_lives() {
    let mut disk = Disk::new(&[50, 51]);
    disk.data(50);
    disk.wait(500);
    let dead = disk.dead();
    assert!(!dead.contains(&50) && dead.contains(&51));
}

#[test]
fn what_the_guest_frees_itself_is_dead_by_another_source() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.commit_other(5, 1);
    disk.commit(6, 4, &[50]);
    disk.observe(Observation::Arrived { extent: Extent::new(50 * 1024, 1024), content: Content::Zeros });
    assert_eq!(disk.dead(), [0; 0]);
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
    let mut state = 11_u32;
    let mut random = move |below: u32| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) % below
    };
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
