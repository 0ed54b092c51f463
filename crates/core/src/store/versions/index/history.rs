//! Which epoch shows which version, and which versions are owed: the index of a disk that keeps versions.
//!
//! A *version* is the content of one block that one epoch wrote: born in that epoch, dead in the epoch that
//! replaced or freed it. An *epoch* is kept from the moment when it closes until it is forgotten. A version
//! that neither the open epoch nor a kept one shows is *owed*: what makes it readable has to be destroyed.
//!
//! *Secure Deletion for a Versioning File System*, sections 1 and 3; the order of the lists is ours
//! ([`crate::store::versions::index::deaths`]).
//!
//! Each method changes nothing if it returns [`Absent`].

mod amending;
mod births;
mod comparing;
mod forget_blocks;
mod walking;

use crate::base::units::{Block, Epoch, Extent, Slot};
use crate::mutant::{self, Mutant};
use crate::store::versions::index::deaths::Deaths;
use crate::store::versions::index::gaps::Gaps;
use crate::store::versions::index::key::{NUMBER, NUMBER_MAX, number, pack};
use crate::store::versions::index::span::{Dead, LEN, Span, is_tombstone};
use crate::store::versions::index::twin::Twin;
use crate::tree::{Absent, Head, Pages, Root, Searches, Tree};
pub(in super::super) use amending::ForgetShown;
pub(in super::super) use forget_blocks::ForgetBlocks;
use roaring::RoaringBitmap;
use std::ops::Range;
pub(in super::super) use walking::{Salvage, Salvaged};

/// The numbers of the trees of the index, and the places of their roots in its head.
const VERSIONS: usize = 0;
const DEATHS: usize = 1;
const RUNS: usize = 2;
const EPOCHS: usize = 3;
const OWED: usize = 4;
const GAPS: usize = 5;
/// The slots have this tree.
pub(in super::super) const CLUSTERS: usize = 6;
/// The second trees of the kept epochs, and of the gaps.
const EPOCHS_AGAIN: usize = 7;
const GAPS_AGAIN: usize = 8;
/// How many trees there are.
const TREES: usize = 9;

/// The slot of a block that was freed: it reads as zeros.
const FREED: Slot = Slot(NUMBER_MAX);

/// Most versions that die in one step of a forget.
const DEAD_MAX: u64 = 512;

/// Milliseconds since 1970, as the host's clock said.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(in super::super) struct WallTime(pub(in super::super) u64);

/// A version: who wrote it, and where it lies; or its tombstone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Version {
    pub(in super::super) born: Epoch,
    pub(in super::super) slot: Slot,
}

/// See the module's documentation.
#[derive(Debug)]
pub(in super::super) struct History {
    pub(in super::super) pages: Pages,
    /// By block and birth: the slot, [`FREED`], or a tombstone ([`is_tombstone`]).
    pub(in super::super) versions: Tree<{ 2 * NUMBER }, NUMBER>,
    pub(in super::super) deaths: Deaths,
    /// The kept epochs: when each closed, and in how many blocks it changed.
    pub(in super::super) epochs: Twin<NUMBER, { 8 + NUMBER }>,
    /// Versions that are owed, by their first slot: the block there, its birth, and how many versions.
    owed: Tree<NUMBER, { 2 * NUMBER + LEN }>,
    pub(in super::super) gaps: Gaps,
    /// The epoch that takes the writes that arrive.
    open: Epoch,
    /// The kept epoch before the open one, and the one before that.
    last_kept: [Option<Epoch>; 2],
    /// In how many blocks the open epoch has changed, and the one before it, whose last changes may be under way.
    changed: [u64; 2],
    /// How many versions are owed.
    owed_versions: u64,
}

/// The notes of a head about a history, beside its trees.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(in super::super) struct Counts {
    /// In how many blocks the open epoch has changed, and the one before it.
    pub(in super::super) changed: [u64; 2],
    /// How many versions are dead and shown by a kept epoch.
    pub(in super::super) retired: u64,
    /// How many versions are owed.
    pub(in super::super) owed: u64,
}

/// The end of a kept epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct End {
    /// When it closed.
    pub(in super::super) when: WallTime,
    /// The blocks of which it has a version, or the end of one.
    pub(in super::super) changed: u64,
}

