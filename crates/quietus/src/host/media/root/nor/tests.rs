//! NOR flash that loses its power at every operation.

use super::*;
use std::collections::BTreeSet;

const BLOCK: usize = 1024;

/// NOR flash of two blocks. Bits whose change was cut off read as one value until the power is off, and then perhaps as the other.
#[derive(Clone, Debug)]
struct Sim {
    blocks: [Vec<u8>; BLOCKS],
    /// Bits that may have either value.
    weak: [Vec<u8>; BLOCKS],
    /// Places that were programmed since they were erased, if that can be done once.
    programmed: BTreeSet<(usize, usize)>,
    write_bytes: usize,
    /// Whether a place can be programmed twice; if not, a second time is an error of the chip if the chip claims that it can, and else
    /// of the log.
    clears_bits: bool,
    claims_to_clear_bits: bool,
    /// Operations until the power is cut.
    left: Option<usize>,
    random: u64,
    operations: usize,
    /// A block that cannot be erased.
    stuck: Option<usize>,
}

impl Sim {
    fn new(write_bytes: usize) -> Self {
        let blank = || [vec![BLANK; BLOCK], vec![BLANK; BLOCK]];
        let weak = [vec![0; BLOCK], vec![0; BLOCK]];
        Self {
            blocks: blank(),
            weak,
            programmed: BTreeSet::new(),
            write_bytes,
            clears_bits: write_bytes == 1,
            claims_to_clear_bits: write_bytes == 1,
            left: None,
            random: 1,
            operations: 0,
            stuck: None,
        }
    }

    /// A chip that is programmed byte by byte, each once.
    fn once(claims_to_clear_bits: bool) -> Self {
        Self { clears_bits: false, claims_to_clear_bits, ..Self::new(1) }
    }

    fn draw(&mut self) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.random >> 33
    }

    /// Counts an operation, and says whether the power is cut in it.
    fn is_cut(&mut self) -> io::Result<bool> {
        self.operations += 1;
        match &mut self.left {
            None => Ok(false),
            Some(0) => Err(io::Error::other("no power")),
            Some(left) => {
                *left -= 1;
                Ok(*left == 0)
            }
        }
    }

    /// Changes bytes, all or up to a cut; bits that were changed about the cut are weak.
    fn change(&mut self, block: usize, at: usize, to: &[u8], is_cut: bool) -> io::Result<()> {
        let end = if is_cut { self.draw() as usize % (to.len() + 1) } else { to.len() };
        // The last bytes of what was done, and the next ones, are neither the one nor the other; sometimes all is.
        let first = if self.draw().is_multiple_of(3) { 0 } else { end.saturating_sub(8) };
        for (index, new) in to.iter().enumerate().take(end + 8) {
            let old = self.blocks[block][at + index];
            let is_weak = is_cut && index >= first;
            let weak = if is_weak { (old ^ new) & self.draw() as u8 } else { 0 };
            if index < end {
                self.blocks[block][at + index] = *new;
                self.weak[block][at + index] = weak;
            } else {
                self.weak[block][at + index] |= weak;
            }
        }
        if is_cut { Err(io::Error::other("no power")) } else { Ok(()) }
    }

    /// The power comes back: weak bits take a value.
    fn restart(&mut self) {
        self.left = None;
        for block in 0..BLOCKS {
            for at in 0..BLOCK {
                let weak = self.weak[block][at] & self.draw() as u8;
                self.blocks[block][at] ^= weak;
            }
        }
    }

    fn holds(&self, secret: &[u8; SLOT_BYTES]) -> bool {
        let holds = |block: &Vec<u8>| block.windows(8).any(|window| window == &secret[..8]);
        self.blocks.iter().any(holds)
    }
}

impl Chip for Sim {
    fn geometry(&self) -> Geometry {
        Geometry { block_bytes: BLOCK, write_bytes: self.write_bytes, clears_bits: self.claims_to_clear_bits }
    }

    fn read(&mut self, block: usize, at: usize, into: &mut [u8]) -> io::Result<()> {
        into.copy_from_slice(&self.blocks[block][at..at + into.len()]);
        Ok(())
    }

