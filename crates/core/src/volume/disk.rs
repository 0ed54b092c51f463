//! The disk as it is: where its content lies, what is owed, how far that is durable, and what time it is.
//!
//! Every owner reads it, and changes it through its methods. It knows of no request, erase task or watcher.

use super::checkpoints::Checkpoints;
use super::commit::Commits;
use super::outstanding::Outstanding;
use super::overwriting::Overwriting;
use super::schedule::Schedule;
use super::{Command, Config};
use crate::journal::State;
use crate::store::Store;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Disk {
    pub(super) config: Config,
    pub(super) store: Box<dyn Store>,
    /// What the journal says, with what its next commit will say.
    pub(super) state: State,
    pub(super) commits: Commits,
    /// The writes over dead bytes that no sync covers yet.
    pub(super) overwriting: Overwriting,
    /// The checkpoint under way.
    pub(super) checkpoints: Checkpoints,
    /// The I/O operations under way.
    pub(super) outstanding: Outstanding,
    pub(super) schedule: Schedule,
    /// Why nothing more is written, if the medium has failed.
    pub(super) latched: Option<String>,
}

impl Disk {
    /// The medium failed: nothing more is written (invariant 8 of the [volume](super)).
    pub(super) fn latch(&mut self, reason: &str, out: &mut Vec<Command>) {
        if self.latched.is_some() {
            return;
        }
        self.latched = Some(reason.to_string());
        out.push(Command::Latched(reason.to_string()));
        self.invalidate_notes(out);
    }
}
