//! An ext4-like file system with a journal, in each mode of its data, as jbd2 keeps it above a disk with a
//! volatile cache: a flush comes between what is logged and the commit block, and before the tail moves;
//! the commit block and the tail have FUA.

use crate::guests::files::systems::system::{System, Writes};
use crate::guests::files::systems::truth::Truth;
use crate::guests::files::wire::What;
use crate::rules::rule_e::guest::{Action, FILES, Guest, Mark, Owner, SLOTS, mend};
use crate::rules::rule_e::toy::{Bytes, Super, Toy};
use crate::rules::rule_e::wide::narrowed;
use crate::rules::rule_j::guest;
use crate::rules::rule_j::guest::{Journaled, Mode, Start, tag};
use crate::rules::rule_j::judge::{Holds, Judge};
use crate::rules::rule_j::log::{Area, Tail, Tid, recovery};
use crate::rules::rule_j::setup::Setup;
use crate::rules::rule_j::trial::{converts, setup_of};
use quietus_core::base::units::BLOCK_BYTES;
use quietus_detect::formats::format::Block;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

#[derive(Debug)]
pub(in super::super) struct Ext4 {
    setup: Setup,
    toy: Toy,
    area: Area,
    /// First byte of the file system on the disk.
    start_bytes: u64,
    guest: Option<Journaled>,
    next_generation: u8,
    /// The first transaction of the next mount.
    start: Start,
    judge: Judge,
    /// Writes sent and not replied to.
    posted: BTreeSet<Block>,
    /// Blocks of the log that were sent and have not arrived: of which transaction; and of the commit
    /// block, whether a map is committed.
    coming: BTreeMap<Block, (Tid, Option<bool>)>,
    /// Transactions as they were sent to the log.
    logs: BTreeMap<Tid, Vec<(Block, Bytes)>>,
    /// Writes that wait for a flush, and whether the flush was sent.
    barrier: Option<(Barrier, bool)>,
}

/// The next write after a flush.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Barrier {
    Commit,
    Tail(Tail),
}

impl Ext4 {
    pub(in super::super) fn new(seed: u64) -> Self {
        Self::of(Setup { is_async: false, ..setup_of(seed) })
    }

    pub(in super::super) fn reserving(seed: u64) -> Self {
        Self::of(Setup { is_async: false, reserves: Some(converts(seed)), ..setup_of(seed) })
    }

    fn of(setup: Setup) -> Self {
        let area = Area { block_bytes: BLOCK_BYTES as u32, ..setup.area() };
        let tail = Tail { start: 0, tid: 1 };
        Self {
            toy: setup.toy(),
            area,
            start_bytes: 0,
            guest: None,
            next_generation: 1,
            start: Start { tid: 1, is_empty: true },
            judge: Judge::new(setup.toy(), area, tail),
            posted: BTreeSet::new(),
            coming: BTreeMap::new(),
            logs: BTreeMap::new(),
            barrier: None,
            setup,
        }
    }

    /// The last transaction in the log that a crash left in `found`.
    fn newest_on(&self, found: &[Vec<u8>]) -> Option<Tid> {
        let found: Vec<_> = found.iter().map(Vec::as_slice).collect();
        let log = recovery(self.area, &found)?;
        Some(if log.is_empty { self.judge.newest } else { log.next - 1 })
    }

    fn owners_of(&self, holds: &Holds) -> BTreeMap<Block, Owner> {
        holds.iter().map(|(block, stay)| (*block, self.judge.owner(*stay))).collect()
    }

    /// The newest transaction that is on the disk whatever happens, if each block of it can only have
    /// what was sent.
    fn proven(&self, possible: &[Vec<Bytes>]) -> Option<Tid> {
        let is_there = |(block, page): &(Block, Bytes)| possible[*block as usize].iter().all(|it| it == page);
        let is_whole = |tid: &Tid| !self.coming.values().any(|it| it.0 == *tid) && *tid <= self.judge.newest;
        let logs = self.logs.iter().rev().filter(|(tid, _)| is_whole(tid));
        logs.filter(|(_, blocks)| blocks.iter().all(is_there)).map(|(tid, _)| *tid).next()
    }

    fn commit(&mut self) {
        let Some(guest) = &mut self.guest else { return };
        if let Some(tid) = guest.commit() {
            self.judge.closed(tid, guest.files.reserved());
        }
    }

