//! Where the bytes of a request are: parts of the map that it waits for, and
//! blocks of which it changes a part, that get a place of their own first.

use super::running::Stage;
use super::waiting::Obstacle;
use super::{Command, Purpose, Volume, io::IoOp, refusal};
use crate::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::request::{Buf, Op, Request, RequestId};
use crate::units::{Addr, Extent};

impl Volume {
    /// What keeps `request` from knowing where what it needs is, or from having a
    /// place for it.
    pub(super) fn lacks_map(&self, request: &Request, needs: &[Extent<Addr>]) -> Option<Obstacle> {
        if self.store.is_fixed() {
            return None;
        }
        let touched = self.touched(request);
        let grows = request.op.is_write() && !touched.is_empty();
        let absent = touched.iter().chain(needs).find_map(|extent| self.store.absent(*extent));
        absent.map(Obstacle::Page).or((grows && self.store.is_closed()).then_some(Obstacle::Closed))
    }

    /// The bytes whose place `request` has to know.
    fn touched(&self, request: &Request) -> Vec<Extent<Addr>> {
        match request.op {
            Op::Read | Op::Copy | Op::Look | Op::Cache | Op::Write(_) => vec![request.extent],
            Op::Trim | Op::Zero { .. } | Op::Purge => self.to_raise(request),
            Op::Flush | Op::Scour => Vec::new(),
        }
    }

    /// The blocks of which `request` changes a part, and that have no place of
    /// their own yet. What is wholly dead needs none any more.
    pub(super) fn to_raise(&self, request: &Request) -> Vec<Extent<Addr>> {
        let zeros = match request.op {
            _ if mutant::is(Mutant::RaiseNothing) => return Vec::new(),
            Op::Write(_) => false,
            Op::Trim | Op::Zero { .. } | Op::Purge => true,
            _ => return Vec::new(),
        };
        let mut blocks = self.store.to_raise(request.extent, zeros);
        let dead_bytes = |block| self.masks(block).iter().map(|mask| mask.len).sum::<u64>();
        blocks.retain(|block| dead_bytes(*block) < block.len);
        blocks
    }

    /// Copies what `block` shows to a place of its own, before `request` changes
    /// a part of it.
    pub(super) fn raise(
        &mut self,
        id: RequestId,
        request: Request,
        block: Extent<Addr>,
        out: &mut Vec<Command>,
    ) {
        let places = self.store.place(block);
        self.run(id, request.extent, true, Stage::Raise { request, block, is_read: false });
        self.io(Purpose::Request(id), places, IoOp::Read, out);
    }

    /// A block that is raised was read, or written, or neither.
    pub(super) fn raise_more(
        &mut self,
        id: RequestId,
        result: Result<Buf, MediumError>,
        out: &mut Vec<Command>,
    ) {
        let Stage::Raise { block, is_read, .. } = &mut self.requests.running.get_mut(id).stage else {
            return;
        };
        let (block, was_read) = (*block, std::mem::replace(is_read, true));
        match result {
            Err(error) if was_read => {
                self.store.written(block, false);
                self.request_failed(id, &error, out);
            }
            Err(error) => {
                let extent = self.requests.running.get_mut(id).extent;
                self.blind(extent);
                self.finish(id, Err(refusal(&error)), out);
            }
            Ok(data) if !was_read && !self.store.is_closed() && self.store.absent(block).is_none() => {
                let places = self.hold(block);
                self.io(Purpose::Request(id), places, IoOp::Write { data, durable: false }, out);
            }
            Ok(_) => {
                if was_read {
                    self.store.written(block, true);
                }
                if let Stage::Raise { request, .. } = self.requests.running.take(id).stage {
                    self.go_on(id, request, out);
                }
            }
        }
    }
}
