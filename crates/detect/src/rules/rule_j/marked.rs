//! Marks below a journal: classes of content, by what commits say of marked files
//! (`docs/decisions/0025-marks.md`, "Below a journal").
//!
//! Invariants:
//! 1. Once the trees are known, they hold all that marked files name as of the last commit that settled.
//! 2. Content becomes plain only by a commit as of which an unmarked file has the block, if nothing but that
//!    file's content was written there between the commit before and this one.
//! 3. While no file has had a mark, all content is plain, if no commit was missed.

use crate::formats::format::{Block, Format, Geometry, Kind};
use crate::input::sets::set_of;
use crate::mutant::{self, Mutant};
use crate::rules::marks::NOT_COVERED;
use crate::rules::marks::classes::Classes;
use crate::rules::marks::committed::Committed;
use crate::rules::options::{Options, Sensitive};
use crate::rules::rule::needed::Needed;
use crate::rules::rule::{READ_BYTES_MAX, placed};
use crate::rules::rule_j::RuleJ;
use crate::rules::rule_j::journal::commits::{Map, MarkedCopies};
use crate::rules::rule_j::journal::copies::{Copies, Copy};
use crate::rules::rule_j::journal::log::{Log, Want};
use crate::rules::rule_j::journal::reads::Wanted;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::watch::Class;
use roaring::RoaringBitmap;
use std::ops::RangeInclusive;

/// Marks, and what is yet to be read of them.
#[derive(Debug, Default)]
pub(super) struct Marked {
    pub(super) classes: Classes,
    pub(super) tree: Committed,
    /// Where the newest copies of all metadata but maps lie.
    pub(super) copies: Copies,
    /// Blocks of inodes and of trees whose content in place is needed.
    in_place: Needed,
    /// Blocks of the log that hold needed copies.
    in_log: RoaringBitmap,
    /// The trees are complete, as of the last commit that settled.
    pub(super) is_known: bool,
    /// A transaction may have been missed since the blocks of inodes were read.
    is_lost: bool,
    /// What was written until the trees are known next may be of marked files that were never seen.
    is_doubtful: bool,
    /// Every block that is not free by the maps seen is allocated.
    pub(super) knows_maps: bool,
    /// Blocks of trees that the last commit freed, and whose older content may come to its place until the next.
    pub(super) freed: RoaringBitmap,
    /// Blocks that are destroyed before they are written next.
    taken: RoaringBitmap,
    /// A block that is freed is not used again by the same transaction.
    settles: bool,
}

impl Marked {
    /// `None` if no marks are to be followed in `format`, or if they cannot be.
    pub(super) fn of(format: &dyn Format, journal: &RoaringBitmap, options: Options) -> Option<Self> {
        let marking = format.marking().filter(|_| options.sensitive == Sensitive::Marked)?;
        let fixed = placed(format, [Kind::Geometry, Kind::Map, Kind::Inodes, Kind::Fixed]) | journal;
        Some(Self {
            classes: Classes::new(format.blocks(), fixed),
            is_lost: true,
            is_doubtful: true,
            settles: marking.frees_wait(),
            ..Self::default()
        })
    }

    /// Whether no file has had a mark, by all commits that have settled.
    pub(super) fn is_none(&self) -> bool {
        self.is_known && !self.classes.has_any
    }

