//! Rebuilding a catalog from the pool, whose containers say what they hold, and from the readable parts of the old catalog.
//!
//! Nothing that may be live is lost: a slot is free only if it holds zeros, and every chunk that a snapshot could begin with counts as a
//! snapshot, unless the old catalog knew it and has dropped it. So snapshots may come back whose forget is lost: they are reported.

use std::collections::{BTreeMap, BTreeSet};

use quietus_core::media::medium::Medium;

use super::judge::{Content, Judge, Judged};
use super::pool::Pool;
use super::{Setup, Step, Vault};
use crate::catalog::{
    Catalog, CatalogError, Change, IndexPart, Layout, Numbers, Owed, SlotEntry, SlotState, State,
};
use crate::{ContainerSequence, Fingerprint, Ordinal, PutId, Reference, SlotNumber, SnapshotId, VaultError};

/// The sources of a new catalog.
pub struct Repair<'m> {
    /// The medium of the old catalog, if it exists.
    pub old: Option<&'m dyn Medium>,
    /// The medium of the new catalog: zeros.
    pub new: &'m dyn Medium,
    /// The pool.
    pub pool: &'m dyn Medium,
    /// The sizes and the id of the vault.
    pub layout: Layout,
    /// Numbers at or above which no number was given, as far as other records tell.
    pub next: Numbers,
}

/// The findings of a repair.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Repaired {
    /// Whether the old catalog could be read to its end: then it has forgotten what it does not have.
    pub is_log_whole: bool,
    /// Containers.
    pub containers: u64,
    /// Containers that are damaged, in whole or in part.
    pub damaged: u64,
    /// Snapshots that the old catalog knew.
    pub known: Vec<SnapshotId>,
    /// Snapshots of which the old catalog has nothing. They have new numbers, in the order in which they were made.
    pub found: Vec<SnapshotId>,
}

/// The remains of the old catalog.
#[derive(Default)]
struct Salvaged {
    state: State,
    /// The first chunks of all snapshots that it ever knew.
    roots: BTreeSet<Fingerprint>,
    /// The content of slots, if the catalog is whole.
    slots: Option<BTreeMap<SlotNumber, SlotEntry>>,
}

impl Salvaged {
    fn read(old: &dyn Medium, layout: Layout) -> Result<Salvaged, VaultError> {
        let mut salvaged = match Catalog::salvage(old, layout) {
            Err(CatalogError::Medium(error)) => return Err(CatalogError::Medium(error).into()),
            changes => Salvaged::of(&changes.unwrap_or_default()),
        };
        match Catalog::read(old, layout) {
            Ok(catalog) if !catalog.is_doubtful() => {
                salvaged.state = catalog.state().clone();
                let known =
                    (0..layout.slots).map(SlotNumber).filter(|slot| !catalog.table().lost().contains(slot));
                salvaged.slots = Some(known.map(|slot| (slot, catalog.table().entry(slot))).collect());
            }
            Err(CatalogError::Medium(error)) => return Err(CatalogError::Medium(error).into()),
            _ => salvaged.state.index = IndexPart::default(),
        }
        Ok(salvaged)
    }

    /// The sum of all changes that can be read.
    fn of(frames: &[Vec<Change>]) -> Salvaged {
        let mut salvaged = Salvaged::default();
        for changes in frames {
            if changes.iter().any(|change| matches!(change, Change::Pages(_))) {
                salvaged.state = State::default();
            }
            for change in changes {
                if let Change::Commit(_, root) | Change::Replace(_, root) = change {
                    salvaged.roots.insert(root.fingerprint);
                }
                salvaged.state.apply(change);
            }
        }
        salvaged
    }

    /// Whether a container is newer than the catalog.
    fn is_newer(&self, container: ContainerSequence) -> bool {
        container >= self.state.next.container
    }

    /// Whether a chunk begins a snapshot of which the catalog has nothing.
    fn lacks(&self, root: &Reference, container: ContainerSequence) -> bool {
        let could_be = self.slots.is_none() || self.is_newer(container);
        could_be && !self.roots.contains(&root.fingerprint)
    }

