//! The answers to calls: each is one report, which is the same over the socket, with `--json` and in this process.

use super::refused::Refused;
use super::{
    BlocksForgotten, BlocksWeighed, Checks, Closed, Compacted, Diff, Forgotten, Held, Owed, PurgeWeighed,
    Purged, Released, Restored, Shredded, StatusAnswer, Versions, Weighed,
};
use crate::copy::Copied;
use crate::proof::Receipt;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A report that answers a call.
pub trait Answer: DeserializeOwned + Into<Reply> {
    /// The report in a reply.
    ///
    /// # Errors
    /// The reply is another report.
    fn of(reply: Reply) -> Result<Self, Refused>;
}

macro_rules! replies {
    ($($name:ident: $report:ty,)*) => {
        /// The answer to a call.
        #[derive(Debug, Serialize)]
        #[serde(untagged)]
        #[expect(missing_docs, reason = "each is the report of that name")]
        pub enum Reply {
            $($name(Box<$report>),)*
        }

        $(impl From<$report> for Reply {
            fn from(report: $report) -> Self {
                Self::$name(Box::new(report))
            }
        }

        impl Answer for $report {
            fn of(reply: Reply) -> Result<Self, Refused> {
                match reply {
                    Reply::$name(report) => Ok(*report),
                    _ => Err(concat!("the answer is not what was asked for: ", stringify!($name)).into()),
                }
            }
        })*
    };
}

replies! {
    BlocksForgotten: BlocksForgotten,
    BlocksWeighed: BlocksWeighed,
    Checks: Checks,
    Closed: Closed,
    Compacted: Compacted,
    Copied: Copied,
    Diff: Diff,
    Forgotten: Forgotten,
    Held: Held,
    Owed: Owed,
    Proof: Receipt,
    PurgeWeighed: PurgeWeighed,
    Purged: Purged,
    Released: Released,
    Restored: Restored,
    Shredded: Shredded,
    Status: StatusAnswer,
    Versions: Versions,
    Weighed: Weighed,
}
