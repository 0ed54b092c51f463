//! Cuts between epochs.

use super::*;
use crate::request::Reply;

impl Bench {
    fn close(&mut self, when: u64) -> RequestId {
        self.ask(Op::CloseEpoch { when, anew: false }, 0, 0)
    }

    fn closes(&mut self) -> Result<u64, Refusal> {
        self.replied(Op::CloseEpoch { when: 5, anew: false }, 0, 0).map(number)
    }

    /// The number that request `id` was answered with.
    fn closed(&mut self, id: RequestId) -> u64 {
        number(self.replies.remove(&id).expect("it was answered").expect("it was not refused"))
    }

    fn past(&mut self, epoch: u64, block: u64) -> u8 {
        self.done(Op::ReadPast(Epoch(epoch)), block * BLOCK, BLOCK).unwrap()[0]
    }
}

fn number(reply: Reply) -> u64 {
    let Reply::Closed(Epoch(number)) = reply else { panic!("{reply:?}") };
    number
}

#[test]
fn changes_that_arrived_before_a_cut_are_in_the_epoch_and_no_later_ones() {
    let (mut bench, book) = versions();
    let (first, one) = bench.held_write(0, 1);
    // Behind the first, so it begins after the cut.
    let second = bench.ask(Op::Write(vec![2; 4096].into()), 0, BLOCK);
    let (third, three) = bench.held_write(1, 3);
    let close = bench.close(77);
    let fourth = bench.ask(Op::Write(vec![4; 4096].into()), 0, BLOCK);
    bench.write(2 * BLOCK, 5, BLOCK);
    assert_eq!(book.open(), Epoch(1), "the epoch's writes are under way");
    bench.carry_out(three);
    bench.settle();
    assert!(bench.is_answered(third) && !bench.is_answered(second) && !bench.is_answered(close));
    assert_eq!(book.open(), Epoch(1));
    bench.carry_out(one);
    bench.settle();
    assert_eq!((bench.closed(close), book.get().durable.closed.clone()), (1, vec![77]));
    assert!([first, second, fourth].iter().all(|id| bench.replies[id].is_ok()));
    assert_eq!([0, 1, 2].map(|block| bench.past(1, block)), [2, 3, 0]);
    assert_eq!([0, 1, 2].map(|block| bench.reads(block * BLOCK, 1)[0]), [4, 3, 5]);
    assert_eq!(bench.closes(), Ok(2));
    assert_eq!([0, 1, 2].map(|block| bench.past(2, block)), [4, 3, 5]);
}

#[test]
fn parts_that_are_merged_after_the_cut_belong_where_they_arrived() {
    let (mut bench, _) = versions();
    bench.write(0, 7, BLOCK);
    let before = bench.ask(Op::Write(vec![1; 10].into()), 0, 10);
    let trim = bench.ask(Op::Trim, 10, 10);
    let close = bench.close(1);
    let after = bench.ask(Op::Write(vec![2; 10].into()), 20, 10);
    bench.settle();
    assert!([before, trim, after].iter().all(|id| bench.replies[id].is_ok()) && bench.closed(close) == 1);
    let past = bench.done(Op::ReadPast(Epoch(1)), 0, 31).unwrap();
    assert_eq!(past, [vec![1; 10], vec![0; 10], vec![7; 11]].concat());
    assert_eq!(bench.reads(0, 31), [vec![1; 10], vec![0; 10], vec![2; 10], vec![7; 1]].concat());
}

#[test]
fn without_a_change_no_epoch_is_made() {
    let (mut bench, book) = versions();
    assert_eq!(bench.closes(), Ok(0));
    bench.write(0, 7, BLOCK);
    assert_eq!((bench.closes(), bench.closes()), (Ok(1), Ok(1)));
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    assert_eq!((bench.closes(), bench.closes()), (Ok(2), Ok(2)));
    assert_eq!((book.open(), bench.past(1, 0), bench.past(2, 0)), (Epoch(3), 7, 0));
}

#[test]
fn closes_follow_each_other_and_one_without_a_change_joins_the_one_before() {
    let (mut bench, book) = versions();
    let (_, one) = bench.held_write(0, 1);
    let mut closes = vec![bench.close(10), bench.close(11)];
    bench.ask(Op::Write(vec![2; 4096].into()), 0, BLOCK);
    closes.push(bench.close(12));
    bench.ask(Op::Write(vec![3; 4096].into()), 0, BLOCK);
    closes.extend([bench.close(13), bench.close(14)]);
    bench.settle();
    assert!(closes.iter().all(|id| !bench.is_answered(*id)));
    bench.carry_out(one);
    bench.settle();
    let numbers: Vec<_> = closes.into_iter().map(|id| bench.closed(id)).collect();
    assert_eq!((numbers, book.get().durable.closed.clone()), (vec![1, 1, 2, 2, 2], vec![10, 12]));
    assert_eq!([1, 2].map(|epoch| bench.past(epoch, 0)), [1, 3]);
}

