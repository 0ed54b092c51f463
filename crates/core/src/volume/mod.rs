//! The volume: one disk, as a state machine without input, output or a clock.
//!
//! [`Volume::apply`] takes [`Event`]s in order of arrival, and answers with [`Command`]s.
//!
//! Invariants:
//! 1. Every death is durable in the journal before the request that caused it
//!    is replied to, and before any erase task on it begins.
//! 2. A dead byte reads as zeros from the moment of its death.
//! 3. A write to a byte with an obligation waits until the obligation is completed
//!    and that is durable, or it gets another place ([`leaving`]), or it completes the
//!    obligation itself ([`overwriting`]): no erase task can destroy what was written
//!    after a death.
//! 4. A pass is durable before the next begins, and the last one before the
//!    receipt ([`crate::erase`]).
//! 5. Content under a conservative overwrite is durable in the journal before
//!    the first pass over it, and its copy there is destroyed like any dead
//!    content before the receipt.
//! 6. Requests that change overlapping bytes are carried out in order of
//!    arrival.
//! 7. A change belongs to the epoch that took changes when it arrived ([`epochs`]).
//! 8. After the first failure of the medium nothing more is written. What a medium will not erase is no failure ([`remaining`]).

mod admit;
mod bytes;
mod checkpoints;
mod choose;
mod classes;
mod commit;
mod comparing;
mod copy_up;
mod dying;
mod epochs;
mod erasing;
mod forgetting;
mod io;
mod jobs;
mod layers;
mod leaving;
mod merge;
mod open;
mod order;
mod outstanding;
mod overwriting;
mod paging;
mod query;
mod reading;
mod recording;
mod remaining;
mod requests;
mod running;
mod schedule;
mod shortage;
mod space;
mod task;
#[cfg(test)]
mod tests;
mod waiting;
mod watching;

pub use io::{Io, IoId, IoOp, Performed};
pub use open::{Checkpoint, OpenError, Opening};
pub use query::{OwedStatus, RequestsStatus, Status, WaitingBytes};

use crate::journal::State;
use crate::ledger::Cause;
use crate::medium::{MediumError, MediumErrorKind};
use crate::places::Places;
use crate::policy::Policy;
pub use crate::receipts::{Done, LogHead, Receipt};
use crate::request::{Op, Outcome, Refusal, Request, RequestId};
use crate::sealing::ContentError;
use crate::store::Store;
use crate::units::{Addr, Extent, Millis};
use crate::watch::{Attached, Class};
use outstanding::Purpose;

/// How a volume behaves.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// The passes of an erase task.
    pub policy: Policy,
    /// Erase tasks begin when no request came for this long, in milliseconds.
    pub idle_after_ms: u64,
    /// Erase tasks begin, idle or not, when the oldest obligation is this old, in milliseconds.
    pub deadline_ms: u64,
    /// Treat whole blocks of zeros that are written as deaths.
    pub detect_zeroes: bool,
    /// Whether a free of the guest counts as a death. If not, and if the watcher knows the file system, the
    /// death waits until the watcher infers it too.
    pub trust_discard: bool,
    /// Refuse requests that would change the disk, and begin no erase task.
    pub read_only: bool,
    /// Longest single write of an erase task, in bytes; bounds the wait of a request behind it.
    pub run_bytes_max: u64,
    /// Most bytes that share the syncs of an erase task.
    pub batch_bytes_max: u64,
    /// Memory for what the store knows of its content, in bytes: as much as it keeps in memory of an index. Whoever needs more of that
    /// waits.
    pub store_bytes_max: u64,
}

impl Config {
    /// The defaults, with `policy`.
    #[must_use]
    pub fn new(policy: Policy) -> Self {
        Self {
            policy,
            idle_after_ms: 250,
            deadline_ms: 10 * 60 * 1000,
            detect_zeroes: false,
            trust_discard: true,
            read_only: false,
            run_bytes_max: 2 << 20,
            batch_bytes_max: 64 << 20,
            store_bytes_max: 64 << 20,
        }
    }
}

