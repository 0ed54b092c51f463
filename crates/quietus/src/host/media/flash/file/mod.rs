//! A file that stands for a chip of NAND flash, for machines that have none and for tests. It counts the time that a chip would take.
//!
//! | offset | what |
//! | --- | --- |
//! | 0 | head: magic `QNANDCHP`, version, bytes of a page and of its spare area, pages of a block, blocks, correctable bits, endurance (u32 each); microseconds of a read, a program and an erase (u64 each); CRC-32C |
//! | 512 | counts: reads, programs, erases, microseconds (u64 each); CRC-32C |
//! | 4096 | for each block: next page to program, first torn page or 65,535 (u16 each), erases (u32), flags, wrong bits (u16 each); CRC-32C of the block's number and of these |
//! | next multiple of 4096 | pages, each with its spare area behind it |
//!
//! Numbers are little-endian. The table decides whether a page is blank, so that a new file has no space for its pages.
//!
//! Invariants:
//! 1. A page is written before the entry of its block says so. An erase notes in the entry that it began, writes 0xff over every page that can
//!    hold something, then notes the end. So the file is a chip whose power was cut, wherever the process is killed. What the host
//!    itself loses in a crash is not covered: the file is as durable as the host's cache.
//! 2. What callers do wrong is an error, not a panic: the file is not the memory of one process.

mod fault;
mod head;
mod table;
#[cfg(test)]
mod tests;

pub use fault::Fuse;

use super::kinds::ChipKind;
use fault::{NATURE, WEAK_READS};
use head::{COUNTS_AT, COUNTS_BYTES, ENTRY_BYTES, HEAD_BYTES, Head, TABLE_AT};
use quietus_flash::chip::Nature;
use quietus_flash::chip::rng::Rng;
use quietus_flash::chip::timing::Counts;
use quietus_flash::{EraseBlock, Geometry, Nand, NandError, Page, Reading};
use rustix::fs::FlockOperation;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;
use table::Entry;

/// Times that a file in use is asked for, and the pause after each.
const LOCK_TRIES: usize = 50;
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// Number of operations after which their counts are written to the file.
const COUNTS_EVERY: u32 = 1024;

/// See the module's documentation.
#[derive(Debug)]
pub struct FileChip {
    file: File,
    path: PathBuf,
    head: Head,
    table: Vec<Entry>,
    counts: Counts,
    /// Number of operations since the counts were written.
    unsaved: u32,
    nature: Nature,
    rng: Rng,
    fuse: Option<Fuse>,
    /// Why no operation succeeds any more.
    gone: Option<String>,
    /// A page with its spare area.
    buffer: Vec<u8>,
}

/// Faults of a chip file, for tests.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// A cut of the power.
    pub fuse: Option<Fuse>,
    /// Blocks are bad, weak and dying, as this seed decides.
    pub nature: Option<u64>,
}

impl FileChip {
    /// Creates the file of a blank chip.
    ///
    /// # Errors
    /// The file exists, cannot be created, or there can be no such chip.
    pub fn create(path: &Path, kind: ChipKind, blocks: u32, faults: Faults) -> io::Result<Self> {
        let failed = |what: String| failed("create", path, &what);
        let head = Head { kind, blocks };
        head.check().map_err(failed)?;
        let made = OpenOptions::new().read(true).write(true).create_new(true).open(path);
        let file = made.map_err(|error| match error.kind() {
            io::ErrorKind::AlreadyExists => {
                failed("the file exists; name another one, or delete it first".into())
            }
            _ => failed(error.to_string()),
        })?;
        let begun = lock(&file).and_then(|()| {
            Self::new(file, path, head, vec![Entry::NEW; blocks as usize], Counts::default(), faults).begin()
        });
        begun.map_err(|error| {
            // The file is of no use, and was not there before.
            let _ = std::fs::remove_file(path);
            failed(error.to_string())
        })
    }

    /// Opens the file of a chip.
    ///
    /// # Errors
    /// The file cannot be opened, is in use, no chip, or damaged.
    pub fn open(path: &Path, faults: Faults) -> io::Result<Self> {
        let failed = |what: String| failed("open", path, &what);
        let is_file = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.is_file();
        if !is_file {
            return Err(failed("it is not a regular file".into()));
        }
        let file = OpenOptions::new().read(true).write(true).open(path);
        let file = file.map_err(|error| failed(error.to_string()))?;
        lock(&file).map_err(|error| failed(error.to_string()))?;
        let (head, table, counts) = read(&file).map_err(failed)?;
        Ok(Self::new(file, path, head, table, counts, faults))
    }