    fn program(&mut self, block: usize, at: usize, from: &[u8]) -> io::Result<()> {
        assert!(
            at.is_multiple_of(self.write_bytes) && from.len().is_multiple_of(self.write_bytes),
            "whole places are programmed"
        );
        let is_cut = self.is_cut()?;
        // A place whose programming was cut off may look erased: it is tried, and read back.
        if !self.clears_bits && !is_cut {
            for place in (at..at + from.len()).step_by(self.write_bytes) {
                if !self.programmed.insert((block, place)) {
                    assert!(self.claims_to_clear_bits, "a place is programmed once");
                    return Err(io::Error::other("programmed twice"));
                }
            }
        }
        // Bits are cleared, and never set.
        let to: Vec<u8> = from.iter().zip(&self.blocks[block][at..]).map(|(new, old)| new & old).collect();
        self.change(block, at, &to, is_cut)
    }

    fn erase(&mut self, block: usize) -> io::Result<()> {
        let is_cut = self.is_cut()?;
        self.programmed.retain(|(found, _)| *found != block || is_cut);
        if self.stuck == Some(block) {
            return Ok(());
        }
        // An erasure that is cut off may leave the beginning, so that it is counted from the end.
        let reversed = |bytes: &mut Vec<u8>| bytes.reverse();
        reversed(&mut self.blocks[block]);
        reversed(&mut self.weak[block]);
        let done = self.change(block, 0, &[BLANK; BLOCK], is_cut);
        reversed(&mut self.blocks[block]);
        reversed(&mut self.weak[block]);
        done
    }
}

const LABEL: Label = [0x4c; LABEL_BYTES];

/// The secret of purge `number`, unlike all others in its first bytes.
fn secret(number: u64) -> SlotContent {
    let mut bytes = [0x11; SLOT_BYTES];
    bytes[..8]
        .copy_from_slice(&(0xabcd_0000_0000_1234 ^ number.wrapping_mul(0x0101_0101_0000)).to_le_bytes());
    Zeroizing::new(bytes)
}

fn made(write_bytes: usize) -> Log<Sim> {
    made_on(Sim::new(write_bytes))
}

fn made_on(chip: Sim) -> Log<Sim> {
    let mut log = Log::create(chip).expect("two erased blocks");
    log.set_label(&LABEL).expect("the label");
    log.set_slot(1, &secret(1)).expect("the first secret");
    log
}

/// Purge `number`: the new secret, and then the old one dies.
fn purge(log: &mut Log<Sim>, number: u64) -> Result<(), NorError> {
    log.set_slot(number as usize % 2, &secret(number))?;
    log.destroy(1 - number as usize % 2)
}

/// The secrets of the two slots, as far as they are some: their numbers.
fn numbers(log: &Log<Sim>, most: u64) -> Vec<u64> {
    (1..=most).filter(|number| *log.slot(*number as usize % 2) == *secret(*number)).collect()
}

#[test]
fn what_dies_is_nowhere_on_the_flash_and_what_lives_is_read_again() {
    for write_bytes in [1, 16, 128] {
        let mut log = made(write_bytes);
        for number in 2..100 {
            purge(&mut log, number).expect("a purge");
            assert_eq!((numbers(&log, 100), log.label()), (vec![number], LABEL));
            for old in 1..number {
                assert!(!log.chip.holds(&secret(old)), "secret {old} after purge {number}, {write_bytes}");
            }
            if number % 10 == 0 {
                log = Log::open(log.into_chip(), number % 20 == 0).expect("it opens");
                assert_eq!((numbers(&log, 100), log.label()), (vec![number], LABEL));
                if number % 20 == 0 {
                    log = Log::open(log.into_chip(), false).expect("it opens");
                }
            }
        }
    }
}

#[test]
fn where_a_place_cannot_be_programmed_twice_each_purge_erases_a_block_even_if_the_chip_claims_that_it_can() {
    for claims_to_clear_bits in [false, true] {
        let mut log = made_on(Sim::once(claims_to_clear_bits));
        for number in 2..40 {
            purge(&mut log, number).expect("a purge");
            assert_eq!(numbers(&log, 40), [number]);
            assert!((1..number).all(|old| !log.chip.holds(&secret(old))), "purge {number}");
            log = Log::open(log.into_chip(), false).expect("it opens");
        }
    }
}

