//! A file system that journals through jbd2, in the memory of a guest: as nasty
//! as jbd2 is allowed to be.
//!
//! The kernel's promises, and no more (read in the source of Linux 6.1):
//!
//! 1. One transaction runs, and at most one commits; the next one begins to
//!    commit when the guest knows that all of that one is on the disk.
//! 2. A block of data is written no earlier than it is allocated in the running
//!    transaction. In ordered mode what a transaction allocated is written
//!    before its commit block; in writeback mode at any time.
//! 3. The blocks of the log may arrive in any order, the commit block after
//!    them; with `async_commit` it may be any of them.
//! 4. What was freed is used again once its transaction is known to be on the
//!    disk; in writeback mode data is used again at once.
//! 5. Metadata goes to its place in any order and at any time, as the newest
//!    finished transaction has it, unless one that is not finished has it too.
//! 6. The tail moves at any time, behind the transactions whose blocks are in their places.
//! 7. Freed metadata is revoked, but not under `data=journal`.
//! 8. The pointer to a reserved block changes once what was written there is on the disk, in the transaction that runs
//!    then; or, as an option has it, when that is sent, and then it is as in 2. Under `data=journal` one
//!    transaction logs both.

use crate::machine::content::Tag;
use crate::rules::differential::place;
use crate::rules::rule_e::guest::{Action, Guest, Mark, Owner, Reserving, Stay, TOUCHED};
use crate::rules::rule_e::toy::{Bytes, MAP, TABLE, Toy};
use crate::rules::rule_e::wide::{narrowed, tagged, widened};
use crate::rules::rule_j::log::{Area, At, Logged, Tail, Tid};
use quietus_core::base::units::Extent;
use quietus_detect::formats::format::Block;
use std::collections::{BTreeMap, BTreeSet};

/// The tag of data that is `page`: its stay, and how often it was touched.
pub fn tag(page: &Bytes) -> Option<Tag> {
    Mark::of(page).map(|it| Tag(u32::from(it.stay.0) << 8 | u32::from(page[TOUCHED])))
}

/// Data that is journaled, and data that is ordered: ext3's and ext4's `data=`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Mode {
    /// Data goes through the journal.
    #[default]
    Journal,
    /// Data is written before the transaction that allocated it is committed.
    Ordered,
    /// Data is written at any time.
    Writeback,
}

/// A write on its way to the disk.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Sent {
    pub bytes: Vec<u8>,
    pub what: What,
}

/// Writes on their way.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum What {
    /// Data, to its place.
    Data,
    /// A block that this transaction logged, to its place.
    Checkpoint(Tid),
    /// A block of the log of this transaction.
    Log(Tid),
    /// The journal's superblock.
    Tail(Tail),
}

impl What {
    pub fn is_log(self) -> bool {
        matches!(self, Self::Log(_))
    }
}

/// The transaction that collects changes.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Running {
    tid: Tid,
    /// Blocks that the transaction will log.
    logged: BTreeSet<Block>,
    /// Blocks that have to be written before it is committed.
    ordered: BTreeSet<Block>,
    revoked: BTreeSet<Block>,
    /// Freed: no older copy goes to its place any more, once this is on the disk.
    forgotten: BTreeSet<Block>,
}

/// The transaction that is being written to the log.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Committing {
    logged: Logged,
    start: At,
    len: u32,
    ordered: BTreeSet<Block>,
    forgotten: BTreeSet<Block>,
    commit: (Block, Vec<u8>),
    is_sent: bool,
}

/// A transaction that is finished, and in the log still.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Kept {
    tid: Tid,
    start: At,
    len: u32,
    /// Contents that have not gone to their places.
    contents: BTreeMap<Block, Vec<u8>>,
}

/// The memory of a guest that has mounted the file system.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Journaled {
    toy: Toy,
    area: Area,
    mode: Mode,
    /// The commit block does not wait for the others.
    is_async: bool,
    pub files: Guest,
    running: Running,
    committing: Option<Committing>,
    kept: Vec<Kept>,
    /// As the disk has it, as far as the guest knows.
    tail: Tail,
    head: At,
    /// The disk says that the log is empty: that has to change first.
    is_empty: bool,
    /// Freed, and not to be used before this transaction is on the disk.
    busy: BTreeMap<Block, Tid>,
    pub wire: BTreeMap<Block, Sent>,
    /// Reserved blocks that were written, whose pointers are to say so once the log has room.
    complete: BTreeSet<Block>,
    /// First byte of the file system, on a disk on which data is tagged.
    start_bytes: Option<u64>,
}

