//! Reading chunks.

use quietus_core::base::units::{Extent, Pos};

use super::Vault;
use crate::container::{Class, Stored};
use crate::tree::Snapshot;
use crate::{ContainerSequence, Fingerprint, Ordinal, Reference, SnapshotId, VaultError};

impl Vault<'_> {
    /// The content of a chunk.
    ///
    /// # Errors
    ///
    /// [`VaultError::Absent`] if the vault does not have it; the errors of the pool, and those of damage.
    pub fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
        let absent = VaultError::Absent(chunk.fingerprint);
        let container = self.find(&chunk.fingerprint)?.ok_or(absent.clone())?.container;
        let content = match self.writing.in_memory(container) {
            Some(builder) => {
                let (stored, bytes) = builder.find(&chunk.fingerprint).ok_or(absent)?;
                stored.content(&self.pool.key, builder.head().class, bytes)
            }
            None => {
                let (stored, class, at) = self.place_in(container, &chunk.fingerprint)?;
                stored.content(&self.pool.key, class, &self.pool.read(at)?)
            }
        };
        content.map_err(|error| VaultError::Chunk { container, error })
    }

    /// The number of a chunk that the vault has no whole copy of any more; it is wanted again, with that number, so that every snapshot
    /// that has it is whole then. Only containers that were found damaged are read for this.
    pub(crate) fn damaged(&mut self, fingerprint: &Fingerprint) -> Result<Option<Ordinal>, VaultError> {
        let Some(location) = self.find(fingerprint)? else { return Ok(None) };
        let chunk = Reference { fingerprint: *fingerprint, ordinal: location.ordinal };
        Ok(self.is_lost(&chunk, location.container)?.then_some(chunk.ordinal))
    }

    /// Whether the vault has no whole copy of a chunk any more, which the index finds in that container.
    pub(crate) fn is_lost(
        &mut self,
        chunk: &Reference,
        container: ContainerSequence,
    ) -> Result<bool, VaultError> {
        Ok(self.is_damaged(container) && !self.is_whole(chunk)?)
    }

    /// Whether a container other than that one has a whole copy of a chunk: a put has stored it again.
    pub(crate) fn is_stored_again(
        &mut self,
        chunk: &Reference,
        damaged: ContainerSequence,
    ) -> Result<bool, VaultError> {
        let found = self.find(&chunk.fingerprint)?;
        Ok(found.is_some_and(|it| it.container != damaged) && self.is_whole(chunk)?)
    }

    fn is_whole(&mut self, chunk: &Reference) -> Result<bool, VaultError> {
        Ok(VaultError::or_damaged(self.get(chunk))?.is_some())
    }

    /// Whether a part of the container was found damaged.
    pub(crate) fn is_damaged(&self, container: ContainerSequence) -> bool {
        let table = self.catalog.table();
        table.slot(container).is_some_and(|slot| table.entry(slot).is_damaged)
    }

    /// The snapshot's name and folder.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoSnapshot`], and as [`get`](Vault::get).
    pub fn snapshot(&mut self, snapshot: SnapshotId) -> Result<Snapshot, VaultError> {
        let root = self.root(snapshot)?;
        let bytes = self.get(&root)?;
        Ok(Snapshot::from_bytes(&bytes)?)
    }

    /// A chunk in a container: what is stored, the container's class, and the bytes of the pool.
    pub(super) fn place_in(
        &mut self,
        container: ContainerSequence,
        fingerprint: &Fingerprint,
    ) -> Result<(Stored, Class, Extent<Pos>), VaultError> {
        let absent = VaultError::Absent(*fingerprint);
        let slot = self.catalog.table().slot(container).ok_or(absent.clone())?;
        let directory = self.pool.directory(slot, container)?;
        let stored = directory.find(fingerprint).ok_or(absent)?;
        let head = &directory.head;
        let start = self.pool.extent(slot).start.0 + head.payload_start() as u64 + u64::from(stored.offset);
        Ok((stored, head.class, Extent::new(start, u64::from(stored.stored_bytes))))
    }
}
