//! A store that keeps versions: whole blocks, deaths that leave their places, epochs.

mod book;
mod closing;
mod dying;
mod kept_out;
mod past;
mod sets;

use super::layers::Puppet;
use super::leaving::BLOCK;
use super::*;
use crate::base::units::Epoch;
use crate::store::Epochs;
use book::Book;

/// A disk whose last block is shorter than the others.
const ODD_SIZE: u64 = SIZE - 1000;

fn versions() -> (Bench, Book) {
    of_size(ODD_SIZE, 64 << 10)
}

/// A disk of `size` bytes, with half a journal of so many.
fn of_size(size: u64, half_bytes: u64) -> (Bench, Book) {
    let shape = Shape { half_bytes, slots: 16 };
    let journal = Memory::new(shape.bytes());
    let checkpoint = Volume::format(&journal, shape, DISK, None, None).unwrap();
    open(Book::new(size), Memory::new(2 * SIZE), journal, Some(checkpoint))
}

/// A volume above `book`, whose journal owes nothing by place.
fn open(book: Book, data: Memory, journal: Memory, checkpoint: Option<Checkpoint>) -> (Bench, Book) {
    let overlay = Some((Memory::new(1 << 16), Memory::new(0)));
    let config = Config::new("purge-2".parse().unwrap());
    let opening = opening(config, 2 * SIZE, checkpoint);
    let mut volume = Volume::open(opening, &media(&data, &journal, overlay.as_ref())).unwrap();
    volume.holes_known();
    volume.disk.store = Box::new(book.clone());
    (Bench::of(volume, data, journal, overlay), book)
}

impl Bench {
    /// Takes the first operation out that is as wanted: it does not end.
    fn hold(&mut self, is_wanted: impl Fn(&Io) -> bool) -> Io {
        let at = self.todo.iter().position(is_wanted);
        at.and_then(|at| self.todo.remove(at)).unwrap_or_else(|| panic!("{:?}", self.todo))
    }

    /// Sends a write that does not end.
    fn held_write(&mut self, block: u64, byte: u8) -> (RequestId, Io) {
        let id = self.ask(Op::Write(vec![byte; BLOCK as usize].into()), block * BLOCK, BLOCK);
        (id, self.hold(|io| matches!(&io.op, IoOp::Write { data, .. } if data[..] == [byte; BLOCK as usize])))
    }

    /// Sends a read that does not end.
    fn held_read(&mut self, start: u64, len: u64) -> (RequestId, Io) {
        let id = self.ask(Op::Read, start, len);
        (id, self.hold(|io| io.op == IoOp::Read))
    }

    fn is_answered(&self, id: RequestId) -> bool {
        self.replies.contains_key(&id)
    }

    fn dead(&self) -> u64 {
        self.volume.disk.state.ledger.dead().bytes()
    }

    fn owed(&self) -> u64 {
        self.volume.disk.state.owed.bytes()
    }
}

#[test]
fn a_disk_that_has_latched_writes_no_rest_of_a_block() {
    let (mut bench, _) = versions();
    bench.write(0, 7, BLOCK);
    let trim = bench.ask(Op::Trim, 0, 512);
    assert!(bench.todo.front().is_some_and(|io| io.op == IoOp::Read), "the block is read first");
    bench.tell(Event::Failed(MediumError { kind: MediumErrorKind::Io, message: "gone".into() }));
    bench.settle();
    assert!(matches!(bench.replies[&trim], Err(Refusal::Latched(_))), "{:?}", bench.replies[&trim]);
    assert_eq!(bench.reads(0, BLOCK), [7; BLOCK as usize]);
}

#[test]
fn a_write_of_parts_of_blocks_keeps_the_rest_of_them() {
    let (mut bench, _) = versions();
    bench.write(0, 7, 4 * BLOCK);
    bench.write(1000, 9, 2 * BLOCK);
    let expected = [vec![7; 1000], vec![9; 8192], vec![7; 3 * 4096 - 1000 - 8192 + 4096]].concat();
    assert_eq!(bench.reads(0, 4 * BLOCK), expected);
    bench.write(3 * BLOCK + 5, 8, 10);
    assert_eq!(bench.reads(3 * BLOCK, 20), [vec![7; 5], vec![8; 10], vec![7; 5]].concat());
}

