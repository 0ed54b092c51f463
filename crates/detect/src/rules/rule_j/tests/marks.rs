//! Marks below a journal: what no marked file has is plain, by the commits.

use crate::formats::format::Block;
use crate::rules::rule::Rule as _;
use crate::rules::rule_j::tests::toy::*;
use quietus_core::base::units::Extent;
use quietus_core::watch::{Class, Scope};

/// Mounted, with no file marked.
fn mounted(free: &[Block]) -> Disk {
    let mut disk = Disk::of_marks(free, true);
    disk.wait(500);
    disk.mount();
    assert_eq!((disk.dead(), disk.class_of(50)), (vec![], Class::Plain));
    disk
}

impl Disk {
    fn class_of(&self, block: Block) -> Class {
        let place = Extent::new(u64::from(block) * 1024, 1024);
        match self.rule.classes(place)[..] {
            [(at, class)] if at == place => class,
            ref other => panic!("{other:?}"),
        }
    }

    fn classes(&self, blocks: &[Block]) -> Vec<Class> {
        blocks.iter().map(|block| self.class_of(*block)).collect()
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
    assert_eq!(disk.dies(5, 1), [0; 0]);
    assert_eq!((disk.data(51), disk.data(51)), (vec![], vec![]));
    assert_eq!(disk.rule.waiting().count(), 0);
    assert_eq!(disk.rule.agenda().unproven_since, None);
    disk.unmount(7);
    assert_eq!((disk.dead(), disk.class_of(50)), (vec![], Class::Plain));
}

/// Mounted, with a marked file whose inode transaction 5 has brought. It has `block`, of this level. The next
/// transaction lies from block 4 on.
fn marked(block: Block, level: u8) -> Disk {
    let mut disk = mounted(&[]);
    disk.commit_all(5, 1, &[(INODES, table(&[file(block, level)]))]);
    disk
}

/// The marked file.
fn file(block: Block, level: u8) -> Inode {
    Inode { number: 1, is_marked: true, generation: 1, block, level, ..Inode::default() }
}

/// Pointers, or entries, in a block.
fn names(numbers: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0; BYTES];
    bytes[..numbers.len()].copy_from_slice(numbers);
    bytes
}

use Class::{Plain, Sensitive, Unsettled};

#[test]
fn what_no_marked_file_has_as_of_the_next_commit_is_plain() {
    let mut disk = marked(50, 0);
    assert_eq!(disk.classes(&[50, 52]), [Sensitive, Plain]);
    disk.data(52);
    disk.data(53);
    assert_eq!(disk.classes(&[50, 52, 53]), [Sensitive, Unsettled, Unsettled]);
    disk.commit(6, 4, &[53]);
    assert_eq!(disk.classes(&[50, 52, 53]), [Sensitive, Plain, Unsettled]);
}

#[test]
fn plain_content_dies_for_free_and_other_content_as_always() {
    let mut disk = marked(50, 0);
    disk.data(52);
    disk.data(53);
    disk.commit(6, 4, &[53]);
    disk.commit(7, 7, &[50, 52, 53]);
    disk.commit_other(8, 10);
    assert_eq!(disk.dead(), [50, 53]);
    assert_eq!(disk.data(52), [0; 0]);
}

#[test]
fn content_that_was_there_before_the_next_commit_is_no_later_owners() {
    let mut disk = marked(50, 0);
    disk.data(52);
    // Its file is gone as of 6, and another has the block as of 7, in advance.
    disk.commit(6, 4, &[52]);
    disk.commit(7, 7, &[]);
    assert_eq!(disk.class_of(52), Unsettled);
    let one_pass = Scope { layers: false, all: false, is_busy: &|_| false };
    assert_eq!(disk.rule.verdict(one_pass), None);
    disk.commit_other(8, 10);
    assert_eq!(disk.class_of(52), Unsettled);
    disk.data(52);
    disk.commit_other(9, 13);
    assert_eq!(disk.class_of(52), Plain);
}

