//! What a front end sees of a disk that is being served.

use quietus_core::request::{Liveness, Outcome, Request};
use quietus_core::units::{Addr, Extent};
use std::sync::Arc;

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
