//! The knowledge of rule E, saved at a clean stop as bytes (`docs/formats/view.md`).

use super::RuleE;
use super::names::Names;
use crate::bytes::all;
use crate::format::Block;
use crate::rule::deaths::Deaths;
use crate::rule::history::RecentBlocks;
use crate::rule::sets::{put_sets, take_sets};
use quietus_core::fields::Fields;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use zerocopy::little_endian::U32;

/// Number of sets in a view.
const SETS: usize = 9;
/// First byte of a view: in use, and the mount was observed. 1: in use. 0: not in use.
const MOUNT_OBSERVED: u8 = 2;

impl RuleE {
    pub(super) fn known(&self) -> Option<Vec<u8>> {
        if self.is_broken() || !self.survey.is_done() || !self.names.is_settled() || !self.unknown.is_empty()
        {
            return None;
        }
        let [referenced, guessed, uncertain] = self.names.sets();
        let [condemned, below] = self.deaths.sets();
        let lately = self.lately.all();
        let sets: [&RoaringBitmap; SETS] = [
            &self.live,
            &self.suspicious,
            &self.unconfirmed.all(),
            &lately,
            &referenced,
            &guessed,
            &uncertain,
            &condemned,
            &below,
        ];
        let in_use = if self.mount_observed { MOUNT_OBSERVED } else { u8::from(self.in_use) };
        let mut bytes = vec![in_use, u8::from(self.survey.rereads_maps())];
        put_sets(sets, &mut bytes);
        self.names.put_counts(&mut bytes);
        Some(bytes)
    }

    pub(super) fn resumed(&mut self, view: &[u8]) -> Option<()> {
        let blocks = self.format.blocks();
        let mut rest = Fields(view);
        let [in_use, rereads] = rest.array()?;
        let sets: [RoaringBitmap; SETS] = take_sets(&mut rest, blocks)?;
        let [live, suspicious, unconfirmed, lately, referenced, guessed, uncertain, condemned, below] = sets;
        let names = Names::restore([referenced, guessed, uncertain], &mut rest, blocks)?;
        if !rest.is_empty() {
            return None;
        }
        self.survey.skip_inodes();
        if rereads == 0 {
            self.survey.skip_maps();
        }
        (self.in_use, self.mount_observed) = (in_use != 0, in_use == MOUNT_OBSERVED);
        (self.live, self.suspicious, self.names) = (live, suspicious, names);
        (self.unconfirmed, self.lately) = (RecentBlocks::kept(&unconfirmed), RecentBlocks::kept(&lately));
        self.deaths = Deaths::restore(condemned, &below, self.clock.now);
        Some(())
    }
}

impl Names {
    /// Whether every pointer was followed, none is about to be, and no block of pointers is claimed
    /// twice, which only a broken file system does.
    pub(super) fn is_settled(&self) -> bool {
        self.tasks.is_empty() && self.pointers_again.is_empty()
    }

    fn sets(&self) -> [RoaringBitmap; 3] {
        [self.referenced.clone(), self.guessed.clone(), self.uncertain.all()]
    }

    fn put_counts(&self, bytes: &mut Vec<u8>) {
        put_pairs(self.again.iter().map(|(block, more)| (*block, *more)), bytes);
        put_pairs(self.pointers.iter().map(|(block, level)| (*block, u32::from(*level))), bytes);
    }

    fn restore(sets: [RoaringBitmap; 3], fields: &mut Fields<'_>, blocks: Block) -> Option<Self> {
        let [referenced, guessed, uncertain] = sets;
        let again = take_pairs(fields, blocks)?;
        let levels = take_pairs(fields, blocks)?.into_iter();
        let pointers = levels.map(|(block, level)| Some((block, u8::try_from(level).ok()?)));
        let pointers = pointers.collect::<Option<_>>()?;
        Some(Self {
            referenced,
            again,
            guessed,
            pointers,
            uncertain: RecentBlocks::kept(&uncertain),
            ..Self::default()
        })
    }
}

/// Writes pairs of a block and a number, preceded by their count.
fn put_pairs(pairs: impl ExactSizeIterator<Item = (Block, u32)>, bytes: &mut Vec<u8>) {
    bytes.extend((pairs.len() as u64).to_le_bytes());
    for (block, number) in pairs {
        bytes.extend(block.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
}

/// The pairs that [`put_pairs`] wrote, if all their blocks are below `blocks`.
fn take_pairs(fields: &mut Fields<'_>, blocks: Block) -> Option<BTreeMap<Block, u32>> {
    let count = fields.u64()?;
    let pairs = all::<[U32; 2]>(fields.bytes(count.checked_mul(8)?)?);
    let map: BTreeMap<_, _> = pairs.iter().map(|[block, number]| (block.get(), number.get())).collect();
    map.keys().next_back().is_none_or(|last| *last < blocks).then_some(map)
}
