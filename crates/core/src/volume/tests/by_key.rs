//! Content that dies with its keys.

use super::layers::Puppet;
use super::*;
use crate::base::cell::{Cell, Cells};
use crate::base::units::{BLOCK_BYTES, Block, Session};
use crate::media::cipher::{Cipher, Keys, SECTOR_BYTES};
use crate::owed::receipts::Done;
use crate::store::sealed;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::sync::atomic::Ordering::Relaxed;

/// A cipher without a master key.
#[derive(Debug)]
struct Masked;

impl Masked {
    fn apply(block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        for (n, sector) in content.chunks_mut(SECTOR_BYTES as usize).enumerate() {
            cell.mask(Session((from + n) as u16), block.0 as u32, sector);
        }
    }
}

impl Cipher for Masked {
    fn encrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        Self::apply(block, cell, from, content);
    }

    fn decrypt(&self, block: Block, cell: &Cell, from: usize, content: &mut [u8]) {
        for (n, sector) in content.chunks_mut(SECTOR_BYTES as usize).enumerate() {
            if !is_zeros(sector) {
                Self::apply(block, cell, from + n, sector);
            }
        }
    }
}

struct Disk {
    data: Memory,
    journal: Memory,
    map: Memory,
    root: Memory,
    volume: Option<Volume>,
    todo: VecDeque<Io>,
    replies: HashMap<RequestId, Outcome>,
    receipts: Vec<Receipt>,
    latched: Option<String>,
    overwrites_kill: bool,
    next: u64,
    now: u64,
}

impl Disk {
    fn new(size: u64) -> Self {
        let shape = Shape { half_bytes: 64 << 10, slots: 16 };
        let [data, journal] = [size.next_multiple_of(BLOCK_BYTES), shape.bytes()].map(Memory::new);
        let [map, root] = [sealed::map_bytes(size), sealed::ROOT_BYTES].map(Memory::new);
        sealed::format(&map, &root, DISK, size, Cells::new([9; 32])).unwrap();
        let checkpoint = Volume::format(&journal, shape, DISK, None, None).unwrap();
        let mut this = Self {
            data,
            journal,
            map,
            root,
            volume: None,
            todo: VecDeque::new(),
            replies: HashMap::new(),
            receipts: Vec::new(),
            latched: None,
            overwrites_kill: false,
            next: 0,
            now: 0,
        };
        this.open(size, Some(checkpoint));
        this
    }

