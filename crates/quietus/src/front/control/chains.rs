//! The answers to calls that forget blocks: in all epochs, whole *chains* of versions; or the versions that some epochs show.

use super::epochs::Epochs;
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
pub(super) const TRIES_MAX: u32 = 100;
/// How long it waits before.
pub(super) const AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The versions of some blocks in kept epochs.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct BlocksWeighed {
    /// The first of the epochs; absent if all are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The last of the epochs, which is the last that is kept if all are meant.
    pub to: u64,
    /// Versions that only these epochs show, in blocks.
    pub dies_blocks: u64,
    /// The range in bytes.
    pub dies_bytes: u64,
    /// Bytes of versions that the current state shows, too.
    pub current_bytes: u64,
    /// Bytes of versions that other epochs show, too, and the current state does not.
    #[serde(default)]
    pub others_bytes: u64,
    /// The first and the last epoch that showed any of these versions.
    pub shown_by: Option<EpochRange>,
    /// Why the forget would be refused: a hold.
    pub held: Option<String>,
}

impl BlocksWeighed {
    /// Why the forget is refused, if something else shows what would die, and what to do.
    fn shows_too(&self, meant: &Meant) -> Option<String> {
        let (current, others) = (self.current_bytes, self.others_bytes);
        if current > 0 && !meant.only {
            return Some(format!(
                "the current state shows {current} bytes of these blocks that epochs show, too: they would be destroyed; \
                 use --current to purge them first, or let the guest delete or overwrite them"
            ));
        }
        let EpochRange { from, to } = meant.range;
        if current > 0 {
            return Some(format!(
                "the current state shows {current} bytes of these blocks that epochs {} to {} show, too: they would be \
                 destroyed; let the guest delete or overwrite them, or name other blocks",
                from.0, to.0
            ));
        }
        let EpochRange { from: first, to: last } = self.shown_by.filter(|_| others > 0)?;
        Some(format!(
            "other epochs show {others} bytes of these blocks that epochs {} to {} show, too: they would be destroyed; name epochs {} \
             to {}, or other blocks",
            from.0, to.0, first.0, last.0
        ))
    }
}

/// The epochs that a call means.
pub(super) struct Meant {
    /// All that are kept, in order.
    pub(super) kept: Vec<Epoch>,
    pub(super) range: EpochRange,
    /// Only these; else all up to the last, which is the last one that is kept.
    pub(super) only: bool,
}

impl Meant {
    /// The first and the last kept epoch that show what was `born` and `died` then, and whether all of them are meant. `None` if no epoch
    /// that is meant shows it.
    fn shown(&self, born: Epoch, died: Option<Epoch>) -> Option<(EpochRange, bool)> {
        let first = self.kept.partition_point(|epoch| *epoch < born);
        let end = died.map_or(self.kept.len(), |died| self.kept.partition_point(|epoch| *epoch < died));
        let shown = self.kept.get(first..end).filter(|shown| !shown.is_empty())?;
        let range = EpochRange { from: shown[0], to: shown[shown.len() - 1] };
        let meets = shown.iter().any(|epoch| self.range.contains(*epoch));
        let is_among = self.range.contains(range.from) && self.range.contains(range.to);
        meets.then_some((range, is_among))
    }
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

    pub(super) fn whole_block(&self, start: u64, len: u64) -> Result<Extent<Addr>, Refused> {
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
        epochs: Option<&Epochs>,
        step: Step<'_>,
    ) -> Result<BlocksWeighed, Refused> {
        let blocks = self.whole_blocks(ranges)?;
        self.wait_until_all_forgotten(step)?;
        self.weigh_extents(&blocks, &self.meant(epochs)?, step)
    }

    /// The epochs of a call, among those that are kept.
    pub(super) fn meant(&self, epochs: Option<&Epochs>) -> Result<Meant, Refused> {
        let mut kept: Vec<Epoch> = Vec::new();
        loop {
            let part = epochs::list(&self.engine, Epoch(kept.last().map_or(0, |last| last.0 + 1)))?;
            if part.is_empty() {
                break;
            }
            kept.extend(part.iter().map(|it| Epoch(it.epoch)));
        }
        let last = *kept.last().ok_or("no epoch is kept: `quietus purge` destroys blocks")?;
        let only = epochs.map(|epochs| self.range(epochs)).transpose()?;
        let range = only.unwrap_or(EpochRange { from: Epoch(1), to: last });
        Ok(Meant { kept, range, only: only.is_some() })
    }

