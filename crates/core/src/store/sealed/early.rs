//! The blocks that lie under another cell than the key tree says, because they got one since the last purge.

use crate::base::blocks::BlockSet;
use crate::base::cell::Cell;
use crate::base::extents::{ExtentMap, Value};
use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::mutant::{self, Mutant};
use crate::store::sealed::log::{EntryKind, LogEntry, SECTOR_ENTRIES};

/// Most blocks that get their cells from one seed.
pub(super) const RUN_BLOCKS_MAX: u64 = 1 << 15;
const _: () = assert!(RUN_BLOCKS_MAX <= u16::MAX as u64);
/// Checkpoints that each leave the last of their sectors in part empty: the one under way, the next one, and an entry that comes alone.
const CHECKPOINTS: u64 = 3;

/// Runs of whole blocks and the seeds of their cells.
type Seeds = ExtentMap<Addr, Seed>;

/// The secret from which the cells of a run of blocks are derived.
#[derive(Clone, Debug)]
pub(super) struct Seed {
    cell: Cell,
    shares: Shares,
}

/// Whether a seed opens a block that has another cell by now, or is dead.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Shares {
    /// Only the blocks of its runs.
    No,
    /// Another one, which had a cell from it: the seed must not outlive the next purge.
    Lost,
    /// The same, and the purge under way puts the cells of its runs into leaves, whether the log has them or not. The log that outlives
    /// the purge never has the seed.
    Leaves,
}

impl Seed {
    fn new(cell: Cell) -> Self {
        Self { cell, shares: Shares::No }
    }
}

impl Value for Seed {
    fn merged(&self, next: &Self) -> Option<Self> {
        (self.cell == next.cell && self.shares == next.shares).then(|| self.clone())
    }
}

/// The seed of prepared blocks.
#[derive(Clone, Debug)]
struct Prepared {
    seed: Seed,
    /// How far the log of a purge has to reach, by number and sectors, so that it has the entry; `None` before it is appended.
    logged: Option<(u32, u32)>,
}

impl Value for Prepared {
    fn merged(&self, next: &Self) -> Option<Self> {
        let seed = self.seed.merged(&next.seed)?;
        (self.logged == next.logged).then_some(Self { seed, logged: self.logged })
    }
}

/// See the module's documentation.
///
/// Invariant: a block is in one of `fresh`, `written`, `logging` and `logged` at most. Each of these goes before `leaving`.
#[derive(Debug, Default)]
pub(super) struct Early {
    /// The write of the block is under way.
    fresh: Seeds,
    /// The write has ended.
    written: Seeds,
    /// The checkpoint under way writes the entry of the block to the log.
    logging: Seeds,
    /// The log has the entry, or was handed it.
    logged: Seeds,
    /// The cells that the purge under way puts into leaves, as they were when it began.
    leaving: Seeds,
    /// Whether all of `logging` are in `leaving`, too.
    are_logging_leaving: bool,
    /// The first byte whose entry the checkpoint under way did not write yet.
    cursor: u64,
    prepared: ExtentMap<Addr, Prepared>,
    /// Entries of prepared and activated blocks that the log does not have yet.
    to_log: Vec<LogEntry>,
}

impl Early {
    /// The early cell of a block.
    pub(super) fn cell(&self, block: u64) -> Option<Cell> {
        let all = [&self.fresh, &self.written, &self.logging, &self.logged, &self.leaving];
        let seed = all.into_iter().find_map(|seeds| find(seeds, block))?;
        Some(cell_of(&seed.cell, block))
    }

    /// The cell that the purge under way puts into the leaf of a block.
    pub(super) fn leaving(&self, block: u64) -> Option<Cell> {
        find(&self.leaving, block).map(|seed| cell_of(&seed.cell, block))
    }

    /// The first byte within `extent` whose block the purge under way puts into its leaf.
    pub(super) fn first_leaving(&self, extent: Extent<Addr>) -> Option<u64> {
        self.leaving.within(extent).next().map(|(found, _)| found.start.0)
    }

