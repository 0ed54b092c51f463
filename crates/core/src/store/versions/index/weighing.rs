//! Counting what would die with some epochs, without forgetting them.
//!
//! Let *p* be the kept epoch before them, and *q* the one after them. What they show and q does not has died after the
//! first of them and by q; so it is in the lists of the others of them, and of q ([`crate::store::versions::index::deaths`]). Of that, what was
//! born after p would die, and the rest stays in p. All else that they show, q shows too.

use crate::base::units::Epoch;
use crate::request::Weighing;
use crate::store::versions::index::history::History;
use crate::tree::Absent;

/// Most pages of the lists of the dead to look at in one step.
pub(in super::super) const PAGES_MAX: usize = 64;

impl History {
    /// The next state of a count, after a look at `pages_max` pages or fewer.
    pub(in super::super) fn weigh(&self, weighing: Weighing, pages_max: usize) -> Result<Weighing, Absent> {
        let Some([list, run, born, block]) = weighing.at else { return Ok(weighing) };
        let (from, to) = (weighing.epochs.from, weighing.epochs.to);
        let before = self.kept_before(Some(from))?.unwrap_or(Epoch(0));
        let after = self.kept_at_or_after(Epoch(to.0 + 1))?.map_or(self.open_epoch(), |(epoch, _)| epoch);
        let mut next = Weighing { before, after, ..weighing };
        let list = if list > 0 { Some(Epoch(list)) } else { self.list_after(from, next)? };
        let Some(list) = list else { return Ok(Weighing { at: None, ..next }) };
        let mut at = [run, born, block];
        for n in 0..pages_max {
            match self.deaths.count_from(&self.pages, list, before, at) {
                Err(absent) if n == 0 => return Err(absent),
                Err(_) => break,
                Ok(None) => {
                    let list = self.list_after(list, next)?;
                    return Ok(Weighing { at: list.map(|list| [list.0, 0, 0, 0]), ..next });
                }
                Ok(Some((count, is_young, to))) => {
                    *if is_young { &mut next.dies } else { &mut next.stays } += count;
                    at = to;
                }
            }
        }
        let [run, born, block] = at;
        Ok(Weighing { at: Some([list.0, run, born, block]), ..next })
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
