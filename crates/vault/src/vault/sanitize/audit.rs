//! Audit: which containers have dead chunks, and whether every marked chunk was found.

use roaring::RoaringTreemap;

use super::copy::Plan;
use super::damage::Damage;
use super::{Findings, Phase, Run};
use crate::catalog::SlotState;
use crate::container::Class;
use crate::live::Live;
use crate::vault::{Directory, Vault};
use crate::{ContainerSequence, Reference, SlotNumber, VaultError};

/// Directories that one step reads.
const CONTAINERS_A_STEP: usize = 16;

/// The tally so far.
#[derive(Debug, Default)]
pub(super) struct Audit {
    next: ContainerSequence,
    /// Live chunks that were found, by part of the set.
    found: Vec<u64>,
    /// The numbers of the live chunks: a chunk that an error has left in two containers counts once.
    seen: RoaringTreemap,
    /// Containers with dead chunks, and live ones.
    plan: Vec<ContainerSequence>,
    /// Containers in which nothing is live: they are left first, as that takes no space.
    dead: Vec<ContainerSequence>,
    pub(super) damage: Damage,
}

impl Audit {
    /// Counts a marked chunk, once.
    pub(super) fn count(&mut self, set: &Live, chunk: &Reference) {
        self.found.resize(set.parts(), 0);
        if let Some(part) = set.part(chunk)
            && self.seen.insert(chunk.ordinal.0)
        {
            self.found[part] += 1;
        }
    }
}

impl Vault<'_> {
    pub(super) fn audit(&mut self, run: &mut Run, set: Live, mut audit: Audit) -> Result<Phase, VaultError> {
        audit.found.resize(set.parts(), 0);
        // What lies beyond counts as live: the set does not cover it. Judging it would be work for nothing.
        let is_below = |container| container < run.points.marker;
        let containers = self.catalog.table().containers(audit.next);
        let some: Vec<_> = containers.take_while(|(it, _)| is_below(*it)).take(CONTAINERS_A_STEP).collect();
        let Some((last, _)) = some.last() else {
            return self.witness(run, set, audit);
        };
        audit.next = ContainerSequence(last.0 + 1);
        for (container, slot) in some {
            if self.has_chunks(slot) {
                run.figures.judged += 1;
                self.audit_container(run, &set, &mut audit, (container, slot))?;
            }
        }
        Ok(Phase::Audit(set, audit))
    }

    /// Whether a sealed container of chunks is in the slot.
    pub(crate) fn has_chunks(&self, slot: SlotNumber) -> bool {
        let entry = self.catalog.table().entry(slot);
        entry.state == SlotState::Sealed && matches!(entry.class, Class::Data | Class::Metadata)
    }

    fn audit_container(
        &mut self,
        run: &mut Run,
        set: &Live,
        audit: &mut Audit,
        (container, slot): (ContainerSequence, SlotNumber),
    ) -> Result<(), VaultError> {
        let directory = match self.pool.directory(slot, container) {
            Err(why) if why.is_of_container() => {
                audit.plan.push(container);
                return self.note_doubt(audit, container, (why, &[]));
            }
            read => read?,
        };
        let chunks: Vec<Reference> = directory.chunks().map(|stored| stored.chunk).collect();
        if let Some(why) = directory.damage() {
            self.note_doubt(audit, container, (why, &chunks))?;
        }
        chunks.iter().filter(|chunk| set.has(chunk)).for_each(|chunk| audit.count(set, chunk));
        let is_whole = chunks.len() == directory.entries.len();
        let judged = self.judge(set, &directory)?;
        if chunks.is_empty() || !is_whole || !judged.iter().all(|is_live| *is_live) {
            let is_dead = is_whole && !judged.contains(&true);
            let plan = if is_dead { &mut audit.dead } else { &mut audit.plan };
            plan.push(container);
            run.figures.found.containers += 1;
            let stored = directory.chunks().map(|stored| u64::from(stored.stored_bytes));
            stored.zip(judged).for_each(|(bytes, is_live)| run.figures.found.add(bytes, is_live));
        }
        Ok(())
    }

    /// Which chunks of a directory are live.
    pub(super) fn judge(&mut self, set: &Live, directory: &Directory) -> Result<Vec<bool>, VaultError> {
        let chunks: Vec<Reference> = directory.chunks().map(|stored| stored.chunk).collect();
        let revived = self.puts.revived.as_ref();
        let is_revived = |chunk: &Reference| revived.is_some_and(|it| it.contains(chunk.ordinal.0));
        let mut live: Vec<bool> = chunks.iter().map(|chunk| set.has(chunk) || is_revived(chunk)).collect();
        if self.is_damaged(directory.head.sequence) {
            for (chunk, is_live) in chunks.iter().zip(&mut live) {
                *is_live = *is_live && !self.is_stored_again(chunk, directory.head.sequence)?;
            }
        }
        Ok(live)
    }
}

impl Findings {
    pub(super) fn add(&mut self, bytes: u64, is_live: bool) {
        let (chunks, all) = match is_live {
            true => (&mut self.live, &mut self.live_bytes),
            false => (&mut self.dead, &mut self.dead_bytes),
        };
        *chunks += 1;
        *all += bytes;
    }
}

/// Goes on if each marked chunk was found.
pub(super) fn audited(set: Live, audit: Audit) -> Result<Phase, VaultError> {
    for (part, &found) in audit.found.iter().enumerate() {
        let marked = set.marked(part);
        if marked != found {
            return Err(VaultError::Audit { part, marked, found });
        }
    }
    let Audit { plan: mut containers, dead, damage, .. } = audit;
    containers.reverse();
    containers.extend(dead.into_iter().rev());
    Ok(Phase::Copy(set, Plan { containers, damage, payload: Vec::new() }))
}
