//! Requests: when they may begin, how they are carried out, and how they end.

use super::bytes::zero_blocks;
use super::checkpoints::Waiter;
use super::disk::Disk;
use super::erasing::Erasing;
use super::requests::{Origin, Others, Requests};
use super::running::{Deaths, Running, Stage};
use super::waiting::{Obstacle, Unseen, Waiting};
use super::watching::Watching;
use super::{Command, Performed, Purpose, io::IoOp, needs_medium_writes, no_place, refusal};
use crate::buf::Buf;
use crate::extents::ExtentMap;
use crate::media::MediumId;
use crate::medium::{MediumError, MediumErrorKind};
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::request::{Op, Outcome, Refusal, Request};
use crate::store::{WritePlan, Written};
use crate::units::{Addr, Epoch, Extent};

impl Disk {
    /// Makes the `reused` bytes suspicious; returns those for which the ledger has no room.
    fn suspect_if_room(
        &mut self,
        mut reused: Vec<Extent<Addr>>,
        out: &mut Vec<Command>,
    ) -> Vec<Extent<Addr>> {
        while self.has_room()
            && let Some(extent) = reused.pop()
        {
            reused.extend(self.suspect_first(extent, out));
        }
        reused
    }

    /// The refusal of a request that waits for something that a latched disk never does.
    pub(super) fn frozen(&self) -> Refusal {
        let reason = self.latched.clone().unwrap_or_default();
        Refusal::Latched(format!("{reason}; the content is safe in the journal: serve the disk anew"))
    }

    /// Whether something is owed at bytes that a write of `extent` changes.
    fn owes_before(&self, extent: Extent<Addr>) -> bool {
        self.state.ledger.overlaps(self.store.geometry().changed(extent))
    }
}

impl Erasing {
    /// Why the content of `old_extent` cannot be read for the watcher now. While other content was read, the map may
    /// have dropped the page that says where it lies, and an erase task may have begun there.
    fn hidden(&self, disk: &Disk, old_extent: Extent<Addr>) -> Option<Obstacle> {
        let page = || disk.store.missing(old_extent).map(Obstacle::Page);
        if self.hides(old_extent) { Some(Obstacle::Task) } else { page() }
    }
}

impl Requests {
    pub(super) fn arrive(&mut self, others: &mut Others<'_>, id: Origin, request: Request) {
        if request.op.is_of_guest() {
            others.disk.schedule.request_arrived();
        }
        if let Some(refusal) = self.refuse(others.disk, others.erasing, &request) {
            if mutant::is(Mutant::TellOfRefused) {
                others.watching.observe(others.disk, &request);
            }
            id.reply(Err(refusal), others.out);
            return;
        }
        if let Op::CloseEpoch { when, anew } = request.op {
            return self.close_epoch(others.disk, id, (when.max(1), anew), others.out);
        }
        if let Op::Forget(scope) = request.op {
            return self.begin_forget(others.disk, others.erasing, id, scope, others.out);
        }
        if request.extent.is_empty() && !request.op.is_of_whole_disk() {
            id.reply(Ok(Buf::new()), others.out);
            return;
        }
        if others.watching.distrusts(others.disk, &request) {
            id.reply(Ok(Buf::new()), others.out);
            return;
        }
        let is_late = mutant::is(Mutant::AskClassLate);
        let plain = if is_late {
            ExtentMap::default()
        } else {
            self.plain_bytes(others.disk, others.watching, &request)
        };
        let reused = others.watching.observe(others.disk, &request);
        let plain = if is_late { self.plain_bytes(others.disk, others.watching, &request) } else { plain };
        self.note_classes(others.disk, id, &request, plain);
        self.admit(others, id, request, reused);
    }

    /// Begins a request, or lets it wait. The `reused` bytes have to be destroyed before.
    pub(super) fn admit(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        reused: Vec<Extent<Addr>>,
    ) {
        if request.op.is_ordered() {
            self.enter(others.disk, id, &request);
        }
        let reused = others.disk.suspect_if_room(reused, others.out);
        let waiting = Waiting { id, request, reused, unseen: Unseen::ToAsk, obstacle: Obstacle::Order };
        match self.ready(others.disk, others.erasing, others.watching, &waiting) {
            Ok(needs) => self.begin(others, waiting, needs),
            Err(obstacle) => self.wait_or_refuse(others.disk, Waiting { obstacle, ..waiting }, others.out),
        }
    }