    fn weigh_extents(
        &self,
        blocks: &[Extent<Addr>],
        meant: &Meant,
        step: Step<'_>,
    ) -> Result<BlocksWeighed, Refused> {
        let Meant { range, only, .. } = meant;
        let from = Some(range.from.0).filter(|_| *only);
        let mut weighed = BlocksWeighed { from, to: range.to.0, ..BlocksWeighed::default() };
        for extent in blocks {
            let count = |block, born, died| self.count_version(&mut weighed, meant, block, (born, died));
            self.each_version(*extent, step, count)?;
        }
        weighed.dies_bytes = weighed.dies_blocks * BLOCK_BYTES;
        Ok(weighed)
    }

    /// Counts a version that one of the epochs shows.
    pub(super) fn count_version(
        &self,
        weighed: &mut BlocksWeighed,
        meant: &Meant,
        block: Block,
        (born, died): (Epoch, Option<Epoch>),
    ) {
        let Some((shown, is_among)) = meant.shown(born, died) else { return };
        match died {
            None if self.is_live(block) => weighed.current_bytes += BLOCK_BYTES,
            _ if !is_among => weighed.others_bytes += BLOCK_BYTES,
            _ => weighed.dies_blocks += 1,
        }
        let EpochRange { from, to } = weighed.shown_by.unwrap_or(shown);
        weighed.shown_by = Some(EpochRange { from: from.min(shown.from), to: to.max(shown.to) });
        if weighed.held.is_none() {
            let held = self.names.check_held(shown);
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
    pub(super) fn each_version(
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
        epochs: Option<&Epochs>,
        (current, wait): (bool, bool),
        step: Step<'_>,
    ) -> Result<BlocksForgotten, Refused> {
        if current && epochs.is_some() {
            return Err("`current` is for a forget in all epochs; name none".into());
        }
        let blocks = self.whole_blocks(ranges)?;
        for _ in 0..TRIES_MAX {
            let deciding = self.names.decide();
            let meant = self.meant(epochs)?;
            let weighed = self.weigh_extents(&blocks, &meant, step)?;
            let shows_too = weighed.shows_too(&meant);
            if let Some(held) = weighed.held {
                return Err(held.into());
            }
            match shows_too {
                None => {}
                Some(_) if current => _ = self.purge(ranges, false)?,
                Some(refused) => return Err(refused.into()),
            }
            let intended = self.intend(&blocks, &meant, step)?;
            drop(deciding);
            if let Some(scopes) = intended {
                if wait {
                    scopes.into_iter().try_for_each(|scope| self.wait_until_forgotten(scope, step))?;
                }
                return Ok(BlocksForgotten {
                    ranges: blocks,
                    from: weighed.from,
                    to: weighed.to,
                    done: wait,
                });
            }
            std::thread::sleep(AGAIN_AFTER);
        }
        Err("epochs close too fast: try again with less frequent epochs".into())
    }

    /// Notes durably that these blocks are to be forgotten in the epochs; `None` if another epoch closes meanwhile.
    fn intend(
        &self,
        blocks: &[Extent<Addr>],
        meant: &Meant,
        step: Step<'_>,
    ) -> Result<Option<Vec<Scope>>, Refused> {
        let mut scopes = Vec::new();
        for extent in blocks {
            let whole = with_last_block(*extent);
            let scope = if meant.only { Scope::shown } else { Scope::chain }(meant.range, whole);
            self.wait_for_turn(step)?;
            match epochs::forget(&self.engine, scope) {
                Err(Refusal::Invalid(_)) => return Ok(None),
                outcome => outcome?,
            }
            self.engine.recorder().note(Entry::Forgets { scope, by_rule: false });
            scopes.push(scope);
        }
        Ok(Some(scopes))
    }

    /// Waits until one more forget can be noted: others may have filled the list.
    pub(super) fn wait_for_turn(&self, step: Step<'_>) -> Result<(), Refused> {
        while self.engine.status().owed.forgets.len() >= 2 * RANGES_MAX - 1 {
            let Some(first) = self.engine.status().owed.forgets.first().copied() else { break };
            self.wait_until_forgotten(first, step)?;
        }
        Ok(())
    }
}

/// Blocks with all of the last one, of which the disk may have a part only.
pub(super) fn with_last_block(extent: Extent<Addr>) -> Extent<Addr> {
    Extent::between(extent.start.0, extent.end().next_multiple_of(BLOCK_BYTES))
}
