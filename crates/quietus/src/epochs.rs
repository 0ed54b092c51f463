//! Epochs of a disk that keeps versions, as people see them: by number, by name, and by time; exports of the past; and
//! the ends of epochs: closing them, and forgetting them by rule.

mod asking;
mod at;
mod clock;
mod comparing;
mod dates;
mod export;
mod gate;
mod keeper;
mod names;
mod timer;
mod told;

pub use asking::{
    Listed, close, forget, judge, judge_cells, keep_now, list, page_fault, showing_dead, unique, versions,
    weigh,
};
pub use at::{At, FindError, last, range};
pub use clock::{Clock, Reading, Untrusted};
pub use comparing::{States, differences};
pub use export::{Past, Versioned};
pub use gate::{Closed, Gate};
pub(crate) use keeper::note_doubts;
pub use keeper::timers;
pub(crate) use names::names_at;
pub use names::{Confirmed, Doubt, HoldOf, NAMES_FILE, Names, NamesError};
pub use timer::Timer;
pub(crate) use told::Told;