    /// Puts the change `id` behind the earlier ones of the same blocks, and into the epoch that takes changes.
    pub(super) fn enter(&mut self, disk: &Disk, id: Origin, request: &Request) {
        let (whole, epoch) = (disk.store.geometry().together(request.extent), self.arriving_epoch(disk));
        self.order.enter(id, whole, epoch);
        if request.op.is_write() {
            self.closes.note_change();
        }
    }

    /// Goes on with `request`: the watcher has seen all content that it replaces, which had to come before
    /// an erase task destroys that. A request that waits for such a task stays ahead of later ones.
    pub(super) fn go_on(&mut self, others: &mut Others<'_>, id: Origin, request: Request) {
        self.go_on_unseen(others, id, request, Unseen::NOTHING);
    }

    /// Goes on with `request`, of which the watcher has yet to see something.
    pub(super) fn go_on_unseen(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        unseen: Unseen,
    ) {
        let obstacle = Obstacle::Order;
        let waiting = Waiting { id, request, reused: Vec::new(), unseen, obstacle };
        match self.ready(others.disk, others.erasing, others.watching, &waiting) {
            Ok(needs) => self.begin(others, waiting, needs),
            Err(obstacle) => {
                self.wait_for(others.disk, id, waiting.request, waiting.unseen, obstacle, others.out)
            }
        }
    }

    /// Lets `request`, which had been admitted, wait once more.
    pub(super) fn wait_for(
        &mut self,
        disk: &mut Disk,
        id: Origin,
        request: Request,
        unseen: Unseen,
        obstacle: Obstacle,
        out: &mut Vec<Command>,
    ) {
        let waiting = Waiting { id, request, reused: Vec::new(), unseen, obstacle };
        if disk.latched.is_some() {
            return self.turn_away(disk, &waiting, out);
        }
        disk.fetch_for(obstacle, out);
        self.waiting.join(waiting);
    }

    /// Why `request` is refused, if it is. All refusals that are known in advance are given here, before the
    /// watcher observes the request: a change that never takes place must not be observed.
    fn refuse(&self, disk: &Disk, erasing: &Erasing, request: &Request) -> Option<Refusal> {
        if request.extent.end() > disk.store.geometry().size {
            return Some(Refusal::Invalid("the extent ends beyond the disk"));
        }
        if matches!(&request.op, Op::Write(buf) if buf.len() as u64 != request.extent.len) {
            return Some(Refusal::Invalid("the payload and the extent differ in length"));
        }
        if disk.schedule.stopping {
            return Some(Refusal::ShuttingDown);
        }
        if disk.config.read_only && request.op.is_write() {
            return Some(Refusal::ReadOnly);
        }
        let latched = disk.latched.as_ref().filter(|_| needs_medium_writes(&request.op));
        latched
            .map(|reason| Refusal::Latched(reason.clone()))
            .or_else(|| self.unsupported(disk, erasing, &request.op))
    }

    fn unsupported(&self, disk: &Disk, erasing: &Erasing, op: &Op) -> Option<Refusal> {
        match op {
            Op::Zero { no_hole: true, fast: true } if disk.store.same_place() => {
                Some(Refusal::NotSupported("zeros that keep their space cannot be fast"))
            }
            Op::ConservativeOverwrite if disk.dead_leave() => Some(Refusal::NotSupported(
                "a disk that keeps versions writes new content elsewhere, with nothing below: purge what is to be destroyed",
            )),
            Op::Forget(scope) => erasing.refuse_forget(disk, *scope),
            op if op.is_about_epochs() && disk.store.epochs().is_none() => {
                Some(Refusal::NotSupported("the disk keeps no epochs: that takes a store of versions"))
            }
            Op::ConservativeOverwrite if disk.config.policy.passes().is_empty() => {
                Some(Refusal::NotSupported("the policy has no passes"))
            }
            _ => None,
        }
    }

    fn wait_or_refuse(&mut self, disk: &mut Disk, waiting: Waiting, out: &mut Vec<Command>) {
        if disk.latched.is_some() {
            return self.turn_away(disk, &waiting, out);
        }
        let is_revoked = waiting.obstacle.needs_task() && matches!(waiting.request.op, Op::Write(_));
        disk.state.counters.revocations += u64::from(is_revoked);
        disk.fetch_for(waiting.obstacle, out);
        self.waiting.join(waiting);
    }

    fn turn_away(&mut self, disk: &Disk, waiting: &Waiting, out: &mut Vec<Command>) {
        self.leave(waiting.id);
        waiting.id.reply(Err(disk.frozen()), out);
    }

