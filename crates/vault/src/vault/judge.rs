//! The content of slots, judged by their own bytes, where the catalog has lost it.
//!
//! Nothing that may be live is given up. A whole container counts as sealed: chunks of it that no snapshot reaches are dead, as
//! anywhere.
//! Only zeros are a free slot.

use quietus_core::base::zeros::is_zeros;
use std::collections::BTreeSet;

use quietus_core::base::units::Pos;

use super::Vault;
use super::pool::{Pool, entries};
use crate::catalog::{Change, FREE, SlotEntry, SlotState};
use crate::container::{Class, ENTRY_BYTES, Entry, HEAD_BYTES, Head};
use crate::index::{PAGE_BYTES, Page};
use crate::tree::Snapshot;
use crate::{ContainerSequence, NUMBER_MAX, Ordinal, Reference, SlotNumber, VaultError};

/// The content of a slot.
pub(super) enum Judged {
    /// Zeros.
    Free,
    /// A container of this vault.
    Container(Content),
    /// Bytes without a valid head: a damaged container, or one that was being destroyed.
    Unknown,
}

/// A container that was read from its head to its end.
pub(super) struct Content {
    pub(super) head: Head,
    /// Whether any of its chunks or entries is damaged.
    pub(super) is_damaged: bool,
    /// All numbers of its chunks are below this.
    pub(super) ordinals_end: Ordinal,
    /// The chunks that a snapshot could begin with.
    pub(super) roots: Vec<Reference>,
}

impl Pool<'_> {
    /// Reads all of a slot.
    pub(super) fn judge(&self, slot: SlotNumber) -> Result<Judged, VaultError> {
        let extent = self.extent(slot);
        if self.medium.next_data(extent.start) >= Pos(extent.end()) {
            return Ok(Judged::Free);
        }
        let bytes = self.read(extent)?;
        if is_zeros(&bytes) {
            return Ok(Judged::Free);
        }
        let head = Head::from_bytes(&bytes).ok();
        let is_right =
            |head: &Head| head.sequence.0 < NUMBER_MAX && self.check_head(slot, head.sequence, head).is_ok();
        Ok(head
            .filter(is_right)
            .map_or(Judged::Unknown, |head| Judged::Container(self.content(head, &bytes))))
    }

    fn content(&self, head: Head, bytes: &[u8]) -> Content {
        let mut content = Content { head, is_damaged: false, ordinals_end: Ordinal(0), roots: Vec::new() };
        if head.class == Class::Index {
            let (pages, _) = bytes[HEAD_BYTES..head.container_bytes()].as_chunks::<PAGE_BYTES>();
            content.is_damaged = !pages.iter().all(|page| Page::from_bytes(page).is_ok());
            return content;
        }
        let directory = &bytes[HEAD_BYTES..HEAD_BYTES + head.chunks as usize * ENTRY_BYTES];
        for entry in entries(&head, directory) {
            let stored = match entry {
                Entry::Chunk(stored) => stored,
                Entry::Destroyed => continue,
                Entry::Damaged => {
                    content.is_damaged = true;
                    continue;
                }
            };
            content.ordinals_end = content.ordinals_end.max(Ordinal(stored.chunk.ordinal.0 + 1));
            let at = head.payload_start() + stored.offset as usize;
            match stored.content(&self.key, head.class, &bytes[at..at + stored.stored_bytes as usize]) {
                Ok(chunk) if head.class == Class::Metadata && Snapshot::from_bytes(&chunk).is_ok() => {
                    content.roots.push(stored.chunk);
                }
                Ok(_) => {}
                Err(_) => content.is_damaged = true,
            }
        }
        content
    }
}

/// The entries of slots that were judged.
pub(super) struct Judge {
    /// The slots of the index, by the catalog.
    index: BTreeSet<SlotNumber>,
    /// Containers that are in some slot.
    pub(super) seen: BTreeSet<ContainerSequence>,
    /// The next number for a container without a readable number.
    pub(super) next: ContainerSequence,
    pub(super) ordinals_end: Ordinal,
    /// The findings, in the order of slots.
    pub(super) entries: Vec<(SlotNumber, SlotEntry)>,
}

