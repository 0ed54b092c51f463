//! The pool: slots on a medium, and the directories of containers that were read lately.

use std::cell::Cell;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::medium::{Medium, MediumError};

use crate::catalog::Layout;
use crate::chunk::VaultKey;
use crate::container::{ENTRY_BYTES, Entry, HEAD_BYTES, Head, Stored};
use crate::index::PAGE_BYTES;
use crate::{ContainerSequence, Fingerprint, SlotNumber, VaultError};

/// Directories that are kept in memory; each takes some 100 KiB.
const DIRECTORIES_MAX: usize = 32;

/// See the module's documentation.
pub(crate) struct Pool<'m> {
    pub(crate) medium: &'m dyn Medium,
    layout: Layout,
    pub(crate) key: VaultKey,
    recent: VecDeque<(ContainerSequence, Arc<Directory>)>,
    is_broken: bool,
    /// Free slots that have their space on the medium.
    pub(crate) kept: BTreeSet<SlotNumber>,
    /// Bytes that were read and written.
    moved: Cell<u64>,
}

/// A container without its payload.
#[derive(Debug)]
pub(crate) struct Directory {
    pub(crate) head: Head,
    pub(crate) entries: Vec<Entry>,
}

impl Directory {
    /// The chunk with this fingerprint.
    pub(crate) fn find(&self, fingerprint: &Fingerprint) -> Option<Stored> {
        self.chunks().find(|stored| stored.chunk.fingerprint == *fingerprint)
    }

    /// The chunks that the directory names.
    pub(crate) fn chunks(&self) -> impl Iterator<Item = Stored> + '_ {
        self.entries.iter().filter_map(|entry| match entry {
            Entry::Chunk(stored) => Some(*stored),
            Entry::Destroyed | Entry::Damaged => None,
        })
    }

    /// The damage of the directory, if any.
    pub(crate) fn damage(&self) -> Option<VaultError> {
        let entries = self.entries.iter().filter(|entry| **entry == Entry::Damaged).count();
        (entries > 0).then_some(VaultError::Entries { container: self.head.sequence, entries })
    }
}

