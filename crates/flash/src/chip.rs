//! A chip in memory, for tests and tables.
//!
//! - It counts the time that its operations would take ([`Timing`]).
//! - A program out of order, a second program of a page, and a program into a block that a cut of the power touched and that was not erased
//!   since, are defects of the caller: they panic.
//! - The power can be cut at any operation that changes the chip. A program that was cut leaves nothing, a whole page, a page that reads well
//!   at first and by chance later, or remains that look blank or uncorrectable. Each page of an erase that was cut does the same.
//! - A block can die at any operation: from then on its programs and erases fail, each with remains of any kind. Blackening its pages works or
//!   does nothing. A weak block gets one more wrong bit every few reads, until it is erased or blackened. Raw reads show the wrong bits.

mod cells;
pub mod rng;
#[cfg(test)]
mod tests;
pub mod timing;

use crate::nand::{EraseBlock, Geometry, Nand, NandError, Page, Reading};
use cells::Cells;
use rng::Rng;
use timing::{Counts, Timing};

/// Number of reads of a page of a weak block after which it has one more wrong bit, on average.
const WEAK_READS: u64 = 512;

/// How often a chip fails: once in this many operations or blocks, or never if 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Nature {
    /// Blocks that are marked bad from the start.
    pub bad_blocks: u64,
    /// Blocks whose pages get wrong bits.
    pub weak_blocks: u64,
    /// Programs at which the block dies.
    pub deaths_in_program: u64,
    /// Erases at which the block dies.
    pub deaths_in_erase: u64,
    /// Dead blocks whose pages do not even become black.
    pub stubborn: u64,
}

/// A chip in memory: see the module's documentation.
#[derive(Clone, Debug)]
pub struct MemoryChip {
    geometry: Geometry,
    timing: Timing,
    nature: Nature,
    rng: Rng,
    blocks: Vec<BlockCells>,
    power: Power,
    /// Number of programs before the one in which a block dies.
    death: Option<u64>,
    /// Once in so many changes that do not end well, all pages read well or badly by chance.
    weak_remains: u64,
    counts: Counts,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Power {
    On,
    /// On for so many changes more.
    Fuse(u64),
    Off,
}

#[derive(Clone, Debug)]
struct BlockCells {
    pages: Vec<Cells>,
    /// The number of the next page to program.
    next: u32,
    /// Whether a cut of the power touched the block since it was erased.
    is_cut: bool,
    is_marked: bool,
    is_dead: bool,
    is_weak: bool,
    is_stubborn: bool,
    /// Number of wrong bits in its pages.
    bits: u32,
    erases: u32,
}

impl MemoryChip {
    /// A chip without content. `seed` decides all that is left to chance.
    #[must_use]
    pub fn new(geometry: Geometry, timing: Timing, nature: Nature, seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let block = |_| BlockCells {
            pages: vec![Cells::blank(); geometry.block_pages as usize],
            next: 0,
            is_cut: false,
            is_marked: rng.once_in(nature.bad_blocks),
            is_dead: false,
            is_weak: rng.once_in(nature.weak_blocks),
            is_stubborn: rng.once_in(nature.stubborn),
            bits: 0,
            erases: 0,
        };
        let blocks = (0..geometry.blocks).map(block).collect();
        let (power, death, counts) = (Power::On, None, Counts::default());
        Self { geometry, timing, nature, rng, blocks, power, death, weak_remains: 0, counts }
    }

    /// Lets the power fail at the change of the chip after `changes` more.
    pub fn cut_after(&mut self, changes: u64) {
        self.power = Power::Fuse(changes);
    }

    /// Brings the power back, or keeps it on.
    pub fn restore(&mut self) {
        self.power = Power::On;
    }

    /// Whether the power failed.
    #[must_use]
    pub fn is_off(&self) -> bool {
        self.power == Power::Off
    }

    /// The operations of the chip so far.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// How often each block was erased.
    #[must_use]
    pub fn erases(&self) -> Vec<u32> {
        self.blocks.iter().map(|block| block.erases).collect()
    }

    /// What the cells of `page` hold, as an attacker with the chip in hand would read them.
    #[must_use]
    pub fn cells(&self, page: Page) -> Vec<u8> {
        let mut bytes = vec![0; self.geometry.page_bytes as usize];
        let (block, index) = self.geometry.place(page);
        self.blocks[block.0 as usize].pages[index as usize].raw(&mut bytes);
        bytes
    }

    /// Changes how often the chip fails from now on.
    pub fn set_nature(&mut self, nature: Nature) {
        self.nature = nature;
    }

    /// Lets `block` die; blackening its pages works if not `stubborn`.
    pub fn kill(&mut self, block: EraseBlock, stubborn: bool) {
        let block = &mut self.blocks[block.0 as usize];
        (block.is_dead, block.is_stubborn) = (true, stubborn);
    }

    /// Lets a block die in the program after so many more.
    pub fn kill_after(&mut self, programs: u64) {
        self.death = Some(programs);
    }

    /// Once in so many changes that do not end well, leaves pages that read well or badly by chance, from the first read on.
    pub fn leave_weak(&mut self, once_in: u64) {
        self.weak_remains = once_in;
    }

    /// Makes `page` readable again, as a page that a cut left weak may be.
    pub fn heal(&mut self, page: Page) {
        let (block, index) = self.geometry.place(page);
        self.blocks[block.0 as usize].pages[index as usize].heal();
    }

