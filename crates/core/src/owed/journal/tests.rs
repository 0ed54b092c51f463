use crate::base::units::{Epoch, EpochRange, Set, SetId};
use crate::media::medium::Medium;
use crate::media::memory::Memory;
use crate::owed::journal::*;

const DISK: [u8; 16] = [9; 16];
const SIZE: u64 = 1 << 30;
const SHAPE: Shape = Shape { half_bytes: 16 * SECTOR_BYTES, slots: 2 };

/// A journal and the state that it should give back.
struct Bench {
    medium: Memory,
    journal: Journal,
    state: State,
}

impl Bench {
    fn new() -> Self {
        let medium = Memory::new(SHAPE.bytes());
        medium.write(Pos(0), &Head { shape: SHAPE, disk: DISK }.to_bytes(), true).unwrap();
        let mut bench = Self { medium, journal: Journal::resume(SHAPE, 1, 0, 0), state: State::default() };
        bench.commit();
        bench
    }

    fn change(&mut self, change: Change) {
        self.state.apply(change, Millis(0));
        self.journal.push(change);
    }

    fn commit(&mut self) {
        let commit = self.journal.commit(&self.state);
        self.medium.write(commit.pos, &commit.bytes, true).unwrap();
        if let Some((pos, mark)) = commit.mark {
            self.medium.write(pos, &mark, false).unwrap();
        }
    }

    fn commits(&mut self, change: Change) {
        self.change(change);
        self.commit();
    }

    fn die(&mut self, start: u64) {
        self.commits(Change::Oblige(Extent::new(start, 4096), Due::Shred { no_hole: false }, Cause::Trim));
    }

    fn scan(&self) -> Result<Recovered, JournalError> {
        assert_eq!(self.medium.size(), SHAPE.bytes(), "a journal keeps its size");
        scan(&self.medium, DISK, SIZE, 0)
    }

    fn flip(&self, byte: u64, bit: u8) {
        self.medium.bytes.borrow_mut()[byte as usize] ^= 1 << bit;
    }
}

fn entries(state: &State) -> Vec<(Extent<Addr>, Due)> {
    state.ledger.iter().map(|(extent, it)| (extent, it.due)).collect()
}

#[test]
fn what_was_committed_comes_back_across_many_rotations() {
    let mut bench = Bench::new();
    for n in 0..200 {
        bench.die(n % 17 * 65536);
        if n % 3 == 0 {
            bench.commits(Change::Complete(Extent::new(n % 17 * 65536, 512), Done::Shredded, 2));
        }
        if n % 7 == 0 {
            bench.state.log = LogHead { lines: n, hash: [n as u8; 32] };
            bench.commits(Change::Recorded(2));
        }
        let found = bench.scan().unwrap();
        assert_eq!(entries(&found.state), entries(&bench.state), "after {n}");
        assert_eq!(found.state.counters, bench.state.counters);
        assert_eq!(found.state.receipts, bench.state.receipts, "after {n}");
        assert_eq!(found.state.log, bench.state.log, "after {n}");
        let at = FrameId { generation: found.generation, seq: found.seq };
        assert_eq!(at, bench.journal.position());
    }
    assert!(bench.journal.position().generation > 10, "the journal never rotated");
}

#[test]
fn held_slots_and_the_dirt_they_leave_come_back() {
    let mut bench = Bench::new();
    bench.commits(Change::Stage(Slot(1), Extent::new(8192, 100), Crc(7)));
    assert_eq!(bench.scan().unwrap().state.slots, bench.state.slots);
    bench.change(Change::Release);
    for n in 0..40 {
        bench.die(n % 3 * 65536);
        let slots = bench.scan().unwrap().state.slots;
        assert!(slots.staged.is_empty() && slots.dirty, "after {n}");
    }
    bench.commits(Change::Clean);
    assert!(!bench.scan().unwrap().state.slots.dirty);
}

#[test]
fn forgets_of_epochs_and_of_blocks_and_their_receipts_come_back_across_rotations() {
    let mut bench = Bench::new();
    let epochs = EpochRange { from: Epoch(1), to: Epoch((1 << 40) - 1) };
    let blocks = Extent::new(1 << 50, 5 * 4096);
    let scopes = [epochs.into(), Scope::chain(epochs, blocks), Scope::shown(epochs, blocks)];
    for n in 0..200 {
        let scope = scopes[n % 3];
        bench.commits(Change::Forget(scope));
        assert_eq!(bench.scan().unwrap().state.forgets, [Forget::from(scope)]);
        bench.commits(Change::Forgotten(scope, (1 << 39) + n as u64, 3));
        let found = bench.scan().unwrap().state;
        assert_eq!((found.forgets, &found.receipts), (vec![], &bench.state.receipts), "after {n}");
        let last = found.receipts.iter().last().unwrap();
        assert_eq!((last.forgot, last.extent.len), (Some(scope), ((1 << 39) + n as u64) * 4096));
        if n % 5 == 0 {
            bench.change(Change::Recorded(5));
        }
    }
    assert!(bench.journal.position().generation > 10, "the journal never rotated");
}

