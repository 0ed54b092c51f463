//! What lies below extents that committed inodes name as unwritten is waited for.

use crate::rules::rule_j::tests::toy::*;
use quietus_core::watch::WaitsFor;

#[test]
fn what_a_file_gave_up_in_place_waits_for_its_content_and_is_dead_two_commits_later() {
    let mut disk = Disk::of_extents();
    disk.wait(500);
    disk.dead();
    disk.mount();
    disk.data(50);
    let inodes = |unwritten| [&[unwritten][..], &[0; BYTES - 1]].concat();
    disk.commit_all(5, 1, &[(EXTENTS, inodes(0))]);
    // The guest is active for longer than it takes to settle.
    for _ in 0..25 {
        disk.wait(1000);
        disk.data(60);
    }
    disk.commit_all(6, 4, &[(EXTENTS, inodes(50))]);
    assert_eq!(disk.rule.waiting().filter(|it| it.0 == WaitsFor::Content).count(), 1);
    disk.commit_other(7, 7);
    assert_eq!(disk.dead(), [0; 0]);
    disk.commit_other(8, 10);
    assert_eq!(disk.dead(), [50]);
    assert_eq!(disk.figure("dead below unwritten extents"), 1);
}
