//! The chunks that snapshots reach, and their number and bytes.

use std::collections::BTreeSet;

use roaring::RoaringTreemap;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{Step, Vault};
use crate::container::Class;
use crate::tree::{Child, Role, children};
use crate::{Reference, SnapshotId, VaultError};

/// An amount of chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct Amount {
    /// The number of chunks.
    pub chunks: u64,
    /// Bytes of the chunks as stored.
    pub stored_bytes: u64,
    /// Bytes of the content of the chunks.
    pub raw_bytes: u64,
}

/// The content of a vault, in amounts.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Contents {
    /// Containers, by their content.
    pub containers: Containers,
    /// Chunks of content that snapshots reach.
    pub data: Amount,
    /// Chunks of metadata that snapshots reach.
    pub metadata: Amount,
    /// Chunks that no snapshot reaches.
    pub dead: Amount,
}

/// Numbers of containers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Containers {
    /// Containers of content.
    pub data: u64,
    /// Containers of metadata.
    pub metadata: u64,
}

impl Vault<'_> {
    /// The numbers of all chunks that are reached from these root chunks. The set takes a bit of memory for each chunk.
    ///
    /// # Errors
    ///
    /// [`VaultError::Interrupted`]; as [`get`](Vault::get), and [`VaultError::Dangling`] if a chunk has another role than its name says.
    pub fn reached(
        &mut self,
        roots: impl IntoIterator<Item = Reference>,
        step: Step<'_>,
    ) -> Result<RoaringTreemap, VaultError> {
        let mut reached = RoaringTreemap::new();
        let root = |chunk| Child { chunk, role: Role::Snapshot };
        let mut pending: Vec<Child> = roots.into_iter().map(root).collect();
        let mut read = 0;
        while let Some(Child { chunk, role }) = pending.pop() {
            if !reached.insert(chunk.ordinal.0) {
                continue;
            }
            let (found, named) = children(&self.get(&chunk)?)?;
            if found != role {
                return Err(VaultError::Dangling(chunk.fingerprint));
            }
            for child in named {
                if child.role == Role::Content {
                    reached.insert(child.chunk.ordinal.0);
                } else {
                    pending.push(child);
                }
            }
            read += 1;
            if !step(read, read + pending.len() as u64) {
                return Err(VaultError::Interrupted);
            }
        }
        Ok(reached)
    }

    /// Chunks that all snapshots together reach.
    ///
    /// # Errors
    ///
    /// As [`reached`](Vault::reached).
    pub fn reached_by_all(&mut self, step: Step<'_>) -> Result<RoaringTreemap, VaultError> {
        let roots: Vec<Reference> = self.snapshots().map(|(_, root)| root).collect();
        self.reached(roots, step)
    }

    /// The amount that only these snapshots have, and that forgetting them destroys.
    ///
    /// # Errors
    ///
    /// [`VaultError::NoSnapshot`]; as [`reached`](Vault::reached).
    pub fn weigh(&mut self, snapshots: &[SnapshotId], step: Step<'_>) -> Result<Amount, VaultError> {
        let snapshots: BTreeSet<SnapshotId> = snapshots.iter().copied().collect();
        let theirs = snapshots.iter().map(|snapshot| self.root(*snapshot));
        let theirs = theirs.collect::<Result<Vec<_>, _>>()?;
        let others = self.snapshots().filter(|(snapshot, _)| !snapshots.contains(snapshot));
        let others: Vec<Reference> = others.map(|(_, root)| root).collect();
        let alone = &self.reached(theirs, step)? - &self.reached(others, step)?;
        let mut amount = Amount::default();
        self.each_chunk(step, &mut |_, ordinal, one| {
            if alone.contains(ordinal) {
                amount.add(one);
            }
        })?;
        Ok(amount)
    }

    /// The content of the vault, in amounts.
    ///
    /// # Errors
    ///
    /// As [`reached`](Vault::reached).
    pub fn contents(&mut self, step: Step<'_>) -> Result<Contents, VaultError> {
        let reached = self.reached_by_all(step)?;
        let containers = self.chunk_containers();
        let classes = containers.iter().map(|(_, slot)| self.catalog.table().entry(*slot).class);
        let metadata = classes.filter(|class| *class == Class::Metadata).count();
        let counts = Containers { data: (containers.len() - metadata) as u64, metadata: metadata as u64 };
        let mut contents = Contents { containers: counts, ..Contents::default() };
        self.each_chunk(step, &mut |class, ordinal, one| match (reached.contains(ordinal), class) {
            (false, _) => contents.dead.add(one),
            (true, Class::Metadata) => contents.metadata.add(one),
            (true, _) => contents.data.add(one),
        })?;
        Ok(contents)
    }

    /// Calls `take` with each chunk in sealed containers: its class, its number, its amount.
    fn each_chunk(
        &mut self,
        step: Step<'_>,
        take: &mut dyn FnMut(Class, u64, Amount),
    ) -> Result<(), VaultError> {
        let containers = self.chunk_containers();
        for (done, (container, slot)) in (0..).zip(&containers) {
            if !step(done, containers.len() as u64) {
                return Err(VaultError::Interrupted);
            }
            let directory = self.pool.directory(*slot, *container)?;
            for stored in directory.chunks() {
                let (stored_bytes, raw_bytes) = (u64::from(stored.stored_bytes), u64::from(stored.raw_bytes));
                let one = Amount { chunks: 1, stored_bytes, raw_bytes };
                take(directory.head.class, stored.chunk.ordinal.0, one);
            }
        }
        Ok(())
    }
}

impl Amount {
    /// Adds another amount.
    pub fn add(&mut self, other: Amount) {
        self.chunks += other.chunks;
        self.stored_bytes += other.stored_bytes;
        self.raw_bytes += other.raw_bytes;
    }
}