    /// The extents that the watcher has to see before the request, the first one last; or why the request
    /// may not begin.
    fn ready(
        &self,
        disk: &Disk,
        erasing: &Erasing,
        watching: &Watching,
        waiting: &Waiting,
    ) -> Result<Vec<Extent<Addr>>, Obstacle> {
        let request = &waiting.request;
        if !self.order.is_first(waiting.id) {
            return Err(Obstacle::Order);
        }
        if !waiting.reused.is_empty() {
            return Err(Obstacle::Room);
        }
        let needs = watching.needs(waiting);
        if erasing.keeps_out(request, &needs) {
            return Err(Obstacle::Task);
        }
        if let Some(obstacle) = disk.lacks_space(request) {
            return Err(obstacle);
        }
        let obliged = needs.is_empty()
            && matches!(request.op, Op::Write(_))
            && !mutant::is(Mutant::ForgetRevocation)
            && disk.owes_before(request.extent)
            && !self.can_leave(disk, erasing, request.extent)
            && !disk.can_overwrite(request.extent);
        if obliged {
            return Err(Obstacle::Ledger);
        }
        disk.lacks_map(request, &needs).map_or(Ok(needs), Err)
    }

    /// Begins the requests whose obstacle is gone.
    pub(super) fn settle(&mut self, others: &mut Others<'_>) {
        if others.disk.latched.is_some() {
            while let Some(waiting) = self.waiting.take_first() {
                self.turn_away(others.disk, &waiting, others.out);
            }
            return;
        }
        while let Some((turn, mut waiting)) = self.waiting.next_try(others.disk.has_room()) {
            waiting.reused = others.disk.suspect_if_room(waiting.reused, others.out);
            match self.ready(others.disk, others.erasing, others.watching, &waiting) {
                Ok(needs) => self.begin(others, waiting, needs),
                Err(obstacle) => {
                    others.disk.fetch_for(obstacle, others.out);
                    self.waiting.put_back(turn, Waiting { obstacle, ..waiting });
                }
            }
        }
    }

    /// Shows the watcher the extents that it `needs` to see, then carries the request out.
    fn begin(&mut self, others: &mut Others<'_>, waiting: Waiting, mut needs: Vec<Extent<Addr>>) {
        let Waiting { id, request, unseen, .. } = waiting;
        match needs.pop() {
            None => self.carry_out(others, id, request, unseen),
            Some(old_extent) => self.show(others, id, request, old_extent, needs),
        }
    }

    /// Reads the extent `seen` for the watcher: `request` is about to replace content there.
    fn show(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        request: Request,
        old_extent: Extent<Addr>,
        rest: Vec<Extent<Addr>>,
    ) {
        let masks = others.disk.masks(old_extent);
        let places = others.disk.readable(old_extent, &masks);
        self.run_masked(
            id,
            request.extent,
            true,
            Stage::ReadForInference { request, old_extent, rest },
            masks,
        );
        self.read(others, id, Op::Copy, old_extent, places);
    }

