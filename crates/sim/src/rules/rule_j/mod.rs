//! Rule J, below file systems that journal through jbd2, on trial: two versions of it ([`rules`], one of which is
//! the [`mod@reference`]; readings of the page that are wrong must be found) below a [`guest`] that journals, as nasty as
//! jbd2 is allowed to be ([`play`]), whose [`judge`] knows what every crash could bring back, and below whatever may be
//! written ([`fuzz`]).
//!
//! [`crate::guests::files`] puts the same guest above a whole volume, on media that remember.

pub(crate) mod device;
pub(crate) mod fuzz;
pub(crate) mod guest;
pub(crate) mod judge;
pub mod known;
pub(crate) mod log;
pub mod play;
pub mod reference;
pub(crate) mod rules;
pub mod setup;
pub mod trial;
