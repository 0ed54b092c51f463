//! Forgetting single versions of blocks while the epochs that show them are kept: each leaves a *tombstone* (*Secure Deletion for a
//! Versioning File System*, section 3.3: a version of a block is deleted, and its block's others stay).
//!
//! 1. A version gets a tombstone only if each kept epoch that shows it is among those of the forget, and the open epoch does not.
//! 2. A tombstone has the place of its version: among the versions of its block, and in the lists of the dead. So births and deaths of the
//!    others stay what they are, and it goes with the last epoch that shows it.
//! 3. A step that is taken again changes nothing.

use crate::base::units::{Addr, BLOCK_BYTES, Block, Epoch, EpochRange, Extent};
use crate::mutant::{self, Mutant};
use crate::store::versions::index::history::{FREED, Forgotten, History, Version};
use crate::store::versions::index::key::pack;
use crate::store::versions::index::span::{Dead, Span, is_tombstone, tombstone};
use crate::tree::Absent;

/// Most versions that one step of a forget looks at.
const LOOKS_MAX: usize = 16;

/// How far the forget of what some epochs show of some blocks is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store::versions) struct ForgetShown {
    epochs: EpochRange,
    /// Where the search goes on, and the block where it ends.
    at: (Block, Epoch),
    end: Block,
}

impl ForgetShown {
    pub(in crate::store::versions) fn new(blocks: Extent<Addr>, epochs: EpochRange) -> Self {
        let [first, end] = [blocks.start.0, blocks.end()].map(|it| Block(it / BLOCK_BYTES));
        Self { epochs, at: (first, Epoch(0)), end }
    }
}

impl History {
    /// Takes the next step of a forget of what some epochs show.
    pub(in crate::store::versions) fn forget_shown_step(
        &mut self,
        forget: &mut ForgetShown,
    ) -> Result<Forgotten, Absent> {
        let mut owed = Vec::new();
        for n in 0..LOOKS_MAX {
            match self.amend_next(forget) {
                Err(absent) if n == 0 => return Err(absent),
                Ok(None) if n == 0 => return Ok(Forgotten::All),
                Err(_) | Ok(None) => break,
                Ok(Some(dead)) => owed.extend(dead),
            }
        }
        Ok(Forgotten::Versions(Span::all_of(owed.into_iter())))
    }

    /// Looks at the next version: that, if it was forgotten. `None` if there is no other one.
    fn amend_next(&mut self, forget: &mut ForgetShown) -> Result<Option<Option<Dead>>, Absent> {
        let (from, born) = forget.at;
        let next = self.version_from(from, born)?.filter(|(block, _)| *block < forget.end);
        let Some((block, Version { born, slot })) = next else { return Ok(None) };
        if born > forget.epochs.to {
            forget.at = (Block(block.0 + 1), Epoch(0));
            return Ok(Some(None));
        }
        let after = (block, Epoch(born.0 + 1));
        let died = self.version_from(block, after.1)?.filter(|(of, _)| *of == block).map(|(_, it)| it.born);
        let died = died.or(Some(self.open).filter(|_| mutant::is(Mutant::AmendCurrent)));
        let mut amended = None;
        if let Some(died) = died
            && slot != FREED
            && !is_tombstone(slot)
            && self.is_shown_by_these(born, died, forget.epochs)?
        {
            let dead = Dead { born, block, slot };
            self.amend(dead, died)?;
            amended = Some(dead);
        }
        forget.at = after;
        Ok(Some(amended))
    }

    /// Whether a kept epoch shows what was `born` and `died` then, and only these do.
    fn is_shown_by_these(&self, born: Epoch, died: Epoch, epochs: EpochRange) -> Result<bool, Absent> {
        let first = self.kept_at_or_after(born)?.map(|(epoch, _)| epoch).filter(|first| *first < died);
        let last = self.kept_before(Some(died))?;
        let are_these = |(first, last)| epochs.contains(first) && epochs.contains(last);
        let any_is =
            |(first, last)| mutant::is(Mutant::AmendShared) && epochs.from <= last && first <= epochs.to;
        Ok(first.zip(last).is_some_and(|shown| are_these(shown) || any_is(shown)))
    }

    /// Puts a tombstone in the place of a version that died then, and owes the version.
    fn amend(&mut self, dead: Dead, died: Epoch) -> Result<(), Absent> {
        let (key, stone) = (pack(&[dead.block.0, dead.born.0]), Dead { slot: tombstone(dead.slot), ..dead });
        let list = self.list_of(died)?;
        self.owed_at(dead.slot)?;
        self.versions.get(&self.pages, &key)?;
        // From here on each part can be done again, up to the last two, whose pages are in memory.
        self.deaths.take_out(&mut self.pages, list, dead)?;
        self.deaths.add(&mut self.pages, list, stone)?;
        self.owe(Span::of(dead))?;
        self.versions.insert(&mut self.pages, &key, &pack(&[stone.slot.0])).map(drop)
    }
}