#[test]
fn a_death_before_the_cut_is_in_the_epoch_and_one_after_it_waits() {
    let (mut bench, book) = versions();
    bench.write(0, 7, 4 * BLOCK);
    let (_, read) = bench.held_read(0, BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    assert_eq!(bench.dead(), BLOCK, "a request reads there");
    let close = bench.close(1);
    let later = bench.ask(Op::Trim, BLOCK, BLOCK);
    let part = bench.ask(Op::Trim, 2 * BLOCK, 10);
    bench.settle();
    assert!(!bench.is_answered(close) && !bench.is_answered(later) && book.open() == Epoch(1));
    bench.carry_out(read);
    bench.settle();
    assert!(bench.replies[&later].is_ok() && bench.replies[&part].is_ok() && bench.closed(close) == 1);
    assert_eq!([0, 1, 2].map(|block| bench.past(1, block)), [0, 7, 7]);
    assert_eq!(bench.reads(0, 2 * BLOCK + 11), [vec![0; 8202], vec![7]].concat());
    bench.idle();
    let owed = bench.volume.status().counters.destroyed_bytes;
    assert_eq!(owed, BLOCK, "the epoch keeps the second block");
}

#[test]
fn what_is_found_dead_while_an_epoch_closes_dies_in_the_next_one() {
    let (mut bench, puppet) = (versions().0, Puppet::default());
    bench.write(0, 7, 2 * BLOCK);
    bench.volume.watch(Box::new(puppet.clone()));
    let (_, write) = bench.held_write(5, 5);
    let close = bench.close(1);
    puppet.finds_dead(Extent::new(0, BLOCK));
    bench.idle();
    assert_eq!((bench.dead(), bench.is_answered(close)), (0, false));
    bench.carry_out(write);
    bench.settle();
    bench.idle();
    assert_eq!((bench.closed(close), bench.past(1, 0), bench.reads(0, 1)), (1, 7, vec![0]));
    assert_eq!(bench.closes(), Ok(2), "the death is a change");
}

#[test]
fn a_close_is_durable_before_it_is_answered_and_a_crash_before_leaves_nothing_of_it() {
    let (mut bench, book) = versions();
    bench.write(0, 7, BLOCK);
    let close = bench.close(1);
    assert_eq!((book.open(), bench.is_answered(close)), (Epoch(2), false));
    let (mut bench, book) = open(book.crashed(), bench.data, bench.journal, None);
    assert_eq!(book.open(), Epoch(1));
    bench.write(0, 8, BLOCK);
    assert_eq!((bench.closes(), bench.past(1, 0)), (Ok(1), 8));
    let (mut bench, book) = open(book.crashed(), bench.data, bench.journal, None);
    assert_eq!((book.open(), bench.past(1, 0)), (Epoch(2), 8));
}

#[test]
fn a_failure_ends_a_close_and_what_waits_for_it() {
    let (mut bench, _) = versions();
    bench.write(BLOCK, 7, BLOCK);
    let (_, write) = bench.held_write(0, 1);
    let close = bench.close(1);
    let trim = bench.ask(Op::Trim, BLOCK, BLOCK);
    bench.settle();
    bench.data.broken.set(true);
    bench.carry_out(write);
    bench.settle();
    assert!([close, trim].iter().all(|id| matches!(bench.replies[id], Err(Refusal::Latched(_)))));
    assert!(matches!(bench.closes(), Err(Refusal::Latched(_))));
    assert!(bench.volume.is_at_rest());
}

#[test]
fn a_close_without_space_for_it_is_refused_and_the_next_one_finds_it_done() {
    let (mut bench, book) = versions();
    bench.write(0, 7, BLOCK);
    let map = |bench: &Bench, is_starved| bench.overlay.as_ref().expect("a map").0.starved.set(is_starved);
    map(&bench, true);
    assert!(matches!(bench.closes(), Err(Refusal::NoSpace(_))));
    map(&bench, false);
    assert_eq!((bench.closes(), book.get().durable.closed.len()), (Ok(1), 1));
}

#[test]
fn a_stop_waits_for_a_close_under_way_and_takes_no_other() {
    for drain in [false, true] {
        let (mut bench, book) = versions();
        let (_, write) = bench.held_write(0, 1);
        let close = bench.close(1);
        bench.tell(Event::Stop { drain });
        bench.settle();
        assert!(matches!(bench.closes(), Err(Refusal::ShuttingDown)) && !bench.volume.is_at_rest());
        bench.carry_out(write);
        bench.settle();
        assert_eq!((bench.closed(close), book.get().durable.closed.len()), (1, 1));
        assert!(bench.volume.is_at_rest());
    }
}

#[test]
fn a_disk_that_is_read_only_or_keeps_no_epochs_closes_none() {
    let (mut bench, _) = versions();
    let config = Config { read_only: true, ..bench.volume.config().clone() };
    bench.volume.reconfigure(config);
    assert!(matches!(bench.closes(), Err(Refusal::ReadOnly)));
    let mut bench = Bench::new("clear");
    assert!(matches!(bench.closes(), Err(Refusal::NotSupported(_))));
    let past = bench.done(Op::ReadPast(Epoch(1)), 0, BLOCK);
    assert!(matches!(past, Err(Refusal::NotSupported(_))));
}

#[test]
fn an_epoch_is_made_of_what_has_not_changed_only_if_that_is_asked_for() {
    let (mut bench, _) = versions();
    bench.write(0, 7, BLOCK);
    assert_eq!([bench.closes(), bench.closes()], [Ok(1), Ok(1)]);
    let anew = bench.replied(Op::CloseEpoch { when: 6, anew: true }, 0, 0).map(number);
    assert_eq!((anew, bench.past(2, 0)), (Ok(2), 7));
    assert_eq!(bench.closes(), Ok(2));
}
