//! Changes of parts of blocks, where a store writes whole blocks only: the rest of a block is read, and
//! written together with the part.

use crate::base::buf::Buf;
use crate::base::units::{Addr, Extent};
use crate::base::zeros::is_zeros;
use crate::media::sealing::ContentError;
use crate::request::{Op, Request};
use crate::store::{Content, WritePlan, Written};
use crate::volume::bytes::padded;
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::obstacle::Obstacle;
use crate::volume::origin::Origin;
use crate::volume::requests::running::{Deaths, Merge, Remainder, Stage};
use crate::volume::requests::waiting::Unseen;
use crate::volume::requests::{Others, Requests};
use crate::volume::{Purpose, io::IoOp, no_place, refusal};

impl Disk {
    /// Whether `request` changes a block in part, and the store cannot.
    pub(in crate::volume) fn needs_merge(&self, request: &Request) -> bool {
        let dies = match request.op {
            Op::Write(_) => false,
            Op::Trim | Op::Zero { .. } | Op::Purge => true,
            _ => return false,
        };
        self.store.geometry().merged(request.extent, dies).next().is_some()
    }

    /// The blocks that have to be read first: `request` changes a part of each, and something else is left there.
    pub(in crate::volume) fn to_merge(&self, request: &Request) -> Vec<Extent<Addr>> {
        if !self.needs_merge(request) {
            return Vec::new();
        }
        let edges = self.store.geometry().merged(request.extent, !matches!(request.op, Op::Write(_)));
        edges.filter(|block| self.has_rest(*block, request.extent)).collect()
    }

    /// Whether `block` shows something beside `part` that is not dead.
    fn has_rest(&self, block: Extent<Addr>, part: Extent<Addr>) -> bool {
        let before = Extent::between(block.start.0, part.start.0.max(block.start.0));
        let behind = Extent::between(part.end().min(block.end()), block.end());
        let is_alive = |part: Extent<Addr>| self.masks(part).iter().map(|it| it.len).sum::<u64>() < part.len;
        self.store.first(Content::Visible, block).is_some() && [before, behind].into_iter().any(is_alive)
    }
}

impl Requests {
    /// Begins to make `request` one of whole blocks.
    pub(in crate::volume) fn merge(&mut self, others: &mut Others<'_>, id: Origin, request: Request) {
        let dies = !matches!(request.op, Op::Write(_));
        let whole = others.disk.store.geometry().units(request.extent, dies);
        let unread = others.disk.to_merge(&request);
        self.run(id, whole, true, Stage::Merge(Merge { request, unread, read: Vec::new() }));
        self.merge_more(others, id);
    }

    fn merge_more(&mut self, others: &mut Others<'_>, id: Origin) {
        let Stage::Merge(merge) = &self.running.get_mut(id).stage else { return };
        let Some(block) = merge.unread.last().copied() else {
            return self.merged(others, id);
        };
        if others.disk.store.missing(block).is_some() {
            // Memory has lost the page while another block was read.
            if let Stage::Merge(merge) = self.running.take(id).stage {
                self.go_on(others, id, merge.request);
            }
            return;
        }
        let places = others.disk.readable(block, &others.disk.masks(block));
        self.read(others, id, Op::Copy, block, places);
    }

    /// Goes on with a merge: a block was read, or that failed.
    pub(in crate::volume) fn merge_read(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        result: Result<Buf, ContentError>,
    ) {
        let Stage::Merge(merge) = &mut self.running.get_mut(id).stage else { return };
        match result {
            Err(error) => self.abandon_copy(others, id, refusal(&error)),
            Ok(content) => {
                let is_whole = |block: &Extent<Addr>| block.len == content.len() as u64;
                assert!(merge.unread.last().is_some_and(is_whole), "a block is read as a whole, once");
                merge.read.extend(merge.unread.pop().map(|block| (block, content)));
                self.merge_more(others, id);
            }
        }
    }

