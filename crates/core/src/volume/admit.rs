//! Requests: when they may begin, how they are carried out, and how they end.

use super::bytes::zero_blocks;
use super::checkpoints::Waiter;
use super::running::{Deaths, Running, Stage};
use super::waiting::{Obstacle, Unseen, Waiting};
use super::watching::is_own;
use super::{Command, Performed, Purpose, Volume, io::IoOp, needs_medium_writes, no_place, refusal};
use crate::buf::Buf;
use crate::extents::ExtentMap;
use crate::media::MediumId;
use crate::mutant::{self, Mutant};
use crate::place::Place;
use crate::request::{Op, Outcome, Refusal, Request, RequestId};
use crate::sealing::ContentError;
use crate::store::{WritePlan, Written};
use crate::units::{Addr, Epoch, Extent};

impl Volume {
    pub(super) fn arrive(&mut self, id: RequestId, request: Request, out: &mut Vec<Command>) {
        if request.op.is_of_guest() {
            self.schedule.request_arrived();
        }
        if let Some(refusal) = self.refuse(&request) {
            if mutant::is(Mutant::TellOfRefused) {
                self.observe(&request);
            }
            out.push(Command::Reply(id, Err(refusal)));
            return;
        }
        if let Op::CloseEpoch { when, anew } = request.op {
            return self.close_epoch(id, (when.max(1), anew), out);
        }
        if let Op::Forget(scope) = request.op {
            return self.begin_forget(id, scope, out);
        }
        if request.extent.is_empty() && !request.op.is_of_whole_disk() {
            out.push(Command::Reply(id, Ok(Buf::new())));
            return;
        }
        if self.distrusts(&request) {
            out.push(Command::Reply(id, Ok(Buf::new())));
            return;
        }
        let is_late = mutant::is(Mutant::AskClassLate);
        let plain = if is_late { ExtentMap::default() } else { self.plain_bytes(&request) };
        let reused = self.observe(&request);
        let plain = if is_late { self.plain_bytes(&request) } else { plain };
        self.note_classes(id, &request, plain);
        self.admit(id, request, reused, out);
    }

    /// Begins a request, or lets it wait. The `reused` bytes have to be destroyed before.
    pub(super) fn admit(
        &mut self,
        id: RequestId,
        request: Request,
        reused: Vec<Extent<Addr>>,
        out: &mut Vec<Command>,
    ) {
        if request.op.is_ordered() {
            self.enter(id, &request);
        }
        let reused = self.suspect_if_room(reused, out);
        let waiting = Waiting { id, request, reused, unseen: Unseen::ToAsk, obstacle: Obstacle::Order };
        match self.ready(&waiting) {
            Ok(needs) => self.begin(waiting, needs, out),
            Err(obstacle) => self.wait_or_refuse(Waiting { obstacle, ..waiting }, out),
        }
    }

    /// Puts the change `id` behind the earlier ones of the same blocks, and into the epoch that takes changes.
    pub(super) fn enter(&mut self, id: RequestId, request: &Request) {
        let (whole, epoch) = (self.store.geometry().together(request.extent), self.arriving_epoch());
        self.requests.order.enter(id, whole, epoch);
        if request.op.is_write() {
            self.requests.closes.note_change();
        }
    }

    /// Goes on with `request`: the watcher has seen all content that it replaces, which had to come before
    /// an erase task destroys that. A request that waits for such a task stays ahead of later ones.
    pub(super) fn go_on(&mut self, id: RequestId, request: Request, out: &mut Vec<Command>) {
        self.go_on_unseen(id, request, Unseen::NOTHING, out);
    }

    /// Goes on with `request`, of which the watcher has yet to see something.
    pub(super) fn go_on_unseen(
        &mut self,
        id: RequestId,
        request: Request,
        unseen: Unseen,
        out: &mut Vec<Command>,
    ) {
        let obstacle = Obstacle::Order;
        let waiting = Waiting { id, request, reused: Vec::new(), unseen, obstacle };
        match self.ready(&waiting) {
            Ok(needs) => self.begin(waiting, needs, out),
            Err(obstacle) => self.wait_for(id, waiting.request, waiting.unseen, obstacle, out),
        }
    }

    /// Lets `request`, which had been admitted, wait once more.
    pub(super) fn wait_for(
        &mut self,
        id: RequestId,
        request: Request,
        unseen: Unseen,
        obstacle: Obstacle,
        out: &mut Vec<Command>,
    ) {
        let waiting = Waiting { id, request, reused: Vec::new(), unseen, obstacle };
        if self.latched.is_some() {
            return self.turn_away(&waiting, out);
        }
        self.fetch_for(obstacle, out);
        self.requests.waiting.join(waiting);
    }

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

