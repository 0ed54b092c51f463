//! Epochs of a disk that keeps versions, as people see them: by number, by name, and by time; exports of the past; and
//! the ends of epochs: closing them, and forgetting them by rule.
//!
//! | question | where |
//! | --- | --- |
//! | what a date means when the clock was wrong | `dates` |
//! | which epoch a command means | `at`, `asking` |
//! | where two states differ | `comparing` |
//! | when epochs close and are forgotten | `timer`, `keeper` |
//! | exports of the past | `export` |

mod asking;
mod at;
mod comparing;
mod dates;
mod export;
mod keeper;
mod timer;

pub use asking::{
    Listed, changes, close, first_gap, forget, forget_set, judge, keep_now, list, page_fault, showing_dead,
    unique, versions, weigh,
};
pub use at::{At, FindError, last, range};
pub use comparing::{States, differences};
pub(crate) use dates::kept;
pub use export::{Past, Versioned};
pub(crate) use keeper::note_doubts;
pub use keeper::timers;
pub use timer::Timer;