fn part(block: u64, blocks: u64, from: u64, to: u64) -> Part {
    let epochs = EpochRange { from: Epoch(from), to: Epoch(to) };
    Part { epochs, blocks: Extent::new(block * 4096, blocks * 4096) }
}

fn set(n: u8, parts: &[Part]) -> Forget {
    Forget::set(Arc::new(Parts::new(SetId([n; 8]), parts.to_vec()))).expect("a set has a part")
}

impl Bench {
    fn forget(&mut self, forget: &Forget) {
        changes_of(forget).for_each(|change| self.change(change));
        self.commit();
    }
}

#[test]
fn sets_come_back_with_their_parts_across_rotations() {
    let mut bench = Bench::new();
    let last = (1 << 40) - 2;
    let one = set(1, &[part(0, 3, 5, 6), part(0, 3, 8, 9), part(1, 1, 1, 2), part(last, 1, 2, last)]);
    let two = set(2, &[part(7, 1, 3, 3)]);
    let whole = Forget::from(Scope::Epochs(EpochRange { from: Epoch(1), to: Epoch(1) }));
    for n in 0..60 {
        for forget in [&one, &whole, &two] {
            bench.forget(forget);
        }
        // Each commit may be the snapshot of another half.
        for _ in 0..3 {
            bench.die(n % 3 * 65536);
            assert_eq!(bench.scan().unwrap().state.forgets, [one.clone(), whole.clone(), two.clone()]);
        }
        for forget in [&two, &one, &whole] {
            bench.commits(Change::Forgotten(forget.scope(), 1 << 39, 2));
            let found = bench.scan().unwrap().state;
            assert_eq!(found.receipts.iter().last().unwrap().forgot, Some(forget.scope()));
            assert_eq!((found.parts(), found.receipts), (bench.state.parts(), bench.state.receipts.clone()));
        }
        assert_eq!(bench.state.parts(), 0);
        bench.change(Change::Recorded(3));
    }
    assert!(bench.journal.position().generation > 10, "the journal never rotated");
}

#[test]
fn a_snapshot_that_leaves_out_a_part_is_caught() {
    let mut bench = Bench::new();
    let two = set(2, &[part(7, 1, 3, 3), part(8, 1, 3, 3)]);
    bench.forget(&two);
    mutant::activate(Some(Mutant::LosePart));
    let generation = bench.journal.position().generation;
    while bench.journal.position().generation == generation {
        bench.die(0);
    }
    mutant::activate(None);
    assert_eq!(bench.scan().unwrap().state.forgets, [set(2, &[part(7, 1, 3, 3)])]);
}

#[test]
fn a_torn_set_never_was_however_many_of_its_parts_were_written() {
    let mut bench = Bench::new();
    bench.die(0);
    let before = bench.medium.bytes.borrow().clone();
    let parts: Vec<Part> = (0..40).map(|n| part(n, 1, 1, 1 + n)).collect();
    bench.forget(&set(3, &parts));
    let after = bench.medium.bytes.borrow().clone();
    assert_eq!(bench.scan().unwrap().state.forgets, [set(3, &parts)]);
    let torn: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    assert!(torn.last().unwrap() - torn[0] > 2 * 512, "the frame has sectors");
    for cut in &torn {
        *bench.medium.bytes.borrow_mut() = [&after[..*cut], &before[*cut..]].concat();
        let found = bench.scan().unwrap().state;
        assert_eq!((found.forgets, found.parts.len()), (vec![], 0), "cut at {cut}");
    }
}

#[test]
fn a_set_without_its_parts_in_order_and_a_part_without_its_set_are_refused_by_name() {
    let (one, two) = (part(0, 3, 5, 6), part(4, 1, 1, 2));
    let set_of = |from, to| {
        let epochs = EpochRange { from: Epoch(from), to: Epoch(to) };
        Change::Forget(Scope::Set(Set { id: SetId([1; 8]), epochs }))
    };
    let cases = [
        vec![set_of(5, 6)],
        vec![Change::Part(one)],
        vec![Change::Part(one), Change::Clean, set_of(5, 6)],
        vec![Change::Part(one), Change::Part(two), set_of(5, 6)],
        vec![Change::Part(two), Change::Part(one), set_of(1, 6)],
        vec![Change::Part(one), Change::Forget(Scope::Shown(one))],
    ];
    for changes in cases {
        let mut bench = Bench::new();
        changes.iter().for_each(|change| _ = bench.journal.push(*change));
        bench.commit();
        let error = bench.scan().expect_err("a newer program wrote it");
        assert_eq!(error, JournalError::Record(RecordError::Parts), "{changes:?}");
    }
}

