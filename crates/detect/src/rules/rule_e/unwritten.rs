//! Blocks that a pointer names as unwritten: their owner has no content there, and what lies there is dead
//! (`docs/decisions/0006-rule-e.md`, rule 10).
//!
//! 1. A block is *empty* only if nothing was written to it since a pointer came that names it as unwritten. A
//!    writer below the file system, such as Linux with a swap file, writes after that, and so is never taken for
//!    an owner that is gone.
//! 2. An owner's write may come before the pointer, which the owner changes only after the write. So an empty block
//!    is condemned once nothing stirred it for the settling time, or at rest.

use crate::formats::format::{Block, Kind};
use crate::input::sets::{runs, set_of};
use crate::mutant::{self, Mutant};
use crate::rules::options::Grade;
use crate::rules::rule_e::RuleE;
use crate::rules::rule_e::names::{Names, take_one};
use roaring::RoaringBitmap;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ops::RangeInclusive;

#[derive(Debug, Default)]
pub(super) struct Unwritten {
    /// Blocks that an observed pointer names as unwritten.
    pub(super) named: RoaringBitmap,
    /// Number of such pointers beyond the first, by block: a new owner's pointer may come before the old one's goes.
    pub(super) again: BTreeMap<Block, u32>,
    /// Blocks not written since a pointer came that names them as unwritten.
    pub(super) empty: RoaringBitmap,
    /// Empty blocks that nothing stirred for the settling time.
    calm: RoaringBitmap,
    /// Condemned blocks that a map shows allocated.
    pub(super) hollow: RoaringBitmap,
    /// Blocks written while known pointers had yet to be read: those may be older.
    meanwhile: RoaringBitmap,
    /// A pointer that is read counts like one that comes: all names were known once, or nothing is mounted.
    pub(super) reads_count: bool,
    /// Blocks written since the file system came to rest in order, until all names are known: nothing writes below
    /// what is not mounted.
    pub(super) rest: Option<RoaringBitmap>,
}

impl Unwritten {
    /// At an attach; `rests` says that everything is written, and was before the disk was opened.
    pub(super) fn new(rests: bool) -> Self {
        Self { reads_count: rests, rest: rests.then(RoaringBitmap::new), ..Self::default() }
    }

    /// After a clean stop. Empty blocks wait for the settling time once more.
    pub(super) fn restore([named, empty, hollow]: [RoaringBitmap; 3], again: BTreeMap<Block, u32>) -> Self {
        let calm = empty.clone();
        Self { named, again, empty, calm, hollow, reads_count: true, ..Self::default() }
    }

    /// The blocks of `run` hold something new, or nothing.
    pub(super) fn filled(&mut self, run: &RangeInclusive<Block>) {
        for set in [&mut self.empty, &mut self.calm, &mut self.hollow] {
            if !set.is_empty() && !mutant::is(Mutant::UnwrittenStaysEmpty) {
                set.remove_range(run.clone());
            }
        }
    }

    /// Below a cache nothing is condemned before the settling time has passed, and there is no rest.
    pub(super) fn distrust(&mut self) {
        self.empty |= std::mem::take(&mut self.hollow);
        self.rest = None;
    }

    /// A map or names may not be durable: what they showed counts no more.
    pub(super) fn refused(&mut self) {
        let (named, again) = (std::mem::take(&mut self.named), std::mem::take(&mut self.again));
        *self = Self { named, again, ..Self::default() };
    }

    /// The blocks whose names say that an owner has content there.
    pub(super) fn with_content<'a>(&self, names: &'a Names) -> Cow<'a, RoaringBitmap> {
        // The map of a file system that was not checked after a crash may be wrong, and the owner write to what
        // it shows free.
        let vacant = (&self.empty | &self.hollow) & &self.named;
        if vacant.is_empty() {
            return Cow::Borrowed(&names.referenced);
        }
        let is_enough = mutant::is(Mutant::UnwrittenIsEnough);
        let again = if is_enough { RoaringBitmap::new() } else { names.named_again_among(&vacant) };
        Cow::Owned(&names.referenced - (vacant - again))
    }

    fn name(&mut self, blocks: &RoaringBitmap) {
        for block in &self.named & blocks {
            *self.again.entry(block).or_default() += 1;
        }
        self.named |= blocks;
    }

    fn unname(&mut self, blocks: &RoaringBitmap) {
        let shared = self.again.keys().copied().filter(|it| blocks.contains(*it)).collect::<RoaringBitmap>();
        for block in &shared {
            take_one(&mut self.again, block);
        }
        self.named -= blocks - shared;
    }

    pub(super) fn forget(&mut self, blocks: &RoaringBitmap) {
        self.again.retain(|it, _| !blocks.contains(*it));
        for set in [&mut self.named, &mut self.empty, &mut self.calm, &mut self.hollow] {
            *set -= blocks;
        }
    }
}

impl RuleE {
    fn knows_all_names(&self) -> bool {
        self.survey.is_done() && self.names.are_known() && self.unknown.is_empty()
    }

