//! Which slot of the data medium a version gets, so that stubs lie together by disk address.
//!
//! Slots come in *clusters*: the stubs of one cluster share a page of the stub medium, and one key of the
//! root. The disk is cut into *zones*, and a cluster takes the versions of blocks of one zone, however often
//! and whenever these are written. A zone that has filled some clusters is cut in two, unless it is as small as a
//! cluster; so zones are small where much was written, and few clusters are only begun. Writes that ascend or descend cut
//! it as soon as one is full: nothing follows in the part that they leave. (*Secure Deletion for a Versioning File System*,
//! section 4.1, puts the stubs of an indirect block together.)

use crate::base::units::{Block, Slot};
use crate::store::versions::index::key::{NUMBER, NUMBER_MAX, number, pack};
use crate::store::versions::index::span::Span;
use crate::tree::{Absent, Pages, Root, Tree};
use roaring::RoaringBitmap;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Most slots in a cluster.
const SLOTS_MAX: u64 = 128;
/// So many clusters a zone fills before writes in no order cut it in two.
const FULL_CLUSTERS: u32 = 3;
/// Bytes of a cluster's entry in the index: its zone, and a bit for each slot that is used.
const ENTRY: usize = NUMBER + 16;

/// A cluster, by its number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Cluster(u32);

/// A cluster that is not full, or that changed since the index was last told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Partial {
    /// The first block of the zone.
    zone: u64,
    /// A bit for each slot that can be taken.
    free: u128,
    /// A bit for each slot that can be taken once the next head of the index is durable.
    pending: u128,
    /// The same for the head under way.
    releasing: u128,
    /// A bit for each slot that was taken for content that is not there yet: no head says that it is used.
    writing: u128,
    /// A bit for each slot that is not to be taken, although it can be.
    held: u128,
    /// The first and the last block that took a slot since the cluster was begun.
    span: (u64, u64),
}

