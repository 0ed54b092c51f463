//! The control socket: what a running server is asked, and answers.
//!
//! A call is one line of JSON; the answer is any number of lines
//! `{"progress": [done, of]}`, and then one line
//! `{"ok": …}` or `{"error": …}`. Documented in `docs/control.md`.

mod wire;

use crate::audit_log::Checked;
use crate::disk::{DiskDir, DiskErrorKind, DiskToml, Size};
use crate::engine::{Engine, RecordStatus, StartError};
use crate::export::{Export, ReplyTo, Sink};
use crate::host::{self, DiskGuarantees};
use crate::offline;
use crate::proof;
use quietus_core::ledger::Due;
use quietus_core::request::{Op, Outcome, Request};
use quietus_core::units::Extent;
use quietus_core::volume::{OpenError, Status};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant, SystemTime};

/// Most calls answered at once.
const CALLS_MAX: usize = 32;
/// Sizes that one answer lists.
const SIZES_MAX: usize = 100;
/// How often the size of an overlay is noted.
const SIZES_EVERY: Duration = Duration::from_secs(60);
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
    /// What it knows.
    #[serde(flatten)]
    pub status: Status,
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
        StatusAnswer {
            name: self.dir.name(),
            disk: self.dir.toml().uuid.to_string(),
            medium: self.dir.medium_path().display().to_string(),
            served: self.served,
            status: self.engine.status(),
            record: self.engine.record_status(),
            space: self.space(),
            guarantees: self.guarantees(),
        }
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
        let after = self.engine.status();
        if let Some(reason) = after.latched {
            return Err(format!("the disk is read-only: {reason}"));
        }
        let destroyed = after.counters.destroyed_bytes - before.counters.destroyed_bytes;
        let scoured = after.counters.scoured_bytes - before.counters.scoured_bytes;
        Ok(json!({ "done": drained, "destroyed_bytes": destroyed, "scoured_bytes": scoured }))
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
        let latched = self.engine.status().latched;
        let whole = || Ok("whole".to_string());
        let mut checks = vec![
            ("disk.toml", whole()),
            ("journal", whole()),
            ("key", self.dir.key().map(|_| "whole".to_string()).map_err(|error| error.to_string())),
            ("audit.jsonl", self.verify_record()),
            ("medium", latched.map_or(Ok("no failure".to_string()), Err)),
        ];
        if self.dir.base().is_some() {
            checks.extend([("map", whole()), ("base", Ok("what it was".to_string()))]);
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
    let dir = DiskDir::open_with(path, &mut |done, of| tell(Meanwhile::Progress(done, of)))?;
    let mut config = dir.config()?;
    config.read_only = look_only;
    let name = dir.name();
    let engine = match Engine::start(&name, &dir, config.clone(), None) {
        Err(StartError::Open(OpenError::NeedsRecovery)) => {
            config.read_only = false;
            Engine::start(&name, &dir, config, None)?
        }
        other => other?,
    };
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
    let Some(checkpoint) = open.engine.stop(drain, step) else { return };
    if let Err(error) = open.dir.save_view(&checkpoint) {
        tracing::warn!(%error, "the checkpoint was not written; the next start takes longer");
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

/// Answers calls on the control socket of `open` until `stop`.
///
/// # Errors
/// The socket cannot be made.
pub fn serve(open: Arc<Open>, stop: Arc<AtomicBool>) -> io::Result<std::thread::JoinHandle<()>> {
    let listener = through_fd(open.dir.path(), |socket| {
        // The lock is ours: what is there was left by a crash.
        let _ = std::fs::remove_file(socket);
        UnixListener::bind(socket)
    })?;
    listener.set_nonblocking(true)?;
    std::thread::Builder::new().name("control".into()).spawn(move || {
        let calls = Arc::new(AtomicUsize::new(0));
        let mut noted = None;
        while !stop.load(Ordering::Relaxed) {
            if noted.is_none_or(|noted: Instant| noted.elapsed() >= SIZES_EVERY) {
                open.note_size();
                noted = Some(Instant::now());
            }
            match listener.accept() {
                Ok((stream, _)) => take_call(stream, &open, &calls),
                Err(_) => std::thread::sleep(Duration::from_millis(50)),
            }
        }
        let _ = std::fs::remove_file(open.dir.path().join("control.sock"));
    })
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
