//! The journal as the rule sees it: the blocks of its log, the commits that lie there, and the copies of metadata that these hold.

pub(super) mod commits;
pub(super) mod copies;
pub(super) mod log;
pub(super) mod parts;
pub(super) mod reads;
