//! Where requests come from.

use crate::request::{Outcome, RequestId};
use crate::volume::Command;
use std::hash::{Hash, Hasher};

/// The origin of a request, and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Origin {
    /// A front end, which gets a reply.
    Front(RequestId),
    /// The volume itself, for the watcher.
    Own(u64),
}

/// By the number alone, in one step: tables of requests are looked into several times a request. The volume's own are few.
impl Hash for Origin {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let (Self::Front(RequestId(number)) | Self::Own(number)) = self;
        number.hash(state);
    }
}

impl Origin {
    /// Tells the front end, if the request is one of its own, how it ended.
    pub(super) fn reply(self, outcome: Outcome, out: &mut Vec<Command>) {
        if let Self::Front(id) = self {
            out.push(Command::Reply(id, outcome));
        }
    }
}