    /// Notes that `block` is sent, as `sent` has it. Returns whether it has FUA.
    fn note(&mut self, block: Block, sent: &guest::Sent) -> bool {
        let guest = self.guest.as_ref().expect("a mounted guest sends");
        let is_commit = guest.commit_block() == Some(block);
        if let guest::What::Log(tid) = sent.what {
            self.coming.insert(block, (tid, is_commit.then(|| guest.commits_map())));
            self.logs.entry(tid).or_default().push((block, narrowed(&sent.bytes)));
        }
        is_commit || matches!(sent.what, guest::What::Tail(_))
    }

    /// The log was replayed, or was empty: the next transaction is the first of a new mount.
    fn replayed(&mut self) {
        self.judge.mounted(self.start.tid);
        self.coming.clear();
        self.logs.clear();
    }
}

impl System for Ext4 {
    fn label(&self) -> u8 {
        self.area.len as u8
    }

    fn toy(&self) -> Toy {
        self.toy
    }

    fn log(&self) -> Range<Block> {
        self.area.block(1)..self.area.block(self.area.len)
    }

    fn disk(&mut self, start_bytes: u64) -> Vec<Vec<u8>> {
        self.start_bytes = start_bytes;
        let mut disk: Vec<_> = self.setup.disk().0.iter().map(|block| block.to_vec()).collect();
        disk[self.area.first as usize] = self.area.superblock(Tail { start: 0, tid: 1 });
        disk
    }

    fn is_mounted(&self) -> bool {
        self.guest.is_some()
    }

    fn mount(&mut self, seen: &[Bytes]) {
        self.replayed();
        let disk: Vec<_> = seen.iter().map(<[u8; 64]>::as_slice).collect();
        let what = (self.toy, self.area, self.setup.mode, self.setup.is_async);
        let guest = Journaled::mount(what, &disk, self.next_generation, self.start);
        self.guest = Some(guest.lies_at(self.start_bytes).reserving(self.setup.reserving()));
    }

    fn at_last(&self, _: bool) -> Option<Super> {
        Super::from_bytes(&self.guest.as_ref()?.superblock(true))
    }

    fn leave(&mut self) {
        if let Some(guest) = self.guest.take() {
            self.next_generation = guest.files.next_generation;
            self.judge.unmounted();
        }
        self.posted.clear();
        self.barrier = None;
    }

    fn dirty(&self) -> BTreeSet<Block> {
        let Some(guest) = &self.guest else { return BTreeSet::new() };
        let data = guest.dirty().into_iter().filter(|_| self.setup.mode != Mode::Journal);
        data.chain(guest.checkpointable()).collect()
    }

    fn write_back(&mut self, block: Block) -> Option<Bytes> {
        let guest = self.guest.as_mut()?;
        if guest.checkpointable().contains(&block) {
            guest.checkpoint(block);
        } else {
            guest.write_data(block);
        }
        None
    }

    fn mend(&mut self, seen: &[Bytes]) -> Vec<(Block, Bytes)> {
        self.replayed();
        self.judge.unmounted();
        mend(self.toy, seen)
    }

    fn files(&self) -> Option<&Guest> {
        self.guest.as_ref().map(|it| &it.files)
    }

    fn free(&self) -> Vec<Block> {
        self.guest.as_ref().map(Journaled::free).unwrap_or_default()
    }

    fn actions(&self) -> Vec<Action> {
        let slots: Vec<_> = (0..SLOTS).collect();
        self.guest.iter().flat_map(|it| it.files.actions(FILES, &slots, &it.free(), 1)).collect()
    }

    fn does(&mut self, action: Action, truth: &mut Truth) {
        let (Some(guest), judge) = (&mut self.guest, &mut self.judge) else { return };
        let begin = |block, owner| {
            truth.begin(block, owner);
            judge.begin(block, owner)
        };
        for freed in guest.does(action, begin) {
            truth.end(freed);
            judge.end(freed);
        }
    }

    fn owners(&self) -> Option<BTreeMap<Block, Owner>> {
        Some(match &self.guest {
            Some(guest) => guest.files.named(),
            None => self.owners_of(&self.judge.end_of(self.judge.newest)),
        })
    }

    fn owners_on(&self, _: &[Bytes], found: &[Vec<u8>]) -> BTreeMap<Block, Owner> {
        self.newest_on(found).map(|it| self.owners_of(&self.judge.end_of(it))).unwrap_or_default()
    }

    fn holds(&self) -> Option<Holds> {
        Some(if self.is_mounted() { self.judge.holds.clone() } else { self.judge.end_of(self.judge.newest) })
    }

    fn found(&mut self, found: &[Vec<u8>]) -> Result<(), String> {
        let newest = self.newest_on(found).ok_or("safety: the journal is gone")?;
        self.judge.recovered(newest)?;
        self.coming.clear();
        for block in self.toy.data() {
            self.judge.lies(block, &found[block as usize]);
        }
        Ok(())
    }

