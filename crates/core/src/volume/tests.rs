//! Cases that the simulator cannot say as plainly.

mod by_key;
mod classes;
mod layers;
mod leaving;
mod older;
mod overwriting;
mod paging;
mod recording;
mod remaining;
mod sealed;
mod shortage;
mod steps;
mod versions;

use super::*;
use crate::base::buf::Buf;
use crate::base::units::Pos;
use crate::base::zeros::is_zeros;
use crate::erase::policy::Scratch;
use crate::media::medium::Medium;
use crate::media::memory::Memory;
use crate::media::{Media, MediumId};
use crate::owed::journal::Shape;
use crate::request::{Liveness, Reply};
use crate::store;
use std::collections::{HashMap, VecDeque};

const SIZE: u64 = 1 << 20;
const DISK: [u8; 16] = [1; 16];

fn opening(config: Config, size: u64, checkpoint: Option<Checkpoint>) -> Opening {
    let (entropy, now, store) = ([3; 32], Millis(0), store::Kind::InPlace);
    Opening { config, disk: DISK, size, session: 1, entropy, now, checkpoint, store }
}

fn media<'a>(data: &'a Memory, journal: &'a Memory, overlay: Option<&'a (Memory, Memory)>) -> Media<'a> {
    let media = Media::new(data, journal);
    let Some((map, base)) = overlay else { return media };
    media.with(MediumId::Map, map).with(MediumId::Base, base)
}

/// A volume above its media, driven by hand.
struct Bench {
    data: Memory,
    journal: Memory,
    /// Of an overlay: its map and its base.
    overlay: Option<(Memory, Memory)>,
    volume: Volume,
    todo: VecDeque<Io>,
    replies: HashMap<RequestId, Outcome>,
    receipts: Vec<Receipt>,
    /// Of the first of them.
    first_receipt: Option<u64>,
    /// The audit log takes what comes.
    logs: bool,
    latched: Option<String>,
    next: u64,
    now: u64,
}

impl Bench {
    fn new(policy: &str) -> Self {
        Self::made(policy, Memory::new(SIZE), 64 << 10, [None; 2])
    }

    /// A new disk above `data`: which bytes hold data, and which die with its creation.
    fn made(policy: &str, data: Memory, half_bytes: u64, [held, dies]: [Option<Extent<Addr>>; 2]) -> Self {
        let shape = Shape { half_bytes, slots: 16 };
        let journal = Memory::new(shape.bytes());
        let checkpoint = Volume::format(&journal, shape, DISK, held, dies).unwrap();
        Self::open(policy, data, journal, Some(checkpoint))
    }

    /// The server is killed, or stops with a checkpoint, and starts again.
    fn reopened(self, policy: &str, checkpoint: Option<Checkpoint>) -> Self {
        Self::open(policy, self.data, self.journal, checkpoint)
    }

    fn open(policy: &str, data: Memory, journal: Memory, checkpoint: Option<Checkpoint>) -> Self {
        let config = Config::new(policy.parse().unwrap());
        let volume = Volume::open(opening(config, data.size(), checkpoint), &Media::new(&data, &journal));
        Self::of(volume.unwrap(), data, journal, None)
    }

    fn of(volume: Volume, data: Memory, journal: Memory, overlay: Option<(Memory, Memory)>) -> Self {
        let (todo, replies) = (VecDeque::new(), HashMap::new());
        Self {
            data,
            journal,
            overlay,
            volume,
            todo,
            replies,
            receipts: Vec::new(),
            first_receipt: None,
            logs: true,
            latched: None,
            next: 0,
            now: 0,
        }
    }

    pub(in crate::volume) fn tell(&mut self, event: Event) {
        let (mut out, before) = (Vec::new(), self.receipts.len());
        self.volume.apply(Millis(self.now), event, &mut out);
        for command in out {
            match command {
                Command::Io(io) => self.todo.push_back(io),
                Command::Reply(id, outcome) => assert!(self.replies.insert(id, outcome).is_none()),
                Command::Receipt(number, receipt) => {
                    let first = *self.first_receipt.get_or_insert(number);
                    assert_eq!(number, first + self.receipts.len() as u64, "receipts come in order");
                    self.receipts.push(receipt);
                }
                Command::Latched(reason) => self.latched = Some(reason),
                Command::Died(..) => {}
            }
        }
        if self.logs && self.receipts.len() > before {
            self.log();
        }
    }

