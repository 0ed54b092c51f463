//! What a front end sees of a disk that is being served.

use quietus_core::request::{Liveness, Outcome, Refusal, Request};
use quietus_core::units::{Addr, Extent};
use std::sync::{Arc, mpsc};

/// Most runs of liveness asked for at once.
const RUNS_MAX: usize = 1024;

/// A disk, as a front end sees it.
///
/// Requests are handed over in order of arrival; those whose ranges do not
/// overlap may be carried out in any order.
pub trait Export: Send + Sync {
    /// What to tell a client of it.
    fn info(&self) -> ExportInfo;

    /// Its size in bytes, which never changes.
    fn size(&self) -> u64;

    /// A client begins to send requests: its process, if that is on this host. Returns the
    /// number by which [`Export::disconnected`] knows it.
    fn connected(&self, _process: Option<u32>) -> u64 {
        0
    }

    /// The client of that number is gone, and sends no more.
    fn disconnected(&self, _client: u64) {}

    /// Takes `request`. Its outcome goes to `reply`, from this thread before
    /// this returns, or from another thread at any time.
    ///
    /// `request.extent` may come from a client unchecked in its relation to
    /// the size of the disk; the outcome is then [`Refusal::Invalid`].
    ///
    /// [`Refusal::Invalid`]: quietus_core::request::Refusal::Invalid
    fn submit(&self, request: Request, reply: ReplyTo);

    /// What the disk knows of the bytes of `extent` (which lies within it),
    /// from its start on: lengths that follow one another, each of another
    /// liveness than the one before. At most `runs_max` of them, so that they
    /// may end before the extent does; at least one.
    fn liveness(&self, extent: Extent<Addr>, runs_max: usize) -> Vec<(u64, Liveness)>;
}

/// What a client is told of an [`Export`].
#[derive(Clone, Debug)]
pub struct ExportInfo {
    /// Its name; not empty.
    pub name: String,
    /// One line for people.
    pub description: String,
    /// Bytes.
    pub size: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Several connections may be used at once: what one has flushed, all see.
    /// Not so under a detector that needs one ordered channel.
    pub multi_connection: bool,
}

/// Where the outcome of one request goes.
pub struct ReplyTo {
    /// Who takes it.
    pub sink: Arc<dyn Sink>,
    /// Which request it was, in the terms of the sink.
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
    /// The request `cookie` has ended so. Must not block for long on anything
    /// but the client's socket, and never panics.
    fn reply(&self, cookie: u64, outcome: Outcome);
}

/// Carries `request` out on `export`, and waits for the outcome.
///
/// # Errors
/// The refusal; [`Refusal::ShuttingDown`] if `export` drops the request.
pub fn carry_out(export: &dyn Export, request: Request) -> Outcome {
    struct Channel(mpsc::Sender<Outcome>);
    impl Sink for Channel {
        fn reply(&self, _: u64, outcome: Outcome) {
            // The one who asked waits below.
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
