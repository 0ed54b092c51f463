//! Blocks that committed inodes name as unwritten: their owner has no content there, and what lies there is dead
//! (`docs/decisions/0008-rule-j.md`, rule 10).
//!
//! 1. A block is *empty* only if nothing was written to it since a commit that is the first to name it as
//!    unwritten, or since nothing was mounted. A writer below the file system, such as Linux with a swap file, writes
//!    after that.
//! 2. An owner writes first and then commits that it did. So an empty block is condemned by a commit that began
//!    when the block had not been written for the settling time, or at rest.

use crate::formats::format::Block;
use crate::input::sets::set_of;
use crate::mutant::{self, Mutant};
use crate::rules::options::Grade;
use crate::rules::rule_j::RuleJ;
use crate::rules::rule_j::journal::commits::Settled;
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, VecDeque};
use std::ops::{Range, RangeInclusive};

/// Most blocks of inodes with unwritten extents that are followed.
const TABLES_MAX: usize = 1 << 16;
/// Commits received after which the running transaction of now is on the disk.
const COMMITS: u64 = 2;

#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// What each block of inodes names as unwritten, as of the last commit that settled.
    tables: BTreeMap<Block, Vec<Range<Block>>>,
    /// Blocks of inodes of which a copy has been seen.
    seen: RoaringBitmap,
    /// Blocks written since nothing was mounted, or perhaps written.
    touched: RoaringBitmap,
    pub(super) empty: RoaringBitmap,
    /// Empty blocks not written for the settling time, and the commit that condemns them.
    calm: VecDeque<(u64, RoaringBitmap)>,
    /// Condemned blocks that a map shows allocated.
    hollow: RoaringBitmap,
    /// The file system came to rest, and commits may have yet to settle.
    rests: bool,
}

impl Unwritten {
    /// `touched` were, perhaps, written since nothing was mounted.
    pub(super) fn new(touched: RoaringBitmap) -> Self {
        Self { touched, ..Self::default() }
    }

    pub(super) fn written(&mut self, run: RangeInclusive<Block>) {
        self.touched.insert_range(run.clone());
        self.filled(run);
    }

    /// The blocks of `run` hold something new, or nothing.
    pub(super) fn filled(&mut self, run: RangeInclusive<Block>) {
        for set in [&mut self.empty, &mut self.hollow] {
            if !set.is_empty() && !mutant::is(Mutant::UnwrittenStaysEmptyJ) {
                set.remove_range(run.clone());
            }
        }
    }

    /// Drops what is known of inodes: commits may be missed, or a tool writes.
    pub(super) fn forget(&mut self) {
        self.tables.clear();
        self.seen.clear();
        self.empty.clear();
        self.calm.clear();
        self.rests = false;
    }

    /// Drops what is known of the block of inodes `table`, which a tool writes.
    pub(super) fn forget_table(&mut self, table: Block) {
        self.seen.remove(table);
        self.tables.remove(&table);
    }

    /// Maps show `blocks` free, or a tool shows them allocated.
    pub(super) fn shown(&mut self, blocks: &RoaringBitmap) {
        self.hollow -= blocks;
    }

    /// Nothing is mounted; `in_order` says that everything has been written.
    pub(super) fn rests(&mut self, in_order: bool) {
        if in_order {
            self.touched.clear();
            self.rests = true;
        } else {
            self.forget();
        }
    }

    /// Takes what `table` names as unwritten from now on. Returns what it names so no longer, and what it is the
    /// first to name so; of both, nothing that may have been written `after` the commit.
    fn seen(
        &mut self,
        table: Block,
        named: Vec<Range<Block>>,
        after: &RoaringBitmap,
    ) -> (RoaringBitmap, RoaringBitmap) {
        let new = set_of(named.iter().cloned());
        let old = set_of(self.tables.get(&table).into_iter().flatten().cloned());
        let is_first = self.seen.insert(table) && !mutant::is(Mutant::UnwrittenAtFirstSightJ);
        if named.is_empty() {
            self.tables.remove(&table);
        } else {
            self.tables.insert(table, named);
        }
        let gained = &new - &old;
        (old - new, if is_first { gained - &self.touched } else { gained - after })
    }

