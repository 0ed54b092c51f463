//! Live blocks that get another key: a part of each is dead, what lies below may be, or what is there may be and is about to be written.
//!
//! A block must not lie under two keys, of which a crash would leave some sectors each. So all of it is staged first, as ciphertext
//! under the fresh key, and is put in its place from there, now or by the next start ([`crate::erase::Restage`]).

use crate::base::buf::Buf;
use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, Extent};
use crate::erase::{Method, Priority, Restage};
use crate::media::MediumId;
use crate::media::cipher;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::owed::journal::{Change, Crc, SLOT_BYTES, Slot, State};
use crate::owed::ledger::{Cause, Due, Obligation};
use crate::store::Content;
use crate::volume::bytes::slice;
use crate::volume::disk::Disk;
use crate::volume::disk::purging::owe_before;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Kind, Patches};

impl Disk {
    /// A task that puts each of `blocks` under a fresh key, with the content of `patches` where there is some.
    pub(in crate::volume) fn restage(
        &mut self,
        blocks: Vec<Extent<Addr>>,
        patches: Patches,
        holes_unknown: bool,
    ) -> EraseTask {
        let shape = self.commits.journal.shape();
        assert!(blocks.len() <= shape.slots as usize, "what a task stages fits into the slots");
        if let Some(keyed) = self.store.keyed_mut() {
            // The last such task may have been given up for want of space.
            keyed.give_up_prepared();
            blocks.iter().for_each(|block| keyed.prepare(*block));
        }
        let has_data = |block: &Extent<Addr>| self.store.first(Content::Own, *block) == Some(*block);
        let may_be_holes = holes_unknown || !blocks.iter().all(has_data);
        let slots = Extent::new(shape.slot(Slot(0)).0, blocks.len() as u64 * SLOT_BYTES);
        let method = Method::Restage(Restage {
            sites: Site::runs(&blocks),
            medium: Site::all_of(MediumId::Data),
            staging: Site::Place(Place { on: MediumId::Journal, extent: slots }),
            staging_medium: Site::all_of(MediumId::Journal),
            log_medium: Site::all_of(MediumId::Map),
            may_be_holes,
        });
        let kind = Kind::Restage { patches, staged: Vec::new(), logging: None };
        self.erase_task(kind, blocks, method, Priority::Urgent)
    }

    /// `content` of `block` as it is to be: zeros where it is dead, and what `patches` are about to write.
    pub(in crate::volume) fn renewed(&self, block: Extent<Addr>, content: Buf, patches: &Patches) -> Buf {
        let mut content = content.into_vec();
        let at = |part: Extent<Addr>| {
            let from = (part.start.0 - block.start.0) as usize;
            from..from + part.len as usize
        };
        self.masks(block).into_iter().for_each(|dead| content[at(dead)].fill(0));
        for (extent, data) in patches {
            if let Some(part) = extent.overlap(block) {
                content[at(part)].copy_from_slice(slice(data, *extent, part));
            }
        }
        content.into()
    }

    /// Where `blocks` go under their fresh keys: to the slots of the journal, or to their places; and their contents, as many bytes.
    pub(in crate::volume) fn prepared(
        &self,
        blocks: &[Extent<Addr>],
        contents: &[Buf],
        in_slots: bool,
    ) -> (Places, Buf) {
        assert!(!blocks.is_empty() && blocks.len() == contents.len(), "each block has its content");
        let keyed = self.store.keyed().expect("what gets a fresh key has one");
        let shape = self.commits.journal.shape();
        let (mut places, mut bytes) = (Vec::new(), Vec::new());
        for (n, (block, content)) in blocks.iter().zip(contents).enumerate() {
            let slot = in_slots.then(|| shape.slot(Slot(n as u32)));
            let place = keyed.prepared(*block, slot);
            bytes.extend(&content[..]);
            bytes.resize(bytes.len().next_multiple_of(cipher::SECTOR_BYTES as usize), 0);
            places.push(place);
        }
        let places: Places = places.into_iter().collect();
        assert!(places.bytes() == bytes.len() as u64, "each sector has its place");
        (places, bytes.into())
    }
}

