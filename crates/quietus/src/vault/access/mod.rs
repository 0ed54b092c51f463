//! Who has a vault open, and how the others are served.

pub(super) mod ahead;
pub(super) mod client;
pub(super) mod owner;