    fn new(file: File, path: &Path, head: Head, table: Vec<Entry>, counts: Counts, faults: Faults) -> Self {
        let nature = faults.nature.map_or(Nature::default(), |_| NATURE);
        let seed = faults.nature.unwrap_or(0).wrapping_add(counts.programs).wrapping_add(counts.erases);
        let buffer = vec![0xff; head.stride() as usize];
        let (rng, fuse, path) = (Rng::new(seed), faults.fuse, path.into());
        Self { file, path, head, table, counts, unsaved: 0, nature, rng, fuse, gone: None, buffer }
    }

    /// Writes what a new file has. The head comes last: without it, the file is no chip.
    fn begin(mut self) -> io::Result<Self> {
        self.file.set_len(self.head.file_bytes())?;
        let (nature, rng) = (self.nature, &mut self.rng);
        for entry in &mut self.table {
            entry.is_marked = rng.once_in(nature.bad_blocks);
            entry.is_weak = rng.once_in(nature.weak_blocks);
            entry.is_stubborn = rng.once_in(nature.stubborn);
        }
        let table: Vec<u8> =
            (0..).zip(&self.table).flat_map(|(block, entry)| entry.to_bytes(block)).collect();
        self.file.write_all_at(&table, TABLE_AT)?;
        self.file.write_all_at(&head::counts_to_bytes(self.counts), COUNTS_AT)?;
        self.file.write_all_at(&self.head.to_bytes(), 0)?;
        self.file.sync_all()?;
        Ok(self)
    }

    /// The kind of chip.
    #[must_use]
    pub fn kind(&self) -> ChipKind {
        self.head.kind
    }

    /// The operations since the chip was made, and how long they would have taken.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Number of erases of each block since the chip was made.
    #[must_use]
    pub fn erases(&self) -> Vec<u32> {
        self.table.iter().map(|entry| entry.erases).collect()
    }

    /// Writes the counts to the file.
    ///
    /// # Errors
    /// The host refuses the write.
    pub fn save_counts(&mut self) -> io::Result<()> {
        self.unsaved = 0;
        self.file.write_all_at(&head::counts_to_bytes(self.counts), COUNTS_AT)
    }

    fn count(&mut self, act: impl FnOnce(&mut Counts) -> &mut u64, micros: u64) -> Result<(), NandError> {
        *act(&mut self.counts) += 1;
        self.counts.micros += micros;
        self.unsaved += 1;
        if self.unsaved < COUNTS_EVERY {
            return Ok(());
        }
        self.save_counts().map_err(|error| self.lost(&error))
    }

    fn check_alive(&self) -> Result<(), NandError> {
        self.gone.clone().map_or(Ok(()), |reason| Err(NandError::Gone(reason)))
    }

    /// Where `page` lies; its block may be asked for.
    fn place(&self, page: Page) -> Result<(EraseBlock, u16), NandError> {
        self.check_alive()?;
        let (block, index) = self.head.geometry().place(page);
        self.check_block(block)?;
        Ok((block, u16::try_from(index).expect("a block has at most 65535 pages")))
    }

    fn check_block(&self, block: EraseBlock) -> Result<(), NandError> {
        self.check_alive()?;
        if block.0 < self.head.blocks {
            return Ok(());
        }
        Err(self.wrong(&format!("block {} of {} blocks is asked for", block.0, self.head.blocks)))
    }

    fn entry(&mut self, block: EraseBlock) -> &mut Entry {
        &mut self.table[block.0 as usize]
    }

    /// Brings the entry of `block` to the file.
    fn save(&mut self, block: EraseBlock) -> Result<(), NandError> {
        let bytes = self.entry(block).to_bytes(block.0);
        let written = self.file.write_all_at(&bytes, Head::entry_at(block.0 as usize));
        written.map_err(|error| self.lost(&error))
    }

    /// The host fails: what the file holds is unknown from now on.
    fn lost(&mut self, error: &io::Error) -> NandError {
        let reason = format!("{}: {error}", self.path.display());
        self.gone = Some(reason.clone());
        NandError::Gone(reason)
    }

    /// A defect of the caller.
    fn wrong(&self, what: &str) -> NandError {
        NandError::Gone(format!("{}: {what}, which no chip allows", self.path.display()))
    }

    fn burns(&mut self) -> bool {
        self.fuse.as_mut().is_some_and(Fuse::burns)
    }

    /// The power fails. Returns only in tests.
    fn fail_power(&mut self) -> NandError {
        // The counts are a help to look at the chip, nothing more.
        let _ = self.save_counts();
        self.fuse.iter().for_each(|fuse| (fuse.end)());
        let reason = format!("{}: the power was cut", self.path.display());
        self.gone = Some(reason.clone());
        NandError::Gone(reason)
    }