impl End {
    fn to_bytes(self) -> [u8; 8 + NUMBER] {
        let mut bytes = [0; 8 + NUMBER];
        bytes[..8].copy_from_slice(&self.when.0.to_be_bytes());
        bytes[8..].copy_from_slice(&pack::<NUMBER>(&[self.changed]));
        bytes
    }

    fn from_bytes(bytes: [u8; 8 + NUMBER]) -> Self {
        let when = bytes[..8].iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        Self { when: WallTime(when), changed: number(&bytes[8..], 0) }
    }
}

/// The versions that one epoch shows. Blocks in ascending order do not each cost a search of the whole index.
pub(in super::super) struct Shown<'a> {
    versions: Searches<'a, { 2 * NUMBER }, NUMBER>,
    epoch: Epoch,
}

impl Shown<'_> {
    /// The version of `block`; `None` where it reads as zeros.
    pub(in super::super) fn of(&mut self, block: Block) -> Result<Option<Version>, Absent> {
        Ok(self.latest(block)?.filter(|version| version.slot != FREED))
    }

    /// The version of `block`, or its end, that was born last by the end of the epoch.
    fn latest(&mut self, block: Block) -> Result<Option<Version>, Absent> {
        let found = self.versions.at_or_before(&pack(&[block.0, self.epoch.0]))?;
        let found = found.filter(|(key, _)| number(key, 0) == block.0);
        Ok(found.map(|(key, slot)| Version { born: Epoch(number(&key, 1)), slot: Slot(number(&slot, 0)) }))
    }
}

/// How far a forget is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Forget {
    /// The epochs to forget that are left: from here on ...
    from: Epoch,
    /// ... up to this one.
    to: Epoch,
    /// Where the first of them stands, once that is known.
    at: Option<Standing>,
    /// The run to go on with in its list.
    run: u64,
}

/// Where an epoch that is to be forgotten stands among those that are kept.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Standing {
    /// The kept epoch before those that are to be forgotten; 0 if there is none.
    before: Epoch,
    /// The first kept one of those.
    first: Option<Epoch>,
    /// The kept epoch after them, or the open one, which gets what is left of their lists.
    heir: Epoch,
}

impl Forget {
    pub(in super::super) fn new(from: Epoch, to: Epoch) -> Self {
        Self { from, to, at: None, run: 0 }
    }
}

/// The outcome of one step of a forget.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Forgotten {
    /// These versions are owed now.
    Versions(Vec<Span>),
    /// Something else; there is more.
    More,
    /// All is done.
    All,
}

impl History {
    /// The history that `head` names. All inner pages have to be [loaded](History::reach) before its use.
    /// The head's note has the `counts` as of then.
    pub(in super::super) fn open(disk: [u8; 16], head: &Head, open: Epoch, counts: Counts) -> Self {
        let root = |tree: usize| head.roots.get(tree).copied().unwrap_or_default();
        let at = |tree: usize| (tree as u8, root(tree));
        Self {
            pages: Pages::new(disk, head.generation),
            versions: Tree::new(VERSIONS as u8, root(VERSIONS)),
            deaths: Deaths::new(at(DEATHS), at(RUNS), counts.retired),
            epochs: Twin::new(head, [EPOCHS, EPOCHS_AGAIN]),
            owed: Tree::new(OWED as u8, root(OWED)),
            gaps: Gaps::new(Twin::new(head, [GAPS, GAPS_AGAIN])),
            open,
            last_kept: [None; 2],
            changed: counts.changed,
            owed_versions: counts.owed,
        }
    }

    /// The notes for a head.
    pub(in super::super) fn counts(&self) -> Counts {
        Counts { changed: self.changed, retired: self.retired(), owed: self.owed() }
    }

    /// Whether the open epoch differs from the one before it, as far as the index knows. If that one is not kept, or lacks
    /// blocks, ends of blocks that it had may be gone.
    pub(in super::super) fn has_changed(&self) -> bool {
        let [open, _] = self.changed;
        let before = Epoch(self.open.0 - 1);
        let whole = Extent::new(0, u64::MAX);
        let is_whole = self.last_kept[0] == Some(before) && self.gaps.of(before, whole).next().is_none();
        open > 0 || before.0 > 0 && !is_whole
    }