#[test]
fn content_that_came_while_a_commit_was_logged_settles_by_the_next_one() {
    let mut disk = marked(50, 0);
    disk.data(53);
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.data(52);
    disk.log(5, &map(&[52, 53]));
    disk.log(6, &header(2, 6));
    assert_eq!(disk.classes(&[52, 53]), [Unsettled; 2]);
    disk.commit(7, 7, &[]);
    assert_eq!(disk.classes(&[52, 53]), [Plain, Unsettled]);
}

#[test]
fn content_does_not_settle_by_a_commit_that_was_overtaken() {
    let mut disk = marked(50, 0);
    disk.is_lazy = true;
    disk.data(52);
    disk.log(4, &descriptor(6, &[(MAP, 0)]));
    disk.log(5, &map(&[]));
    disk.log_in_parts(6, &header(2, 6));
    // The guest went on, and 52 may be another file's by now.
    disk.log(7, &descriptor(7, &[(40, 0)]));
    disk.data(53);
    disk.log(8, &[9; BYTES]);
    disk.log(9, &header(2, 7));
    disk.read();
    assert_eq!(disk.classes(&[52, 53]), [Unsettled; 2]);
}

#[test]
fn a_part_of_a_block_does_not_make_the_rest_plain() {
    let mut disk = marked(50, 0);
    disk.data(52);
    disk.commit(6, 4, &[52]);
    disk.commit(7, 7, &[]);
    disk.write_at(52 * 1024, &[1; 512]);
    disk.commit_other(8, 10);
    assert_eq!(disk.class_of(52), Unsettled);
}

#[test]
fn the_first_mark_covers_what_the_file_has_and_nothing_else() {
    let mut disk = mounted(&[]);
    disk.data(50);
    disk.data(52);
    disk.commit_all(5, 1, &[(INODES, table(&[Inode { is_marked: false, ..file(50, 0) }]))]);
    assert_eq!(disk.classes(&[50, 52]), [Plain, Plain]);
    disk.data(53);
    disk.commit_all(6, 4, &[(INODES, table(&[file(50, 0)]))]);
    assert_eq!(disk.classes(&[50, 52, 53]), [Sensitive, Plain, Plain]);
}

#[test]
fn a_marked_file_is_followed_by_its_blocks_of_pointers_in_the_same_commit() {
    let mut disk = mounted(&[]);
    disk.commit_all(5, 1, &[(45, names(&[46, 47])), (INODES, table(&[file(45, 1)]))]);
    assert_eq!(disk.classes(&[45, 46, 47, 48]), [Sensitive, Sensitive, Sensitive, Plain]);
    // The block is known now, and its copy is kept.
    disk.commit_all(6, 5, &[(45, names(&[46, 48]))]);
    assert_eq!(disk.classes(&[46, 47, 48]), [Sensitive; 3]);
}

#[test]
fn blocks_of_pointers_are_read_in_the_log_or_else_in_place() {
    let mut disk = mounted(&[]);
    disk.write(45, &names(&[46]));
    disk.write(54, &names(&[55]));
    disk.commit_all(5, 1, &[(45, names(&[47]))]);
    disk.commit_all(6, 4, &[(INODES, table(&[file(45, 1), Inode { number: 2, ..file(54, 1) }]))]);
    assert_eq!(disk.classes(&[47, 55, 56]), [Sensitive, Sensitive, Plain]);
}

#[test]
fn what_is_being_read_is_waited_for() {
    let mut disk = mounted(&[]);
    disk.write(45, &names(&[47]));
    disk.data(47);
    disk.is_lazy = true;
    disk.commit_all(5, 1, &[(INODES, table(&[file(45, 1)]))]);
    disk.commit(6, 4, &[47]);
    disk.commit(7, 7, &[]);
    assert_eq!(disk.classes(&[47, 52]), [Unsettled; 2]);
    // The old content is seen before it is overwritten.
    disk.write(45, &names(&[48]));
    disk.read();
    assert_eq!(disk.classes(&[47, 48, 52]), [Sensitive, Plain, Plain]);
    disk.commit(8, 10, &[47]);
    disk.commit_other(9, 13);
    assert_eq!(disk.dead(), [47]);
}

