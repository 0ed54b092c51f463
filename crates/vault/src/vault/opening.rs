//! Making a vault, and opening one that a crash may have left.

use quietus_core::erase::Seeds;
use quietus_core::erase::policy::Scratch;
use quietus_core::media::medium::Medium;
use roaring::RoaringTreemap;

use super::index::{Index, load};
use super::pool::Pool;
use super::puts::Puts;
use super::writing::Writing;
use super::{Setup, Vault};
use crate::catalog::{Catalog, Change, IndexPart, Layout, SlotState};
use crate::container::Class;
use crate::index::{IndexEntry, Location, Part, PartBuilder, Recent};
use crate::mutant::{self, Mutant};
use crate::tree::{Role, children};
use crate::{ContainerSequence, Ordinal, Reference, VaultError};

impl<'m> Vault<'m> {
    /// Makes a vault on two media. The pool's medium holds nothing that has to be destroyed.
    ///
    /// # Errors
    ///
    /// [`VaultError`] if a medium fails, or if the layout or the policy is invalid.
    pub fn create(
        catalog: &'m dyn Medium,
        pool: &'m dyn Medium,
        layout: Layout,
        setup: Setup,
    ) -> Result<Vault<'m>, VaultError> {
        Vault::new(Catalog::create(catalog, layout)?, pool, setup)
    }

    /// Opens the vault on two media. Chunks that puts stored and did not commit are owed, and condemned if they were not durable.
    ///
    /// # Errors
    ///
    /// [`VaultError`] if a medium fails, or was damaged.
    pub fn open(
        catalog: &'m dyn Medium,
        pool: &'m dyn Medium,
        layout: Layout,
        setup: Setup,
    ) -> Result<Vault<'m>, VaultError> {
        let mut vault = Vault::new(Catalog::read(catalog, layout)?, pool, setup)?;
        vault.judge_lost()?;
        vault.resume()
    }

    /// Opens the vault on a catalog that knows the content of each slot.
    pub(super) fn resume(mut self) -> Result<Vault<'m>, VaultError> {
        let vault = &mut self;
        vault.condemn_open()?;
        vault.owe_interrupted()?;
        vault.index.part = match load(&vault.catalog.state().index, &vault.pool) {
            Err(VaultError::Page(_)) => vault.drop_index()?,
            loaded => loaded?,
        };
        vault.rebuild_recent()?;
        Ok(self)
    }

    pub(super) fn new(
        catalog: Catalog<'m>,
        pool: &'m dyn Medium,
        setup: Setup,
    ) -> Result<Vault<'m>, VaultError> {
        if setup.policy.passes().is_empty() {
            return Err(VaultError::NoPasses);
        }
        let pool = Pool::new(pool, catalog.layout(), setup.key);
        let part = PartBuilder::new(0).finish().0;
        let index = Index { recent: Recent::new(setup.recent_entries_max), frozen: None, part };
        Ok(Vault {
            next_ordinal: catalog.state().next.ordinal,
            pool,
            index,
            merge: None,
            writing: Writing::default(),
            puts: Puts::new(catalog.state().next.put),
            catalog,
            run: None,
            zeroing: None,
            policy: setup.policy,
            seeds: Seeds::new(setup.entropy),
            scratch: Scratch::default(),
            judged: 0,
        })
    }

    /// Condemns every free slot: the pool may hold anything, which is destroyed before a slot is used.
    ///
    /// # Errors
    ///
    /// The errors of the catalog.
    pub fn condemn_free(&mut self) -> Result<(), VaultError> {
        let free: Vec<_> = self.catalog.table().free().iter().copied().collect();
        for some in free.chunks(SLOTS_A_FRAME) {
            self.catalog.commit(&some.iter().copied().map(Change::Condemn).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Nothing durable refers to containers that were not sealed. The numbers of their chunks are not given again, lest a chunk that is
    /// found there later is taken for another one.
    fn condemn_open(&mut self) -> Result<(), VaultError> {
        let open: Vec<_> = self.catalog.table().in_state(SlotState::Open).collect();
        for slot in &open {
            let container = self.catalog.table().entry(*slot).container;
            let directory = VaultError::or_damaged(self.pool.directory(*slot, container))?;
            let end = directory.iter().flat_map(|it| it.chunks()).map(|it| it.chunk.ordinal.0 + 1).max();
            self.next_ordinal = self.next_ordinal.max(Ordinal(end.unwrap_or(0)));
        }
        if !open.is_empty() {
            self.catalog.commit(&[Change::Given(self.next_ordinal)])?;
        }
        let change = if mutant::is(Mutant::FreeOpen) { Change::Destroyed } else { Change::Condemn };
        for some in open.chunks(SLOTS_A_FRAME) {
            self.catalog.commit(&some.iter().copied().map(change).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Gives up a damaged index: the directories of all containers have the same entries.
    fn drop_index(&mut self) -> Result<Part, VaultError> {
        let slots = self.catalog.state().index.slots.iter().copied().map(Change::Condemn);
        let changes: Vec<_> = slots.chain([Change::Index(IndexPart::default())]).collect();
        self.catalog.commit(&changes)?;
        Ok(PartBuilder::new(0).finish().0)
    }

    /// Notes the places of chunks that are newer than the last merge, or in a container that was damaged and is repaired. Chunks
    /// that no directory names any more count as chunks of a container that cannot be read.
    fn rebuild_recent(&mut self) -> Result<(), VaultError> {
        let merged = self.catalog.state().index.merged;
        let containers: Vec<_> = self.catalog.table().containers(ContainerSequence(0)).collect();
        let mut damaged = None;
        for (container, slot) in containers {
            let is_new = container >= merged;
            let entry = self.catalog.table().entry(slot);
            if !matches!(entry.class, Class::Data | Class::Metadata) || !(is_new || entry.is_damaged) {
                continue;
            }
            if mutant::is(Mutant::ForgetRecent) && container.0.is_multiple_of(2) {
                continue;
            }
            let directory = match self.pool.directory(slot, container) {
                Err(error) if error.is_of_container() => None,
                directory => Some(directory?),
            };
            if is_new && directory.as_ref().is_none_or(|it| it.damage().is_some()) {
                self.note_damage(container)?;
                damaged = Some(container);
            }
            let chunks = directory.iter().flat_map(|it| it.chunks()).map(|stored| stored.chunk);
            for chunk in chunks {
                if is_new || !self.is_placed(&chunk)? {
                    self.note_place(chunk, container);
                }
            }
        }
        damaged.map_or(Ok(()), |container| self.adopt_lost(container))
    }

    /// Notes in which container a start finds a chunk. Its number is not given again.
    fn note_place(&mut self, chunk: Reference, container: ContainerSequence) {
        let location = Location { ordinal: chunk.ordinal, container };
        self.index.recent.insert(IndexEntry { fingerprint: chunk.fingerprint, location });
        self.next_ordinal = self.next_ordinal.max(Ordinal(chunk.ordinal.0 + 1));
    }

    /// Whether the container that the index places a chunk in has it.
    fn is_placed(&mut self, chunk: &Reference) -> Result<bool, VaultError> {
        let Some(location) = self.find(&chunk.fingerprint)? else { return Ok(false) };
        let placed = self.place_in(location.container, &chunk.fingerprint);
        Ok(VaultError::or_damaged(placed)?.is_some())
    }

    /// Assigns to that container every chunk that a snapshot reaches and the index does not find: a put stores it again
    /// under its old number.
    fn adopt_lost(&mut self, container: ContainerSequence) -> Result<(), VaultError> {
        let mut entered = RoaringTreemap::new();
        let mut pending: Vec<(Reference, Role)> =
            self.snapshots().map(|(_, root)| (root, Role::Snapshot)).collect();
        while let Some((chunk, role)) = pending.pop() {
            if self.find(&chunk.fingerprint)?.is_none() {
                self.note_place(chunk, container);
            } else if role != Role::Content && entered.insert(chunk.ordinal.0) {
                let read = VaultError::or_damaged(self.get(&chunk))?;
                let named = read.and_then(|bytes| children(&bytes).ok());
                pending.extend(named.into_iter().flat_map(|(_, named)| named).map(|it| (it.chunk, it.role)));
            }
        }
        Ok(())
    }
}

/// Most slots that one frame of the catalog names.
pub(crate) const SLOTS_A_FRAME: usize = 1024;