    /// Makes `page` uncorrectable.
    pub fn spoil(&mut self, page: Page) {
        let (block, index) = self.geometry.place(page);
        self.blocks[block.0 as usize].pages[index as usize].spoil();
    }

    fn is_powered(&self) -> Result<(), NandError> {
        if self.is_off() { Err(NandError::Gone("the power was cut".into())) } else { Ok(()) }
    }

    /// Whether the power is cut within the change that begins.
    fn burns(&mut self) -> bool {
        self.power = match self.power {
            Power::Fuse(0) => Power::Off,
            Power::Fuse(changes) => Power::Fuse(changes - 1),
            power => power,
        };
        self.is_off()
    }

    fn dies(&mut self, block: EraseBlock, chance: u64) -> bool {
        let dies = self.rng.once_in(chance);
        let block = &mut self.blocks[block.0 as usize];
        block.is_dead |= dies || block.erases >= self.timing.endurance;
        block.is_dead
    }
}

impl Nand for MemoryChip {
    fn geometry(&self) -> Geometry {
        self.geometry
    }

    fn read(&mut self, page: Page, into: &mut [u8]) -> Result<Reading, NandError> {
        self.is_powered()?;
        self.counts.reads += 1;
        self.counts.micros += self.timing.read_us;
        let (block, index) = self.geometry.place(page);
        let block = &mut self.blocks[block.0 as usize];
        block.bits += u32::from(block.is_weak && self.rng.once_in(WEAK_READS));
        match block.pages[index as usize].read(into, &mut self.rng)? {
            Reading::Good if block.bits > self.geometry.correctable_bits => Err(NandError::Uncorrectable),
            Reading::Good if block.bits > 0 => Ok(Reading::Corrected(block.bits)),
            reading => Ok(reading),
        }
    }

    fn program(&mut self, page: Page, from: &[u8]) -> Result<(), NandError> {
        self.is_powered()?;
        assert_eq!(from.len(), self.geometry.page_bytes as usize, "a whole page is programmed");
        let (number, index) = self.geometry.place(page);
        let block = &mut self.blocks[number.0 as usize];
        assert!(!block.is_marked, "block {} is marked bad", number.0);
        assert!(!block.is_cut, "block {} was not erased after a cut of the power", number.0);
        assert_eq!(block.next, index, "pages of block {} are programmed in order, once each", number.0);
        block.next += 1;
        self.counts.programs += 1;
        self.counts.micros += self.timing.program_us;
        let is_cut = self.burns();
        self.blocks[number.0 as usize].is_dead |= self.death == Some(0);
        self.death = self.death.and_then(|programs| programs.checked_sub(1));
        let fails = is_cut || self.dies(number, self.nature.deaths_in_program);
        let mut cells = if fails { Cells::torn(from, &mut self.rng) } else { Cells::whole(from) };
        if fails && self.rng.once_in(self.weak_remains) {
            cells = Cells::whole(from);
            cells.weaken();
        }
        let block = &mut self.blocks[number.0 as usize];
        block.pages[index as usize] = cells;
        block.is_cut |= is_cut;
        self.is_powered()?;
        if fails { Err(NandError::Failed) } else { Ok(()) }
    }

    fn erase(&mut self, number: EraseBlock) -> Result<(), NandError> {
        self.is_powered()?;
        self.counts.erases += 1;
        self.counts.micros += self.timing.erase_us;
        let is_cut = self.burns();
        let fails = is_cut || self.dies(number, self.nature.deaths_in_erase);
        let block = &mut self.blocks[number.0 as usize];
        assert!(!block.is_marked, "block {} is marked bad", number.0);
        block.is_cut |= is_cut;
        if fails {
            let is_weak = self.rng.once_in(self.weak_remains);
            let rng = &mut self.rng;
            block
                .pages
                .iter_mut()
                .for_each(|page| if is_weak { page.weaken() } else { page.erase_badly(rng) });
            self.is_powered()?;
            return Err(NandError::Failed);
        }
        block.pages.fill(Cells::blank());
        (block.next, block.is_cut, block.bits) = (0, false, 0);
        block.erases += 1;
        Ok(())
    }

    fn blacken(&mut self, page: Page) -> Result<(), NandError> {
        self.is_powered()?;
        self.counts.programs += 1;
        self.counts.micros += self.timing.program_us;
        let is_cut = self.burns();
        let (block, index) = self.geometry.place(page);
        let block = &mut self.blocks[block.0 as usize];
        if !is_cut && !block.is_stubborn {
            block.pages[index as usize].blacken(self.geometry.page_bytes as usize);
            block.bits = 0;
            block.next = self.geometry.block_pages;
        }
        self.is_powered()
    }

    fn raw(&mut self, page: Page, into: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        self.is_powered()?;
        self.counts.reads += 1;
        self.counts.micros += self.timing.read_us;
        let (block, index) = self.geometry.place(page);
        let block = &self.blocks[block.0 as usize];
        let page = &block.pages[index as usize];
        page.raw(into);
        if !page.is_blank() {
            // A bit of each byte, from the front.
            into.iter_mut().take(block.bits as usize).for_each(|byte| *byte ^= 1 << (index % 8));
        }
        spare.fill(0xff);
        Ok(())
    }

    fn is_bad(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        self.is_powered()?;
        Ok(self.blocks[block.0 as usize].is_marked)
    }

    fn mark_bad(&mut self, block: EraseBlock) -> Result<(), NandError> {
        self.is_powered()?;
        let is_marked = !self.burns() || self.rng.once_in(2);
        self.blocks[block.0 as usize].is_marked |= is_marked;
        self.is_powered()
    }
}