#[test]
fn the_entries_of_a_marked_folder_mark_files() {
    let mut disk = mounted(&[]);
    let folder = Inode { is_folder: true, ..file(45, 0) };
    let child = Inode { number: 7, is_marked: false, ..file(51, 0) };
    let other = Inode { number: 8, is_marked: false, ..file(52, 0) };
    let inodes = |all: &[Inode]| (INODES, table(all));
    disk.commit_all(5, 1, &[inodes(&[folder, child, other]), (45, names(&[7]))]);
    assert_eq!(disk.classes(&[45, 51, 52]), [Sensitive, Sensitive, Plain]);
    // It is moved out, and gets another block.
    disk.commit_all(6, 5, &[inodes(&[folder, Inode { block: 53, ..child }, other]), (45, names(&[]))]);
    assert_eq!(disk.class_of(53), Sensitive);
    // Its number is another file's.
    disk.commit_all(7, 9, &[inodes(&[folder, Inode { block: 54, generation: 2, ..child }, other])]);
    assert_eq!(disk.class_of(54), Plain);
}

#[test]
fn a_file_whose_flag_is_cleared_stays_marked() {
    let mut disk = marked(50, 0);
    disk.commit_all(6, 4, &[(INODES, table(&[Inode { is_marked: false, block: 53, ..file(0, 0) }]))]);
    assert_eq!(disk.classes(&[50, 53]), [Sensitive; 2]);
    disk.data(50);
    disk.commit(7, 7, &[50]);
    disk.commit_other(8, 10);
    assert_eq!(disk.dead(), [50]);
    disk.data(50);
    disk.commit(9, 13, &[]);
    assert_eq!(disk.class_of(50), Plain);
}

#[test]
fn a_copy_that_comes_to_its_place_after_its_block_was_freed_is_still_the_marked_files() {
    let mut disk = mounted(&[]);
    disk.commit_all(5, 1, &[(INODES, table(&[file(45, 1)])), (45, names(&[46]))]);
    let freed = [(INODES, table(&[file(0, 0)])), (MAP, map(&[45, 46]))];
    disk.commit_all(6, 5, &freed);
    disk.write(45, &names(&[46]));
    disk.data(46);
    // The guest knows of 6 only now, and another file gets both.
    disk.commit(7, 9, &[]);
    assert_eq!(disk.classes(&[45, 46]), [Sensitive, Plain]);
    disk.data(45);
    disk.commit_other(8, 12);
    assert_eq!(disk.class_of(45), Sensitive);
}

#[test]
fn after_a_crash_of_the_guest_nothing_settles() {
    let mut disk = marked(50, 0);
    disk.data(52);
    // The guest crashes, and mounts the file system again.
    disk.mark(2);
    disk.commit_other(6, 4);
    assert_eq!(disk.class_of(52), Sensitive);
}

#[test]
fn where_freed_blocks_are_used_at_once_nothing_settles() {
    let mut disk = Disk::of_writeback();
    disk.wait(500);
    disk.mount();
    assert_eq!(disk.class_of(50), Plain);
    disk.commit_all(5, 1, &[(INODES, table(&[file(50, 0)]))]);
    disk.data(52);
    disk.commit_other(6, 4);
    assert_eq!(disk.classes(&[50, 52, 53]), [Sensitive, Unsettled, Unsettled]);
    assert!(disk.rule.marks().is_err());
}

#[test]
fn a_mark_that_was_received_and_not_read_yet_counts() {
    let mut disk = mounted(&[50]);
    disk.is_lazy = true;
    // The copy comes before it is expected, so that it is read.
    disk.log(2, &table(&[file(0, 0)]));
    disk.log(1, &descriptor(5, &[(INODES, 0)]));
    disk.log(3, &header(2, 5));
    assert_eq!(disk.class_of(50), Class::Unsettled);
    disk.data(50);
    assert_eq!(disk.data(50), [50], "it may be of the file with the mark");
    disk.read();
    assert_eq!(disk.class_of(50), Class::Unsettled, "it belongs to what names it as of the next commit");
    disk.commit(6, 4, &[]);
    assert_eq!(disk.class_of(50), Class::Plain);
}