    /// Why `request` is refused, if it is. All refusals that are known in advance are given here, before the
    /// watcher observes the request: a change that never takes place must not be observed.
    fn refuse(&self, request: &Request) -> Option<Refusal> {
        if request.extent.end() > self.store.geometry().size {
            return Some(Refusal::Invalid("the extent ends beyond the disk"));
        }
        if matches!(&request.op, Op::Write(buf) if buf.len() as u64 != request.extent.len) {
            return Some(Refusal::Invalid("the payload and the extent differ in length"));
        }
        if self.schedule.stopping {
            return Some(Refusal::ShuttingDown);
        }
        if self.config.read_only && request.op.is_write() {
            return Some(Refusal::ReadOnly);
        }
        let latched = self.latched.as_ref().filter(|_| needs_medium_writes(&request.op));
        latched.map(|reason| Refusal::Latched(reason.clone())).or_else(|| self.unsupported(&request.op))
    }

    fn unsupported(&self, op: &Op) -> Option<Refusal> {
        match op {
            Op::Zero { no_hole: true, fast: true } if self.store.same_place() => {
                Some(Refusal::NotSupported("zeros that keep their space cannot be fast"))
            }
            Op::ConservativeOverwrite if self.dead_leave() => Some(Refusal::NotSupported(
                "a disk that keeps versions writes new content elsewhere, with nothing below: purge what is to be destroyed",
            )),
            Op::Forget(scope) => self.refuse_forget(*scope),
            op if op.is_about_epochs() && self.store.epochs().is_none() => {
                Some(Refusal::NotSupported("the disk keeps no epochs: that takes a store of versions"))
            }
            Op::ConservativeOverwrite if self.config.policy.passes().is_empty() => {
                Some(Refusal::NotSupported("the policy has no passes"))
            }
            _ => None,
        }
    }

    fn wait_or_refuse(&mut self, waiting: Waiting, out: &mut Vec<Command>) {
        if self.latched.is_some() {
            return self.turn_away(&waiting, out);
        }
        let is_revoked = waiting.obstacle.needs_task() && matches!(waiting.request.op, Op::Write(_));
        self.state.counters.revocations += u64::from(is_revoked);
        self.fetch_for(waiting.obstacle, out);
        self.requests.waiting.join(waiting);
    }

    fn turn_away(&mut self, waiting: &Waiting, out: &mut Vec<Command>) {
        self.requests.leave(waiting.id);
        if !is_own(waiting.id) {
            out.push(Command::Reply(waiting.id, Err(self.frozen())));
        }
    }

    /// The refusal of a request that waits for something that a latched disk never does.
    pub(super) fn frozen(&self) -> Refusal {
        let reason = self.latched.clone().unwrap_or_default();
        Refusal::Latched(format!("{reason}; the content is safe in the journal: serve the disk anew"))
    }

    /// The extents that the watcher has to see before the request, the first one last; or why the request
    /// may not begin.
    fn ready(&self, waiting: &Waiting) -> Result<Vec<Extent<Addr>>, Obstacle> {
        let request = &waiting.request;
        if !self.requests.order.is_first(waiting.id) {
            return Err(Obstacle::Order);
        }
        if !waiting.reused.is_empty() {
            return Err(Obstacle::Room);
        }
        let needs = self.needs(waiting);
        if self.erasing.keeps_out(request, &needs) {
            return Err(Obstacle::Task);
        }
        if let Some(obstacle) = self.lacks_space(request) {
            return Err(obstacle);
        }
        let obliged = needs.is_empty()
            && matches!(request.op, Op::Write(_))
            && !mutant::is(Mutant::ForgetRevocation)
            && self.owes_before(request.extent)
            && !self.can_leave(request.extent)
            && !self.can_overwrite(request.extent);
        if obliged {
            return Err(Obstacle::Ledger);
        }
        self.lacks_map(request, &needs).map_or(Ok(needs), Err)
    }

    /// Whether something is owed at bytes that a write of `extent` changes.
    fn owes_before(&self, extent: Extent<Addr>) -> bool {
        self.state.ledger.overlaps(self.store.geometry().changed(extent))
    }

