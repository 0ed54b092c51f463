//! Where two states show different versions: read off the tree of versions, block by block. A block that was never
//! written costs nothing, and neither do the versions of a block that neither state shows, beyond the page of each end.

use crate::base::blocks::BlockSet;
use crate::base::units::{BLOCK_BYTES, Block, Epoch, Extent};
use crate::store::versions::index::history::History;
use crate::store::versions::index::key::{number, pack};
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
        let [one, other] = births;
        Ok(Some((block, shown(one)? != shown(other)?)))
    }
}