    /// The audit log has all receipts.
    fn log(&mut self) {
        let receipts = self.first_receipt.map_or(0, |first| first + self.receipts.len() as u64);
        self.tell(Event::Recorded { receipts, head: LogHead { lines: receipts, hash: [7; 32] } });
    }

    fn ask(&mut self, op: Op, start: u64, len: u64) -> RequestId {
        self.ask_fua(op, start, len, false)
    }

    fn ask_fua(&mut self, op: Op, start: u64, len: u64, fua: bool) -> RequestId {
        let id = RequestId(self.next);
        self.next += 1;
        self.tell(Event::Request(id, Request { op, extent: Extent::new(start, len), fua }));
        id
    }

    fn step(&mut self) -> bool {
        let Some(io) = self.todo.pop_front() else { return false };
        self.carry_out(io);
        true
    }

    fn carry_out(&mut self, io: Io) {
        let media = media(&self.data, &self.journal, self.overlay.as_ref());
        let (id, result) = io.perform(&media, None, &mut Scratch::default());
        self.tell(Event::Completed(id, result));
    }

    fn settle(&mut self) {
        while self.step() {}
    }

    /// Lets `ms` milliseconds pass.
    fn tick(&mut self, ms: u64) {
        self.now += ms;
        self.tell(Event::Tick);
    }

    fn idle(&mut self) {
        self.tick(1000);
        self.settle();
    }

    fn done(&mut self, op: Op, start: u64, len: u64) -> Result<Buf, Refusal> {
        self.replied(op, start, len).map(Reply::into_buf)
    }

    fn replied(&mut self, op: Op, start: u64, len: u64) -> Outcome {
        let id = self.ask(op, start, len);
        self.settle();
        self.replies.remove(&id).expect("it was replied to")
    }

    fn write(&mut self, start: u64, byte: u8, len: u64) {
        self.done(Op::Write(vec![byte; len as usize].into()), start, len).unwrap();
    }

    fn reads(&mut self, start: u64, len: u64) -> Vec<u8> {
        self.done(Op::Read, start, len).unwrap().into_vec()
    }

    fn liveness(&self) -> Vec<(u64, Liveness)> {
        self.volume.liveness(Extent::new(0, SIZE), 100)
    }
}

#[test]
fn trimmed_bytes_read_as_zeros_at_once_and_are_destroyed_when_idle() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 4096, 8192).unwrap();
    assert_eq!(bench.reads(0, 16384), [[7; 4096], [0; 4096], [0; 4096], [7; 4096]].concat());
    assert_eq!(bench.data.bytes.borrow()[4096], 7, "destroyed before the disk was idle");
    bench.idle();
    assert_eq!(bench.data.bytes.borrow()[4096..12288], [0; 8192]);
    assert_eq!(bench.receipts.len(), 1);
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 8192);
    assert!(bench.volume.is_drained());
}

#[test]
fn a_write_to_a_queued_block_waits_for_its_destruction_and_survives_it() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 0, 65536).unwrap();
    bench.write(8192, 9, 4096);
    assert_eq!(bench.receipts.len(), 1, "it did not wait");
    bench.idle();
    assert_eq!(bench.reads(4096, 12288), [[0; 4096], [9; 4096], [0; 4096]].concat());
}

#[test]
fn write_between_passes_revokes_the_shred() {
    let mut bench = Bench::new("4");
    bench.write(0, 7, 4096);
    bench.done(Op::Trim, 0, 4096).unwrap();
    bench.tick(1000);
    for _ in 0..3 {
        assert!(bench.step());
    }
    let write = bench.ask(Op::Write(vec![9; 4096].into()), 0, 4096);
    bench.settle();
    assert!(bench.replies.remove(&write).is_some_and(|outcome| outcome.is_ok()));
    bench.idle();
    assert_eq!(bench.reads(0, 4096), [9; 4096]);
}