/// An input of a volume.
#[derive(Debug)]
pub enum Event {
    /// A request arrived.
    Request(RequestId, Request),
    /// The operation of a [`Command::Io`] has ended, or has failed.
    Completed(IoId, Result<Performed, ContentError>),
    /// Time has passed.
    Tick,
    /// A client has been connected, and will send requests.
    Connected,
    /// A client has been disconnected, and sends no more.
    Disconnected,
    /// The guest is attached so from now on.
    Attached(Attached),
    /// The disk is about to be written in another order than a file system's: the watcher knows nothing from now on, and
    /// infers nothing.
    KeepWatcherOut,
    /// A watcher that knows nothing begins, as after a start without a view, once no change is under way.
    WatchAnew,
    /// All obligations are due now.
    ShredNow,
    /// The disk is being stopped: no new requests. All obligations are due now, or, without `drain`, left
    /// for the next start.
    Stop {
        /// Destroy everything that is owed before the stop.
        drain: bool,
    },
    /// The audit log is durable up to `head`, with all receipts before number
    /// `receipts`.
    Recorded {
        /// The number of the first receipt that the log does not have.
        receipts: u64,
        /// The end of the log.
        head: LogHead,
    },
    /// The audit log cannot be written: why.
    RecordStuck(String),
    /// A file of the disk is not the one that was opened any more: as if a medium had failed.
    Failed(MediumError),
    /// The medium has no space allocated here: it reads as zeros. Ignored
    /// where the disk was written to since it was opened.
    Hole(Extent<Addr>),
    /// The medium has space allocated here, which is given back where the disk has no data. Ignored while
    /// holes are unknown.
    Space(Extent<Addr>),
}

/// An output of a volume: something to be done.
#[derive(Debug)]
pub enum Command {
    /// An I/O operation. Answer its end with [`Event::Completed`].
    Io(Io),
    /// A request has ended.
    Reply(RequestId, Outcome),
    /// Bytes have died; the obligation is durable, or will be with the next commit. What was
    /// [plain](Class::Plain) is freed and not destroyed; all else counts as sensitive.
    Died(Cause, Extent<Addr>, Class),
    /// Bytes have been destroyed: put the receipt with this number into the audit log, then send
    /// [`Event::Recorded`].
    Receipt(u64, Receipt),
    /// From now on nothing is written: why.
    Latched(String),
}

/// A disk. See the module's documentation.
#[derive(Debug)]
pub struct Volume {
    config: Config,
    store: Box<dyn Store>,
    state: State,
    commits: commit::Commits,
    outstanding: outstanding::Outstanding,
    requests: requests::Requests,
    erasing: erasing::Erasing,
    checkpoints: checkpoints::Checkpoints,
    schedule: schedule::Schedule,
    latched: Option<String>,
    watching: Option<watching::Watching>,
    /// The watcher's view of the last stop, until a watcher takes it.
    watch_view: Vec<u8>,
}

impl Volume {
    /// Takes one event that happened at `now`, and appends the commands that follow from it to `out`.
    pub fn apply(&mut self, now: Millis, event: Event, out: &mut Vec<Command>) {
        self.schedule.pass(now);
        match event {
            Event::Request(id, request) => self.arrive(id, request, out),
            Event::Completed(id, result) => self.completed(id, result, out),
            Event::Tick => {}
            Event::Connected => self.connected(1),
            Event::Disconnected => self.connected(-1),
            Event::Attached(attached) => self.attached(attached),
            Event::KeepWatcherOut => self.keep_watcher_out(),
            Event::WatchAnew => self.watch_anew(),
            Event::ShredNow => {
                self.schedule.all_due = true;
                self.erasing.remaining.clear();
            }
            Event::Stop { drain } => {
                self.schedule.stop(drain);
                self.erasing.remaining.clear();
                self.stop_searching();
            }
            Event::Recorded { receipts, head } => self.recorded(receipts, head),
            Event::RecordStuck(reason) => self.record_stuck(reason),
            Event::Failed(error) => self.latch(&error.message, out),
            Event::Hole(extent) => self.hole(extent),
            Event::Space(extent) => self.note_space(extent),
        }
        self.drive(out);
    }

    fn completed(&mut self, id: IoId, result: Result<Performed, ContentError>, out: &mut Vec<Command>) {
        let result = match self.outstanding.end(id) {
            Purpose::Request(request) => return self.request_io_done(request, result, out),
            purpose => (purpose, result.map_err(MediumError::from)),
        };
        match result {
            (Purpose::Request(_), _) => {}
            (Purpose::Commit, Ok(_)) => self.commit_done(out),
            (Purpose::Task(_), Ok(done)) => self.task_done(done.buf),
            (Purpose::Page(page), result) => self.page_done(page, result.map(|done| done.buf), out),
            (Purpose::InvalidateNotes, _) => {}
            // A sync that failed, for whatever reason, may have lost what was written over dead bytes.
            (Purpose::Checkpoint, Err(error))
                if error.kind != MediumErrorKind::NoSpace || self.state.ledger.has_overwritten() =>
            {
                self.latch(&format!("syncing: {error}"), out);
            }
            (Purpose::Checkpoint, result) => self.checkpoint_io_done(result.err(), out),
            (Purpose::Commit, Err(error)) => self.latch(&format!("the journal: {error}"), out),
            (Purpose::Task(part), Err(error)) if error.kind == MediumErrorKind::Remains => {
                self.task_remains(part, &error, out);
            }
            (Purpose::Task(_), Err(error)) => self.task_failed(&error, out),
        }
    }

