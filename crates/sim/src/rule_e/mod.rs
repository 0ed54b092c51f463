//! The rules of inference below file systems with block exclusivity, on trial.
//!
//! - [`literal`]: the same rules once more, written from the decision alone;
//!   [`twin`] lets both see the same events and compares all that shows.
//! - [`wild`] writes whatever can be written, in every order: two versions of
//!   the rules must agree whatever a guest does.
//! - [`guest`] is a file system that knows what it owns, writes its blocks back
//!   in the worst order that it may, crashes and is mended; [`judge`] knows
//!   what lies on the medium and objects when something owned is destroyed, or
//!   something dead is left.
//! - [`fat`] is another file system below the same rules, whose map is final and
//!   holds its pointers.
//! - [`whole`] puts the same guest above a whole volume, on media that remember.
//! - [`search`] enumerates all that can happen to either, [`play`] takes
//!   longer histories by chance and cuts failures down.

pub mod fat;
pub mod guest;
pub mod judge;
pub mod known;
pub mod literal;
pub mod play;
pub mod search;
pub mod toy;
pub mod trial;
pub mod twin;
pub mod whole;
pub mod wild;
