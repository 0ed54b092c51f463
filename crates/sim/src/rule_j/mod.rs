//! Rule J, below file systems that journal through jbd2, on trial.
//!
//! - [`guest`] is a file system that journals, as nasty as jbd2 is allowed to be,
//!   in three modes; it writes the journal ([`log`]) that jbd2 writes, crashes,
//!   and is recovered from what lies on the disk ([`recovery`]).
//! - [`judge`] knows what every crash could bring back, and objects when that
//!   is destroyed, or something dead is left, in the journal too.
//! - [`text`] is the two-commit rule by the letter, and readings of it that are
//!   wrong, each of which the model must find ([`known`]).
//! - [`literal`] is all of the decision once more, written from that page alone;
//!   [`both`] lets it and the product see the same events, [`lockstep`] does so
//!   for long.
//! - [`elsewhere`] is the same guest above two disks: rule E, which does not see the
//!   log, and rule J below the log's own [`device`].
//! - [`crate::files`] puts the same guest above a whole volume, on media that remember.
//! - [`wild`] writes whatever may be written to a journal, in every order: the
//!   two versions must agree whatever a guest does.

pub mod both;
pub mod device;
pub mod elsewhere;
pub mod guest;
pub mod judge;
pub mod known;
pub mod literal;
pub mod lockstep;
pub mod log;
pub mod place;
pub mod play;
pub mod recovery;
pub mod rules;
pub mod text;
pub mod trial;
pub mod wild;