#[test]
fn parts_of_the_first_and_the_last_block_can_be_written_though_the_last_one_is_short() {
    let (mut bench, book) = versions();
    bench.write(0, 7, 10);
    bench.write(ODD_SIZE - 5000, 8, 4990);
    assert_eq!(bench.reads(0, 20), [[7; 10], [0; 10]].concat());
    let last = ODD_SIZE / BLOCK * BLOCK;
    assert_eq!(bench.reads(ODD_SIZE - 15, 15), [vec![8; 5], vec![0; 10]].concat());
    bench.write(last, 9, ODD_SIZE - last);
    assert_eq!(bench.reads(last - 1, 2), [8, 9]);
    bench.done(Op::Trim, last, ODD_SIZE - last).unwrap();
    assert_eq!(book.get().now.shown(last / BLOCK, Epoch(1)), None);
    bench.idle();
    assert!(bench.volume.is_drained());
}

#[test]
fn two_writes_of_parts_of_one_block_at_once_are_both_there() {
    let (mut bench, _) = versions();
    bench.write(0, 7, 2 * BLOCK);
    for (start, byte) in [(0, 1), (8190, 2), (4090, 3), (4000, 4)] {
        bench.ask(Op::Write(vec![byte; 100].into()), start.min(8092), 100);
    }
    bench.settle();
    assert!(bench.replies.values().all(|it| it.is_ok()));
    let read = bench.reads(0, 2 * BLOCK);
    assert_eq!([read[0], read[100], read[4000], read[4100], read[8091], read[8092]], [1, 7, 4, 3, 7, 2]);
}

#[test]
fn what_is_merged_with_dead_parts_gets_zeros_and_waits_until_they_have_left() {
    let (mut bench, _) = versions();
    bench.write(0, 7, 2 * BLOCK);
    bench.done(Op::Flush, 0, 0).unwrap();
    let (_, read) = bench.held_read(0, 2 * BLOCK);
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    assert_eq!(bench.dead(), BLOCK, "a request still reads there");
    let write = bench.ask(Op::Write(vec![9; 4096].into()), 100, BLOCK);
    bench.settle();
    assert!(!bench.is_answered(write) && bench.dead() == BLOCK);
    bench.carry_out(read);
    assert_eq!(bench.dead(), 0);
    bench.settle();
    assert!(bench.replies[&write].is_ok());
    assert_eq!(bench.reads(0, 2 * BLOCK), [vec![0; 100], vec![9; 4096], vec![7; 3996]].concat());
}

#[test]
fn a_part_that_is_written_with_fua_is_durable_before_it_is_answered() {
    let (mut bench, book) = versions();
    bench.write(0, 7, BLOCK);
    let id = bench.ask_fua(Op::Write(vec![9; 10].into()), 0, 10, true);
    let sync = loop {
        let io = bench.todo.pop_front().expect("a checkpoint comes");
        if io.op == IoOp::Sync {
            break io;
        }
        bench.carry_out(io);
    };
    assert!(!bench.is_answered(id));
    bench.carry_out(sync);
    bench.settle();
    assert!(bench.replies[&id].is_ok());
    let it = book.get();
    assert_eq!(it.durable.shown(0, Epoch(1)), it.now.shown(0, Epoch(1)));
}

#[test]
fn a_death_of_parts_of_blocks_writes_what_is_left_and_is_durable_before_it_is_answered() {
    let (mut bench, book) = versions();
    bench.write(0, 7, 4 * BLOCK);
    let slots = |book: &Book| [0, 1, 2].map(|block| book.get().now.shown(block, Epoch(1)));
    let before = slots(&book);
    let id = bench.ask(Op::Trim, 1000, 2 * BLOCK);
    let sync = loop {
        let io = bench.todo.pop_front().expect("a checkpoint comes");
        if io.op == IoOp::Sync {
            break io;
        }
        bench.carry_out(io);
    };
    assert!(!bench.is_answered(id), "what is left is not durable");
    bench.carry_out(sync);
    bench.settle();
    assert!(bench.replies[&id].is_ok());
    let expected = [vec![7; 1000], vec![0; 8192], vec![7; 7192]].concat();
    assert_eq!(bench.reads(0, 4 * BLOCK), expected);
    let after = slots(&book);
    assert!(after[1].is_none() && after[0] != before[0] && after[2] != before[2], "{before:?}, {after:?}");
    assert!(
        (0..3).step_by(2).all(|block| book.get().durable.shown(block, Epoch(1)) == after[block as usize])
    );
    assert_eq!(bench.volume.status().counters.dead_bytes[crate::owed::ledger::Cause::Trim as usize], BLOCK);
}

