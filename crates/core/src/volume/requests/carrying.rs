//! How a request that may begin is carried out.

use crate::base::buf::Buf;
use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::request::{Op, Request};
use crate::store::WritePlan;
use crate::volume::bytes::{is_all, padded, surrounded, zero_blocks};
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::Erasing;
use crate::volume::io::IoOp;
use crate::volume::obstacle::Obstacle;
use crate::volume::origin::Origin;
use crate::volume::requests::running::{Deaths, Running, Stage};
use crate::volume::requests::waiting::{Unseen, Waiting};
use crate::volume::requests::{Others, Requests};
use crate::volume::{Command, Purpose, no_place};

impl Requests {
    /// Shows the watcher the extents that it `needs` to see, then carries the request out.
    pub(in crate::volume) fn begin(
        &mut self,
        others: &mut Others<'_>,
        waiting: Waiting,
        mut needs: Vec<Extent<Addr>>,
    ) {
        let Waiting { id, request, reused, unseen, .. } = waiting;
        assert!(self.order.is_first(id), "a change begins when all earlier ones of its blocks have ended");
        assert!(reused.is_empty(), "what a write uses again is owed before the write begins");
        match needs.pop() {
            None => self.carry_out(others, id, request, unseen),
            Some(old_extent) => self.show(others, id, request, old_extent, needs),
        }
    }

    /// Reads the extent `seen` for the watcher: `request` is about to replace content there.
    pub(in crate::volume) fn show(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        old_extent: Extent<Addr>,
        rest: Vec<Extent<Addr>>,
    ) {
        let places = others.disk.readable(old_extent, &others.disk.masks(old_extent));
        let (extent, stage) = (request.extent, Stage::ReadForInference { request, old_extent, rest });
        self.run(id, extent, true, stage);
        self.read(others, id, Op::Copy, old_extent, places);
    }

    fn carry_out(&mut self, others: &mut Others<'_>, id: Origin, request: Request, unseen: Unseen) {
        let block = others.disk.to_copy_up(&request).next();
        if let Some(block) = block {
            return self.copy_up(others, id, request, block);
        }
        if others.disk.needs_merge(&request) {
            return self.merge(others, id, request);
        }
        let Request { op, extent, fua } = request;
        if let Some((due, cause)) = others.disk.obligation(id, &op) {
            return self.begin_death(others, id, extent, due, cause);
        }
        match op {
            Op::ReadForInference => {
                let places = others.disk.readable(extent, &others.disk.masks(extent));
                self.run(id, extent, true, Stage::Io);
                self.read(others, id, op, extent, places);
            }
            Op::Write(data) => self.begin_write(others, id, extent, data, fua, unseen),
            Op::Flush => self.begin_flush(others.disk, id, others.out),
            Op::Cache => {
                self.run(id, extent, false, Stage::Io);
                let places = others.disk.store.locate(extent);
                others.disk.io(Purpose::Request(id), places, IoOp::Prefetch, others.out);
            }
            Op::ReadPast(epoch) => self.read_past(others, id, extent, epoch),
            Op::Compare(states) => others.disk.compare(id, extent, states, others.out),
            Op::Ask(question) => others.disk.answer_question(id, &question, others.out),
            op => self.begin_read(others, id, op, extent),
        }
    }

    /// Whether a request is under way that changes bytes of `extent`, or reads some that were not dead when
    /// it began.
    pub(in crate::volume) fn is_busy(&self, extent: Extent<Addr>) -> bool {
        self.running.touches(extent)
    }

    pub(in crate::volume) fn run(
        &mut self,
        id: Origin,
        extent: Extent<Addr>,
        is_ordered: bool,
        stage: Stage,
    ) {
        self.run_masked(id, extent, is_ordered, stage, Vec::new());
    }

    pub(in crate::volume) fn run_masked(
        &mut self,
        id: Origin,
        extent: Extent<Addr>,
        is_ordered: bool,
        stage: Stage,
        masks: Vec<Extent<Addr>>,
    ) {
        assert!(self.waiting.get(id).is_none(), "a request runs or waits, and not both");
        self.running.insert(id, Running { extent, is_ordered, stage, masks, buf: Buf::new(), reading: None });
    }