    /// Begins the requests whose obstacle is gone.
    pub(super) fn settle(&mut self, out: &mut Vec<Command>) {
        if self.latched.is_some() {
            while let Some(waiting) = self.requests.waiting.take_first() {
                self.turn_away(&waiting, out);
            }
            return;
        }
        while let Some((turn, mut waiting)) = self.requests.waiting.next_try(self.has_room()) {
            waiting.reused = self.suspect_if_room(waiting.reused, out);
            match self.ready(&waiting) {
                Ok(needs) => self.begin(waiting, needs, out),
                Err(obstacle) => {
                    self.fetch_for(obstacle, out);
                    self.requests.waiting.put_back(turn, Waiting { obstacle, ..waiting });
                }
            }
        }
    }

    /// Shows the watcher the extents that it `needs` to see, then carries the request out.
    fn begin(&mut self, waiting: Waiting, mut needs: Vec<Extent<Addr>>, out: &mut Vec<Command>) {
        let Waiting { id, request, unseen, .. } = waiting;
        match needs.pop() {
            None => self.carry_out(id, request, unseen, out),
            Some(old_extent) => self.show(id, request, old_extent, needs, out),
        }
    }

    /// Reads the extent `seen` for the watcher: `request` is about to replace content there.
    fn show(
        &mut self,
        id: RequestId,
        request: Request,
        old_extent: Extent<Addr>,
        rest: Vec<Extent<Addr>>,
        out: &mut Vec<Command>,
    ) {
        let masks = self.masks(old_extent);
        let places = self.readable(old_extent, &masks);
        self.run_masked(
            id,
            request.extent,
            true,
            Stage::ReadForInference { request, old_extent, rest },
            masks,
        );
        self.read(id, Op::Copy, old_extent, places, out);
    }

    fn carry_out(&mut self, id: RequestId, request: Request, unseen: Unseen, out: &mut Vec<Command>) {
        let block = self.to_copy_up(&request).next();
        if let Some(block) = block {
            return self.copy_up(id, request, block, out);
        }
        if self.needs_merge(&request) {
            return self.merge(id, request, out);
        }
        let Request { op, extent, fua } = request;
        if let Some((due, cause)) = self.obligation(id, &op) {
            return self.begin_death(id, extent, due, cause, out);
        }
        match op {
            Op::ReadForInference => {
                let masks = self.masks(extent);
                let places = self.readable(extent, &masks);
                self.run_masked(id, extent, true, Stage::Io, masks);
                self.read(id, op, extent, places, out);
            }
            Op::Write(data) => self.begin_write(id, extent, data, fua, unseen, out),
            Op::Flush => self.begin_flush(id, out),
            Op::Cache => {
                self.run(id, extent, false, Stage::Io);
                self.io(Purpose::Request(id), self.store.locate(extent), IoOp::Prefetch, out);
            }
            Op::ReadPast(epoch) => self.read_past(id, extent, epoch, out),
            Op::Compare(states) => self.compare(id, extent, states, out),
            Op::Ask(question) => self.answer_question(id, &question, out),
            op => self.begin_read(id, op, extent, out),
        }
    }

    /// Whether a request is under way that changes bytes of `extent`, or reads some that were not dead when
    /// it began.
    pub(super) fn is_busy(&self, extent: Extent<Addr>) -> bool {
        self.requests.running.touches(extent)
    }

    pub(super) fn run(&mut self, id: RequestId, extent: Extent<Addr>, is_ordered: bool, stage: Stage) {
        self.run_masked(id, extent, is_ordered, stage, Vec::new());
    }

    pub(super) fn run_masked(
        &mut self,
        id: RequestId,
        extent: Extent<Addr>,
        is_ordered: bool,
        stage: Stage,
        masks: Vec<Extent<Addr>>,
    ) {
        self.requests
            .running
            .insert(id, Running { extent, is_ordered, stage, masks, buf: Buf::new(), reading: None });
    }

    fn begin_flush(&mut self, id: RequestId, out: &mut Vec<Command>) {
        let nothing = Extent::new(0, 0);
        if self.is_checkpointed() {
            self.run(id, nothing, false, Stage::Io);
            self.io(Purpose::Request(id), Place::all_of(MediumId::Data), IoOp::Sync, out);
        } else {
            self.run(id, nothing, false, Stage::Checkpoint(Deaths::zeros(Vec::new())));
            self.want_checkpoint(Waiter::Request(id), out);
        }
    }