    /// The parts of `extent`, whole blocks, whose cells the tree has.
    pub(super) fn others(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let mut parts = vec![extent];
        for seeds in [&self.fresh, &self.written, &self.logging, &self.logged, &self.leaving] {
            if !seeds.is_empty() {
                parts = parts.into_iter().flat_map(|part| seeds.gaps(part)).collect();
            }
        }
        parts
    }

    /// Number of runs that wait for an entry in the log.
    pub(super) fn pending(&self) -> u64 {
        (self.fresh.len() + self.written.len() + self.logging.len() + self.to_log.len()) as u64
    }

    /// Most sectors of the log that all that waits will take, with `more` runs of so many blocks that are about to be written. Each block
    /// that dies before that can split a run, and each write may end alone.
    pub(super) fn sectors(&self, more: u64, blocks: u64) -> u64 {
        let fresh = self.fresh.len() as u64 + more;
        let bytes = self.fresh.bytes() + self.written.bytes() + self.logging.bytes();
        let blocks = bytes / BLOCK_BYTES + blocks;
        fresh + (blocks + self.pending() + more).div_ceil(2 * SECTOR_ENTRIES as u64) + CHECKPOINTS
    }

    /// Number of runs in memory.
    pub(super) fn len(&self) -> u64 {
        self.pending() + (self.logged.len() + self.leaving.len() + self.prepared.len()) as u64
    }

    /// Whether the write of some block has ended whose entry waits for a checkpoint.
    pub(super) fn has_written(&self) -> bool {
        !self.written.is_empty()
    }

    /// Whether the checkpoint under way has an entry to write.
    pub(super) fn has_next(&self) -> bool {
        self.logging.overlaps(Extent::between(self.cursor, u64::MAX))
    }

    /// Whether a start would find the cells of these whole blocks.
    pub(super) fn is_durable(&self, blocks: Extent<Addr>) -> bool {
        ![&self.fresh, &self.written, &self.logging].into_iter().any(|seeds| seeds.overlaps(blocks))
    }

    /// Gives `blocks` cells by seeds that `draw` makes: their write is about to begin.
    pub(super) fn renew(&mut self, blocks: Extent<Addr>, mut draw: impl FnMut() -> Cell) {
        self.drop_all(blocks);
        for run in blocks.pieces(RUN_BLOCKS_MAX * BLOCK_BYTES) {
            self.fresh.insert(run, Seed::new(draw()));
        }
    }

    /// The write of `blocks` has ended; `is_there` if all of its bytes are in their places.
    pub(super) fn end_write(&mut self, blocks: Extent<Addr>, is_there: bool) {
        if self.fresh.is_empty() {
            return;
        }
        if is_there {
            for (run, seed) in cut(&self.fresh, blocks) {
                self.written.insert(run, seed);
            }
        }
        self.fresh.remove(blocks);
    }

    /// Begins a checkpoint of all whose write has ended.
    pub(super) fn begin_checkpoint(&mut self) {
        assert!(self.logging.is_empty(), "one checkpoint at a time");
        self.logging = std::mem::take(&mut self.written);
        (self.cursor, self.are_logging_leaving) = (0, false);
    }

    /// The next entries of the checkpoint, at most so many; each with whether it may outlive the purge under way.
    pub(super) fn next_entries(&mut self, max: u64) -> Vec<(LogEntry, bool)> {
        let next = Extent::between(self.cursor, u64::MAX);
        let runs: Vec<_> = self.logging.within(next).take(max as usize).collect();
        self.cursor = runs.last().map_or(self.cursor, |(run, _)| run.end());
        let stays = |seed: &Seed| seed.shares != Shares::Leaves;
        runs.into_iter().map(|(run, seed)| (entry(run, seed, EntryKind::Active), stays(seed))).collect()
    }

    /// Ends the checkpoint: its entries are durable.
    pub(super) fn end_checkpoint(&mut self) {
        assert!(!self.has_next(), "a checkpoint ends once all of its entries are written");
        for (run, seed) in std::mem::take(&mut self.logging).iter() {
            if !self.are_logging_leaving {
                self.logged.insert(run, seed.clone());
            }
        }
        (self.cursor, self.are_logging_leaving) = (0, false);
    }