    fn namers(&self, _: &[Bytes]) -> Vec<BTreeSet<Owner>> {
        Vec::new()
    }

    fn is_needed(&mut self, block: Block, _: Option<Mark>, _: &Truth, possible: &[Vec<Bytes>]) -> bool {
        if let Some(tid) = self.proven(possible) {
            self.judge.proven_to(tid);
        }
        let needed = match self.area.at(block) {
            Some(at) => {
                let tails = possible[self.area.first as usize].iter().filter_map(|it| self.area.tail(it));
                self.judge.log_dies(at, &tails.collect::<Vec<_>>())
            }
            None => self.judge.dies(block),
        };
        if needed.is_ok() {
            self.judge.destroyed(block);
        }
        needed.is_err()
    }

    fn excuse(&self, block: Block, mark: Mark) -> Option<(bool, bool)> {
        Some(self.judge.excuse(block, mark.stay))
    }

    fn outbox(&mut self, busy: &BTreeSet<Block>) -> Vec<What> {
        let Some(guest) = &self.guest else { return Vec::new() };
        let ready = guest.wire.iter().filter(|it| !self.posted.contains(it.0) && !busy.contains(it.0));
        let ready: Vec<_> = ready.map(|(block, sent)| (*block, sent.clone())).collect();
        let mut posts = Vec::new();
        for (block, sent) in ready {
            self.posted.insert(block);
            let fua = self.note(block, &sent);
            posts.push(What::Write { block, tag: tag(&narrowed(&sent.bytes)), bytes: sent.bytes, fua });
        }
        if let Some((_, is_sent @ false)) = &mut self.barrier {
            *is_sent = true;
            posts.push(What::Flush { is_barrier: true });
        }
        posts
    }

    fn arrived(&mut self, block: Block, bytes: &[u8]) {
        self.judge.written(block, bytes);
        let Some((tid, commits)) = self.coming.remove(&block) else { return };
        self.judge.logged(block, tid);
        // The commit block leaves when the others were replied to.
        if let Some(brings_map) = commits {
            self.judge.ended = tid;
            self.judge.finished(tid, brings_map);
        }
    }

    fn replied(&mut self, block: Block) {
        self.posted.remove(&block);
        if let Some(guest) = &mut self.guest {
            guest.landed(block);
        }
    }

    fn refused(&mut self, block: Block) {
        if self.area.at(block).is_some() {
            self.judge.waits();
        }
    }

    fn flushed(&mut self) {
        let (Some(guest), Some((barrier, true))) = (&mut self.guest, self.barrier.take()) else { return };
        match barrier {
            Barrier::Commit => guest.send_commit(),
            Barrier::Tail(tail) => guest.send_tail(tail),
        }
    }

    fn advance(&mut self) {
        let Some(guest) = &mut self.guest else { return };
        if let Some(tid) = guest.finished() {
            guest.acknowledge();
            self.judge.proven_to(tid);
            self.logs.retain(|it, _| *it >= tid);
        } else if guest.can_send_commit() {
            self.barrier.get_or_insert((Barrier::Commit, false));
        } else {
            self.commit();
        }
    }

    fn move_tail(&mut self) {
        let Some(guest) = &self.guest else { return };
        if guest.can_move_tail() {
            self.barrier.get_or_insert((Barrier::Tail(guest.next_tail()), false));
        }
    }

    fn hurry(&mut self) -> bool {
        for block in self.dirty() {
            let _ = self.write_back(block);
        }
        self.advance();
        self.move_tail();
        self.guest.as_ref().is_none_or(Journaled::is_settled)
    }

    fn empty(&mut self) {
        self.guest.iter_mut().for_each(Journaled::empty);
    }

    fn replay(&mut self, found: &[Vec<u8>], empties: bool) -> Result<[Writes; 2], String> {
        let bytes: Vec<_> = found.iter().map(Vec::as_slice).collect();
        let log = recovery(self.area, &bytes).ok_or("safety: the journal is gone")?;
        // A number is left out, so that blocks left from one transaction are not taken for the next.
        let skips = if log.is_empty { self.setup.skips } else { self.setup.skips.max(1) };
        self.start = Start { tid: log.next + skips, is_empty: log.is_empty || empties };
        if log.is_empty {
            return Ok(Default::default());
        }
        let tail = Tail { start: u32::from(!empties), tid: self.start.tid };
        let tail = vec![(self.area.block(0), self.area.superblock(tail))];
        Ok([log.contents.into_iter().collect(), tail])
    }

    fn forgotten(&mut self) {
        self.judge.forgotten();
    }

    fn is_idle(&mut self) {
        self.judge.has_seen();
    }
}
