//! The disk as it is: where its content lies, what is owed, how far that is durable, and what time it is.
//!
//! Every owner reads it, and changes it through its methods. It knows of no request, erase task or watcher.

use super::Config;
use super::commit::Commits;
use super::outstanding::Outstanding;
use super::schedule::Schedule;
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
    /// The I/O operations under way.
    pub(super) outstanding: Outstanding,
    pub(super) schedule: Schedule,
    /// Why nothing more is written, if the medium has failed.
    pub(super) latched: Option<String>,
}
