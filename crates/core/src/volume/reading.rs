//! Reads whose places are used again while they are under way.
//!
//! Where dead content leaves its place at once, nobody waits for the readers of a version that is given up. What such a reader gets
//! does not open any more: it looks again where the content lies. Where nothing is sealed, or not authenticated, a
//! reader could take passes, or another block's content, for its own: if an erase task has begun meanwhile, it looks again
//! too, and what it got counts if that still lies there, in slots that were not free meanwhile.

use super::running::{Reading, Stage};
use super::waiting::Unseen;
use super::{Command, Purpose, Volume, io::IoOp};
use crate::places::Places;
use crate::request::{Op, Refusal, Request, RequestId};
use crate::units::{Addr, Extent};

/// Where content that could not be read is by now.
enum Now {
    There,
    Elsewhere,
    Forgotten(Refusal),
}

impl Volume {
    /// Reads `extent`, which lies `at` these places, for request `id`. The operation `op` reads the same content.
    pub(super) fn read(
        &mut self,
        id: RequestId,
        op: Op,
        extent: Extent<Addr>,
        at: Places,
        out: &mut Vec<Command>,
    ) {
        if self.dead_leave() {
            let (tasks, reuses) = (self.erasing.begun, self.reuses());
            let reading = Reading { op, extent, at: at.clone(), tasks, reuses };
            self.requests.running.get_mut(id).reading = Some(Box::new(reading));
        }
        self.io(Purpose::Request(id), at, IoOp::Read, out);
    }

    /// Begins the read of request `id` again, if it failed, or may have read something else, because
    /// its content lies elsewhere by now. Whether it did so, or refused the request.
    pub(super) fn read_elsewhere(&mut self, id: RequestId, has_failed: bool, out: &mut Vec<Command>) -> bool {
        let Some(reading) = self.requests.running.get_mut(id).reading.take() else { return false };
        let is_doubtful = reading.reuses.is_some() && reading.tasks != self.erasing.begun;
        if !has_failed && !is_doubtful {
            return false;
        }
        match self.whereabouts(&reading) {
            Now::There if reading.reuses == self.reuses() => return false,
            Now::Forgotten(refusal) => self.finish(id, Err(refusal), out),
            Now::There | Now::Elsewhere => self.read_again(id, *reading, out),
        }
        true
    }

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

    fn read_again(&mut self, id: RequestId, reading: Reading, out: &mut Vec<Command>) {
        let (request, unseen) = match self.requests.running.take(id).stage {
            Stage::ReadForInference { request, old_extent, mut rest } => {
                rest.push(old_extent);
                (request, Unseen::Left(rest))
            }
            Stage::Merge(merge) => (merge.request, Unseen::NOTHING),
            _ => (Request { op: reading.op, extent: reading.extent, fua: false }, Unseen::NOTHING),
        };
        self.go_on_unseen(id, request, unseen, out);
    }
}