/// The start that follows from a recovery, or from a look at an empty log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Start {
    pub tid: Tid,
    /// The disk says that the log is empty.
    pub is_empty: bool,
}

impl Journaled {
    /// Mounts what lies on `disk`, which needs no recovery (any more).
    pub fn mount(
        (toy, area, mode, is_async): (Toy, Area, Mode, bool),
        disk: &[&[u8]],
        next_generation: u8,
        start: Start,
    ) -> Self {
        let pages: Vec<_> = disk.iter().map(|it| narrowed(it)).collect();
        Self {
            toy,
            area,
            mode,
            is_async,
            files: Guest::mount(toy, &pages, next_generation),
            running: Running { tid: start.tid, ..Running::default() },
            tail: Tail { start: 1, tid: start.tid },
            head: 1,
            is_empty: start.is_empty,
            ..Self::default()
        }
    }

    /// The same guest above a disk that tells content by its tag, with its file system from there on.
    pub fn lies_at(self, start_bytes: u64) -> Self {
        Self { start_bytes: Some(start_bytes), ..self }
    }

    /// The same guest, with space that it may reserve.
    pub fn reserving(self, reserving: Option<Reserving>) -> Self {
        Self { files: self.files.reserving(reserving), ..self }
    }

    /// Blocks that may be allocated.
    pub fn free(&self) -> Vec<Block> {
        let mut free = self.files.free();
        free.retain(|it| !self.busy.contains_key(it) && !self.wire.contains_key(it));
        free
    }

    /// Data that may be written to its place.
    pub fn dirty(&self) -> Vec<Block> {
        self.files.dirty.iter().copied().filter(|it| !self.wire.contains_key(it)).collect()
    }

    /// Whether the log has room for the running transaction and `more` contents.
    fn has_room(&self, more: usize) -> bool {
        let contents = self.running.logged.len() + more;
        // The most that a transaction with this many contents takes.
        let len = (contents + contents.div_ceil(3) + 2) as u32;
        len + self.area.between(self.tail.start, self.head) < self.area.len - 1
    }

    /// Does `action`, if it can be done; returns what was freed. What is on its way to
    /// the blocks that it frees has arrived.
    pub fn does(&mut self, action: Action, begin: impl FnOnce(Block, Owner) -> Stay) -> Vec<Block> {
        // The log has room for what the transaction becomes, whatever else happens.
        let is_possible = self.has_room(3) && action.allocates().is_none_or(|it| self.free().contains(&it));
        if !is_possible {
            return Vec::new();
        }
        let pointers = self.files.pointers();
        let freed = self.files.does(action, begin);
        freed.iter().for_each(|it| self.freed(*it, pointers.contains(it)));
        self.files.logged();
        self.join(action.allocates());
        freed
    }

    fn freed(&mut self, block: Block, is_metadata: bool) {
        self.complete.remove(&block);
        self.running.logged.remove(&block);
        self.running.ordered.remove(&block);
        if let Some(committing) = &mut self.committing {
            committing.ordered.remove(&block);
        }
        if is_metadata || self.mode == Mode::Journal {
            self.running.forgotten.insert(block);
        }
        if is_metadata && self.mode != Mode::Journal {
            self.running.revoked.insert(block);
        }
        if !self.files.has(block) && (is_metadata || self.mode != Mode::Writeback) {
            self.busy.insert(block, self.running.tid);
        }
    }

    /// Lets blocks that have changed in memory join the running transaction.
    fn join(&mut self, allocated: Option<Block>) {
        let dirty: Vec<_> = self.files.dirty.iter().copied().collect();
        for block in dirty {
            if self.is_metadata(block) || self.mode == Mode::Journal {
                self.running.logged.insert(block);
                self.running.revoked.remove(&block);
                self.running.forgotten.remove(&block);
                self.files.write_back(block);
            } else if self.mode == Mode::Ordered && allocated == Some(block) {
                self.running.ordered.insert(block);
            }
        }
    }

    pub fn is_metadata(&self, block: Block) -> bool {
        block == MAP || block == TABLE || self.files.pointers().contains(&block)
    }

