//! What any client sees of the protocol: handshakes, limits, faults, order, the end of a connection.

pub(super) mod ending;
pub(super) mod failing;
pub(super) mod handshake;
pub(super) mod hostile;
pub(super) mod memory;
pub(super) mod order;
pub(super) mod tls;
