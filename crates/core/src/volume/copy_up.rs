//! Where the bytes of a request lie: the parts of the map that it waits for, and copy-up, which gives a
//! block a place of its own before a request changes a part of it.

use super::running::Stage;
use super::waiting::{Obstacle, Unseen};
use super::{Command, Performed, Purpose, Volume, io::IoOp, no_place, refusal};
use crate::buf::Buf;
use crate::mutant::{self, Mutant};
use crate::request::{Op, Refusal, Request, RequestId};
use crate::sealing::ContentError;
use crate::store::{Content, WritePlan, Written};
use crate::units::{Addr, Extent};

impl Volume {
    /// The part of the map that `request` needs and that is not in memory.
    pub(super) fn lacks_map(&self, request: &Request, needs: &[Extent<Addr>]) -> Option<Obstacle> {
        let touched = match request.op {
            Op::Read | Op::Copy | Op::ReadForInference | Op::Cache => self.store.missing(request.extent),
            Op::Write(_) => self.store.missing(self.store.geometry().together(request.extent)),
            Op::Compare(states) => self.missing_to_compare(request.extent, states),
            Op::Ask(ref question) => self.store.epochs().and_then(|it| it.answer(question).err()),
            Op::ReadPast(epoch) => self.store.epochs().and_then(|it| it.missing(request.extent, epoch)),
            _ => self.to_write(request).into_iter().find_map(|block| self.store.missing(block)),
        };
        touched.or_else(|| needs.iter().find_map(|extent| self.store.missing(*extent))).map(Obstacle::Page)
    }

    /// The blocks that have to be written before `request`, which makes a part of each die.
    pub(super) fn to_write(&self, request: &Request) -> Vec<Extent<Addr>> {
        self.to_copy_up(request).chain(self.to_merge(request)).collect()
    }

    /// The blocks that `request` makes die in part and that show data without a place of their own. A
    /// block that is wholly dead needs no place any more.
    pub(super) fn to_copy_up(&self, request: &Request) -> impl Iterator<Item = Extent<Addr>> {
        let dies = matches!(request.op, Op::Trim | Op::Zero { .. } | Op::Purge);
        let extent = request.extent;
        let dies = dies && !mutant::is(Mutant::CopyUpNothing);
        let edges = dies.then(|| self.store.geometry().edges(extent));
        let shows = |content, block| self.store.first(content, block).is_some();
        let dead_bytes = |block| self.masks(block).iter().map(|mask| mask.len).sum::<u64>();
        edges.into_iter().flatten().filter(move |block| {
            shows(Content::Visible, *block) && !shows(Content::Own, *block) && dead_bytes(*block) < block.len
        })
    }

    /// Copies what `block` shows to a place of its own, before `request` changes
    /// a part of it.
    pub(super) fn copy_up(
        &mut self,
        id: RequestId,
        request: Request,
        block: Extent<Addr>,
        out: &mut Vec<Command>,
    ) {
        let places = self.store.locate(block);
        self.run(id, request.extent, true, Stage::CopyUp { request, block, is_read: false });
        self.io(Purpose::Request(id), places, IoOp::Read, out);
    }

    /// Goes on with a copy-up: the block was read or written, or that failed.
    pub(super) fn copy_up_more(
        &mut self,
        id: RequestId,
        result: Result<Performed, ContentError>,
        out: &mut Vec<Command>,
    ) {
        let Stage::CopyUp { block, is_read, .. } = &mut self.requests.running.get_mut(id).stage else {
            return;
        };
        let (block, was_read) = (*block, std::mem::replace(is_read, true));
        match result {
            Err(error) if was_read => {
                self.store.end_write(block, Written::NotThere);
                self.request_failed(id, error, out);
            }
            Err(error) => self.abandon_copy(id, refusal(&error), out),
            Ok(done) if !was_read && self.store.missing(block).is_none() => {
                self.place_copy(id, block, done.buf, out);
            }
            Ok(done) => {
                if was_read {
                    self.store.end_write(block, Written::There(done.sealings));
                }
                if let Stage::CopyUp { request, .. } = self.requests.running.take(id).stage {
                    self.go_on(id, request, out);
                }
            }
        }
    }

    /// Writes `data`, which `block` shows, to a place of the block's own.
    fn place_copy(&mut self, id: RequestId, block: Extent<Addr>, data: Buf, out: &mut Vec<Command>) {
        match self.allocate(id, block) {
            WritePlan::To(places) => {
                self.io(Purpose::Request(id), places, IoOp::Write { data, durable: false }, out);
            }
            WritePlan::AwaitJob | WritePlan::CopyUp(_) => {
                if let Stage::CopyUp { request, .. } = self.requests.running.take(id).stage {
                    self.wait_for(id, request, Unseen::NOTHING, Obstacle::Closed, out);
                }
            }
            WritePlan::NoSpace => self.abandon_copy(id, no_place(), out),
        }
    }

    /// Refuses a request whose block could not be read, or got no place.
    pub(super) fn abandon_copy(&mut self, id: RequestId, refusal: Refusal, out: &mut Vec<Command>) {
        let extent = self.requests.running.get_mut(id).extent;
        self.tell_of_refusal(extent, true);
        self.finish(id, Err(refusal), out);
    }
}
