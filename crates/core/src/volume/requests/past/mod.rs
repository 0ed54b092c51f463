//! Requests about the disk's past: [`epochs`] that close and are read, how states [differ](comparing), and what is to be
//! [forgotten](forgetting).

pub(in crate::volume) mod comparing;
pub(in crate::volume) mod epochs;
pub(in crate::volume) mod forgetting;
