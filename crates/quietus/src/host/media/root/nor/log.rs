//! The log of records on two blocks of NOR flash.
//!
//! Invariants:
//! 1. Records are appended to one block. A record of a slot counts if no later one of that slot is in its block.
//! 2. What does not count any more is destroyed: programmed to zeros, which needs no erasure where bits can be programmed one by one;
//!    else all that counts moves to the other block, and this one is erased. Both are read back.
//! 3. A block counts once it holds two records of the label, which are written last when it is begun. Before that, nothing of the other
//!    block was erased; after it, the other block may be erased at any moment, and an erasure that was cut off may leave its beginning.
//!    So of two blocks with two labels the later one counts, and of two with one label the earlier.
//! 4. Each start for writing moves to a freshly erased block: a record whose write was cut off may read well once, and a place that
//!    looks erased may not be.

use super::super::{LABEL_BYTES, Label, SLOT_BYTES, SlotContent};
use super::record::{Held, RECORD_BYTES, Record};
use quietus_core::base::zeros::is_zeros;
use std::io;
use zeroize::Zeroizing;

/// Bytes of a place that was not written since it was erased.
const BLANK: u8 = 0xff;
/// Blocks that are in use, from the beginning of the device on.
pub(super) const BLOCKS: usize = 2;
/// Times that a block is erased before it counts as one that keeps what it held.
const ERASE_TRIES: usize = 2;
/// Places that are tried for a further label.
const CONFIRM_TRIES: usize = 3;

/// NOR flash: what a block of it holds is erased as a whole, and bits are then cleared.
pub(super) trait Chip: std::fmt::Debug + Send {
    fn geometry(&self) -> Geometry;
    fn read(&mut self, block: usize, at: usize, into: &mut [u8]) -> io::Result<()>;
    fn program(&mut self, block: usize, at: usize, from: &[u8]) -> io::Result<()>;
    fn erase(&mut self, block: usize) -> io::Result<()>;
}

/// The sizes of a chip.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Geometry {
    /// Bytes that are erased together.
    pub(super) block_bytes: usize,
    /// Bytes that are programmed together.
    pub(super) write_bytes: usize,
    /// Whether a place can be programmed a second time, to zeros. Chips that keep checksums of their own cannot do that, even if they
    /// are programmed byte by byte.
    pub(super) clears_bits: bool,
}

impl Geometry {
    /// Bytes from one record to the next.
    fn stride(self) -> usize {
        RECORD_BYTES.next_multiple_of(self.write_bytes)
    }

    /// Records that a block has room for.
    pub(super) fn records(self) -> usize {
        self.block_bytes / self.stride()
    }

    /// Purges between two erasures of a block.
    pub(super) fn purges_per_block(self) -> u64 {
        // A block begins with the slots that count and two labels.
        if self.clears_bits { self.records().saturating_sub(4).max(1) as u64 } else { 1 }
    }
}

/// Why a chip did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub(super) enum NorError {
    /// The chip or its driver failed.
    #[error("{0}")]
    Chip(#[from] io::Error),
    /// What was read is not what was programmed.
    #[error(
        "block {block} does not hold what was programmed at byte {at}; the flash may be locked (see flash_unlock) or worn out"
    )]
    NotProgrammed { block: usize, at: usize },
    /// A block keeps what it held.
    #[error(
        "block {block} was erased, and still holds other bytes than 0xff; the flash may be locked (see flash_unlock) or worn out"
    )]
    NotErased { block: usize },
    /// The flash holds no root.
    #[error(
        "the first two blocks hold no root; name the device that this disk was made with, or restore its content"
    )]
    NoRoot,
    /// The flash is in use.
    #[error(
        "the first two blocks are not erased; erase them with `flash_erase DEVICE 0 2` if nothing needs their content"
    )]
    InUse,
}

/// A slot that counts.
#[derive(Clone)]
struct Live {
    number: usize,
    content: SlotContent,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Log<C> {
    chip: C,
    geometry: Geometry,
    state: State,
}

/// What is known of the blocks.
struct State {
    /// The block that counts.
    active: usize,
    generation: u32,
    /// The first record of the active block that was not written.
    next: usize,
    label: Label,
    slots: [Option<Live>; 2],
    /// The active block holds something that does not count, and was not destroyed.
    is_spoiled: bool,
    /// The other block is not known to be erased.
    is_other_dirty: bool,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { active, generation, next, is_spoiled, is_other_dirty, .. } = self;
        write!(f, "block {active} of generation {generation}, {next} records, spoiled: {is_spoiled}, ")?;
        write!(f, "other dirty: {is_other_dirty}")
    }
}

