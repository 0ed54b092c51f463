//! Where requests come from.

use crate::request::{Outcome, RequestId};
use crate::volume::Command;

/// The origin of a request, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Origin {
    /// A front end, which gets a reply.
    Front(RequestId),
    /// The volume itself, for the watcher.
    Own(u64),
}

impl Origin {
    /// Tells the front end, if the request is one of its own, how it ended.
    pub(super) fn reply(self, outcome: Outcome, out: &mut Vec<Command>) {
        if let Self::Front(id) = self {
            out.push(Command::Reply(id, outcome));
        }
    }
}
