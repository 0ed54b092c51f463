//! A served disk, as front ends see it.

use quietus_core::base::buf::Buf;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::request::{Liveness, Outcome, Refusal, Reply, Request};
use std::sync::{Arc, mpsc};

/// Most runs of liveness asked for at once.
const RUNS_MAX: usize = 1024;

/// A disk, as a front end sees it.
///
/// Requests are handed over in order of arrival; those whose ranges do not
/// overlap may be carried out in any order.
pub trait Export: Send + Sync {
    /// Facts to tell a client.
    fn info(&self) -> ExportInfo;

    /// Size of the disk in bytes, which never changes.
    fn size(&self) -> u64 {
        self.info().size
    }

    /// A client begins to send requests: its process, if that is on this host. Returns the
    /// number by which [`Export::disconnected`] knows it.
    fn connected(&self, _process: Option<u32>) -> u64 {
        0
    }

    /// Ends the client of that number, which sends no more.
    fn disconnected(&self, _client: u64) {}

    /// Takes `request`. The outcome goes to `reply`, from this thread before this returns, or from
    /// another thread at any time.
    ///
    /// `request.extent` may come from a client unchecked in its relation to
    /// the size of the disk; the outcome is then [`Refusal::Invalid`].
    fn submit(&self, request: Request, reply: ReplyTo);

    /// The disk as it was at the epoch that a client calls `at`, or why it cannot be had, in words; `None` if the
    /// disk keeps no epochs.
    fn past(&self, _at: &str) -> Option<Result<Arc<dyn Export>, String>> {
        None
    }

    /// The changes since the epoch that a client calls `at`, or why there is no such epoch, in words; nothing if the disk
    /// keeps no epochs.
    fn changes_since(&self, _at: &str) -> Option<Result<Arc<dyn Changes>, String>> {
        None
    }

    /// The first kept epochs, as many as one list has; nothing if the disk keeps no epochs.
    fn epochs(&self) -> Option<Vec<u64>> {
        None
    }

    /// The liveness of the bytes of `extent` (which lies within the disk), from its start on:
    /// lengths that follow one another, each of another liveness than the one before. At most
    /// `runs_max` runs, so that they may end before the extent does; at least one.
    fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)>;
}

/// Where a disk differs from what it was at an epoch.
pub trait Changes: Send + Sync {
    /// Whether the bytes of `extent` (which lies within the disk, and is not empty) differ, from its start on: lengths
    /// that follow one another, each of another answer than the one before. At most `runs_max` runs, so that they may
    /// end before the extent does; at least one.
    ///
    /// # Errors
    /// The epoch was forgotten, or the disk cannot be read.
    fn changed(&self, extent: Extent<Addr>, runs_max: usize) -> Result<Vec<(u64, bool)>, Refusal>;
}

/// Facts about an [`Export`] that a client is told.
#[derive(Clone, Debug)]
pub struct ExportInfo {
    /// Name of the disk; not empty.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Size in bytes.
    pub size: u64,
    /// The disk refuses writes.
    pub read_only: bool,
    /// Several connections may be used at once: all see what one has flushed. False under a
    /// detector that needs one ordered channel.
    pub multi_connection: bool,
}

/// Address for the outcome of one request.
pub struct ReplyTo {
    /// Receiver of the outcome.
    pub sink: Arc<dyn Sink>,
    /// Number of the request, in the terms of the sink.
    pub cookie: u64,
}

impl ReplyTo {
    /// Hands `outcome` over.
    pub fn send(self, outcome: Outcome) {
        self.sink.reply(self.cookie, outcome);
    }
}

/// Takes outcomes. Called from any thread, perhaps from within
/// [`Export::submit`].
pub trait Sink: Send + Sync {
    /// Takes the outcome of request `cookie`. Must not block for long on anything but the client's
    /// socket, and never panics.
    fn reply(&self, cookie: u64, outcome: Outcome);
}

/// Carries `request` out on `export`, and waits for the bytes of the reply.
///
/// # Errors
/// As [`ask`].
pub fn carry_out(export: &dyn Export, request: Request) -> Result<Buf, Refusal> {
    ask(export, request).map(Reply::into_buf)
}

/// Carries `request` out on `export`, and waits for the outcome.
///
/// # Errors
/// The refusal; [`Refusal::ShuttingDown`] if `export` drops the request.
pub fn ask(export: &dyn Export, request: Request) -> Outcome {
    struct Channel(mpsc::Sender<Outcome>);
    impl Sink for Channel {
        fn reply(&self, _: u64, outcome: Outcome) {
            // The caller waits below.
            let _ = self.0.send(outcome);
        }
    }
    let (sender, outcome) = mpsc::channel();
    export.submit(request, ReplyTo { sink: Arc::new(Channel(sender)), cookie: 0 });
    outcome.recv().unwrap_or(Err(Refusal::ShuttingDown))
}

/// The runs of `extent` of one liveness, in order.
pub fn liveness_runs(
    export: &dyn Export,
    extent: Extent<Addr>,
) -> impl Iterator<Item = (Extent<Addr>, Liveness)> + '_ {
    let mut at = extent.start.0;
    let mut known = Vec::new().into_iter();
    std::iter::from_fn(move || {
        let next = known.next().or_else(|| {
            let rest = Extent::between(at, extent.end());
            known = export.liveness(rest, RUNS_MAX).into_iter();
            known.next()
        });
        let (len, liveness) = next.filter(|_| at < extent.end())?;
        at += len;
        Some((Extent::new(at - len, len), liveness))
    })
}