    pub(super) fn heeds_unwritten(&self) -> bool {
        !self.format.has_external_journal() && !mutant::is(Mutant::UnwrittenLives)
    }

    /// Notes a write to `run`.
    pub(super) fn unwritten_filled(&mut self, run: &RangeInclusive<Block>) {
        self.unwritten.filled(run);
        if let Some(written) = &mut self.unwritten.rest {
            written.insert_range(run.clone());
        }
        if !self.knows_all_names() {
            self.unwritten.meanwhile.insert_range(run.clone());
        } else if !self.unwritten.meanwhile.is_empty() {
            self.unwritten.meanwhile.clear();
        }
    }

    /// Takes a block of names that goes from `old` to `new`, before its names are counted anew. Returns the
    /// blocks that it names as unwritten from now on.
    pub(super) fn unwritten_lost(
        &mut self,
        block: Block,
        kind: Kind,
        old: &[u8],
        new: &[u8],
    ) -> RoaringBitmap {
        let [old, new] = [old, new].map(|content| set_of(self.format.unwritten(block, kind, content)));
        let lost = &old - &new;
        if !lost.is_empty() {
            self.unwritten.unname(&lost);
            self.written_after_all(&lost);
            self.young_again(&lost);
        }
        new - old
    }

    /// An owner says that it has content in `blocks`, or is gone: none of them is dead before a map says so.
    fn written_after_all(&mut self, blocks: &RoaringBitmap) {
        let back = blocks & &self.unwritten.hollow;
        if back.is_empty() {
            return;
        }
        self.unwritten.hollow -= &back;
        let revoked = self.deaths.revoke(&back);
        self.live |= &revoked;
        if self.options.grade != Grade::Block {
            self.suspicious |= revoked;
        }
    }

    fn young_again(&mut self, blocks: &RoaringBitmap) {
        runs(blocks).for_each(|run| self.deaths.renamed(run, self.clock.now));
    }

    /// Takes `gained`, which a pointer names as unwritten; `came` says that the pointer came in a write.
    pub(super) fn unwritten_gained(&mut self, gained: &RoaringBitmap, came: bool) {
        if gained.is_empty() {
            return;
        }
        self.unwritten.name(gained);
        self.lately.extend(gained);
        self.unwritten.calm -= gained;
        if came || mutant::is(Mutant::UnwrittenAtFirstSight) {
            self.unwritten.empty |= gained;
        } else if self.unwritten.reads_count {
            self.unwritten.empty |= gained - &self.unwritten.meanwhile;
        }
        self.young_again(gained);
    }

    /// As [`Self::unwritten_gained`], for `content` that was read.
    pub(super) fn unwritten_read(&mut self, block: Block, kind: Kind, content: &[u8]) {
        let gained = set_of(self.format.unwritten(block, kind, content));
        self.unwritten_gained(&gained, false);
    }

    /// `run` gained or lost a name: the settling time begins anew.
    pub(super) fn stirred(&mut self, run: RangeInclusive<Block>) {
        if self.unwritten.empty.is_empty() {
            return;
        }
        let stirred: RoaringBitmap = self.unwritten.empty.range(run).collect();
        self.lately.extend(&stirred);
        self.unwritten.calm -= stirred;
    }

    /// Notes that nothing stirred `calm` for the settling time, and condemns what that makes certain.
    pub(super) fn condemn_unwritten(&mut self, calm: &RoaringBitmap) {
        if !self.heeds_unwritten() || self.options.grade == Grade::Block {
            return;
        }
        if !calm.is_empty() && !self.unwritten.empty.is_empty() {
            self.unwritten.calm |= calm & &self.unwritten.empty;
        }
        if !self.knows_all_names() {
            return;
        }
        self.unwritten.reads_count = true;
        let rereads_maps = self.survey.rereads_maps() && !mutant::is(Mutant::RestsAtOnce);
        // Until the maps are read, the last names may be on their way.
        if let Some(written) = self.unwritten.rest.take_if(|_| !rereads_maps) {
            let resting = &self.unwritten.named - written;
            self.lately.subtract(&resting);
            // Blocks of pointers are of the type that is named.
            self.names.guessed -= &resting;
            self.unwritten.empty |= &resting;
            self.unwritten.calm |= resting;
        }
        if !self.unwritten.calm.is_empty() {
            let dead = self.without_content();
            self.unwritten.empty -= &dead;
            self.unwritten.calm -= &dead;
            self.unwritten.hollow |= &dead;
            self.figures.unwritten += dead.len();
            self.condemn(dead);
        }
    }

    /// The calm blocks whose only owner has no content there.
    fn without_content(&self) -> RoaringBitmap {
        let mut dead = self.names.owned_among(&self.unwritten.calm) & &self.unwritten.named & &self.live;
        if !mutant::is(Mutant::UnwrittenIsEnough) {
            let again = self.names.named_again_among(&dead);
            dead -= again;
        }
        let lately = self.lately.within(&dead);
        dead -= lately;
        let plain = self.plain(&dead);
        dead - plain
    }
}
