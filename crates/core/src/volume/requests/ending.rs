//! What follows from the I/O operations of a request, until it ends.

use crate::base::buf::Buf;
use crate::base::units::{Addr, Extent};
use crate::media::medium::MediumErrorKind;
use crate::media::sealing::ContentError;
use crate::mutant::{self, Mutant};
use crate::request::{Outcome, Refusal, Reply};
use crate::store::Written;
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::Erasing;
use crate::volume::obstacle::Obstacle;
use crate::volume::origin::Origin;
use crate::volume::requests::running::{Deaths, Running, Stage};
use crate::volume::requests::waiting::Unseen;
use crate::volume::requests::{Others, Requests};
use crate::volume::{Performed, refusal};

impl Erasing {
    /// Why the content of `old_extent` cannot be read for the watcher now. While other content was read, the map may
    /// have dropped the page that says where it lies, and an erase task may have begun there.
    fn hidden(&self, disk: &Disk, old_extent: Extent<Addr>) -> Option<Obstacle> {
        let page = || disk.store.missing(old_extent).map(Obstacle::Page);
        if self.hides(old_extent) { Some(Obstacle::Task) } else { page() }
    }
}

impl Requests {
    pub(in crate::volume) fn request_io_done(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        mut result: Result<Performed, ContentError>,
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
                self.own_look_done(others, id, result.map(|done| done.buf))
            }
            (Err(error), _) => self.request_failed(others, id, error),
            (Ok(_), Stage::Provide { rest, .. }) => {
                let rest = *rest;
                self.provide_more(others, id, rest);
            }
            (Ok(done), _) => self.finish(others, id, Ok(done.buf.into())),
        }
    }

    pub(in crate::volume) fn write_done(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        mut result: Result<Performed, ContentError>,
        deaths: Option<Deaths>,
        durable: bool,
    ) {
        let running = self.running.get_mut(id);
        let extent = running.extent;
        others.disk.store.end_write(extent, written(&mut result));
        let is_over_dead = others.disk.overwrite_ended(extent);
        match result {
            Err(error) => {
                others.disk.give_up_overwrite(extent);
                return self.request_failed(others, id, error);
            }
            Ok(done) => self.running.get_mut(id).buf = done.buf,
        }
        if is_over_dead && !others.disk.takes_notes() {
            self.written_over(others, id, deaths, durable);
        } else if is_over_dead {
            self.note_overwrite(others, id, deaths, durable);
        } else if durable && !others.disk.store.is_durable(extent) {
            self.running.get_mut(id).stage = Stage::Checkpoint(deaths);
            others.disk.want_checkpoint(Waiter::Request(id), others.out);
        } else {
            self.end_write(others, id, deaths, durable);
        }
    }

    /// Goes on with request `id` after its checkpoint.
    pub(in crate::volume) fn request_checkpointed(&mut self, others: &mut Others<'_>, id: Origin) {
        let running = self.running.get_mut(id);
        match std::mem::replace(&mut running.stage, Stage::Io) {
            Stage::Closed(last) => self.finish(others, id, Ok(Reply::Closed(last))),
            Stage::Forget(forget) => self.intend_forget(others, id, forget),
            // Deaths wait for a later commit themselves.
            Stage::Checkpoint(Some(deaths)) => self.die(others, id, deaths),
            Stage::Checkpoint(None) if !self.awaits_completion(others.disk, id) => {
                self.finish_with_buf(others, id)
            }
            stage => {
                assert!(matches!(stage, Stage::Checkpoint(None)), "a request waits for what it asked for")
            }
        }
    }

    /// Shows the watcher old content that was read for request `id`, and goes on.
    fn old_content_read(&mut self, others: &mut Others<'_>, id: Origin, result: Result<Buf, ContentError>) {
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
                self.wait_for(others, id, request, Unseen::Left(rest), obstacle);
            }
        }
    }

    /// Ends a read that the watcher asked for.
    fn own_look_done(&mut self, others: &mut Others<'_>, id: Origin, result: Result<Buf, ContentError>) {
        let Running { extent, .. } = self.running.take(id);
        self.leave(id);
        others.watching.looked(others.disk, extent, &result);
    }

    /// Refuses a change of `extent` of which the watcher was told, and which does not take place: though a
    /// task may have put a part of a write there already.
    pub(in crate::volume) fn refuse_unbegun(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        extent: Extent<Addr>,
        was_shown: bool,
        refusal: Refusal,
    ) {
        assert!(self.running.get(id).is_none(), "a change that never began does not run");
        others.watching.tell_of_refusal(others.disk, extent, was_shown);
        others.erasing.layers.forget(extent);
        self.leave(id);
        self.answer(others, id, Err(refusal));
    }

    /// Tells the origin of request `id` how it ended.
    fn answer(&mut self, others: &mut Others<'_>, id: Origin, outcome: Outcome) {
        match id {
            Origin::Front(_) => id.reply(outcome, others.out),
            Origin::Own(_) => others.watching.own_death_done(),
        }
    }

    /// Refuses request `id`, under way, whose content could not be read or written. A medium that fails at a change latches.
    pub(in crate::volume) fn request_failed(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        error: impl Into<ContentError>,
    ) {
        let error = error.into();
        let running = self.running.get_mut(id);
        let (is_read, extent) = (!running.is_ordered && !running.extent.is_empty(), running.extent);
        self.finish(others, id, Err(refusal(&error)));
        if !is_read && !extent.is_empty() {
            others.watching.tell_of_refusal(others.disk, extent, true);
        }
        if let ContentError::Medium(error) = error
            && !is_read
            && error.kind != MediumErrorKind::NoSpace
        {
            others.disk.latch(&error.message, others.out);
        }
    }

    pub(in crate::volume) fn finish(&mut self, others: &mut Others<'_>, id: Origin, outcome: Outcome) {
        self.running.take(id);
        self.leave(id);
        self.answer(others, id, outcome);
    }

    pub(in crate::volume) fn await_commit(&mut self, others: &mut Others<'_>, id: Origin) {
        if others.disk.latched.is_some() {
            let frozen = others.disk.frozen();
            return self.finish(others, id, Err(frozen));
        }
        let extent = self.running.get_mut(id).extent;
        let must_wait = others.disk.commits.undurable.must_wait_for(id, extent);
        if must_wait && !mutant::is(Mutant::ReplyBeforeCommit) {
            self.running.get_mut(id).stage = Stage::Commit;
            if !others.disk.store.same_place() {
                // All of its effect has taken place in memory, and later frames of the journal follow.
                self.retire(id);
            }
        } else {
            self.finish_with_buf(others, id);
        }
    }

    pub(in crate::volume) fn finish_with_buf(&mut self, others: &mut Others<'_>, id: Origin) {
        let buf = std::mem::take(&mut self.running.get_mut(id).buf);
        self.finish(others, id, Ok(buf.into()));
    }
}

/// How a write ended, for the store: takes the sealings out of `result`.
fn written(result: &mut Result<Performed, ContentError>) -> Written {
    match result {
        Ok(done) => Written::There(std::mem::take(&mut done.sealings)),
        Err(_) => Written::NotThere,
    }
}
