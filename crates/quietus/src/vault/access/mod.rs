//! Who has a vault open, and how the others are served.

pub(super) mod ahead;
pub(super) mod client;
mod job;
pub(super) mod owner;
pub(super) mod request;
pub(super) mod wire;
