//! What is read off the tree of versions leaf by leaf: in which epochs versions of some blocks were born or ended, and which blocks have
//! content now. The entries of a block lie side by side, in the order of their births.

use crate::base::units::{Block, Epoch};
use crate::store::versions::index::history::{FREED, History};
use crate::store::versions::index::key::{NUMBER, NUMBER_MAX, number, pack};
use crate::tree::Absent;
use std::collections::BTreeSet;

/// A version by its block and birth.
type Key = (Block, Epoch);

impl History {
    /// The epochs after `since` in which a version was born or ended: of the blocks from `at` on and before
    /// `end`, as far as one leaf has them. And where to go on.
    pub(in crate::store::versions) fn births(
        &self,
        at: Key,
        end: Block,
        since: Epoch,
    ) -> Result<(BTreeSet<Epoch>, Option<Key>), Absent> {
        let first = NUMBER_MAX.min(since.0.saturating_add(1));
        let from = pack(&[at.0.0.min(NUMBER_MAX), at.1.0.clamp(first, NUMBER_MAX)]);
        let (found, next) = self.versions.in_leaf(&self.pages, &from, &pack(&[end.0, 0]))?;
        let births = found.iter().map(|(key, _)| number(key, 1)).filter(|born| *born >= first);
        // Older versions of the next block are skipped.
        let next = next.map(|key| (Block(number(&key, 0)), Epoch(number(&key, 1).max(first))));
        assert!(next.is_none_or(|next| next > at), "each look goes on");
        Ok((births.map(Epoch).collect(), next))
    }

    /// The blocks that have content now, in order: those whose last version lies in the same page as the first version from
    /// `from` (a block and a birth) on. And the version to go on from, if there is one.
    pub(in crate::store::versions) fn shown_from(
        &self,
        from: [u64; 2],
    ) -> Result<(Vec<Block>, Option<[u64; 2]>), Absent> {
        let of = |key: &[u8; 2 * NUMBER]| number(key, 0);
        let (found, next) = self.versions.in_leaf(&self.pages, &pack(&from), &[0xff; 2 * NUMBER])?;
        let followers = found.iter().skip(1).map(|(key, _)| Some(of(key))).chain([next.as_ref().map(of)]);
        let last = found.iter().zip(followers).filter(|((key, _), next)| *next != Some(of(key)));
        let shown = last.filter(|((_, slot), _)| number(slot, 0) != FREED.0);
        Ok((
            shown.map(|((key, _), _)| Block(of(key))).collect(),
            next.map(|key| [0, 1].map(|n| number(&key, n))),
        ))
    }
}