#[test]
fn a_block_of_which_nothing_is_left_dies_as_a_whole() {
    let (mut bench, book) = versions();
    bench.write(BLOCK + 100, 7, 200);
    for op in [Op::Zero { no_hole: true, fast: true }, Op::Purge, Op::Trim] {
        bench.write(100, 7, 200);
        bench.done(op, 50, BLOCK).unwrap();
        assert_eq!(book.get().now.shown(0, Epoch(1)), None);
        assert_eq!(bench.reads(BLOCK + 100, 200), [7; 200], "the rest of the other block");
    }
    let slots = bench.data.bytes.borrow().len();
    bench.done(Op::Trim, 5 * BLOCK + 7, 3).unwrap();
    assert_eq!((book.get().now.shown(5, Epoch(1)), bench.data.bytes.borrow().len()), (None, slots));
}

#[test]
fn what_dies_leaves_its_place_at_once_and_is_destroyed_there() {
    let (mut bench, _) = versions();
    bench.write(0, 7, 8 * BLOCK);
    bench.done(Op::Flush, 0, 0).unwrap();
    bench.ask(Op::Trim, BLOCK, 4 * BLOCK);
    assert_eq!((bench.dead(), bench.owed()), (0, 4 * BLOCK));
    bench.settle();
    assert_eq!(
        bench.reads(0, 6 * BLOCK),
        [[7; 4096], [0; 4096], [0; 4096], [0; 4096], [0; 4096], [7; 4096]].concat()
    );
    bench.write(BLOCK, 8, BLOCK);
    assert_eq!(bench.volume.status().counters.revocations, 0, "the write waited");
    bench.idle();
    assert_eq!(bench.data.bytes.borrow()[BLOCK as usize..5 * BLOCK as usize], [0; 4 * BLOCK as usize]);
    assert_eq!(bench.receipts.iter().map(|it| it.extent.len).sum::<u64>(), 4 * BLOCK);
    assert!(bench.volume.is_drained());
    assert_eq!(bench.reads(BLOCK, BLOCK), [8; 4096]);
}

#[test]
fn what_dies_leaves_its_place_only_once_the_store_knows_durably_that_it_is_there() {
    let (mut bench, book) = versions();
    bench.write(0, 7, BLOCK);
    bench.done(Op::Flush, 0, 0).unwrap();
    bench.write(0, 8, BLOCK);
    let place = book.get().now.shown(0, Epoch(1));
    assert_ne!(book.get().durable.shown(0, Epoch(1)), place);
    let id = bench.ask(Op::Trim, 0, BLOCK);
    assert_eq!((bench.dead(), bench.owed()), (BLOCK, 0), "a start would not know the place");
    while bench.owed() == 0 {
        let io = bench.todo.pop_front().expect("a checkpoint comes");
        bench.carry_out(io);
    }
    assert_eq!((book.get().durable.shown(0, Epoch(1)), bench.dead()), (place, 0));
    bench.settle();
    assert!(bench.replies[&id].is_ok());
}

#[test]
fn more_than_a_quarter_of_the_disk_can_leave_a_thousand_blocks_in_one_event() {
    const SIZE: u64 = 1500 * BLOCK;
    let (mut bench, _) = of_size(SIZE, 1 << 20);
    bench.write(0, 7, SIZE);
    bench.done(Op::Flush, 0, 0).unwrap();
    bench.ask(Op::Trim, 0, SIZE);
    assert_eq!((bench.dead(), bench.owed()), (SIZE - 1024 * BLOCK, 1024 * BLOCK));
    bench.settle();
    let destroyed = bench.volume.status().counters.destroyed_bytes;
    assert_eq!((bench.dead(), bench.owed() + destroyed), (0, SIZE));
}

/// A disk with every other block of content, no two in neighbouring slots, and a small ledger.
fn scattered() -> Bench {
    let (mut bench, _) = of_size(SIZE, 16 << 10);
    let blocks = SIZE / BLOCK;
    for n in 0..blocks {
        bench.write(n * 5 % blocks * BLOCK, 7, BLOCK);
    }
    assert!(bench.volume.status().owed.entries_max < blocks as usize);
    bench
}

