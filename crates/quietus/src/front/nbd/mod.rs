//! The NBD server: disks over a socket, to any client that speaks the protocol.
//!
//! The protocol is that of the NetworkBlockDevice project's `doc/proto.md`, with
//! its extension `NBD_OPT_EXTENDED_HEADERS`. Constants and fields have the names
//! that it gives them.
//!
//! ```text
//! server ── accepts ──► handshake ──► session ── requests ──► Export
//!                          │             │                      │ outcomes, from any thread
//!                        wire::        input                    ▼
//!                        option       (receives)             outbox ── sends ──► channel
//! ```
//!
//! 1. The stream stays in step: every byte that a client announces is taken,
//!    or the connection ends.
//! 2. No length that a client names is allocated before it is checked against
//!    a limit; what is in flight is limited in number and bytes, on a connection
//!    and on all together ([`budget`]).
//! 3. Requests reach the export in order of arrival, from one thread.
//! 4. Only a connection's own threads ever wait for its client.
//! 5. A connection that ends, however it ends, ends alone.
//! 6. Between requests a client may rest for ever; in the middle of one, or of a
//!    reply, it may not.
//! 7. What the server sent arrives, though it ends the session while the client still sends: the
//!    server hangs up first, and discards the rest within limits ([`transport::socket`]). Only clients that
//!    stall, vanish or do not hang up in turn are cut off.

mod budget;
mod config;
mod handshake;
mod input;
mod options;
mod outbox;
mod server;
mod session;
mod status;
mod transport;
pub mod wire;

pub use config::{Config, Tls};
pub use options::NbdArgs;
pub use server::{ConnectionInfo, Server};
pub use transport::listener::{Bound, Listener};
pub use transport::tls::{TlsError, TlsFiles};
