//! The entries of an index, those of damaged pages derived from what else the disk says.

use crate::base::units::{Block, Epoch, Slot};
use crate::store::versions::VersionsError;
use crate::store::versions::catalog::Note;
use crate::store::versions::index::history::{Salvage, Salvaged};
use crate::store::versions::index::key::{NUMBER, NUMBER_MAX, number, pack};
use crate::store::versions::index::span::{Dead, Span, is_tombstone};
use crate::store::versions::opening::rebuilding::homes::Records;
use crate::store::versions::stubs::Layout;
use crate::tree::{Head, Root};
use std::collections::{BTreeMap, BTreeSet};

/// The slot of a block that was freed.
pub(super) const FREED: u64 = NUMBER_MAX;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Derived {
    /// By block and birth: the slot.
    pub(super) versions: BTreeMap<(u64, u64), u64>,
    pub(super) owed: BTreeMap<u64, Dead>,
    pub(super) epochs: BTreeMap<[u8; NUMBER], [u8; 8 + NUMBER]>,
    pub(super) gaps: BTreeMap<[u8; 2 * NUMBER], [u8; NUMBER]>,
    /// The zones of the clusters that are known.
    pub(super) zones: BTreeMap<u64, u64>,
    pub(super) from_stubs: u64,
}

fn undecided<T>(why: impl Into<String>) -> Result<T, VersionsError> {
    Err(VersionsError::Undecided(why.into()))
}

/// The used slots of the clusters.
fn used_slots(clusters: &Salvaged<NUMBER, { NUMBER + 16 }>, per_cluster: u64) -> BTreeSet<u64> {
    let slots = clusters.entries.iter().flat_map(|(cluster, entry)| {
        let bits = entry[NUMBER..].iter().fold(0_u128, |bits, byte| bits << 8 | u128::from(*byte));
        let first = number(cluster, 0) * per_cluster;
        (0..per_cluster).filter(move |n| bits >> n & 1 == 1).map(move |n| first + n)
    });
    slots.collect()
}

impl Derived {
    /// The slots of the versions that have content, each with its block.
    pub(super) fn content(&self) -> impl Iterator<Item = (u64, u64)> {
        let stored = |slot: &&u64| **slot != FREED && !is_tombstone(Slot(**slot));
        self.versions.iter().filter(move |(_, slot)| stored(slot)).map(|((block, _), slot)| (*slot, *block))
    }

    /// Derives what is lost.
    pub(super) fn of(
        salvage: Salvage,
        records: &Records,
        logged: &BTreeSet<Slot>,
        (layout, head, note): (Layout, &Head, &Note),
    ) -> Result<Self, VersionsError> {
        let Salvage { versions, dead, runs, epochs, owed, gaps, clusters, .. } = salvage;
        let mut derived = Self {
            epochs: twin(epochs, "the kept epochs")?,
            gaps: twin(gaps, "the gaps of forgotten blocks")?,
            zones: clusters
                .entries
                .iter()
                .map(|(cluster, entry)| (number(cluster, 0), number(entry, 0)))
                .collect(),
            ..Self::default()
        };
        let numbers = |(key, slot): (&[u8; 2 * NUMBER], &[u8; NUMBER])| {
            ((number(key, 0), number(key, 1)), number(slot, 0))
        };
        derived.versions = versions.entries.iter().map(numbers).collect();
        let spans = owed.entries.iter().map(|(slot, value)| Span::owed(slot, value));
        derived.owed = spans.flat_map(Span::each).map(|dead| (dead.slot.0, dead)).collect();
        let used = used_slots(&clusters, layout.cluster_slots());
        let evidence = Evidence { records, logged, used: clusters.is_whole().then_some(&used), layout };
        if !versions.is_whole() {
            if !owed.is_whole() {
                return undecided(
                    "pages of the versions and of what is owed are damaged: nothing says which stubs are of which",
                );
            }
            if !(dead.is_whole() && runs.is_whole()) {
                return undecided(
                    "pages of the versions and of the lists of the dead are damaged: nothing says which blocks were freed",
                );
            }
            derived.find_versions(&versions, &evidence)?;
            let idle = derived.find_ends(&versions, (&dead, &runs));
            derived.check_count((head.roots.first().copied().unwrap_or_default(), idle), &evidence)?;
        }
        if !owed.is_whole() {
            derived.find_owed(&evidence);
            if clusters.is_whole() && derived.owed.len() as u64 != note.counts.owed {
                let (found, noted) = (derived.owed.len(), note.counts.owed);
                return undecided(format!(
                    "{found} slots are used and have no version, and the head notes {noted} that are owed"
                ));
            }
        }
        derived.check_slots(&evidence)?;
        Ok(derived)
    }

