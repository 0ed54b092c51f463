//! Reads of the past, and reads whose places are used again.

use super::*;
use crate::request::{AsOf, Reply};
use std::sync::atomic::Ordering::Relaxed;

const UNREADABLE: MediumErrorKind = MediumErrorKind::Io;

impl Bench {
    /// The operation `io` fails.
    fn fail(&mut self, io: &Io) {
        let error = MediumError { kind: UNREADABLE, message: "it does not open".into() };
        self.tell(Event::Completed(io.id, Err(error.into())));
    }

    fn ask_past(&mut self, epoch: u64) -> RequestId {
        self.ask(Op::ReadPast(Epoch(epoch)), 0, BLOCK)
    }

    fn epoch_with(&mut self, byte: u8) {
        self.write(0, byte, BLOCK);
        self.done(Op::CloseEpoch { when: 1, anew: false }, 0, 0).unwrap();
    }
}

#[test]
fn the_past_is_what_it_was_until_it_is_forgotten() {
    let (mut bench, book) = versions();
    bench.epoch_with(1);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    bench.done(Op::CloseEpoch { when: 2, anew: false }, 0, 0).unwrap();
    for (epoch, byte) in [(1, 1), (2, 0)] {
        assert_eq!(bench.done(Op::ReadPast(Epoch(epoch)), 10, 100), Ok(vec![byte; 100].into()));
    }
    book.get().now.forgotten.insert(Epoch(1));
    for epoch in [0, 1] {
        let read = bench.done(Op::ReadPast(Epoch(epoch)), 0, BLOCK);
        assert_eq!(read, Err(Refusal::Forgotten(Epoch(epoch))), "of {epoch}");
    }
    for epoch in [3, 9] {
        let read = bench.done(Op::ReadPast(Epoch(epoch)), 0, BLOCK);
        assert_eq!(read, Err(Refusal::Invalid("the epoch has not closed yet")), "of {epoch}");
    }
    let beyond = bench.done(Op::ReadPast(Epoch(2)), ODD_SIZE, 1);
    assert!(matches!(beyond, Err(Refusal::Invalid(_))));
}

#[test]
fn a_read_of_the_past_fetches_what_it_needs_and_follows_no_change() {
    let (mut bench, book) = versions();
    bench.epoch_with(1);
    let (_, _write) = bench.held_write(0, 2);
    book.get().absent.insert(0);
    let past = bench.ask_past(1);
    let page = bench.hold(|io| io.at.first().on == MediumId::Map);
    assert!(!bench.is_answered(past));
    bench.carry_out(page);
    bench.settle();
    assert_eq!(bench.replies[&past], Ok(vec![1; 4096].into()));
}

