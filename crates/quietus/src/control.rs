//! The control socket: what a running server is asked, and answers.
//!
//! A call is one line of JSON; the answer is any number of lines
//! `{"progress": [done, of]}`, and then one line
//! `{"ok": …}` or `{"error": …}`. Documented in `docs/control.md`.

mod waiting;
mod wire;

pub use waiting::{Waiting, WaitsFor};

use crate::attached::Finding;
use crate::audit_log::Checked;
use crate::disk::{Access, DiskDir, DiskErrorKind, DiskToml, Size};
use crate::engine::{Engine, RecordStatus, StartError};
use crate::export::{Export, ReplyTo, Sink};
use crate::host::{self, DiskGuarantees};
use crate::offline;
use crate::proof;
use quietus_core::ledger::Due;
use quietus_core::request::{Op, Outcome, Request};
use quietus_core::units::Extent;
use quietus_core::volume::{OpenError, Status};
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

/// Most calls answered at once.
const CALLS_MAX: usize = 32;
/// Sizes that one answer lists.
const SIZES_MAX: usize = 100;
/// How often the size of an overlay is noted.
const SIZES_EVERY: Duration = Duration::from_secs(60);
/// How long no call is accepted after accepting failed.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);
/// Obligations that one answer lists; more are counted.
const OBLIGATIONS_MAX: usize = 1000;

/// What may be asked.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "call", deny_unknown_fields)]
pub enum Call {
    /// What the disk knows of itself.
    Status,
    /// What is owed.
    Deaths,
    /// Destroy everything queued now; answered when that is done.
    Shred,
    /// These bytes (first, length) are dead; or, with `scour`, what lies below
    /// their content is.
    Purge {
        /// Which.
        ranges: Vec<(u64, u64)>,
        /// Keep the content.
        scour: bool,
    },
    /// Make the medium of an overlay as small as it can be; answered when that is
    /// done.
    Compact,
    /// Copy what is live at one instant to the empty file that comes with the call.
    Export,
    /// Check every format.
    Verify,
    /// Read the medium, and sign what is found.
    Prove,
}

/// The answer to [`Call::Status`].
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct StatusAnswer {
    /// The disk's name.
    pub name: String,
    /// Its identity.
    pub disk: String,
    /// Where its content is.
    pub medium: String,
    /// Whether a server runs it.
    pub served: bool,
    /// Whether it is only read.
    pub read_only: bool,
    /// How long no request comes before it destroys.
    pub idle_after_ms: u64,
    /// How long it waits at most.
    pub deadline_ms: u64,
    /// What was deleted and is not destroyed yet.
    pub waiting: Vec<Waiting>,
    /// What it knows.
    #[serde(flatten)]
    pub status: Status,
    /// How guests are attached, if deaths are inferred.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attached: Option<Finding>,
    /// The audit log.
    pub record: RecordStatus,
    /// Of an overlay.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<Space>,
    /// What the medium and the journal can and cannot guarantee.
    pub guarantees: DiskGuarantees,
}

/// How large an overlay is.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Space {
    /// Its base.
    pub base: String,
    /// Now.
    #[serde(flatten)]
    pub now: Size,
    /// Before, the oldest first.
    pub before: Vec<Size>,
}

/// What comes before the answer.
pub enum Meanwhile {
    /// So much is done, of so much.
    Progress(u64, u64),
}

/// A disk that is open in this process.
pub struct Open {
    /// Its directory.
    pub dir: DiskDir,
    /// What runs it.
    pub engine: Arc<Engine>,
    /// Whether others reach it.
    pub served: bool,
}