    fn slots(&self) -> BTreeSet<u64> {
        self.content().map(|(slot, _)| slot).collect()
    }

    /// Takes the versions that the records of homes name, and that lost pages had.
    fn find_versions(
        &mut self,
        lost: &Salvaged<{ 2 * NUMBER }, NUMBER>,
        evidence: &Evidence<'_>,
    ) -> Result<(), VersionsError> {
        if evidence.used.is_none() && evidence.layout.stub_bytes == 0 {
            return undecided(
                "pages of the versions and of the clusters are damaged, and homes without stubs outlive their versions",
            );
        }
        for (slot, (block, born)) in &evidence.records.versions {
            let is_of_head = evidence.used.is_none_or(|used| used.contains(&slot.0))
                && !evidence.logged.contains(slot)
                && !self.owed.contains_key(&slot.0);
            if !is_of_head || !lost.lacks(&pack(&[block.0, born.0])) {
                continue;
            }
            if let Some(other) = self.versions.insert((block.0, born.0), slot.0) {
                return undecided(format!(
                    "block {} of epoch {} lies in slot {other} or {}, and nothing says which is owed",
                    block.0, born.0, slot.0
                ));
            }
            self.from_stubs += 1;
        }
        Ok(())
    }

    /// Adds the tombstones and the ends that lost pages had: a version that has died, and that nothing replaced by the end of the epoch in whose list it
    /// is, ended there. How many ends there may have been besides: before a version that followed, and shown by no kept epoch.
    fn find_ends(
        &mut self,
        lost: &Salvaged<{ 2 * NUMBER }, NUMBER>,
        (dead, runs): (&Salvaged<{ 3 * NUMBER }, { NUMBER + 2 }>, &Salvaged<{ 2 * NUMBER }, NUMBER>),
    ) -> u64 {
        let mut idle = 0;
        let lists: BTreeMap<u64, u64> =
            runs.entries.keys().map(|key| (number(key, 1), number(key, 0))).collect();
        // What nothing else has: the lists name each tombstone.
        let listed = dead.entries.iter().filter(|(key, _)| lists.contains_key(&number(*key, 0)));
        for Dead { born, block, slot } in listed.flat_map(|(key, value)| Span::dead(key, value).each()) {
            if is_tombstone(slot) && lost.lacks(&pack(&[block.0, born.0])) {
                self.versions.insert((block.0, born.0), slot.0);
            }
        }
        for (key, value) in &dead.entries {
            let Some(list) = lists.get(&number(key, 0)) else { continue };
            for Dead { born, block, slot } in Span::dead(key, value).each() {
                if self.versions.get(&(block.0, born.0)) != Some(&slot.0) {
                    continue;
                }
                let next = self.versions.range((block.0, born.0 + 1)..=(block.0, *list)).next();
                let next = next.map(|((_, born), _)| *born);
                if !lost.lacks_between(&pack(&[block.0, born.0]), &pack(&[block.0, next.unwrap_or(*list)])) {
                    continue;
                }
                match next {
                    None => _ = self.versions.insert((block.0, *list), FREED),
                    Some(next) => idle += u64::from(next > born.0 + 1),
                }
            }
        }
        idle
    }

