//! The two-commit rule and the rule of the journal's residue by the letter, and
//! readings of them that are wrong: what the model of jbd2 is measured by.
//!
//! "Let c(B) be the number of commits received when B's last write arrived. B's
//! content is dead as soon as a committed map m shows B free, m >= c(B) + 2."

use super::log::{Area, At, Tid};
use super::place::narrowed;
use super::rules::Rules;
use crate::rule_e::toy::{MAP, SUPER, Super, Toy};
use quietus_core::watch::Verdict;
use quietus_detect::format::Block;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A reading of the rule.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reading {
    /// Commits that must be received after the last write; 2 by the rule.
    pub margin: u32,
    /// What is counted.
    pub counts: Counts,
    /// What the journal's residue is.
    pub residue: Residue,
}

/// What is taken for the number of commits received.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counts {
    /// Transactions that became complete.
    Transactions,
    /// The number that the newest one bears.
    Numbers,
    /// Writes of commit blocks.
    Blocks,
}

/// What is taken for the journal's residue when the tail moves.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Residue {
    /// What was written before the transaction at the tail could begin.
    BeforeTail,
    /// Whatever is not between the tail and the last transaction that is known.
    Outside,
}

/// The rule.
pub const RULE: Reading = Reading { margin: 2, counts: Counts::Transactions, residue: Residue::BeforeTail };

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
enum Stage {
    Unsynced,
    Syncing,
    Confirmed,
}

/// What is known of a block of data.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Cell {
    /// c(B).
    count: u32,
    is_live: bool,
    stage: Option<Stage>,
}

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Text {
    toy: Toy,
    area: Area,
    reading: Reading,
    disk: Vec<Vec<u8>>,
    /// The transaction that comes next, and where.
    next: (Tid, At),
    count: u32,
    cells: BTreeMap<Block, Cell>,
    /// Shown free by the newest committed map.
    free: BTreeSet<Block>,
    /// Counts writes to the journal.
    moment: u64,
    written: BTreeMap<At, u64>,
    /// When the latest transactions became complete.
    completed: BTreeMap<Tid, u64>,
    residue: BTreeMap<At, Stage>,
}

impl Text {
    /// Begins to watch `disk`: what a recovery would find has been received.
    #[must_use]
    pub fn attach(toy: Toy, area: Area, reading: Reading, disk: Vec<Vec<u8>>) -> Self {
        let cell = Cell { count: 0, is_live: true, stage: None };
        let tail = area.tail(&disk[area.block(0) as usize]).expect("it is a journal");
        let mut this = Self {
            toy,
            area,
            reading,
            disk,
            next: (tail.tid, tail.start.max(1)),
            count: 0,
            cells: toy.data().map(|it| (it, cell.clone())).collect(),
            free: BTreeSet::new(),
            moment: 0,
            written: BTreeMap::new(),
            completed: BTreeMap::new(),
            residue: BTreeMap::new(),
        };
        this.receive();
        // What lies there and is not known may be of the transaction that comes next.
        this.moment += 1;
        (1..area.len).for_each(|at| {
            this.written.entry(at).or_insert(this.moment);
        });
        if tail.start == 0 {
            this.residue = (1..area.len).map(|at| (at, Stage::Unsynced)).collect();
        }
        let count = this.count;
        this.cells.values_mut().for_each(|it| (it.count, it.is_live, it.stage) = (count, true, None));
        this
    }

    /// Takes the transactions that have become complete.
    fn receive(&mut self) {
        loop {
            let (tid, at) = self.next;
            let area = self.area;
            let content = |at| self.disk[area.block(at) as usize].as_slice();
            let Some((logged, end)) = area.decode(tid, at, content) else { return };
            self.next = (tid + 1, end);
            self.moment += 1;
            for n in 0..self.area.between(at, end) {
                self.written.insert(self.area.ahead(at, n), self.moment);
            }
            match self.reading.counts {
                Counts::Transactions => self.count += 1,
                Counts::Numbers => self.count = tid,
                Counts::Blocks => {}
            }
            self.completed.insert(tid, self.moment);
            self.shown(logged.contents.get(&MAP));
        }
    }

    /// The newest committed map says so, if it is another.
    fn shown(&mut self, map: Option<&Vec<u8>>) {
        if let Some(map) = map {
            self.free = self.toy.data().filter(|it| map[*it as usize] == 0).collect();
        }
        for (block, cell) in &mut self.cells {
            if !self.free.contains(block) {
                (cell.is_live, cell.stage) = (true, None);
            } else if cell.is_live && self.count >= cell.count + self.reading.margin {
                (cell.is_live, cell.stage) = (false, Some(Stage::Unsynced));
            }
        }
    }

    fn log_written(&mut self, at: At, bytes: &[u8]) {
        self.moment += 1;
        self.written.insert(at, self.moment);
        self.residue.remove(&at);
        self.receive();
        if self.reading.counts == Counts::Blocks && bytes[..8] == [0xc0, 0x3b, 0x39, 0x98, 0, 0, 0, 2] {
            self.count += 1;
            self.shown(None);
        }
    }

