//! Copy: live chunks leave containers that have dead ones. Compressed bytes move as they are.

use quietus_core::base::units::Extent;

use super::damage::Damage;
use super::{Phase, Run};
use crate::catalog::Change;
use crate::container::Stored;
use crate::live::Live;
use crate::mutant::{self, Mutant};
use crate::vault::{Bytes, Directory, Vault};
use crate::{ContainerSequence, SlotNumber, VaultError};

/// Live bytes that share a sync and a frame of the catalog. Puts wait for one step.
const BYTES_A_STEP: u64 = 32 << 20;
/// Bytes of containers that one step leaves, whether or not anything in them is live.
const SOURCE_BYTES_A_STEP: u64 = 128 << 20;

/// The work of copying.
pub(super) struct Plan {
    /// Containers with dead chunks; the last one is next.
    pub(super) containers: Vec<ContainerSequence>,
    pub(super) damage: Damage,
    /// Memory for the chunks of one container.
    pub(super) payload: Vec<u8>,
}

impl Vault<'_> {
    /// Leaves some containers: their live chunks are durable elsewhere by the frame that condemns them.
    pub(super) fn copy(&mut self, run: &mut Run, set: Live, mut plan: Plan) -> Result<Phase, VaultError> {
        if plan.containers.is_empty() {
            let is_kept = mutant::is(Mutant::KeepOldIndex);
            return Ok(if is_kept { Phase::Zero } else { Phase::SettleAgain });
        }
        if !self.catalog.table().condemned().is_empty() && !self.has_space()? {
            self.destroy_some()?;
            return Ok(Phase::Copy(set, plan));
        }
        let mut left = Vec::new();
        let bytes_end = run.figures.done.live_bytes + BYTES_A_STEP;
        for _ in 0..self.slots_a_batch(SOURCE_BYTES_A_STEP) {
            // The live chunks of one container take one more slot at most.
            let is_short = !left.is_empty() && !self.has_space()?;
            if is_short || run.figures.done.live_bytes >= bytes_end {
                break;
            }
            let Some(container) = plan.containers.pop() else { break };
            let Some(slot) = self.catalog.table().slot(container) else { continue };
            match self.leave(run, &set, &mut plan, (container, slot))? {
                Some(why) => {
                    self.note_damage(container)?;
                    run.left.insert(container, why);
                }
                None => {
                    run.left.remove(&container);
                    left.push(slot);
                }
            }
        }
        run.figures.done.containers += left.len() as u64;
        self.seal(left.into_iter().map(Change::Condemn).collect())?;
        Ok(Phase::Copy(set, plan))
    }

    /// Copies the live chunks of a container; returns the damage if it has to stay. Then nothing of it is copied: the
    /// index would find the copies, and not the chunks that stay.
    fn leave(
        &mut self,
        run: &mut Run,
        set: &Live,
        Plan { damage, payload, .. }: &mut Plan,
        (container, slot): (ContainerSequence, SlotNumber),
    ) -> Result<Option<VaultError>, VaultError> {
        let read = match self.pool.directory(slot, container) {
            Err(error) if !error.is_of_container() => return Err(error),
            read => read,
        };
        let why = read.as_ref().map_or_else(|error| Some(error.clone()), |directory| directory.damage());
        if let Some(why) = why.filter(|_| !damage.is_judged(container, self.puts.revived.as_ref())) {
            return Ok(Some(why));
        }
        // No live chunk is in a container that is judged although its directory cannot be read.
        let Ok(directory) = read else { return Ok(None) };
        let judged = self.judge(set, &directory)?;
        let chunks: Vec<(Stored, bool)> = directory.chunks().zip(judged).collect();
        let live = || chunks.iter().filter(|(_, is_live)| *is_live).map(|(stored, _)| stored);
        if live().next().is_some() {
            self.read_payload(slot, &directory, payload)?;
        }
        let bytes = |stored: &Stored| &payload[stored.offset as usize..][..stored.stored_bytes as usize];
        if let Some(error) = live().find_map(|stored| stored.check(bytes(stored)).err()) {
            return Ok(Some(VaultError::Chunk { container, error }));
        }
        for (stored, is_live) in &chunks {
            run.figures.done.add(u64::from(stored.stored_bytes), *is_live);
        }
        for stored in live() {
            let raw_bytes = stored.raw_bytes as usize;
            let bytes = Bytes { codec: stored.codec, stored: bytes(stored), raw_bytes };
            self.append(directory.head.class, stored.chunk, bytes, 0)?;
        }
        Ok(None)
    }

    /// Reads the chunks of a container.
    pub(crate) fn read_payload(
        &self,
        slot: SlotNumber,
        directory: &Directory,
        payload: &mut Vec<u8>,
    ) -> Result<(), VaultError> {
        let head = &directory.head;
        let start = self.pool.extent(slot).start.0 + head.payload_start() as u64;
        Ok(self.pool.read_into(Extent::new(start, u64::from(head.payload_bytes)), payload)?)
    }
}