    fn media(&self) -> Media<'_> {
        let media = Media::new(&self.data as &dyn Medium, &self.journal);
        media.with(MediumId::Map, &self.map).with(MediumId::Root, &self.root)
    }

    fn open(&mut self, size: u64, checkpoint: Option<Checkpoint>) {
        self.next += 1;
        let mut entropy = [9; 32];
        entropy[..8].copy_from_slice(&self.next.to_le_bytes());
        let overwrites_kill = self.overwrites_kill;
        let config = Config { overwrites_kill, ..Config::new("purge-2".parse().unwrap()) };
        let opening = Opening {
            entropy,
            now: Millis(self.now),
            store: store::Kind::Sealed,
            ..opening(config, size, checkpoint)
        };
        let volume = Volume::open(opening, &self.media()).unwrap();
        self.volume = Some(volume);
    }

    /// The server is killed in the midst of what it does, and starts again.
    fn kill(&mut self, size: u64) {
        self.todo.clear();
        self.replies.clear();
        self.open(size, None);
        self.volume().holes_known();
    }

    fn volume(&mut self) -> &mut Volume {
        self.volume.as_mut().expect("the disk is open")
    }

    fn tell(&mut self, event: Event) {
        let (mut out, now) = (Vec::new(), Millis(self.now));
        self.volume().apply(now, event, &mut out);
        let mut last = None;
        for command in out {
            match command {
                Command::Io(io) => self.todo.push_back(io),
                Command::Reply(id, outcome) => assert!(self.replies.insert(id, outcome).is_none()),
                Command::Receipt(number, receipt) => {
                    self.receipts.push(receipt);
                    last = Some(number + 1);
                }
                Command::Latched(reason) => self.latched = Some(reason),
                Command::Died(..) => {}
            }
        }
        if let Some(receipts) = last {
            self.tell(Event::Recorded { receipts, head: LogHead { lines: receipts, hash: [1; 32] } });
        }
    }

    fn step(&mut self, n: usize) -> bool {
        let Some(io) = self.todo.remove(n) else { return false };
        let (id, result) = io.perform(&self.media(), Some(Keys::Cipher(&Masked)), &mut Scratch::default());
        self.tell(Event::Completed(id, result));
        true
    }

    fn settle(&mut self) {
        while self.step(0) {}
    }

    fn ask(&mut self, op: Op, start: u64, len: u64) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.tell(Event::Request(id, Request { op, extent: Extent::new(start, len), fua: false }));
        id
    }

    fn done(&mut self, op: Op, start: u64, len: u64) -> Buf {
        let id = self.ask(op, start, len);
        self.settle();
        if !self.replies.contains_key(&id) {
            // It waits for a task that goes on when no guest is at work.
            self.idle();
        }
        let outcome = self.replies.remove(&id).expect("it was replied to");
        outcome.map(Reply::into_buf).unwrap()
    }

    fn write(&mut self, start: u64, byte: u8, len: u64) {
        self.done(Op::Write(vec![byte; len as usize].into()), start, len);
    }

    fn reads(&mut self, start: u64, len: u64) -> Vec<u8> {
        self.done(Op::Read, start, len).into_vec()
    }

    fn idle(&mut self) {
        self.now += 1000;
        self.tell(Event::Tick);
        self.settle();
    }

    fn raw(&self, start: u64, len: u64) -> Vec<u8> {
        self.data.bytes.borrow()[start as usize..][..len as usize].to_vec()
    }

    fn acts(&mut self) -> Vec<(u64, u64, Done)> {
        let receipts = std::mem::take(&mut self.receipts);
        receipts.into_iter().map(|it| (it.extent.start.0, it.extent.len, it.act)).collect()
    }
}

#[test]
fn content_is_ciphertext_on_the_medium_and_dies_with_a_purge() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 65536);
    assert_ne!(disk.raw(0, 4096), [7; 4096]);
    assert_eq!(disk.reads(0, 65536), [7; 65536]);
    let top = disk.root.bytes.borrow().clone();
    disk.done(Op::Trim, 4096, 8192);
    assert_eq!(disk.reads(0, 16384), [[7; 4096], [0; 4096], [0; 4096], [7; 4096]].concat());
    disk.idle();
    assert_eq!(disk.acts(), [(4096, 8192, Done::Rekeyed)]);
    assert_ne!(*disk.root.bytes.borrow(), top);
    assert_eq!((disk.raw(4096, 8192), disk.reads(12288, 4096)), (vec![0; 8192], vec![7; 4096]));
    assert!(disk.volume().is_drained());
    disk.kill(SIZE);
    assert_eq!(disk.reads(0, 16384), [[7; 4096], [0; 4096], [0; 4096], [7; 4096]].concat());
}

#[test]
fn a_write_over_a_dead_block_waits_for_nothing_and_its_old_key_is_owed() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 65536);
    disk.done(Op::Trim, 4096, 8192);
    disk.write(4608, 9, 512);
    assert_eq!(disk.reads(4096, 8192), [&[0; 512][..], &[9; 512], &[0; 7168]].concat());
    disk.done(Op::Flush, 0, 0);
    disk.kill(SIZE);
    assert_eq!(disk.reads(4096, 8192), [&[0; 512][..], &[9; 512], &[0; 7168]].concat());
    assert!(disk.acts().is_empty(), "a key is owed that no purge has ended");
    disk.idle();
    assert_eq!(disk.acts(), [(8192, 4096, Done::Rekeyed), (4096, 4096, Done::Rekeyed)]);
    assert_eq!(disk.reads(4096, 8192), [&[0; 512][..], &[9; 512], &[0; 7168]].concat());
}

