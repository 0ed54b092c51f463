//! Arrivals in the journal and in what describes the file system, and their consequences.

use crate::formats::format::{Block, Geometry, Kind};
use crate::formats::jbd2::superblock::Superblock;
use crate::mutant::{self, Mutant};
use crate::rules::rule::{set_member, split};
use crate::rules::rule_j::RuleJ;
use crate::rules::rule_j::journal::commits::Map;
use crate::rules::rule_j::journal::copies::Copy;
use crate::rules::rule_j::journal::log::{Copied, Log, News, Received, Want};
use crate::rules::rule_j::journal::reads::Wanted;
use quietus_core::base::units::{Addr, Extent};
use roaring::RoaringBitmap;

impl RuleJ {
    /// Takes a write of `block` of geometry, which changes it from `old` to `new`.
    pub(super) fn geometry_written(&mut self, block: Block, old: &[u8], new: &[u8]) {
        let change = self.format.geometry(block, old, new);
        self.may_have_crashed(change);
        set_member(&mut self.marks, block, change != Geometry::Same);
        match change {
            Geometry::Same => {}
            Geometry::InUse | Geometry::Mounted => self.in_use = true,
            Geometry::Unmounted => self.cleaned(self.log.as_ref().is_some_and(Log::is_empty)),
            Geometry::Clean => self.cleaned(false),
            Geometry::Changed => return self.changed = true,
        }
        if self.format.learn(block, new) {
            self.lose_marks();
        }
    }

    /// Notes that everything was written, so that the maps on the disk can be trusted.
    fn cleaned(&mut self, in_order: bool) {
        self.in_use = false;
        let in_order = in_order && !self.attached.is_cached();
        self.unwritten.rests(in_order);
        self.unwritten_at_rest();
        self.reread_maps(in_order);
        self.search_marks(in_order);
    }

    pub(super) fn journal_written(&mut self, index: u32, block: Block, extent: Extent<Addr>, bytes: &[u8]) {
        let Some((at, part)) = self.grid.part(block, extent, bytes, 0) else { return };
        self.log_overwritten(index);
        self.revive(block..=block);
        if self.attached.is_cached() {
            self.lately.insert(block..=block);
        }
        // The log was not found again yet: blocks of the next transaction would be taken for older ones.
        if self.log.is_none() && index > 0 && self.resumes.take().is_some() {
            self.lose_maps();
        }
        if at == self.grid.extent_of(block) {
            self.reads.written(block, false);
            return self.journal_seen(index, part, false);
        }
        let is_whole = self.part_written(index, at);
        self.reads.written(block, is_whole || index == 0);
    }

    /// Notes a partial write. Returns whether all parts of the journal's block `index` have
    /// arrived.
    fn part_written(&mut self, index: u32, at: Extent<Addr>) -> bool {
        let bytes = u64::from(self.format.block_bytes());
        let start = at.start.0 % bytes;
        self.log.as_mut().is_some_and(|log| log.part_written(index, start..start + at.len, bytes))
    }

    /// Takes `content` of the journal's block `index`, which just arrived, or was `read` after
    /// partial writes.
    pub(super) fn journal_seen(&mut self, index: u32, content: &[u8], read: bool) {
        if index == 0 {
            return self.superblock_seen(content, read);
        }
        let Some(log) = &mut self.log else { return };
        let (format, marked) = (&*self.format, self.marked.as_ref());
        let wants = |block: u64| Self::wants_copy(format, marked, block);
        let news = log.written(index, content, read, &wants);
        self.apply_news(news, read);
    }

    fn superblock_seen(&mut self, content: &[u8], read: bool) {
        let first = self.format.journal_first();
        match Superblock::from_bytes(content, first..first.saturating_add(self.place.len)) {
            Ok(superblock) => {
                let news = match &mut self.log {
                    Some(log) => log.tail_moved(superblock, read),
                    None => self.log_seen(superblock),
                };
                self.apply_news(news, read);
            }
            // Some of the superblock's parts have yet to arrive.
            Err(_) if read => self.lose(),
            Err(reason) => self.broken = Some(reason),
        }
    }

