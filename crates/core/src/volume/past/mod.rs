//! The disk's past: [`epochs`] that close, what is [forgotten](forgetting) of them, and how states [differ](comparing).

pub(super) mod comparing;
pub(super) mod epochs;
pub(super) mod forgetting;