    fn begin_flush(&mut self, disk: &mut Disk, id: Origin, out: &mut Vec<Command>) {
        let nothing = Extent::new(0, 0);
        if disk.is_checkpointed() && !disk.checkpoints.is_shared() {
            self.run(id, nothing, false, Stage::Io);
            disk.io(Purpose::Request(id), Place::all_of(MediumId::Data), IoOp::Sync, out);
        } else {
            self.run(id, nothing, false, Stage::Checkpoint(None));
            disk.want_checkpoint(Waiter::Request(id), out);
        }
    }

    fn begin_read(&mut self, others: &mut Others<'_>, id: Origin, op: Op, extent: Extent<Addr>) {
        let masks = others.disk.masks(extent);
        if masks.iter().map(|mask| mask.len).sum::<u64>() == extent.len {
            return id.reply(Ok(vec![0; extent.len as usize].into()), others.out);
        }
        let places = others.disk.readable(extent, &masks);
        self.run_masked(id, extent, false, Stage::Io, masks);
        self.read(others, id, op, extent, places);
    }

    fn begin_write(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        extent: Extent<Addr>,
        data: Buf,
        fua: bool,
        unseen: Unseen,
    ) {
        assert!(data.len() as u64 == extent.len, "a write that was admitted has the bytes of its extent");
        others.disk.leave_places(extent);
        let zeros = if others.disk.config.detect_zeroes { zero_blocks(extent, &data) } else { Vec::new() };
        let needs_no_place = is_all(&zeros, extent) && !others.disk.store.same_place();
        let deaths = match Deaths::zeros(zeros) {
            Some(deaths) if needs_no_place => {
                // A place for zeros would only have to be given back.
                self.run(id, extent, true, Stage::Oblige(deaths));
                self.running.get_mut(id).buf = data;
                return self.oblige_more(others, id);
            }
            deaths => deaths,
        };
        let again = |data| Request { op: Op::Write(data), extent, fua };
        let (asked, extent) = (extent, others.disk.renew(extent));
        let data = surrounded(data, asked, extent);
        let places = match self.allocate(others.disk, others.erasing, id, extent) {
            WritePlan::To(places) => places,
            WritePlan::CopyUp(block) => return self.copy_up(others, id, again(data), block),
            WritePlan::AwaitJob => {
                return self.wait_for(others, id, again(data), unseen, Obstacle::Closed);
            }
            WritePlan::NoSpace => {
                return self.refuse_unbegun(others, id, extent, true, no_place());
            }
        };
        others.disk.begin_overwrite(extent);
        if let Some(fresh) = &mut others.erasing.fresh {
            fresh.insert(extent);
        }
        self.run(id, extent, true, Stage::Write { deaths, durable: fua });
        let data = padded(data, places.bytes());
        others.disk.io(Purpose::Request(id), places, IoOp::Write { data, durable: fua }, others.out);
    }

    /// Whether a write of `extent` can get another place than the dead content there.
    pub(in crate::volume) fn can_leave(&self, disk: &Disk, erasing: &Erasing, extent: Extent<Addr>) -> bool {
        let geometry = disk.store.geometry();
        let whole = geometry.together(extent);
        let is_at_rest = || !erasing.is_at(whole) && !self.running.reads(whole);
        let has_room = || {
            let entries = usize::try_from(2 * whole.len.div_ceil(BLOCK_BYTES)).unwrap_or(usize::MAX);
            let bytes = disk.state.owed.bytes() + whole.len;
            let has_room = bytes <= disk.owed_bytes_max() && disk.has_room_for(entries);
            has_room && disk.store.mapped().is_some_and(|it| it.can_leave(whole))
        };
        let mut owing = disk.state.ledger.within(extent).map(|(part, _)| geometry.together(part));
        // Where the dead leave at once, they leave without a write, or waits for something itself.
        !disk.dead_leave() && is_at_rest() && has_room() && owing.all(|part| disk.is_all_dead(part))
    }

    /// Where a write of `extent` for request `id`, which is about to begin, goes.
    pub(in crate::volume) fn allocate(
        &mut self,
        disk: &mut Disk,
        erasing: &mut Erasing,
        id: Origin,
        extent: Extent<Addr>,
    ) -> WritePlan {
        let may_write = disk.latched.is_none() && !disk.config.read_only;
        assert!(may_write, "no request writes to a disk that is latched or read-only");
        erasing.cover(disk, extent);
        erasing.pending_punch.remove(extent);
        disk.store.begin_write(extent, self.order.epoch(id))
    }
}
