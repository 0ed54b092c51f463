//! Blocks that died on an overlay and are written again.

use super::*;
use crate::base::blocks::BlockSet;
use crate::media::MediumId;
use crate::store::overlay::{Mode, Setup, format_map, map_bytes};
use std::sync::Arc;

pub(super) const BLOCK: u64 = 4096;

/// An overlay above a base that holds nines in its second half.
pub(super) fn overlay() -> Bench {
    let base = Memory::new(SIZE);
    base.put(Pos(SIZE / 2), &vec![9; (SIZE / 2) as usize]).unwrap();
    overlay_above(base, SIZE)
}

/// An overlay of `size` bytes, as long as its base or longer.
pub(super) fn overlay_above(base: Memory, size: u64) -> Bench {
    let shape = Shape { half_bytes: 64 << 10, slots: 16 };
    let map = Memory::new(map_bytes(size));
    format_map(&map, DISK, size).unwrap();
    let journal = Memory::new(shape.bytes());
    Volume::format(&journal, shape, DISK, None, None).unwrap();
    open(Memory::new(0), journal, (map, base), size)
}

fn open(data: Memory, journal: Memory, overlay: (Memory, Memory), size: u64) -> Bench {
    let mut base_data = BlockSet::default();
    let from = SIZE / 2;
    base_data.insert(Extent::between(from, overlay.1.size().max(from)));
    let setup = Setup { mode: Mode::Lazy, base_data: Arc::new(base_data) };
    let opening = Opening {
        store: store::Kind::Overlay(setup),
        ..opening(Config::new("purge-2".parse().unwrap()), size, None)
    };
    let volume = Volume::open(opening, &media(&data, &journal, Some(&overlay))).unwrap();
    Bench::of(volume, data, journal, Some(overlay))
}

/// The server is killed, and starts again.
pub(super) fn killed(bench: Bench) -> Bench {
    let size = bench.volume.status().size_bytes;
    open(bench.data, bench.journal, bench.overlay.expect("it is an overlay"), size)
}

#[test]
fn a_disk_that_has_latched_copies_no_block_up() {
    let mut bench = overlay();
    let trim = bench.ask(Op::Trim, SIZE / 2, 512);
    while !bench.todo.front().is_some_and(|io| io.op == IoOp::Read) {
        assert!(bench.step(), "the block is read first");
    }
    bench.tell(Event::Failed(MediumError { kind: MediumErrorKind::Io, message: "gone".into() }));
    bench.settle();
    assert!(matches!(bench.replies[&trim], Err(Refusal::Latched(_))), "{:?}", bench.replies[&trim]);
    assert!(bench.data.bytes.borrow().is_empty(), "it was written all the same");
}

impl Bench {
    pub(super) fn flush(&mut self) {
        self.done(Op::Flush, 0, 0).unwrap();
    }

    /// Sends a write, and carries out what was asked for by it alone.
    fn writes_at_once(&mut self, start: u64, byte: u8, len: u64) -> bool {
        self.settle();
        let id = self.ask(Op::Write(vec![byte; len as usize].into()), start, len);
        if let Some(at) = self.todo.iter().position(|io| io.op == IoOp::Reserve) {
            // The map gets its space first, once for 4 MiB of the disk.
            let io = self.todo.remove(at).expect("it is there");
            self.carry_out(io);
        }
        let is_write =
            |io: &Io| matches!(&io.op, IoOp::Write { data, .. } if data[..] == vec![byte; len as usize]);
        let at = self.todo.iter().position(is_write);
        if let Some(io) = at.and_then(|at| self.todo.remove(at)) {
            self.carry_out(io);
        }
        self.replies.remove(&id).is_some_and(|it| it.is_ok())
    }
}

#[test]
fn a_write_to_what_was_just_trimmed_waits_for_nothing_and_gets_another_place() {
    let mut bench = overlay();
    bench.write(0, 7, 4 * BLOCK);
    bench.flush();
    bench.done(Op::Trim, 0, 4 * BLOCK).unwrap();
    assert!(bench.writes_at_once(BLOCK, 8, 2 * BLOCK), "it waited");
    assert_eq!(bench.data.bytes.borrow()[..4 * BLOCK as usize], [7; 4 * BLOCK as usize]);
    let status = bench.volume.status();
    assert_eq!((status.counters.revocations, status.owed.queued_bytes), (0, 4 * BLOCK));
    bench.settle();
    bench.idle();
    assert!(bench.data.bytes.borrow().iter().all(|byte| *byte != 7), "what died is there");
    assert_eq!(bench.reads(0, 4 * BLOCK), [[0; 4096], [8; 4096], [8; 4096], [0; 4096]].concat());
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 4 * BLOCK);
    let mut destroyed: Vec<_> = bench.receipts.iter().map(|it| it.extent).collect();
    destroyed.sort_by_key(|it| it.start);
    assert_eq!(
        destroyed,
        [Extent::new(0, BLOCK), Extent::new(BLOCK, 2 * BLOCK), Extent::new(3 * BLOCK, BLOCK)]
    );
    assert!(bench.volume.is_drained());
}

#[test]
fn a_write_to_what_was_just_trimmed_of_the_base_waits_for_nothing() {
    let mut bench = overlay();
    bench.done(Op::Trim, SIZE / 2, 2 * BLOCK).unwrap();
    assert!(bench.writes_at_once(SIZE / 2, 8, BLOCK), "it waited");
    bench.settle();
    let mut bench = killed(bench);
    let read = bench.reads(SIZE / 2, 3 * BLOCK);
    assert_eq!(read[BLOCK as usize..], [[0; 4096], [9; 4096]].concat(), "the base shows through");
    assert!(read[0] == 0, "what was not made durable came back as {}", read[0]);
}