    fn content(&mut self, block: Block) -> Vec<u8> {
        let mut page = self.files.write_back(block);
        if block == MAP {
            // All of these are allocated; and the log has to escape them.
            page[..4].copy_from_slice(&crate::rules::rule_j::log::MAGIC);
        }
        let Some(start_bytes) = self.start_bytes else { return widened(&page, self.area.block_bytes) };
        let there = place(block, self.area.block_bytes);
        tagged(Extent::new(start_bytes + there.start.0, there.len), &page, tag(&page))
    }

    /// Sends a block of data to its place.
    pub fn write_data(&mut self, block: Block) {
        let waits = self.files.reserves() && !self.can_convert();
        if waits || !self.dirty().contains(&block) {
            return;
        }
        if self.files.sent(block) {
            if self.mode == Mode::Ordered {
                self.running.ordered.insert(block);
            }
            self.join(None);
        }
        let bytes = self.content(block);
        self.wire.insert(block, Sent { bytes, what: What::Data });
    }

    pub fn can_commit(&self) -> bool {
        let is_wanted = self.committing.is_none() && !self.running.logged.is_empty();
        is_wanted && (self.is_empty || self.has_room(0))
    }

    /// Begins to commit the running transaction, and says which; or says first
    /// that the log is not empty any more.
    pub fn commit(&mut self) -> Option<Tid> {
        if !self.can_commit() {
            return None;
        }
        if self.is_empty {
            self.send_tail(Tail { start: self.head, tid: self.running.tid });
            return None;
        }
        let next = Running { tid: self.running.tid + 1, ..Running::default() };
        let running = std::mem::replace(&mut self.running, next);
        let contents = running.logged.iter().map(|it| (*it, self.content(*it))).collect();
        let revoked = running.revoked.into_iter().collect();
        self.log(Logged { tid: running.tid, contents, revoked }, running.ordered, running.forgotten);
        Some(running.tid)
    }

    fn log(&mut self, logged: Logged, ordered: BTreeSet<Block>, forgotten: BTreeSet<Block>) {
        let mut blocks = self.area.encode(&logged, self.head);
        let (start, len) = (self.head, blocks.len() as u32);
        self.head = self.area.ahead(self.head, len);
        let (at, bytes) = blocks.pop().expect("there is a commit block");
        let commit = (self.area.block(at), bytes);
        ordered.iter().for_each(|it| self.write_data(*it));
        for (at, bytes) in blocks {
            self.wire.insert(self.area.block(at), Sent { bytes, what: What::Log(logged.tid) });
        }
        let committing = Committing { logged, start, len, ordered, forgotten, commit, is_sent: false };
        self.committing = Some(committing);
    }

    /// Whether the commit block may leave.
    pub fn can_send_commit(&self) -> bool {
        let Some(it) = self.committing.as_ref().filter(|it| !it.is_sent) else { return false };
        let is_logged = self.is_async || !self.is_logging();
        is_logged && !it.ordered.iter().any(|it| self.wire.contains_key(it))
    }

    fn is_logging(&self) -> bool {
        self.wire.values().any(|it| it.what.is_log())
    }

    pub fn send_commit(&mut self) {
        if self.can_send_commit()
            && let Some(it) = &mut self.committing
        {
            it.is_sent = true;
            let what = What::Log(it.logged.tid);
            self.wire.insert(it.commit.0, Sent { bytes: it.commit.1.clone(), what });
        }
    }

    /// Whether a transaction is on its way to the disk.
    pub fn is_committing(&self) -> bool {
        self.committing.is_some() && self.finished().is_none()
    }

    /// The transaction that is on the disk, though the guest may not have been
    /// told.
    pub fn finished(&self) -> Option<Tid> {
        let committing = self.committing.as_ref().filter(|it| it.is_sent);
        committing.filter(|_| !self.is_logging()).map(|it| it.logged.tid)
    }

    /// Where the commit block of what commits lies.
    pub fn commit_block(&self) -> Option<Block> {
        self.committing.as_ref().map(|it| it.commit.0)
    }

    /// Whether what commits has a map in it.
    pub fn commits_map(&self) -> bool {
        self.committing.as_ref().is_some_and(|it| it.logged.contents.contains_key(&MAP))
    }

    /// The commit block, if it may be on its way a second time.
    pub fn sent_commit(&self) -> Option<(Block, Vec<u8>)> {
        self.finished()?;
        self.committing.as_ref().map(|it| it.commit.clone())
    }

