//! Forgetting some blocks in all versions up to an epoch, which leaves [gaps](crate::store::versions::index::gaps).

use crate::base::units::{Addr, BLOCK_BYTES, Block, Epoch, Extent};
use crate::mutant::{self, Mutant};
use crate::store::versions::index::history::{FREED, Forgotten, History};
use crate::store::versions::index::span::{Dead, Span};
use crate::tree::Absent;

/// Most versions that one step of a forget looks at.
const LOOKS_MAX: usize = 16;

/// How far the forget of some blocks is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::store::versions) struct ForgetBlocks {
    blocks: Extent<Addr>,
    /// The last epoch whose content is forgotten.
    to: Epoch,
    /// Whether the table has the gap.
    is_noted: bool,
    /// Where the search goes on.
    at: (Block, Epoch),
}

impl ForgetBlocks {
    pub(in crate::store::versions) fn new(blocks: Extent<Addr>, to: Epoch) -> Self {
        let first = Block(blocks.start.0 / BLOCK_BYTES);
        Self { blocks, to, is_noted: false, at: (first, Epoch(0)) }
    }
}

impl History {
    /// Removes a gap that no kept epoch has: whether there was one.
    pub(super) fn drop_idle_gap(&mut self) -> Result<bool, Absent> {
        let first = self.kept_at_or_after(Epoch(0))?.map_or(self.open, |(epoch, _)| epoch);
        self.gaps.drop_idle(&mut self.pages, first)
    }

    /// Takes the next step of a forget of blocks.
    pub(in crate::store::versions) fn forget_blocks_step(
        &mut self,
        forget: &mut ForgetBlocks,
    ) -> Result<Forgotten, Absent> {
        if !forget.is_noted {
            self.gaps.write(&mut self.pages, forget.blocks, forget.to)?;
            forget.is_noted = true;
            return Ok(Forgotten::More);
        }
        let mut owed = Vec::new();
        for n in 0..LOOKS_MAX {
            match self.forget_next(forget, &mut owed) {
                Err(absent) if n == 0 => return Err(absent),
                Ok(false) if n == 0 => return Ok(Forgotten::All),
                Err(_) | Ok(false) => break,
                Ok(true) => {}
            }
        }
        Ok(Forgotten::Versions(owed))
    }

    /// Looks at the next version; forgets it if it was born in time and has died. False if there is no other one.
    fn forget_next(&mut self, forget: &mut ForgetBlocks, owed: &mut Vec<Span>) -> Result<bool, Absent> {
        let (from, born) = forget.at;
        let end = forget.blocks.end() / BLOCK_BYTES;
        let next = self.version_from(from, born)?.filter(|(block, _)| block.0 < end);
        let Some((block, version)) = next else { return Ok(false) };
        let after = (block, Epoch(version.born.0 + 1));
        if version.born > forget.to {
            forget.at = (Block(block.0 + 1), Epoch(0));
            return Ok(true);
        }
        let died = self.version_from(block, after.1)?.filter(|(of, _)| *of == block).map(|(_, it)| it.born);
        // A version that a later state shows is not destroyed, whatever the volume has found before.
        if let Some(died) = died.filter(|_| version.slot != FREED)
            && !self.is_shown_after(forget.to, died)?
            && !self.is_spared(version.born, died)?
        {
            let dead = Dead { born: version.born, block, slot: version.slot };
            let list = self.list_of(died)?;
            self.deaths.take_out(&mut self.pages, list, dead)?;
            owed.extend(self.forget_span(Span::of(dead))?);
        }
        forget.at = after;
        Ok(true)
    }

    /// Whether an epoch after `to` is kept, and shows what died in epoch `died`.
    fn is_shown_after(&self, to: Epoch, died: Epoch) -> Result<bool, Absent> {
        let next = self.kept_at_or_after(Epoch(to.0 + 1))?;
        Ok(next.is_some_and(|(epoch, _)| epoch < died))
    }

    /// Whether a defect spares a version: two kept epochs show it.
    fn is_spared(&self, born: Epoch, died: Epoch) -> Result<bool, Absent> {
        if !mutant::is(Mutant::SpareShared) {
            return Ok(false);
        }
        let after = self.kept_at_or_after(born)?.map_or(died, |(first, _)| Epoch(first.0 + 1));
        Ok(self.kept_at_or_after(after)?.is_some_and(|(second, _)| second < died))
    }
}
