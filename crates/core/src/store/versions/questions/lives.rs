//! Which kept epochs change some blocks.

use crate::base::units::{BLOCK_BYTES, Extent};
use crate::request::{Changes, ChangingEpoch, Lives};
use crate::store::versions::Versions;
use crate::store::versions::positions::Missing;
use crate::tree::Absent;

/// Most leaves of the index that one question looks at: meanwhile the guest waits.
const LEAVES_MAX: usize = 8;

impl Versions {
    /// The kept epochs that change blocks; or the page that is missing at the start.
    pub(in super::super) fn list_changes(&self, lives: &Lives) -> Result<Changes, Missing> {
        // The index does not know yet what waits for this.
        self.stuck.map_or(Ok(()), Err)?;
        let mut changes = Changes { epochs: Vec::new(), next: Some(lives.at) };
        for n in 0..LEAVES_MAX {
            let Some(at) = changes.next else { break };
            match self.changes_in_leaf(&Lives { at, ..*lives }) {
                Err(absent) if n == 0 => return Err(absent.into()),
                Err(_) => break,
                Ok(more) => {
                    changes.epochs.extend(more.epochs);
                    changes.next = more.next;
                }
            }
        }
        changes.epochs.sort_unstable();
        changes.epochs.dedup();
        Ok(changes)
    }

    /// The same, as far as one leaf of the index tells.
    fn changes_in_leaf(&self, lives: &Lives) -> Result<Changes, Absent> {
        let history = &self.catalog.history;
        let (mut births, next) = history.births(lives.at, lives.end, lives.since)?;
        let behind = next.map_or(lives.end, |(block, _)| block);
        let seen = Extent::between(lives.at.0.0 * BLOCK_BYTES, behind.0 * BLOCK_BYTES);
        // The first epoch behind a gap shows what the one before it does not show.
        births.extend(history.gaps.ends(seen).filter(|epoch| *epoch > lives.since));
        let mut epochs = Vec::<ChangingEpoch>::new();
        for born in births {
            if epochs.last().is_some_and(|last| born <= last.epoch) {
                continue;
            }
            let shown = self.stays_from(born)?.filter(|(epoch, _)| *epoch < self.shown_before());
            let Some((epoch, end)) = shown else { break };
            let before = self.stays_before(epoch)?.unwrap_or_default();
            epochs.push(ChangingEpoch { epoch, closed_ms: end.when.0, before });
        }
        Ok(Changes { epochs, next })
    }
}
