//! Containers that cannot be read in whole: which of them may be destroyed.

use std::collections::BTreeMap;

use roaring::RoaringTreemap;

use crate::catalog::Change;
use crate::vault::Vault;
use crate::{ContainerSequence, VaultError};

#[cfg(test)]
mod tests;

/// The containers whose directories cannot be read in whole.
#[derive(Debug, Default)]
pub(super) struct Damage {
    pub(super) containers: BTreeMap<ContainerSequence, Doubt>,
    /// Whether the index places a live chunk in one of these containers that does not name it.
    pub(super) has_live: bool,
    /// Other chunks that only the index places there. A put may refer to one since.
    pub(super) dead: RoaringTreemap,
    /// The page of the index that is read next, and the merge that made the index.
    pub(super) page: usize,
    pub(super) merged: ContainerSequence,
}

/// A container with a damaged directory: the damage, and the chunks that the directory still names.
#[derive(Debug)]
pub(super) struct Doubt {
    pub(super) why: VaultError,
    pub(super) named: RoaringTreemap,
}

impl Damage {
    /// Whether all live chunks of the container are named by its directory.
    pub(super) fn is_judged(&self, container: ContainerSequence, revived: Option<&RoaringTreemap>) -> bool {
        let is_dead = self.containers.contains_key(&container) && !self.has_live;
        is_dead && revived.is_none_or(|revived| revived.is_disjoint(&self.dead))
    }
}

impl Vault<'_> {
    /// Lets the catalog know that the container is damaged, so that no put relies on it.
    pub(crate) fn note_damage(&mut self, container: ContainerSequence) -> Result<(), VaultError> {
        match self.catalog.table().slot(container) {
            Some(slot) if !self.is_damaged(container) => Ok(self.catalog.commit(&[Change::Damaged(slot)])?),
            _ => Ok(()),
        }
    }
}