    /// The entry of a slot, if it is still right for the bytes found.
    fn entry(&self, slot: SlotNumber, judged: &Judged) -> Option<SlotEntry> {
        let entry = *self.slots.as_ref()?.get(&slot)?;
        let (found, is_damaged) = match judged {
            Judged::Container(Content { head, is_damaged, .. }) => (Some(head.sequence), *is_damaged),
            Judged::Free | Judged::Unknown => (None, true),
        };
        match entry.state {
            SlotState::Condemned if found.is_none_or(|it| !self.is_newer(it)) => Some(entry),
            SlotState::Sealed if found == Some(entry.container) => {
                Some(SlotEntry { is_damaged: is_damaged || entry.is_damaged, ..entry })
            }
            SlotState::Sealed if found.is_none_or(|it| !self.is_newer(it)) => {
                Some(SlotEntry { is_damaged: true, ..entry })
            }
            _ => None,
        }
    }
}

impl<'m> Vault<'m> {
    /// Rebuilds a catalog, and opens the vault with it. Reads all of the pool.
    ///
    /// # Errors
    ///
    /// [`VaultError::Interrupted`]; the errors of the media.
    pub fn repair(
        repair: &Repair<'m>,
        setup: Setup,
        step: Step<'_>,
    ) -> Result<(Vault<'m>, Repaired), VaultError> {
        let layout = repair.layout;
        let mut salvaged = match repair.old {
            Some(old) => Salvaged::read(old, layout)?,
            None => Salvaged::default(),
        };
        let pool = Pool::new(repair.pool, layout, setup.key.clone());
        let (judge, roots) = judge_all(&pool, layout, &salvaged, step)?;
        let mut repaired = Repaired {
            is_log_whole: salvaged.slots.is_some(),
            containers: judge.entries.len() as u64,
            damaged: judge.entries.iter().filter(|(_, entry)| entry.is_damaged).count() as u64,
            known: salvaged.state.roots.keys().copied().collect(),
            found: Vec::new(),
        };
        let state = &mut salvaged.state;
        state.next = state.next.max(repair.next);
        state.next.container = state.next.container.max(judge.next);
        state.next.ordinal = state.next.ordinal.max(judge.ordinals_end);
        for root in roots.into_values() {
            repaired.found.push(state.next.snapshot);
            state.apply(&Change::Commit(state.next.snapshot, root));
        }
        if !repaired.is_log_whole {
            // The forgets and puts whose records are lost.
            let (forget, put) = (state.next.forget, state.next.put);
            state.next.put = PutId(put.0 + 1);
            state.apply(&Change::Forget(forget, Owed::Put(put)));
        }
        if state.bytes_max(layout.slots) > layout.half_bytes / 2 {
            return Err(VaultError::Snapshots(state.roots.len()));
        }
        let catalog = Catalog::restore(repair.new, layout, salvaged.state, &judge.entries)?;
        let vault = Vault::new(catalog, repair.pool, setup)?.resume()?;
        Ok((vault, repaired))
    }
}

/// The content of all slots; and the root chunks of snapshots that the old catalog lacks, by their numbers.
fn judge_all(
    pool: &Pool<'_>,
    layout: Layout,
    salvaged: &Salvaged,
    step: Step<'_>,
) -> Result<(Judge, BTreeMap<Ordinal, Reference>), VaultError> {
    let mut judge = Judge::new(&salvaged.state.index.slots, salvaged.state.next.container);
    let mut roots = BTreeMap::new();
    let mut unknown = Vec::new();
    for slot in (0..layout.slots).map(SlotNumber) {
        if !step(u64::from(slot.0), u64::from(layout.slots)) {
            return Err(VaultError::Interrupted);
        }
        let judged = pool.judge(slot)?;
        if let Judged::Container(content) = &judged {
            let lacking = content.roots.iter().filter(|root| salvaged.lacks(root, content.head.sequence));
            roots.extend(lacking.map(|root| (root.ordinal, *root)));
        }
        match salvaged.entry(slot, &judged) {
            Some(entry) => judge.keep(slot, entry),
            None => unknown.push((slot, judged)),
        }
    }
    // Numbers that the catalog knows come first.
    unknown.iter().for_each(|(slot, judged)| judge.take(*slot, judged));
    judge.number();
    Ok((judge, roots))
}
