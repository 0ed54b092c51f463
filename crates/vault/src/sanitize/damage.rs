//! Containers of which a part cannot be read: what of them may be destroyed.
//!
//! The index replaces a directory that cannot be read as a witness. If it places a live chunk there, all containers with damaged directories
//! are left as they are: after a crash the index knows only that the chunk is in one of them. Then all that was forgotten stays owed, for
//! its content may lie there. If every marked chunk was found elsewhere, nothing live is there, and they are destroyed like any other.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringTreemap;

use super::audit::{Audit, audited};
use super::{Live, PAGES_A_STEP, Phase, Run, Set};
use crate::catalog::Change;
use crate::index::IndexEntry;
use crate::mutant::{self, Mutant};
use crate::vault::{Directory, Vault};
use crate::{ContainerSequence, Reference, SlotNumber, VaultError};

#[cfg(test)]
mod tests;

/// The containers whose directories cannot be read in whole.
#[derive(Debug, Default)]
pub(super) struct Damage {
    containers: BTreeMap<ContainerSequence, Doubt>,
    /// Whether the index places a live chunk in one that does not name it.
    has_live: bool,
    /// Other chunks that only the index places there. A put may refer to one since.
    dead: RoaringTreemap,
    /// The page of the index that is read next, and the merge that made the index.
    page: usize,
    merged: ContainerSequence,
}

/// A container with a damaged directory: the damage, and the chunks that the directory still names.
#[derive(Debug)]
struct Doubt {
    why: VaultError,
    named: RoaringTreemap,
}

impl Damage {
    /// Whether nothing live is in the container besides what its directory names.
    fn is_judged(&self, container: ContainerSequence, revived: Option<&RoaringTreemap>) -> bool {
        let is_dead = self.containers.contains_key(&container) && !self.has_live;
        is_dead && revived.is_none_or(|revived| revived.is_disjoint(&self.dead))
    }
}

impl Vault<'_> {
    /// Notes a container whose directory, of which `readable` is left, is damaged. A perfect hash vector cannot tell which chunks
    /// it covers there: the mark of one could hide among others.
    pub(super) fn note_doubt(
        &mut self,
        run: &Run,
        audit: &mut Audit,
        container: ContainerSequence,
        (why, readable): (VaultError, &[Reference]),
    ) -> Result<(), VaultError> {
        self.note_damage(container)?;
        if run.live != Live::Ordinals {
            return Err(VaultError::Damaged(container));
        }
        let named = readable.iter().map(|chunk| chunk.ordinal.0).collect();
        audit.damage.containers.insert(container, Doubt { why, named });
        Ok(())
    }

    /// Lets the catalog know that the container is damaged, so that no put relies on it.
    pub(crate) fn note_damage(&mut self, container: ContainerSequence) -> Result<(), VaultError> {
        match self.catalog.table().slot(container) {
            Some(slot) if !self.is_damaged(container) => Ok(self.catalog.commit(&[Change::Damaged(slot)])?),
            _ => Ok(()),
        }
    }

    /// Asks the index for the chunks of damaged containers, some pages at a time. Then the audit can end.
    pub(super) fn witness(&mut self, run: &mut Run, set: Set, mut audit: Audit) -> Result<Phase, VaultError> {
        let merged = self.catalog.state().index.merged;
        if audit.damage.merged != merged {
            (audit.damage.page, audit.damage.merged) = (0, merged);
        }
        let end = self.index.part.pages().min(audit.damage.page + PAGES_A_STEP);
        if !audit.damage.containers.is_empty() && audit.damage.page < end {
            for page in audit.damage.page..end {
                let page = self.index_page(page)?;
                page.entries().iter().for_each(|entry| self.place(&set, &mut audit, entry));
            }
            audit.damage.page = end;
            return Ok(Phase::Audit(set, audit));
        }
        if audit.damage.has_live {
            let damaged = audit.damage.containers.iter();
            run.left.extend(damaged.map(|(container, doubt)| (*container, doubt.why.clone())));
        }
        audited(set, audit)
    }

    /// Takes an entry of the index for an entry of the directory that cannot be read.
    fn place(&self, set: &Set, audit: &mut Audit, entry: &IndexEntry) {
        let ordinal = entry.location.ordinal;
        let doubt = audit.damage.containers.get(&entry.location.container);
        if doubt.is_none_or(|doubt| doubt.named.contains(ordinal.0)) {
            return;
        }
        let chunk = Reference { fingerprint: entry.fingerprint, ordinal };
        let mut marked = Vec::new();
        set.look_up(&[chunk], &mut marked);
        let is_revived = self.puts.revived.as_ref().is_some_and(|revived| revived.contains(ordinal.0));
        if marked[0] || is_revived {
            audit.damage.has_live = !mutant::is(Mutant::CondemnDamaged);
        } else {
            audit.damage.dead.insert(ordinal.0);
        }
        if marked[0] {
            audit.count(set, &chunk);
        }
    }

    /// The container's directory, or why the container has to be left. `None` if the directory cannot be read, and nothing live is in
    /// the container.
    pub(super) fn directory_to_leave(
        &mut self,
        damage: &Damage,
        (container, slot): (ContainerSequence, SlotNumber),
    ) -> Result<Result<Option<Arc<Directory>>, VaultError>, VaultError> {
        let read = self.pool.directory(slot, container);
        let why = match &read {
            Ok(directory) => directory.damage(),
            Err(error) if error.is_of_container() => Some(error.clone()),
            Err(error) => return Err(error.clone()),
        };
        Ok(match why {
            Some(why) if !damage.is_judged(container, self.puts.revived.as_ref()) => Err(why),
            _ => Ok(read.ok()),
        })
    }
}
