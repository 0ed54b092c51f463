//! Making a vault, and opening one that a crash may have left.

use quietus_core::erase::Seeds;
use quietus_core::medium::Medium;
use quietus_core::policy::Scratch;

use super::index::{Index, load};
use super::pool::Pool;
use super::puts::Puts;
use super::writing::Writing;
use super::{Setup, Vault};
use crate::catalog::{Catalog, Change, Layout, SlotState};
use crate::container::Class;
use crate::index::{IndexEntry, Location, Recent};
use crate::mutant::{self, Mutant};
use crate::{Ordinal, VaultError};

impl<'m> Vault<'m> {
    /// Makes a vault on two media, of which the pool's holds nothing that is worth destroying.
    ///
    /// # Errors
    ///
    /// [`VaultError`] if a medium fails, or the layout or the policy cannot be.
    pub fn create(
        catalog: &'m dyn Medium,
        pool: &'m dyn Medium,
        layout: Layout,
        setup: Setup,
    ) -> Result<Vault<'m>, VaultError> {
        Vault::new(Catalog::create(catalog, layout)?, pool, setup)
    }

    /// Opens the vault on two media. What puts had stored and not committed is condemned.
    ///
    /// # Errors
    ///
    /// [`VaultError`] if a medium fails, or was damaged.
    pub fn open(
        catalog: &'m dyn Medium,
        pool: &'m dyn Medium,
        setup: Setup,
    ) -> Result<Vault<'m>, VaultError> {
        let mut vault = Vault::new(Catalog::open(catalog)?, pool, setup)?;
        vault.condemn_open()?;
        vault.index.part = load(&vault.catalog.state().index, &vault.pool)?;
        vault.rebuild_recent()?;
        Ok(vault)
    }

    fn new(catalog: Catalog<'m>, pool: &'m dyn Medium, setup: Setup) -> Result<Vault<'m>, VaultError> {
        if setup.policy.passes().is_empty() {
            return Err(VaultError::NoPasses);
        }
        let pool = Pool::new(pool, catalog.layout(), setup.key);
        let part = crate::index::PartBuilder::new(0).finish().0;
        let index = Index { recent: Recent::new(setup.recent_entries_max), frozen: None, part };
        Ok(Vault {
            next_ordinal: catalog.state().next.ordinal,
            catalog,
            pool,
            index,
            merge: None,
            writing: Writing::default(),
            puts: Puts::default(),
            run: None,
            zeroing: None,
            policy: setup.policy,
            seeds: Seeds::new(setup.entropy),
            scratch: Scratch::default(),
        })
    }

    /// Nothing durable refers to containers that were not sealed.
    fn condemn_open(&mut self) -> Result<(), VaultError> {
        let open: Vec<_> = self.catalog.table().in_state(SlotState::Open).collect();
        let change = if mutant::is(Mutant::FreeOpen) { Change::Destroyed } else { Change::Condemn };
        for some in open.chunks(SLOTS_A_FRAME) {
            self.catalog.commit(&some.iter().copied().map(change).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Notes where the chunks are that are newer than the last merge.
    fn rebuild_recent(&mut self) -> Result<(), VaultError> {
        let merged = self.catalog.state().index.merged;
        let containers: Vec<_> = self.catalog.table().containers(merged).collect();
        for (container, slot) in containers {
            if !matches!(self.catalog.table().entry(slot).class, Class::Data | Class::Metadata) {
                continue;
            }
            if mutant::is(Mutant::ForgetRecent) && container.0.is_multiple_of(2) {
                continue;
            }
            let directory = self.pool.directory(slot, container)?;
            for stored in directory.chunks() {
                let location = Location { ordinal: stored.chunk.ordinal, container };
                self.index.recent.insert(IndexEntry { fingerprint: stored.chunk.fingerprint, location });
                self.next_ordinal = self.next_ordinal.max(Ordinal(stored.chunk.ordinal.0 + 1));
            }
        }
        Ok(())
    }
}

/// Slots that one frame of the catalog names at most.
pub(crate) const SLOTS_A_FRAME: usize = 1024;
