//! Rule J, below file systems that journal through jbd2, on trial.
//!
//! - [`guest`] is a file system that journals, as nasty as jbd2 is allowed to be,
//!   in three modes; it writes the journal ([`log`]) that jbd2 writes, crashes,
//!   and is recovered from what lies on the disk ([`recovery`]).
//! - [`judge`] knows what every crash could bring back, and objects when that
//!   is destroyed, or something dead is left, in the journal too.
//! - [`mod@reference`] is the decision once more, written from that page alone; readings of it
//!   that are wrong must be found ([`known`]).
//! - [`rules`] lets it and the product see the same events; below a journal that lies
//!   elsewhere on two disks, the file system's and the log's own [`device`].
//! - [`play`] lets the guest live, perhaps above a [`crate::cache`]; [`trial`] does so for long.
//! - [`crate::files`] puts the same guest above a whole volume, on media that remember.
//! - [`fuzz`] writes whatever may be written to a journal, in every order: the
//!   two versions must agree whatever a guest does.

pub(crate) mod device;
pub(crate) mod fuzz;
pub(crate) mod guest;
pub(crate) mod judge;
pub mod known;
pub(crate) mod log;
pub mod play;
pub(crate) mod recovery;
pub mod reference;
pub(crate) mod rules;
pub mod trial;