#[test]
fn freeing_what_never_held_data_is_no_death() {
    let mut bench = Bench::new("clear");
    bench.done(Op::Trim, 0, SIZE).unwrap();
    let status = bench.volume.status();
    assert_eq!((status.owed.queued_bytes, status.counters.freed_unwritten_bytes), (0, SIZE));
}

#[test]
fn what_is_dead_five_times_is_destroyed_once() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 8192);
    for _ in 0..5 {
        bench.done(Op::Trim, 0, 8192).unwrap();
    }
    bench.idle();
    let counters = bench.volume.status().counters;
    assert_eq!((counters.destroyed_bytes, counters.freed_again_bytes), (8192, 4 * 8192));
}

#[test]
fn deaths_of_odd_bytes_take_those_and_no_others() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 16384);
    bench.done(Op::Trim, 1000, 5001).unwrap();
    bench.idle();
    assert_eq!(bench.reads(0, 16384), [vec![7; 1000], vec![0; 5001], vec![7; 16384 - 6001]].concat());
}

#[test]
fn zeros_without_a_hole_count_as_data() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 4096);
    bench.done(Op::Zero { no_hole: true, fast: false }, 0, 8192).unwrap();
    bench.idle();
    assert_eq!(bench.reads(0, 8192), [0; 8192]);
    assert_eq!(bench.liveness()[0], (8192, Liveness::Live));
    let refused = bench.done(Op::Zero { no_hole: true, fast: true }, 0, 4096);
    assert!(matches!(refused, Err(Refusal::NotSupported(_))));
}

#[test]
fn a_conservative_overwrite_makes_the_content_suspicious_until_it_is_overwritten() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 16384);
    bench.done(Op::ConservativeOverwrite, 4096, 8192).unwrap();
    bench.idle();
    assert_eq!(bench.reads(0, 16384), [7; 16384]);
    assert_eq!(bench.liveness()[1], (8192, Liveness::Suspicious));
    bench.write(4096, 8, 4096);
    assert_eq!(bench.liveness()[1], (4096, Liveness::Suspicious), "its turn is over");
    assert_eq!(bench.reads(0, 16384), [[7; 4096], [8; 4096], [7; 4096], [7; 4096]].concat());
    let slots = bench.journal.bytes.borrow()[4096 + 2 * (64 << 10)..].to_vec();
    assert!(is_zeros(&slots), "kept content outlived its use in the journal");
}

#[test]
fn zero_blocks_die_when_they_are_looked_for() {
    let mut bench = Bench::new("clear");
    let config = Config { detect_zeroes: true, ..bench.volume.config().clone() };
    bench.volume.reconfigure(config);
    bench.write(0, 7, 12288);
    let mut data = vec![7; 12288];
    data[4096..8192].fill(0);
    bench.done(Op::Write(data.clone().into()), 0, 12288).unwrap();
    assert_eq!(bench.liveness()[1], (4096, Liveness::Queued));
    assert_eq!(bench.reads(0, 12288), data);
}

#[test]
fn a_failure_in_an_act_latches_and_says_why() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 8192);
    bench.done(Op::Trim, 0, 4096).unwrap();
    bench.data.broken.set(true);
    bench.idle();
    let reason = bench.volume.status().latched.expect("it latched");
    assert!(reason.contains("broken") && reason.ends_with(LATCH_REMEDY), "{reason}");
    let refused = bench.done(Op::Write(vec![1; 512].into()), 8192, 512);
    assert_eq!(refused, Err(Refusal::Latched(reason)));
    assert!(matches!(bench.done(Op::Flush, 0, 0), Err(Refusal::Latched(_))));
    assert_eq!(bench.reads(0, 8192), [[0; 4096], [7; 4096]].concat(), "reads go on");
    assert!(bench.receipts.is_empty(), "a receipt for what was not done");
}

#[test]
fn a_failed_write_is_never_retried_into_silence() {
    let mut bench = Bench::new("clear");
    bench.data.broken.set(true);
    assert!(matches!(bench.done(Op::Write(vec![1; 512].into()), 0, 512), Err(Refusal::Io(_))));
    bench.data.broken.set(false);
    assert!(matches!(bench.done(Op::Write(vec![1; 512].into()), 0, 512), Err(Refusal::Latched(_))));
}

