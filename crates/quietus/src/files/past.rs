//! What is known of the past of a disk: the epochs that change what was looked at, and what the blocks there had until then. So each
//! version of a block is read once.

use super::disk::Disk;
use crate::front::control::{Call, Lived, LivedEpoch, Refused};
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_files::Unread;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Most ranges of one call.
pub(super) const RANGES_MAX: usize = 10_000;
/// Most blocks whose content is kept.
const BLOCKS_MAX: usize = 8192;
/// Most bytes of a read whose content is kept.
pub(super) const KEPT_READ_BYTES_MAX: u64 = 64 << 10;

/// The epochs that change a part of the disk.
struct Changed {
    /// Epochs after this one are known.
    since: u64,
    /// Their numbers.
    epochs: Vec<u64>,
}

impl Changed {
    /// The first epoch after `epoch`.
    fn after(&self, epoch: u64) -> Option<u64> {
        self.epochs.get(self.epochs.partition_point(|it| *it <= epoch)).copied()
    }
}

/// See the module's documentation.
#[derive(Default)]
pub struct Past {
    /// By part of the disk.
    changed: HashMap<Extent<Addr>, Changed>,
    epochs: BTreeMap<u64, LivedEpoch>,
    /// By the number of a block: an epoch, and what that shows.
    content: HashMap<u64, (u64, Vec<u8>)>,
}

impl Past {
    /// Asks which epochs after `since` change those of `parts` that are not known yet, and forgets all other `runs`.
    pub fn learn(&mut self, disk: &Disk, parts: &[Extent<Addr>], since: u64) -> Result<(), Refused> {
        let wanted: HashSet<_> = parts.iter().copied().collect();
        // Blocks were looked at one by one, and may be again; runs are of content, which moves.
        self.changed.retain(|part, _| part.len <= BLOCK_BYTES || wanted.contains(part));
        let unknown: Vec<_> = wanted.into_iter().filter(|part| !self.changed.contains_key(part)).collect();
        for some in unknown.chunks(RANGES_MAX) {
            self.ask(disk, some, since)?;
        }
        Ok(())
    }

    fn ask(&mut self, disk: &Disk, parts: &[Extent<Addr>], since: u64) -> Result<(), Refused> {
        let ranges: Vec<_> = parts.iter().map(|part| (part.start.0, part.len)).collect();
        let (mut found, mut start) = (vec![Vec::new(); parts.len()], None);
        loop {
            let call = Call::Lives { from: since.to_string(), ranges: ranges.clone(), start };
            let lived: Lived = disk.ask(&call)?;
            found.iter_mut().zip(lived.ranges).for_each(|(all, more)| all.extend(more));
            self.epochs.extend(lived.epochs.into_iter().map(|it| (it.epoch, it)));
            start = lived.next;
            if start.is_none() {
                break;
            }
        }
        for (part, mut epochs) in parts.iter().zip(found) {
            epochs.sort_unstable();
            epochs.dedup();
            self.changed.insert(*part, Changed { since, epochs });
        }
        Ok(())
    }

    /// The first epoch after `epoch` that changes any of `parts`, which are known.
    pub fn next_change(&self, parts: &[Extent<Addr>], epoch: u64) -> Option<LivedEpoch> {
        let next = parts.iter().filter_map(|part| self.changed.get(part)?.after(epoch)).min()?;
        self.epochs.get(&next).copied()
    }

    /// The bytes of `at`, at most [`KEPT_READ_BYTES_MAX`], as `epoch` shows them on a disk of this size.
    pub fn read(
        &mut self,
        disk: &Disk,
        (epoch, size_bytes): (u64, u64),
        at: Extent<Addr>,
    ) -> Result<Vec<u8>, Unread> {
        if self.content.len() >= BLOCKS_MAX {
            self.content.clear();
        }
        let blocks = at.start.0 / BLOCK_BYTES..at.end().div_ceil(BLOCK_BYTES);
        let missing: Vec<u64> = blocks.clone().filter(|block| !self.has(*block, epoch)).collect();
        for run in missing.chunk_by(|one, next| one + 1 == *next) {
            let (first, last) = (run[0], run[run.len() - 1]);
            let end = size_bytes.min((last + 1) * BLOCK_BYTES);
            let content = disk.content(Some(epoch), Extent::between(first * BLOCK_BYTES, end))?;
            let parts = content.chunks(BLOCK_BYTES as usize).map(|part| (epoch, part.to_vec()));
            self.content.extend((first..).zip(parts));
        }
        let mut bytes = Vec::with_capacity(at.len as usize);
        for block in blocks {
            let here = Extent::new(block * BLOCK_BYTES, BLOCK_BYTES);
            let part = here.overlap(at).unwrap_or_default();
            let from = (part.start.0 - here.start.0) as usize;
            let known = self.content.get(&block).and_then(|(_, it)| it.get(from..from + part.len as usize));
            let beyond = || Unread(format!("byte {} lies behind the end of the disk", part.start.0));
            bytes.extend(known.ok_or_else(beyond)?);
        }
        Ok(bytes)
    }

    /// Whether the content of `block` at `epoch` is known.
    fn has(&self, block: u64, epoch: u64) -> bool {
        let Some((known, _)) = self.content.get(&block) else { return false };
        let changed = self.changed.get(&Extent::new(block * BLOCK_BYTES, BLOCK_BYTES));
        let is_same = |it: &Changed| it.since <= *known && it.after(*known).is_none_or(|next| epoch < next);
        *known == epoch || *known < epoch && changed.is_some_and(is_same)
    }
}