    /// Looks at all inner pages, and finds the free ones, and the last kept epochs. `others` adds the pages of
    /// other trees of the index.
    pub(in super::super) fn reach(
        &mut self,
        others: impl Fn(&Pages, &mut RoaringBitmap) -> Result<(), Absent>,
    ) -> Result<(), Absent> {
        let mut used = RoaringBitmap::new();
        others(&self.pages, &mut used)?;
        self.versions.reach(&self.pages, &mut used)?;
        self.epochs.reach(&self.pages, &mut used)?;
        self.owed.reach(&self.pages, &mut used)?;
        self.deaths.reach(&self.pages, &mut used)?;
        self.gaps.reach(&self.pages, &mut used)?;
        self.pages.found(&used);
        self.find_last_kept()
    }

    /// The roots of all trees, for a head; that of the slots is given.
    pub(in super::super) fn roots(&self, slots: Root) -> Vec<Root> {
        let mut roots = vec![Root::default(); TREES];
        (roots[VERSIONS], roots[OWED], roots[CLUSTERS]) = (self.versions.root(), self.owed.root(), slots);
        [roots[DEATHS], roots[RUNS]] = self.deaths.roots();
        [roots[EPOCHS], roots[EPOCHS_AGAIN]] = self.epochs.trees.each_ref().map(Tree::root);
        [roots[GAPS], roots[GAPS_AGAIN]] = self.gaps.table.trees.each_ref().map(Tree::root);
        roots
    }

    /// The epoch that takes the writes that arrive.
    pub(in super::super) fn open_epoch(&self) -> Epoch {
        self.open
    }

    /// How many epochs are kept.
    pub(in super::super) fn kept(&self) -> u64 {
        self.epochs.tree().len()
    }

    /// The last kept epoch that is not after `epoch`.
    pub(in super::super) fn kept_at_or_before(&self, epoch: Epoch) -> Result<Option<Epoch>, Absent> {
        let found = self.epochs.tree().at_or_before(&self.pages, &pack(&[epoch.0]))?;
        Ok(found.map(|(key, _)| Epoch(number(&key, 0))))
    }

    /// The first kept epoch that is not before `epoch`, and its end.
    pub(in super::super) fn kept_at_or_after(&self, epoch: Epoch) -> Result<Option<(Epoch, End)>, Absent> {
        let found = self.epochs.tree().at_or_after(&self.pages, &pack(&[epoch.0]))?;
        Ok(found.map(|(key, end)| (Epoch(number(&key, 0)), End::from_bytes(end))))
    }

    pub(in super::super) fn kept_before(&self, epoch: Option<Epoch>) -> Result<Option<Epoch>, Absent> {
        match epoch.and_then(|epoch| epoch.0.checked_sub(1)) {
            Some(before) => self.kept_at_or_before(Epoch(before)),
            None => Ok(None),
        }
    }

    /// The version of `block` that `epoch` shows, or that the open epoch does; `None` where it reads as zeros.
    pub(in super::super) fn shown(&self, block: Block, epoch: Epoch) -> Result<Option<Version>, Absent> {
        self.shown_by(epoch).of(block)
    }

