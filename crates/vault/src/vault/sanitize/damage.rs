//! Containers that cannot be read in whole: which of them may be destroyed.

use std::collections::BTreeMap;
use std::sync::Arc;

use roaring::RoaringTreemap;

use crate::catalog::Change;
use crate::vault::{Directory, Vault};
use crate::{ContainerSequence, SlotNumber, VaultError};

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
    fn is_judged(&self, container: ContainerSequence, revived: Option<&RoaringTreemap>) -> bool {
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

    /// The container's directory, or why the container has to be left. `None` if the directory cannot be read, and the container has
    /// no live chunk.
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