#[test]
fn where_bits_can_be_cleared_a_block_is_erased_when_it_is_full_and_not_with_each_purge() {
    for (write_bytes, most) in [(1, 60 / 12 + 2), (16, 61)] {
        let mut log = made(write_bytes);
        let before = log.state.generation;
        (2..62).for_each(|number| purge(&mut log, number).expect("a purge"));
        let moves = log.state.generation - before;
        assert!((4..=most).contains(&moves), "{moves} moves with {write_bytes}");
    }
}

#[test]
fn blocks_that_hold_something_are_not_taken_for_a_new_root() {
    let mut chip = Sim::new(1);
    chip.blocks[1][700] = 0xfe;
    assert!(matches!(Log::create(chip.clone()), Err(NorError::InUse)));
    assert!(matches!(Log::open(chip, false), Err(NorError::NoRoot)));
    assert!(matches!(Log::create(made(1).into_chip()), Err(NorError::InUse)));
}

#[test]
fn a_block_that_is_not_erased_keeps_the_death_owed_and_the_rest_whole() {
    let mut log = made(16);
    let block = log.state.active;
    log.chip.stuck = Some(block);
    log.set_slot(0, &secret(2)).expect("the next secret");
    for _ in 0..3 {
        assert!(matches!(log.destroy(1), Err(NorError::NotErased { block: found }) if found == block));
        assert_eq!(numbers(&log, 2), [2]);
    }
    assert!(log.chip.holds(&secret(1)));
    log.chip.stuck = None;
    log.destroy(1).expect("it is erased now");
    assert!(!log.chip.holds(&secret(1)));
    assert_eq!(numbers(&log, 2), [2]);
}

/// Two blocks with a secret and so many labels each: the earlier one, with secret 2, is block 0, and the later one has secret 4.
fn two_blocks(labels: [usize; 2]) -> Sim {
    let mut log = Log { chip: Sim::new(1), geometry: Sim::new(1).geometry(), state: State::new(0) };
    for (age, labels) in labels.into_iter().enumerate() {
        let generation = 4 + age as u32;
        let slot = Held::Slot(0, secret(2 + 2 * age as u64));
        let held = std::iter::once(slot).chain(std::iter::repeat_n(Held::Label(LABEL), labels));
        for (held, number) in held.zip(0..) {
            log.put(age, &Record { generation, number, held }).expect("a record");
        }
    }
    log.chip
}

#[test]
fn of_two_blocks_the_later_counts_if_it_is_whole_and_else_the_one_that_nothing_was_erased_of() {
    // Labels of the earlier block and of the later one, and the secret that counts.
    for (labels, number) in
        [([2, 0], 2), ([2, 1], 2), ([2, 2], 4), ([1, 2], 4), ([0, 1], 4), ([1, 1], 2), ([3, 2], 4)]
    {
        let mut swapped = two_blocks(labels);
        swapped.blocks.reverse();
        for chip in [two_blocks(labels), swapped] {
            for read_only in [true, false] {
                let found = Log::open(chip.clone(), read_only).expect("it opens");
                assert_eq!(numbers(&found, 4), [number], "{labels:?}");
            }
        }
    }
}

#[test]
fn a_block_whose_last_label_is_weak_counts_for_ever_once_the_other_one_is_being_erased() {
    for (seed, cut) in (0..40).flat_map(|seed| (1..5).map(move |cut| (seed, cut))) {
        let mut chip = two_blocks([2, 2]);
        chip.weak[1][2 * RECORD_BYTES + 20..3 * RECORD_BYTES].fill(0x18);
        (chip.random, chip.left) = (seed, Some(cut));
        let before = chip.blocks[0].clone();
        let kept = Kept::default().put(chip);
        let _ = Log::open(Shared(kept.clone()), false);
        let chip = kept.take();
        let is_begun = chip.blocks[0] != before;
        let found = Log::open(start_with_cuts(chip, "weak"), true).expect("it opens");
        assert!(numbers(&found, 4) == [4] || !is_begun, "cut {cut}, seed {seed}");
    }
}

#[test]
fn a_pass_that_failed_is_made_up_for_by_the_next_one() {
    for (write_bytes, cut) in [1, 16].into_iter().flat_map(|bytes| (1..8).map(move |cut| (bytes, cut))) {
        let mut log = made(write_bytes);
        log.set_slot(0, &secret(2)).expect("the next secret");
        log.chip.left = Some(cut);
        let first = log.destroy(1);
        log.chip.left = None;
        assert_eq!(first.is_ok(), cut > if write_bytes == 1 { 1 } else { 4 }, "{write_bytes}, {cut}");
        log.destroy(1).expect("it is made up for");
        assert!(!log.chip.holds(&secret(1)) && numbers(&log, 2) == [2], "{write_bytes}, {cut}");
    }
}

