//! In which epochs versions of some blocks were born or ended: read off the tree of versions, leaf by leaf. The entries of a block lie
//! side by side, in the order of their births.

use crate::base::units::{Block, Epoch};
use crate::store::versions::index::history::History;
use crate::store::versions::index::key::{NUMBER_MAX, number, pack};
use crate::tree::Absent;
use std::collections::BTreeSet;

impl History {
    /// The epochs after `since` in which a version was born or ended: of the blocks from `at` on (a block and a birth) and before
    /// `end`, as far as one leaf has them. And where to go on.
    pub(in crate::store::versions) fn births(
        &self,
        at: (Block, Epoch),
        end: Block,
        since: Epoch,
    ) -> Result<(BTreeSet<Epoch>, Option<(Block, Epoch)>), Absent> {
        let first = NUMBER_MAX.min(since.0.saturating_add(1));
        let from = pack(&[at.0.0, at.1.0.max(first)]);
        let (found, next) = self.versions.in_leaf(&self.pages, &from, &pack(&[end.0, 0]))?;
        let births = found.iter().map(|(key, _)| number(key, 1)).filter(|born| *born >= first);
        // Older versions of the next block are skipped.
        let next = next.map(|key| (Block(number(&key, 0)), Epoch(number(&key, 1).max(first))));
        assert!(next.is_none_or(|next| next > at), "each look goes on");
        Ok((births.map(Epoch).collect(), next))
    }
}
