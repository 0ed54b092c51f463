//! Checking all that a vault has.

use roaring::RoaringTreemap;

use super::index::read_page;
use super::opening::SLOTS_A_FRAME;
use super::{Step, Vault};
use crate::catalog::Change;
use crate::index::IndexEntry;
use crate::{ContainerSequence, Ordinal, Reference, SlotNumber, VaultError};

#[cfg(test)]
mod tests;

/// Most faults that are reported one by one.
const FAULTS_MAX: usize = 100;

/// Chunks that were checked. Memory grows by three bits for each.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Verified {
    /// Containers of chunks.
    pub containers: u64,
    /// Entries of the index.
    pub entries: u64,
    /// Chunks that are whole, each counted once.
    pub chunks: u64,
    /// Chunks that snapshots reach.
    pub reached: u64,
    /// Faults, the first hundred.
    pub faults: Vec<VaultError>,
    /// The number of faults.
    pub faults_count: u64,
    /// The chunks that are whole.
    whole: RoaringTreemap,
}

impl Verified {
    /// Whether a chunk is whole.
    pub fn is_whole(&self, chunk: &Reference) -> bool {
        self.whole.contains(chunk.ordinal.0)
    }

    fn fault(&mut self, fault: VaultError) {
        self.faults_count += 1;
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(fault);
        }
    }
}

impl Vault<'_> {
    /// Reads every chunk of every container, the index, and all that snapshots reach. Damage is not an error: it is reported, and noted,
    /// so that no put relies on a damaged chunk.
    ///
    /// # Errors
    ///
    /// [`VaultError::Interrupted`]; the errors of the media.
    pub fn verify(&mut self, step: Step<'_>) -> Result<Verified, VaultError> {
        let mut verified = Verified::default();
        let whole = self.check_containers(&mut verified, step)?;
        let indexed = self.check_index(&mut verified)?;
        match self.reached_by_all(step) {
            Ok(reached) => {
                verified.reached = reached.len();
                let lost = &reached - &whole;
                lost.iter().for_each(|it| verified.fault(VaultError::Missing(Ordinal(it))));
                let unindexed = &(&reached - &indexed) - &lost;
                unindexed.iter().for_each(|it| verified.fault(VaultError::Unindexed(Ordinal(it))));
            }
            Err(VaultError::Interrupted) => return Err(VaultError::Interrupted),
            Err(error) => verified.fault(error),
        }
        verified.chunks = whole.len();
        verified.whole = whole;
        Ok(verified)
    }

    /// The numbers of the chunks that are whole.
    fn check_containers(
        &mut self,
        verified: &mut Verified,
        step: Step<'_>,
    ) -> Result<RoaringTreemap, VaultError> {
        let (mut whole, mut damaged) = (RoaringTreemap::new(), Vec::new());
        let containers = self.chunk_containers();
        for (done, (container, slot)) in (0..).zip(&containers) {
            if !step(done, containers.len() as u64) {
                return Err(VaultError::Interrupted);
            }
            verified.containers += 1;
            let before = verified.faults_count;
            match self.check_container(verified, &mut whole, (*container, *slot)) {
                Err(error) if error.is_of_container() => verified.fault(error),
                checked => checked?,
            }
            if verified.faults_count > before && !self.is_damaged(*container) {
                damaged.push(Change::Damaged(*slot));
            }
        }
        for some in damaged.chunks(SLOTS_A_FRAME) {
            self.catalog.commit(some)?;
        }
        Ok(whole)
    }

    fn check_container(
        &mut self,
        verified: &mut Verified,
        whole: &mut RoaringTreemap,
        (container, slot): (ContainerSequence, SlotNumber),
    ) -> Result<(), VaultError> {
        let directory = self.pool.directory(slot, container)?;
        if let Some(damage) = directory.damage() {
            verified.fault(damage);
        }
        let mut payload = Vec::new();
        self.read_payload(slot, &directory, &mut payload)?;
        for stored in directory.chunks() {
            let bytes = &payload[stored.offset as usize..][..stored.stored_bytes as usize];
            match stored.content(&self.pool.key, directory.head.class, bytes) {
                Ok(_) => {
                    whole.insert(stored.chunk.ordinal.0);
                }
                Err(_) if self.is_stored_again(&stored.chunk, container)? => {}
                Err(error) => verified.fault(VaultError::Chunk { container, error }),
            }
        }
        Ok(())
    }

    /// The numbers of the chunks that the index finds.
    fn check_index(&mut self, verified: &mut Verified) -> Result<RoaringTreemap, VaultError> {
        let mut found = RoaringTreemap::new();
        for page in 0..self.index.part.pages() {
            match read_page(&self.catalog.state().index, page, &self.pool) {
                Ok(page) => {
                    page.entries().iter().for_each(|entry| self.check_entry(&mut found, verified, entry))
                }
                Err(VaultError::Page(error)) => verified.fault(VaultError::Page(error)),
                Err(error) => return Err(error),
            }
        }
        let in_memory = [Some(&self.index.recent), self.index.frozen.as_ref()].into_iter().flatten();
        for entry in in_memory.flat_map(|recent| recent.entries()) {
            self.check_entry(&mut found, verified, &entry);
        }
        Ok(found)
    }

    fn check_entry(&self, found: &mut RoaringTreemap, verified: &mut Verified, entry: &IndexEntry) {
        if self.catalog.table().slot(entry.location.container).is_some() {
            verified.entries += 1;
            found.insert(entry.location.ordinal.0);
        }
    }

    /// The sealed containers of chunks, in order.
    pub(super) fn chunk_containers(&self) -> Vec<(ContainerSequence, SlotNumber)> {
        let all = self.catalog.table().containers(ContainerSequence(0));
        all.filter(|(_, slot)| self.has_chunks(*slot)).collect()
    }
}
