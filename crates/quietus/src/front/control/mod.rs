//! The control socket: the calls that a running server answers.
//!
//! A call is one line of JSON; the answer is any number of lines
//! `{"progress": [done, of]}`, and then one line
//! `{"ok": …}`, `{"forgotten": …}` or `{"error": …}`. Documented in `docs/control.md`.
//!
//! | question | where |
//! | --- | --- |
//! | the calls, and one type for each answer (decision 36) | `call`, `reply`, `answer`, `reports` |
//! | the socket: who listens, who asks, the bytes | `socket` |
//! | whether all that was deleted is gone, in one answer; `--require` | `verdict` |
//! | what a forget waits for | `waiting`, `chains`, `parts` |
//! | states of the past, where they differ, and which epochs change a range | `past`, `lives` |
//! | how an epoch becomes the current state | `restoring` |

mod answer;
mod call;
mod chains;
mod epochs;
mod lives;
mod parts;
mod past;
mod refused;
mod reply;
mod reports;
mod restoring;
mod socket;
mod verdict;
mod waiting;
mod wear;

pub use crate::front::control::socket::client::{Asked, ask, ask_served, ask_unlocked, is_served};
pub use crate::front::control::socket::server::{Control, serve};
pub(crate) use crate::front::control::socket::wire::through_fd;
pub use call::{Call, Space, StatusAnswer};
pub use chains::BlocksWeighed;
pub use epochs::{Epochs, EpochsKept};
pub use lives::{Lived, LivedEpoch, LivesAt};
pub use past::{Diff, RangesRead};
pub use refused::Refused;
pub use reply::{Answer, Reply};
pub use reports::{
    BlocksForgotten, Closed, Compacted, DueName, Forgotten, Held, Owed, OwedRange, PartsForgotten,
    PurgeWeighed, Purged, Released, Shredded, VersionLine, Versions, Weighed,
};
pub use restoring::Restored;
pub use verdict::{Require, Verdict};
pub use waiting::{Waiting, WaitsFor};
pub use wear::WearAnswer;
