//! Copy: live chunks leave containers that have dead ones. Compressed bytes move as they are.

use quietus_core::units::Extent;

use super::{Phase, Run, Set};
use crate::catalog::Change;
use crate::container::Stored;
use crate::vault::{Bytes, Directory, Vault};
use crate::{ContainerSequence, SlotNumber, VaultError};

/// Containers that one step leaves, at most.
const SOURCES_A_STEP: usize = 16;

impl Vault<'_> {
    /// Leaves some containers: their live chunks are durable elsewhere by the frame that condemns them.
    pub(super) fn copy(
        &mut self,
        run: &mut Run,
        set: Set,
        mut plan: Vec<ContainerSequence>,
    ) -> Result<Phase, VaultError> {
        if plan.is_empty() {
            return Ok(self.end_turn(run));
        }
        if self.catalog.table().free().is_empty() && !self.catalog.table().condemned().is_empty() {
            self.destroy_some()?;
            return Ok(Phase::Copy(set, plan));
        }
        let mut left = Vec::new();
        let bytes_end = run.figures.copied_bytes + u64::from(self.catalog.layout().slot_bytes);
        while left.len() < SOURCES_A_STEP && run.figures.copied_bytes < bytes_end {
            // The live chunks of one container take one more slot at most.
            if self.catalog.table().free().is_empty() && !left.is_empty() {
                break;
            }
            let Some(container) = plan.pop() else { break };
            if let Some(slot) = self.catalog.table().slot(container) {
                self.leave(run, &set, container, slot)?;
                left.push(slot);
            }
        }
        run.figures.condemned += left.len() as u64;
        self.seal(left.into_iter().map(Change::Condemn).collect())?;
        Ok(Phase::Copy(set, plan))
    }

    /// Copies the live chunks of a container.
    fn leave(
        &mut self,
        run: &mut Run,
        set: &Set,
        container: ContainerSequence,
        slot: SlotNumber,
    ) -> Result<(), VaultError> {
        let directory = self.pool.directory(slot, container)?;
        let judged = self.judge(&**set, &directory)?;
        let live: Vec<Stored> = directory
            .chunks()
            .zip(&judged)
            .filter(|(_, is_live)| **is_live)
            .map(|(chunk, _)| chunk)
            .collect();
        run.figures.dead += (judged.len() - live.len()) as u64;
        if live.is_empty() {
            return Ok(());
        }
        let payload = self.payload(slot, &directory)?;
        for stored in live {
            let start = stored.offset as usize;
            let bytes = &payload[start..start + stored.stored_bytes as usize];
            stored.check(bytes).map_err(|error| VaultError::Chunk { container, error })?;
            run.figures.copied += 1;
            run.figures.copied_bytes += bytes.len() as u64;
            let bytes = Bytes { codec: stored.codec, stored: bytes, raw_bytes: stored.raw_bytes as usize };
            self.append(directory.head.class, stored.chunk, bytes, 0)?;
        }
        Ok(())
    }

    pub(crate) fn payload(&self, slot: SlotNumber, directory: &Directory) -> Result<Vec<u8>, VaultError> {
        let head = &directory.head;
        let start = self.pool.extent(slot).start.0 + head.payload_start() as u64;
        Ok(self.pool.read(Extent::new(start, u64::from(head.payload_bytes)))?)
    }
}