    /// The versions that `epoch` shows, which may be the open one.
    pub(in super::super) fn shown_by(&self, epoch: Epoch) -> Shown<'_> {
        Shown { versions: self.versions.searches(&self.pages), epoch }
    }

    fn latest(&self, block: Block, epoch: Epoch) -> Result<Option<Version>, Absent> {
        self.shown_by(epoch).latest(block)
    }

    /// The slot of the version of `block` that was `born` then; `None` if there is none, or if the block ended there.
    pub(in super::super) fn slot_of(&self, block: Block, born: Epoch) -> Result<Option<Slot>, Absent> {
        let found = self.versions.get(&self.pages, &pack(&[block.0, born.0]))?;
        Ok(found.map(|slot| Slot(number(&slot, 0))).filter(|slot| *slot != FREED))
    }

    /// The first version, or end of one, of `block` from `born` on, or else of a later block.
    pub(in super::super) fn version_from(
        &self,
        block: Block,
        born: Epoch,
    ) -> Result<Option<(Block, Version)>, Absent> {
        let found = self.versions.at_or_after(&self.pages, &pack(&[block.0, born.0]))?;
        Ok(found.map(|(key, slot)| {
            let version = Version { born: Epoch(number(&key, 1)), slot: Slot(number(&slot, 0)) };
            (Block(number(&key, 0)), version)
        }))
    }

    /// Whether a kept epoch shows what `slot` has of `block`, or what is owed there.
    pub(in super::super) fn is_retired(&self, block: Block, slot: Slot) -> Result<bool, Absent> {
        let mut versions = self.versions.searches(&self.pages);
        let (mut up_to, mut is_last) = (Some(NUMBER_MAX), true);
        while let Some(last) = up_to {
            let found = versions.at_or_before(&pack(&[block.0, last]))?;
            let Some((key, has)) = found.filter(|(key, _)| number(key, 0) == block.0) else { break };
            let born = number(&key, 1);
            if number(&has, 0) == slot.0 {
                // A version that was replaced, and is still known, is shown or owed.
                return Ok(!is_last || self.kept_at_or_after(Epoch(born))?.is_some());
            }
            (up_to, is_last) = (born.checked_sub(1), false);
        }
        Ok(false)
    }

    /// Notes that `epoch`, the open one or the one before it, has put content of `block` into `slot`, or has
    /// freed the block. Returns the version that no epoch shows any more, if there is one: it is owed, unless it `vanishes`.
    pub(in super::super) fn write(
        &mut self,
        block: Block,
        slot: Option<Slot>,
        epoch: Epoch,
        vanishes: impl Fn(Slot) -> bool,
    ) -> Result<Option<Dead>, Absent> {
        let old = self.latest(block, epoch)?;
        let dead =
            old.filter(|old| old.slot != FREED).map(|Version { born, slot }| Dead { born, block, slot });
        assert!(dead.is_none_or(|dead| !is_tombstone(dead.slot)), "the current state shows what it has");
        let is_kept = |dead: &Dead| self.kept_by(epoch).is_some_and(|kept| kept >= dead.born);
        let owed = dead.filter(|dead| dead.born == epoch || !is_kept(dead));
        let before = match old.filter(|old| old.born == epoch || owed.is_some()) {
            // Only the end of a block depends on what was before.
            Some(_) if slot.is_some() => None,
            Some(Version { born: Epoch(born), .. }) if born > 0 => self.latest(block, Epoch(born - 1))?,
            Some(_) => None,
            None => old,
        };
        match (owed, dead) {
            (Some(owed), _) if vanishes(owed.slot) => {}
            (Some(owed), _) => self.owe(Span::of(owed))?,
            (None, Some(dead)) => self.deaths.add(&mut self.pages, epoch, dead)?,
            (None, None) => {}
        }
        let key = pack(&[block.0, epoch.0]);
        if let Some(dead) = owed.filter(|dead| dead.born != epoch) {
            self.versions.remove(&mut self.pages, &pack(&[block.0, dead.born.0]))?;
        }
        // A block that no kept epoch shows needs no end.
        let needs_end = before.is_some_and(|before| before.slot != FREED);
        match slot {
            None if !needs_end => {
                let had = self.versions.remove(&mut self.pages, &key)?.is_some();
                self.count_change(epoch, -i64::from(had));
            }
            slot => {
                let slot = slot.unwrap_or(FREED);
                let is_new = self.versions.insert(&mut self.pages, &key, &pack(&[slot.0]))?.is_none();
                self.count_change(epoch, i64::from(is_new));
            }
        }
        Ok(owed)
    }

    /// Counts an entry of `epoch` in the tree of versions, if that epoch is open, or was the last one to be.
    fn count_change(&mut self, epoch: Epoch, more: i64) {
        let before = self.open.0.checked_sub(epoch.0).and_then(|before| usize::try_from(before).ok());
        if let Some(changed) = before.and_then(|before| self.changed.get_mut(before)) {
            *changed = changed.saturating_add_signed(more);
        }
    }

    /// The last kept epoch before `epoch`, which is the open one or the one before it.
    fn kept_by(&self, epoch: Epoch) -> Option<Epoch> {
        let [last, before] = self.last_kept;
        if last.is_some_and(|last| last >= epoch) { before } else { last }
    }

    fn owe(&mut self, span: Span) -> Result<(), Absent> {
        let slot = pack(&[span.first.slot.0]);
        let before = self.owed.at_or_before(&self.pages, &slot)?.map(|(key, value)| Span::owed(&key, &value));
        assert!(span.len > 0, "at least one version is owed");
        self.owed_versions += span.len;
        self.put_owed(before.and_then(|before| before.joined(span)).unwrap_or(span))
    }

    fn put_owed(&mut self, span: Span) -> Result<(), Absent> {
        let Dead { born, block, slot } = span.first;
        let mut value = [0; 2 * NUMBER + LEN];
        value[..2 * NUMBER].copy_from_slice(&pack::<{ 2 * NUMBER }>(&[block.0, born.0]));
        value[2 * NUMBER..].copy_from_slice(&span.len_bytes());
        self.owed.insert(&mut self.pages, &pack(&[slot.0]), &value).map(drop)
    }

    /// The first versions that are owed in slot `from` or behind it.
    pub(in super::super) fn owed_from(&self, from: Slot) -> Result<Option<Span>, Absent> {
        Ok(self.owed_at(from)?.and_then(|span| span.within(&(from..Slot(NUMBER_MAX)))))
    }

    /// The entry that has slot `from`, or else the first one behind it.
    fn owed_at(&self, from: Slot) -> Result<Option<Span>, Absent> {
        let slot = pack(&[from.0]);
        let before = self.owed.at_or_before(&self.pages, &slot)?.map(|(key, value)| Span::owed(&key, &value));
        if let Some(before) = before.filter(|before| before.slots().contains(&from)) {
            return Ok(Some(before));
        }
        Ok(self.owed.at_or_after(&self.pages, &slot)?.map(|(key, value)| Span::owed(&key, &value)))
    }

    /// How many versions are owed.
    pub(in super::super) fn owed(&self) -> u64 {
        self.owed_versions
    }

    /// Notes that nothing is owed any more in the first of these `slots` where something is, and those right behind it that
    /// one entry has: what was owed there.
    pub(in super::super) fn completed(&mut self, slots: &Range<Slot>) -> Result<Option<Span>, Absent> {
        let Some(whole) = self.owed_at(slots.start)? else { return Ok(None) };
        let Some(part) = whole.within(slots) else { return Ok(None) };
        let [before, behind] = whole.without(part);
        if let Some(behind) = behind {
            self.owed.get(&self.pages, &pack(&[behind.first.slot.0]))?;
        }
        match before {
            Some(before) => self.put_owed(before)?,
            None => _ = self.owed.remove(&mut self.pages, &pack(&[whole.first.slot.0]))?,
        }
        behind.map_or(Ok(()), |behind| self.put_owed(behind))?;
        self.owed_versions -= part.len;
        Ok(Some(part))
    }

    /// Closes the open epoch, which is kept from now on, and opens the next one.
    pub(in super::super) fn close(&mut self, when: WallTime) -> Result<Epoch, Absent> {
        let closed = self.open;
        let end = End { when, changed: self.changed[0] };
        self.epochs.insert(&mut self.pages, &pack(&[closed.0]), &end.to_bytes())?;
        self.last_kept = [Some(closed), self.last_kept[0]];
        self.changed = [0, self.changed[0]];
        self.open = Epoch(closed.0 + 1);
        Ok(closed)
    }

    /// Notes when `epoch` closed, which is the open one or closed before.
    pub(in super::super) fn close_again(&mut self, epoch: Epoch, when: WallTime) -> Result<(), Absent> {
        if epoch == self.open {
            return self.close(when).map(drop);
        }
        let end = End { when, changed: self.changed[1] };
        self.epochs.insert(&mut self.pages, &pack(&[epoch.0]), &end.to_bytes())
    }

    /// Takes the next step of a forget.
    pub(in super::super) fn forget_step(&mut self, forget: &mut Forget) -> Result<Forgotten, Absent> {
        let at = match forget.at {
            Some(at) => at,
            None => self.standing(forget)?,
        };
        (forget.at, forget.run) = (Some(at), if forget.at.is_some() { forget.run } else { 0 });
        let Standing { before, first, heir } = at;
        let list = first.unwrap_or(heir);
        if let Some((run, youngest)) = self.deaths.born_after(&self.pages, list, before, forget.run)? {
            forget.run = run;
            return self.forget_versions((list, run), &youngest);
        }
        let Some(epoch) = first else {
            let more = self.deaths.merge_step(&mut self.pages, heir)? || self.drop_idle_gap()?;
            return Ok(if more { Forgotten::More } else { Forgotten::All });
        };
        if self.deaths.hand_over(&mut self.pages, epoch, heir)? {
            return Ok(Forgotten::More);
        }
        if !self.deaths.merge_step(&mut self.pages, heir)? {
            self.drop_epoch(epoch)?;
            forget.at = None;
        }
        Ok(Forgotten::More)
    }

    fn standing(&self, forget: &Forget) -> Result<Standing, Absent> {
        let before = self.kept_before(Some(forget.from).filter(|_| !mutant::is(Mutant::ForgetShared)))?;
        let first = self.kept_at_or_after(forget.from)?.map(|(epoch, _)| epoch);
        let heir = self.kept_at_or_after(Epoch(forget.to.0 + 1))?.map_or(self.open, |(epoch, _)| epoch);
        let first = first.filter(|first| *first <= forget.to);
        Ok(Standing { before: before.unwrap_or_default(), first, heir })
    }

    /// Forgets versions of a run, which are its youngest, up to the first whose pages are not all in memory.
    fn forget_versions(&mut self, of: (Epoch, u64), youngest: &[Span]) -> Result<Forgotten, Absent> {
        let (mut owed, mut gone, mut left) = (Vec::new(), Vec::new(), DEAD_MAX);
        for span in youngest {
            if left == 0 {
                break;
            }
            let span = span.last(left);
            match self.forget_span(span) {
                Ok(dead) => owed.extend(dead),
                Err(absent) if gone.is_empty() => return Err(absent),
                Err(_) => break,
            }
            left -= span.len;
            gone.push(span);
        }
        self.deaths.pop(&mut self.pages, of, &gone)?;
        Ok(Forgotten::Versions(owed))
    }

    /// Forgets some versions, unless that was done before: what is owed from now on.
    fn forget_span(&mut self, span: Span) -> Result<Vec<Span>, Absent> {
        let Dying { versions, keys, ends } = self.dying(span)?;
        let owed = Span::all_of(versions.into_iter());
        owed.iter().try_for_each(|span| self.owed_at(span.first.slot).map(drop))?;
        owed.iter().try_for_each(|span| self.owe(*span))?;
        self.versions.remove_all(&mut self.pages, &keys)?;
        ends.into_iter().for_each(|epoch| self.count_change(epoch, -1));
        Ok(owed)
    }

    /// The removals that go with the versions of `span` that the index still has. Of tombstones nothing is owed.
    fn dying(&self, span: Span) -> Result<Dying, Absent> {
        let mut dying = Dying::default();
        let mut versions = self.versions.searches(&self.pages);
        for dead in span.each() {
            let key = pack(&[dead.block.0, dead.born.0]);
            if versions.at_or_before(&key)? != Some((key, pack(&[dead.slot.0]))) {
                continue;
            }
            dying.versions.extend(Some(dead).filter(|dead| !is_tombstone(dead.slot)));
            dying.keys.push(key);
            let of_block = |it: &([u8; 2 * NUMBER], [u8; NUMBER])| number(&it.0, 0) == dead.block.0;
            let is_end = |it: &([u8; 2 * NUMBER], [u8; NUMBER])| number(&it.1, 0) == FREED.0;
            let Some(end) = versions.beside(&key, true)?.filter(|it| of_block(it) && is_end(it)) else {
                continue;
            };
            // The end of a block that reads as zeros before it, too, says nothing.
            if versions.beside(&key, false)?.is_none_or(|it| !of_block(&it) || is_end(&it)) {
                dying.keys.push(end.0);
                dying.ends.push(Epoch(number(&end.0, 1)));
            }
        }
        Ok(dying)
    }

    pub(in super::super) fn drop_epoch(&mut self, epoch: Epoch) -> Result<(), Absent> {
        let [last, before] = self.last_kept;
        let before_that =
            if last == Some(epoch) || before == Some(epoch) { self.kept_before(before)? } else { None };
        self.epochs.remove(&mut self.pages, &pack(&[epoch.0]))?;
        if last == Some(epoch) {
            self.last_kept = [before, before_that];
        } else if before == Some(epoch) {
            self.last_kept = [last, before_that];
        }
        Ok(())
    }

    /// How many entries were looked at for what dies, and how many were moved by merges.
    #[cfg(test)]
    pub(in super::super) fn work(&self) -> (u64, u64) {
        (self.deaths.looked, self.deaths.merged)
    }

    /// How many versions are dead and shown by a kept epoch.
    pub(in super::super) fn retired(&self) -> u64 {
        self.deaths.versions
    }
}

/// The removals of a forget from the tree of versions.
#[derive(Default)]
struct Dying {
    versions: Vec<Dead>,
    /// The keys of the versions, and of ends that say nothing without them, in order.
    keys: Vec<[u8; 2 * NUMBER]>,
    /// The epochs of these ends.
    ends: Vec<Epoch>,
}

#[cfg(test)]
mod tests;
