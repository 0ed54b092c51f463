//! A fresh index with given entries, behind the pages of the old one.

use crate::base::units::{Block, Epoch, Pos, Slot};
use crate::media::medium::Medium;
use crate::store::versions::VersionsError;
use crate::store::versions::catalog::Note;
use crate::store::versions::index::history::{Counts, History, Version};
use crate::store::versions::index::span::Span;
use crate::store::versions::opening::rebuilding::deriving::{Derived, FREED};
use crate::store::versions::opening::rebuilding::{Step, found, go_on, pages};
use crate::store::versions::space::slots::Slots;
use crate::store::versions::stubs::Layout;
use crate::tree::{Head, PAGE_BYTES, PageNo};
use std::collections::BTreeMap;

/// Writes the index that has the entries; how many pages it has.
pub(super) fn write(
    derived: &Derived,
    (disk, blocks, layout, old, note): ([u8; 16], u64, Layout, &Head, &Note),
    map: &dyn Medium,
    step: Step<'_>,
) -> Result<u64, VersionsError> {
    let empty = Head { generation: old.generation, roots: Vec::new(), note: Vec::new() };
    let counts = Counts { changed: note.counts.changed, ..Counts::default() };
    let mut history = History::open(disk, &empty, note.open, counts);
    // No page of the old index is overwritten: until the head is durable, that is the index.
    let old_pages = pages(map);
    history.use_all_pages(old_pages);
    fill(&mut history, derived);
    let mut slots = Slots::new(
        layout.cluster_slots(),
        blocks,
        (crate::store::versions::index::history::CLUSTERS as u8, Default::default()),
    );
    found(slots.fill(&mut history.pages, clusters(derived, layout)));
    let writes = history.pages.take_writes(usize::MAX);
    let (bytes, count) = ((writes.len() * PAGE_BYTES) as u64, writes.len() as u64);
    for (n, (at, page)) in writes.into_iter().enumerate() {
        assert!(at >= PageNo(old_pages).position(), "the old index stays as it is until the head is durable");
        map.write(Pos(at), &page, false)?;
        go_on(&mut *step, ((n + 1) * PAGE_BYTES) as u64, bytes)?;
    }
    map.sync()?;
    let generation = history.pages.begin_head();
    assert!(generation > old.generation, "generations only grow");
    let note = Note { counts: history.counts(), ..*note }.to_bytes();
    let head = Head { generation, roots: history.roots(slots.table.root()), note };
    map.write(Pos(head.position()), &head.to_bytes(disk), true)?;
    Ok(count)
}

fn fill(history: &mut History, derived: &Derived) {
    for (epoch, end) in &derived.epochs {
        found(history.epochs.insert(&mut history.pages, epoch, end));
    }
    for (gap, blocks) in &derived.gaps {
        found(history.gaps.table.insert(&mut history.pages, gap, blocks));
    }
    let mut before: Option<(Block, Version)> = None;
    for ((block, born), slot) in &derived.versions {
        let (block, version) = (Block(*block), Version { born: Epoch(*born), slot: Slot(*slot) });
        let shown = (*slot != FREED).then_some(version.slot);
        found(history.show(block, shown, version.born));
        if let Some((of, dead)) = before.replace((block, version)).filter(|(_, it)| it.slot.0 != FREED)
            && of == block
        {
            found(history.put_dead(block, dead, version.born));
        }
    }
    for span in Span::all_of(derived.owed.values().copied()) {
        found(history.put_owed_span(span));
    }
    assert_eq!(history.owed(), derived.owed.len() as u64, "all that is owed is noted");
}

/// The clusters, with their zones and their used slots.
fn clusters(derived: &Derived, layout: Layout) -> BTreeMap<u64, (u64, u128)> {
    let per_cluster = layout.cluster_slots();
    let versions = derived.content();
    let owed = derived.owed.iter().map(|(slot, dead)| (*slot, dead.block.0));
    let mut clusters = BTreeMap::new();
    for (slot, block) in versions.chain(owed) {
        let cluster = slot / per_cluster;
        let zone = derived.zones.get(&cluster).copied();
        let (lowest, used) = clusters.entry(cluster).or_insert((zone.unwrap_or(block), 0));
        *lowest = zone.unwrap_or(block.min(*lowest));
        let bit = 1_u128 << (slot % per_cluster);
        assert!(*used & bit == 0, "each slot has one version, or is owed once");
        *used |= bit;
    }
    clusters
}