#[test]
fn after_a_crash_the_map_forgets_what_died_and_nothing_that_was_written_since() {
    for is_flushed in [false, true] {
        let mut bench = overlay();
        bench.write(0, 7, BLOCK);
        bench.flush();
        bench.done(Op::Trim, 0, BLOCK).unwrap();
        assert!(bench.writes_at_once(0, 8, BLOCK));
        bench.settle();
        if is_flushed {
            bench.flush();
        }
        let mut bench = killed(bench);
        assert_eq!(bench.volume.status().owed.queued_bytes, BLOCK);
        assert_eq!(bench.reads(0, BLOCK), [if is_flushed { 8 } else { 0 }; 4096]);
        bench.idle();
        assert_eq!(bench.reads(0, BLOCK), [if is_flushed { 8 } else { 0 }; 4096]);
        assert!(bench.data.bytes.borrow().iter().all(|byte| *byte != 7), "what died is there");
    }
}

#[test]
fn the_map_waits_until_the_journal_knows_what_it_does_not_name_any_more() {
    let mut bench = overlay();
    bench.write(0, 7, BLOCK);
    bench.flush();
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    assert!(bench.writes_at_once(0, 8, BLOCK));
    bench.ask(Op::Flush, 0, 0);
    let commit = |io: &Io| io.at.first().on == MediumId::Journal;
    let commit = bench.todo.iter().position(commit).expect("a commit is under way");
    let commit = bench.todo.remove(commit).expect("it was found");
    bench.settle();
    let map_at = (crate::store::overlay::MAP_HEAD_BYTES) as usize;
    let entry = |bench: &Bench| bench.overlay.as_ref().expect("an overlay").0.bytes.borrow()[map_at];
    assert_eq!(entry(&bench), 2, "the map names the first slot, as it did");
    bench.carry_out(commit);
    bench.settle();
    assert_eq!(entry(&bench), 3, "the map names the second slot");
}

#[test]
fn a_place_that_cannot_be_had_is_one_refusal_and_no_more() {
    let mut bench = overlay();
    bench.write(0, 7, BLOCK);
    bench.flush();
    bench.done(Op::Trim, 0, BLOCK).unwrap();
    bench.data.full.set(true);
    let refused = bench.done(Op::Write(vec![8; 4096].into()), 0, BLOCK);
    assert!(matches!(refused, Err(Refusal::NoSpace(_))), "{refused:?}");
    assert_eq!(bench.volume.status().latched, None);
    assert_eq!(bench.reads(0, BLOCK), [0; 4096]);
    bench.idle();
    bench.write(0, 8, BLOCK);
    assert_eq!(bench.reads(0, BLOCK), [8; 4096], "there is room in what was destroyed");
}

#[test]
fn a_part_of_a_block_that_died_has_the_place_of_the_rest_and_waits() {
    let mut bench = overlay();
    bench.write(0, 7, BLOCK);
    bench.flush();
    bench.done(Op::Trim, 0, 512).unwrap();
    assert!(!bench.writes_at_once(0, 8, 512), "it did not wait");
    bench.settle();
    assert_eq!(bench.reads(0, BLOCK), [vec![8; 512], vec![7; 3584]].concat());
}

#[test]
fn what_is_owed_by_place_is_limited() {
    let mut bench = overlay();
    bench.write(0, 7, SIZE / 2);
    bench.flush();
    bench.done(Op::Trim, 0, SIZE / 2).unwrap();
    bench.settle();
    let asked: Vec<_> =
        (0..SIZE / 2 / BLOCK).map(|n| bench.ask(Op::Write(vec![8; 4096].into()), n * BLOCK, BLOCK)).collect();
    let status = bench.volume.status();
    assert!(status.requests.waiting > 0, "nothing waits");
    let store::StoreStatus::Overlay(overlay) = status.store else { panic!("an overlay") };
    assert!(overlay.medium_bytes <= SIZE / 2 + SIZE / 4);
    bench.settle();
    assert!(asked.iter().all(|id| bench.replies.remove(id).is_some_and(|it| it.is_ok())));
}

#[test]
fn a_block_that_the_durable_map_still_has_in_the_base_dies_once() {
    let mut bench = overlay();
    bench.write(SIZE / 2, 7, BLOCK);
    bench.done(Op::Trim, SIZE / 2, BLOCK).unwrap();
    assert!(bench.writes_at_once(SIZE / 2, 8, BLOCK), "it waited");
    bench.settle();
    let mut bench = killed(bench);
    assert_eq!(bench.reads(SIZE / 2, 2 * BLOCK), [[0; 4096], [9; 4096]].concat(), "the base shows through");
    bench.idle();
    assert_eq!(bench.volume.status().counters.destroyed_bytes, BLOCK);
    assert!(bench.volume.is_drained() && bench.data.bytes.borrow().iter().all(|byte| *byte != 7));
}

#[test]
fn a_guest_that_never_rests_finds_room_because_erasing_begins_before_there_is_none() {
    let mut bench = overlay();
    bench.write(0, 7, SIZE / 2);
    bench.flush();
    // Four times as much as may be owed by place.
    for block in 0..SIZE / BLOCK {
        let start = (block * 5) % (SIZE / 2 / BLOCK) * BLOCK;
        bench.done(Op::Trim, start, BLOCK).unwrap();
        bench.write(start, 8, BLOCK);
    }
    let counters = bench.volume.status().counters;
    assert_eq!((bench.now, counters.revocations), (0, 0), "a write waited");
    assert!(counters.destroyed_bytes > SIZE / 2, "{counters:?}");
    assert_eq!(bench.reads(0, SIZE / 2), vec![8; (SIZE / 2) as usize]);
}