    /// Notes that transactions may be missed.
    pub(super) fn lose(&mut self) {
        if !mutant::is(Mutant::LossKeepsPlain) {
            (self.is_lost, self.is_doubtful) = (true, true);
            self.knows_maps = false;
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.is_known = false;
        self.tree = Committed::default();
        self.copies = Copies::default();
        self.in_place = Needed::default();
        self.in_log.clear();
        self.freed.clear();
    }

    /// Reads the trees anew, from the blocks of inodes in place.
    fn reread(&mut self, format: &dyn Format) {
        self.forget();
        self.is_lost = false;
        format.survey(Kind::Inodes).into_iter().for_each(|run| self.in_place.want_all(run));
    }

    /// Continues after a clean stop, with all that is known.
    pub(super) fn resume(&mut self, copies: Copies, freed: RoaringBitmap, knows_maps: bool) {
        self.in_place = Needed::default();
        (self.copies, self.freed, self.knows_maps) = (copies, freed, knows_maps);
        (self.is_known, self.is_lost, self.is_doubtful) = (true, false, false);
    }

    /// Takes the next commit in turn.
    fn turn(&mut self, format: &dyn Format, maps: &[Map], found: &MarkedCopies) {
        let free = maps.iter().fold(RoaringBitmap::new(), |all, map| all | &map.free);
        let freed = self.tree.freed(&free);
        self.freed = freed.into_iter().filter(|block| self.copies.newest(*block).is_some()).collect();
        if mutant::is(Mutant::LateCopyForgotten) {
            self.freed.clear();
        }
        found.copies.iter().for_each(|copy| self.copies.add(*copy));
        let is_table = |copy: &&Copy| format.kind(copy.block()) == Kind::Inodes;
        let all = found.copies.iter().chain(&found.in_place);
        let (tables, others): (Vec<&Copy>, Vec<&Copy>) = all.partition(is_table);
        for copy in tables.into_iter().filter(|_| !mutant::is(Mutant::JournalFlagUnseen)) {
            self.copy_in_turn(format, *copy, found);
        }
        for copy in others {
            if self.tree.is_node(copy.block()) {
                self.copy_in_turn(format, *copy, found);
            }
        }
    }

    fn copy_in_turn(&mut self, format: &dyn Format, copy: Copy, found: &MarkedCopies) {
        match found.contents.get(&copy.block()) {
            Some(content) => self.seen(format, copy.block(), content),
            None => drop(self.tree.needed.insert(copy.block())),
        }
    }

    /// Takes `content` of `block`, of inodes or of a tree.
    fn seen(&mut self, format: &dyn Format, block: Block, content: &[u8]) {
        let Some(marking) = format.marking() else { return };
        match format.kind(block) {
            Kind::Inodes => self.tree.table_seen(marking, block, content),
            _ => self.tree.node_seen(marking, block, content),
        }
    }

    /// Content that marked files name from now on is sensitive. `written` is what was written since the last
    /// commit that settled; `None` if that is not known.
    fn named(&mut self, written: impl FnOnce() -> Option<RoaringBitmap>) {
        if !self.tree.inodes.is_empty() && !self.classes.has_any {
            self.classes.has_any = true;
            let written = written().filter(|_| self.settles);
            let unsettled = written.unwrap_or_else(|| self.classes.all());
            self.classes.unsettle(&unsettled);
        }
        let gained = std::mem::take(&mut self.tree.gained) - &self.classes.fixed;
        self.classes.named(gained);
    }

    /// Whether commits have to wait until more of the trees was read.
    fn waits(&self) -> bool {
        self.is_known && self.is_reading()
    }

    pub(super) fn is_reading(&self) -> bool {
        !self.in_place.is_empty() || !self.in_log.is_empty()
    }

    /// The blocks within `blocks` whose old content is needed before they are overwritten.
    pub(super) fn sources_within(&self, blocks: RangeInclusive<Block>) -> impl Iterator<Item = Block> {
        self.in_place.within(blocks)
    }

    /// The state of marks, or why everything is sensitive.
    pub(super) fn note(&self) -> Result<&'static str, &'static str> {
        match (self.is_known, self.classes.has_any) {
            _ if self.tree.is_overfull => Err("too many files or folders are marked"),
            (true, false) => Ok("no file has a mark: nothing has to be destroyed"),
            (true, true) if !self.settles => Err(
                "a file has a mark, and freed blocks may be used again at once (`data=writeback`, `bigalloc`)",
            ),
            (true, true) => Ok(NOT_COVERED),
            _ if self.is_lost => Err("commits of the journal were missed; the next unmount ends that"),
            _ => Err("the inodes are still searched for marks"),
        }
    }

    pub(super) fn figures(&self) -> [(&'static str, u64); 3] {
        [
            ("marked inodes", self.tree.inodes.len() as u64),
            ("marked blocks", self.tree.blocks.len()),
            ("unsettled blocks", self.classes.unsettled.len()),
        ]
    }
}

impl RuleJ {
    /// Reads the blocks of inodes, unless nothing was missed, and the file system came to rest `in_order`.
    pub(super) fn search_marks(&mut self, in_order: bool) {
        let is_followed = self.log.as_ref().is_none_or(Log::is_known);
        if let Some(marked) = self.marked.as_mut().filter(|it| is_followed && (it.is_lost || !in_order)) {
            marked.reread(&*self.format);
        }
    }

    pub(super) fn lose_marks(&mut self) {
        if let Some(marked) = &mut self.marked {
            marked.lose();
            self.commits.close_windows();
        }
    }

    /// What is wanted of the copy of a block in a transaction.
    pub(super) fn wants_copy(format: &dyn Format, marked: Option<&Marked>, block: u64) -> Option<Want> {
        let block = Block::try_from(block).ok().filter(|it| *it < format.blocks())?;
        match (format.kind(block), marked) {
            (Kind::Map, _) | (Kind::Inodes, Some(_)) => Some(Want::Content),
            (Kind::Inodes, None) if format.has_unwritten() => Some(Want::Content),
            (Kind::Data, Some(marked)) if marked.tree.is_node(block) => Some(Want::Content),
            (Kind::Data, Some(_)) => Some(Want::Place),
            _ => None,
        }
    }

    /// Takes a write of `block` of inodes in place. While the file system is mounted, it repeats a commit.
    pub(super) fn inodes_written(&mut self, block: Block) {
        if !self.in_use {
            self.unwritten.forget_table(block);
        }
        if let Some(marked) = self.marked.as_mut().filter(|_| !self.in_use) {
            marked.in_place.want(block);
            marked.is_known = false;
            marked.is_doubtful |= marked.classes.has_any;
        }
    }

    /// Takes a write of blocks of files, before they count as live.
    pub(super) fn content_written(&mut self, extent: Extent<Addr>) {
        let Some(marked) = &mut self.marked else { return };
        let (Some(blocks), whole) = (self.grid.touched(extent), self.grid.covered(extent)) else { return };
        let (data, whole_set) = (set_of([blocks.clone()]), set_of(whole.clone()));
        let plain = if marked.is_known { marked.classes.plain(&data) } else { RoaringBitmap::new() };
        let over = if marked.classes.has_layers {
            &whole_set - ((&whole_set & &self.live) - &marked.taken)
        } else {
            whole_set
        };
        if self.in_use && !self.attached.is_cached() {
            let has_begun = self.log.as_ref().is_some_and(Log::has_begun);
            self.commits.write_window(blocks.clone(), &(plain | over), has_begun);
        } else {
            self.commits.close_window(blocks.clone());
        }
        marked.taken -= &data;
        if marked.classes.has_any {
            let named = (&data & &marked.tree.blocks) | (&data & &marked.freed);
            marked.classes.written(blocks, whole, &self.live, &named);
        }
        if !self.in_use && data.iter().any(|block| marked.tree.is_node(block)) {
            self.lose_marks();
        }
    }

    /// Takes a refused write of `blocks`. What is in its place is not known then, of metadata too.
    pub(super) fn content_refused(&mut self, blocks: RangeInclusive<Block>) {
        let Some(marked) = &mut self.marked else { return };
        marked.classes.refused(blocks.clone());
        self.commits.close_window(blocks.clone());
        let leads_on = |block| self.format.kind(block) == Kind::Inodes || marked.tree.is_node(block);
        if blocks.clone().any(leads_on) || marked.sources_within(blocks).next().is_some() {
            self.lose_marks();
        }
    }

    /// A cache was there unseen: any write may have arrived late.
    pub(super) fn doubt_content(&mut self) {
        if let Some(marked) = &mut self.marked {
            marked.classes.unsettle_all();
        }
        self.commits.close_windows();
    }

    /// Notes that the log's block `index` is about to hold something else.
    pub(super) fn log_overwritten(&mut self, index: u32) {
        let Some(marked) = &self.marked else { return };
        if marked.copies.lies_in(index) || self.commits.wait_for(index) {
            self.lose_marks();
        }
    }

    /// Notes that the copies in the log's blocks `indices` do not count any more.
    pub(super) fn forget_copies(&mut self, indices: &RoaringBitmap) {
        if let Some(marked) = &mut self.marked {
            marked.copies.forget(indices);
            self.commits.forget_copies(indices);
        }
    }

    /// Follows marks in the oldest commit. Returns whether it may settle, as far as marks are concerned.
    pub(super) fn follow_marks(&mut self) -> bool {
        let Some(marked) = &mut self.marked else { return true };
        if let Some((maps, found)) = self.commits.next_marked() {
            marked.turn(&*self.format, maps, &found);
        }
        self.marks_seen();
        !self.marked.as_ref().is_some_and(Marked::waits)
    }

    /// Asks for what the trees need, after something of them was seen.
    fn marks_seen(&mut self) {
        let Some(marked) = &mut self.marked else { return };
        let is_followed = marked.is_known && self.in_use && !self.attached.is_cached();
        marked.named(|| is_followed.then(|| self.commits.windows()));
        let needed = std::mem::take(&mut marked.tree.needed) - &self.journal;
        if marked.is_lost {
            return;
        }
        for block in &needed {
            if !self.ask_for(block) {
                return self.lose_marks();
            }
        }
    }

    /// Asks for the content of `block` as of the last commit in turn. Returns whether it can be had.
    fn ask_for(&mut self, block: Block) -> bool {
        let Some(marked) = &mut self.marked else { return true };
        let newest = marked.copies.newest(block).filter(|_| !mutant::is(Mutant::PlaceIsNewest));
        let Some(copy) = newest else {
            marked.in_place.want(block);
            return !self.commits.have_copy(block);
        };
        let place = self.place.block(copy.index);
        let is_new = marked.in_log.insert(copy.index);
        !is_new || place.is_some_and(|place| self.reads.want_copy(place, Wanted { serial: None, copy }))
    }

    /// Takes a copy that was read for the trees.
    pub(super) fn marked_copy_seen(&mut self, copy: Copy, content: &[u8]) {
        if let Some(marked) = &mut self.marked
            && marked.in_log.remove(copy.index)
        {
            marked.seen(&*self.format, copy.block(), content);
            self.marks_seen();
        }
    }

    /// Takes `content` of `block`, which was read in place, or is about to be overwritten there. A block that
    /// was written by a tool since is asked for once more.
    pub(super) fn marked_block_seen(&mut self, block: Block, content: &[u8], is_overwritten: bool) {
        let in_use = self.in_use;
        let is_needed = |marked: &&mut Marked| marked.in_place.within(block..=block).next().is_some();
        let Some(marked) = self.marked.as_mut().filter(is_needed) else { return };
        match is_overwritten {
            true if in_use => drop(marked.in_place.take(block)),
            true => marked.in_place.want(block),
            false => marked.in_place.answer(block),
        }
        marked.seen(&*self.format, block, content);
        self.marks_seen();
    }

    pub(super) fn next_marked(&mut self) -> Option<Extent<Addr>> {
        let most = READ_BYTES_MAX / u64::from(self.format.block_bytes());
        let run = self.marked.as_mut()?.in_place.next_read(most as u32)?;
        Some(self.grid.extent_of_run(&run))
    }

    /// Takes content of `window` for its owners', where they have no mark as of the commit that settles.
    pub(super) fn settle_content(&mut self, window: &RoaringBitmap) {
        let is_direct = !self.attached.is_cached();
        let Some(marked) = self.marked.as_mut().filter(|it| is_direct && it.settles) else { return };
        let tool_wrote_maps = self.survey.rereads_maps() && !self.survey.is_in_order();
        if !marked.is_known || !marked.knows_maps || tool_wrote_maps {
            return;
        }
        let blind = mutant::is(Mutant::OlderContentSettles);
        let mut owned = if blind { marked.classes.unsettled.clone() } else { window.clone() };
        if !mutant::is(Mutant::FreeSettles) {
            owned -= &self.free;
        }
        marked.classes.settled(&owned);
        self.suspicious -= marked.classes.plain(&owned);
    }

    /// A file system that is mounted, or called clean by a tool, while it is in use was not unmounted.
    pub(super) fn may_have_crashed(&mut self, change: Geometry) {
        let is_crash = self.in_use && matches!(change, Geometry::Mounted | Geometry::Clean);
        let Some(marked) = self.marked.as_mut().filter(|_| is_crash) else { return };
        if !mutant::is(Mutant::CrashSettles) {
            self.commits.close_windows();
            marked.classes.crashed();
        }
    }

    /// Notes that all maps were read again.
    pub(super) fn maps_known(&mut self) {
        let is_known = self.knows_position();
        if let Some(marked) = &mut self.marked {
            marked.knows_maps = is_known && !marked.is_lost;
        }
    }

    /// Notes that the trees are known, once nothing is left to read. Forgets what would have to be destroyed,
    /// once all content is known to be plain.
    pub(super) fn forget_plain(&mut self) {
        let Some(marked) = &mut self.marked else { return };
        if !marked.is_known && !marked.is_lost && !marked.is_reading() {
            marked.is_known = true;
            if std::mem::take(&mut marked.is_doubtful) {
                self.commits.close_windows();
                marked.classes.unsettle_all();
            }
            self.settle();
        }
        let has_some = !self.deaths.is_idle() || !self.suspicious.is_empty();
        if has_some && self.is_plain() {
            self.deaths.take_condemned();
            self.suspicious.clear();
        }
    }

    /// Whether all content is plain, by everything that has arrived.
    fn is_plain(&self) -> bool {
        self.marked.as_ref().is_some_and(Marked::is_none) && self.knows_position() && self.has_seen_all()
    }

    /// Whether every transaction that may have arrived has settled.
    fn has_seen_all(&self) -> bool {
        self.commits.are_settled() && !self.log.as_ref().is_none_or(Log::is_torn)
    }

    /// The members of `blocks` whose content was plain, as of the last commit that settled.
    pub(super) fn plain(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        match &self.marked {
            Some(marked) if marked.is_none() && self.knows_position() => blocks.clone(),
            Some(marked) if marked.is_known && self.knows_position() && !marked.tree.is_overfull => {
                marked.classes.plain(&(blocks - &marked.classes.fixed))
            }
            _ => RoaringBitmap::new(),
        }
    }

    /// The members of `blocks` whose content is plain, by everything that has arrived.
    pub(super) fn plain_now(&self, blocks: &RoaringBitmap) -> RoaringBitmap {
        if self.has_seen_all() { self.plain(blocks) } else { RoaringBitmap::new() }
    }

    /// Notes that the blocks of `found` are handed out before all of `whole` is overwritten.
    pub(super) fn taken(&mut self, found: &RoaringBitmap, whole: RangeInclusive<Block>) {
        if let Some(marked) = &mut self.marked {
            let whole: RoaringBitmap = found.range(whole).collect();
            marked.classes.taken(&whole);
            marked.taken |= whole;
        }
    }

    pub(super) fn class(&self, block: Block) -> Class {
        let Some(marked) = self.marked.as_ref().filter(|_| !self.changed && self.broken.is_none()) else {
            return Class::Sensitive;
        };
        let knows_all = marked.is_known && self.knows_position() && self.has_seen_all();
        match marked.classes.class(block) {
            _ if marked.tree.is_overfull => Class::Sensitive,
            _ if marked.classes.has_any && marked.classes.fixed.contains(block) => Class::Sensitive,
            Class::Plain if !knows_all && !mutant::is(Mutant::UnsettledIsPlain) => Class::Unsettled,
            class => class,
        }
    }
}
