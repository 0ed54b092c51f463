//! The log of a journal: which of its blocks have arrived, and which count.
//!
//! 1. A transaction is received once: when it was followed from its beginning to its commit block,
//!    and each of its blocks was written since it was last part of one.
//! 2. Blocks from the tail to the beginning of the next transaction, and blocks written since, are
//!    never called dead.

use crate::formats::jbd2::Tid;
use crate::formats::jbd2::record::{Record, RecordKind, Tag};
use crate::formats::jbd2::superblock::Superblock;
use crate::input::sets::set_of;
use crate::mutant::{self, Mutant};
use crate::rules::rule_j::journal::parts::Parts;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::ops::Range;

/// Most blocks of the log's own in one transaction.
const RECORDS_MAX: usize = 1 << 16;
/// Most copies in one transaction.
const MAPS_MAX: usize = 1 << 18;
/// Most bytes of copies kept until their commit block arrives; further ones are read.
const COPIES_BYTES_MAX: usize = 16 << 20;

#[derive(Debug)]
pub(in super::super) struct Log {
    pub(in super::super) superblock: Superblock,
    position: Position,
    /// Blocks written, and not part of a transaction received since.
    fresh: RoaringBitmap,
    /// Blocks written in parts and not read since: they may belong to the next transaction.
    torn: RoaringBitmap,
    parts: Parts,
    /// Blocks whose content before the attach may show how far the guest is, and is yet to be read.
    unseen: RoaringBitmap,
    /// The last written block of the journal.
    newest: u32,
    /// Blocks of the next transaction that are the log's own.
    records: BTreeMap<u32, Held>,
    maps_held: usize,
    copies_bytes: usize,
}

/// The beginning of the next transaction.
#[derive(Debug)]
enum Position {
    /// Not known; its number is at least this.
    Unknown(Tid),
    /// Nothing in the log counts; its number is at least this.
    Empty(Tid),
    Known(Course),
}

/// The next transaction, as far as it could be followed.
#[derive(Debug)]
struct Course {
    tid: Tid,
    begin: u32,
    at: u32,
    /// Number of its blocks before `at`.
    len: u32,
    /// Wanted copies, by their block in the journal.
    maps: BTreeMap<u32, Copied>,
}

/// A block of the log's own.
#[derive(Debug)]
enum Held {
    /// The number of copies that follow, and the tags of those that are wanted by their distance from the
    /// descriptor.
    Descriptor(u32, Vec<(u32, Tag, Want)>),
    Revoke,
    Commit,
}

/// How much of a copy is wanted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) enum Want {
    /// Its place: the content may be wanted later.
    Place,
    /// The content.
    Content,
}

/// A copy that is wanted.
#[derive(Debug)]
pub(in super::super) struct Copied {
    pub(in super::super) tag: Tag,
    pub(in super::super) want: Want,
    /// Content of the copy, if it was observed.
    pub(in super::super) content: Option<Vec<u8>>,
}

/// A transaction that counts from now on.
#[derive(Debug)]
pub(in super::super) struct Received {
    pub(in super::super) tid: Tid,
    /// The wanted copies in it, by their block in the journal.
    pub(in super::super) maps: BTreeMap<u32, Copied>,
}

/// The consequences of a change of the log.
#[derive(Debug)]
pub(in super::super) enum News {
    None,
    Received(Received),
    /// Blocks of the journal that no longer count.
    Dead(RoaringBitmap),
    /// The log begins anew, beyond the expected place: nothing in it counts, and transactions that
    /// were not received never will be.
    Restarted(RoaringBitmap),
    /// As `Restarted`, and its numbers were used before.
    Renumbered(RoaringBitmap),
    /// The log contradicts its known state.
    Lost,
}

impl Log {
    /// The log of a superblock seen for the first time, and the blocks in it that are dead.
    pub(in super::super) fn new(superblock: Superblock) -> (Self, News) {
        let next = superblock.s_sequence;
        let mut log = Self {
            superblock: superblock.clone(),
            position: Position::Unknown(next),
            fresh: RoaringBitmap::new(),
            torn: RoaringBitmap::new(),
            parts: Parts::default(),
            unseen: RoaringBitmap::new(),
            newest: 0,
            records: BTreeMap::new(),
            maps_held: 0,
            copies_bytes: 0,
        };
        let news = log.tail_moved(superblock, false);
        (log, news)
    }

    /// Whether no transaction in the log counts.
    pub(in super::super) fn is_empty(&self) -> bool {
        matches!(self.position, Position::Empty(_))
    }

