//! Reading a slot for a proof, which trusts nothing but the bytes.

use quietus_core::base::zeros::is_zeros;
use roaring::RoaringTreemap;

use super::Vault;
use super::pool::entries;
use crate::SlotNumber;
use crate::catalog::SlotState;
use crate::container::{Class, Entry, HEAD_BYTES, Head, Stored};
use crate::index::{PAGE_BYTES, Page};

/// Findings in one slot.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Found {
    /// Zeros, in a free slot.
    Free,
    /// Content that is to be destroyed.
    Owed,
    /// A container with this many chunks or entries of the index that a snapshot reaches, and nothing else.
    Live(u64),
    /// Bytes that must not be there.
    Residue(Residue),
}

/// Bytes that must not be there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Residue {
    /// Bytes in a free slot.
    Free,
    /// This many chunks that no snapshot reaches.
    Chunks(u64),
    /// This many entries of the index that name a chunk which no snapshot reaches.
    Names(u64),
    /// An entry of a directory that cannot be read: of a live chunk or of a dead one.
    Entry,
    /// Bytes between or behind the chunks of a container.
    Gap,
    /// The slot lacks the container that the catalog expects there.
    Container,
}

impl Vault<'_> {
    /// Slots of the pool.
    pub fn slots(&self) -> impl Iterator<Item = SlotNumber> + use<> {
        (0..self.catalog.layout().slots).map(SlotNumber)
    }

    /// All findings besides chunks that are `live` in `bytes`, which were read from all of `slot`; no bytes if it has no space.
    pub fn examine(&self, slot: SlotNumber, bytes: &[u8], live: &RoaringTreemap) -> Found {
        let entry = self.catalog.table().entry(slot);
        let is_right = |head: &Head| {
            head.class == entry.class && self.pool.check_head(slot, entry.container, head).is_ok()
        };
        let found = match entry.state {
            SlotState::Free if is_zeros(bytes) => return Found::Free,
            SlotState::Free => Err(Residue::Free),
            SlotState::Open | SlotState::Condemned => return Found::Owed,
            SlotState::Sealed => match Head::from_bytes(bytes).ok().filter(is_right) {
                Some(head) => match head.class {
                    Class::Index => self.examine_index(slot, bytes, live),
                    Class::Data | Class::Metadata | Class::Spill => examine_chunks(&head, bytes, live),
                },
                None => Err(Residue::Container),
            },
        };
        found.map_or_else(Found::Residue, Found::Live)
    }

    fn examine_index(&self, slot: SlotNumber, bytes: &[u8], live: &RoaringTreemap) -> Result<u64, Residue> {
        if !self.catalog.state().index.slots.contains(&slot) {
            return Err(Residue::Container);
        }
        let (mut alive, mut dead) = (0, 0);
        let (pages, rest) = bytes[HEAD_BYTES..].as_chunks::<PAGE_BYTES>();
        for page in pages.iter().filter(|page| !is_zeros(&page[..])) {
            let page = Page::from_bytes(page).map_err(|_| Residue::Gap)?;
            let lives = page.entries().iter().filter(|entry| live.contains(entry.location.ordinal.0)).count();
            alive += lives as u64;
            dead += (page.entries().len() - lives) as u64;
        }
        match dead {
            0 if is_zeros(rest) => Ok(alive),
            0 => Err(Residue::Gap),
            _ => Err(Residue::Names(dead)),
        }
    }
}

fn examine_chunks(head: &Head, bytes: &[u8], live: &RoaringTreemap) -> Result<u64, Residue> {
    let found = entries(head, &bytes[HEAD_BYTES..]);
    let (mut chunks, mut dead): (Vec<Stored>, u64) = (Vec::new(), 0);
    for entry in found {
        match entry {
            Entry::Chunk(stored) if live.contains(stored.chunk.ordinal.0) => chunks.push(stored),
            Entry::Chunk(_) => dead += 1,
            Entry::Destroyed => {}
            Entry::Damaged => return Err(Residue::Entry),
        }
    }
    if dead > 0 {
        return Err(Residue::Chunks(dead));
    }
    chunks.sort_unstable_by_key(|stored| stored.offset);
    let start = head.payload_start();
    let mut at = HEAD_BYTES + head.chunks as usize * crate::container::ENTRY_BYTES;
    for stored in &chunks {
        let from = start + stored.offset as usize;
        if from < at || !is_zeros(&bytes[at..from]) {
            return Err(Residue::Gap);
        }
        at = from + stored.stored_bytes as usize;
    }
    if is_zeros(&bytes[at..]) { Ok(chunks.len() as u64) } else { Err(Residue::Gap) }
}
