//! The volume: one disk, as a state machine without input, output or a clock.
//!
//! [`Volume::apply`] takes [`Event`]s in order of arrival, and answers with [`Command`]s. It routes: the [`disk`] as it is,
//! [`erasing`], the [`watching`] side and the [`requests`] each have a state of their own, and are handed the others.
//!
//! Invariants:
//! 1. Every death is durable in the journal before the request that caused it
//!    is replied to, and before any erase task on it begins.
//! 2. A dead byte reads as zeros from the moment of its death.
//! 3. A write to a byte with an obligation waits until the obligation is completed
//!    and that is durable, or it gets another place ([`leaving`](disk::leaving)), or it completes the
//!    obligation itself ([`overwriting`](disk::overwriting)): no erase task can destroy what was written
//!    after a death.
//! 4. A pass is durable before the next begins, and the last one before the
//!    receipt ([`crate::erase`]).
//! 5. Content under a conservative overwrite is durable in the journal before
//!    the first pass over it, and its copy there is destroyed like any dead
//!    content before the receipt.
//! 6. Requests that change overlapping bytes are carried out in order of
//!    arrival.
//! 7. A change belongs to the epoch that took changes when it arrived ([`epochs`](requests::past::epochs)).
//! 8. After the first failure of the medium nothing more is written. What a medium will not erase is no failure
//!    ([`remaining`](disk::remaining)).

mod bytes;
mod disk;
mod driving;
mod erasing;
mod io;
mod obstacle;
mod open;
mod origin;
mod query;
mod requests;
#[cfg(test)]
mod tests;
mod watching;

pub use disk::LATCH_REMEDY;
pub use io::{Io, IoId, IoOp, Performed};
pub use open::{Checkpoint, OpenError, Opening};
pub use query::{OwedStatus, RequestsStatus, Status, WaitingBytes};

use crate::base::units::{Addr, Extent, Millis};
use crate::erase::policy::Policy;
use crate::media::medium::{MediumError, MediumErrorKind};
use crate::media::places::Places;
use crate::media::sealing::ContentError;
use crate::owed::ledger::Cause;
pub use crate::owed::receipts::{Done, LogHead, Receipt};
use crate::request::{Op, Outcome, Refusal, Request, RequestId};
use crate::watch::{Attached, Class, Observation};
use disk::Disk;
use disk::outstanding::Purpose;
use origin::Origin;
use requests::Requests;

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
    /// Content that is overwritten dies as well, where content dies with its keys: each overwrite puts its blocks under fresh keys.
    pub overwrites_kill: bool,
    /// Refuse requests that would change the disk, and begin no erase task.
    pub read_only: bool,
    /// Longest single write of an erase task, in bytes; bounds the wait of a request behind it.
    pub run_bytes_max: u64,
    /// Most bytes that share the syncs of an erase task.
    pub batch_bytes_max: u64,
    /// Memory for what the store knows of its content, in bytes: as much as it keeps in memory of an index. What needs more of that
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
            overwrites_kill: false,
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
    /// From now on nothing is written: why, without the [remedy](LATCH_REMEDY).
    Latched(String),
}

/// A disk. See the module's documentation.
#[derive(Debug)]
pub struct Volume {
    disk: disk::Disk,
    requests: Requests,
    erasing: erasing::Erasing,
    watching: watching::Watching,
}

impl Disk {
    fn io(&mut self, purpose: Purpose, at: impl Into<Places>, op: IoOp, out: &mut Vec<Command>) {
        let (id, at): (_, Places) = (self.outstanding.begin(purpose), at.into());
        if let IoOp::Write { data, .. } = &op {
            assert!(data.len() as u64 == at.bytes(), "a write has as many bytes as its places");
        }
        out.push(Command::Io(Io { id, at, op }));
    }
}

impl Volume {
    /// Takes one event that happened at `now`, and appends the commands that follow from it to `out`.
    pub fn apply(&mut self, now: Millis, event: Event, out: &mut Vec<Command>) {
        self.disk.schedule.pass(now);
        match event {
            Event::Request(id, request) => {
                self.on_requests(out, |requests, others| requests.arrive(others, Origin::Front(id), request))
            }
            Event::Completed(id, result) => self.completed(id, result, out),
            Event::Tick => {}
            Event::Connected => self.watching.connected(&self.disk, 1),
            Event::Disconnected => self.watching.connected(&self.disk, -1),
            Event::Attached(attached) => self.watching.attached(&self.disk, attached),
            Event::KeepWatcherOut => self.watching.keep_watcher_out(),
            Event::WatchAnew => self.watching.watch_anew(),
            Event::ShredNow => {
                self.disk.schedule.all_due = true;
                self.disk.remaining.clear();
                self.disk.end_rests();
                self.erasing.jobs.not_before = Millis(0);
            }
            Event::Stop { drain } => {
                self.disk.schedule.stop(drain);
                self.disk.remaining.clear();
                self.watching.tell_watcher(&self.disk, Observation::Stopping);
            }
            Event::Recorded { receipts, head } => self.disk.recorded(receipts, head),
            Event::RecordStuck(reason) => self.disk.record_stuck(reason),
            Event::Failed(error) => self.disk.latch(&error.message, out),
            Event::Hole(extent) => self.erasing.hole(&mut self.disk, extent),
            Event::Space(extent) => self.erasing.note_space(&self.disk, extent),
        }
        self.drive(out);
    }