#[test]
fn obligations_survive_a_crash_and_are_due_at_once() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 0, 32768).unwrap();
    let mut bench = bench.reopened("purge-2", None);
    assert_eq!(bench.reads(0, 65536), [[0; 32768], [7; 32768]].concat());
    bench.idle();
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 32768);
}

#[test]
fn after_a_crash_every_block_may_hold_data_until_the_holes_are_known() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 8192);
    let mut bench = bench.reopened("clear", None);
    assert_eq!(bench.liveness(), [(SIZE, Liveness::Live)]);
    bench.write(65536, 8, 4096);
    bench.tell(Event::Hole(Extent::new(8192, SIZE - 8192)));
    bench.volume.holes_known();
    let live: u64 = bench.liveness().iter().filter(|(_, it)| *it == Liveness::Live).map(|(len, _)| len).sum();
    assert_eq!(live, 8192 + 4096, "what was written since is no hole");
}

#[test]
fn a_checkpoint_counts_only_for_the_stop_that_it_was_made_at() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 8192);
    let checkpoint = bench.volume.checkpoint().expect("it is at rest");
    let bytes = checkpoint.to_bytes(DISK);
    assert_eq!(Checkpoint::from_bytes(&bytes, DISK), Some(checkpoint.clone()));
    assert_eq!(Checkpoint::from_bytes(&bytes, [2; 16]), None);
    assert_eq!(Checkpoint::from_bytes(&bytes[..bytes.len() - 1], DISK), None);
    let mut bench = bench.reopened("clear", Some(checkpoint.clone()));
    assert_eq!(bench.liveness()[0], (8192, Liveness::Live));
    bench.write(16384, 7, 4096);
    let bench = bench.reopened("clear", Some(checkpoint));
    assert_eq!(bench.liveness(), [(SIZE, Liveness::Live)], "an old checkpoint was believed");
}

#[test]
fn a_journal_that_ends_before_the_last_stop_is_refused_and_a_start_that_believes_it_is_a_defect() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, 8192);
    let kept = bench.volume.checkpoint().expect("it is at rest");
    let Bench { data, journal, .. } = bench;
    let later = Checkpoint { seq: kept.seq + 1, ..kept };
    let open = || {
        let opening = opening(Config::new("clear".parse().expect("a policy")), SIZE, Some(later.clone()));
        Volume::open(opening, &Media::new(&data, &journal)).map(drop)
    };
    let refused = open().expect_err("what died before the stop would come back");
    assert!(matches!(refused, OpenError::OlderJournal { .. }), "{refused}");
    assert!(refused.to_string().contains("`quietus repair`"));
    crate::mutant::activate(Some(crate::mutant::Mutant::BelieveOldJournal));
    assert_eq!(open(), Ok(()), "the defect takes it");
    crate::mutant::activate(None);
}

#[test]
fn a_disk_made_where_something_was_destroys_that() {
    let data = Memory::new(SIZE);
    data.put(Pos(5000), b"a stranger's secret").unwrap();
    let mut bench = Bench::made("purge-2", data, 64 << 10, [None, Some(Extent::new(0, SIZE))]);
    assert_eq!(bench.reads(4096, 4096), [0; 4096]);
    bench.idle();
    assert!(bench.data.bytes.borrow().iter().all(|byte| *byte == 0));
}

#[test]
fn a_ledger_that_is_full_slows_the_guest_and_drops_nothing() {
    let mut bench = Bench::new("clear");
    let max = bench.volume.status().owed.entries_max as u64;
    bench.write(0, 7, SIZE);
    let asked: Vec<_> = (0..SIZE / 1024).map(|n| bench.ask(Op::Trim, n * 1024, 512)).collect();
    assert!(bench.volume.status().owed.entries as u64 <= max);
    bench.settle();
    bench.idle();
    assert!(asked.iter().all(|id| bench.replies[id].is_ok()));
    assert_eq!(bench.volume.status().counters.destroyed_bytes, SIZE / 2);
}

