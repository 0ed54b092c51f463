//! Which epochs change parts of the disk: from the lives of versions, as the index has them.

use super::refused::Refused;
use crate::disk::Step;
use crate::epochs;
use crate::open_disk::OpenDisk;
use quietus_core::base::units::{BLOCK_BYTES, Block, Epoch};
use quietus_core::request::{ChangingEpoch, Lives};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Most epochs in one answer, beyond those of its last part.
const EPOCHS_MAX: usize = 10_000;

/// Where the answer to [`Call::Lives`](super::Call::Lives) goes on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LivesAt {
    /// The range, by its place in the call, from 0 on.
    pub range: usize,
    /// The block of 4 KiB; one before the range means its first.
    pub block: u64,
    /// The epoch from which on the versions of that block count.
    pub epoch: u64,
}

/// The answer to [`Call::Lives`](super::Call::Lives).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Lived {
    /// For each range of the call the numbers of the epochs that change it, in order.
    pub ranges: Vec<Vec<u64>>,
    /// Each of these epochs once, in order.
    pub epochs: Vec<LivedEpoch>,
    /// Where to go on: the answers together have all epochs; `None` after the last one.
    pub next: Option<LivesAt>,
}

/// A kept epoch that changes a range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LivedEpoch {
    /// Its number.
    pub epoch: u64,
    /// When it closed; `null` if that is not known.
    #[serde(rename = "closed", with = "crate::base::rfc3339::or_unknown")]
    #[schemars(with = "Option<String>", extend("format" = "date-time"))]
    pub closed_ms: u64,
    /// The kept epoch before it; 0 if there is none.
    pub before: u64,
}

impl From<ChangingEpoch> for LivedEpoch {
    fn from(ChangingEpoch { epoch, closed_ms, before }: ChangingEpoch) -> Self {
        Self { epoch: epoch.0, closed_ms, before: before.0 }
    }
}

impl OpenDisk {
    /// The epochs that change each of `ranges` after the one that people call `from`.
    pub(super) fn lives(
        &self,
        from: &str,
        ranges: &[(u64, u64)],
        start: Option<LivesAt>,
        step: Step<'_>,
    ) -> Result<Lived, Refused> {
        let (since, open) = (self.epoch_meant(from)?, self.engine.open_epoch().unwrap_or_default());
        let mut lived = Lived { ranges: vec![Vec::new(); ranges.len()], epochs: Vec::new(), next: None };
        let (mut epochs, mut next) = (BTreeMap::new(), Some(start.unwrap_or_default()));
        while let Some(at) = next.filter(|at| at.range < ranges.len()) {
            if epochs.len() >= EPOCHS_MAX {
                lived.next = Some(at);
                break;
            }
            if !step(at.range as u64, ranges.len() as u64) {
                return Err(Refused::Interrupted);
            }
            let extent = self.within(ranges[at.range])?;
            let end = Block(extent.end().div_ceil(BLOCK_BYTES));
            let block = Block(at.block.max(extent.start.0 / BLOCK_BYTES).min(end.0));
            let lives = Lives { at: (block, Epoch(at.epoch.min(open.0))), end, since };
            let changes = epochs::changes(&self.engine, lives)?;
            lived.ranges[at.range].extend(changes.epochs.iter().map(|it| it.epoch.0));
            epochs.extend(changes.epochs.into_iter().map(|it| (it.epoch, it.into())));
            next = Some(match changes.next {
                Some((block, epoch)) => LivesAt { range: at.range, block: block.0, epoch: epoch.0 },
                None => LivesAt { range: at.range + 1, block: 0, epoch: 0 },
            });
        }
        for range in &mut lived.ranges {
            range.sort_unstable();
            range.dedup();
        }
        lived.epochs = epochs.into_values().collect();
        Ok(lived)
    }
}