    fn begin_read(&mut self, id: RequestId, op: Op, extent: Extent<Addr>, out: &mut Vec<Command>) {
        let masks = self.masks(extent);
        if masks.iter().map(|mask| mask.len).sum::<u64>() == extent.len {
            return out.push(Command::Reply(id, Ok(vec![0; extent.len as usize].into())));
        }
        let places = self.readable(extent, &masks);
        self.run_masked(id, extent, false, Stage::Io, masks);
        self.read(id, op, extent, places, out);
    }

    fn begin_write(
        &mut self,
        id: RequestId,
        extent: Extent<Addr>,
        data: Buf,
        fua: bool,
        unseen: Unseen,
        out: &mut Vec<Command>,
    ) {
        self.leave_places(extent);
        let zeros = if self.config.detect_zeroes { zero_blocks(extent, &data) } else { Vec::new() };
        if is_all(&zeros, extent) && !self.store.same_place() {
            // A place for zeros would only have to be given back.
            self.run(id, extent, true, Stage::Oblige(Deaths::zeros(zeros)));
            self.requests.running.get_mut(id).buf = data;
            return self.oblige_more(id, out);
        }
        let again = |data| Request { op: Op::Write(data), extent, fua };
        let places = match self.allocate(id, extent) {
            WritePlan::To(places) => places,
            WritePlan::CopyUp(block) => return self.copy_up(id, again(data), block, out),
            WritePlan::AwaitJob => return self.wait_for(id, again(data), unseen, Obstacle::Closed, out),
            WritePlan::NoSpace => return self.refuse_unbegun(id, extent, true, no_place(), out),
        };
        self.begin_overwrite(extent);
        if let Some(fresh) = &mut self.erasing.fresh {
            fresh.insert(extent);
        }
        self.run(id, extent, true, Stage::Write { zeros, durable: fua });
        let data = padded(data, places.bytes());
        self.io(Purpose::Request(id), places, IoOp::Write { data, durable: fua }, out);
    }

    pub(super) fn request_io_done(
        &mut self,
        id: RequestId,
        mut result: Result<Performed, ContentError>,
        out: &mut Vec<Command>,
    ) {
        if self.read_elsewhere(id, result.is_err(), out) {
            return;
        }
        let running = self.requests.running.get_mut(id);
        if let Stage::Provide { gap, .. } = running.stage {
            self.store.end_write(gap, written(&mut result));
        }
        match (result, &mut running.stage) {
            (result, Stage::ReadForInference { .. }) => {
                self.old_content_read(id, result.map(|done| done.buf), out)
            }
            (result, Stage::CopyUp { .. }) => self.copy_up_more(id, result, out),
            (result, Stage::Merge(_)) => self.merge_read(id, result.map(|done| done.buf), out),
            (mut result, Stage::Remain(_)) => {
                let written = written(&mut result);
                self.remainder_written(id, written, result.map(drop), out);
            }
            (result, Stage::Write { zeros, durable }) => {
                let (zeros, durable) = (std::mem::take(zeros), *durable);
                self.write_done(id, result, zeros, durable, out);
            }
            (result, Stage::Note { .. }) => self.noted(id, result.map(|done| done.buf), out),
            (result, _) if is_own(id) => self.own_look_done(id, result.map(|done| done.buf)),
            (Err(error), _) => self.request_failed(id, error, out),
            (Ok(_), Stage::Provide { rest, .. }) => {
                let rest = *rest;
                self.provide_more(id, rest, out);
            }
            (Ok(done), _) => self.finish(id, Ok(done.buf), out),
        }
    }

    pub(super) fn write_done(
        &mut self,
        id: RequestId,
        mut result: Result<Performed, ContentError>,
        zeros: Vec<Extent<Addr>>,
        durable: bool,
        out: &mut Vec<Command>,
    ) {
        let running = self.requests.running.get_mut(id);
        let extent = running.extent;
        self.store.end_write(extent, written(&mut result));
        match result {
            Err(error) => {
                self.give_up_overwrite(extent);
                return self.request_failed(id, error, out);
            }
            Ok(done) => self.requests.running.get_mut(id).buf = done.buf,
        }
        if self.overwrites(extent) {
            self.note_overwrite(id, zeros, durable, out);
        } else if durable && !self.store.is_durable(extent) {
            self.requests.running.get_mut(id).stage = Stage::Checkpoint(Deaths::zeros(zeros));
            self.want_checkpoint(Waiter::Request(id), out);
        } else {
            self.end_write(id, zeros, durable, out);
        }
    }

