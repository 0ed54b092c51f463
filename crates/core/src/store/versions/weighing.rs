//! Counting what would die with some epochs, without forgetting them.
//!
//! Let *p* be the kept epoch before them, and *q* the one after them. What they show and q does not has died after the
//! first of them and by q; so it is in the lists of the others of them, and of q ([`super::deaths`]). Of that, what was
//! born after p would die, and the rest stays in p. All else that they show, q shows too.

use super::history::History;
use crate::request::Weighing;
use crate::tree::Absent;
use crate::units::Epoch;

/// Most entries of lists to look at in one step.
pub(super) const LOOKS_MAX: usize = 4096;

impl History {
    /// The next state of a count, after a look at `looks_max` entries or fewer.
    pub(super) fn weigh(&self, weighing: Weighing, looks_max: usize) -> Result<Weighing, Absent> {
        let Some([list, run, born, block]) = weighing.at else { return Ok(weighing) };
        let (from, to) = (weighing.epochs.from, weighing.epochs.to);
        let before = self.kept_before(Some(from))?.unwrap_or(Epoch(0));
        let after = self.kept_at_or_after(Epoch(to.0 + 1))?.map_or(self.open_epoch(), |(epoch, _)| epoch);
        let mut next = Weighing { before, after, ..weighing };
        let list = if list > 0 { Some(Epoch(list)) } else { self.list_after(from, next)? };
        let Some(list) = list else { return Ok(Weighing { at: None, ..next }) };
        let mut at = (run, Epoch(born), block);
        for _ in 0..looks_max {
            let Some((run, span)) = self.deaths.from(&self.pages, list, at)? else {
                let list = self.list_after(list, next)?;
                return Ok(Weighing { at: list.map(|list| [list.0, 0, 0, 0]), ..next });
            };
            let count = if span.first.born > before { &mut next.dies } else { &mut next.stays };
            *count += span.len;
            at = (run, span.first.born, span.first.block.0 + span.len);
        }
        Ok(Weighing { at: Some([list.0, at.0, at.1.0, at.2]), ..next })
    }

    /// The first list after that of `epoch` that has versions to count; there is none if none of the epochs is kept.
    fn list_after(&self, epoch: Epoch, weighing: Weighing) -> Result<Option<Epoch>, Absent> {
        if epoch >= weighing.after {
            return Ok(None);
        }
        let first = self.kept_at_or_after(weighing.epochs.from)?.map(|(epoch, _)| epoch);
        let Some(first) = first.filter(|first| *first <= weighing.epochs.to) else { return Ok(None) };
        let next = self.kept_at_or_after(Epoch(epoch.max(first).0 + 1))?.map(|(epoch, _)| epoch);
        Ok(Some(next.filter(|next| *next < weighing.after).unwrap_or(weighing.after)))
    }
}
