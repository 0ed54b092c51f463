//! The control socket: the calls that a running server answers.
//!
//! A call is one line of JSON; the answer is any number of lines
//! `{"progress": [done, of]}`, and then one line
//! `{"ok": …}`, `{"forgotten": …}` or `{"error": …}`. Documented in `docs/control.md`.

mod answer;
mod call;
mod chains;
mod client;
mod epochs;
mod past;
mod refused;
mod reply;
mod reports;
mod restoring;
mod server;
mod verdict;
mod waiting;
mod wire;

pub use call::{Call, Space, StatusAnswer};
pub use chains::BlocksWeighed;
pub use client::{ask, ask_served, ask_unlocked, is_served};
pub use epochs::{Epochs, EpochsKept};
pub use past::Diff;
pub use refused::Refused;
pub use reply::{Answer, Reply};
pub use reports::{
    BlocksForgotten, Closed, Compacted, DueName, Forgotten, Held, Owed, OwedRange, PurgeWeighed, Purged,
    Released, Shredded, VersionLine, Versions, Weighed,
};
pub use restoring::Restored;
pub use server::{Control, serve};
pub use verdict::{Require, Verdict};
pub use waiting::{Waiting, WaitsFor};
pub(crate) use wire::through_fd;