#[test]
fn a_read_of_the_past_does_not_keep_the_disk_from_being_idle() {
    let (mut bench, _) = versions();
    bench.epoch_with(1);
    bench.write(0, 2, BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    bench.now += 100;
    assert!(bench.done(Op::ReadPast(Epoch(1)), 0, BLOCK).is_ok());
    bench.done(Op::CloseEpoch { when: 1, anew: false }, 0, 0).unwrap();
    bench.tick(200);
    bench.settle();
    assert_eq!(bench.receipts.len(), 1);
}

#[test]
fn a_read_whose_place_was_given_up_reads_where_the_content_is_by_now() {
    let (mut bench, _) = versions();
    bench.write(0, 1, 2 * BLOCK);
    let (id, read) = bench.held_read(0, 2 * BLOCK);
    bench.write(BLOCK, 2, BLOCK);
    bench.fail(&read);
    bench.settle();
    assert_eq!(bench.replies[&id], Ok([[1; 4096], [2; 4096]].concat().into()));
    let (id, read) = bench.held_read(0, BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    bench.fail(&read);
    bench.settle();
    assert_eq!(bench.replies[&id], Ok(vec![0; 4096].into()), "it has died");
    let (id, read) = bench.held_read(BLOCK, BLOCK);
    bench.fail(&read);
    assert!(matches!(bench.replies[&id], Err(Refusal::Io(_))), "it lies where it lay");
}

#[test]
fn a_slow_reader_of_what_is_not_authenticated_never_gets_a_pass_or_another_blocks_content() {
    let (mut bench, book) = versions();
    book.get().now.reuses = Some(0);
    bench.epoch_with(1);
    for is_past in [false, true] {
        let id = if is_past { bench.ask_past(1) } else { bench.ask(Op::Read, 0, BLOCK) };
        let read = bench.hold(|io| io.op == IoOp::Read);
        let place = read.at.first();
        bench.write(0, 2, BLOCK);
        book.get().now.forgotten.insert(Epoch(1));
        bench.data.write(place.extent.start, &[0xff; 4096], false).unwrap();
        bench.volume.erasing.begun += 1;
        bench.carry_out(read);
        bench.settle();
        if is_past {
            assert_eq!(bench.replies[&id], Err(Refusal::Forgotten(Epoch(1))));
        } else {
            assert_eq!(bench.replies[&id], Ok(vec![2; 4096].into()));
            book.get().now.forgotten.clear();
        }
    }
    let (id, read) = bench.held_read(0, BLOCK);
    let slot = read.at.first().extent.start;
    (book.get().now.reuses, bench.volume.erasing.begun) = (Some(1), 10);
    bench.data.write(slot, &[0xff; 4096], false).unwrap();
    bench.carry_out(read);
    bench.data.write(slot, &[3; 4096], false).unwrap();
    bench.settle();
    assert_eq!(
        bench.replies[&id],
        Ok(vec![3; 4096].into()),
        "the slot may have been free, and is the block's again"
    );
}

#[test]
fn a_read_of_the_past_that_is_forgotten_meanwhile_says_so() {
    let (mut bench, book) = versions();
    bench.epoch_with(1);
    for is_forgotten in [false, true] {
        let past = bench.ask_past(1);
        let read = bench.hold(|io| io.op == IoOp::Read);
        if is_forgotten {
            book.get().now.forgotten.insert(Epoch(1));
        }
        bench.fail(&read);
        let expected = matches!(bench.replies[&past], Err(Refusal::Forgotten(Epoch(1))));
        assert_eq!(expected, is_forgotten);
    }
    assert_eq!(bench.latched, None);
}

#[test]
fn the_watcher_is_shown_content_that_lies_elsewhere_by_now_once() {
    let (mut bench, mut puppet) = (versions().0, Puppet::default());
    bench.write(BLOCK, 1, BLOCK);
    puppet.needs = vec![Extent::new(BLOCK, 512)];
    bench.volume.watch(Box::new(puppet.clone()));
    let write = bench.ask(Op::Write(vec![7; 10].into()), 0, 10);
    let look = bench.hold(|io| io.op == IoOp::Read);
    bench.write(BLOCK, 2, BLOCK);
    assert_eq!(puppet.told.shown.load(Relaxed), 0x01, "before the other write");
    bench.fail(&look);
    bench.settle();
    assert!(bench.replies[&write].is_ok());
    assert_eq!(puppet.told.shown.load(Relaxed), 0x0102);
}

#[test]
fn a_merge_whose_page_memory_loses_begins_again() {
    let (mut bench, book) = versions();
    bench.write(0, 7, 3 * BLOCK);
    let write = bench.ask(Op::Write(vec![9; 8192].into()), 100, 2 * BLOCK);
    let read = bench.hold(|io| io.op == IoOp::Read);
    book.get().absent.extend([0, 1, 2]);
    bench.carry_out(read);
    bench.settle();
    assert!(bench.replies[&write].is_ok());
    assert_eq!(bench.reads(0, 3 * BLOCK), [vec![7; 100], vec![9; 8192], vec![7; 3996]].concat());
    let trim = bench.ask(Op::Trim, 100, 2 * BLOCK);
    for _ in 0..2 {
        let read = bench.hold(|io| io.op == IoOp::Read && io.at.first().on == MediumId::Data);
        book.get().absent.extend([0, 1, 2]);
        bench.carry_out(read);
        while let Some(at) = bench.todo.iter().position(|io| io.at.first().on == MediumId::Map) {
            let page = bench.todo.remove(at).expect("it was found");
            bench.carry_out(page);
        }
    }
    bench.settle();
    assert!(bench.replies[&trim].is_ok());
    assert_eq!(bench.reads(0, 3 * BLOCK), [vec![7; 100], vec![0; 8192], vec![7; 3996]].concat());
}

#[test]
fn a_merge_that_cannot_read_changes_nothing_and_is_one_refusal() {
    let (mut bench, _) = versions();
    bench.write(0, 7, BLOCK);
    for op in [Op::Write(vec![9; 10].into()), Op::Trim] {
        let id = bench.ask(op, 0, 10);
        let read = bench.hold(|io| io.op == IoOp::Read);
        bench.fail(&read);
        bench.settle();
        assert!(matches!(bench.replies[&id], Err(Refusal::Io(_))));
    }
    assert_eq!((bench.latched.clone(), bench.reads(0, BLOCK)), (None, vec![7; 4096]));
}

impl Bench {
    /// The blocks that differ, as the replies to as many requests as it takes say.
    fn differing(&mut self, states: [AsOf; 2]) -> Vec<u64> {
        let (mut blocks, mut at) = (Vec::new(), 0);
        while at < ODD_SIZE {
            let reply = self.replied(Op::Compare(states), at, ODD_SIZE - at);
            let Ok(Reply::Compared(compared)) = reply else { panic!("{reply:?}") };
            assert!(compared.end > at && compared.end <= ODD_SIZE);
            let runs = compared.differing.iter();
            blocks.extend(runs.flat_map(|run| run.start.0 / BLOCK..run.end().div_ceil(BLOCK)));
            at = compared.end;
        }
        blocks
    }
}

#[test]
fn what_was_written_or_freed_between_two_states_differs() {
    let (mut bench, book) = versions();
    let last = ODD_SIZE / BLOCK;
    bench.epoch_with(1);
    bench.write(2 * BLOCK, 7, BLOCK);
    bench.write(last * BLOCK, 7, ODD_SIZE % BLOCK);
    bench.done(Op::CloseEpoch { when: 2, anew: false }, 0, 0).unwrap();
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    let [one, two] = [1, 2].map(|epoch| AsOf::End(Epoch(epoch)));
    assert_eq!(bench.differing([one, two]), [2, last]);
    assert_eq!(bench.differing([AsOf::Beginning, two]), [0, 2, last]);
    assert_eq!(bench.differing([one, AsOf::Now]), [0, 2, last]);
    book.get().absent.extend([0, 1, 2, 5]);
    assert_eq!(bench.differing([AsOf::Now, two]), [0]);
    book.get().now.forgotten.insert(Epoch(1));
    for states in [[one, two], [AsOf::Now, one], [AsOf::End(Epoch(3)), AsOf::Now]] {
        let refused = bench.done(Op::Compare(states), 0, BLOCK);
        assert!(matches!(refused, Err(Refusal::Forgotten(_))), "{states:?}: {refused:?}");
    }
}

#[test]
fn what_is_dead_and_has_not_left_its_place_differs_from_a_state_that_shows_it() {
    let (mut bench, _) = versions();
    bench.epoch_with(1);
    bench.write(BLOCK, 7, 2 * BLOCK);
    bench.done(Op::Flush, 0, 0).unwrap();
    let (_, read) = bench.held_read(0, 3 * BLOCK);
    bench.done(Op::Trim, 0, 2 * BLOCK).unwrap();
    assert_eq!(bench.dead(), 2 * BLOCK, "a request still reads there");
    assert_eq!(bench.differing([AsOf::End(Epoch(1)), AsOf::Now]), [0, 2]);
    assert_eq!(bench.differing([AsOf::Now, AsOf::Beginning]), [2]);
    bench.carry_out(read);
    bench.settle();
    assert_eq!(bench.dead(), 0);
    assert_eq!(bench.differing([AsOf::End(Epoch(1)), AsOf::Now]), [0, 2]);
}
