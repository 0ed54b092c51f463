//! The witness for a directory that cannot be read: the index.
//!
//! If the index places a live chunk in such a container, all containers with damaged directories
//! are left as they are: after a crash the index knows only that the chunk is in one of them. Then all that was forgotten stays owed, for
//! its content may lie there. If every marked chunk was found elsewhere, nothing live is there, and they are destroyed like any other.

use super::audit::{Audit, audited};
use super::damage::Doubt;
use super::{PAGES_A_STEP, Phase, Run};
use crate::index::IndexEntry;
use crate::live::Live;
use crate::mutant::{self, Mutant};
use crate::vault::Vault;
use crate::vault::index::read_page;
use crate::{ContainerSequence, Reference, VaultError};

impl Vault<'_> {
    /// Notes a container whose directory, of which `readable` is left, is damaged.
    pub(super) fn note_doubt(
        &mut self,
        audit: &mut Audit,
        container: ContainerSequence,
        (why, readable): (VaultError, &[Reference]),
    ) -> Result<(), VaultError> {
        self.note_damage(container)?;
        let named = readable.iter().map(|chunk| chunk.ordinal.0).collect();
        audit.damage.containers.insert(container, Doubt { why, named });
        Ok(())
    }

    /// Asks the index for the chunks of damaged containers, some pages at a time. Then the audit can end.
    pub(super) fn witness(
        &mut self,
        run: &mut Run,
        set: Live,
        mut audit: Audit,
    ) -> Result<Phase, VaultError> {
        let merged = self.catalog.state().index.merged;
        if audit.damage.merged != merged {
            (audit.damage.page, audit.damage.merged) = (0, merged);
        }
        let end = self.index.part.pages().min(audit.damage.page + PAGES_A_STEP);
        if !audit.damage.containers.is_empty() && audit.damage.page < end {
            for page in audit.damage.page..end {
                let page = read_page(&self.catalog.state().index, page, &self.pool)?;
                page.entries().iter().for_each(|entry| self.place(&set, &mut audit, entry));
            }
            audit.damage.page = end;
            return Ok(Phase::Audit(set, audit));
        }
        if audit.damage.has_live {
            let damaged = audit.damage.containers.iter();
            run.left.extend(damaged.map(|(container, doubt)| (*container, doubt.why.clone())));
        }
        audited(set, audit)
    }

    /// Takes an entry of the index for an entry of the directory that cannot be read.
    fn place(&self, set: &Live, audit: &mut Audit, entry: &IndexEntry) {
        let ordinal = entry.location.ordinal;
        let doubt = audit.damage.containers.get(&entry.location.container);
        if doubt.is_none_or(|doubt| doubt.named.contains(ordinal.0)) {
            return;
        }
        let chunk = Reference { fingerprint: entry.fingerprint, ordinal };
        let is_marked = set.has(&chunk);
        let is_revived = self.puts.revived.as_ref().is_some_and(|revived| revived.contains(ordinal.0));
        if is_marked || is_revived {
            audit.damage.has_live = !mutant::is(Mutant::CondemnDamaged);
        } else {
            audit.damage.dead.insert(ordinal.0);
        }
        if is_marked {
            audit.count(set, &chunk);
        }
    }
}