#[test]
fn writes_that_split_suspicious_extents_never_overflow_the_ledger() {
    let mut bench = Bench::new("clear");
    bench.write(0, 7, SIZE);
    bench.done(Op::ConservativeOverwrite, 0, SIZE).unwrap();
    bench.idle();
    let max = bench.volume.status().owed.entries_max;
    for n in 0..SIZE / 1024 {
        bench.write(n * 1024, 8, 512);
        assert!(bench.volume.status().owed.entries <= max);
    }
    assert_eq!(bench.reads(0, 1024), [[8; 512], [7; 512]].concat());
}

#[test]
fn a_journal_of_content_that_is_damaged_is_refused() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 4096);
    bench.done(Op::ConservativeOverwrite, 0, 4096).unwrap();
    bench.tick(1000);
    // Read, log, note that it is held, and begin the first pass.
    for _ in 0..4 {
        bench.step();
    }
    let Bench { data, journal, .. } = bench;
    journal.bytes.borrow_mut()[4096 + 2 * (64 << 10) + 5] ^= 1;
    let opening = opening(Config::new("clear".parse().unwrap()), SIZE, None);
    let error = Volume::open(opening, &Media::new(&data, &journal)).expect_err("the slot is damaged");
    assert_eq!(error, OpenError::Slot(0, 4096, 0));
}

#[test]
fn reads_and_writes_out_of_range_are_refused() {
    let mut bench = Bench::new("clear");
    for (op, start, len) in [
        (Op::Read, SIZE, 1),
        (Op::Trim, SIZE - 1, 2),
        (Op::Write(vec![0; 3].into()), 0, 4),
        (Op::Zero { no_hole: false, fast: false }, 0, SIZE + 1),
    ] {
        assert!(matches!(bench.done(op, start, len), Err(Refusal::Invalid(_))));
    }
    assert_eq!(bench.done(Op::Trim, SIZE, 0), Ok(Buf::new()));
}

#[test]
fn a_stop_without_draining_leaves_the_queue_for_the_next_start() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 0, 32768).unwrap();
    bench.tell(Event::Stop { drain: false });
    bench.idle();
    assert!(bench.receipts.is_empty());
    let checkpoint = bench.volume.checkpoint().expect("it is at rest");
    let mut bench = bench.reopened("purge-2", Some(checkpoint));
    bench.idle();
    assert_eq!(bench.volume.status().counters.destroyed_bytes, 32768);
    assert_eq!(bench.liveness()[..2], [(32768, Liveness::Dead), (32768, Liveness::Live)]);
}

/// The next actions, as letters: a pass, a sync of the data, a hole,
/// anything else.
fn under_way(bench: &Bench) -> String {
    let letter = |io: &Io| match io.op {
        IoOp::Fill { .. } => 'p',
        IoOp::Sync => 's',
        IoOp::Punch => 'h',
        _ => '-',
    };
    bench.todo.iter().map(letter).collect()
}

#[test]
fn a_pass_is_under_way_at_several_places_and_the_next_waits_for_all_of_them() {
    let mut bench = Bench::new("purge-2");
    let config = Config { run_bytes_max: 4096, ..bench.volume.config().clone() };
    bench.volume.reconfigure(config);
    bench.write(0, 7, 24576);
    bench.done(Op::Trim, 0, 24576).unwrap();
    bench.tick(1000);
    let mut seen = vec![under_way(&bench)];
    while bench.receipts.is_empty() && bench.step() {
        seen.push(under_way(&bench));
    }
    let pass = ["pppp", "pppp", "pppp", "ppp", "pp", "p", "s"];
    assert_eq!(seen[..14], [pass, pass].concat());
}

#[test]
fn a_guest_at_work_shares_the_medium_with_one_pass_at_most() {
    let mut bench = Bench::new("purge-2");
    let config = Config { run_bytes_max: 4096, ..bench.volume.config().clone() };
    bench.volume.reconfigure(config);
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 0, 32768).unwrap();
    bench.tell(Event::ShredNow);
    assert_eq!(under_way(&bench), "p");
    bench.now += 100;
    bench.step();
    assert_eq!(under_way(&bench), "pppp");
}