#[test]
fn a_torn_last_frame_never_was() {
    let mut bench = Bench::new();
    bench.die(0);
    let before = bench.medium.bytes.borrow().clone();
    let entries_before = entries(&bench.state);
    bench.die(65536);
    let after = bench.medium.bytes.borrow().clone();
    let torn: Vec<usize> = (0..before.len()).filter(|at| before[*at] != after[*at]).collect();
    for cut in &torn {
        *bench.medium.bytes.borrow_mut() = [&after[..*cut], &before[*cut..]].concat();
        assert_eq!(entries(&bench.scan().unwrap().state), entries_before, "cut at {cut}");
    }
}

#[test]
fn a_torn_rotation_leaves_the_half_before() {
    let mut bench = Bench::new();
    let (mut before, mut generation) =
        (bench.medium.bytes.borrow().clone(), bench.journal.position().generation);
    let mut wanted = entries(&bench.state);
    for n in 1..60 {
        let (due, cause) = (Due::ConservativeOverwrite, Cause::ConservativeOverwrite);
        bench.change(Change::Oblige(Extent::new(n * 65536, 4096), due, cause));
        bench.change(Change::Complete(Extent::new((n - 1) * 65536, 4096), Done::Rewritten, 1));
        bench.change(Change::Recorded(1));
        let commit = bench.journal.commit(&bench.state);
        bench.medium.write(commit.pos, &commit.bytes, true).unwrap();
        let after = bench.medium.bytes.borrow().clone();
        if bench.journal.position().generation != generation {
            for sectors in 0..commit.bytes.len() / 512 {
                let cut = commit.pos.0 as usize + sectors * 512;
                *bench.medium.bytes.borrow_mut() = [&after[..cut], &before[cut..]].concat();
                let found = entries(&bench.scan().unwrap().state);
                assert_eq!(found, wanted, "rotation {generation} torn after {sectors} sectors");
            }
        }
        *bench.medium.bytes.borrow_mut() = after;
        if let Some((pos, mark)) = commit.mark {
            bench.medium.write(pos, &mark, false).unwrap();
        }
        (before, generation) = (bench.medium.bytes.borrow().clone(), bench.journal.position().generation);
        wanted = entries(&bench.state);
    }
    assert!(generation > 2, "the journal never rotated");
}

#[test]
fn a_flipped_bit_is_refused_or_changes_nothing_but_the_last_frame() {
    let mut bench = Bench::new();
    for n in 0..40 {
        bench.die(n * 65536 % (1 << 22));
    }
    let all = entries(&bench.state);
    let last = bench.scan().unwrap().seq;
    let slots_at = SHAPE.slot(Slot(0)).0;
    for byte in 0..slots_at {
        bench.flip(byte, (byte % 8) as u8);
        match bench.scan() {
            Err(JournalError::Damaged(_) | JournalError::Version(_) | JournalError::OtherDisk) => {}
            Err(error) => panic!("byte {byte}: {error}"),
            Ok(found) if found.seq == last => assert_eq!(entries(&found.state), all, "byte {byte}"),
            // The very last frame cannot be told from a torn one.
            Ok(found) => assert_eq!(found.seq, last - 1, "byte {byte}: frames were lost unseen"),
        }
        bench.flip(byte, (byte % 8) as u8);
    }
}

#[test]
fn another_disks_journal_and_a_newer_one_are_refused_by_name() {
    let bench = Bench::new();
    assert_eq!(scan(&bench.medium, [8; 16], SIZE, 0).unwrap_err(), JournalError::OtherDisk);
    bench.medium.bytes.borrow_mut()[8] = 4;
    assert_eq!(bench.scan().unwrap_err(), JournalError::Version(4));
}

#[test]
fn a_journal_cut_short_is_refused() {
    let bench = Bench::new();
    for len in [0, 100, 4095, 4096, 10_000, SHAPE.bytes() as usize - 1] {
        let short = Memory::new(0);
        short.put(Pos(0), &bench.medium.bytes.borrow()[..len]).unwrap();
        assert!(matches!(scan(&short, DISK, SIZE, 0), Err(JournalError::Damaged(_))), "{len}");
    }
}

#[test]
fn an_obligation_beyond_the_disk_is_refused() {
    let mut bench = Bench::new();
    bench.die(SIZE);
    assert!(matches!(bench.scan(), Err(JournalError::Damaged(_))));
}

