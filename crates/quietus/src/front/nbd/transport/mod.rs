//! How bytes come and go: from which addresses, through which sockets, under TLS or plain.

pub(super) mod channel;
pub(super) mod listener;
pub(super) mod socket;
pub(super) mod stdio;
pub(super) mod tls;