/// What a block was found to hold.
struct Scan {
    labels: usize,
    is_blank: bool,
    state: State,
}

impl<C: Chip> Log<C> {
    /// Begins on two erased blocks. Nothing is written before the label is.
    pub(super) fn create(mut chip: C) -> Result<Self, NorError> {
        let geometry = chip.geometry();
        for block in 0..BLOCKS {
            if !scan(&mut chip, geometry, block)?.is_blank {
                return Err(NorError::InUse);
            }
        }
        Ok(Self { chip, geometry, state: State::new(1) })
    }

    /// Finds what the blocks hold. Unless `read_only`, all that counts moves to a freshly erased block.
    pub(super) fn open(mut chip: C, read_only: bool) -> Result<Self, NorError> {
        let geometry = chip.geometry();
        let scans = [scan(&mut chip, geometry, 0)?, scan(&mut chip, geometry, 1)?];
        let rank = |scan: &Scan| {
            let generation = i64::from(scan.state.generation);
            // The later of those that are whole, and the earlier of those that are begun.
            match scan.labels {
                0 => None,
                1 => Some((1, -generation)),
                _ => Some((2, generation)),
            }
        };
        let other_has_label = scans.iter().all(|it| it.labels > 0);
        let found = scans.into_iter().max_by_key(rank).filter(|it| it.labels > 0).ok_or(NorError::NoRoot)?;
        let mut log = Self { chip, geometry, state: found.state };
        if !read_only {
            if other_has_label {
                log.confirm();
            }
            log.move_on()?;
        }
        Ok(log)
    }

    pub(super) fn label(&self) -> Label {
        self.state.label
    }

    pub(super) fn slot(&self, slot: usize) -> SlotContent {
        let live = self.state.slots[slot].as_ref();
        live.map_or_else(|| Zeroizing::new([0; SLOT_BYTES]), |it| it.content.clone())
    }

    pub(super) fn set_label(&mut self, label: &Label) -> Result<(), NorError> {
        if self.state.generation > 0 && self.state.label == *label {
            return Ok(());
        }
        self.state.label = *label;
        self.move_on()
    }

    /// Replaces the content of a slot; zeros are no content.
    pub(super) fn set_slot(&mut self, slot: usize, content: &SlotContent) -> Result<(), NorError> {
        if is_zeros(&content[..]) {
            return self.destroy(slot);
        }
        if self.state.generation == 0 || self.state.next == self.geometry.records() {
            self.move_on()?;
        }
        let number = self.state.next;
        let held = Held::Slot(slot, content.clone());
        self.append(held)?;
        let old = self.state.slots[slot].replace(Live { number, content: content.clone() });
        old.map_or(Ok(()), |old| self.erase_record(old.number))?;
        self.settle()
    }

    /// Destroys the content of a slot, and all else that does not count.
    pub(super) fn destroy(&mut self, slot: usize) -> Result<(), NorError> {
        if let Some(old) = self.state.slots[slot].take() {
            self.erase_record(old.number)?;
        }
        self.settle()
    }

    /// Moves away from what is not destroyed yet, and erases it.
    fn settle(&mut self) -> Result<(), NorError> {
        if self.state.is_spoiled {
            self.move_on()
        } else if self.state.is_other_dirty {
            self.erase_other()
        } else {
            Ok(())
        }
    }

    /// Programs a record to zeros, if the chip can do that.
    fn erase_record(&mut self, number: usize) -> Result<(), NorError> {
        let (block, at) = (self.state.active, number * self.geometry.stride());
        // Until the zeros have been read, something is left.
        let was_spoiled = std::mem::replace(&mut self.state.is_spoiled, true);
        if self.geometry.clears_bits {
            let zeros = [0; RECORD_BYTES];
            // A block that does not take zeros is left, and erased.
            let is_zero = self.chip.program(block, at, &zeros).is_ok() && self.reads(block, at, &zeros)?;
            self.state.is_spoiled = was_spoiled || !is_zero;
        }
        Ok(())
    }

    /// Whether these bytes are read.
    fn reads(&mut self, block: usize, at: usize, expected: &[u8]) -> Result<bool, NorError> {
        let mut found = Zeroizing::new(vec![0; expected.len()]);
        self.chip.read(block, at, &mut found)?;
        Ok(found[..] == *expected)
    }

    /// Programs a record and reads it back.
    fn put(&mut self, block: usize, record: &Record) -> Result<(), NorError> {
        let at = record.number as usize * self.geometry.stride();
        let mut bytes = Zeroizing::new(vec![BLANK; self.geometry.stride()]);
        bytes[..RECORD_BYTES].copy_from_slice(&record.to_bytes()[..]);
        self.chip.program(block, at, &bytes)?;
        if self.reads(block, at, &bytes)? { Ok(()) } else { Err(NorError::NotProgrammed { block, at }) }
    }