#[test]
fn what_was_written_over_a_dead_block_and_never_flushed_is_dead_after_a_kill() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 8192);
    disk.done(Op::Flush, 0, 0);
    disk.done(Op::Trim, 0, 4096);
    disk.write(0, 9, 4096);
    disk.kill(SIZE);
    assert_eq!(disk.reads(0, 8192), [[0; 4096], [7; 4096]].concat());
}

#[test]
fn a_part_of_a_block_that_dies_takes_the_key_of_the_block_along() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 8192);
    disk.done(Op::Trim, 1000, 1000);
    disk.idle();
    assert_eq!(disk.acts(), [(0, 4096, Done::Rekeyed)]);
    let expected = [&[7; 1000][..], &[0; 1000], &[7; 6192]].concat();
    assert_eq!(disk.reads(0, 8192), expected);
    disk.kill(SIZE);
    assert_eq!(disk.reads(0, 8192), expected);
    assert!(is_zeros(&disk.journal.bytes.borrow()[4096 + 2 * (64 << 10)..][..16 * 4096]));
}

#[test]
fn a_block_gets_its_space_durably_before_its_content_is_staged() {
    // A block of which one sector was ever written may have no space for the others.
    for (written, syncs) in [(512, 1), (4096, 0)] {
        let mut disk = Disk::new(SIZE);
        disk.volume().holes_known();
        disk.write(0, 7, written);
        disk.done(Op::Flush, 0, 0);
        disk.done(Op::Trim, 0, 100);
        let before = disk.data.syncs.get();
        disk.now += 1000;
        disk.tell(Event::Tick);
        while is_zeros(&disk.journal.bytes.borrow()[4096 + 2 * (64 << 10)..]) {
            assert!(disk.step(0), "the block is staged");
        }
        assert_eq!(disk.data.syncs.get() - before, syncs);
    }
}

#[test]
fn a_busy_root_keeps_nothing_from_being_served_and_the_purge_goes_on_later() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 8192);
    disk.done(Op::Trim, 0, 4096);
    disk.root.busy.set(true);
    disk.idle();
    assert!(disk.acts().is_empty() && disk.latched.is_none());
    disk.write(0, 8, 4096);
    disk.done(Op::Flush, 0, 0);
    assert_eq!(disk.reads(0, 8192), [[8; 4096], [7; 4096]].concat());
    assert!(disk.volume().status().owed.pauses.is_some_and(|why| why.contains("busy")));
    // A block that needs a fresh key before it is written gets that all the same.
    disk.write(16384, 7, 8192);
    disk.done(Op::Trim, 16384, 1024);
    disk.done(Op::ConservativeOverwrite, 20480, 4096);
    disk.write(16384, 9, 512);
    disk.write(20480, 6, 512);
    let part = [&[9; 512][..], &[0; 512], &[7; 3072], &[6; 512], &[7; 3584]].concat();
    assert_eq!(disk.reads(16384, 8192), part);
    disk.root.busy.set(false);
    for _ in 0..30 {
        disk.idle();
    }
    assert!(disk.acts().contains(&(0, 4096, Done::Rekeyed)));
    assert!(disk.volume().is_drained());
    assert_eq!(disk.volume().status().owed.pauses, None);
    disk.kill(SIZE);
    assert_eq!(disk.reads(0, 8192), [[8; 4096], [7; 4096]].concat());
    assert_eq!(disk.reads(16384, 8192), part);
}

