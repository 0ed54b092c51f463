//! Writes over dead bytes: how they are noted, and end.

use crate::base::buf::Buf;
use crate::base::units::Extent;
use crate::media::MediumId;
use crate::media::place::Place;
use crate::media::sealing::ContentError;
use crate::mutant::{self, Mutant};
use crate::owed::journal::Note;
use crate::volume::Purpose;
use crate::volume::disk::Disk;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::io::IoOp;
use crate::volume::origin::Origin;
use crate::volume::requests::running::{Deaths, Stage};
use crate::volume::requests::{Others, Requests};

impl Requests {
    /// Writes the note of request `id`, whose write over dead bytes has ended.
    pub(in crate::volume) fn note_overwrite(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        deaths: Option<Deaths>,
        durable: bool,
    ) {
        if others.disk.latched.is_some() {
            return self.give_up_noting(others, id);
        }
        let number = others.disk.overwriting.notes.take();
        self.write_note(others, id, deaths, durable, number);
    }

    fn write_note(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        deaths: Option<Deaths>,
        durable: bool,
        number: u64,
    ) {
        let running = self.running.get_mut(id);
        let made = others.disk.commits.journal.position();
        running.stage = Stage::Note { deaths, durable, number, generation: made.generation };
        let extent = running.extent;
        if mutant::is(Mutant::NoteNothing) {
            return self.noted(others, id, Ok(Buf::new()));
        }
        let up_to = [others.disk.commits.durable, made];
        let data = Note { session: others.disk.state.session, extent, up_to }.to_bytes();
        let at = Extent::new(others.disk.commits.journal.shape().note(number).0, data.len() as u64);
        let notes = others.disk.commits.journal.shape().notes();
        assert!(at.overlap(notes) == Some(at), "a note leaves the rest of the journal alone");
        let place = Place { on: MediumId::Journal, extent: at };
        let op = IoOp::Write { data: data.into(), durable: false };
        others.disk.io(Purpose::Request(id), place, op, others.out);
    }

    /// Goes on with request `id` after the write of its note.
    pub(in crate::volume) fn noted(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        result: Result<Buf, ContentError>,
    ) {
        let running = self.running.get_mut(id);
        let (extent, stage) = (running.extent, std::mem::replace(&mut running.stage, Stage::Io));
        let Stage::Note { deaths, durable, number, generation } = stage else { return };
        let made = others.disk.commits.journal.position();
        if result.is_ok() && others.disk.latched.is_none() && generation != made.generation {
            // A snapshot was made meanwhile, in which the bytes are dead.
            return self.write_note(others, id, deaths, durable, number);
        }
        others.disk.overwriting.notes.written(number);
        if let Err(error) = result {
            others.disk.give_up_overwrite(extent);
            return self.request_failed(others, id, error);
        }
        if others.disk.latched.is_some() {
            others.disk.zero_notes(others.out);
        }
        self.written_over(others, id, deaths, durable);
    }

    /// The write of `id` over dead bytes has ended, and that is noted where it has to be: what it wrote is alive, and owed until a sync.
    pub(in crate::volume) fn written_over(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        deaths: Option<Deaths>,
        durable: bool,
    ) {
        if others.disk.latched.is_some() {
            return self.give_up_noting(others, id);
        }
        let extent = self.running.get_mut(id).extent;
        let before = others.disk.overwriting.under_way.bytes();
        others.disk.overwriting.under_way.remove(extent);
        let after = others.disk.overwriting.under_way.bytes();
        assert!(before == after + extent.len, "a write over dead bytes is under way until it is noted");
        if !others.disk.state.ledger.has_unsynced() {
            others.disk.overwriting.since = others.disk.schedule.now;
        }
        others.disk.state.ledger.overwrite(extent);
        if durable && others.disk.dies_by_key() {
            // The key has to be durable, too.
            self.running.get_mut(id).stage = Stage::Checkpoint(deaths);
            return others.disk.want_checkpoint(Waiter::Request(id), others.out);
        }
        self.end_write(others, id, deaths, durable);
    }

    /// Refuses request `id`, a write over dead bytes that has ended: the medium failed meanwhile, and may lose what was written.
    /// The bytes stay dead, and no note says otherwise.
    fn give_up_noting(&mut self, others: &mut Others<'_>, id: Origin) {
        let extent = self.running.get_mut(id).extent;
        others.disk.give_up_overwrite(extent);
        let frozen = others.disk.frozen();
        self.finish(others, id, Err(frozen));
        others.watching.tell_of_refusal(others.disk, extent, true);
    }

    /// The write of `id` has ended, and is noted if it has to be. One that is durable is the pass
    /// over all that was written over there, by others too.
    pub(in crate::volume) fn end_write(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        deaths: Option<Deaths>,
        durable: bool,
    ) {
        let extent = self.running.get_mut(id).extent;
        if !durable {
            return match deaths {
                Some(deaths) => self.die(others, id, deaths),
                None => self.finish_with_buf(others, id),
            };
        }
        let parts: Vec<_> =
            others.disk.state.ledger.overwritten_within(extent).map(|(part, _)| part).collect();
        if others.disk.latched.is_some() && !(parts.is_empty() && others.disk.is_met_durable()) {
            let frozen = others.disk.frozen();
            return self.finish(others, id, Err(frozen));
        }
        others.disk.meet_overwritten(&parts);
        self.running.get_mut(id).stage = Stage::Checkpoint(deaths);
        self.request_checkpointed(others, id);
    }

    /// Whether request `id` has to wait until completions are durable. If so, that ends the request.
    pub(in crate::volume) fn awaits_completion(&mut self, disk: &mut Disk, id: Origin) -> bool {
        if disk.is_met_durable() {
            return false;
        }
        self.running.get_mut(id).stage = Stage::Commit;
        disk.commits.wait_for(disk.overwriting.completed_seq, id);
        true
    }
}