    /// Appends a record to the active block. After a failure its place may hold some of it.
    fn append(&mut self, held: Held) -> Result<(), NorError> {
        assert!(self.state.next < self.geometry.records(), "a full block is left first");
        let number = self.state.next as u32;
        let record = Record { generation: self.state.generation, number, held };
        let was_spoiled = std::mem::replace(&mut self.state.is_spoiled, true);
        self.state.next += 1;
        self.put(self.state.active, &record)?;
        self.state.is_spoiled = was_spoiled;
        Ok(())
    }

    /// Another label, so that this block counts even if one of its two was weakly written: the other block may have been erased in
    /// part. A place whose write was cut off may look erased, and not take the label; the next one does.
    fn confirm(&mut self) {
        for _ in 0..CONFIRM_TRIES {
            let is_full = self.state.next == self.geometry.records();
            if is_full || self.append(Held::Label(self.state.label)).is_ok() {
                break;
            }
        }
    }

    /// Moves all that counts to the other block, and erases the one that was left.
    fn move_on(&mut self) -> Result<(), NorError> {
        if self.state.is_other_dirty {
            self.erase_other()?;
        }
        let (target, generation) = (1 - self.state.active, self.state.generation + 1);
        let mut slots = self.state.slots.clone();
        let live = slots.iter_mut().enumerate().filter_map(|(slot, live)| Some((slot, live.as_mut()?)));
        let mut held: Vec<_> = live
            .enumerate()
            .map(|(number, (slot, live))| {
                live.number = number;
                Held::Slot(slot, live.content.clone())
            })
            .collect();
        held.extend([Held::Label(self.state.label), Held::Label(self.state.label)]);
        let next = held.len();
        self.state.is_other_dirty = true;
        for (held, number) in held.into_iter().zip(0..) {
            self.put(target, &Record { generation, number, held })?;
        }
        let label = self.state.label;
        let is_new = self.state.generation == 0;
        self.state = State { generation, next, label, slots, is_other_dirty: !is_new, ..State::new(target) };
        if is_new { Ok(()) } else { self.erase_other() }
    }

    /// Erases the other block and reads that it is.
    fn erase_other(&mut self) -> Result<(), NorError> {
        let block = 1 - self.state.active;
        self.state.is_other_dirty = true;
        for _ in 0..ERASE_TRIES {
            self.chip.erase(block)?;
            if read_block(&mut self.chip, self.geometry, block)?.iter().all(|it| *it == BLANK) {
                self.state.is_other_dirty = false;
                return Ok(());
            }
        }
        Err(NorError::NotErased { block })
    }

    #[cfg(test)]
    pub(super) fn into_chip(self) -> C {
        self.chip
    }
}

impl State {
    /// A block of which nothing counts yet.
    fn new(active: usize) -> Self {
        let (generation, next, label, slots) = (0, 0, [0; LABEL_BYTES], [None, None]);
        Self { active, generation, next, label, slots, is_spoiled: false, is_other_dirty: false }
    }
}

fn read_block<C: Chip>(
    chip: &mut C,
    geometry: Geometry,
    block: usize,
) -> Result<Zeroizing<Vec<u8>>, NorError> {
    let mut bytes = Zeroizing::new(vec![0; geometry.block_bytes]);
    chip.read(block, 0, &mut bytes)?;
    Ok(bytes)
}

/// Finds what a block holds. The other one may hold anything.
fn scan<C: Chip>(chip: &mut C, geometry: Geometry, block: usize) -> Result<Scan, NorError> {
    let bytes = read_block(chip, geometry, block)?;
    let is_blank = bytes.iter().all(|it| *it == BLANK);
    let mut state = State { is_spoiled: true, is_other_dirty: true, ..State::new(block) };
    let mut labels = 0;
    for (place, number) in bytes.chunks_exact(geometry.stride()).zip(0..) {
        if place.iter().all(|it| *it == BLANK) {
            continue;
        }
        state.next = number + 1;
        let found = place.first_chunk().and_then(Record::from_bytes);
        let Some(record) = found.filter(|it| it.number as usize == number) else { continue };
        // All records of a block are of one generation; a label says which.
        match record.held {
            Held::Label(label) if labels == 0 || record.generation == state.generation => {
                (state.generation, state.label) = (record.generation, label);
                labels += 1;
            }
            Held::Label(_) => {}
            Held::Slot(slot, content) => state.slots[slot] = Some(Live { number, content }),
        }
    }
    Ok(Scan { labels, is_blank, state })
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
