//! Blocks that are named as unwritten: rule 10.

use crate::rules::rule_e::reference::Reference;
use crate::rules::rule_e::reference::names::Source;
use quietus_detect::formats::format::{Block, Format, Kind};
use quietus_detect::rules::options::Grade;
use std::collections::BTreeSet;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Unwritten {
    /// The number of pointers that name the block as unwritten.
    pub named: u32,
    /// The block was not written since such a pointer came.
    pub empty: bool,
    /// Condemned as unwritten, whatever maps show.
    pub hollow: bool,
    /// Written while names had to be read.
    pub meanwhile: bool,
}

impl Unwritten {
    /// Written with new content while names had to be read.
    pub fn filled(self) -> Self {
        Self { empty: false, hollow: false, ..self }
    }
}

impl<F: Format> Reference<F> {
    fn knows_all_names(&self) -> bool {
        self.sources.values().all(Source::is_known)
    }

    fn heeds_unwritten(&self) -> bool {
        !self.format.has_external_journal()
    }

    pub(super) fn filled(&mut self, block: Block) {
        if self.knows_all_names() {
            self.cells.values_mut().for_each(|it| it.unwritten.meanwhile = false);
        }
        let is_early = !self.knows_all_names();
        let cell = self.cell(block);
        cell.unwritten =
            Unwritten { meanwhile: is_early || cell.unwritten.meanwhile, ..cell.unwritten.filled() };
    }

    pub(super) fn unwritten_in(&self, block: Block, kind: Kind, content: &[u8]) -> BTreeSet<Block> {
        self.format.unwritten(block, kind, content).into_iter().flatten().collect()
    }

    /// `block` changes: what it names as unwritten from now on.
    pub(super) fn unwritten_lost(
        &mut self,
        block: Block,
        kind: Kind,
        old: &[u8],
        new: &[u8],
    ) -> BTreeSet<Block> {
        let [old, new] = [old, new].map(|it| self.unwritten_in(block, kind, it));
        let is_lower = self.options.grade != Grade::Block;
        for lost in old.difference(&new) {
            let cell = self.cell(*lost);
            cell.unwritten.named -= 1;
            if std::mem::take(&mut cell.unwritten.hollow) && cell.stage.take().is_some() {
                cell.live = true;
                cell.suspicious |= is_lower;
            }
            self.is_young_again(*lost);
        }
        new.difference(&old).copied().collect()
    }

    pub(super) fn unwritten_gained(&mut self, gained: BTreeSet<Block>, came: bool) {
        let (moment, reads_count) = (self.clock.moment(), self.reads_count);
        for block in gained {
            let cell = self.cell(block);
            cell.unwritten.named += 1;
            cell.unwritten.empty |= came || (reads_count && !cell.unwritten.meanwhile);
            cell.stirred = Some(moment);
            self.is_young_again(block);
        }
    }

    /// A name is lost.
    pub(super) fn stirs(&mut self, block: Block) {
        let moment = self.clock.moment();
        if let Some(cell) = self.cells.get_mut(&block).filter(|it| it.unwritten.empty) {
            cell.stirred = Some(moment);
        }
    }

    /// Its only owner has nothing there, and has not written since it said so.
    pub(super) fn is_without_content(&self, block: Block) -> bool {
        let Unwritten { named, empty, hollow, .. } = self.cells[&block].unwritten;
        self.heeds_unwritten() && named > 0 && (empty || hollow) && self.names(block) == 1
    }

    pub(super) fn condemn_unwritten(&mut self) {
        if !self.heeds_unwritten() || self.options.grade == Grade::Block || !self.knows_all_names() {
            return;
        }
        self.reads_count = true;
        if self.review.is_none() && self.maps.is_empty() && std::mem::take(&mut self.rests) {
            for cell in self.cells.values_mut().filter(|it| it.unwritten.named > 0 && !it.touched) {
                (cell.stirred, cell.unwritten.empty, cell.shaky) = (None, true, false);
            }
            let is_resting =
                |it: &Block| self.cells.get(it).is_some_and(|it| it.unwritten.named > 0 && !it.touched);
            let links = self.sources.values_mut().flat_map(|it| &mut it.links);
            links.filter(|(it, ..)| is_resting(it)).for_each(|(.., is_certain)| *is_certain = true);
        }
        let is_calm = |block: &Block| {
            let cell = &self.cells[block];
            cell.live && cell.unwritten.empty && cell.stirred.is_none() && !self.is_guessed(*block)
        };
        let dead = self.cells.keys().copied().filter(|it| is_calm(it) && self.is_without_content(*it));
        for block in dead.collect::<Vec<_>>() {
            self.condemn(block);
            let unwritten = &mut self.cell(block).unwritten;
            (unwritten.empty, unwritten.hollow) = (false, true);
        }
    }

    /// The cache is there: a condemned block lives again, and is empty.
    pub(super) fn unwritten_distrust(&mut self) {
        self.rests = false;
        for cell in self.cells.values_mut().filter(|it| it.unwritten.hollow) {
            (cell.unwritten.hollow, cell.unwritten.empty) = (false, true);
            cell.unconfirmed = None;
        }
    }
}