#[test]
fn evidence_that_waits_behind_a_busy_root_does_not_wake_the_disk() {
    let (mut disk, puppet) = (Disk::new(SIZE), Puppet::default());
    disk.volume().watch(Box::new(puppet.clone()));
    disk.write(0, 7, 8192);
    disk.done(Op::Trim, 0, 4096);
    let root = disk.root.bytes.borrow().clone();
    disk.now += 1000;
    disk.tell(Event::Tick);
    while *disk.root.bytes.borrow() == root {
        assert!(disk.step(0), "the purge writes the root");
    }
    disk.root.busy.set(true);
    disk.settle();
    disk.ask(Op::Trim, 4096, 512);
    disk.settle();
    let write = disk.ask(Op::Write(vec![9; 512].into()), 4096, 512);
    disk.settle();
    puppet.has_evidence.store(true, Relaxed);
    disk.idle();
    let now = disk.now;
    assert!(!disk.replies.contains_key(&write) && disk.volume().next_wakeup().is_some_and(|at| at.0 > now));
    disk.root.busy.set(false);
    for _ in 0..15 {
        disk.idle();
    }
    assert!(disk.replies.contains_key(&write) && puppet.told.answers.load(Relaxed) > 0);
}

#[test]
fn a_flush_of_the_guest_makes_evidence_durable_and_a_write_over_what_died_is_not_staged() {
    let (mut disk, puppet) = (Disk::new(SIZE), Puppet::default());
    disk.volume().watch(Box::new(puppet.clone()));
    disk.write(0, 7, 8192);
    disk.done(Op::Flush, 0, 0);
    let proofs = || puppet.told.answers.load(Relaxed);
    disk.ask(Op::Write(vec![8; 512].into()), 8192, 512);
    puppet.has_evidence.store(true, Relaxed);
    disk.tell(Event::Tick);
    disk.ask(Op::Flush, 0, 0);
    disk.settle();
    assert_eq!(proofs(), 0, "that sync began before the write had ended which may be the evidence");
    assert!(disk.todo.is_empty(), "no sync is made for evidence alone while a guest is at work");
    disk.done(Op::Flush, 0, 0);
    assert_eq!(proofs(), 1);
    puppet.finds_dead(Extent::new(0, 4096));
    disk.tell(Event::Tick);
    disk.write(0, 9, 512);
    assert_eq!(disk.reads(0, 8192), [&[9; 512][..], &[0; 3584], &[7; 4096]].concat());
    assert_eq!(disk.volume().status().counters.rewritten_bytes, 0);
    puppet.has_evidence.store(true, Relaxed);
    disk.idle();
    assert_eq!(proofs(), 2, "an idle disk makes a sync for it");
}

#[test]
fn with_the_grade_content_an_overwrite_owes_the_key_of_what_was_there() {
    let mut disk = Disk::new(SIZE);
    disk.overwrites_kill = true;
    let config = Config { overwrites_kill: true, ..disk.volume().config().clone() };
    disk.volume().reconfigure(config);
    disk.write(0, 7, 8192);
    disk.write(0, 8, 1024);
    disk.write(0, 9, 1024);
    assert_eq!(disk.reads(0, 8192), [&[9; 1024][..], &[7; 7168]].concat());
    assert_eq!(disk.volume().status().counters.rewritten_bytes, 2 * 4096);
    disk.idle();
    assert_eq!(disk.acts(), [(0, 4096, Done::Rekeyed)]);
    assert_eq!(disk.reads(0, 8192), [&[9; 1024][..], &[7; 7168]].concat());
    disk.kill(SIZE);
    assert_eq!(disk.reads(0, 8192), [&[9; 1024][..], &[7; 7168]].concat());
}

#[test]
fn a_read_that_a_write_under_another_key_overtakes_reads_again() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 8192);
    let read = disk.ask(Op::Read, 0, 8192);
    let late = disk.todo.pop_back().expect("the read is under way");
    disk.done(Op::Trim, 0, 4096);
    disk.write(0, 9, 4096);
    disk.todo.push_back(late);
    disk.settle();
    let shown = disk.replies.remove(&read).expect("it was replied to").map(Reply::into_buf).unwrap();
    assert_eq!(shown.into_vec(), [[9; 4096], [7; 4096]].concat());
}

