//! Which states of the disk can be compared, and where they differ.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Block, Epoch, Extent};
use crate::request::AsOf;
use crate::store::versions::Versions;
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
                self.catalog.history.gaps.of(epoch, extent).for_each(|gap| differing.insert(gap));
            }
        }
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
        if self.is_any_kept_after(to)? {
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

    /// Whether an epoch after `to` is kept, and is not to be forgotten.
    fn is_any_kept_after(&self, to: Epoch) -> Result<bool, Absent> {
        let mut from = Epoch(to.0 + 1);
        while let Some((epoch, _)) = self.catalog.history.kept_at_or_after(from)? {
            let Some(doomed) = self.forgetting.epochs_with(epoch) else { return Ok(true) };
            from = Epoch(doomed.to.0 + 1);
        }
        Ok(false)
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
