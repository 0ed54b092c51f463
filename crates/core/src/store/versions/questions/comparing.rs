//! Which states of the disk can be compared, and where they differ.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Block, Epoch, EpochRange, Extent};
use crate::mutant::{self, Mutant};
use crate::request::AsOf;
use crate::store::versions::Versions;
use crate::store::versions::index::history::End;
use crate::store::versions::index::key::NUMBER_MAX;
use crate::store::versions::positions::{Missing, outline, page_place};
use crate::store::{Incomparable, Shared};
use crate::tree::Absent;

impl Versions {
    /// Whether `epoch` is kept, and can be shown.
    pub(in super::super) fn is_kept(&self, epoch: Epoch) -> Result<bool, Absent> {
        let kept = self.catalog.history.kept_at_or_after(epoch)?;
        Ok(kept.is_some_and(|(kept, _)| kept == epoch)
            && epoch < self.shown_before()
            && !self.forgetting.contains(epoch))
    }

    /// See [`Epochs::compare`](crate::store::Epochs::compare).
    pub(in super::super) fn compare_states(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
        looks_max: usize,
    ) -> Result<(BlockSet, u64), Incomparable> {
        let ends = states
            .into_iter()
            .filter_map(|state| if let AsOf::End(epoch) = state { Some(epoch) } else { None });
        self.check_comparable(ends)?;
        let blocks = extent.start.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES);
        let compared = self.catalog.history.compare(blocks, states.map(last_birth), looks_max);
        let (mut differing, end) = compared.map_err(missing)?;
        let end = extent.end().min(end * BLOCK_BYTES);
        if states[0] != states[1] {
            self.add_gaps(Extent::between(extent.start.0, end), states, &mut differing);
        }
        Ok((differing, end))
    }

    /// Adds the blocks of `extent` that were forgotten in one of the states: what they were is not known.
    fn add_gaps(&self, extent: Extent<Addr>, states: [AsOf; 2], differing: &mut BlockSet) {
        for state in states {
            if let AsOf::End(epoch) = state {
                self.gaps_of(epoch, extent).for_each(|gap| differing.insert(gap));
            }
        }
    }

    /// The parts of `extent` that `epoch` does not show, whatever it had there. Tombstones are not among them.
    pub(in super::super) fn gaps_of(
        &self,
        epoch: Epoch,
        extent: Extent<Addr>,
    ) -> impl Iterator<Item = Extent<Addr>> {
        self.catalog.history.gaps.of(epoch, extent).chain(self.forgetting.doomed(epoch, extent))
    }

    /// The first bytes from `from` on that `epoch` does not show, and where to go on if nothing was found yet: after a look at
    /// `looks_max` blocks, or where a page is absent.
    pub(in super::super) fn find_gap(
        &self,
        epoch: Epoch,
        from: u64,
        looks_max: usize,
    ) -> Result<(Option<Extent<Addr>>, Option<u64>), Missing> {
        // The index does not know yet what waits for this.
        self.stuck.map_or(Ok(()), Err)?;
        let blocks = from / BLOCK_BYTES..self.size.div_ceil(BLOCK_BYTES);
        let (stone, end) = self.catalog.history.find_tombstone(blocks.clone(), epoch, looks_max)?;
        let looked = Extent::between(from, end * BLOCK_BYTES);
        let gap = self.gaps_of(epoch, looked).min_by_key(|gap| gap.start);
        let stone = stone.map(|block| outline(Block(block)));
        let first = [gap, stone].into_iter().flatten().min_by_key(|it| it.start);
        Ok((first, Some(end * BLOCK_BYTES).filter(|_| first.is_none() && end < blocks.end)))
    }

    /// See [`Epochs::find_shared`](crate::store::Epochs::find_shared), of what some epochs show: who else does. That is the kept epoch
    /// before them, or the one after them, or the current state if there is none.
    pub(in super::super) fn find_shown_elsewhere(
        &self,
        extent: Extent<Addr>,
        epochs: EpochRange,
        looks_max: usize,
    ) -> Result<Shared, Missing> {
        // The index does not know yet what waits for this.
        self.stuck.map_or(Ok(()), Err)?;
        let history = &self.catalog.history;
        let first = history.kept_at_or_after(epochs.from)?.map(|(epoch, _)| epoch);
        let last = history.kept_at_or_before(epochs.to)?;
        let Some((first, last)) = first.zip(last).filter(|(first, last)| first <= last) else {
            return Ok(Shared::Nowhere);
        };
        let (before, after) = (self.stays_before(first)?, self.stays_after(last)?);
        let next = after.unwrap_or(self.open);
        let spares = |pair: &(Epoch, Epoch)| pair.0 == self.open || !mutant::is(Mutant::AmendShared);
        let pairs = [before.map(|before| (before, first)), Some((next, last))].map(|it| it.filter(spares));
        let blocks = extent.start.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES);
        let (found, end) = history.find_shared(blocks.clone(), pairs, looks_max)?;
        Ok(match found {
            None if end == blocks.end => Shared::Nowhere,
            None => Shared::NotBefore(end * BLOCK_BYTES),
            Some((block, by)) if by == self.open => Shared::At(outline(Block(block))),
            Some((block, by)) => Shared::By(by, outline(Block(block))),
        })
    }

    /// The last kept epoch before this one that is not to be forgotten.
    pub(in super::super) fn stays_before(&self, epoch: Epoch) -> Result<Option<Epoch>, Absent> {
        let mut found = self.catalog.history.kept_before(Some(epoch))?;
        while let Some(doomed) = found.and_then(|epoch| self.forgetting.epochs_with(epoch)) {
            found = self.catalog.history.kept_before(Some(doomed.from))?;
        }
        Ok(found)
    }

    /// The first kept epoch from this one on that is not to be forgotten, and its end.
    pub(in super::super) fn stays_from(&self, from: Epoch) -> Result<Option<(Epoch, End)>, Absent> {
        let mut found = self.catalog.history.kept_at_or_after(from)?;
        while let Some(doomed) = found.and_then(|(epoch, _)| self.forgetting.epochs_with(epoch)) {
            found = self.catalog.history.kept_at_or_after(Epoch(doomed.to.0 + 1))?;
        }
        Ok(found)
    }

    /// The first kept epoch after this one that is not to be forgotten.
    fn stays_after(&self, epoch: Epoch) -> Result<Option<Epoch>, Absent> {
        Ok(self.stays_from(Epoch(epoch.0 + 1))?.map(|(epoch, _)| epoch))
    }

    /// See [`Epochs::find_shared`](crate::store::Epochs::find_shared).
    pub(in super::super) fn find_shared_block(
        &self,
        extent: Extent<Addr>,
        to: Epoch,
        looks_max: usize,
    ) -> Result<Shared, Missing> {
        // The index does not know yet what waits for this.
        self.stuck.map_or(Ok(()), Err)?;
        if self.stays_after(to)?.is_some() {
            return Ok(Shared::Later);
        }
        let mut next = self.catalog.history.shown_by(self.open);
        let mut at = extent.start.0;
        for n in 0..looks_max {
            let Some(run) = self.allocated.first_run(Extent::between(at, extent.end())) else {
                return Ok(Shared::Nowhere);
            };
            let block = Block(run.start.0 / BLOCK_BYTES);
            match next.of(block) {
                Err(absent) if n == 0 => return Err(absent.into()),
                Err(_) => break,
                Ok(Some(version)) if version.born <= to => return Ok(Shared::At(outline(block))),
                Ok(_) => at = outline(block).end(),
            }
        }
        Ok(Shared::NotBefore(at))
    }

    /// Checks that the index knows all of these epochs, and that they are kept.
    fn check_comparable(&self, epochs: impl IntoIterator<Item = Epoch>) -> Result<(), Incomparable> {
        for epoch in epochs {
            if !self.is_kept(epoch).map_err(missing)? {
                return Err(Incomparable::NotKept(epoch));
            }
        }
        // The index does not know yet what waits for this.
        self.stuck.map_or(Ok(()), |Missing(place)| Err(Incomparable::Missing(place)))
    }
}

fn missing(Absent(page): Absent) -> Incomparable {
    Incomparable::Missing(page_place(page))
}

/// The last epoch in which something can be born that the state shows.
fn last_birth(state: AsOf) -> Epoch {
    match state {
        AsOf::Beginning => Epoch(0),
        AsOf::End(epoch) => epoch,
        AsOf::Now => Epoch(NUMBER_MAX),
    }
}