#[test]
fn a_write_over_a_block_whose_death_was_not_durable_waits_for_the_frame_alone() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 16384);
    disk.done(Op::Trim, 8192, 4096);
    disk.ask(Op::Trim, 0, 4096);
    let write = disk.ask(Op::Write(vec![9; 512].into()), 0, 512);
    // The frame, then the write; the purge that the write called for meanwhile takes many more.
    while !disk.replies.contains_key(&write) {
        assert!(!disk.todo.is_empty() && !disk.volume().disk.is_purging(), "it waits for a purge");
        disk.step(0);
    }
}

#[test]
fn a_damaged_page_of_keys_latches_the_disk_and_keeps_no_request_waiting() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 16384);
    disk.done(Op::Trim, 0, 4096);
    disk.idle();
    disk.kill(SIZE);
    let leaf = sealed::map_bytes(SIZE) - 3 * 8192;
    disk.map.bytes.borrow_mut()[leaf as usize..][..8192].fill(0xee);
    disk.done(Op::Trim, 4096, 4096);
    disk.now += 1000;
    disk.tell(Event::Tick);
    disk.settle();
    let reason = disk.latched.clone().expect("it latched");
    assert!(reason.contains("damaged"), "{reason}");
    let id = disk.ask(Op::Write(vec![9; 4096].into()), 4096, 4096);
    disk.settle();
    assert!(matches!(disk.replies.remove(&id), Some(Err(Refusal::Latched(_)))));
}

/// What each sector may show after a kill: the last element is what it shows now.
struct Model(Vec<Vec<u8>>);

impl Model {
    fn change(&mut self, start: u64, len: u64, byte: u8) {
        (start / 512..(start + len) / 512).for_each(|it| self.0[it as usize].push(byte));
    }

    fn settle(&mut self) {
        self.0.iter_mut().for_each(|it| *it = it.split_off(it.len() - 1));
    }

    fn check(&mut self, shown: &[u8], is_exact: bool, when: &str) {
        for (n, (sector, may)) in shown.chunks(512).zip(&mut self.0).enumerate() {
            let byte = sector[0];
            assert!(sector.iter().all(|it| *it == byte), "{when}: sector {n} shows several writes");
            let is_fine = if is_exact { may.last() == Some(&byte) } else { may.contains(&byte) };
            assert!(is_fine, "{when}: sector {n} shows {byte}, and may show {may:?}");
            *may = vec![byte];
        }
    }
}