impl Partial {
    fn takable(&self) -> u128 {
        self.free & !self.held
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(in super::super) struct Slots {
    /// Slots in a cluster.
    per_cluster: u64,
    /// Blocks of the disk.
    blocks: u64,
    /// The first blocks of all zones, and how many clusters each has filled since it was cut, or since the start.
    zones: BTreeMap<u64, u32>,
    partial: BTreeMap<Cluster, Partial>,
    /// By zone: the clusters with slots that can be taken.
    open: BTreeSet<(u64, Cluster)>,
    /// Clusters that were used, and are free as a whole.
    empty: RoaringBitmap,
    /// The first cluster behind all that were ever used.
    end: Cluster,
    /// How many slots are used, or may be named by the durable index.
    used: u64,
    /// Whether the next head frees slots.
    frees: bool,
    /// The clusters that changed since the index was last told.
    changed: BTreeSet<Cluster>,
    /// The used slots of each cluster, and its zone.
    pub(in super::super) table: Tree<NUMBER, ENTRY>,
}

impl Slots {
    /// The slots of a disk of `blocks` blocks. The clusters of the index have to be [found](Slots::find) first.
    ///
    /// # Panics
    /// If a cluster is to have more than [`SLOTS_MAX`] slots, or none.
    pub(in super::super) fn new(per_cluster: u64, blocks: u64, table: (u8, Root)) -> Self {
        assert!((1..=SLOTS_MAX).contains(&per_cluster), "a cluster has 1 to {SLOTS_MAX} slots");
        Self {
            per_cluster,
            blocks,
            zones: BTreeMap::from([(0, 0)]),
            partial: BTreeMap::new(),
            open: BTreeSet::new(),
            empty: RoaringBitmap::new(),
            end: Cluster(0),
            used: 0,
            frees: false,
            changed: BTreeSet::new(),
            table: Tree::new(table.0, table.1),
        }
    }

    /// Takes the next cluster of the index into account: whether there was one.
    pub(in super::super) fn find(&mut self, pages: &Pages) -> Result<bool, Absent> {
        let found = self.table.at_or_after(pages, &pack(&[u64::from(self.end.0)]))?;
        let Some((key, entry)) = found else { return Ok(false) };
        let cluster = Cluster(number(&key, 0) as u32);
        let (zone, used) = entry.split_at(NUMBER);
        let (zone, used) = (number(zone, 0), u128::from_be_bytes(used.try_into().expect("sixteen bytes")));
        self.empty.insert_range(self.end.0..cluster.0);
        self.end = Cluster(cluster.0 + 1);
        self.zones.insert(zone.min(self.blocks), 0);
        self.used += u64::from(used.count_ones());
        if used != self.all() {
            let span = (zone, self.zone_end(zone) - 1);
            let free = self.all() & !used;
            self.partial
                .insert(cluster, Partial { zone, free, pending: 0, releasing: 0, writing: 0, held: 0, span });
            self.open.insert((zone, cluster));
        }
        Ok(true)
    }

    /// The slots below `end` that are free, in runs: the first, and the one behind the last.
    pub(in super::super) fn free_runs(&self, end: u64) -> Vec<(u64, u64)> {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        let is_free = |slot: u64| {
            let (cluster, bit) = self.place(Slot(slot));
            let partial = self.partial.get(&cluster);
            cluster >= self.end
                || self.empty.contains(cluster.0)
                || partial.is_some_and(|it| it.free & bit != 0)
        };
        for slot in (0..end).filter(|slot| is_free(*slot)) {
            match runs.last_mut() {
                Some((_, to)) if *to == slot => *to += 1,
                _ => runs.push((slot, slot + 1)),
            }
        }
        runs
    }

    /// Fills the table: for each cluster its zone, and a bit for each slot that is used.
    pub(in super::super) fn fill(
        &mut self,
        pages: &mut Pages,
        clusters: BTreeMap<u64, (u64, u128)>,
    ) -> Result<(), Absent> {
        clusters.into_iter().try_for_each(|(cluster, (zone, used))| {
            self.table.insert(pages, &pack(&[cluster]), &entry(zone, used)).map(drop)
        })
    }

    /// How many slots are used.
    pub(in super::super) fn used(&self) -> u64 {
        self.used
    }

    /// Those of some neighbouring slots that have content, as far as the next head will say.
    pub(in super::super) fn used_in(&self, slots: Range<Slot>) -> impl Iterator<Item = Slot> {
        let is_used = |slot: &Slot| {
            let (cluster, bit) = self.place(*slot);
            let is_known = cluster < self.end && !self.empty.contains(cluster.0);
            let unused = |it: &Partial| it.free | it.pending | it.releasing | it.writing;
            is_known && self.partial.get(&cluster).is_none_or(|it| unused(it) & bit == 0)
        };
        (slots.start.0..slots.end.0).map(Slot).filter(is_used)
    }

    /// How many slots there are, used or not.
    pub(in super::super) fn len(&self) -> u64 {
        u64::from(self.end.0) * self.per_cluster
    }

    fn all(&self) -> u128 {
        u128::MAX >> (SLOTS_MAX - self.per_cluster)
    }

    /// The zone that has `block`.
    fn zone_of(&self, block: u64) -> u64 {
        self.zones.range(..=block).next_back().map_or(0, |(zone, _)| *zone)
    }

    /// The first block behind a zone.
    fn zone_end(&self, zone: u64) -> u64 {
        self.zones.range(zone + 1..).next().map_or(self.blocks.max(zone + 1), |(next, _)| *next)
    }

    /// Takes a slot for a version of `block`.
    pub(in super::super) fn take(&mut self, block: Block) -> Slot {
        let zone = self.zone_of(block.0);
        let cluster = self.open.range((zone, Cluster(0))..=(zone, Cluster(u32::MAX))).next();
        let cluster = cluster.map(|(_, cluster)| *cluster).unwrap_or_else(|| self.begin(zone, block));
        let place = self.partial[&cluster].takable().trailing_zeros();
        assert!(u64::from(place) < self.per_cluster, "a cluster that is open has a slot to be taken");
        let slot = Slot(u64::from(cluster.0) * self.per_cluster + u64::from(place));
        assert!(slot.0 < NUMBER_MAX, "the index can name the slot");
        self.mark(slot, block);
        let (_, bit) = self.place(slot);
        self.partial_of(cluster, block).writing |= bit;
        slot
    }

    /// Notes that the content is there for which the slot was taken.
    pub(in super::super) fn written(&mut self, slot: Slot, block: Block) {
        let (cluster, bit) = self.place(slot);
        let partial = self.partial_of(cluster, block);
        assert!(partial.writing & bit != 0, "a slot is taken before it is written");
        partial.writing &= !bit;
        self.changed.insert(cluster);
    }

    /// Notes that a version of `block` lies in `slot`, which is not used as far as the index says.
    pub(in super::super) fn taken(&mut self, slot: Slot, block: Block) {
        let (cluster, _) = self.place(slot);
        while self.end <= cluster {
            self.empty.insert(self.end.0);
            self.end = Cluster(self.end.0 + 1);
        }
        if self.empty.remove(cluster.0) {
            self.add(cluster, self.zone_of(block.0), block);
        }
        self.mark(slot, block);
    }

    /// The first slot behind all that may be used once versions of the blocks from `first` to `last` have got theirs.
    pub(in super::super) fn end_after(&self, first: Block, last: Block) -> Slot {
        // Each zone may need a cluster, and each cluster that becomes full makes one zone of two.
        let zones = self.zones.range(first.0..=last.0).count() as u64 + 1;
        let more = zones + 2 * ((last.0 - first.0) / self.per_cluster + 1);
        Slot((u64::from(self.end.0) + more.saturating_sub(self.empty.len())) * self.per_cluster)
    }

    fn place(&self, slot: Slot) -> (Cluster, u128) {
        let cluster = u32::try_from(slot.0 / self.per_cluster).expect("a slot is in a cluster");
        (Cluster(cluster), 1 << (slot.0 % self.per_cluster))
    }

    /// Begins a cluster for a zone.
    fn begin(&mut self, zone: u64, block: Block) -> Cluster {
        let cluster = Cluster(self.empty.min().unwrap_or(self.end.0));
        if !self.empty.remove(cluster.0) {
            self.end = Cluster(cluster.0 + 1);
        }
        self.add(cluster, zone, block);
        cluster
    }

    fn add(&mut self, cluster: Cluster, zone: u64, block: Block) {
        let span = (block.0, block.0);
        let free = self.all();
        self.partial
            .insert(cluster, Partial { zone, free, pending: 0, releasing: 0, writing: 0, held: 0, span });
        self.open.insert((zone, cluster));
    }

    fn mark(&mut self, slot: Slot, block: Block) {
        let (cluster, bit) = self.place(slot);
        let partial = self.partial.get_mut(&cluster).expect("a cluster with a free slot is known");
        assert!(partial.takable() & bit != 0, "a slot is taken once");
        partial.free &= !bit;
        partial.span = (partial.span.0.min(block.0), partial.span.1.max(block.0));
        let (zone, span, is_full) = (partial.zone, partial.span, partial.free == 0);
        let is_open = partial.takable() != 0;
        self.used += 1;
        self.changed.insert(cluster);
        if !is_open {
            self.open.remove(&(zone, cluster));
        }
        if is_full {
            self.split(zone, block.0, span);
        }
    }

    /// Notes that a zone has filled a cluster, and perhaps cuts it in two: behind the blocks that were written if these ascend,
    /// before them if they descend, else in their middle.
    fn split(&mut self, zone: u64, last: u64, (low, high): (u64, u64)) {
        let full = self.zones.entry(zone).or_default();
        *full += 1;
        if *full < FULL_CLUSTERS && last != high && last != low {
            return;
        }
        *full = 0;
        let end = self.zone_end(zone);
        let middle = match last {
            _ if last == high => high + 1,
            _ if last == low => low,
            _ => low.midpoint(high) + 1,
        };
        if end - zone > self.per_cluster && (zone + 1..end).contains(&middle) {
            self.zones.insert(middle, 0);
        }
    }

    /// Holds a slot that can be taken, now or later, so that it is not taken before it is [released](Slots::release): whether
    /// it could be.
    pub(in super::super) fn hold(&mut self, slot: Slot) -> bool {
        let (cluster, bit) = self.place(slot);
        if self.empty.remove(cluster.0) {
            self.add(cluster, 0, Block(0));
        }
        let Some(partial) = self.partial.get_mut(&cluster) else { return false };
        let is_unused = (partial.free | partial.pending | partial.releasing) & bit != 0;
        if is_unused {
            partial.held |= bit;
        }
        if partial.takable() == 0 {
            self.open.remove(&(partial.zone, cluster));
        }
        is_unused
    }

    /// Ends the hold.
    pub(in super::super) fn release(&mut self, slot: Slot) {
        let (cluster, bit) = self.place(slot);
        if let Some(partial) = self.partial.get_mut(&cluster) {
            partial.held &= !bit;
            self.freed(cluster);
        }
    }

    /// Frees a slot that no durable index or log names.
    pub(in super::super) fn free(&mut self, slot: Slot, block: Block) {
        let (cluster, bit) = self.place(slot);
        let partial = self.partial_of(cluster, block);
        let is_unused = (partial.free | partial.pending | partial.releasing) & bit != 0;
        assert!(!is_unused, "a slot is freed once");
        partial.free |= bit;
        partial.writing &= !bit;
        self.changed.insert(cluster);
        self.freed(cluster);
        self.used -= 1;
    }

    /// Frees the slots of these versions once the next head is durable: that head does not name them any more.
    pub(in super::super) fn free_later(&mut self, span: Span) {
        self.frees = true;
        let mut rest = Some(span);
        while let Some(span) = rest {
            let slot = span.first.slot;
            let (cluster, _) = self.place(slot);
            let end = Slot((u64::from(cluster.0) + 1) * self.per_cluster);
            let Some(here) = span.within(&(slot..end)) else { return };
            let bits = u128::MAX >> (SLOTS_MAX - here.len) << (slot.0 % self.per_cluster);
            self.partial_of(cluster, span.first.block).pending |= bits;
            self.changed.insert(cluster);
            [_, rest] = span.without(here);
        }
    }

    /// Whether the next head frees slots.
    pub(in super::super) fn frees(&self) -> bool {
        self.frees
    }

    /// The cluster, which may have been full.
    fn partial_of(&mut self, cluster: Cluster, block: Block) -> &mut Partial {
        if !self.partial.contains_key(&cluster) {
            let zone = self.zone_of(block.0);
            let span = (zone, self.zone_end(zone) - 1);
            let full = Partial { zone, free: 0, pending: 0, releasing: 0, writing: 0, held: 0, span };
            self.partial.insert(cluster, full);
        }
        self.partial.get_mut(&cluster).expect("the cluster is known by now")
    }

    /// Notes that a cluster has more slots that can be taken.
    fn freed(&mut self, cluster: Cluster) {
        let Some(partial) = self.partial.get(&cluster).copied() else { return };
        let zone = partial.zone;
        if partial.takable() == self.all() {
            self.partial.remove(&cluster);
            self.open.remove(&(zone, cluster));
            self.empty.insert(cluster.0);
        } else if partial.takable() != 0 {
            self.open.insert((zone, cluster));
        }
    }

    /// Tells the index of one cluster that changed: whether there was one.
    pub(in super::super) fn tell(&mut self, pages: &mut Pages) -> Result<bool, Absent> {
        let Some(cluster) = self.changed.first().copied() else { return Ok(false) };
        let key = pack(&[u64::from(cluster.0)]);
        let free = |it: &Partial| it.free | it.pending | it.releasing | it.writing;
        match self.partial.get(&cluster) {
            Some(partial) if free(partial) != self.all() => {
                let is_full = free(partial) == 0;
                self.table.insert(pages, &key, &entry(partial.zone, self.all() & !free(partial)))?;
                if is_full {
                    self.partial.remove(&cluster);
                }
            }
            _ => _ = self.table.remove(pages, &key)?,
        }
        self.changed.remove(&cluster);
        Ok(true)
    }

    /// Notes that a head begins that has what the index was [told](Slots::tell).
    pub(in super::super) fn begin_head(&mut self) {
        assert!(self.changed.is_empty(), "the index is told of all clusters before a head begins");
        self.frees = false;
        for partial in self.partial.values_mut() {
            assert!(partial.releasing == 0, "one head at a time");
            partial.releasing = std::mem::take(&mut partial.pending);
        }
    }

    /// Notes that the head is durable: what it does not name can be taken.
    pub(in super::super) fn end_head(&mut self) {
        let clusters: Vec<_> =
            self.partial.iter().filter(|(_, it)| it.releasing != 0).map(|(c, _)| *c).collect();
        for cluster in clusters {
            let Some(partial) = self.partial.get_mut(&cluster) else { continue };
            let released = std::mem::take(&mut partial.releasing);
            partial.free |= released;
            self.used -= u64::from(released.count_ones());
            self.changed.insert(cluster);
            self.freed(cluster);
        }
    }

    /// Notes that the head was given up.
    pub(in super::super) fn abort_head(&mut self) {
        for partial in self.partial.values_mut() {
            partial.pending |= std::mem::take(&mut partial.releasing);
            self.frees |= partial.pending != 0;
        }
    }
}

/// The entry of a cluster: its zone, and a bit for each slot that is used.
fn entry(zone: u64, used: u128) -> [u8; ENTRY] {
    let mut entry = [0; ENTRY];
    entry[..NUMBER].copy_from_slice(&pack::<NUMBER>(&[zone]));
    entry[NUMBER..].copy_from_slice(&used.to_be_bytes());
    entry
}

#[cfg(test)]
mod tests;