impl Open {
    /// Answers `call`, with which came `file`. `tell` says whether to go on.
    ///
    /// # Errors
    /// Why not, in words.
    pub fn answer(
        &self,
        call: &Call,
        file: Option<&File>,
        tell: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Value, String> {
        let value = |it: Result<Value, serde_json::Error>| it.map_err(|error| error.to_string());
        match call {
            Call::Status => value(serde_json::to_value(self.status())),
            Call::Deaths => Ok(self.deaths()),
            Call::Shred => self.shred(tell),
            Call::Purge { ranges, scour } => self.purge(ranges, *scour),
            Call::Compact => self.compact(tell),
            Call::Export => {
                let file = file.ok_or("no file came with the call")?;
                let step = &mut |done, of| tell(Meanwhile::Progress(done, of));
                let copied = offline::copy(&self.engine, file, step).map_err(|error| error.to_string())?;
                value(serde_json::to_value(copied))
            }
            Call::Verify => Ok(self.verify()),
            Call::Prove => {
                let step = |done, of| tell(Meanwhile::Progress(done, of));
                let guarantees = value(serde_json::to_value(self.guarantees()))?;
                let receipt = proof::prove(&self.engine, &self.dir, guarantees, step);
                value(serde_json::to_value(receipt.map_err(|error| error.to_string())?))
            }
        }
    }

    fn guarantees(&self) -> DiskGuarantees {
        guarantees(self.dir.path(), self.dir.toml())
    }

    fn status(&self) -> StatusAnswer {
        // What is wrong is why the disk is latched from then on.
        let _ = self.engine.check_media();
        let ((status, waiting), config) = (waiting::standing(&self.engine), self.engine.config());
        StatusAnswer {
            name: self.dir.name(),
            disk: self.dir.toml().uuid.to_string(),
            medium: self.dir.medium_path().display().to_string(),
            served: self.served,
            read_only: config.read_only,
            idle_after_ms: config.idle_after_ms,
            deadline_ms: config.deadline_ms,
            waiting,
            status,
            attached: self.attached(),
            record: self.engine.record_status(),
            space: self.space(),
            guarantees: self.guarantees(),
        }
    }

    /// As it is now.
    fn attached(&self) -> Option<Finding> {
        self.engine.look_at_clients();
        self.engine.attachment()
    }

    fn space(&self) -> Option<Space> {
        let base = self.dir.base()?.path().display().to_string();
        Some(Space { base, now: self.size()?, before: self.dir.sizes(SIZES_MAX) })
    }

    fn size(&self) -> Option<Size> {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let live_bytes = self.engine.status().live_bytes;
        Some(Size { time_ms: since.as_millis() as u64, host_bytes: self.dir.host_bytes()?, live_bytes })
    }

    fn note_size(&self) {
        if let Some(size) = self.size()
            && let Err(error) = self.dir.note_size(size)
        {
            tracing::warn!(%error, "the size was not noted");
        }
    }

    fn deaths(&self) -> Value {
        let (obligations, more) = self.engine.obligations(OBLIGATIONS_MAX);
        let list = obligations.iter().map(|(extent, it)| {
            let due = match it.due {
                Due::Shred { .. } => "shred",
                Due::Scour => "scour",
                Due::Suspicious => "suspicious",
            };
            json!({ "start": extent.start.0, "len": extent.len, "due": due, "cause": it.cause })
        });
        json!({ "owed": list.collect::<Vec<_>>(), "more": more })
    }

    fn shred(&self, tell: &mut dyn FnMut(Meanwhile) -> bool) -> Result<Value, String> {
        let owed = |status: &Status| status.queued_bytes + status.scour_bytes;
        let before = self.engine.status();
        let total = owed(&before).max(1);
        self.engine.shred_now();
        let drained = self.engine.wait_until_destroyed(|status| {
            tell(Meanwhile::Progress(total.saturating_sub(owed(status)), total))
        });
        let (after, waiting) = waiting::standing(&self.engine);
        if let Some(reason) = after.latched {
            return Err(format!("the disk is read-only: {reason}"));
        }
        let destroyed = after.counters.destroyed_bytes - before.counters.destroyed_bytes;
        let scoured = after.counters.scoured_bytes - before.counters.scoured_bytes;
        Ok(json!({
            "done": drained, "destroyed_bytes": destroyed, "scoured_bytes": scoured, "waiting": waiting,
        }))
    }

    fn compact(&self, tell: &mut dyn FnMut(Meanwhile) -> bool) -> Result<Value, String> {
        let medium_bytes = |status: &Status| status.overlay.as_ref().map(|it| it.medium_bytes);
        let before = self.engine.status();
        let Some(bytes_before) = medium_bytes(&before) else {
            return Err(format!("{} is no overlay: there is nothing to pack", self.dir.name()));
        };
        let total = untidy_bytes(&before);
        self.engine.shred_now();
        let done = self.engine.wait_until_tidy(|status| {
            let left = untidy_bytes(status);
            tell(Meanwhile::Progress(total.saturating_sub(left), total.max(left)))
        });
        let after = self.engine.status();
        let bytes_after = medium_bytes(&after).unwrap_or(bytes_before);
        match after.latched {
            Some(reason) => Err(format!("the disk is read-only: {reason}")),
            None => Ok(json!({ "done": done, "bytes_before": bytes_before, "bytes_after": bytes_after })),
        }
    }

    fn purge(&self, ranges: &[(u64, u64)], scour: bool) -> Result<Value, String> {
        let before = self.engine.status().counters;
        for (start, len) in ranges {
            let extent = Extent::within(*start, *len, self.engine.info().size)
                .ok_or_else(|| format!("{start}+{len} is not within the disk"))?;
            let op = if scour { Op::Scour } else { Op::Purge };
            let outcome = submit(&*self.engine, Request { op, extent, fua: true });
            outcome.map_err(|refusal| refusal.to_string())?;
        }
        let after = self.engine.status().counters;
        let died = |it: quietus_core::ledger::Counters| it.dead_bytes.iter().sum::<u64>();
        Ok(json!({ "ranges": ranges.len(), "newly_dead_bytes": died(after) - died(before) }))
    }

    /// In words: what the audit log is like, or what is wrong with it.
    fn verify_record(&self) -> Result<String, String> {
        self.engine.recorder().flush()?;
        let Checked { first, head, files } = self.engine.check_record().map_err(|error| error.to_string())?;
        let from = if first > 0 { format!(" from line {first} on") } else { String::new() };
        Ok(format!("{} lines, chained{from}, in {files} files; ends where the journal says", head.lines))
    }

    /// The journal, the map and the base were checked when the disk was opened,
    /// `disk.toml` before.
    fn verify(&self) -> Value {
        let media = self.engine.check_media().map_err(|error| error.to_string());
        let latched = self.engine.status().latched;
        let whole = || Ok("whole".to_string());
        let mut checks = vec![
            ("disk.toml", whole()),
            ("journal", whole()),
            ("key", self.dir.key().map(|_| "whole".to_string()).map_err(|error| error.to_string())),
            ("audit.jsonl", self.verify_record()),
            ("medium", latched.map_or_else(|| media.map(|()| "no failure".to_string()), Err)),
        ];
        if self.dir.base().is_some() {
            let compared = if self.dir.is_stamped() { "as at the last clean stop" } else { "consistent" };
            checks.extend([("map", Ok(compared.to_string())), ("base", Ok("what it was".to_string()))]);
        }
        let ok = checks.iter().all(|(_, result)| result.is_ok());
        let checks: Vec<_> = checks
            .into_iter()
            .map(|(what, it)| json!({ "what": what, "ok": it.is_ok(), "detail": it.unwrap_or_else(|error| error) }))
            .collect();
        json!({ "ok": ok, "checks": checks })
    }
}

/// What is still to be destroyed or packed.
pub(crate) fn untidy_bytes(status: &Status) -> u64 {
    let overlay = status.overlay.as_ref().map_or(0, |it| it.free_bytes + it.residue_bytes);
    status.queued_bytes + status.scour_bytes + overlay
}

/// What the host guarantees for the disk in `dir`: for its medium, and for its
/// journal, which may hold content in flight.
#[must_use]
pub fn guarantees(dir: &Path, toml: &DiskToml) -> DiskGuarantees {
    host::inspect_disk(&toml.medium_path(dir), &dir.join("journal"))
}

/// Carries `request` out and waits for its end.
pub(crate) fn submit(export: &dyn Export, request: Request) -> Outcome {
    struct Channel(mpsc::Sender<Outcome>);
    impl Sink for Channel {
        fn reply(&self, _: u64, outcome: Outcome) {
            // The one who asked waits below.
            let _ = self.0.send(outcome);
        }
    }
    let (sender, outcome) = mpsc::channel();
    export.submit(request, ReplyTo { sink: Arc::new(Channel(sender)), cookie: 0 });
    outcome.recv().unwrap_or(Err(quietus_core::request::Refusal::ShuttingDown))
}

/// Opens the disk at `path` in this process. With `look_only` nothing is
/// written, unless a crash left something to be put right.
///
/// # Errors
/// [`StartError`].
pub fn open(
    path: &Path,
    look_only: bool,
    tell: &mut dyn FnMut(Meanwhile) -> bool,
) -> Result<Open, StartError> {
    let access = if look_only { Access::ReadOnly } else { Access::ReadWrite };
    match start(path, access, tell) {
        Err(StartError::Open(OpenError::NeedsRecovery)) => start(path, Access::ReadWrite, tell),
        started => started,
    }
}

fn start(path: &Path, access: Access, tell: &mut dyn FnMut(Meanwhile) -> bool) -> Result<Open, StartError> {
    let dir = DiskDir::open_with(path, access, &mut |done, of| tell(Meanwhile::Progress(done, of)))?;
    let engine = Engine::start(&dir.name(), &dir, dir.config()?, None)?;
    Ok(Open { dir, engine: Arc::new(engine), served: false })
}

/// Asks the server of the disk at `path`, or, without one, the disk itself; `file`
/// goes with the call.
///
/// # Errors
/// Why there is no answer, in words.
pub fn ask(
    path: &Path,
    call: &Call,
    file: Option<&File>,
    tell: &mut dyn FnMut(Meanwhile) -> bool,
) -> Result<Value, String> {
    if let Some(stream) = connect(path) {
        return ask_server(&stream, call, file, tell);
    }
    let look_only = !matches!(call, Call::Shred | Call::Compact | Call::Purge { .. });
    let open = match open(path, look_only, tell) {
        // A server may have started meanwhile.
        Err(StartError::Disk(error)) if matches!(error.kind, DiskErrorKind::Locked(_)) => {
            let stream = connect(path).ok_or_else(|| error.to_string())?;
            return ask_server(&stream, call, file, tell);
        }
        other => other.map_err(|error| error.to_string())?,
    };
    let answer = open.answer(call, file, tell);
    close(&open, matches!(call, Call::Shred | Call::Compact), |_| true);
    answer
}

/// Stops a disk that was opened in this process; with `drain` what is queued is
/// destroyed first, as long as `step` says so.
pub fn close(open: &Open, drain: bool, step: impl FnMut(&Status) -> bool) {
    let stopped = open.engine.stop(drain, step);
    let Some(checkpoint) = stopped.filter(|_| !open.dir.is_read_only()) else { return };
    if let Err(error) = open.dir.save_view(&checkpoint) {
        tracing::warn!(%error, "the checkpoint was not written; the next start takes longer");
    }
    if let Err(error) = open.dir.stamp() {
        tracing::warn!(%error, "the next start cannot check whether the map was changed meanwhile");
    }
}

/// The path of the socket in the disk directory, short however long that is.
fn through_fd<T>(path: &Path, with: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
    let dir = std::fs::File::open(path)?;
    with(Path::new(&format!("/proc/self/fd/{}/control.sock", dir.as_raw_fd())))
}

fn connect(path: &Path) -> Option<UnixStream> {
    through_fd(path, |socket| UnixStream::connect(socket)).ok()
}

fn ask_server(
    stream: &UnixStream,
    call: &Call,
    file: Option<&File>,
    tell: &mut dyn FnMut(Meanwhile) -> bool,
) -> Result<Value, String> {
    let failed = |error: io::Error| format!("the server does not answer: {error}");
    let text = serde_json::to_string(call).map_err(|error| error.to_string())?;
    wire::send(stream, &text, file).map_err(failed)?;
    for line in BufReader::new(stream).lines() {
        let line: Answer =
            serde_json::from_str(&line.map_err(failed)?).map_err(|error| failed(error.into()))?;
        match line {
            Answer::Ok(value) => return Ok(value),
            Answer::Error(error) => return Err(error),
            Answer::Progress(done, of) if tell(Meanwhile::Progress(done, of)) => {}
            Answer::Progress(..) => return Err("interrupted".into()),
        }
    }
    Err("the server went away".into())
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Answer {
    Progress(u64, u64),
    Ok(Value),
    Error(String),
}

/// The control socket of a disk; it goes when this is dropped.
pub struct Control {
    /// Written to when it is to end.
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl Drop for Control {
    fn drop(&mut self) {
        // Eight bytes always fit into the counter.
        let _ = rustix::io::write(&*self.wake, &1_u64.to_ne_bytes());
        // If it panicked, it answers nobody either.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Answers calls on the control socket of `open`.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(open: Arc<Open>) -> io::Result<Control> {
    let listener = through_fd(open.dir.path(), |socket| {
        // Others may read the disk too; one of them answers for it.
        if open.dir.is_read_only() && UnixStream::connect(socket).is_ok() {
            return Err(io::ErrorKind::AddrInUse.into());
        }
        // The lock is ours: what is there was left by a crash.
        let _ = std::fs::remove_file(socket);
        UnixListener::bind(socket)
    })?;
    listener.set_nonblocking(true)?;
    let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
    let ends = Arc::clone(&wake);
    let thread = std::thread::Builder::new().name("control".into());
    let thread = thread.spawn(move || {
        answer_calls(&listener, &open, &ends);
        let _ = std::fs::remove_file(open.dir.path().join("control.sock"));
    })?;
    Ok(Control { wake, thread: Some(thread) })
}

/// Answers until `ends` is readable. Where there is nothing to note now and then, only
/// a call wakes this thread.
fn answer_calls(listener: &UnixListener, open: &Arc<Open>, ends: &OwnedFd) {
    let calls = Arc::new(AtomicUsize::new(0));
    let notes_sizes = !open.dir.is_read_only() && open.dir.host_bytes().is_some();
    let mut note_at = Instant::now();
    loop {
        if notes_sizes && note_at <= Instant::now() {
            open.note_size();
            note_at = Instant::now() + SIZES_EVERY;
        }
        let left = note_at.saturating_duration_since(Instant::now());
        let timeout = notes_sizes.then(|| Timespec::try_from(left).expect("a minute is not long"));
        let mut fds = [PollFd::new(ends, PollFlags::IN), PollFd::new(listener, PollFlags::IN)];
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) if !fds[0].revents().is_empty() => return,
            Ok(_) if !fds[1].revents().is_empty() => accept(listener, open, &calls, ends),
            // A signal, or time.
            _ => {}
        }
    }
}

/// Takes the call that has come. While the process has no descriptor left, the call stays, and
/// is not asked for again at once.
fn accept(listener: &UnixListener, open: &Arc<Open>, calls: &Arc<AtomicUsize>, ends: &OwnedFd) {
    match listener.accept() {
        Ok((stream, _)) => take_call(stream, open, calls),
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
        Err(_) => {
            let pause = Timespec::try_from(PAUSE_AFTER_FAILURE).expect("a moment is not long");
            let _ = poll(&mut [PollFd::new(ends, PollFlags::IN)], Some(&pause));
        }
    }
}

fn take_call(stream: UnixStream, open: &Arc<Open>, calls: &Arc<AtomicUsize>) {
    let (open, calls) = (Arc::clone(open), Arc::clone(calls));
    if calls.fetch_add(1, Ordering::Relaxed) >= CALLS_MAX {
        calls.fetch_sub(1, Ordering::Relaxed);
        return;
    }
    let body = move || {
        // Who hangs up early gets no answer.
        let _ = answer_on(&stream, &open);
        calls.fetch_sub(1, Ordering::Relaxed);
    };
    if let Err(error) = std::thread::Builder::new().name("call".into()).spawn(body) {
        tracing::warn!(%error, "no thread for a call");
    }
}

fn answer_on(stream: &UnixStream, open: &Open) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(Duration::from_secs(10)))?;
    stream.set_write_timeout(Some(Duration::from_secs(10)))?;
    let (line, file) = wire::receive(stream)?;
    let say = |answer: &Answer| -> io::Result<()> {
        let text = serde_json::to_string(answer)?;
        writeln!(&*stream, "{text}")
    };
    let mut last = Instant::now();
    let mut tell = |Meanwhile::Progress(done, of): Meanwhile| {
        if last.elapsed() < Duration::from_millis(100) {
            return true;
        }
        last = Instant::now();
        say(&Answer::Progress(done, of)).is_ok()
    };
    let answer = match serde_json::from_str::<Call>(&line) {
        Ok(call) => open.answer(&call, file.as_ref(), &mut tell),
        Err(error) => Err(format!("that is no call: {error}")),
    };
    say(&answer.map_or_else(Answer::Error, Answer::Ok))
}