    fn tail_written(&mut self, bytes: &[u8]) {
        let Some(tail) = self.area.tail(bytes) else { return };
        if tail.start == 0 || tail.tid > self.next.0 {
            self.next = (tail.tid, tail.start.max(1));
            self.completed.clear();
        }
        let dead: Vec<_> =
            (1..self.area.len).filter(|it| self.is_residue(*it, tail.tid, tail.start)).collect();
        self.residue.extend(dead.into_iter().map(|it| (it, Stage::Unsynced)));
        self.receive();
    }

    fn is_residue(&self, at: At, tid: Tid, start: At) -> bool {
        if start == 0 {
            return true;
        }
        if self.reading.residue == Residue::Outside {
            return self.area.between(start, at) >= self.area.between(start, self.next.1);
        }
        let limit = self.completed.get(&(tid - 1)).copied();
        let limit = limit.or((tid >= self.next.0).then_some(self.moment));
        limit.is_some_and(|limit| self.written.get(&at).copied().unwrap_or(0) <= limit)
    }

    /// Unmounted: the map in its place is the map.
    fn unmounted(&mut self) {
        let map = narrowed(&self.disk[MAP as usize]);
        for (block, cell) in
            self.cells.iter_mut().filter(|(it, cell)| map[**it as usize] == 0 && cell.is_live)
        {
            debug_assert!(map[*block as usize] == 0);
            (cell.is_live, cell.stage) = (false, Some(Stage::Unsynced));
        }
    }

    fn stages(&mut self) -> impl Iterator<Item = &mut Stage> {
        self.cells.values_mut().filter_map(|it| it.stage.as_mut()).chain(self.residue.values_mut())
    }
}

impl Rules for Text {
    fn disk(&self) -> Vec<&[u8]> {
        self.disk.iter().map(Vec::as_slice).collect()
    }

    fn write(&mut self, block: Block, bytes: &[u8]) -> Result<Vec<Block>, String> {
        let old = std::mem::replace(&mut self.disk[block as usize], bytes.to_vec());
        match (self.area.at(block), block) {
            (Some(0), _) => self.tail_written(bytes),
            (Some(at), _) => self.log_written(at, bytes),
            (None, SUPER) => {
                let is_clean = |it: &[u8]| Super::from_bytes(it).is_some_and(|it| it.is_clean);
                if is_clean(bytes) && !is_clean(&old) {
                    self.unmounted();
                }
            }
            _ => {
                let count = self.count;
                if let Some(cell) = self.cells.get_mut(&block) {
                    *cell = Cell { count, is_live: true, stage: None };
                }
            }
        }
        Ok(Vec::new())
    }

    fn read_one(&mut self) -> Result<bool, String> {
        Ok(false)
    }

    fn cut(&mut self) {
        self.stages().filter(|it| **it == Stage::Unsynced).for_each(|it| *it = Stage::Syncing);
    }

    fn proven(&mut self) {
        self.stages().filter(|it| **it == Stage::Syncing).for_each(|it| *it = Stage::Confirmed);
    }

    fn verdicts(&mut self, _: bool) -> Result<BTreeMap<Block, Verdict>, String> {
        let mut dead = BTreeMap::new();
        for (block, cell) in &mut self.cells {
            if cell.stage.take_if(|it| *it == Stage::Confirmed).is_some() {
                dead.insert(*block, Verdict::Dead);
            }
        }
        for at in self.residue.extract_if(.., |_, it| *it == Stage::Confirmed).map(|it| it.0) {
            dead.insert(self.area.block(at), Verdict::Dead);
        }
        Ok(dead)
    }

    fn destroy(&mut self, block: Block) {
        self.disk[block as usize].fill(0);
    }

    fn pass(&mut self, _: u64) -> Result<(), String> {
        Ok(())
    }

    fn restart(&mut self) {
        *self = Self::attach(self.toy, self.area, self.reading, std::mem::take(&mut self.disk));
    }

    fn is_over(&self) -> bool {
        false
    }

    fn read_at_once(&self) -> bool {
        false
    }

    fn knows_layers(&self) -> bool {
        false
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let ages: Vec<_> = self.cells.iter().map(|(it, cell)| (it, self.count - cell.count, cell)).collect();
        ages.iter()
            .for_each(|(block, age, cell)| (block, age.min(&9), cell.is_live, cell.stage).hash(&mut hasher));
        (&self.disk, self.next, &self.free, &self.residue).hash(&mut hasher);
        let since: Vec<_> = self.written.values().map(|it| self.moment - it).collect();
        let completed: Vec<_> = self.completed.values().rev().take(9).map(|it| self.moment - it).collect();
        (since, completed).hash(&mut hasher);
        hasher.finish()
    }
}