/// Writes, deaths, flushes, idle times and kills, in any order, with I/O operations that end in any order.
fn life(seed: u64) {
    let size = 40 * BLOCK_BYTES;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut roll = |below: u64| u64::from(rng.next_u32()) % below;
    let (mut disk, mut model) = (Disk::new(size), Model(vec![vec![0]; (size / 512) as usize]));
    disk.overwrites_kill = seed % 2 == 1;
    disk.kill(size);
    for n in 0..120 {
        let is_whole = roll(2) == 0;
        let unit = if is_whole { BLOCK_BYTES } else { 512 };
        let start = roll(size / unit) * unit;
        let len = (1 + roll(6)).min((size - start) / unit) * unit;
        let byte = 1 + (n % 250) as u8;
        match roll(20) {
            0..7 => {
                let id = disk.ask(Op::Write(vec![byte; len as usize].into()), start, len);
                model.change(start, len, byte);
                while !disk.replies.contains_key(&id) {
                    let which = roll(disk.todo.len() as u64) as usize;
                    assert!(disk.step(which), "seed {seed}: a write waits for ever");
                }
            }
            7..12 => {
                let op =
                    [Op::Trim, Op::Purge, Op::Zero { no_hole: true, fast: false }][roll(3) as usize].clone();
                disk.done(op, start, len);
                model.change(start, len, 0);
                model.0[(start / 512) as usize..((start + len) / 512) as usize]
                    .iter_mut()
                    .for_each(|it| *it = vec![0]);
            }
            12 => {
                disk.done(Op::ConservativeOverwrite, start, len);
            }
            13..15 => {
                disk.done(Op::Flush, 0, 0);
                model.settle();
            }
            15..17 => {
                disk.now += 1000;
                disk.tell(Event::Tick);
                for _ in 0..roll(40) {
                    let which = roll(disk.todo.len().max(1) as u64) as usize;
                    disk.step(which);
                }
            }
            17 => {
                disk.root.busy.set(roll(3) == 0);
                disk.idle();
            }
            18 => {
                disk.root.busy.set(false);
                for _ in 0..roll(10) {
                    disk.step(0);
                }
                disk.kill(size);
                let shown = disk.reads(0, size);
                model.check(&shown, false, &format!("seed {seed}, step {n}, after a kill"));
            }
            _ => {
                let shown = disk.reads(0, size);
                model.check_now(&shown, &format!("seed {seed}, step {n}"));
            }
        }
        assert_eq!(disk.latched, None, "seed {seed}, step {n}");
    }
    disk.root.busy.set(false);
    for _ in 0..15 {
        disk.idle();
    }
    assert!(disk.volume().is_drained() || disk.volume().status().owed.suspicious_bytes > 0, "seed {seed}");
    let shown = disk.reads(0, size);
    model.check(&shown, true, &format!("seed {seed}, at the end"));
}

impl Model {
    fn check_now(&mut self, shown: &[u8], when: &str) {
        for (n, (sector, may)) in shown.chunks(512).zip(&self.0).enumerate() {
            assert!(
                may.last() == Some(&sector[0]),
                "{when}: sector {n} shows {}, and should {may:?}",
                sector[0]
            );
        }
    }
}

#[test]
fn nothing_alive_is_lost_in_lives_of_a_sealed_disk() {
    (0..60).for_each(life);
}

#[test]
fn an_old_key_is_gone_before_its_receipt_also_while_its_block_is_written_over_again() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 8192);
    disk.done(Op::Flush, 0, 0);
    let first = disk.raw(0, 4096);
    disk.done(Op::Trim, 0, 4096);
    disk.write(0, 8, 4096);
    disk.done(Op::Flush, 0, 0);
    disk.done(Op::Trim, 0, 4096);
    disk.ask(Op::Write(vec![9; 4096].into()), 0, 4096);
    disk.now += 1000;
    disk.tell(Event::Tick);
    // All but that write ends.
    while disk.step(1) {}
    assert!(disk.acts().is_empty(), "the next tree would have the key of the first content");
    disk.settle();
    disk.done(Op::Flush, 0, 0);
    disk.idle();
    assert_eq!(disk.acts(), [(0, 4096, Done::Rekeyed)]);
    disk.kill(SIZE);
    assert_eq!(disk.reads(0, 4096), [9; 4096]);
    disk.data.bytes.borrow_mut()[..4096].copy_from_slice(&first);
    assert_ne!(disk.reads(0, 4096)[..512], [7; 512]);
}

#[test]
fn dead_parts_of_a_sector_read_as_zeros_when_a_purge_may_take_one_of_them_only() {
    let mut disk = Disk::new(SIZE);
    disk.write(0, 7, 16384);
    disk.done(Op::Flush, 0, 0);
    disk.done(Op::Zero { no_hole: true, fast: false }, 0, 1000);
    disk.done(Op::Trim, 1000, 3096);
    // The death of the next block joins that run, and is not durable yet.
    disk.ask(Op::Trim, 4096, 4096);
    disk.now += 1000;
    disk.tell(Event::Tick);
    while disk.step(1) {}
    for _ in 0..3 {
        disk.idle();
        assert_eq!(disk.reads(0, 8192), [0; 8192]);
    }
}
