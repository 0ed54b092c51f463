//! The rules of inference below file systems with block exclusivity, on trial.
//!
//! - [`mod@reference`]: the same rules once more, written from the decision alone;
//!   [`crate::differential`] lets both see the same events and compares all that shows.
//! - [`fuzz`] writes whatever can be written, in every order: two versions of
//!   the rules must agree whatever a guest does.
//! - [`guest`] is a file system that knows what it owns, writes its blocks back
//!   in the worst order that it may, crashes and is mended.
//! - [`fat`] is another file system below the same rules, whose map is final and
//!   holds its pointers.
//! - [`crate::files`] has both as a driver takes them, and who owns what in them; it puts them above a
//!   whole volume, on media that remember, perhaps above a [`crate::cache`].
//! - [`search`] enumerates all that can be written, takes longer histories by chance, and cuts failures down.

pub(crate) mod fat;
pub(crate) mod fuzz;
pub(crate) mod guest;
pub mod known;
pub(crate) mod reference;
pub(crate) mod search;
pub(crate) mod toy;
pub mod trial;
pub(crate) mod wide;

use crate::differential::Differential;
use quietus_core::units::Millis;
use quietus_detect::format::Format;
use quietus_detect::options::Options;
use quietus_detect::rule_e::RuleE;
use reference::Reference;

/// Both versions of rule E begin to watch `disk`. `seen_from_start` as for
/// [`RuleE::attach`].
pub(crate) fn differential<F: Format + Copy + 'static, const BYTES: usize>(
    format: F,
    disk: Vec<[u8; BYTES]>,
    options: Options,
    now: Millis,
    seen_from_start: bool,
) -> Differential<BYTES> {
    let rule = Box::new(RuleE::attach(Box::new(format), options, now, seen_from_start));
    let reference = Box::new(Reference::attach(format, options, now, seen_from_start));
    Differential::new(rule, reference, disk, now)
}
