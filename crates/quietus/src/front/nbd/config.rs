//! Options of the server, which the operator chooses.

use rustls::ServerConfig;
use std::sync::Arc;
use std::time::Duration;

/// How the server treats its clients.
#[derive(Clone, Debug)]
pub struct Config {
    /// Whether connections are encrypted; may be [exchanged](super::Server::set_tls).
    pub tls: Tls,
    /// Time limit for the handshake: a client that has not begun transmission by then is dropped. A
    /// client that has made no request for as long after that gives way to a newcomer.
    pub handshake_timeout: Duration,
    /// Idle time after which a client that has made requests gives way to a newcomer.
    pub idle_timeout: Duration,
    /// Time limit for a pause: a client is dropped that sends nothing for so long in the middle of
    /// a request, or takes nothing of a reply.
    pub stall_timeout: Duration,
    /// Most connections at once.
    pub connections_max: usize,
    /// Most payload bytes in flight on one connection. A single request always
    /// fits, of [`PAYLOAD_BYTES_MAX`] bytes at most.
    ///
    /// [`PAYLOAD_BYTES_MAX`]: super::wire::PAYLOAD_BYTES_MAX
    pub in_flight_bytes_max: usize,
    /// Whether clients may use extended headers. Without them `NBD_OPT_EXTENDED_HEADERS` is
    /// unsupported, and clients turn to structured replies.
    pub extended_headers: bool,
    /// Most payload bytes in flight on all connections together; requests beyond that wait. A
    /// single request always fits.
    pub memory_bytes_max: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            tls: Tls::Off,
            handshake_timeout: Duration::from_secs(60),
            idle_timeout: Duration::from_secs(86_400),
            stall_timeout: Duration::from_secs(60),
            connections_max: 256,
            in_flight_bytes_max: 192 << 20,
            extended_headers: true,
            memory_bytes_max: 1 << 30,
        }
    }
}

/// Whether connections are encrypted (`doc/proto.md`, "TLS support").
#[derive(Clone, Debug, Default)]
pub enum Tls {
    /// No TLS (NOTLS).
    #[default]
    Off,
    /// TLS if the client wishes (SELECTIVETLS, no export of which demands it).
    Allow(Arc<ServerConfig>),
    /// TLS on every connection (FORCEDTLS).
    Require(Arc<ServerConfig>),
}

impl Tls {
    /// The TLS configuration, if connections may be encrypted.
    #[must_use]
    pub const fn server_config(&self) -> Option<&Arc<ServerConfig>> {
        match self {
            Self::Off => None,
            Self::Allow(config) | Self::Require(config) => Some(config),
        }
    }

    /// Whether clients must use TLS.
    #[must_use]
    pub const fn is_required(&self) -> bool {
        matches!(self, Self::Require(_))
    }
}
