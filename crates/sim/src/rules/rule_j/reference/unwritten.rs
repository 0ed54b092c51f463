//! Blocks that committed inodes name as unwritten: rule 10.

use crate::rules::rule_j::reference::Reference;
use quietus_detect::formats::format::{Block, Kind};
use quietus_detect::rules::options::Grade;
use std::collections::BTreeSet;

/// Commits received after which the one that runs now is on the disk.
const COMMITS: u32 = 2;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub(super) struct Unwritten {
    /// Written since nothing was mounted, or perhaps.
    pub touched: bool,
    /// Named as unwritten, and not written since that name was new.
    pub empty: bool,
    /// The commit that condemns the block.
    pub due: Option<u32>,
    /// Condemned as unwritten, whatever maps show.
    pub hollow: bool,
}

impl Unwritten {
    pub fn filled(self) -> Self {
        Self { empty: false, due: None, hollow: false, ..self }
    }
}

impl Reference {
    fn heeds_unwritten(&self) -> bool {
        self.options.grade != Grade::Block && !self.attached.is_cached() && self.format.has_unwritten()
    }

    pub(super) fn wants_copy(&self, block: Block) -> bool {
        match self.format.kind(block) {
            Kind::Map => true,
            Kind::Inodes => self.format.has_unwritten(),
            _ => false,
        }
    }

    /// Takes what commit `number` says by its copies of blocks of inodes.
    pub(super) fn unwritten_settles(&mut self, copies: Vec<(Block, Vec<u8>)>, number: u32) {
        if !self.heeds_unwritten() {
            return;
        }
        let (mut lost, mut gained) = (BTreeSet::new(), BTreeSet::new());
        for (table, content) in copies {
            let new: BTreeSet<Block> =
                self.format.unwritten(table, Kind::Inodes, &content).into_iter().flatten().collect();
            let old = self.tables.insert(table, new.clone());
            let is_first = old.is_none();
            let old = old.unwrap_or_default();
            lost.extend(old.difference(&new).copied());
            let is_older = |it: &Block| match self.cells.get(it) {
                Some(cell) if is_first => !cell.unwritten.touched,
                Some(cell) => cell.count < number,
                None => false,
            };
            gained.extend(new.difference(&old).copied().filter(is_older));
        }
        for block in lost {
            let marks = self.options.grade != Grade::Block;
            let cell = self.cell(block);
            (cell.unwritten.empty, cell.unwritten.due) = (false, None);
            if std::mem::take(&mut cell.unwritten.hollow) && cell.stage.take().is_some() {
                (cell.live, cell.suspicious) = (true, cell.suspicious || marks);
            }
        }
        for block in gained.into_iter().filter(|it| self.area.at(*it).is_none()).collect::<Vec<_>>() {
            let cell = self.cell(block);
            (cell.unwritten.empty, cell.unwritten.due) = (true, None);
        }
        let is_due = |cell: &crate::rules::rule_j::reference::Cell| {
            cell.unwritten.empty && cell.unwritten.due.is_some_and(|it| it <= number)
        };
        let due: Vec<_> = self.cells.iter().filter(|(_, it)| is_due(it)).map(|(block, _)| *block).collect();
        due.into_iter().for_each(|it| self.is_hollow(it));
        let (settle, due) = (self.settle_ms(), self.received + COMMITS);
        for cell in self.cells.values_mut().filter(|it| it.unwritten.empty && it.unwritten.due.is_none()) {
            if !cell.written.is_some_and(|it| self.clock.is_within_active(it, settle)) {
                cell.unwritten.due = Some(due);
            }
        }
    }

    fn is_hollow(&mut self, block: Block) {
        let heeds = self.heeds_unwritten();
        let cell = self.cell(block);
        (cell.unwritten.empty, cell.unwritten.due) = (false, None);
        if cell.live && heeds {
            cell.unwritten.hollow = true;
            self.condemn(block);
        }
    }

    pub(super) fn unwritten_at_rest(&mut self) {
        if !self.rests || !self.commits.is_empty() {
            return;
        }
        self.rests = false;
        let named: BTreeSet<Block> = self.tables.values().flatten().copied().collect();
        let rests = |block: &Block, it: &Unwritten| {
            it.empty || (named.contains(block) && !it.touched && self.area.at(*block).is_none())
        };
        let empty = self.cells.iter().filter(|(block, it)| rests(block, &it.unwritten));
        let empty: Vec<_> = empty.map(|(block, _)| *block).collect();
        empty.into_iter().for_each(|it| self.is_hollow(it));
    }

    /// Commits may be missed, or a tool writes.
    pub(super) fn unwritten_forgotten(&mut self) {
        self.rests = false;
        self.tables.clear();
        for cell in self.cells.values_mut() {
            (cell.unwritten.empty, cell.unwritten.due) = (false, None);
        }
    }
}
