//! Where the bytes of a request lie: the parts of the map that it waits for, and copy-up, which gives a
//! block a place of its own before a request changes a part of it.

use crate::base::buf::Buf;
use crate::base::units::{Addr, Extent};
use crate::media::sealing::ContentError;
use crate::mutant::{self, Mutant};
use crate::request::{Op, Refusal, Request};
use crate::store::{Content, WritePlan, Written};
use crate::volume::disk::Disk;
use crate::volume::obstacle::Obstacle;
use crate::volume::origin::Origin;
use crate::volume::requests::running::Stage;
use crate::volume::requests::waiting::Unseen;
use crate::volume::requests::{Others, Requests};
use crate::volume::{Performed, Purpose, io::IoOp, no_place, refusal};

impl Disk {
    /// The part of the map that `request` needs and that is not in memory.
    pub(in crate::volume) fn lacks_map(&self, request: &Request, needs: &[Extent<Addr>]) -> Option<Obstacle> {
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
    pub(in crate::volume) fn to_write(&self, request: &Request) -> Vec<Extent<Addr>> {
        self.to_copy_up(request).chain(self.to_merge(request)).collect()
    }

    /// The blocks that `request` makes die in part and that show data without a place of their own. A
    /// block that is wholly dead needs no place any more.
    pub(in crate::volume) fn to_copy_up(&self, request: &Request) -> impl Iterator<Item = Extent<Addr>> {
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
}

impl Requests {
    /// Copies what `block` shows to a place of its own, before `request` changes
    /// a part of it.
    pub(in crate::volume) fn copy_up(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        block: Extent<Addr>,
    ) {
        assert!(
            block.overlaps(request.extent),
            "a block gets a place of its own because a part of it changes"
        );
        let places = others.disk.store.locate(block);
        self.run(id, request.extent, true, Stage::CopyUp { request, block, is_read: false });
        others.disk.io(Purpose::Request(id), places, IoOp::Read, others.out);
    }

    /// Goes on with a copy-up: the block was read or written, or that failed.
    pub(in crate::volume) fn copy_up_more(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        result: Result<Performed, ContentError>,
    ) {
        let Stage::CopyUp { block, is_read, .. } = &mut self.running.get_mut(id).stage else {
            return;
        };
        let (block, was_read) = (*block, std::mem::replace(is_read, true));
        match result {
            Err(error) if was_read => {
                others.disk.store.end_write(block, Written::NotThere);
                self.request_failed(others, id, error);
            }
            Err(error) => self.abandon_copy(others, id, refusal(&error)),
            Ok(done) if !was_read && others.disk.store.missing(block).is_none() => {
                self.place_copy(others, id, block, done.buf);
            }
            Ok(done) => {
                if was_read {
                    others.disk.store.end_write(block, Written::There(done.sealings));
                }
                if let Stage::CopyUp { request, .. } = self.running.take(id).stage {
                    self.go_on(others, id, request);
                }
            }
        }
    }

    /// Writes `data`, which `block` shows, to a place of the block's own.
    fn place_copy(&mut self, others: &mut Others<'_>, id: Origin, block: Extent<Addr>, data: Buf) {
        if others.disk.latched.is_some() {
            let frozen = others.disk.frozen();
            return self.abandon_copy(others, id, frozen);
        }
        assert!(data.len() as u64 == block.len, "a block is copied as a whole");
        match self.allocate(others.disk, others.erasing, id, block) {
            WritePlan::To(places) => {
                let op = IoOp::Write { data, durable: false };
                others.disk.io(Purpose::Request(id), places, op, others.out);
            }
            WritePlan::AwaitJob | WritePlan::CopyUp(_) => {
                if let Stage::CopyUp { request, .. } = self.running.take(id).stage {
                    self.wait_for(others, id, request, Unseen::NOTHING, Obstacle::Closed);
                }
            }
            WritePlan::NoSpace => self.abandon_copy(others, id, no_place()),
        }
    }

    /// Refuses a request whose block could not be read, or got no place.
    pub(in crate::volume) fn abandon_copy(&mut self, others: &mut Others<'_>, id: Origin, refusal: Refusal) {
        let extent = self.running.get_mut(id).extent;
        others.watching.tell_of_refusal(others.disk, extent, true);
        self.finish(others, id, Err(refusal));
    }
}
