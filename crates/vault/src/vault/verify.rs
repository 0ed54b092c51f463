//! Checking everything that a vault has.

use std::collections::HashSet;

use super::Vault;
use super::index::read_page;
use crate::index::IndexEntry;
use crate::tree::{Role, children};
use crate::{Reference, VaultError};

/// What was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Entries of the index.
    pub entries: u64,
    /// Chunks that snapshots reach, each counted once.
    pub chunks: u64,
}

impl Vault<'_> {
    /// Reads every chunk that the index names and every chunk that a snapshot reaches, and needs memory for all names.
    ///
    /// # Errors
    ///
    /// The first thing that is wrong.
    pub fn verify(&mut self) -> Result<Verified, VaultError> {
        let mut verified = Verified::default();
        for IndexEntry { fingerprint, location } in self.all_entries()? {
            let found = self.find(&fingerprint)?.filter(|found| found.container == location.container);
            if found.is_some() {
                self.get(&Reference { fingerprint, ordinal: location.ordinal })?;
                verified.entries += 1;
            }
        }
        let mut pending: Vec<_> = self.snapshots().map(|(_, root)| (root, Role::Snapshot)).collect();
        let mut seen = HashSet::new();
        while let Some((chunk, role)) = pending.pop() {
            if !seen.insert(chunk.fingerprint) {
                continue;
            }
            let location = self.find(&chunk.fingerprint)?;
            if location.is_none_or(|location| location.ordinal != chunk.ordinal) {
                return Err(VaultError::Dangling(chunk.fingerprint));
            }
            let content = self.get(&chunk)?;
            verified.chunks += 1;
            if role != Role::Content {
                pending.extend(children(&content)?.1.into_iter().map(|child| (child.chunk, child.role)));
            }
        }
        Ok(verified)
    }

    /// All entries of the index, newer ones first.
    fn all_entries(&self) -> Result<Vec<IndexEntry>, VaultError> {
        let in_memory = [Some(&self.index.recent), self.index.frozen.as_ref()].into_iter().flatten();
        let mut all: Vec<_> = in_memory.flat_map(|recent| recent.entries()).collect();
        for page in 0..self.index.part.pages() {
            all.extend(read_page(&self.catalog.state().index, page, &self.pool)?.entries());
        }
        Ok(all)
    }
}
