//! Enumeration: marking the chunks that snapshots reach; snapshots that are new since CP0 come first.

use roaring::RoaringTreemap;

use super::{Audit, Phase, Run};
use crate::live::Live;
use crate::mutant::{self, Mutant};
use crate::tree::{Child, Role, children};
use crate::vault::Vault;
use crate::{Reference, SnapshotId, VaultError};

/// Chunks of metadata that one step reads.
const CHUNKS_A_STEP: usize = 64;

/// References that are gathered before they are marked: the set takes many at once for less.
const GATHERED_MAX: usize = 1 << 14;

/// Chunks still to be walked.
#[derive(Debug, Default)]
pub(super) struct Enumeration {
    /// Live chunks that are not marked yet.
    gathered: Vec<Reference>,
    /// The last one is next.
    pending: Vec<Visit>,
    /// The chunks of metadata that were entered, by number: each is entered once.
    entered: RoaringTreemap,
}

/// A chunk that a snapshot reaches.
#[derive(Clone, Copy, Debug)]
struct Visit {
    chunk: Reference,
    role: Role,
    /// The snapshot.
    of: SnapshotId,
    /// Whether a snapshot names it that is not in CP0: the chunk may lie beyond the marker.
    is_new: bool,
}

impl Vault<'_> {
    /// Listens to puts, and takes CP1: in this order, in one step.
    pub(super) fn begin_enumeration(&mut self, run: &Run, set: Live) -> Phase {
        if !mutant::is(Mutant::NotifyAfterCp1) {
            self.puts.listen();
        }
        let visit =
            |(of, chunk): (SnapshotId, Reference), is_new| Visit { chunk, role: Role::Snapshot, of, is_new };
        let before = &run.points.before;
        let mut pending: Vec<Visit> = before.iter().map(|(of, root)| visit((*of, *root), false)).collect();
        if !mutant::is(Mutant::SkipDifference) {
            // A snapshot that was exchanged since is another one, of chunks that may be dead in the first consistency point.
            let difference = self.snapshots().filter(|(snapshot, root)| before.get(snapshot) != Some(root));
            pending.extend(difference.map(|root| visit(root, true)));
        }
        Phase::Enumeration(set, Enumeration { pending, ..Enumeration::default() })
    }

    pub(super) fn enumerate(
        &mut self,
        run: &Run,
        mut set: Live,
        mut enumeration: Enumeration,
    ) -> Result<Phase, VaultError> {
        for _ in 0..CHUNKS_A_STEP {
            let Some(visit) = enumeration.pending.pop() else {
                if mutant::is(Mutant::NotifyAfterCp1) {
                    self.puts.listen();
                }
                set.mark(&enumeration.gathered);
                return Ok(Phase::Audit(set, Audit::default()));
            };
            self.visit(run, &mut set, &mut enumeration, visit).map_err(|why| unreadable(visit.of, why))?;
        }
        Ok(Phase::Enumeration(set, enumeration))
    }

    /// Marks a chunk of metadata, and the chunks that it names.
    fn visit(
        &mut self,
        run: &Run,
        set: &mut Live,
        enumeration: &mut Enumeration,
        visit: Visit,
    ) -> Result<(), VaultError> {
        if !enumeration.entered.insert(visit.chunk.ordinal.0) {
            return Ok(());
        }
        self.gather(run, enumeration, &[visit.chunk], visit.is_new)?;
        let (role, named) = children(&self.get_or_note(&visit.chunk)?)?;
        if role != visit.role {
            return Err(VaultError::Dangling(visit.chunk.fingerprint));
        }
        let (content, metadata): (Vec<Child>, Vec<Child>) =
            named.into_iter().partition(|child| child.role == Role::Content);
        let content: Vec<Reference> = content.into_iter().map(|child| child.chunk).collect();
        self.gather(run, enumeration, &content, visit.is_new)?;
        if enumeration.gathered.len() >= GATHERED_MAX {
            set.mark(&enumeration.gathered);
            enumeration.gathered.clear();
        }
        let visits = metadata.into_iter().map(|Child { chunk, role }| Visit { chunk, role, ..visit });
        enumeration.pending.extend(visits);
        Ok(())
    }

    /// The content of a chunk; if that is damaged, no put relies on it from now on.
    fn get_or_note(&mut self, chunk: &Reference) -> Result<Vec<u8>, VaultError> {
        let read = self.get(chunk);
        if read.as_ref().is_err_and(|error| !error.is_of_media())
            && let Some(location) = self.find(&chunk.fingerprint)?
        {
            self.note_damage(location.container)?;
        }
        read
    }

    /// Gathers chunks to mark. Of those that are new the index says whether the audit will find them.
    fn gather(
        &self,
        run: &Run,
        enumeration: &mut Enumeration,
        chunks: &[Reference],
        is_new: bool,
    ) -> Result<(), VaultError> {
        if !is_new {
            enumeration.gathered.extend_from_slice(chunks);
            return Ok(());
        }
        for chunk in chunks {
            let location = self.find(&chunk.fingerprint)?.ok_or(VaultError::Absent(chunk.fingerprint))?;
            if location.container < run.points.marker {
                enumeration.gathered.push(*chunk);
            }
        }
        Ok(())
    }
}

/// If a part of a snapshot is missing, it is not known what is dead.
fn unreadable(snapshot: SnapshotId, why: VaultError) -> VaultError {
    match why.is_of_media() {
        true => why,
        false => VaultError::Unreadable { snapshot, why: Box::new(why) },
    }
}
