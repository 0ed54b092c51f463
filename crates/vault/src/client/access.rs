//! What clients ask of a vault, whichever process has it open.

use crate::chunk::Packed;
use crate::{Fingerprint, ForgetId, PutId, Reference, SnapshotId, Vault, VaultError};

/// A vault as a client sees it. The errors are those of [`Vault`], and [`VaultError::Lost`] of one that is open elsewhere.
pub trait Access {
    /// Begins a put.
    ///
    /// # Errors
    ///
    /// As [`Vault::begin_put`].
    fn begin_put(&mut self) -> Result<PutId, VaultError>;

    /// For each name, the chunk if the vault has it with all below, whole, and None if it is wanted. The put refers to those that
    /// are there.
    ///
    /// # Errors
    ///
    /// As [`Vault::offer`].
    fn offer(&mut self, put: PutId, chunks: &[Fingerprint]) -> Result<Vec<Option<Reference>>, VaultError>;

    /// Stores chunks, unless they are there by now. The put refers to them.
    ///
    /// # Errors
    ///
    /// As [`Vault::store`].
    fn store(&mut self, put: PutId, chunks: Vec<Packed>) -> Result<Vec<Reference>, VaultError>;

    /// Notes that the put has stored what it will not commit.
    ///
    /// # Errors
    ///
    /// As [`Vault::leave_behind`].
    fn leave_behind(&mut self, put: PutId) -> Result<(), VaultError>;

    /// Ends a put with a snapshot, which is durable when this returns. What the put stored of the `left_out` is owed.
    ///
    /// # Errors
    ///
    /// As [`Vault::commit`].
    fn commit(&mut self, put: PutId, root: Packed, left_out: u64) -> Result<SnapshotId, VaultError>;

    /// Ends a put by giving snapshots other chunks to begin with, all at once.
    ///
    /// # Errors
    ///
    /// As [`Vault::replace`].
    fn replace(
        &mut self,
        put: PutId,
        roots: Vec<(SnapshotId, Reference, Packed)>,
    ) -> Result<Vec<ForgetId>, VaultError>;

    /// Ends a put without a snapshot.
    ///
    /// # Errors
    ///
    /// As [`Vault::drop_put`].
    fn drop_put(&mut self, put: PutId) -> Result<(), VaultError>;

    /// The content of a chunk, wherever it has moved.
    ///
    /// # Errors
    ///
    /// As [`Vault::get`].
    fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError>;

    /// Tells which chunks are got next, in this order, and before those that were told earlier. A vault that answers each
    /// request from far away can ask for several at once.
    fn expect(&mut self, _chunks: &mut dyn DoubleEndedIterator<Item = Reference>) {}

    /// What a snapshot begins with.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoSnapshot`].
    fn root(&mut self, snapshot: SnapshotId) -> Result<Reference, VaultError>;

    /// The snapshots in the order of their numbers, and what each begins with.
    ///
    /// # Errors
    ///
    /// [`VaultError::Lost`].
    fn roots(&mut self) -> Result<Vec<(SnapshotId, Reference)>, VaultError>;

    /// The holds: the name of each, and a snapshot that it keeps.
    ///
    /// # Errors
    ///
    /// [`VaultError::Lost`].
    fn holds(&mut self) -> Result<Vec<(String, SnapshotId)>, VaultError>;
}

impl Access for Vault<'_> {
    fn begin_put(&mut self) -> Result<PutId, VaultError> {
        Vault::begin_put(self)
    }

    fn offer(&mut self, put: PutId, chunks: &[Fingerprint]) -> Result<Vec<Option<Reference>>, VaultError> {
        Vault::offer(self, put, chunks)
    }

    fn store(&mut self, put: PutId, chunks: Vec<Packed>) -> Result<Vec<Reference>, VaultError> {
        chunks.iter().map(|chunk| Vault::store(self, put, chunk)).collect()
    }

    fn leave_behind(&mut self, put: PutId) -> Result<(), VaultError> {
        Vault::leave_behind(self, put)
    }

    fn commit(&mut self, put: PutId, root: Packed, left_out: u64) -> Result<SnapshotId, VaultError> {
        if left_out > 0 {
            self.leave_behind(put)?;
        }
        Vault::commit(self, put, &root)
    }

    fn replace(
        &mut self,
        put: PutId,
        roots: Vec<(SnapshotId, Reference, Packed)>,
    ) -> Result<Vec<ForgetId>, VaultError> {
        Vault::replace(self, put, &roots)
    }

    fn drop_put(&mut self, put: PutId) -> Result<(), VaultError> {
        Vault::drop_put(self, put)
    }

    fn get(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
        Vault::get(self, chunk)
    }

    fn root(&mut self, snapshot: SnapshotId) -> Result<Reference, VaultError> {
        Vault::root(self, snapshot)
    }

    fn roots(&mut self) -> Result<Vec<(SnapshotId, Reference)>, VaultError> {
        Ok(self.snapshots().collect())
    }

    fn holds(&mut self) -> Result<Vec<(String, SnapshotId)>, VaultError> {
        Ok(Vault::holds(self).map(|(name, snapshot)| (name.into(), snapshot)).collect())
    }
}
