//! Where two states show different versions: read off the tree of versions, block by block. A block that was never
//! written costs nothing, and neither do the versions of a block that neither state shows, beyond the page of each end.

use crate::base::blocks::BlockSet;
use crate::base::units::{BLOCK_BYTES, Block, Epoch, Extent};
use crate::store::versions::index::history::{History, Version};
use crate::store::versions::index::key::{number, pack};
use crate::store::versions::index::span::is_tombstone;
use crate::tree::Absent;
use std::ops::Range;

impl History {
    /// The `blocks` whose last versions born by the one and by the other epoch differ, and the first block that was
    /// not compared: after a look at `looks_max` that the tree knows, or where a page is absent, but for the first look.
    pub(in crate::store::versions) fn compare(
        &self,
        blocks: Range<u64>,
        births: [Epoch; 2],
        looks_max: usize,
    ) -> Result<(BlockSet, u64), Absent> {
        let (mut differing, mut at) = (BlockSet::default(), blocks.start);
        for _ in 0..looks_max {
            match self.next_compared(at, births) {
                Err(absent) if at == blocks.start => return Err(absent),
                Err(_) => break,
                Ok(Some((block, differs))) if block < blocks.end => {
                    if differs {
                        differing.insert(Extent::new(block * BLOCK_BYTES, BLOCK_BYTES));
                    }
                    at = block + 1;
                }
                Ok(_) => return Ok((differing, blocks.end)),
            }
        }
        assert!(at <= blocks.end, "only blocks that were asked for are compared");
        Ok((differing, at))
    }

    /// The next block from `from` on that the tree knows, and whether its versions differ.
    fn next_compared(&self, from: u64, births: [Epoch; 2]) -> Result<Option<(u64, bool)>, Absent> {
        let Some((first, _)) = self.versions.at_or_after(&self.pages, &pack(&[from, 0]))? else {
            return Ok(None);
        };
        let (block, born) = (number(&first, 0), Epoch(number(&first, 1)));
        let shown = |by: Epoch| if by < born { Ok(None) } else { self.shown(Block(block), by) };
        let [one, other] = [shown(births[0])?, shown(births[1])?];
        // What a tombstone stands for was content, and is not known any more.
        let is_stone = |it: Option<Version>| it.is_some_and(|it| is_tombstone(it.slot));
        let is_unknown = (is_stone(one) || is_stone(other)) && births[0] != births[1];
        Ok(Some((block, one != other || is_unknown)))
    }

    /// The first of the `blocks` of which `epoch` shows a tombstone, and the first that was not looked at: after a look at `looks_max`
    /// that the tree knows, or where a page is absent, but for the first look.
    pub(in crate::store::versions) fn find_tombstone(
        &self,
        blocks: Range<u64>,
        epoch: Epoch,
        looks_max: usize,
    ) -> Result<(Option<u64>, u64), Absent> {
        let is_stone = |block| {
            let shown = self.shown(Block(block), epoch)?;
            Ok(shown.filter(|it| is_tombstone(it.slot)).map(drop))
        };
        let (found, end) = self.find_block(blocks, looks_max, is_stone)?;
        Ok((found.map(|(block, ())| block), end))
    }

    /// The first of the `blocks` of which both epochs of a pair show the same version, the first epoch of that pair; and the first block
    /// that was not looked at, as above.
    pub(in crate::store::versions) fn find_shared(
        &self,
        blocks: Range<u64>,
        pairs: [Option<(Epoch, Epoch)>; 2],
        looks_max: usize,
    ) -> Result<(Option<(u64, Epoch)>, u64), Absent> {
        let shared_by = |block| {
            for (one, other) in pairs.into_iter().flatten() {
                let shown = self.shown(Block(block), other)?.filter(|it| !is_tombstone(it.slot));
                if shown.is_some() && self.shown(Block(block), one)? == shown {
                    return Ok(Some(one));
                }
            }
            Ok(None)
        };
        self.find_block(blocks, looks_max, shared_by)
    }

    /// The first of the `blocks` of which `look` says something, and that; and the first that was not looked at.
    fn find_block<T>(
        &self,
        blocks: Range<u64>,
        looks_max: usize,
        look: impl Fn(u64) -> Result<Option<T>, Absent>,
    ) -> Result<(Option<(u64, T)>, u64), Absent> {
        let mut at = blocks.start;
        let next = |at| {
            let known = self.versions.at_or_after(&self.pages, &pack(&[at, 0]))?;
            let block = known.map(|(key, _)| number(&key, 0)).filter(|block| *block < blocks.end);
            block.map(|block| Ok((block, look(block)?))).transpose()
        };
        for _ in 0..looks_max {
            match next(at) {
                Err(absent) if at == blocks.start => return Err(absent),
                Err(_) => break,
                Ok(None) => return Ok((None, blocks.end)),
                Ok(Some((block, Some(found)))) => return Ok((Some((block, found)), block)),
                Ok(Some((block, None))) => at = block + 1,
            }
        }
        Ok((None, at.min(blocks.end)))
    }
}
