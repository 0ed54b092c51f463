//! The answers to calls that forget blocks in all epochs: *chains* of versions.

use super::refused::Refused;
use super::reports::BlocksForgotten;
use crate::disk::Step;
use crate::engine::Entry;
use crate::engine::export::Export;
use crate::epochs;
use crate::open_disk::OpenDisk;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Block, Epoch, EpochRange, Extent, Scope, Slot};
use quietus_core::request::{Liveness, Refusal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Most ranges in one call: each is a forget, and the disk notes at most 256 at a time.
const RANGES_MAX: usize = 128;
/// How often a call begins again because an epoch has closed meanwhile.
const TRIES_MAX: u32 = 100;
/// How long it waits before.
const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The versions of some blocks in kept epochs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BlocksWeighed {
    /// The last epoch that is kept: what epochs up to this one show is counted.
    pub to: u64,
    /// Versions that only epochs show, in blocks.
    pub dies_blocks: u64,
    /// The range in bytes.
    pub dies_bytes: u64,
    /// Bytes of versions that the current state shows, too.
    pub current_bytes: u64,
    /// The first and the last epoch that showed any of these versions.
    pub shown_by: Option<EpochRange>,
    /// Why the forget would be refused: a hold.
    pub held: Option<String>,
}

impl OpenDisk {
    /// These ranges, if they are whole blocks of the disk.
    fn whole_blocks(&self, ranges: &[(u64, u64)]) -> Result<Vec<Extent<Addr>>, Refused> {
        if ranges.is_empty() || ranges.len() > RANGES_MAX {
            let refused = format!("{} ranges; name 1 to {RANGES_MAX} at once", ranges.len());
            return Err(refused.into());
        }
        ranges.iter().map(|(start, len)| self.whole_block(*start, *len)).collect()
    }

    fn whole_block(&self, start: u64, len: u64) -> Result<Extent<Addr>, Refused> {
        let size = self.engine.size();
        let extent = Extent::within(start, len, size).filter(|it| !it.is_empty()).ok_or_else(|| {
            format!("range {start}+{len} is empty, or not within the disk, which has {size} bytes")
        })?;
        let (from, to) =
            (start / BLOCK_BYTES * BLOCK_BYTES, extent.end().next_multiple_of(BLOCK_BYTES).min(size));
        if (from, to) != (start, extent.end()) {
            let whole = to - from;
            return Err(format!(
                "range {start}+{len} has a part of a block, and blocks of {BLOCK_BYTES} bytes are forgotten as a whole; \
                 use {from}+{whole} to forget all of them"
            )
            .into());
        }
        Ok(extent)
    }

    pub(super) fn weigh_blocks(
        &self,
        ranges: &[(u64, u64)],
        step: Step<'_>,
    ) -> Result<BlocksWeighed, Refused> {
        let blocks = self.whole_blocks(ranges)?;
        self.wait_until_all_forgotten(step)?;
        self.weigh_extents(&blocks, step)
    }

    /// The last epoch that is kept.
    fn last_kept(&self) -> Result<Epoch, Refused> {
        let last = epochs::last(&self.engine)?;
        Ok(last.map(|it| Epoch(it.epoch)).ok_or("no epoch is kept: `quietus purge` destroys blocks")?)
    }

    fn weigh_extents(&self, blocks: &[Extent<Addr>], step: Step<'_>) -> Result<BlocksWeighed, Refused> {
        let mut weighed = BlocksWeighed { to: self.last_kept()?.0, ..BlocksWeighed::default() };
        for extent in blocks {
            let count = |block, born, died| self.count_version(&mut weighed, block, born, died);
            self.each_version(*extent, step, count)?;
        }
        weighed.dies_bytes = weighed.dies_blocks * BLOCK_BYTES;
        Ok(weighed)
    }

    /// Counts a version that an epoch shows.
    fn count_version(&self, weighed: &mut BlocksWeighed, block: Block, born: Epoch, died: Option<Epoch>) {
        if born.0 > weighed.to {
            return;
        }
        match died {
            None if self.is_live(block) => weighed.current_bytes += BLOCK_BYTES,
            _ => weighed.dies_blocks += 1,
        }
        let last = died.map_or(weighed.to, |died| (died.0 - 1).min(weighed.to));
        let EpochRange { from, to } = weighed.shown_by.unwrap_or(EpochRange { from: born, to: Epoch(last) });
        weighed.shown_by = Some(EpochRange { from: from.min(born), to: to.max(Epoch(last)) });
        if weighed.held.is_none() {
            let held = self.names.check_held(EpochRange { from: born, to: Epoch(last) });
            weighed.held = held.err().map(|error| error.to_string());
        }
    }

    /// Whether the current state shows content in a block: what is dead by address has not left its place yet.
    fn is_live(&self, block: Block) -> bool {
        let start = block.0 * BLOCK_BYTES;
        let extent = Extent::between(start, (start + BLOCK_BYTES).min(self.engine.size()));
        let runs = self.engine.ask(|volume| volume.liveness(extent, 1));
        !matches!(runs.first(), Some((_, Liveness::Dead | Liveness::Queued)))
    }

    /// Shows `look` all versions of the blocks of `extent`: the block, the version's birth, and the epoch that ended it.
    fn each_version(
        &self,
        extent: Extent<Addr>,
        step: Step<'_>,
        mut look: impl FnMut(Block, Epoch, Option<Epoch>),
    ) -> Result<(), Refused> {
        let end = extent.end().div_ceil(BLOCK_BYTES);
        let mut from = Some((Block(extent.start.0 / BLOCK_BYTES), Epoch(0)));
        let mut last: Option<(Block, Epoch, Option<Slot>)> = None;
        while let Some((block, born)) = from.filter(|(block, _)| block.0 < end) {
            if !step(0, 1) {
                return Err(Refused::Interrupted);
            }
            let listed = epochs::versions(&self.engine, block, born)?;
            for next in listed.versions.into_iter().map(Some).chain(listed.next.is_none().then_some(None)) {
                let before = std::mem::replace(&mut last, next).filter(|(block, ..)| block.0 < end);
                if let Some((block, born, Some(_))) = before {
                    let died = next.filter(|(of, ..)| *of == block).map(|(_, died, _)| died);
                    look(block, born, died);
                }
            }
            from = listed.next;
        }
        Ok(())
    }

    pub(super) fn forget_blocks(
        &self,
        ranges: &[(u64, u64)],
        current: bool,
        wait: bool,
        step: Step<'_>,
    ) -> Result<BlocksForgotten, Refused> {
        let blocks = self.whole_blocks(ranges)?;
        for _ in 0..TRIES_MAX {
            let deciding = self.names.decide();
            let weighed = self.weigh_extents(&blocks, step)?;
            if let Some(held) = weighed.held {
                return Err(held.into());
            }
            if weighed.current_bytes > 0 {
                if !current {
                    let bytes = weighed.current_bytes;
                    return Err(format!(
                        "the current state shows {bytes} bytes of these blocks that epochs show, too: they would be destroyed; \
                         use --current to purge them first, or let the guest delete or overwrite them"
                    )
                    .into());
                }
                self.purge(ranges, false)?;
            }
            let to = Epoch(weighed.to);
            let intended = self.intend(&blocks, to, step)?;
            drop(deciding);
            if let Some(scopes) = intended {
                if wait {
                    scopes.into_iter().try_for_each(|scope| self.wait_until_forgotten(scope, step))?;
                }
                return Ok(BlocksForgotten { ranges: blocks, to: to.0, done: wait });
            }
            std::thread::sleep(AGAIN_AFTER);
        }
        Err("epochs close too fast: try again with less frequent epochs".into())
    }

    /// Notes durably that these blocks are to be forgotten in all epochs up to `to`; `None` if another epoch closes
    /// meanwhile.
    fn intend(
        &self,
        blocks: &[Extent<Addr>],
        to: Epoch,
        step: Step<'_>,
    ) -> Result<Option<Vec<Scope>>, Refused> {
        let epochs = EpochRange { from: Epoch(1), to };
        let mut scopes = Vec::new();
        for extent in blocks {
            let whole = Extent::between(extent.start.0, extent.end().next_multiple_of(BLOCK_BYTES));
            let scope = Scope { epochs, blocks: Some(whole) };
            // Others may have filled the list.
            while self.engine.status().owed.forgets.len() >= 2 * RANGES_MAX - 1 {
                let Some(first) = self.engine.status().owed.forgets.first().copied() else { break };
                self.wait_until_forgotten(first, step)?;
            }
            match epochs::forget(&self.engine, scope) {
                Err(Refusal::Invalid(_)) => return Ok(None),
                outcome => outcome?,
            }
            let (from, to) = (epochs.from.0, epochs.to.0);
            self.engine.recorder().note(Entry::Forgets { from, to, blocks: scope.blocks, by_rule: false });
            scopes.push(scope);
        }
        Ok(Some(scopes))
    }
}