    fn completed(&mut self, id: IoId, result: Result<Performed, ContentError>, out: &mut Vec<Command>) {
        let purpose = self.disk.outstanding.end(id);
        if let Purpose::Request(request) = purpose {
            return self
                .on_requests(out, |requests, others| requests.request_io_done(others, request, result));
        }
        match (purpose, result.map_err(MediumError::from)) {
            (Purpose::Request(_), _) => {}
            (Purpose::Commit, Ok(_)) => self.commit_done(out),
            (Purpose::Task(_), Ok(done)) => {
                self.erasing.task_done(&mut self.disk, &mut self.requests, done.buf);
                if let Some(why) = self.disk.why_purges_stopped() {
                    self.disk.latch(&why, out);
                }
            }
            (Purpose::Page(page), result) => self.page_done(page, result.map(|done| done.buf), out),
            (Purpose::InvalidateNotes, _) => {}
            // A sync that failed, for whatever reason, may have lost what was written over dead bytes.
            (Purpose::Checkpoint, Err(error))
                if error.kind != MediumErrorKind::NoSpace || self.disk.loses_overwritten() =>
            {
                self.disk.latch(&format!("syncing: {error}"), out);
            }
            (Purpose::Checkpoint, result) => {
                if let Some(ended) = self.disk.checkpoint_io_done(result.err(), out) {
                    self.checkpoint_ended(ended, out);
                }
            }
            (Purpose::Commit, Err(error)) => self.disk.latch(&format!("the journal: {error}"), out),
            (Purpose::Task(part), Err(error)) if error.kind == MediumErrorKind::Remains => {
                self.task_remains(part, &error, out);
            }
            (Purpose::Task(_), Err(error)) => self.task_failed(&error, out),
        }
    }

    /// Does everything that can be done now, besides the requests under way.
    fn drive(&mut self, out: &mut Vec<Command>) {
        if self.disk.latched.is_some() {
            self.give_up(out);
        }
        if self.is_quiet() {
            self.disk.schedule.nothing_left();
            self.erasing.jobs.nothing_left();
            return;
        }
        if self.disk.latched.is_some() {
            return;
        }
        self.on_requests(out, |requests, others| requests.settle(others));
        self.on_requests(out, |requests, others| requests.oblige_waiting(others));
        self.drive_watching(out);
        self.leave_dead(out);
        self.requests.drive_closes(&mut self.disk, out);
        self.on_requests(out, |requests, others| requests.drive_forgets(others));
        self.drive_remaining(out);
        self.drive_task(out);
        self.disk.give_receipts(out);
        self.refuse_unrecorded(out);
        self.disk.drive_checkpoints(out);
        self.disk.commit_pending(out);
        self.erasing.note_shortage(&mut self.disk);
    }

    /// Whether there is nothing to do besides the requests under way: the common case.
    fn is_quiet(&self) -> bool {
        self.disk.state.ledger.is_empty()
            && self.disk.state.owed.is_empty()
            && !self.erasing.has_forgets(&self.disk)
            && self.erasing.is_quiet()
            && self.requests.is_quiet()
            && !self.disk.has_receipts_to_give()
            && !self.disk.commits.journal.has_pending()
            && self.watching.has_seen_all()
            && self.disk.is_checkpointed()
            && !self.disk.has_jobs()
    }

    /// Where `extent` lies now; `None` if that part of the map is not in memory.
    #[must_use]
    pub fn place(&self, extent: Extent<Addr>) -> Option<Places> {
        self.disk.store.missing(extent).is_none().then(|| self.disk.store.locate(extent))
    }

    /// Whether the watcher has yet to be shown what request `id` changes. To it the change is still to come, so an
    /// oracle must not hold it against a verdict.
    #[must_use]
    pub fn is_unseen(&self, id: RequestId) -> bool {
        self.requests.is_unseen(Origin::Front(id))
    }

    /// Gives up, because the disk is latched: what waits for more than an I/O operation under way never gets it.
    fn give_up(&mut self, out: &mut Vec<Command>) {
        self.erasing.abandon_task();
        self.disk.checkpoints.give_up();
        self.disk.commits.undurable.give_up();
        self.erasing.forgetting.checks.clear();
        let reason = self.disk.latched.clone().unwrap_or_default();
        for id in self.requests.give_up() {
            let latched = Err(Refusal::Latched(reason.clone()));
            self.on_requests(out, |requests, others| requests.finish(others, id, latched));
        }
        self.on_requests(out, |requests, others| requests.settle(others));
        assert!(self.requests.waiting.is_empty(), "no request waits for a disk that is latched");
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
        MediumErrorKind::Busy | MediumErrorKind::Remains | MediumErrorKind::Io => {
            Refusal::Io(error.message.clone())
        }
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
