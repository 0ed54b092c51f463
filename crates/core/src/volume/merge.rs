//! Changes of parts of blocks, where a store writes whole blocks only: the rest of a block is read, and
//! written together with the part.

use super::admit::padded;
use super::checkpoints::Waiter;
use super::running::{Deaths, Merge, Remainder, Stage};
use super::waiting::{Obstacle, Unseen};
use super::{Command, Purpose, Volume, io::IoOp, no_place, refusal};
use crate::buf::Buf;
use crate::request::{Op, Request, RequestId};
use crate::sealing::ContentError;
use crate::store::{Content, WritePlan, Written};
use crate::units::{Addr, Extent};
use crate::zeros::is_zeros;

impl Volume {
    /// Whether `request` changes a block in part, and the store cannot.
    pub(super) fn needs_merge(&self, request: &Request) -> bool {
        let changes = matches!(request.op, Op::Write(_) | Op::Trim | Op::Zero { .. } | Op::Purge);
        changes && self.store.geometry().merged(request.extent).next().is_some()
    }

    /// The blocks that have to be read first: `request` changes a part of each, and something else is left there.
    pub(super) fn to_merge(&self, request: &Request) -> Vec<Extent<Addr>> {
        if !self.needs_merge(request) {
            return Vec::new();
        }
        let edges = self.store.geometry().merged(request.extent);
        edges.filter(|block| self.has_rest(*block, request.extent)).collect()
    }

    /// Whether `block` shows something beside `part` that is not dead.
    fn has_rest(&self, block: Extent<Addr>, part: Extent<Addr>) -> bool {
        let before = Extent::between(block.start.0, part.start.0.max(block.start.0));
        let behind = Extent::between(part.end().min(block.end()), block.end());
        let is_alive = |part: Extent<Addr>| self.masks(part).iter().map(|it| it.len).sum::<u64>() < part.len;
        self.store.first(Content::Visible, block).is_some() && [before, behind].into_iter().any(is_alive)
    }

    /// Begins to make `request` one of whole blocks.
    pub(super) fn merge(&mut self, id: RequestId, request: Request, out: &mut Vec<Command>) {
        let whole = self.store.geometry().together(request.extent);
        let unread = self.to_merge(&request);
        self.run(id, whole, true, Stage::Merge(Merge { request, unread, read: Vec::new() }));
        self.merge_more(id, out);
    }

    fn merge_more(&mut self, id: RequestId, out: &mut Vec<Command>) {
        let Stage::Merge(merge) = &self.requests.running.get_mut(id).stage else { return };
        let Some(block) = merge.unread.last().copied() else { return self.merged(id, out) };
        if self.store.missing(block).is_some() {
            // Memory has lost the page while another block was read.
            if let Stage::Merge(merge) = self.requests.running.take(id).stage {
                self.go_on(id, merge.request, out);
            }
            return;
        }
        let places = self.readable(block, &self.masks(block));
        self.read(id, Op::Copy, block, places, out);
    }

    /// Goes on with a merge: a block was read, or that failed.
    pub(super) fn merge_read(
        &mut self,
        id: RequestId,
        result: Result<Buf, ContentError>,
        out: &mut Vec<Command>,
    ) {
        let Stage::Merge(merge) = &mut self.requests.running.get_mut(id).stage else { return };
        match result {
            Err(error) => self.abandon_copy(id, refusal(&error), out),
            Ok(content) => {
                merge.read.extend(merge.unread.pop().map(|block| (block, content)));
                self.merge_more(id, out);
            }
        }
    }

    /// Goes on with request `id`: the blocks that it changes in part were read.
    fn merged(&mut self, id: RequestId, out: &mut Vec<Command>) {
        let running = self.requests.running.take(id);
        let (whole, Stage::Merge(Merge { request, read, .. })) = (running.extent, running.stage) else {
            return;
        };
        let Some((due, cause)) = self.obligation(id, &request.op) else {
            return self.go_on(id, made_whole(request, whole, &read), out);
        };
        let cleared =
            read.into_iter().map(|(block, content)| (block, without(content, block, request.extent)));
        let unwritten: Vec<_> = cleared.filter(|(_, content)| !is_zeros(content)).collect();
        let rest = outside(whole, unwritten.iter().map(|(block, _)| *block));
        let deaths = Deaths { rest: rest.into_iter().collect(), due, cause };
        let remainder = Remainder { request, unwritten, has_written: false, deaths };
        self.run(id, whole, true, Stage::Remain(remainder));
        self.remain_more(id, out);
    }

