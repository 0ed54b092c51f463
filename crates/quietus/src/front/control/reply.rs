//! The answers to calls: each is one report, which is the same over the socket, with `--json` and in this process.

use super::refused::Refused;
use super::{
    BlocksForgotten, BlocksWeighed, Closed, Compacted, Diff, Forgotten, Held, Lived, Owed, PartsForgotten,
    PurgeWeighed, Purged, RangesRead, Released, Restored, Shredded, StatusAnswer, Versions, WearAnswer,
    Weighed,
};
use crate::open_disk::copy::Copied;
use crate::proof::{Checks, Receipt};
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
    ($($report:ident)*) => {
        /// The answer to a call: the report of that name.
        #[derive(Debug, Serialize)]
        #[serde(untagged)]
        #[expect(missing_docs, reason = "the reports have theirs")]
        pub enum Reply {
            $($report(Box<$report>),)*
        }

        $(impl From<$report> for Reply {
            fn from(report: $report) -> Self {
                Self::$report(Box::new(report))
            }
        }

        impl Answer for $report {
            fn of(reply: Reply) -> Result<Self, Refused> {
                match reply {
                    Reply::$report(report) => Ok(*report),
                    _ => Err(concat!("the call is not answered with the report ", stringify!($report)).into()),
                }
            }
        })*
    };
}

replies! {
    BlocksForgotten BlocksWeighed Checks Closed Compacted Copied Diff Forgotten Held Lived Owed PartsForgotten PurgeWeighed
    Purged RangesRead Receipt Released Restored Shredded StatusAnswer Versions WearAnswer Weighed
}