    /// Blocks that inodes name as unwritten, but for those that were written since the file system was last at rest.
    fn at_rest(&self) -> RoaringBitmap {
        set_of(self.tables.values().flatten().cloned()) - &self.touched
    }

    fn gained(&mut self, gained: &RoaringBitmap) {
        self.calm.iter_mut().for_each(|(_, calm)| *calm -= gained);
        self.empty |= gained;
    }

    /// The blocks that the commit `number` condemns.
    fn due(&mut self, number: u64) -> RoaringBitmap {
        let mut due = RoaringBitmap::new();
        while self.calm.front().is_some_and(|(at, _)| *at <= number) {
            due |= self.calm.pop_front().unwrap_or_default().1;
        }
        due & &self.empty
    }
}

impl RuleJ {
    fn heeds_unwritten(&self) -> bool {
        let counts = self.options.grade != Grade::Block && !mutant::is(Mutant::UnwrittenLives);
        counts && !self.attached.is_cached() && self.format.has_unwritten()
    }

    /// Takes what a commit says of unwritten blocks.
    pub(super) fn unwritten_settles(&mut self, commit: &mut Settled) {
        if !self.heeds_unwritten() {
            return;
        }
        let (mut lost, mut gained) = (RoaringBitmap::new(), RoaringBitmap::new());
        for (table, named) in std::mem::take(&mut commit.unwritten) {
            let (less, more) = self.unwritten.seen(table, named, &commit.after);
            lost |= less;
            gained |= more;
        }
        if self.unwritten.tables.len() > TABLES_MAX {
            return self.unwritten.forget();
        }
        self.unwritten.empty -= &lost;
        self.written_after_all(&lost);
        self.unwritten.gained(&(gained - &self.journal));
        let due = self.unwritten.due(commit.number);
        self.condemn_unwritten(due);
        self.calms();
    }

    /// An owner says that it has content in `blocks`, or is gone.
    fn written_after_all(&mut self, blocks: &RoaringBitmap) {
        let back = blocks & &self.unwritten.hollow;
        if !back.is_empty() {
            self.unwritten.hollow -= &back;
            self.revoke(&back);
        }
    }

    /// Empty blocks that were not written for the settling time wait for the commits that may be under way.
    fn calms(&mut self) {
        if self.unwritten.empty.is_empty() {
            return;
        }
        let lately = self.lately.within(&self.unwritten.empty);
        let queued = self.unwritten.calm.iter().fold(lately, |all, (_, calm)| all | calm);
        let calm = &self.unwritten.empty - queued;
        if !calm.is_empty() {
            let margin = if mutant::is(Mutant::UnwrittenAtOnceJ) { 0 } else { COMMITS };
            self.unwritten.calm.push_back((self.commits.received + margin, calm));
        }
    }

    /// Condemns what is empty, if the file system rests and every commit has settled.
    pub(super) fn unwritten_at_rest(&mut self) {
        if self.unwritten.rests && self.commits.are_settled() {
            self.unwritten.rests = false;
            self.unwritten.calm.clear();
            let mut empty = std::mem::take(&mut self.unwritten.empty);
            empty |= self.unwritten.at_rest() - &self.journal;
            self.condemn_unwritten(empty);
        }
    }

    fn condemn_unwritten(&mut self, blocks: RoaringBitmap) {
        self.unwritten.empty -= &blocks;
        let dead = blocks & &self.live;
        if !dead.is_empty() && self.heeds_unwritten() {
            self.figures.unwritten += dead.len();
            self.unwritten.hollow |= &dead;
            self.condemn(dead);
        }
    }
}