    fn dies(&mut self, block: EraseBlock, chance: u64) -> bool {
        let dies = self.rng.once_in(chance);
        let endurance = self.head.kind.endurance;
        let entry = self.entry(block);
        entry.is_dead |= dies || entry.erases >= endurance;
        entry.is_dead
    }

    /// Writes `bytes`, and 0xff behind them, over page `index` of `block` and its spare area.
    fn put(&mut self, block: EraseBlock, index: u16, bytes: &[u8]) -> Result<(), NandError> {
        self.buffer.fill(0xff);
        self.buffer[..bytes.len()].copy_from_slice(bytes);
        let page = self.head.geometry().page(block, index.into());
        let written = self.file.write_all_at(&self.buffer, self.head.page_at(page.0.into()));
        written.map_err(|error| self.lost(&error))
    }

    /// Fills the buffer with page `index` of `block` and its spare area: 0xff if the page was not programmed since the erase.
    fn fetch(&mut self, block: EraseBlock, index: u16) -> Result<(), NandError> {
        if index >= self.entry(block).next {
            self.buffer.fill(0xff);
            return Ok(());
        }
        let page = self.head.geometry().page(block, index.into());
        let read = self.file.read_exact_at(&mut self.buffer, self.head.page_at(page.0.into()));
        read.map_err(|error| self.lost(&error))
    }

    /// Number of pages of `block` that can hold something: the process may have been killed before it noted the last one.
    fn used(&mut self, block: EraseBlock) -> u16 {
        let pages = self.head.kind.block_pages;
        let next = u32::from(self.entry(block).next);
        u16::try_from((next + 1).min(pages)).expect("a block has at most 65535 pages")
    }

    /// An erase that does not end well: some pages are blank, others hold what they held.
    fn erase_badly(&mut self, block: EraseBlock) -> Result<(), NandError> {
        for index in 0..self.used(block) {
            if self.rng.once_in(2) {
                self.put(block, index, &[])?;
            }
        }
        if self.rng.once_in(2) {
            self.entry(block).tear(0);
        }
        self.save(block)
    }
}

impl Drop for FileChip {
    fn drop(&mut self) {
        if self.gone.is_none() {
            // Only the latest counts are lost if this fails.
            let _ = self.save_counts();
        }
    }
}

impl Nand for FileChip {
    fn geometry(&self) -> Geometry {
        self.head.geometry()
    }

    fn read(&mut self, page: Page, into: &mut [u8]) -> Result<Reading, NandError> {
        let (block, index) = self.place(page)?;
        self.count(|counts| &mut counts.reads, self.head.kind.read_us)?;
        let is_worse = self.entry(block).is_weak && self.rng.once_in(WEAK_READS);
        if is_worse {
            let entry = self.entry(block);
            entry.bits = entry.bits.saturating_add(1);
            self.save(block)?;
        }
        self.fetch(block, index)?;
        into.copy_from_slice(&self.buffer[..into.len()]);
        let entry = *self.entry(block);
        let has_remains = index >= entry.torn || entry.is_cut;
        if index >= entry.next || has_remains && into.iter().all(|byte| *byte == 0xff) {
            return Ok(Reading::Blank);
        }
        let bits = u32::from(entry.bits);
        if index >= entry.torn || bits > self.head.kind.correctable_bits {
            return Err(NandError::Uncorrectable);
        }
        Ok(if bits > 0 { Reading::Corrected(bits) } else { Reading::Good })
    }

    fn program(&mut self, page: Page, from: &[u8]) -> Result<(), NandError> {
        let (block, index) = self.place(page)?;
        let entry = *self.entry(block);
        let number = block.0;
        if entry.is_marked {
            return Err(self.wrong(&format!("block {number} is marked bad and is programmed")));
        }
        if entry.is_cut {
            return Err(self
                .wrong(&format!("block {number} is programmed after a cut of the power, without an erase")));
        }
        if index != entry.next || from.len() != self.head.kind.page_bytes as usize {
            let next = entry.next;
            return Err(self.wrong(&format!(
                "{} bytes are programmed into page {index} of block {number}, where page {next} is next",
                from.len()
            )));
        }
        self.count(|counts| &mut counts.programs, self.head.kind.program_us)?;
        let is_cut = self.burns();
        let fails = is_cut || self.dies(block, self.nature.deaths_in_program);
        let len = if fails { self.rng.below(from.len() as u64 + 1) as usize } else { from.len() };
        self.put(block, index, &from[..len])?;
        let entry = self.entry(block);
        entry.next += 1;
        if fails {
            entry.tear(index);
            entry.is_cut |= is_cut;
        }
        self.save(block)?;
        match (is_cut, fails) {
            (true, _) => Err(self.fail_power()),
            (false, true) => Err(NandError::Failed),
            (false, false) => Ok(()),
        }
    }

