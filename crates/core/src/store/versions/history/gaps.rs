//! Blocks that were forgotten in all versions up to an epoch: *gaps* in what these epochs show. (*Secure Deletion for a
//! Versioning File System*, section 3.3.1, calls all versions of a block its chain.)
//!
//! A read of a gap is refused: the index has nothing there any more, and zeros would be a lie. So a gap stays known as
//! long as an epoch is kept that has it.

use super::{Dead, FREED, Forgotten, History, Span};
use crate::extents::{ExtentMap, Value};
use crate::mutant::{self, Mutant};
use crate::sealing::Block;
use crate::store::versions::key::{NUMBER, number, pack};
use crate::tree::{Absent, Pages, Root, Tree};
use crate::units::{Addr, BLOCK_BYTES, Epoch, Extent};
use roaring::RoaringBitmap;

/// Most versions that one step of a forget looks at.
const LOOKS_MAX: usize = 16;

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::store::versions) struct Gaps {
    /// By last epoch and first block: how many blocks.
    table: Tree<{ 2 * NUMBER }, NUMBER>,
    /// The last epoch that has the gap. Also the gaps that are not in the table yet.
    last: ExtentMap<Addr, Last>,
}

/// The last epoch that has a gap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Last(Epoch);

impl Value for Last {
    fn merged(&self, next: &Self) -> Option<Self> {
        (self == next).then_some(*self)
    }
}

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

impl Gaps {
    pub(super) fn new((id, root): (u8, Root)) -> Self {
        Self { table: Tree::new(id, root), last: ExtentMap::default() }
    }

    pub(super) fn root(&self) -> Root {
        self.table.root()
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.table.is_empty() && self.last.is_empty()
    }

    /// Reads the table, and adds its pages to `used`.
    pub(super) fn reach(&mut self, pages: &Pages, used: &mut RoaringBitmap) -> Result<(), Absent> {
        self.table.reach(pages, used)?;
        let mut from = [0; 2 * NUMBER];
        while let Some((key, blocks)) = self.table.at_or_after(pages, &from)? {
            let (to, first) = (number(&key, 0), number(&key, 1));
            self.note(Extent::new(first * BLOCK_BYTES, number(&blocks, 0) * BLOCK_BYTES), Epoch(to));
            from = pack(&[to, first + 1]);
        }
        Ok(())
    }

    /// Notes that no epoch up to this one shows these blocks any more.
    pub(in crate::store::versions) fn note(&mut self, blocks: Extent<Addr>, to: Epoch) {
        let mut parts = self.last.gaps(blocks);
        parts.extend(self.last.within(blocks).filter(|(_, last)| last.0 < to).map(|(part, _)| part));
        parts.into_iter().for_each(|part| self.last.insert(part, Last(to)));
    }

    /// The gaps of `epoch` within `extent`, in order.
    pub(in crate::store::versions) fn of(
        &self,
        epoch: Epoch,
        extent: Extent<Addr>,
    ) -> impl Iterator<Item = Extent<Addr>> {
        let has = move |last: &Last| epoch <= last.0 && !mutant::is(Mutant::HideGap);
        self.last.within(extent).filter(move |(_, last)| has(last)).map(|(part, _)| part)
    }

    fn write(&mut self, pages: &mut Pages, blocks: Extent<Addr>, to: Epoch) -> Result<(), Absent> {
        let key = pack(&[to.0, blocks.start.0 / BLOCK_BYTES]);
        let known = self.table.get(pages, &key)?.map_or(0, |known| number(&known, 0));
        let blocks = known.max(blocks.len / BLOCK_BYTES);
        self.table.insert(pages, &key, &pack(&[blocks])).map(drop)
    }

    /// Removes a gap that no epoch from `first` on has: whether there was one.
    fn drop_idle(&mut self, pages: &mut Pages, first: Epoch) -> Result<bool, Absent> {
        let oldest = self.table.at_or_after(pages, &[0; 2 * NUMBER])?;
        let Some((key, _)) = oldest.filter(|(key, _)| number(key, 0) < first.0) else { return Ok(false) };
        self.table.remove(pages, &key)?;
        let idle: Vec<_> =
            self.last.iter().filter(|(_, last)| last.0 < first).map(|(part, _)| part).collect();
        idle.into_iter().for_each(|part| self.last.remove(part));
        Ok(true)
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
            let list = self.kept_at_or_after(died)?.map_or(self.open, |(epoch, _)| epoch);
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
