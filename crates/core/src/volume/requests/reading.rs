//! Reads whose places are used again while they are under way.
//!
//! Where dead content leaves its place at once, no task waits for the readers of a version that is given up. What such a reader gets
//! does not open any more: it looks again where the content lies. Where nothing is sealed, or not authenticated, a
//! reader could take passes, or another block's content, for its own: if an erase task has begun meanwhile, it looks again
//! too, and what it got counts if that still lies there, in slots that were not free meanwhile. Where content dies with its keys, a write over
//! dead blocks waits for no reader either: one that has begun before the death may get what lies under the new key.

use crate::base::units::{Addr, Extent};
use crate::media::places::Places;
use crate::request::{Op, Refusal, Request};
use crate::volume::disk::Disk;
use crate::volume::origin::Origin;
use crate::volume::requests::running::{Reading, Stage};
use crate::volume::requests::waiting::Unseen;
use crate::volume::requests::{Others, Requests};
use crate::volume::{Purpose, io::IoOp};

/// Where content that could not be read is by now.
enum Now {
    There,
    Elsewhere,
    Forgotten(Refusal),
}

impl Disk {
    fn reuses(&self) -> Option<u64> {
        self.store.mapped()?.reuses()
    }

    fn whereabouts(&self, Reading { op, extent, at, .. }: &Reading) -> Now {
        let now = match (op, self.store.epochs()) {
            (Op::ReadPast(epoch), Some(epochs)) if epochs.missing(*extent, *epoch).is_none() => {
                match epochs.locate(*extent, *epoch) {
                    Ok(now) => now,
                    Err(gone) => return Now::Forgotten(gone.refusal(*epoch)),
                }
            }
            (Op::ReadPast(_), _) => return Now::Elsewhere,
            _ if self.store.missing(*extent).is_some() => return Now::Elsewhere,
            _ => self.readable(*extent, &self.masks(*extent)),
        };
        if now == *at { Now::There } else { Now::Elsewhere }
    }
}

impl Others<'_> {
    /// How often places, or keys, may have changed below a reader: with each erase task, or each write under fresh keys.
    fn changes(&self) -> u64 {
        if self.disk.dies_by_key() { self.disk.purging.renewed } else { self.erasing.begun }
    }
}

impl Requests {
    /// Reads `extent`, which lies `at` these places, for request `id`. The operation `op` reads the same content.
    pub(in crate::volume) fn read(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        op: Op,
        extent: Extent<Addr>,
        at: Places,
    ) {
        assert!(at.bytes() == extent.len, "a read has places for all its bytes");
        if others.disk.dead_leave() || others.disk.dies_by_key() {
            let (tasks, reuses) = (others.changes(), others.disk.reuses());
            let reading = Reading { op, extent, at: at.clone(), tasks, reuses };
            self.running.get_mut(id).reading = Some(Box::new(reading));
        }
        others.disk.io(Purpose::Request(id), at, IoOp::Read, others.out);
    }

    /// Begins the read of request `id` again, if it failed, or may have read something else, because
    /// its content lies elsewhere by now. Whether it did so, or refused the request.
    pub(in crate::volume) fn read_elsewhere(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        has_failed: bool,
    ) -> bool {
        let Some(reading) = self.running.get_mut(id).reading.take() else { return false };
        let may_doubt = reading.reuses.is_some() || others.disk.dies_by_key();
        let is_doubtful = may_doubt && reading.tasks != others.changes();
        if !has_failed && !is_doubtful {
            return false;
        }
        match others.disk.whereabouts(&reading) {
            Now::There if reading.reuses == others.disk.reuses() => return false,
            Now::Forgotten(refusal) => self.finish(others, id, Err(refusal)),
            Now::There | Now::Elsewhere => self.read_again(others, id, *reading),
        }
        true
    }

    fn read_again(&mut self, others: &mut Others<'_>, id: Origin, reading: Reading) {
        let (request, unseen) = match self.running.take(id).stage {
            Stage::ReadForInference { request, old_extent, mut rest } => {
                rest.push(old_extent);
                (request, Unseen::Left(rest))
            }
            Stage::Merge(merge) => (merge.request, Unseen::NOTHING),
            _ => (Request { op: reading.op, extent: reading.extent, fua: false }, Unseen::NOTHING),
        };
        self.go_on_unseen(others, id, request, unseen);
    }
}