    fn carry_out(&mut self, others: &mut Others<'_>, id: Origin, request: Request, unseen: Unseen) {
        let block = others.disk.to_copy_up(&request).next();
        if let Some(block) = block {
            return self.copy_up(others.disk, id, request, block, others.out);
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
                let masks = others.disk.masks(extent);
                let places = others.disk.readable(extent, &masks);
                self.run_masked(id, extent, true, Stage::Io, masks);
                self.read(others, id, op, extent, places);
            }
            Op::Write(data) => self.begin_write(others, id, extent, data, fua, unseen),
            Op::Flush => self.begin_flush(others.disk, id, others.out),
            Op::Cache => {
                self.run(id, extent, false, Stage::Io);
                others.disk.io(
                    Purpose::Request(id),
                    others.disk.store.locate(extent),
                    IoOp::Prefetch,
                    others.out,
                );
            }
            Op::ReadPast(epoch) => self.read_past(others, id, extent, epoch),
            Op::Compare(states) => others.disk.compare(id, extent, states, others.out),
            Op::Ask(question) => others.disk.answer_question(id, &question, others.out),
            op => self.begin_read(others, id, op, extent),
        }
    }

    /// Whether a request is under way that changes bytes of `extent`, or reads some that were not dead when
    /// it began.
    pub(super) fn is_busy(&self, extent: Extent<Addr>) -> bool {
        self.running.touches(extent)
    }

    pub(super) fn run(&mut self, id: Origin, extent: Extent<Addr>, is_ordered: bool, stage: Stage) {
        self.run_masked(id, extent, is_ordered, stage, Vec::new());
    }

    pub(super) fn run_masked(
        &mut self,
        id: Origin,
        extent: Extent<Addr>,
        is_ordered: bool,
        stage: Stage,
        masks: Vec<Extent<Addr>>,
    ) {
        self.running.insert(id, Running { extent, is_ordered, stage, masks, buf: Buf::new(), reading: None });
    }

    fn begin_flush(&mut self, disk: &mut Disk, id: Origin, out: &mut Vec<Command>) {
        let nothing = Extent::new(0, 0);
        if disk.is_checkpointed() {
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
        let places = match self.allocate(others.disk, others.erasing, id, extent) {
            WritePlan::To(places) => places,
            WritePlan::CopyUp(block) => return self.copy_up(others.disk, id, again(data), block, others.out),
            WritePlan::AwaitJob => {
                return self.wait_for(others.disk, id, again(data), unseen, Obstacle::Closed, others.out);
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

    pub(super) fn request_io_done(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        mut result: Result<Performed, MediumError>,
    ) {
        if self.read_elsewhere(others, id, result.is_err()) {
            return;
        }
        let running = self.running.get_mut(id);
        if let Stage::Provide { gap, .. } = running.stage {
            others.disk.store.end_write(gap, written(&mut result));
        }
        match (result, &mut running.stage) {
            (result, Stage::ReadForInference { .. }) => {
                self.old_content_read(others, id, result.map(|done| done.buf))
            }
            (result, Stage::CopyUp { .. }) => self.copy_up_more(others, id, result),
            (result, Stage::Merge(_)) => self.merge_read(others, id, result.map(|done| done.buf)),
            (mut result, Stage::Remain(_)) => {
                let written = written(&mut result);
                self.remainder_written(others, id, written, result.map(drop));
            }
            (result, Stage::Write { deaths, durable }) => {
                let (deaths, durable) = (deaths.take(), *durable);
                self.write_done(others, id, result, deaths, durable);
            }
            (result, Stage::Note { .. }) => self.noted(others, id, result.map(|done| done.buf)),
            (result, _) if matches!(id, Origin::Own(_)) => {
                self.own_look_done(others.disk, others.watching, id, result.map(|done| done.buf))
            }
            (Err(error), _) => self.request_failed(others.disk, others.watching, id, &error, others.out),
            (Ok(_), Stage::Provide { rest, .. }) => {
                let rest = *rest;
                self.provide_more(others, id, rest);
            }
            (Ok(done), _) => self.finish(others.watching, id, Ok(done.buf), others.out),
        }
    }

    pub(super) fn write_done(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        mut result: Result<Performed, MediumError>,
        deaths: Option<Deaths>,
        durable: bool,
    ) {
        let running = self.running.get_mut(id);
        let extent = running.extent;
        others.disk.store.end_write(extent, written(&mut result));
        match result {
            Err(error) => {
                others.disk.give_up_overwrite(extent);
                return self.request_failed(others.disk, others.watching, id, &error, others.out);
            }
            Ok(done) => self.running.get_mut(id).buf = done.buf,
        }
        if others.disk.overwrites(extent) {
            self.note_overwrite(others, id, deaths, durable);
        } else if durable && !others.disk.store.is_durable(extent) {
            self.running.get_mut(id).stage = Stage::Checkpoint(deaths);
            others.disk.want_checkpoint(Waiter::Request(id), others.out);
        } else {
            self.end_write(others, id, deaths, durable);
        }
    }

    /// Goes on with request `id` after its checkpoint.
    pub(super) fn request_checkpointed(&mut self, others: &mut Others<'_>, id: Origin) {
        let running = self.running.get_mut(id);
        match std::mem::replace(&mut running.stage, Stage::Io) {
            Stage::Closed(Epoch(number)) => {
                self.finish(others.watching, id, Ok(number.to_le_bytes().to_vec().into()), others.out)
            }
            Stage::Forget(scope) => self.intend_forget(others, id, scope),
            // Deaths wait for a later commit themselves.
            Stage::Checkpoint(Some(deaths)) => self.die(others, id, deaths),
            Stage::Checkpoint(None) if !self.awaits_completion(others.disk, id) => {
                self.finish_with_buf(others.watching, id, others.out)
            }
            _ => {}
        }
    }

    /// Shows the watcher old content that was read for request `id`, and goes on.
    fn old_content_read(&mut self, others: &mut Others<'_>, id: Origin, result: Result<Buf, MediumError>) {
        let Running { stage: Stage::ReadForInference { request, old_extent, mut rest }, .. } =
            self.running.take(id)
        else {
            return;
        };
        match result {
            Ok(old) => others.watching.overwriting(others.disk, &request, old_extent, &old),
            Err(error) => {
                others.watching.blind(others.disk, old_extent);
                return self.refuse_unbegun(others, id, request.extent, true, refusal(&error));
            }
        }
        let Some(old_extent) = rest.pop() else {
            return self.go_on(others, id, request);
        };
        match others.erasing.hidden(others.disk, old_extent) {
            None => self.show(others, id, request, old_extent, rest),
            Some(obstacle) => {
                rest.push(old_extent);
                self.wait_for(others.disk, id, request, Unseen::Left(rest), obstacle, others.out);
            }
        }
    }

    /// Ends a read that the watcher asked for.
    fn own_look_done(
        &mut self,
        disk: &Disk,
        watching: &mut Watching,
        id: Origin,
        result: Result<Buf, MediumError>,
    ) {
        let Running { extent, .. } = self.running.take(id);
        self.leave(id);
        watching.looked(disk, extent, &result);
    }

    /// Refuses a change of `extent` of which the watcher was told, and which does not take place: though a
    /// task may have put a part of a write there already.
    pub(super) fn refuse_unbegun(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        extent: Extent<Addr>,
        was_shown: bool,
        refusal: Refusal,
    ) {
        others.watching.tell_of_refusal(others.disk, extent, was_shown);
        others.erasing.layers.forget(extent);
        self.leave(id);
        self.answer(others.watching, id, Err(refusal), others.out);
    }

    /// Tells whoever asked for request `id` how it ended.
    fn answer(&mut self, watching: &mut Watching, id: Origin, outcome: Outcome, out: &mut Vec<Command>) {
        match id {
            Origin::Front(_) => id.reply(outcome, out),
            Origin::Own(_) => watching.own_death_done(),
        }
    }

    pub(super) fn request_failed(
        &mut self,
        disk: &mut Disk,
        watching: &mut Watching,
        id: Origin,
        error: &MediumError,
        out: &mut Vec<Command>,
    ) {
        let running = self.running.get_mut(id);
        let (is_read, extent) = (!running.is_ordered && !running.extent.is_empty(), running.extent);
        self.finish(watching, id, Err(refusal(error)), out);
        if !is_read && !extent.is_empty() {
            watching.tell_of_refusal(disk, extent, true);
        }
        if !is_read && error.kind == MediumErrorKind::Io {
            disk.latch(&error.message, out);
        }
    }

    pub(super) fn finish(
        &mut self,
        watching: &mut Watching,
        id: Origin,
        outcome: Outcome,
        out: &mut Vec<Command>,
    ) {
        self.running.take(id);
        self.leave(id);
        self.answer(watching, id, outcome, out);
    }

    pub(super) fn await_commit(
        &mut self,
        disk: &mut Disk,
        watching: &mut Watching,
        id: Origin,
        out: &mut Vec<Command>,
    ) {
        if disk.latched.is_some() {
            return self.finish(watching, id, Err(disk.frozen()), out);
        }
        let extent = self.running.get_mut(id).extent;
        if disk.commits.undurable.must_wait_for(id, extent) && !mutant::is(Mutant::ReplyBeforeCommit) {
            self.running.get_mut(id).stage = Stage::Commit;
            if !disk.store.same_place() {
                // All of its effect has taken place in memory, and later frames of the journal follow.
                self.retire(id);
            }
        } else {
            self.finish_with_buf(watching, id, out);
        }
    }

    pub(super) fn finish_with_buf(&mut self, watching: &mut Watching, id: Origin, out: &mut Vec<Command>) {
        let buf = std::mem::take(&mut self.running.get_mut(id).buf);
        self.finish(watching, id, Ok(buf), out);
    }
}

/// Whether `data`, written to `extent`, is nothing but whole blocks of zeros.
pub(super) fn all_zeros(extent: Extent<Addr>, data: &[u8]) -> bool {
    is_all(&zero_blocks(extent, data), extent)
}

/// `data` with zeros behind it, as long as its places: the last block of a disk may be written as a whole.
pub(super) fn padded(data: Buf, bytes: u64) -> Buf {
    if data.len() as u64 == bytes {
        return data;
    }
    let mut data = data.into_vec();
    data.resize(bytes as usize, 0);
    data.into()
}

fn is_all(runs: &[Extent<Addr>], extent: Extent<Addr>) -> bool {
    runs.iter().map(|run| run.len).sum::<u64>() == extent.len
}

/// How a write ended, for the store: takes the sealings out of `result`.
fn written(result: &mut Result<Performed, MediumError>) -> Written {
    match result {
        Ok(done) => Written::There(std::mem::take(&mut done.sealings)),
        Err(_) => Written::NotThere,
    }
}