    /// Writes what is left of the next block, or ends with the deaths of whole blocks.
    fn remain_more(&mut self, id: RequestId, out: &mut Vec<Command>) {
        let Stage::Remain(remainder) = &mut self.requests.running.get_mut(id).stage else { return };
        let Some((block, content)) = remainder.unwritten.last_mut() else { return self.remained(id, out) };
        let (block, content) = (*block, std::mem::take(content));
        let needs_map = self.store.missing(block).is_some() || self.store.lacks_space(block, false).is_some();
        match if needs_map { WritePlan::CopyUp(block) } else { self.allocate(id, block) } {
            WritePlan::To(places) => {
                let data = padded(content.into(), places.bytes());
                let op = IoOp::Write { data, durable: false };
                self.io(Purpose::Request(id), places, op, out);
            }
            WritePlan::NoSpace => self.abandon_copy(id, no_place(), out),
            // Writes that are done by now are done again, to no effect.
            plan => {
                let Stage::Remain(Remainder { request, .. }) = self.requests.running.take(id).stage else {
                    return;
                };
                match plan {
                    WritePlan::AwaitJob => {
                        self.wait_for(id, request, Unseen::NOTHING, Obstacle::Closed, out);
                    }
                    _ => self.go_on(id, request, out),
                }
            }
        }
    }

    /// Goes on after what is left of a block was written, or that failed.
    pub(super) fn remainder_written(
        &mut self,
        id: RequestId,
        written: Written,
        result: Result<(), ContentError>,
        out: &mut Vec<Command>,
    ) {
        let Stage::Remain(remainder) = &mut self.requests.running.get_mut(id).stage else { return };
        let Some((block, _)) = remainder.unwritten.pop() else { return };
        remainder.has_written = true;
        self.store.end_write(block, written);
        match result {
            Err(error) => self.request_failed(id, error, out),
            Ok(()) => self.remain_more(id, out),
        }
    }

    fn remained(&mut self, id: RequestId, out: &mut Vec<Command>) {
        let running = self.requests.running.get_mut(id);
        let Stage::Remain(Remainder { deaths, has_written, .. }) =
            std::mem::replace(&mut running.stage, Stage::Io)
        else {
            return;
        };
        if has_written {
            // A death is durable before it is answered; so are its parts of blocks.
            running.stage = Stage::Checkpoint(deaths);
            return self.want_checkpoint(Waiter::Request(id), out);
        }
        running.stage = Stage::Oblige(deaths);
        self.oblige_more(id, out);
    }
}

/// The write `request` with all bytes of the blocks `whole`: some were `read`, and all others are zeros.
fn made_whole(request: Request, whole: Extent<Addr>, read: &[(Extent<Addr>, Buf)]) -> Request {
    let Request { op, extent, fua } = request;
    let mut content = vec![0; whole.len as usize];
    let mut put = |part: Extent<Addr>, bytes: &[u8]| {
        content[(part.start.0 - whole.start.0) as usize..][..bytes.len()].copy_from_slice(bytes);
    };
    read.iter().for_each(|(block, bytes)| put(*block, bytes));
    if let Op::Write(data) = &op {
        put(extent, data);
    }
    Request { op: Op::Write(content.into()), extent: whole, fua }
}

/// The `content` of `block` with zeros in `part`.
fn without(content: Buf, block: Extent<Addr>, part: Extent<Addr>) -> Vec<u8> {
    let mut content = content.into_vec();
    if let Some(Extent { start, len }) = part.inside(block) {
        content[start.0 as usize..][..len as usize].fill(0);
    }
    content
}

/// The part of `whole` without its first block or its last one, if those are among `blocks`.
fn outside(whole: Extent<Addr>, blocks: impl Iterator<Item = Extent<Addr>>) -> Option<Extent<Addr>> {
    let (mut from, mut to) = (whole.start.0, whole.end());
    for block in blocks {
        if block.start.0 == from {
            from = block.end();
        } else {
            to = block.start.0;
        }
    }
    (from < to).then(|| Extent::between(from, to))
}