    /// The guest is told that the commit is on the disk.
    pub fn acknowledge(&mut self) {
        if self.finished().is_none() {
            return;
        }
        let Some(done) = self.committing.take() else { return };
        let tid = done.logged.tid;
        self.busy.retain(|_, freed| *freed > tid);
        for kept in &mut self.kept {
            kept.contents.retain(|it, _| !done.forgotten.contains(it));
        }
        self.kept.push(Kept { tid, start: done.start, len: done.len, contents: done.logged.contents });
    }

    /// Metadata that may go to its place.
    pub fn checkpointable(&self) -> BTreeSet<Block> {
        let mut blocks: BTreeSet<_> = self.kept.iter().flat_map(|it| it.contents.keys().copied()).collect();
        blocks.retain(|it| {
            let committing = self.committing.as_ref().is_some_and(|tx| tx.logged.contents.contains_key(it));
            !committing && !self.running.logged.contains(it) && !self.wire.contains_key(it)
        });
        blocks
    }

    /// Sends the newest finished copy of `block` to its place.
    pub fn checkpoint(&mut self, block: Block) {
        if !self.checkpointable().contains(&block) {
            return;
        }
        let newest = self.kept.iter().rev().find_map(|it| Some((it.tid, it.contents.get(&block)?.clone())));
        if let Some((tid, bytes)) = newest {
            self.wire.insert(block, Sent { bytes, what: What::Checkpoint(tid) });
        }
    }

    /// Where the tail may move.
    pub fn next_tail(&self) -> Tail {
        let kept = self.kept.iter().find(|it| !it.contents.is_empty()).map(|it| (it.start, it.tid));
        let committing = self.committing.as_ref().map(|it| (it.start, it.logged.tid));
        let (start, tid) = kept.or(committing).unwrap_or((self.head, self.running.tid));
        Tail { start, tid }
    }

    pub fn can_move_tail(&self) -> bool {
        !self.is_empty && self.next_tail() != self.tail && !self.wire.contains_key(&self.area.block(0))
    }

    pub fn move_tail(&mut self) {
        if self.can_move_tail() {
            self.send_tail(self.next_tail());
        }
    }

    /// Everything is in its place: the log is empty.
    pub fn empty(&mut self) {
        if !self.is_empty {
            // A tail that has not left yet is not sent any more.
            self.wire.remove(&self.area.block(0));
            self.send_tail(Tail { start: 0, tid: self.running.tid });
        }
    }

    /// Sends the journal's superblock that says `tail`.
    pub fn send_tail(&mut self, tail: Tail) {
        let bytes = self.area.superblock(tail);
        self.wire.entry(self.area.block(0)).or_insert(Sent { bytes, what: What::Tail(tail) });
    }

    /// Whether all that the guest knows is in the log.
    pub fn is_committed(&self) -> bool {
        let has_all = self.complete.is_empty() && self.files.dirty.is_empty();
        self.running.logged.is_empty() && self.committing.is_none() && has_all
    }

    /// Whether all that the guest knows is in its place.
    pub fn is_settled(&self) -> bool {
        let is_in_place = self.kept.iter().all(|it| it.contents.is_empty());
        self.is_committed() && self.wire.is_empty() && is_in_place
    }

    /// Notes that the write on its way to `block` has arrived there.
    pub fn landed(&mut self, block: Block) -> Option<Sent> {
        let sent = self.wire.remove(&block)?;
        match sent.what {
            What::Checkpoint(tid) => {
                for kept in self.kept.iter_mut().filter(|it| it.tid <= tid) {
                    kept.contents.remove(&block);
                }
            }
            What::Tail(tail) => {
                self.is_empty = tail.start == 0;
                if !self.is_empty {
                    self.tail = tail;
                }
                self.kept.retain(|it| it.tid >= tail.tid);
            }
            What::Data => drop(self.complete.insert(block)),
            What::Log(_) => {}
        }
        if self.can_convert() {
            for block in std::mem::take(&mut self.complete) {
                self.files.landed(block);
                self.join(None);
            }
        }
        Some(sent)
    }

    /// Whether pointers may change that say that nothing was written: an inode, and a block of them.
    fn can_convert(&self) -> bool {
        self.is_empty || self.has_room(2)
    }

    /// The file system's superblock that is to be written.
    pub fn superblock(&self, is_clean: bool) -> Vec<u8> {
        widened(&self.files.superblock(is_clean), self.area.block_bytes)
    }
}
