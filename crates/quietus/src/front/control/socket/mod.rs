//! The control socket itself: who listens, who asks, and the bytes between them.

pub(super) mod client;
pub(super) mod server;
pub(super) mod wire;