impl Judge {
    pub(super) fn new(index: &[SlotNumber], next: ContainerSequence) -> Judge {
        Judge {
            index: index.iter().copied().collect(),
            seen: BTreeSet::new(),
            next,
            ordinals_end: Ordinal(0),
            entries: Vec::new(),
        }
    }

    /// Keeps an entry that is known.
    pub(super) fn keep(&mut self, slot: SlotNumber, entry: SlotEntry) {
        self.next = self.next.max(ContainerSequence(entry.container.0 + 1));
        self.seen.insert(entry.container);
        self.entries.push((slot, entry));
    }

    /// Notes the content of a slot. The caller first [keeps](Judge::keep) all known entries: a container whose number another
    /// slot has gets a new one by [`number`](Judge::number).
    pub(super) fn take(&mut self, slot: SlotNumber, judged: &Judged) {
        let in_index = self.index.contains(&slot);
        let (container, class, is_damaged) = match judged {
            Judged::Free => return,
            Judged::Container(content) => {
                let Content { head, is_damaged, ordinals_end, .. } = content;
                self.ordinals_end = self.ordinals_end.max(*ordinals_end);
                (Some(head.sequence), head.class, *is_damaged)
            }
            Judged::Unknown if in_index => (None, Class::Index, true),
            Judged::Unknown => (None, Class::Data, true),
        };
        let container = container.filter(|it| self.seen.insert(*it));
        self.next = self.next.max(container.map_or(self.next, |it| ContainerSequence(it.0 + 1)));
        let state = match class {
            // An older index, or one that was never in use, may name chunks that are gone.
            Class::Index if !in_index => SlotState::Condemned,
            _ => SlotState::Sealed,
        };
        let is_damaged = is_damaged || container.is_none();
        let container = container.unwrap_or(UNNUMBERED);
        self.entries.push((slot, SlotEntry { state, container, class, is_damaged }));
    }

    /// Numbers the containers without a readable number, so that each has one, and is found damaged under it.
    pub(super) fn number(&mut self) {
        for (_, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.container == UNNUMBERED) {
            entry.container = self.next;
            self.next = ContainerSequence(self.next.0 + 1);
        }
    }
}

/// No container has this number.
const UNNUMBERED: ContainerSequence = ContainerSequence(u64::MAX);

impl Vault<'_> {
    /// Judges the slots whose content the catalog does not know. If changes of the catalog may be missing, also judges containers
    /// that seem to be incomplete.
    pub(super) fn judge_lost(&mut self) -> Result<(), VaultError> {
        let (state, table) = (self.catalog.state(), self.catalog.table());
        let mut judge = Judge::new(&state.index.slots, state.next.container);
        let is_doubtful = self.catalog.is_doubtful();
        let open = table.in_state(SlotState::Open).filter(|slot| is_doubtful && !table.lost().contains(slot));
        let slots: Vec<SlotNumber> = table.lost().iter().copied().chain(open).collect();
        let known = table.containers(ContainerSequence(0)).filter(|(_, slot)| !slots.contains(slot));
        judge.seen.extend(known.map(|(container, _)| container));
        for slot in slots {
            match self.pool.judge(slot)? {
                Judged::Free => judge.entries.push((slot, FREE)),
                judged => judge.take(slot, &judged),
            }
        }
        judge.number();
        let mut next = state.next;
        next.container = next.container.max(judge.next);
        next.ordinal = next.ordinal.max(judge.ordinals_end);
        self.judged = judge.entries.len();
        self.catalog.settle(&[Change::Numbers(next)], &judge.entries)?;
        self.next_ordinal = self.next_ordinal.max(next.ordinal);
        Ok(())
    }
}