    /// Ends the checkpoint: its entries may be durable or not.
    pub(super) fn abort_checkpoint(&mut self) {
        for (run, seed) in std::mem::take(&mut self.logging).iter() {
            self.written.insert(run, seed.clone());
        }
        (self.cursor, self.are_logging_leaving) = (0, false);
    }

    /// Begins a purge of the `dead` blocks: what has an entry in the log goes into leaves.
    pub(super) fn begin_purge(&mut self, dead: &BlockSet) {
        assert!(self.leaving.is_empty(), "one purge at a time");
        // Who prepared these has given up before it staged them.
        let are_unlogged = self.prepared.iter().all(|(_, it)| it.logged.is_none());
        assert!(
            are_unlogged,
            "a block whose prepared cell is in the log becomes active before a purge begins"
        );
        self.prepared = ExtentMap::default();
        self.to_log.retain(|entry| entry.kind == EntryKind::Active);
        dead.runs().for_each(|run| self.drop_all(run));
        self.leaving = std::mem::take(&mut self.logged);
        for (run, seed) in self.logging.iter() {
            self.leaving.insert(run, seed.clone());
        }
        self.are_logging_leaving = !self.logging.is_empty();
        self.leave_shared();
    }

    /// The leaves have what was to go there, durably.
    pub(super) fn end_purge(&mut self) {
        self.leaving = Seeds::default();
        for seeds in [&mut self.fresh, &mut self.written, &mut self.logging, &mut self.logged] {
            let left = cut(seeds, Extent::between(0, u64::MAX)).into_iter();
            for (run, _) in left.filter(|(_, it)| it.shares == Shares::Leaves) {
                seeds.remove(run);
            }
        }
    }

    /// What was prepared, and has no entry in the log yet, will not be needed: an entry that came there later would say that it is.
    pub(super) fn give_up_prepared(&mut self) {
        self.to_log.retain(|entry| entry.kind == EntryKind::Active);
        let left = cut(&self.prepared, Extent::between(0, u64::MAX)).into_iter();
        for (run, _) in left.filter(|(_, it)| it.logged.is_none()) {
            self.prepared.remove(run);
        }
    }

    /// Draws the cells of the live `blocks` that they will lie under.
    pub(super) fn prepare(&mut self, blocks: Extent<Addr>, mut draw: impl FnMut() -> Cell) {
        for run in blocks.pieces(RUN_BLOCKS_MAX * BLOCK_BYTES) {
            let seed = Seed::new(draw());
            let is_early = mutant::is(Mutant::ActiveAtOnce);
            let kind = if is_early { EntryKind::Active } else { EntryKind::Prepared };
            self.to_log.push(entry(run, &seed, kind));
            self.prepared.insert(run, Prepared { seed, logged: None });
        }
    }

    /// The cell that a prepared block will lie under.
    pub(super) fn prepared(&self, block: u64) -> Option<Cell> {
        find(&self.prepared, block).map(|it| cell_of(&it.seed.cell, block))
    }

    /// Whether all of these blocks are prepared.
    pub(super) fn are_prepared(&self, blocks: Extent<Addr>) -> bool {
        self.prepared.gaps(blocks).is_empty()
    }

    /// The prepared `blocks` lie under their prepared cells from now on. Returns how far the log of a purge certainly reaches.
    pub(super) fn activate(&mut self, blocks: Extent<Addr>) -> Option<(u32, u32)> {
        assert!(self.are_prepared(blocks), "{blocks:?} is prepared before it becomes active");
        self.drop_all(blocks);
        let mut reaches = None;
        for (run, Prepared { seed, logged }) in cut(&self.prepared, blocks) {
            let is_never = mutant::is(Mutant::NeverActive);
            let kind = if is_never { EntryKind::Prepared } else { EntryKind::Active };
            self.to_log.push(entry(run, &seed, kind));
            self.logged.insert(run, seed);
            reaches = reaches.max(logged);
        }
        self.prepared.remove(blocks);
        reaches
    }

    /// The entries of prepared and activated blocks that the log does not have yet.
    pub(super) fn take_log(&mut self) -> Option<Vec<LogEntry>> {
        Some(std::mem::take(&mut self.to_log)).filter(|entries| !entries.is_empty())
    }