#[test]
fn space_is_given_back_after_the_receipt_and_not_while_a_guest_is_at_work() {
    let mut bench = Bench::new("purge-2");
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 0, 32768).unwrap();
    bench.tell(Event::ShredNow);
    bench.settle();
    assert_eq!(bench.receipts.len(), 1);
    assert!(bench.volume.owes_nothing_due() && !bench.volume.is_drained());
    bench.write(4096, 9, 4096);
    bench.now = bench.volume.next_wakeup().expect("there is space to give back").0;
    bench.tell(Event::Tick);
    assert_eq!(under_way(&bench), "h");
    bench.settle();
    assert!(bench.volume.is_drained());
    let expected = [(4096, Liveness::Dead), (4096, Liveness::Live), (24576, Liveness::Dead)];
    assert_eq!(bench.liveness()[..3], expected);
    assert_eq!(bench.reads(0, 12288), [[0; 4096], [9; 4096], [0; 4096]].concat());
}

#[test]
fn a_write_where_a_hole_is_being_made_waits_for_it() {
    let mut bench = Bench::new("clear");
    bench.logs = false;
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 0, 32768).unwrap();
    bench.tick(1000);
    while under_way(&bench) != "h" {
        assert!(bench.step());
    }
    let write = bench.ask(Op::Write(vec![9; 4096].into()), 8192, 4096);
    assert_eq!(under_way(&bench), "h");
    bench.settle();
    assert!(bench.replies[&write].is_ok());
    bench.idle();
    assert_eq!(bench.reads(4096, 12288), [[0; 4096], [9; 4096], [0; 4096]].concat());
}

#[test]
fn space_that_an_earlier_life_could_not_give_back_is_given_back_later() {
    let bench = Bench::new("purge-2");
    let checkpoint = bench.volume.checkpoint();
    bench.data.keeps.set(true);
    let mut bench = bench.reopened("purge-2", checkpoint);
    bench.write(0, 7, 65536);
    bench.done(Op::Trim, 10_000, 32768).unwrap();
    bench.idle();
    assert!(bench.volume.is_drained());
    let checkpoint = bench.volume.checkpoint().expect("it is at rest");
    bench.data.keeps.set(false);
    let mut bench = bench.reopened("purge-2", Some(checkpoint));
    let busy = bench.ask(Op::Write(vec![9; 4096].into()), 20480, 4096);
    bench.tell(Event::Space(Extent::new(0, 65536)));
    bench.settle();
    assert!(bench.replies[&busy].is_ok() && !bench.volume.is_drained());
    bench.tick(1000);
    let mut holes = Vec::new();
    while let Some(io) = bench.todo.pop_front() {
        holes.extend(Some(io.at.first().extent).filter(|_| io.op == IoOp::Punch));
        bench.carry_out(io);
    }
    assert_eq!(holes, [Extent::new(12288, 8192), Extent::new(24576, 16384)]);
    assert!(bench.volume.is_drained());
    let read = bench.reads(0, 65536);
    assert_eq!(read[20480..24576], [9; 4096]);
    assert!(read[..10_000].iter().chain(&read[42_768..]).all(|byte| *byte == 7), "live content is gone");
}

#[test]
fn a_payload_in_memory_of_a_front_end_gets_to_the_medium_and_back_without_a_copy() {
    let mut bench = Bench::new("clear");
    let memory: std::sync::Arc<dyn AsRef<[u8]> + Send + Sync> = std::sync::Arc::new([7_u8; 4096]);
    let at = (*memory).as_ref().as_ptr();
    let id = bench.ask(Op::Write(Buf::Shared(memory)), 8192, 4096);
    let io = bench.todo.front().expect("the write is to be done");
    assert!(matches!(&io.op, IoOp::Write { data, .. } if data.as_ptr() == at));
    bench.settle();
    let returned = bench.replies.remove(&id).expect("a reply").expect("a success");
    assert_eq!(returned.into_buf().as_ptr(), at);
    assert_eq!(bench.reads(8192, 4096), [7; 4096]);
}