/// What follows once `block` lies under a fresh key: its old one is owed, nothing of it is dead by address, and nothing below it. What
/// stays of content that may be dead, because `written` is not all of it, stays suspicious.
pub(in crate::volume) fn restaged(
    state: &State,
    block: Extent<Addr>,
    written: &[Extent<Addr>],
) -> Vec<Change> {
    let mut area = ExtentMap::<Addr, ()>::default();
    written.iter().filter_map(|it| it.overlap(block)).for_each(|part| area.insert(part, ()));
    let owed: Vec<(Extent<Addr>, Obligation)> =
        state.ledger.within(block).map(|(part, it)| (part, *it)).collect();
    // What was written over is durable with the rest of its block.
    let over = state.ledger.overwritten_within(block).map(|(part, _)| Change::Clear(part));
    let mut changes: Vec<_> = [owe_before(block, cause_of(state, block))].into_iter().chain(over).collect();
    for (part, it) in &owed {
        match it.due {
            Due::Shred { .. } | Due::Free { .. } => changes.push(Change::Clear(*part)),
            Due::ConservativeOverwrite => {
                changes.push(Change::Clear(*part));
                let rest = area.gaps(*part).into_iter();
                let cause = Cause::ConservativeOverwrite;
                changes.extend(rest.map(|rest| Change::Oblige(rest, Due::Suspicious, cause)));
            }
            Due::Suspicious => changes.extend(area.within(*part).map(|(part, ())| Change::Clear(part))),
        }
    }
    changes
}

/// Why the old key of `block` is owed.
fn cause_of(state: &State, block: Extent<Addr>) -> Cause {
    let owed = state.ledger.within(block).chain(state.ledger.overwritten_within(block));
    let first = owed.min_by_key(|(_, it)| !it.is_dead());
    first.map_or(Cause::ConservativeOverwrite, |(_, it)| it.cause)
}

impl Erasing {
    /// Records that content lies in the slots, under its fresh keys. The checksums are of what was written there.
    pub(in crate::volume) fn record_restaged(&mut self, disk: &mut Disk) {
        let task = self.task.as_ref().expect("a record is of a task");
        let Kind::Restage { staged, .. } = &task.kind else {
            unreachable!("a block is staged for a fresh key by its own kind of task")
        };
        assert!(staged.len() == task.runs.len(), "each block was staged");
        assert!(disk.state.slots.staged.is_empty(), "what was staged last is back in its place");
        let staged = task.runs.iter().zip(staged).enumerate();
        let changes: Vec<_> =
            staged.map(|(n, (block, crc))| Change::Stage(Slot(n as u32), *block, *crc)).collect();
        self.record(disk, &changes);
    }

    /// Records that content lies in its place under fresh keys, and that the old ones are owed.
    pub(in crate::volume) fn record_renewed(&mut self, disk: &mut Disk) {
        let task = self.task.as_ref().expect("a record is of a task");
        let Kind::Restage { patches, .. } = &task.kind else {
            unreachable!("a block gets a fresh key by its own kind of task")
        };
        let written: Vec<_> = patches.iter().map(|(extent, _)| *extent).collect();
        let runs = task.runs.clone();
        for block in &runs {
            restaged(&disk.state, *block, &written).into_iter().for_each(|change| {
                disk.change(change);
            });
            self.layers.forget(*block);
            // A write comes that puts there what is there already.
            let bare = written.iter().filter_map(|it| it.overlap(*block));
            bare.for_each(|part| self.layers.rewritten(part, false));
        }
        disk.note_keys();
        disk.state.counters.rewritten_bytes += runs.iter().map(|run| run.len).sum::<u64>();
        self.record(disk, &[Change::Release]);
    }
}

/// The checksums of what was written to the slots, block by block.
pub(in crate::volume) fn checksums(blocks: &[Extent<Addr>], mut bytes: &[u8]) -> Vec<Crc> {
    let mut all = Vec::with_capacity(blocks.len());
    for block in blocks {
        let (own, rest) = bytes.split_at(block.len.next_multiple_of(cipher::SECTOR_BYTES) as usize);
        all.push(Crc(crc32c::crc32c(own)));
        bytes = rest;
    }
    assert!(bytes.is_empty(), "what was staged is of these blocks alone");
    all
}