    /// The log of a purge has these entries, if it reaches up to `end`.
    pub(super) fn logged(&mut self, entries: &[LogEntry], end: (u32, u32)) {
        for entry in entries.iter().filter(|it| it.kind == EntryKind::Prepared) {
            let parts = cut(&self.prepared, blocks_of(entry));
            for (run, prepared) in parts.into_iter().filter(|(_, it)| it.seed.cell == entry.seed) {
                self.prepared.insert(run, Prepared { logged: Some(end), ..prepared });
            }
        }
    }

    /// Takes what a start found in the log, in order. Of the prepared blocks only those are kept that are `staged`.
    pub(super) fn replayed(&mut self, found: LogEntry, staged: &[Extent<Addr>]) {
        let blocks = blocks_of(&found);
        let seed = Seed::new(found.seed);
        match found.kind {
            EntryKind::Active => self.logged.insert(blocks, seed),
            EntryKind::Prepared => {
                for run in staged.iter().filter_map(|it| it.overlap(blocks)) {
                    self.prepared.insert(run, Prepared { seed: seed.clone(), logged: None });
                }
            }
        }
    }

    /// The early cells of `blocks` are not in use any more. What is left of their runs shares seeds with them.
    fn drop_all(&mut self, blocks: Extent<Addr>) {
        for seeds in [&mut self.fresh, &mut self.written, &mut self.logging, &mut self.logged] {
            if seeds.is_empty() {
                continue;
            }
            let touched = seeds.iter_from(blocks.start.0).take_while(|(run, _)| run.start.0 < blocks.end());
            let parted = touched.filter(|(run, _)| run.overlap(blocks) != Some(*run));
            let parted: Vec<_> = parted.map(|(run, seed)| (run, seed.clone())).collect();
            seeds.remove(blocks);
            // What was cut before shares its seed already.
            for (run, seed) in parted.into_iter().filter(|(_, seed)| seed.shares == Shares::No) {
                let sides = [(run.start.0, blocks.start.0), (blocks.end(), run.end())];
                for (from, to) in sides.into_iter().filter(|(from, to)| from < to) {
                    seeds.insert(Extent::between(from, to), Seed { shares: Shares::Lost, ..seed.clone() });
                }
            }
        }
    }

    /// A purge begins: what is not in the log, and shares a seed with what lost its cell, goes into leaves, too.
    fn leave_shared(&mut self) {
        for seeds in [&mut self.fresh, &mut self.written, &mut self.logging] {
            let whole = Extent::between(0, u64::MAX);
            for (run, seed) in cut(seeds, whole).into_iter().filter(|(_, it)| it.shares != Shares::No) {
                let seed = Seed { shares: Shares::Leaves, ..seed };
                seeds.insert(run, seed.clone());
                self.leaving.insert(run, seed);
            }
        }
    }
}

/// The cell of a block of a run. A part of a run so has the same seed, and an entry of its own.
fn cell_of(seed: &Cell, block: u64) -> Cell {
    seed.child(block % (1 << 16))
}

fn entry(run: Extent<Addr>, seed: &Seed, kind: EntryKind) -> LogEntry {
    let count = u16::try_from(run.len.div_ceil(BLOCK_BYTES)).expect("a seed has at most 32,768 blocks");
    LogEntry { first: run.start.0 / BLOCK_BYTES, count, kind, seed: seed.cell.clone() }
}

fn blocks_of(entry: &LogEntry) -> Extent<Addr> {
    Extent::new(entry.first * BLOCK_BYTES, u64::from(entry.count) * BLOCK_BYTES)
}

fn find<V: Value>(map: &ExtentMap<Addr, V>, block: u64) -> Option<&V> {
    if map.is_empty() {
        return None;
    }
    map.within(Extent::new(block * BLOCK_BYTES, BLOCK_BYTES)).next().map(|(_, value)| value)
}

fn cut<V: Value>(map: &ExtentMap<Addr, V>, within: Extent<Addr>) -> Vec<(Extent<Addr>, V)> {
    map.within(within).map(|(run, value)| (run, value.clone())).collect()
}
