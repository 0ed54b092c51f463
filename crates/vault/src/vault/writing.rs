//! Filling containers, and making them durable.

use quietus_core::base::units::Extent;
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::medium::{MediumError, MediumErrorKind};

use super::Vault;
use crate::catalog::Change;
use crate::chunk::Codec;
use crate::container::{Builder, Class, HEAD_BYTES};
use crate::index::{IndexEntry, Location};
use crate::mutant::{self, Mutant};
use crate::{ContainerSequence, Reference, SlotNumber, VaultError};

/// Containers that are not sealed yet: at most one of each class is being filled, the others are written.
#[derive(Default, Debug)]
pub(crate) struct Writing {
    data: Option<Filling>,
    metadata: Option<Filling>,
    written: Vec<SlotNumber>,
}

#[derive(Debug)]
struct Filling {
    slot: SlotNumber,
    builder: Builder,
}

/// A chunk as it is stored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bytes<'a> {
    pub(crate) codec: Codec,
    pub(crate) stored: &'a [u8],
    pub(crate) raw_bytes: usize,
}

impl Writing {
    fn filling(&mut self, class: Class) -> &mut Option<Filling> {
        match class {
            Class::Metadata => &mut self.metadata,
            Class::Data | Class::Index | Class::Spill => &mut self.data,
        }
    }

    /// Containers that are written and not sealed.
    pub(crate) fn unsealed(&self) -> usize {
        self.written.len()
    }

    /// The container that is being filled in memory, if it has this number.
    pub(crate) fn in_memory(&self, container: ContainerSequence) -> Option<&Builder> {
        let all = [&self.data, &self.metadata].into_iter().flatten();
        all.map(|filling| &filling.builder).find(|builder| builder.head().sequence == container)
    }
}

impl Vault<'_> {
    /// Stores a chunk, and notes where it is. `reserved` slots are left alone.
    pub(crate) fn append(
        &mut self,
        class: Class,
        chunk: Reference,
        bytes: Bytes<'_>,
        reserved: usize,
    ) -> Result<(), VaultError> {
        loop {
            if self.writing.filling(class).is_none() {
                let (slot, sequence) = self.open_slot(class, reserved)?;
                let layout = self.catalog.layout();
                let builder = Builder::new(layout.vault, sequence, class, layout.slot_bytes as usize);
                *self.writing.filling(class) = Some(Filling { slot, builder });
            }
            let filling = self.writing.filling(class).as_mut().expect("just made");
            if filling.builder.add(chunk, bytes.codec, bytes.stored, bytes.raw_bytes) {
                let container = filling.builder.head().sequence;
                let location = Location { ordinal: chunk.ordinal, container };
                self.index.recent.insert(IndexEntry { fingerprint: chunk.fingerprint, location });
                return Ok(());
            }
            if filling.builder.is_empty() {
                let slot = self.catalog.layout().slot_bytes as usize;
                return Err(VaultError::TooLarge { stored: bytes.stored.len(), slot });
            }
            self.end_container(class)?;
        }
    }

    /// Takes a free slot for the next container, durably.
    pub(crate) fn open_slot(
        &mut self,
        class: Class,
        reserved: usize,
    ) -> Result<(SlotNumber, ContainerSequence), VaultError> {
        self.pool.guard()?;
        let table = self.catalog.table();
        let free = table.free().len();
        let condemned = table.condemned().first().filter(|_| mutant::is(Mutant::ReuseUndestroyed));
        let slot = condemned.copied().or(self.next_slot()).filter(|_| free > reserved);
        let slot = slot.ok_or(VaultError::Full { free, reserved })?;
        self.guard_free(slot)?;
        // A full host refuses here, where nothing has changed yet.
        while let Err(error) = self.pool.allocate(slot).and_then(|()| self.allocate_reserve(reserved + 1)) {
            if error.kind != MediumErrorKind::NoSpace {
                return Err(error.into());
            }
            if self.destroy_some()? {
                return Err(VaultError::NoSpace(error));
            }
        }
        self.pool.kept.remove(&slot);
        let container = self.catalog.state().next.container;
        self.catalog.commit(&[Change::Open(slot, container, class)])?;
        Ok((slot, container))
    }

    /// The slot that is taken next.
    fn next_slot(&self) -> Option<SlotNumber> {
        self.pool.kept.first().or(self.catalog.table().free().first()).copied()
    }

    /// Allocates the space of this many free slots, so that a sanitization can work on a full host.
    pub(crate) fn allocate_reserve(&mut self, count: usize) -> Result<(), MediumError> {
        let lacking = count.saturating_sub(self.pool.kept.len());
        let free = self.catalog.table().free().iter().copied();
        let next: Vec<SlotNumber> = free.filter(|it| !self.pool.kept.contains(it)).take(lacking).collect();
        next.into_iter().try_for_each(|slot| self.pool.allocate(slot))
    }

    /// Whether the slot that is taken next has its space, or can get it.
    pub(crate) fn has_space(&mut self) -> Result<bool, VaultError> {
        let Some(slot) = self.next_slot() else { return Ok(false) };
        match self.pool.allocate(slot) {
            Err(error) if error.kind == MediumErrorKind::NoSpace => Ok(false),
            allocated => Ok(allocated.map(|()| true)?),
        }
    }

    /// Refuses a free slot that does not hold zeros. The catalog is older than the pool then.
    fn guard_free(&self, slot: SlotNumber) -> Result<(), VaultError> {
        let head = self.pool.read(Extent::new(self.pool.extent(slot).start.0, HEAD_BYTES as u64))?;
        let is_free = is_zeros(&head) || mutant::is(Mutant::ReuseUndestroyed);
        if is_free { Ok(()) } else { Err(VaultError::Stale(slot)) }
    }

    /// Writes the container that is being filled.
    fn end_container(&mut self, class: Class) -> Result<(), VaultError> {
        let Some(Filling { slot, builder }) = self.writing.filling(class).take() else { return Ok(()) };
        let bytes = builder.head().container_bytes() as u64;
        let [front, payload] = builder.finish();
        self.pool.write(slot, &[&front, &payload])?;
        let whole = self.pool.extent(slot);
        let unused = Extent::between(whole.start.0 + bytes, whole.end());
        // A hole costs the host more than the few bytes behind a full container are worth.
        if unused.len >= whole.len / 8 {
            self.pool.release(unused)?;
        }
        self.writing.written.push(slot);
        Ok(())
    }

    /// Makes all stored chunks durable, and then `changes`.
    pub(crate) fn seal(&mut self, changes: Vec<Change>) -> Result<(), VaultError> {
        self.end_container(Class::Data)?;
        self.end_container(Class::Metadata)?;
        let written = std::mem::take(&mut self.writing.written);
        if written.is_empty() && changes.is_empty() {
            return Ok(());
        }
        let is_synced = !written.is_empty() && !mutant::is(Mutant::CommitBeforeSync);
        let condemns = || changes.iter().any(|change| matches!(change, Change::Condemn(_)));
        if is_synced && !(mutant::is(Mutant::CondemnBeforeSync) && condemns()) {
            self.pool.sync()?;
        }
        let sealed = written.into_iter().map(Change::Seal).chain([Change::Given(self.next_ordinal)]);
        Ok(self.catalog.commit(&sealed.chain(changes).collect::<Vec<_>>())?)
    }
}
