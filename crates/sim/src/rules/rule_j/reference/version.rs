//! What the page's version shows to the comparison.

use crate::rules::differential::{Census, Version, place};
use crate::rules::rule_e::reference::time::Moment;
use crate::rules::rule_e::reference::{blocks_of, changes};
use crate::rules::rule_j::reference::{Cell, Reference, Stage};
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::{self, Observation, Verdict};
use quietus_detect::formats::format::{Block, Kind};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};

impl Reference {
    /// Blocks of the log that hold maps of commits, and have not been seen; with those that come now, or without.
    fn unseen(&self, with_coming: bool) -> BTreeSet<Block> {
        let copies = self.commits.iter().flat_map(|it| &it.maps);
        let unseen = copies.filter(|it| it.seen.is_none() && (with_coming || !it.is_coming));
        unseen.map(|it| self.area.block(it.at)).collect()
    }

    fn copy_seen(&mut self, block: Block, content: &[u8]) {
        let Some(at) = self.area.at(block) else { return };
        for copy in self.commits.iter_mut().flat_map(|it| &mut it.maps).filter(|it| it.at == at) {
            copy.seen.get_or_insert_with(|| content.to_vec());
        }
        self.settle();
    }

    /// Condemned blocks go on their way (5).
    fn turn(&mut self, from: Stage, to: Stage) {
        let stages = self.cells.values_mut().filter_map(|it| it.stage.as_mut());
        stages.filter(|it| **it == from).for_each(|it| *it = to);
    }

    fn changes(&mut self, block: Block, old: &[u8], new: &[u8]) {
        match self.format.kind(block) {
            Kind::Geometry => self.geometry(block, old, new),
            _ if self.unseen(false).contains(&block) => self.copy_seen(block, old),
            _ => {}
        }
    }

    fn given(&mut self, extent: Extent<Addr>, content: Option<&[u8]>) {
        let Some(content) = content else { return self.stop() };
        let bytes = self.format.block_bytes() as usize;
        for (block, content) in blocks_of(&*self.format, extent).into_iter().zip(content.chunks(bytes)) {
            if block == self.area.block(0) && std::mem::take(&mut self.wants_superblock) {
                self.tail_written(content, self.superblock_overtaken);
            }
            if let Some(at) = self.area.at(block).filter(|at| self.log.unread.contains(at)) {
                self.log_written(at, content, true);
            }
            if let Some(at) = self.area.at(block).filter(|at| self.log.unseen.contains(at)) {
                self.log.looked(at, content);
            }
            if let Some(by_tool) = self.maps.remove(&block) {
                self.map_read(block, content, by_tool);
            }
            self.copy_seen(block, content);
        }
    }
}

impl Version for Reference {
    fn observe(&mut self, at: watch::Moment, observation: Observation<'_>) {
        match observation {
            Observation::Arrived { extent, content } => self.arrived(at.now, extent, content),
            Observation::Overwriting { extent, content, old_extent, old } => {
                let changes = changes(&*self.format, (old_extent, old), (extent, content));
                changes.iter().for_each(|(block, old, new)| self.changes(*block, old, new));
            }
            Observation::Given { extent, content } => self.given(extent, content),
            Observation::Attached => self.attached(at.now, at.attached),
            Observation::Tick => self.tick(at.now),
            Observation::Cut => self.turn(Stage::Unsynced, Stage::Syncing),
            Observation::Proven => self.turn(Stage::Syncing, Stage::Confirmed),
            Observation::Refused { .. }
            | Observation::Read(_)
            | Observation::Clients
            | Observation::Stopping => {}
        }
    }

    fn needs(&self, extent: Extent<Addr>) -> BTreeSet<Block> {
        let unseen = self.unseen(false);
        let is_needed = |it: &Block| self.format.kind(*it) == Kind::Geometry || unseen.contains(it);
        blocks_of(&*self.format, extent).into_iter().filter(is_needed).collect()
    }

    fn wants(&self) -> BTreeSet<Block> {
        let superblock = self.wants_superblock.then_some(self.area.block(0));
        let log = self.log.unread.union(&self.log.unseen);
        let superblock = superblock.into_iter().chain(log.map(|at| self.area.block(*at)));
        self.unseen(true).into_iter().chain(self.maps.keys().copied()).chain(superblock).collect()
    }

    fn due(&self, _: bool) -> BTreeMap<Block, Verdict> {
        let ready = self.cells.iter().filter(|(_, it)| it.stage == Some(Stage::Confirmed) && !self.is_over);
        ready.map(|(block, _)| (*block, Verdict::Dead)).collect()
    }

    fn handed_out(&mut self, block: Block, _: Verdict, _: bool) {
        let cell = self.cell(block);
        (cell.stage, cell.suspicious, cell.unwritten) = (None, false, cell.unwritten.filled());
    }

    /// (2)
    fn take_suspicious(&mut self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let mut parts = Vec::new();
        for block in blocks_of(&*self.format, extent) {
            let there = place(block, self.format.block_bytes());
            let Some(part) = extent.overlap(there).filter(|_| self.may_be_dead(block)) else { continue };
            parts.push(part);
            let cell = self.cell(block);
            cell.suspicious = part != there;
        }
        parts
    }

    fn census(&self) -> Census {
        let count = |is: fn(&Cell) -> bool| self.cells.values().filter(|it| is(it)).count() as u64;
        let fixed = u64::from(self.format.blocks()) - self.cells.len() as u64;
        vec![
            ("place in the journal known (1: yes)", u64::from(self.log.is_known())),
            ("commits received", u64::from(self.received)),
            ("live", count(|it| it.live) + fixed),
            ("free by a committed map", count(|it| it.free)),
            ("suspicious", count(|it| it.suspicious)),
            (
                "dead, evidence not durable yet",
                count(|it| matches!(it.stage, Some(Stage::Unsynced | Stage::Syncing))),
            ),
        ]
    }

    fn is_over(&self) -> bool {
        self.is_over
    }

    fn is_unsure(&self) -> bool {
        self.clock.is_unsure
    }

    fn digest(&self, mut hasher: &mut dyn Hasher) {
        for cell in self.cells.values() {
            let Cell { live, free, suspicious, stage, count, written, touched, unwritten } = cell;
            let commits = (self.received - count).min(3);
            (live, free, suspicious, stage, commits, touched).hash(&mut hasher);
            let due = unwritten.due.map(|it| it.saturating_sub(self.received));
            (unwritten.touched, unwritten.empty, due, unwritten.hollow).hash(&mut hasher);
            let age = |it: Moment| (self.clock.moment().active - it.active).min(2 * self.settle_ms());
            written.map(age).hash(&mut hasher);
        }
        let review = self.review.as_ref();
        let review = review.map(|it| (it.at.0.saturating_sub(self.clock.now), it.by_tool));
        (&self.log, self.in_use, review, &self.maps).hash(&mut hasher);
        (self.wants_superblock, self.superblock_overtaken).hash(&mut hasher);
        for commit in &self.commits {
            (self.received - commit.number, &commit.maps).hash(&mut hasher);
        }
        (&self.tables, self.rests).hash(&mut hasher);
        (self.is_over, self.attached.is_cached(), self.clock.gap(), &self.settled, self.was_unknown)
            .hash(&mut hasher);
    }
}