    fn erase(&mut self, block: EraseBlock) -> Result<(), NandError> {
        self.check_block(block)?;
        if self.entry(block).is_marked {
            return Err(self.wrong(&format!("block {} is marked bad and is erased", block.0)));
        }
        self.count(|counts| &mut counts.erases, self.head.kind.erase_us)?;
        if self.burns() {
            self.entry(block).is_cut = true;
            self.erase_badly(block)?;
            return Err(self.fail_power());
        }
        if self.dies(block, self.nature.deaths_in_erase) {
            self.entry(block).tear(0);
            self.erase_badly(block)?;
            return Err(NandError::Failed);
        }
        let entry = self.entry(block);
        entry.tear(0);
        entry.is_cut = true;
        self.save(block)?;
        for index in 0..self.used(block) {
            self.put(block, index, &[])?;
        }
        *self.entry(block) = self.entry(block).erased();
        self.save(block)
    }

    fn blacken(&mut self, page: Page) -> Result<(), NandError> {
        let (block, index) = self.place(page)?;
        self.count(|counts| &mut counts.programs, self.head.kind.program_us)?;
        if self.burns() {
            return Err(self.fail_power());
        }
        if self.entry(block).is_dead && self.entry(block).is_stubborn {
            return Ok(());
        }
        for blank in self.entry(block).next..index {
            self.put(block, blank, &[])?;
        }
        let zeros = vec![0; self.buffer.len()];
        self.put(block, index, &zeros)?;
        let entry = self.entry(block);
        entry.next = entry.next.max(index + 1);
        entry.tear(index);
        self.save(block)
    }

    fn raw(&mut self, page: Page, into: &mut [u8], spare: &mut [u8]) -> Result<(), NandError> {
        let (block, index) = self.place(page)?;
        self.count(|counts| &mut counts.reads, self.head.kind.read_us)?;
        self.fetch(block, index)?;
        let (bytes, behind) = self.buffer.split_at(into.len());
        into.copy_from_slice(bytes);
        spare.copy_from_slice(&behind[..spare.len()]);
        Ok(())
    }

    fn is_bad(&mut self, block: EraseBlock) -> Result<bool, NandError> {
        self.check_block(block)?;
        Ok(self.entry(block).is_marked)
    }

    fn mark_bad(&mut self, block: EraseBlock) -> Result<(), NandError> {
        self.check_block(block)?;
        if self.burns() {
            return Err(self.fail_power());
        }
        self.entry(block).is_marked = true;
        self.save(block)
    }
}

/// Keeps other processes from the file for as long as it is open. Asks again for a moment: a program that another thread starts has all open
/// files until it runs, and a server that is just ending has its chip.
fn lock(file: &File) -> io::Result<()> {
    for _ in 0..LOCK_TRIES {
        if rustix::fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok() {
            return Ok(());
        }
        sleep(LOCK_PAUSE);
    }
    Err(io::Error::other("another process uses the file; stop it first"))
}

/// What a file has, which may be anything.
fn read(file: &File) -> Result<(Head, Vec<Entry>, Counts), String> {
    let len = file.metadata().map_err(|error| error.to_string())?.len();
    let part = |at: u64, len: usize| {
        let mut bytes = vec![0; len];
        file.read_exact_at(&mut bytes, at).map(|()| bytes).map_err(|error| error.to_string())
    };
    let head = Head::from_bytes(&part(0, len.min(HEAD_BYTES as u64) as usize)?)?;
    if len != head.file_bytes() {
        let right = head.file_bytes();
        return Err(format!("the file is damaged: it has {len} bytes; its head says {right}"));
    }
    let counts = head::counts_from_bytes(&part(COUNTS_AT, COUNTS_BYTES)?)?;
    let table = part(TABLE_AT, head.blocks as usize * ENTRY_BYTES)?;
    let entries = (0..).zip(table.chunks_exact(ENTRY_BYTES)).map(|(block, bytes)| {
        Entry::from_bytes(bytes, block, head.kind.block_pages).ok_or_else(|| {
            let at = Head::entry_at(block as usize);
            format!("the file is damaged: the entry of block {block}, at byte {at}, is wrong")
        })
    });
    Ok((head, entries.collect::<Result<_, _>>()?, counts))
}

fn failed(act: &str, path: &Path, what: &str) -> io::Error {
    io::Error::other(format!("cannot {act} the flash chip {}: {what}", path.display()))
}