#[test]
fn a_commit_that_was_missed_may_have_a_mark_until_the_next_unmount() {
    let mut disk = mounted(&[]);
    disk.log(4, &header(2, 9));
    assert_eq!(disk.class_of(50), Class::Unsettled);
    disk.commit_other(10, 5);
    assert_eq!(disk.dies(11, 8), [50]);
    disk.data(50);
    disk.unmount(13);
    assert_eq!((disk.class_of(50), disk.dead()), (Class::Plain, vec![]));
    disk.log(0, &superblock(13, 1));
    disk.mark(1);
    assert_eq!(disk.dies(13, 1), [0; 0]);
}

#[test]
fn what_was_in_use_at_the_attach_is_searched_for_marks_at_the_unmount() {
    let mut disk = Disk::of_marks(&[], false);
    assert_eq!(disk.class_of(50), Class::Unsettled);
    disk.unmount(5);
    assert_eq!(disk.class_of(50), Class::Plain);
}

#[test]
fn a_clean_stop_keeps_what_is_known() {
    let mut disk = mounted(&[]).restarted(true);
    assert_eq!(disk.class_of(50), Class::Plain);
    disk.commit_all(5, 1, &[(45, names(&[46]))]);
    disk.data(52);
    let mut disk = disk.restarted(true);
    disk.commit_all(6, 4, &[(INODES, table(&[file(45, 1)]))]);
    disk.data(53);
    let mut disk = disk.restarted(true);
    assert_eq!(disk.classes(&[45, 46, 52, 53]), [Sensitive, Sensitive, Plain, Unsettled]);
    disk.commit_all(7, 7, &[(45, names(&[47]))]);
    assert_eq!(disk.classes(&[47, 53]), [Sensitive, Plain]);
    assert_eq!(mounted(&[]).killed().class_of(50), Class::Unsettled);
}

#[test]
fn a_view_of_a_tree_that_leads_out_of_the_file_system_does_not_count() {
    let disk = marked(45, 1);
    let mut view = disk.rule.view().expect("it is calm");
    assert!(disk.takes(&view));
    // Its last node: the block, and the role.
    let node = view.len() - 8;
    assert_eq!(view[node], 45);
    view[node] = BLOCKS as u8;
    assert!(!disk.takes(&view));
}

#[test]
fn a_file_that_a_marked_folder_names_many_times_stays_marked_when_some_names_go() {
    let mut disk = mounted(&[]);
    let folder = Inode { is_folder: true, ..file(45, 0) };
    let child = Inode { number: 7, is_marked: false, ..file(51, 0) };
    let inodes = |child| (INODES, table(&[folder, child]));
    disk.commit_all(5, 1, &[inodes(child), (45, names(&[7; 200]))]);
    disk.commit_all(6, 5, &[inodes(child), (45, names(&[7; 3]))]);
    disk.commit_all(7, 9, &[inodes(Inode { block: 53, ..child }), (45, names(&[]))]);
    assert_eq!(disk.classes(&[51, 53]), [Sensitive; 2]);
}

#[test]
fn marks_that_were_lost_are_not_forgotten() {
    let mut disk = marked(50, 0);
    disk.log(10, &header(2, 9));
    assert_eq!(disk.classes(&[50, 52]), [Sensitive, Unsettled]);
    disk.unmount(13);
    assert_eq!(disk.classes(&[50, 52]), [Sensitive, Unsettled]);
}

#[cfg(debug_assertions)]
#[test]
fn the_mutants_are_caught() {
    use crate::mutant::{self, Mutant};
    let tests: [fn(); 8] = [
        a_commit_that_was_missed_may_have_a_mark_until_the_next_unmount,
        what_no_marked_file_has_as_of_the_next_commit_is_plain,
        content_that_was_there_before_the_next_commit_is_no_later_owners,
        content_that_came_while_a_commit_was_logged_settles_by_the_next_one,
        blocks_of_pointers_are_read_in_the_log_or_else_in_place,
        a_copy_that_comes_to_its_place_after_its_block_was_freed_is_still_the_marked_files,
        after_a_crash_of_the_guest_nothing_settles,
        where_freed_blocks_are_used_at_once_nothing_settles,
    ];
    for mutant in Mutant::JOURNALED_MARKS {
        mutant::activate(Some(mutant));
        let is_caught = tests.iter().any(|test| std::panic::catch_unwind(test).is_err());
        mutant::activate(None);
        assert!(is_caught, "{mutant:?}");
    }
}