/// Purges from `from` on until the power is cut after so many operations; the last purge that was begun, and whether it ended.
fn run(log: &mut Log<Sim>, from: u64, cut: usize) -> (u64, bool) {
    log.chip.left = Some(cut);
    for number in from..from + 20 {
        if purge(log, number).is_err() {
            return (number, false);
        }
    }
    (from + 19, true)
}

#[test]
fn a_cut_at_any_operation_loses_no_secret_that_counts_and_leaves_none_that_is_dead() {
    for chip in [Sim::new(1), Sim::new(16), Sim::once(false), Sim::once(true)] {
        for cut in 1..60 {
            for seed in 0..6 {
                let kind = (chip.write_bytes, chip.clears_bits, chip.claims_to_clear_bits);
                let what = format!("{kind:?}, cut {cut}, seed {seed}");
                let mut log = made_on(chip.clone());
                log.chip.random = seed * 977 + cut as u64;
                let (number, ended) = run(&mut log, 2, cut);
                let chip = start_with_cuts(log.into_chip(), &what);
                check(chip, number, ended, &what);
            }
        }
    }
}

/// The chip after starts that are cut off as well, each one operation later, until one ends.
fn start_with_cuts(mut chip: Sim, what: &str) -> Sim {
    chip.restart();
    let kept = Kept::default().put(chip);
    for cut in 1.. {
        kept.with(|chip| chip.left = Some(cut));
        match Log::open(Shared(kept.clone()), false) {
            Ok(_) => break,
            Err(NorError::NoRoot) => panic!("{what}: the root is lost at the start with cut {cut}"),
            Err(_) => kept.with(Sim::restart),
        }
    }
    let mut chip = kept.take();
    chip.left = None;
    chip
}

fn check(chip: Sim, number: u64, ended: bool, what: &str) {
    let mut log = Log::open(chip, true).expect("it opens");
    assert_eq!(log.label(), LABEL, "{what}");
    let found = numbers(&log, number);
    let newest = *found.last().unwrap_or_else(|| panic!("{what}: no secret after purge {number}"));
    let expected: &[u64] = if ended { &[number] } else { &[number - 1, number] };
    assert!(expected.contains(&newest), "{what}: {found:?} after purge {number}");
    let dead = (1..=number).filter(|it| !found.contains(it));
    dead.for_each(|it| assert!(!log.chip.holds(&secret(it)), "{what}: secret {it} is left"));
    log = Log::open(log.into_chip(), false).expect("it opens");
    log.destroy(1 - newest as usize % 2).expect("the start destroys the other slot");
    let left: Vec<_> = (1..=number).filter(|it| log.chip.holds(&secret(*it))).collect();
    assert_eq!(left, [newest], "{what}");
    purge(&mut log, newest + 1).expect("it goes on");
}

/// A chip that outlives the log which failed on it.
#[derive(Debug, Default, Clone)]
struct Kept(std::sync::Arc<std::sync::Mutex<Option<Sim>>>);

#[derive(Debug)]
struct Shared(Kept);

impl Kept {
    fn put(&self, chip: Sim) -> Self {
        *self.0.lock().expect("no panic") = Some(chip);
        self.clone()
    }

    fn take(&self) -> Sim {
        self.0.lock().expect("no panic").take().expect("a chip was put")
    }

    fn with<T>(&self, act: impl FnOnce(&mut Sim) -> T) -> T {
        act(self.0.lock().expect("no panic").as_mut().expect("a chip was put"))
    }
}

impl Chip for Shared {
    fn geometry(&self) -> Geometry {
        self.0.with(|chip| chip.geometry())
    }

    fn read(&mut self, block: usize, at: usize, into: &mut [u8]) -> io::Result<()> {
        self.0.with(|chip| chip.read(block, at, into))
    }

    fn program(&mut self, block: usize, at: usize, from: &[u8]) -> io::Result<()> {
        self.0.with(|chip| chip.program(block, at, from))
    }

    fn erase(&mut self, block: usize) -> io::Result<()> {
        self.0.with(|chip| chip.erase(block))
    }
}