#[test]
fn a_full_ledger_with_all_slots_held_fits_its_half() {
    for shape in
        [SHAPE, Shape::of_disk(1 << 30), Shape::of_disk(u64::MAX), Shape { half_bytes: 64 << 10, slots: 7 }]
    {
        let mut state = State::default();
        for n in 0..shape.entries_max() as u64 {
            state.apply(
                Change::Oblige(Extent::new(n * 1024, 512), Due::Suspicious, Cause::ConservativeOverwrite),
                Millis(0),
            );
        }
        for slot in 0..shape.slots {
            state.apply(Change::Stage(Slot(slot), Extent::new(0, 1), Crc(0)), Millis(0));
        }
        let mut journal = Journal::resume(shape, 0, 5, 5);
        let commit = journal.commit(&state);
        assert!(commit.bytes.len() as u64 <= shape.half_bytes, "{shape:?}");
    }
}

/// Makes another record of the one at `at` in the frame that begins at `from`.
fn alter(bench: &Bench, from: usize, at: usize, bytes: &[u8]) {
    let mut all = bench.medium.bytes.borrow_mut();
    all[from + at..][..bytes.len()].copy_from_slice(bytes);
    let records = u64::from_le_bytes(all[from + 24..from + 32].try_into().unwrap());
    all[from + 32..from + 36].fill(0);
    let crc = crc32c::crc32c(&all[from..from + 36 + records as usize]);
    all[from + 32..from + 36].copy_from_slice(&crc.to_le_bytes());
}

#[test]
fn a_record_that_is_unknown_is_an_error_that_names_it() {
    // Behind the head of the frame and the records of the counters, all but the last, and of the audit log.
    let first = 36 + (record::COUNTERS_BYTES - 8 + record::LOG_BYTES) as usize;
    let cases: [(usize, &[u8], &str); 7] = [
        (first, &[9, 1], "a record with the unknown tag 265, of 18 bytes"),
        (first, &[3, 0], "a record `clear` with an unexpected length of 18 bytes"),
        (first + 2, &[255, 0], "a record that continues behind the end of its frame"),
        (first + 20, &[7], "a record `oblige` with the unknown value 7 in the field `due`"),
        (first + 21, &[8], "a record `oblige` with the unknown value 8 in the field `cause`"),
        (
            first + 12,
            &[255; 8],
            "a record `oblige` with the unknown value 18446744073709551615 in the field `length`",
        ),
        (36, &[6, 0, 0, 0], "a frame that does not begin with one record `counters` and one record `log`"),
    ];
    for (at, bytes, expected) in cases {
        let mut bench = Bench::new();
        let from = SHAPE.half(0).0 as usize + bench.journal.cursor as usize;
        bench.die(4096);
        alter(&bench, from, at, bytes);
        let error = bench.scan().expect_err(expected).to_string();
        assert_eq!(error, format!("the journal has {expected}; use the program that wrote it"));
    }
}

#[test]
fn more_receipts_than_were_ever_given_are_refused() {
    let mut bench = Bench::new();
    bench.die(0);
    bench.change(Change::Complete(Extent::new(0, 4096), Done::Shredded, 1));
    bench.state.counters.receipts = 0;
    bench.commit();
    assert!(matches!(bench.scan(), Err(JournalError::Damaged(_))));
}

#[test]
fn one_wrong_byte_is_mended_where_something_says_that_the_frame_was_durable() {
    let mut bench = Bench::new();
    (1..4).for_each(|n| bench.die(n * 4096));
    let FrameId { generation, seq } = bench.journal.position();
    let whole = bench.medium.bytes.borrow().clone();
    let frames: Vec<usize> =
        (0..whole.len()).step_by(512).filter(|at| whole[*at..].starts_with(b"QFRM")).collect();
    let last = *frames.last().expect("there are frames");
    let in_frames = frames.iter().flat_map(|at| [0, 3, 5, 12, 20, 24, 33, 40, 200].map(|n| at + n));
    for at in [0, 9, 30, 41].into_iter().chain(in_frames) {
        for stopped in [Some((generation, seq)), None] {
            bench.medium.bytes.borrow_mut()[at] ^= 0x24;
            let done = mend(&bench.medium, DISK, stopped).unwrap();
            let is_mended = *bench.medium.bytes.borrow() == whole;
            // Without a clean stop, a crash may have torn the last frame.
            assert_eq!(is_mended, stopped.is_some() || at < last, "byte {at}: {done:?}");
            assert_eq!(done.len(), usize::from(is_mended));
            bench.medium.bytes.borrow_mut().clone_from(&whole);
        }
    }
}