    /// Goes on with request `id` after its checkpoint.
    pub(super) fn request_checkpointed(&mut self, id: RequestId, out: &mut Vec<Command>) {
        let running = self.requests.running.get_mut(id);
        match std::mem::replace(&mut running.stage, Stage::Io) {
            Stage::Closed(Epoch(number)) => self.finish(id, Ok(number.to_le_bytes().to_vec().into()), out),
            Stage::Forget(scope) => self.intend_forget(id, scope, out),
            // Deaths wait for a later commit themselves.
            Stage::Checkpoint(deaths) if !deaths.rest.is_empty() || !self.awaits_completion(id) => {
                self.die(id, deaths, out);
            }
            _ => {}
        }
    }

    /// Shows the watcher old content that was read for request `id`, and goes on.
    fn old_content_read(&mut self, id: RequestId, result: Result<Buf, ContentError>, out: &mut Vec<Command>) {
        let Running { stage: Stage::ReadForInference { request, old_extent, mut rest }, .. } =
            self.requests.running.take(id)
        else {
            return;
        };
        match result {
            Ok(old) => self.overwriting(&request, old_extent, &old),
            Err(error) => {
                self.blind(old_extent);
                return self.refuse_unbegun(id, request.extent, true, refusal(&error), out);
            }
        }
        let Some(old_extent) = rest.pop() else { return self.go_on(id, request, out) };
        match self.hides(old_extent) {
            None => self.show(id, request, old_extent, rest, out),
            Some(obstacle) => {
                rest.push(old_extent);
                self.wait_for(id, request, Unseen::Left(rest), obstacle, out);
            }
        }
    }

    /// Why the content of `old_extent` cannot be read for the watcher now. While other content was read, the map may
    /// have dropped the page that says where it lies, and an erase task may have begun there.
    fn hides(&self, old_extent: Extent<Addr>) -> Option<Obstacle> {
        let page = || self.store.missing(old_extent).map(Obstacle::Page);
        if self.erasing.hides(old_extent) { Some(Obstacle::Task) } else { page() }
    }

    /// Ends a read that the watcher asked for.
    fn own_look_done(&mut self, id: RequestId, result: Result<Buf, ContentError>) {
        let Running { extent, .. } = self.requests.running.take(id);
        self.requests.leave(id);
        self.looked(extent, &result);
    }

    /// Refuses a change of `extent` of which the watcher was told, and which does not take place: though a
    /// task may have put a part of a write there already.
    pub(super) fn refuse_unbegun(
        &mut self,
        id: RequestId,
        extent: Extent<Addr>,
        was_shown: bool,
        refusal: Refusal,
        out: &mut Vec<Command>,
    ) {
        self.tell_of_refusal(extent, was_shown);
        self.erasing.layers.forget(extent);
        self.requests.leave(id);
        self.answer(id, Err(refusal), out);
    }

    /// Tells whoever asked for request `id` how it ended.
    fn answer(&mut self, id: RequestId, outcome: Outcome, out: &mut Vec<Command>) {
        if is_own(id) {
            self.own_death_done();
        } else {
            out.push(Command::Reply(id, outcome));
        }
    }

    pub(super) fn finish(&mut self, id: RequestId, outcome: Outcome, out: &mut Vec<Command>) {
        self.requests.running.take(id);
        self.requests.leave(id);
        self.answer(id, outcome, out);
    }

    pub(super) fn await_commit(&mut self, id: RequestId, out: &mut Vec<Command>) {
        if self.latched.is_some() {
            return self.finish(id, Err(self.frozen()), out);
        }
        let extent = self.requests.running.get_mut(id).extent;
        if self.commits.undurable.must_wait_for(id, extent) && !mutant::is(Mutant::ReplyBeforeCommit) {
            self.requests.running.get_mut(id).stage = Stage::Commit;
            if !self.store.same_place() {
                // All of its effect has taken place in memory, and later frames of the journal follow.
                self.requests.retire(id);
            }
        } else {
            self.finish_with_buf(id, out);
        }
    }

    pub(super) fn finish_with_buf(&mut self, id: RequestId, out: &mut Vec<Command>) {
        let buf = std::mem::take(&mut self.requests.running.get_mut(id).buf);
        self.finish(id, Ok(buf), out);
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
fn written(result: &mut Result<Performed, ContentError>) -> Written {
    match result {
        Ok(done) => Written::There(std::mem::take(&mut done.sealings)),
        Err(_) => Written::NotThere,
    }
}