impl<'m> Pool<'m> {
    pub(crate) fn new(medium: &'m dyn Medium, layout: Layout, key: VaultKey) -> Pool<'m> {
        let (recent, kept, moved) = (VecDeque::new(), BTreeSet::new(), Cell::new(0));
        Pool { medium, layout, key, recent, is_broken: false, kept, moved }
    }

    /// The bytes of a slot.
    pub(crate) fn extent(&self, slot: SlotNumber) -> Extent<Pos> {
        let bytes = u64::from(self.layout.slot_bytes);
        Extent::new(u64::from(slot.0) * bytes, bytes)
    }

    /// The bytes of several slots, in order, each run of neighbours with one read.
    pub(crate) fn extents(&self, slots: &[SlotNumber]) -> Vec<Extent<Pos>> {
        let mut area = ExtentMap::default();
        slots.iter().for_each(|slot| area.insert(self.extent(*slot), ()));
        area.iter().map(|(extent, ())| extent).collect()
    }

    /// Pages of the index that a container has.
    pub(crate) fn index_pages(&self) -> usize {
        (self.layout.slot_bytes as usize - HEAD_BYTES) / PAGE_BYTES
    }

    pub(crate) fn read(&self, at: Extent<Pos>) -> Result<Vec<u8>, MediumError> {
        let mut bytes = Vec::new();
        self.read_into(at, &mut bytes)?;
        Ok(bytes)
    }

    /// Reads into allocated memory: fresh memory costs as much as the copy.
    pub(crate) fn read_into(&self, at: Extent<Pos>, bytes: &mut Vec<u8>) -> Result<(), MediumError> {
        bytes.resize(at.len as usize, 0);
        self.charge(at.len);
        self.medium.read(at.start, bytes)
    }

    /// Writes a container, in parts that lie one behind another.
    pub(crate) fn write(&mut self, slot: SlotNumber, parts: &[&[u8]]) -> Result<(), VaultError> {
        let bytes = parts.iter().map(|part| part.len() as u64).sum();
        assert!(bytes <= self.extent(slot).len, "a container of {bytes} bytes");
        self.guard()?;
        self.charge(bytes);
        let mut at = self.extent(slot).start;
        for part in parts {
            let written = self.medium.write(at, part, false);
            self.latch(written)?;
            at.0 += part.len() as u64;
        }
        Ok(())
    }

    /// Allocates the space of a free slot. If the medium is full, gives back what was allocated.
    pub(crate) fn allocate(&mut self, slot: SlotNumber) -> Result<(), MediumError> {
        if self.kept.contains(&slot) {
            return Ok(());
        }
        let allocated = self.medium.reserve(self.extent(slot));
        match &allocated {
            Ok(()) => drop(self.kept.insert(slot)),
            // A failure to give space back is latched.
            Err(_) => drop(self.release(self.extent(slot))),
        }
        allocated
    }

    /// Gives back space where zeros lie, if the medium can.
    pub(crate) fn release(&mut self, unused: Extent<Pos>) -> Result<(), VaultError> {
        if unused.is_empty() || !self.medium.capabilities().punch {
            return Ok(());
        }
        let punched = self.medium.punch(unused);
        self.latch(punched)
    }

    pub(crate) fn sync(&mut self) -> Result<(), VaultError> {
        self.guard()?;
        let synced = self.medium.sync();
        self.latch(synced)
    }

    /// Bytes that were read and written so far.
    pub(crate) fn moved(&self) -> u64 {
        self.moved.get()
    }

    pub(crate) fn charge(&self, bytes: u64) {
        self.moved.set(self.moved.get() + bytes);
    }

    /// Refuses to write once a write has failed.
    pub(crate) fn guard(&self) -> Result<(), VaultError> {
        if self.is_broken { Err(VaultError::Broken) } else { Ok(()) }
    }

    /// Notes whether a write has failed.
    pub(crate) fn latch(&mut self, written: Result<(), MediumError>) -> Result<(), VaultError> {
        self.is_broken |= written.is_err();
        Ok(written?)
    }

    /// The head of the container that a slot has to have.
    pub(crate) fn head(&self, slot: SlotNumber, container: ContainerSequence) -> Result<Head, VaultError> {
        let at = Extent::new(self.extent(slot).start.0, HEAD_BYTES as u64);
        let head = Head::from_bytes(&self.read(at)?).map_err(|error| VaultError::Head { slot, error })?;
        self.check_head(slot, container, &head).map(|()| head)
    }

    /// Checks that the head is of the container that the slot has to have.
    pub(super) fn check_head(
        &self,
        slot: SlotNumber,
        container: ContainerSequence,
        head: &Head,
    ) -> Result<(), VaultError> {
        let is_right = head.vault == self.layout.vault && head.sequence == container;
        let fits = head.container_bytes() <= self.layout.slot_bytes as usize;
        if is_right && fits { Ok(()) } else { Err(VaultError::Container { slot, container }) }
    }

    /// The directory of the container that a slot has to have.
    pub(crate) fn directory(
        &mut self,
        slot: SlotNumber,
        container: ContainerSequence,
    ) -> Result<Arc<Directory>, VaultError> {
        if let Some((_, found)) = self.recent.iter().find(|(known, _)| *known == container) {
            return Ok(found.clone());
        }
        let head = self.head(slot, container)?;
        let start = self.extent(slot).start.0 + HEAD_BYTES as u64;
        let bytes = self.read(Extent::new(start, u64::from(head.chunks) * ENTRY_BYTES as u64))?;
        let entries = entries(&head, &bytes).collect();
        let directory = Arc::new(Directory { head, entries });
        self.recent.truncate(DIRECTORIES_MAX - 1);
        self.recent.push_front((container, directory.clone()));
        Ok(directory)
    }
}

/// The directory of the container with that head, of the bytes behind it.
pub(super) fn entries<'a>(head: &'a Head, bytes: &'a [u8]) -> impl Iterator<Item = Entry> + 'a {
    let all = bytes.as_chunks::<ENTRY_BYTES>().0.iter().take(head.chunks as usize);
    all.map(|entry| Entry::from_bytes(head, entry))
}