    /// Whether the next transaction will be followed.
    pub(in super::super) fn is_known(&self) -> bool {
        !matches!(self.position, Position::Unknown(_))
    }

    /// Whether blocks were written in parts, and are yet to be read.
    pub(in super::super) fn is_torn(&self) -> bool {
        !self.torn.is_empty()
    }

    /// Whether something of the next transaction has arrived that the guest writes once no process changes it any more.
    pub(in super::super) fn has_begun(&self) -> bool {
        let is_held = matches!(self.position, Position::Known(_)) && !self.records.is_empty();
        is_held || mutant::is(Mutant::EarlierIsEarly)
    }

    /// Whether the log is between two transactions, by everything that has arrived.
    pub(in super::super) fn is_between(&self) -> bool {
        self.fresh.is_empty() && self.torn.is_empty() && self.records.is_empty()
    }

    /// The lowest possible number of the next transaction, and its first block, if known.
    pub(in super::super) fn next(&self) -> (Tid, Option<u32>) {
        match &self.position {
            Position::Unknown(tid) | Position::Empty(tid) => (*tid, None),
            Position::Known(course) => (course.tid, Some(course.begin)),
        }
    }

    /// Continues from the state of another log's [`Log::next`].
    pub(in super::super) fn resume(&mut self, tid: Tid, begin: u32) -> bool {
        let fits = self.superblock.log.contains(&begin) && self.superblock.s_start.is_some();
        if fits {
            self.position = Position::Known(Course::new(tid, begin));
        }
        fits
    }

    /// Wants to know how far the guest is, before a commit block is believed. Returns the blocks to
    /// be read.
    pub(in super::super) fn look(&mut self) -> RoaringBitmap {
        if !self.is_known() {
            self.unseen = self.everything();
        }
        self.unseen.clone()
    }

    /// Takes the content `block` of `index` from before the attach.
    fn looked(&mut self, index: u32, block: &[u8]) {
        if !self.unseen.remove(index) {
            return;
        }
        let record = self.superblock.records.read(block);
        if let (Position::Unknown(least), Some(Record { tid, .. })) = (&self.position, record)
            && !tid.is_before(*least)
        {
            self.passed_by(tid);
        }
    }

    /// Notes a write of `bytes` of the block `index`, of `block_bytes`. Returns whether the block
    /// is complete and must be read: it may belong to the next transaction.
    pub(in super::super) fn part_written(&mut self, index: u32, bytes: Range<u64>, block_bytes: u64) -> bool {
        self.newest = index;
        if !self.superblock.log.contains(&index) {
            return false;
        }
        self.forget(index);
        self.torn.insert(index);
        self.parts.arrived(index, bytes.start, bytes.end, block_bytes)
    }

    /// Notes that `index` holds no content.
    pub(in super::super) fn gone(&mut self, index: u32) {
        self.torn.remove(index);
        self.parts.forget(index);
        self.forget(index);
    }

    /// Drops the knowledge of `index`, whose content has changed.
    fn forget(&mut self, index: u32) {
        self.fresh.remove(index);
        self.unseen.remove(index);
        if let Some(held) = self.records.remove(&index) {
            if let Held::Descriptor(_, maps) = held {
                self.maps_held -= maps.len();
            }
            self.follow_anew();
        }
        if let Some(content) = self.copy_at(index).and_then(|copy| copy.content.take()) {
            self.copies_bytes -= content.len();
        }
    }

    fn copy_at(&mut self, index: u32) -> Option<&mut Copied> {
        match &mut self.position {
            Position::Known(course) => course.maps.get_mut(&index),
            _ => None,
        }
    }

    /// Takes the content `block` of `index`, which just arrived, or was `read` after partial
    /// writes. `wants` tells what is wanted of a copy of a block.
    pub(in super::super) fn written(
        &mut self,
        index: u32,
        block: &[u8],
        read: bool,
        wants: &dyn Fn(u64) -> Option<Want>,
    ) -> News {
        let late = self.is_late(index, read);
        if read && !self.torn.contains(index) {
            self.looked(index, block);
            return News::None;
        }
        if !self.superblock.log.contains(&index) {
            return News::None;
        }
        self.gone(index);
        self.fresh.insert(index);
        self.keep_copy(index, block);
        match self.superblock.records.read(block) {
            Some(record) => self.record_written(index, record, late, wants),
            None => self.follow(late),
        }
    }

    /// Whether another block was written after `index`, which was `read` or is written now.
    fn is_late(&mut self, index: u32, read: bool) -> bool {
        if !read {
            self.newest = index;
        }
        self.newest != index && !mutant::is(Mutant::OvertakenIsNewest)
    }

