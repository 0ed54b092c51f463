//! Marks below a journal: until a file has one, nothing has to be destroyed, and from then on everything.

use super::toy::*;
use crate::format::Block;
use quietus_core::units::Extent;
use quietus_core::watch::Class;

/// Mounted, with no file marked.
fn mounted(free: &[Block]) -> Disk {
    let mut disk = Disk::of_marks(free, true);
    disk.wait(500);
    disk.mount();
    assert_eq!((disk.dead(), disk.class()), (vec![], Class::Plain));
    disk
}

impl Disk {
    fn class(&self) -> Class {
        let place = Extent::new(50 * 1024, 1024);
        match self.rule.classes(place)[..] {
            [(at, class)] if at == place => class,
            ref other => panic!("{other:?}"),
        }
    }

    /// Block 50 is written, and dies with transactions `tid` and the next one, from `at` on.
    fn dies(&mut self, tid: u32, at: u32) -> Vec<Block> {
        self.data(50);
        self.commit_other(tid, at);
        self.commit(tid + 1, at + 3, &[50]);
        self.dead()
    }

    fn unmount(&mut self, tid: u32) {
        self.write(MAP, &map(&[50]));
        self.log(0, &superblock(tid, 0));
        self.mark(0);
        self.wait(500);
    }
}

#[test]
fn without_a_mark_nothing_has_to_be_destroyed() {
    let mut disk = mounted(&[51]);
    assert_eq!(disk.dies(5, 1), []);
    assert_eq!((disk.data(51), disk.data(51)), (vec![], vec![]));
    assert_eq!(disk.rule.waiting().count(), 0);
    assert_eq!(disk.rule.agenda().unproven_since, None);
    disk.unmount(7);
    assert_eq!((disk.dead(), disk.class()), (vec![], Class::Plain));
}

#[test]
fn from_the_commit_of_the_first_mark_on_everything_has_to_be_and_no_commit_takes_that_back() {
    let mut disk = mounted(&[]);
    disk.commit_inodes(5, 1, false);
    assert_eq!(disk.class(), Class::Plain);
    disk.commit_inodes(6, 4, true);
    assert_eq!(disk.class(), Class::Sensitive);
    disk.commit_inodes(7, 7, false);
    assert_eq!(disk.class(), Class::Sensitive);
    assert_eq!(disk.dies(8, 10), [50]);
}

#[test]
fn a_mark_that_was_received_and_not_read_yet_counts() {
    let mut disk = mounted(&[50]);
    disk.is_lazy = true;
    // The copy comes before it is expected, so that it is read.
    disk.log(2, &inodes(true));
    disk.log(1, &descriptor(5, &[(INODES, 0)]));
    disk.log(3, &header(2, 5));
    assert_eq!(disk.class(), Class::Unsettled);
    disk.data(50);
    assert_eq!(disk.data(50), [50], "it may be of the file with the mark");
    disk.read();
    assert_eq!(disk.class(), Class::Sensitive);
}

#[test]
fn a_commit_that_was_missed_may_have_a_mark_until_the_next_unmount() {
    let mut disk = mounted(&[]);
    disk.log(4, &header(2, 9));
    assert_eq!(disk.class(), Class::Unsettled);
    disk.commit_other(10, 5);
    assert_eq!(disk.dies(11, 8), [50]);
    disk.data(50);
    disk.unmount(13);
    assert_eq!((disk.class(), disk.dead()), (Class::Plain, vec![]));
    disk.log(0, &superblock(13, 1));
    disk.mark(1);
    assert_eq!(disk.dies(13, 1), []);
}

#[test]
fn a_tool_that_sets_a_mark_is_seen() {
    let mut disk = Disk::of_marks(&[], true);
    disk.wait(500);
    assert_eq!(disk.class(), Class::Plain);
    disk.is_lazy = true;
    disk.write(INODES, &inodes(true));
    assert_eq!(disk.class(), Class::Unsettled);
    disk.read();
    assert_eq!(disk.class(), Class::Sensitive);
}

#[test]
fn what_was_in_use_at_the_attach_is_searched_for_marks_at_the_unmount() {
    let mut disk = Disk::of_marks(&[], false);
    assert_eq!(disk.class(), Class::Unsettled);
    disk.unmount(5);
    assert_eq!(disk.class(), Class::Plain);
}

#[test]
fn a_clean_stop_keeps_what_is_known() {
    let mut disk = mounted(&[]).restarted(true);
    assert_eq!(disk.class(), Class::Plain);
    disk.commit_inodes(5, 1, true);
    assert_eq!(disk.restarted(true).class(), Class::Sensitive);
    assert_eq!(mounted(&[]).killed().class(), Class::Unsettled);
}

#[test]
fn beyond_the_file_system_everything_is_sensitive() {
    let disk = mounted(&[]);
    let all = Extent::new(0, u64::from(BLOCKS) * 1024 + 512);
    let inside = Extent::new(0, u64::from(BLOCKS) * 1024);
    let beyond = Extent::between(inside.end(), all.end());
    assert_eq!(disk.rule.classes(all), [(inside, Class::Plain), (beyond, Class::Sensitive)]);
}

#[cfg(feature = "mutants")]
#[test]
fn the_mutants_are_caught() {
    use crate::mutant::{self, Mutant};
    let tests: [fn(); 2] = [
        from_the_commit_of_the_first_mark_on_everything_has_to_be_and_no_commit_takes_that_back,
        a_commit_that_was_missed_may_have_a_mark_until_the_next_unmount,
    ];
    for mutant in Mutant::JOURNALED_MARKS {
        mutant::activate(Some(mutant));
        let is_caught = tests.iter().any(|test| std::panic::catch_unwind(test).is_err());
        mutant::activate(None);
        assert!(is_caught, "{mutant:?}");
    }
}
