//! The rules of inference below file systems with block exclusivity, on trial: two versions of them
//! ([`mod@reference`], and [`crate::rules::differential`] compares them) below guests that know no rules ([`fuzz`]),
//! in all short histories and in long walks ([`search`]), and in those that are kept ([`known`]).
//!
//! [`marks`] judges the classes of content. [`crate::guests::files`] puts the guests that know what they own ([`guest`], [`fat`]) above a whole volume.

pub(crate) mod fat;
pub(crate) mod fuzz;
pub(crate) mod guest;
pub mod known;
pub mod marks;
pub(crate) mod reference;
pub(crate) mod search;
pub(crate) mod toy;
pub mod trial;
pub(crate) mod wide;

use crate::rules::differential::Differential;
use quietus_core::base::units::Millis;
use quietus_detect::rules::options::Options;
use quietus_detect::rules::rule_e::RuleE;
use reference::Reference;
use toy::Toy;

/// Both versions of rule E begin to watch `disk`. `seen_from_start` as for
/// [`RuleE::attach`].
pub(crate) fn differential<const BYTES: usize>(
    toy: Toy,
    disk: Vec<[u8; BYTES]>,
    options: Options,
    now: Millis,
    seen_from_start: bool,
) -> Differential<BYTES> {
    let rule = Box::new(RuleE::attach(Box::new(toy), options, now, seen_from_start));
    let reference = Box::new(Reference::attach(toy, options, now, seen_from_start));
    Differential::new(rule, reference, disk, now)
}