    fn keep_copy(&mut self, index: u32, block: &[u8]) {
        let has_room = self.copies_bytes + block.len() <= COPIES_BYTES_MAX;
        if let Some(copy) = self.copy_at(index).filter(|copy| has_room && copy.want == Want::Content) {
            copy.content = Some(block.to_vec());
            self.copies_bytes += block.len();
        }
    }

    fn record_written(
        &mut self,
        index: u32,
        record: Record,
        late: bool,
        wants: &dyn Fn(u64) -> Option<Want>,
    ) -> News {
        match &self.position {
            Position::Known(course) if course.tid == record.tid => {
                self.hold(index, record.kind, wants);
                let too_many = self.records.len() > RECORDS_MAX || self.maps_held > MAPS_MAX;
                if too_many { News::Lost } else { self.follow(late) }
            }
            Position::Known(course) if course.tid.is_before(record.tid) => {
                self.passed_by(record.tid);
                News::Lost
            }
            // A received block, written once more.
            Position::Known(_) => {
                self.fresh.remove(index);
                News::None
            }
            Position::Empty(least) if !record.tid.is_before(*least) => {
                self.passed_by(record.tid);
                News::Lost
            }
            Position::Unknown(least) if !record.tid.is_before(*least) => {
                self.passed_by(record.tid);
                // A late commit block says nothing: later blocks may have arrived, and would be
                // taken for older.
                if record.kind == RecordKind::Commit && !late && self.unseen.is_empty() {
                    let begin = advanced(&self.superblock.log, index, 1);
                    self.begin(record.tid.next(), begin, late);
                }
                News::None
            }
            _ => self.follow(late),
        }
    }

    /// Loses the position to a header of transaction `tid`. No older transaction counts from now
    /// on: a cache may send its blocks again at any time.
    fn passed_by(&mut self, tid: Tid) {
        if !mutant::is(Mutant::LossForgetsNumber) {
            self.position = Position::Unknown(tid);
        }
    }

    fn hold(&mut self, index: u32, kind: RecordKind, wants: &dyn Fn(u64) -> Option<Want>) {
        let held = match kind {
            RecordKind::Revoke => Held::Revoke,
            RecordKind::Commit => Held::Commit,
            RecordKind::Descriptor(tags) => {
                let copies = tags.len() as u32;
                let wanted = (1..).zip(tags).filter_map(|(n, tag)| Some((n, tag, wants(tag.block)?)));
                Held::Descriptor(copies, wanted.collect())
            }
        };
        if let Held::Descriptor(_, maps) = &held {
            self.maps_held += maps.len();
        }
        self.records.insert(index, held);
    }

    /// Sets the beginning of the next transaction. Unless the news is `late`, none of it has
    /// arrived: the guest did not know that it may begin.
    fn begin(&mut self, tid: Tid, begin: u32, late: bool) {
        self.position = Position::Known(Course::new(tid, begin));
        self.forget_records();
        if !late {
            self.all_is_old();
        }
    }

    /// Counts everything that has arrived as older than the next transaction.
    fn all_is_old(&mut self) {
        self.fresh.clear();
        self.torn.clear();
        self.parts.clear();
    }

    fn forget_records(&mut self) {
        self.records.clear();
        (self.maps_held, self.copies_bytes) = (0, 0);
    }

    /// Restarts the next transaction, of which a block changed.
    fn follow_anew(&mut self) {
        if let Position::Known(course) = &mut self.position {
            *course = Course::new(course.tid, course.begin);
            self.copies_bytes = 0;
        }
    }

    /// Follows the next transaction as far as it has arrived.
    fn follow(&mut self, late: bool) -> News {
        let log = self.superblock.log.clone();
        let Position::Known(course) = &mut self.position else { return News::None };
        while let Some(held) = self.records.get(&course.at) {
            let blocks = match held {
                Held::Commit => return self.end(late),
                Held::Revoke => 1,
                Held::Descriptor(copies, maps) => {
                    course.expect(maps, &log);
                    copies.saturating_add(1)
                }
            };
            course.len = course.len.saturating_add(blocks);
            if course.len + 1 >= log.end - log.start {
                return News::Lost;
            }
            course.at = advanced(&log, course.at, blocks);
        }
        News::None
    }