    /// Takes the journal's superblock for the first time.
    fn log_seen(&mut self, superblock: Superblock) -> News {
        let (mut log, news) = Log::new(superblock);
        self.resume_log(&mut log);
        self.committed_unseen |= !log.is_known();
        if !log.is_known() {
            self.lose_marks();
        }
        self.log = Some(log);
        self.look();
        news
    }

    fn apply_news(&mut self, news: News, late: bool) {
        match news {
            News::None => {}
            News::Received(received) => self.received(received, late),
            News::Dead(indices) => self.residue(&indices),
            News::Restarted(indices) => {
                self.lose_maps();
                self.residue(&indices);
            }
            News::Renumbered(indices) => {
                self.lose_maps();
                self.commits.write_all(self.format.blocks());
                self.residue(&indices);
            }
            News::Lost => self.lose(),
        }
    }

    /// Condemns copies in the journal that no longer count.
    fn residue(&mut self, indices: &RoaringBitmap) {
        self.forget_copies(indices);
        let dead = self.passed_cache(self.place.blocks(indices) & &self.live);
        self.figures.residue += dead.len();
        self.condemn(dead);
    }

    /// Loses the place in the journal: the next transactions cannot be known (invariant 2).
    pub(super) fn lose(&mut self) {
        if let Some(log) = &mut self.log {
            log.lose();
        }
        self.lose_maps();
        self.live |= self.deaths.revoke(&self.journal);
    }

    pub(super) fn lose_maps(&mut self) {
        self.figures.losses += 1;
        self.committed_unseen = true;
        self.lose_marks();
        self.unwritten.forget();
        self.reads.forget_copies();
        self.commits.lose();
        if mutant::is(Mutant::LossIgnored) {
            return;
        }
        self.free.clear();
        let uncertain = std::mem::take(&mut self.candidates) - &self.commits.written;
        self.suspect(uncertain);
    }

    /// Takes a transaction that counts from now on. If it is `late`, the guest may have continued
    /// in the meantime.
    fn received(&mut self, Received { tid, maps }: Received, late: bool) {
        let late = late && !mutant::is(Mutant::LateIsInTime);
        let waits_for = maps.values().filter(|copy| copy.want == Want::Content).count();
        let Some(serial) = self.commits.push(waits_for, late) else { return self.lose() };
        for (index, Copied { tag, want, content }) in maps {
            let copy = Copy { index, tid, tag };
            if self.format.kind(copy.block()) != Kind::Map && self.marked.is_some() {
                self.commits.note(serial, copy);
            }
            let wanted = Wanted { serial: Some(serial), copy };
            match content {
                Some(content) => self.copy_seen(wanted, &content),
                None if want == Want::Content => self.want_copy(index, wanted),
                None => {}
            }
        }
        self.settle();
        if mutant::is(Mutant::ResidueBeforeSuperblock) {
            let all = self.log.as_ref().map(Log::all_before);
            self.residue(&all.unwrap_or_default());
        }
    }

    fn want_copy(&mut self, index: u32, wanted: Wanted) {
        let block = self.place.block(index);
        if !block.is_some_and(|block| self.reads.want_copy(block, wanted)) {
            self.lose();
        }
    }

    pub(super) fn copy_seen(&mut self, wanted: Wanted, copy: &[u8]) {
        let Wanted { serial, copy: from @ Copy { tid, tag, .. } } = wanted;
        let records = self.log.as_ref().map(|log| &log.superblock.records);
        let known = records.filter(|it| self.knows_copies(it.checksums.are_on()));
        let restored = known.and_then(|it| it.restored(tid, &tag, copy));
        let Some(bytes) = restored else { return self.lose() };
        let block = from.block();
        let Some(serial) = serial else { return self.marked_copy_seen(from, &bytes) };
        if self.format.kind(block) != Kind::Map {
            if self.format.kind(block) == Kind::Inodes && self.format.has_unwritten() {
                let named = self.format.unwritten(block, Kind::Inodes, &bytes);
                self.commits.unwritten_read(serial, block, named);
            }
            return self.commits.copy_read(serial, block, self.marked.is_some().then_some(bytes));
        }
        match self.format.map(self.grid.extent_of(block), &bytes) {
            Ok(shown) => {
                let (allocated, free) = split(&shown);
                self.commits.map_read(serial, Map { block, allocated, free });
            }
            Err(reason) => self.broken = Some(reason),
        }
    }
}