    /// Does everything that can be done now, besides the requests under way.
    fn drive(&mut self, out: &mut Vec<Command>) {
        if self.is_quiet() {
            self.schedule.nothing_left();
            self.erasing.jobs.nothing_left();
            return;
        }
        if self.latched.is_some() {
            return;
        }
        self.settle(out);
        self.oblige_waiting(out);
        self.drive_watching(out);
        self.leave_dead(out);
        self.drive_closes(out);
        self.drive_forgets(out);
        self.drive_remaining(out);
        self.drive_task(out);
        self.give_receipts(out);
        self.refuse_unrecorded(out);
        self.drive_checkpoints(out);
        self.commit_pending(out);
        self.note_shortage();
    }

    /// Whether there is nothing to do besides the requests under way: the common case.
    fn is_quiet(&self) -> bool {
        self.state.ledger.is_empty()
            && self.state.owed.is_empty()
            && !self.has_forgets()
            && self.erasing.is_quiet()
            && self.requests.is_quiet()
            && !self.has_receipts_to_give()
            && !self.commits.journal.has_pending()
            && self.has_seen_all()
            && self.is_checkpointed()
            && !self.has_jobs()
    }

    /// Where `extent` lies now; none if that part of the map is not in memory.
    #[must_use]
    pub fn place(&self, extent: Extent<Addr>) -> Option<Places> {
        self.store.missing(extent).is_none().then(|| self.store.locate(extent))
    }

    /// Whether the watcher has yet to be shown what request `id` changes. To it the change is still to come, so an
    /// oracle must not hold it against a verdict.
    #[must_use]
    pub fn is_unseen(&self, id: RequestId) -> bool {
        self.requests.is_unseen(id)
    }

    fn io(&mut self, purpose: Purpose, at: impl Into<Places>, op: IoOp, out: &mut Vec<Command>) {
        let id = self.outstanding.begin(purpose);
        out.push(Command::Io(Io { id, at: at.into(), op }));
    }

    /// Refuses request `id`, under way, whose content could not be read or written. A medium that fails at a change latches.
    pub(super) fn request_failed(
        &mut self,
        id: RequestId,
        error: impl Into<ContentError>,
        out: &mut Vec<Command>,
    ) {
        let error = error.into();
        let running = self.requests.running.get_mut(id);
        let (is_read, extent) = (!running.is_ordered && !running.extent.is_empty(), running.extent);
        self.finish(id, Err(refusal(&error)), out);
        if !is_read && !extent.is_empty() {
            self.tell_of_refusal(extent, true);
        }
        if let ContentError::Medium(error) = error
            && !is_read
            && error.kind != MediumErrorKind::NoSpace
        {
            self.latch(&error.message, out);
        }
    }

    /// The medium failed: nothing more is written (invariant 8).
    fn latch(&mut self, reason: &str, out: &mut Vec<Command>) {
        if self.latched.is_some() {
            return;
        }
        self.latched = Some(reason.to_string());
        out.push(Command::Latched(reason.to_string()));
        self.abandon_task();
        self.checkpoints.give_up();
        self.commits.undurable.give_up();
        self.erasing.forgetting.give_up();
        self.invalidate_notes(out);
        for id in self.requests.give_up() {
            self.finish(id, Err(Refusal::Latched(reason.to_string())), out);
        }
        self.settle(out);
    }
}

/// The refusal of a request for which the medium failed.
fn refusal(error: &ContentError) -> Refusal {
    let error = match error {
        ContentError::Unauthentic(error) => return Refusal::Unauthentic(error.to_string()),
        ContentError::Medium(error) => error,
    };
    match error.kind {
        MediumErrorKind::NoSpace => Refusal::NoSpace(error.message.clone()),
        MediumErrorKind::Remains | MediumErrorKind::Io => Refusal::Io(error.message.clone()),
    }
}

/// The refusal of a write that got no place.
fn no_place() -> Refusal {
    Refusal::NoSpace(
        "the disk has no place left for new content: make room on the host, or free blocks of the disk"
            .into(),
    )
}

/// Whether a request of this kind has to be refused once the disk is latched. A flush too: its reply would
/// promise that lost content is durable.
fn needs_medium_writes(op: &Op) -> bool {
    op.is_write() || *op == Op::Flush
}