    /// Ends the transaction at its commit block: it is received, if all of it has arrived.
    fn end(&mut self, late: bool) -> News {
        let Position::Known(course) = &mut self.position else { return News::None };
        let next = advanced(&self.superblock.log, course.at, 1);
        let parts = ring(&self.superblock.log, course.begin, course.len + 1);
        let has_arrived = parts.iter().all(|part| self.fresh.contains_range(part.clone()));
        if !has_arrived && !mutant::is(Mutant::CommitBeforeItsBlocks) {
            return News::None;
        }
        let (tid, maps) = (course.tid, std::mem::take(&mut course.maps));
        parts.into_iter().for_each(|part| {
            self.fresh.remove_range(part);
        });
        self.begin(tid.next(), next, late);
        News::Received(Received { tid, maps })
    }

    /// Takes the journal's superblock, which was written, or `read` afterwards.
    pub(in super::super) fn tail_moved(&mut self, superblock: Superblock, read: bool) -> News {
        let late = self.is_late(0, read);
        let (tid, start) = (superblock.s_sequence, superblock.s_start);
        let is_same_log = superblock.log == self.superblock.log;
        self.superblock = superblock;
        let Some(start) = start else { return self.emptied(tid) };
        match &self.position {
            Position::Empty(least) if !tid.is_before(*least) => {
                self.begin(tid, start, late);
                News::None
            }
            // While a read is pending, the missing transactions may have been received.
            Position::Known(course) if course.tid.is_before(tid) && self.torn.is_empty() && !late => {
                self.begin(tid, start, late);
                News::Restarted(self.everything())
            }
            Position::Known(course) if is_same_log && course.has_tail(tid, start) => {
                News::Dead(self.before(start, course.begin))
            }
            Position::Unknown(least) if !tid.is_before(*least) => {
                self.position = Position::Unknown(tid);
                News::None
            }
            _ => News::Lost,
        }
    }

    /// Empties the log: nothing in it counts any more.
    fn emptied(&mut self, tid: Tid) -> News {
        let is_back = tid.is_before(self.next().0) && !mutant::is(Mutant::RenumberingIgnored);
        self.position = Position::Empty(tid);
        self.forget_records();
        self.all_is_old();
        let all = self.everything();
        if is_back { News::Renumbered(all) } else { News::Dead(all) }
    }

    fn everything(&self) -> RoaringBitmap {
        set_of([self.superblock.log.clone()])
    }

    /// The blocks that no longer count, if the log counts from `tail` up to `begin`.
    fn before(&self, tail: u32, begin: u32) -> RoaringBitmap {
        let log = &self.superblock.log;
        let mut dead = self.everything();
        if mutant::is(Mutant::ResidueBeyondTail) {
            return dead - &self.fresh;
        }
        let len = if begin >= tail { begin - tail } else { log.end - tail + (begin - log.start) };
        ring(log, tail, len).into_iter().for_each(|part| {
            dead.remove_range(part);
        });
        dead - &self.fresh - &self.torn
    }

    /// The blocks of the transactions before the next one, as if they did not
    /// count: a deliberate defect.
    pub(in super::super) fn all_before(&self) -> RoaringBitmap {
        self.next().1.map_or_else(RoaringBitmap::new, |begin| self.before(begin, begin))
    }

    /// Loses the place in the log, which has to be found anew.
    pub(in super::super) fn lose(&mut self) {
        let (next, _) = self.next();
        self.position = Position::Unknown(next);
        self.forget_records();
    }
}

impl Course {
    fn new(tid: Tid, begin: u32) -> Self {
        Self { tid, begin, at: begin, len: 0, maps: BTreeMap::new() }
    }

    /// Expects the wanted copies that a descriptor announces.
    fn expect(&mut self, maps: &[(u32, Tag, Want)], log: &Range<u32>) {
        for (behind, tag, want) in maps {
            let at = advanced(log, self.at, *behind);
            self.maps.insert(at, Copied { tag: *tag, want: *want, content: None });
        }
    }

    /// Whether the tail can be at `start`, as the beginning of transaction `tid`.
    fn has_tail(&self, tid: Tid, start: u32) -> bool {
        if start == self.begin { tid == self.tid } else { tid.is_before(self.tid) }
    }
}

/// The index `blocks` after `at`, round the end of `log`.
fn advanced(log: &Range<u32>, at: u32, blocks: u32) -> u32 {
    let len = u64::from(log.end - log.start);
    let offset = (u64::from(at - log.start) + u64::from(blocks)) % len;
    log.start + offset as u32
}

/// The `len` blocks from `from` on, round the end of `log`.
fn ring(log: &Range<u32>, from: u32, len: u32) -> [Range<u32>; 2] {
    let straight = len.min(log.end - from);
    [from..from + straight, log.start..log.start + (len - straight)]
}
