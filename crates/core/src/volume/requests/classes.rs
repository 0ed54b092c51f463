//! Classes: which deaths that the guest tells of are plain, so that their bytes are freed and not destroyed.
//!
//! Invariants:
//! 1. The class of content is asked for when the request that frees it arrives, before the watcher observes that
//!    request: from then on the watcher speaks of the zeros there.
//! 2. A byte is plain only if the watcher says so. Below a change that has not ended everything is sensitive. In a store that
//!    keeps versions every death destroys a stub; there the class only tells which epochs show content that was not plain.
//! 3. Sensitive wins: over an earlier or a later plain death of the same bytes ([`Due::and`]), over what was written over
//!    sensitive bytes and not synced since, and over plain bytes in the same block, which share a place with it.
//! 4. Classes are known in memory only. After a crash, and in a journal, every obligation is sensitive.

use crate::base::extents::ExtentMap;
use crate::base::numbers::Numbered;
use crate::base::units::{Addr, Extent};
use crate::owed::ledger::Due;
use crate::request::{Op, Request};
use crate::volume::disk::Disk;
use crate::volume::origin::Origin;
use crate::volume::requests::Requests;
use crate::volume::watching::Watching;
use crate::watch::Class;

/// The plain bytes of requests that have not ended, as they were when each arrived.
#[derive(Debug, Default)]
pub(in crate::volume) struct Plain(Numbered<Origin, ExtentMap<Addr, ()>>);

impl Plain {
    /// Notes that the `plain` bytes of request `id` held plain content when it arrived.
    pub(in crate::volume) fn note(&mut self, id: Origin, plain: ExtentMap<Addr, ()>) {
        if !plain.is_empty() {
            assert!(
                self.0.insert(id, plain).is_none(),
                "the class of content is asked for once, as a request arrives"
            );
        }
    }

    /// Forgets request `id`, which has ended.
    pub(in crate::volume) fn forget(&mut self, id: Origin) {
        self.0.remove(&id);
    }

    /// The first part of `extent` that is of one class, and how that part is to be destroyed if sensitive content is to
    /// be destroyed as `due` says.
    pub(in crate::volume) fn first(&self, id: Origin, extent: Extent<Addr>, due: Due) -> (Extent<Addr>, Due) {
        let plain = self.0.get(&id).and_then(|plain| plain.within(extent).next());
        match plain {
            Some((plain, ())) if plain.start == extent.start => {
                (plain, Due::Free { no_hole: due.keeps_space() })
            }
            Some((plain, ())) => (Extent::between(extent.start.0, plain.start.0), due),
            None => (extent, due),
        }
    }
}

impl Disk {
    /// Whether a guest may free bytes by `op`.
    fn may_free(&self, op: &Op) -> bool {
        match op {
            Op::Trim | Op::Zero { .. } => true,
            Op::Write(_) => self.config.detect_zeroes,
            _ => false,
        }
    }
}

impl Requests {
    /// The bytes that `request`, which is about to arrive, may free, and that hold plain content; in whole blocks, except
    /// at the ends of the request.
    pub(in crate::volume) fn plain_bytes(
        &self,
        disk: &Disk,
        watching: &Watching,
        request: &Request,
    ) -> ExtentMap<Addr, ()> {
        let (geometry, extent) = (disk.store.geometry(), request.extent);
        let mut plain = ExtentMap::default();
        if !disk.may_free(&request.op) || self.order.overlaps(extent) {
            return plain;
        }
        let Some(classes) = watching.classes(extent) else { return plain };
        let is_plain = |class: Class| class == Class::Plain;
        classes.iter().filter(|(_, it)| is_plain(*it)).for_each(|(part, _)| plain.insert(*part, ()));
        for (part, _) in classes.iter().filter(|(_, it)| !is_plain(*it)) {
            plain.remove(geometry.together(*part));
        }
        plain
    }

    /// Notes that `plain` is plain of what request `id` frees; to a store that keeps epochs, that the rest of it dies.
    pub(in crate::volume) fn note_classes(
        &mut self,
        disk: &mut Disk,
        id: Origin,
        request: &Request,
        plain: ExtentMap<Addr, ()>,
    ) {
        if disk.store.epochs().is_none() {
            return self.plain.note(id, plain);
        }
        if disk.may_free(&request.op) || request.op == Op::Purge {
            plain.gaps(request.extent).into_iter().for_each(|part| self.note_death(disk, part));
        }
    }

    /// Tells a store that keeps epochs that content of `extent` which is not plain dies.
    pub(in crate::volume) fn note_death(&mut self, disk: &mut Disk, extent: Extent<Addr>) {
        let epoch = self.arriving_epoch(disk);
        if let Some(epochs) = disk.store.epochs_mut() {
            epochs.note_death(extent, epoch);
        }
    }
}
