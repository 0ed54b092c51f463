//! When a death is certain: by the order of writes ([`rule_e`]), by a journal ([`rule_j`]), with what both need ([`rule`]); which content is
//! sensitive ([`marks`]); what a file system that was made smaller gave up ([`tail`]).

pub(crate) mod marks;
pub mod options;
pub mod rule;
pub mod rule_e;
pub mod rule_j;
pub(crate) mod tail;