    /// Goes on with request `id`: the blocks that it changes in part were read.
    fn merged(&mut self, others: &mut Others<'_>, id: Origin) {
        let running = self.running.take(id);
        let (whole, Stage::Merge(Merge { request, read, .. })) = (running.extent, running.stage) else {
            return;
        };
        let Some((due, cause)) = others.disk.obligation(id, &request.op) else {
            return self.go_on(others, id, made_whole(request, whole, &read));
        };
        let cleared =
            read.into_iter().map(|(block, content)| (block, without(content, block, request.extent)));
        let unwritten: Vec<_> = cleared.filter(|(_, content)| !is_zeros(content)).collect();
        let rest = outside(whole, unwritten.iter().map(|(block, _)| *block));
        let deaths = Deaths::of(rest.into_iter().collect(), due, cause);
        let remainder = Remainder { request, unwritten, has_written: false, deaths };
        self.run(id, whole, true, Stage::Remain(remainder));
        self.remain_more(others, id);
    }

    /// Writes what is left of the next block, or ends with the deaths of whole blocks.
    fn remain_more(&mut self, others: &mut Others<'_>, id: Origin) {
        if others.disk.latched.is_some() {
            let frozen = others.disk.frozen();
            return self.abandon_copy(others, id, frozen);
        }
        let Stage::Remain(remainder) = &mut self.running.get_mut(id).stage else { return };
        let Some((block, content)) = remainder.unwritten.last_mut() else {
            return self.remained(others, id);
        };
        let (block, content) = (*block, std::mem::take(content));
        let needs_map = others.disk.store.missing(block).is_some()
            || others.disk.store.lacks_space(block, false).is_some();
        match if needs_map {
            WritePlan::CopyUp(block)
        } else {
            self.allocate(others.disk, others.erasing, id, block)
        } {
            WritePlan::To(places) => {
                let data = padded(content.into(), places.bytes());
                let op = IoOp::Write { data, durable: false };
                others.disk.io(Purpose::Request(id), places, op, others.out);
            }
            WritePlan::NoSpace => self.abandon_copy(others, id, no_place()),
            // Writes that are done by now are done again, to no effect.
            plan => {
                let Stage::Remain(Remainder { request, .. }) = self.running.take(id).stage else {
                    return;
                };
                match plan {
                    WritePlan::AwaitJob => {
                        self.wait_for(others, id, request, Unseen::NOTHING, Obstacle::Closed);
                    }
                    _ => self.go_on(others, id, request),
                }
            }
        }
    }

    /// Goes on after what is left of a block was written, or that failed.
    pub(in crate::volume) fn remainder_written(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        written: Written,
        result: Result<(), ContentError>,
    ) {
        let Stage::Remain(remainder) = &mut self.running.get_mut(id).stage else { return };
        let Some((block, _)) = remainder.unwritten.pop() else { return };
        remainder.has_written = true;
        others.disk.store.end_write(block, written);
        match result {
            Err(error) => self.request_failed(others, id, error),
            Ok(()) => self.remain_more(others, id),
        }
    }

    fn remained(&mut self, others: &mut Others<'_>, id: Origin) {
        let running = self.running.get_mut(id);
        let Stage::Remain(Remainder { deaths, has_written, .. }) =
            std::mem::replace(&mut running.stage, Stage::Io)
        else {
            return;
        };
        match deaths {
            Some(deaths) if !has_written => self.die(others, id, deaths),
            deaths => {
                // A death is durable before it is answered; so are its parts of blocks.
                running.stage = Stage::Checkpoint(deaths);
                others.disk.want_checkpoint(Waiter::Request(id), others.out);
            }
        }
    }
}

/// The write `request` with all bytes of the blocks `whole`: some were `read`, and all others are zeros.
fn made_whole(request: Request, whole: Extent<Addr>, read: &[(Extent<Addr>, Buf)]) -> Request {
    let Request { op, extent, fua } = request;
    assert!(
        whole.start <= extent.start && extent.end() <= whole.end(),
        "whole blocks have all that is written"
    );
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
            assert!(block.end() == to, "a block is merged where it is the first or the last one");
            to = block.start.0;
        }
    }
    (from < to).then(|| Extent::between(from, to))
}