    /// Checks that no version is missing, but those that the log says are gone: their stubs are destroyed, and so they are owed.
    fn check_count(
        &mut self,
        (root, idle): (Root, u64),
        evidence: &Evidence<'_>,
    ) -> Result<(), VersionsError> {
        let known = self.slots();
        let used = evidence.used.into_iter().flatten();
        let gone: Vec<u64> =
            used.copied().filter(|slot| !known.contains(slot) && !self.owed.contains_key(slot)).collect();
        for slot in &gone {
            if let Some(at) = evidence.records.unknown.get(&Slot(*slot)) {
                return undecided(format!(
                    "slot {slot} has a version, and the sector of its home at byte {} of the stub medium is damaged, too",
                    at.0
                ));
            }
            if evidence.layout.stub_bytes == 0 || evidence.records.versions.contains_key(&Slot(*slot)) {
                return undecided(format!(
                    "slot {slot} is used, and neither a version nor what is owed names it"
                ));
            }
        }
        let (found, gone_count) = (self.versions.len() as u64, gone.len() as u64);
        if found > root.len || found + gone_count + idle < root.len {
            return undecided(format!(
                "{found} versions and ends were found, and the head counts {}",
                root.len
            ));
        }
        let unnamed = |slot| Dead { born: Epoch(0), block: Block(0), slot: Slot(slot) };
        self.owed.extend(gone.into_iter().map(|slot| (slot, unnamed(slot))));
        Ok(())
    }

    /// What is owed is used, and has no version.
    fn find_owed(&mut self, evidence: &Evidence<'_>) {
        let known = self.slots();
        let slots: Vec<u64> = match evidence.used {
            Some(used) => used.iter().copied().collect(),
            None => evidence
                .records
                .versions
                .keys()
                .filter(|slot| !evidence.logged.contains(slot))
                .map(|it| it.0)
                .collect(),
        };
        for slot in slots.into_iter().filter(|slot| !known.contains(slot)) {
            let (block, born) =
                evidence.records.versions.get(&Slot(slot)).copied().unwrap_or((Block(0), Epoch(0)));
            self.owed.entry(slot).or_insert(Dead { born, block, slot: Slot(slot) });
        }
    }

    /// Checks that versions and what is owed have all used slots, and no slot twice.
    fn check_slots(&self, evidence: &Evidence<'_>) -> Result<(), VersionsError> {
        let mut all = self.slots();
        if all.len() != self.content().count() {
            return undecided("two versions lie in one slot");
        }
        if let Some(slot) = self.owed.keys().find(|slot| !all.insert(**slot)) {
            return undecided(format!("slot {slot} has a version, and is owed"));
        }
        let differs = evidence.used.and_then(|used| used.symmetric_difference(&all).next());
        match differs {
            Some(slot) => undecided(format!("the clusters and the versions do not agree on slot {slot}")),
            None => Ok(()),
        }
    }
}

/// What the disk says beside the damaged trees.
struct Evidence<'a> {
    records: &'a Records,
    /// The slots of the versions that the log has.
    logged: &'a BTreeSet<Slot>,
    /// The used slots, if no cluster is lost.
    used: Option<&'a BTreeSet<u64>>,
    layout: Layout,
}

/// The entries of two trees that have the same ones.
fn twin<const K: usize, const V: usize>(
    [mut one, other]: [Salvaged<K, V>; 2],
    what: &str,
) -> Result<BTreeMap<[u8; K], [u8; V]>, VersionsError> {
    let is_in_one = one.lost.iter().all(|(from, to)| !other.loses(from, to.as_ref()));
    if !is_in_one {
        return undecided(format!(
            "pages of both trees of {what} are damaged, and nothing else has these entries"
        ));
    }
    one.entries.extend(other.entries);
    Ok(one.entries)
}