#[test]
fn dead_blocks_wait_for_room_in_the_ledger_and_all_leave_in_the_end() {
    let mut bench = scattered();
    let id = bench.ask(Op::Trim, 0, SIZE);
    let max = bench.volume.status().owed.entries_max;
    assert!(bench.dead() > 0 && bench.volume.status().owed.entries <= max);
    bench.settle();
    bench.idle();
    assert!(bench.replies[&id].is_ok());
    assert_eq!((bench.dead(), bench.owed()), (0, 0));
    assert_eq!(bench.volume.status().counters.destroyed_bytes, SIZE);
    assert!(bench.data.bytes.borrow().iter().all(|byte| *byte != 7) && bench.volume.is_drained());
}

#[test]
fn a_ledger_full_of_dead_addresses_finds_room_for_their_places() {
    let mut bench = scattered();
    let (_, read) = bench.held_read(0, SIZE);
    let trims: Vec<_> = (0..SIZE / BLOCK / 4)
        .flat_map(|n| [4 * n, 4 * n + 1].map(|block| bench.ask(Op::Trim, block * BLOCK, BLOCK)))
        .collect();
    bench.settle();
    assert_eq!(bench.owed(), 0, "a request reads there");
    let more = bench.ask(Op::Trim, 0, SIZE);
    bench.settle();
    bench.carry_out(read);
    bench.settle();
    bench.idle();
    assert!(trims.iter().chain([&more]).all(|id| bench.replies[id].is_ok()));
    assert_eq!(bench.volume.status().counters.destroyed_bytes, SIZE);
}

#[test]
fn what_lies_below_is_never_overwritten() {
    let (mut bench, puppet) = (versions().0, Puppet::default());
    bench.write(0, 7, BLOCK);
    let refused = bench.done(Op::ConservativeOverwrite, 0, BLOCK);
    assert!(matches!(refused, Err(Refusal::NotSupported(_))));
    puppet.below_may_be_dead(BLOCK);
    bench.volume.watch(Box::new(puppet));
    bench.idle();
    bench.write(0, 8, BLOCK);
    let owed = bench.volume.status().owed;
    assert_eq!((owed.suspicious_bytes, owed.conservative_bytes), (0, 0));
}

#[test]
fn parts_of_blocks_that_are_found_dead_are_purged() {
    let (mut bench, puppet) = (versions().0, Puppet::default());
    bench.write(0, 7, 4 * BLOCK);
    bench.volume.watch(Box::new(puppet.clone()));
    puppet.finds_dead(Extent::new(1000, 2 * BLOCK));
    bench.idle();
    assert_eq!(bench.reads(0, 4 * BLOCK), [vec![7; 1000], vec![0; 8192], vec![7; 7192]].concat());
    puppet.finds_dead(Extent::new(0, 1000));
    bench.idle();
    assert_eq!(bench.reads(0, 1000), [0; 1000]);
    let counters = bench.volume.status().counters;
    assert_eq!(
        counters.dead_bytes[crate::owed::ledger::Cause::Map as usize],
        2 * BLOCK,
        "both died as a whole"
    );
    assert!(bench.volume.is_drained());
}

#[test]
fn a_flush_is_done_though_the_index_that_shares_its_checkpoint_has_no_space() {
    let (mut bench, book) = versions();
    bench.write(0, 7, BLOCK);
    book.get().wants_index = true;
    bench.data.starved.set(true);
    bench.flush();
    assert!(book.get().durable.shown(0, Epoch(1)).is_some() && book.get().wants_index);
    bench.idle();
    assert_eq!(bench.volume.status().latched, None);
    assert!(
        bench.volume.next_wakeup().is_some_and(|at| at.0 > bench.now),
        "it never rests, or never tries again"
    );
    bench.data.starved.set(false);
    bench.now += 60_000;
    bench.idle();
    assert!(!book.get().wants_index, "the index was not written although there is space");
}

#[test]
fn blocks_that_are_destroyed_at_once_have_one_receipt_for_each_cause_and_run() {
    let (mut bench, _) = versions();
    bench.write(0, 7, 16 * BLOCK);
    bench.flush();
    bench.done(Op::Trim, 0, 8 * BLOCK).unwrap();
    bench.done(Op::Purge, 8 * BLOCK, 2 * BLOCK).unwrap();
    bench.done(Op::Trim, 12 * BLOCK, 4 * BLOCK).unwrap();
    bench.idle();
    let receipts: Vec<_> = bench.receipts.iter().map(|it| (it.extent, it.cause)).collect();
    let expected = [(0, 8, Cause::Trim), (8, 2, Cause::Purge), (12, 4, Cause::Trim)];
    assert_eq!(receipts, expected.map(|(at, n, cause)| (Extent::new(at * BLOCK, n * BLOCK), cause)));
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 14 * BLOCK);
}
