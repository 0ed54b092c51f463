//! NBD as a front end: its options, its addresses, and its server.

use super::{Bound, Config, Listener, Server, Tls, TlsError, TlsFiles};
use crate::base::duration::parse_duration_ms;
use crate::front::{FrontEnd, Service, Terms};
use crate::host::paths;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{ArgAction, Args, ValueHint};
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Options of `serve` for clients that speak NBD.
#[derive(Clone, Debug, Args)]
pub struct NbdArgs {
    /// Address to listen at: unix:PATH, unix:@NAME, tcp:ADDRESS:PORT or stdio; may be given
    /// again. `unix:@NAME`: a socket with an abstract name, without a file. `stdio`: serve one client on standard input and output, and exit when it
    /// disconnects. Default: the sockets that systemd passed, else unix:DISK/nbd.sock of
    /// the first disk.
    #[arg(long, value_name = "ADDRESS", value_parser = parse_address)]
    nbd: Vec<String>,
    /// Certificates of the server, PEM; turns TLS on.
    #[arg(long, help_heading = "TLS", value_hint = ValueHint::FilePath, requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Private key of the first certificate, PEM.
    #[arg(long, help_heading = "TLS", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// Accept only clients with a certificate from these authorities, PEM.
    #[arg(long, help_heading = "TLS", value_hint = ValueHint::FilePath, requires = "tls_cert")]
    tls_client_ca: Option<PathBuf>,
    /// Accept clients without TLS too.
    #[arg(long, help_heading = "TLS", requires = "tls_cert")]
    tls_optional: bool,
    /// Maximum number of clients at once.
    #[arg(long, help_heading = "Limits", value_name = "NUMBER", default_value = "256", value_parser = parse_connections)]
    connections: usize,
    /// Time limit for the NBD handshake of a client.
    #[arg(long, help_heading = "Limits", value_name = "DURATION", default_value = "60s", value_parser = parse_timeout_ms)]
    handshake_timeout: u64,
    /// Time limit for a pause in the middle of a request or of a reply. Between
    /// requests a client may be idle for any time.
    #[arg(long, help_heading = "Limits", value_name = "DURATION", default_value = "60s", value_parser = parse_timeout_ms)]
    stall_timeout: u64,
    /// Offer NBD's extended headers, which allow requests beyond 4 GiB. With `no`, clients use
    /// structured replies instead: for a client whose extended headers are defective.
    #[arg(long, action = ArgAction::Set, default_value = "yes", value_parser = PossibleValuesParser::new(["yes", "no"]).map(|it| it == "yes"))]
    extended_headers: bool,
    /// Idle time after which a client may lose its connection to a new client that finds all of
    /// `--connections` in use. A client that has never made a request may lose it after
    /// `--handshake-timeout`, and a client in its handshake at once.
    #[arg(long, help_heading = "Limits", value_name = "DURATION", default_value = "1d", value_parser = parse_timeout_ms)]
    idle_timeout: u64,
}

impl FrontEnd for NbdArgs {
    fn check(&self) -> io::Result<()> {
        self.tls().map_err(io::Error::other)?;
        let sockets = self.nbd.iter().filter_map(|address| address.strip_prefix("unix:"));
        for path in sockets.filter(|path| !path.starts_with('@')) {
            check_socket(&std::path::absolute(path)?)?;
        }
        Ok(())
    }

    fn start(&self, terms: &Terms<'_>) -> io::Result<Option<Box<dyn Service>>> {
        let listeners = self.listeners(terms.dir)?;
        let config = Config {
            tls: self.tls().map_err(io::Error::other)?,
            connections_max: self.connections,
            handshake_timeout: Duration::from_millis(self.handshake_timeout),
            stall_timeout: Duration::from_millis(self.stall_timeout),
            extended_headers: self.extended_headers,
            idle_timeout: Duration::from_millis(self.idle_timeout),
            memory_bytes_max: terms.memory_bytes_max,
            ..Config::default()
        };
        let server = Server::start(listeners, terms.exports.clone(), config)?;
        Ok(Some(Box::new(Served { options: self.clone(), server })))
    }
}

impl NbdArgs {
    fn tls(&self) -> Result<Tls, TlsError> {
        let (Some(certificate), Some(key)) = (self.tls_cert.clone(), self.tls_key.clone()) else {
            return Ok(Tls::Off);
        };
        let config = TlsFiles { certificate, key, client_authorities: self.tls_client_ca.clone() }.load()?;
        Ok(if self.tls_optional { Tls::Allow(config) } else { Tls::Require(config) })
    }

    fn listeners(&self, dir: &Path) -> io::Result<Vec<Listener>> {
        let mut found = if self.nbd.is_empty() { passed()? } else { Vec::new() };
        let default = format!("unix:{}", dir.join("nbd.sock").display());
        let wanted = if found.is_empty() && self.nbd.is_empty() { vec![default] } else { self.nbd.clone() };
        for address in &wanted {
            let refused = |error: io::Error| {
                let is_read_only = error.kind() == io::ErrorKind::ReadOnlyFilesystem;
                let remedy =
                    if is_read_only { "; name a socket elsewhere: --nbd unix:/run/vm1.sock" } else { "" };
                io::Error::other(format!("--nbd {address}: {error}{remedy}"))
            };
            found.push(listen(address).map_err(refused)?);
        }
        Ok(found)
    }
}

/// The NBD server, and the options that it began with.
struct Served {
    options: NbdArgs,
    server: Server,
}

impl Service for Served {
    fn uris(&self) -> Vec<String> {
        self.server.bound().iter().map(|bound| uri(bound, self.options.tls_cert.is_some())).collect()
    }

    fn environment(&self) -> Vec<(&'static str, String)> {
        let Some(uri) = self.uris().into_iter().next() else { return Vec::new() };
        let socket = uri.split_once("socket=").map_or("", |(_, path)| path).to_string();
        vec![("NBD_URI", uri), ("NBD_SOCKET", socket)]
    }

    fn reload(&self) -> Result<(), &'static str> {
        let tls = self.options.tls().map_err(|error| {
            tracing::error!(%error, "cannot reload the certificates and the key");
            "the certificates and the key"
        })?;
        self.server.set_tls(tls);
        Ok(())
    }

    fn is_private(&self) -> bool {
        self.server.is_private()
    }

    fn wait_until_idle(&self) {
        self.server.wait_until_idle();
    }

    fn shutdown(&self, deadline: Instant) -> bool {
        self.server.shutdown(deadline)
    }
}

/// The URI by which a client reaches the address.
fn uri(bound: &Bound, secure: bool) -> String {
    let scheme = if secure { "nbds" } else { "nbd" };
    match bound {
        Bound::Unix(path) => format!("{scheme}+unix:///?socket={}", path.display()),
        Bound::Abstract(name) => format!("{scheme}+unix:///?socket=@{name}"),
        Bound::Tcp(address) => format!("{scheme}://{address}"),
        Bound::Inherited => "an inherited socket".into(),
        Bound::Connected => "an inherited connection".into(),
    }
}

fn listen(address: &str) -> io::Result<Listener> {
    match address.split_once(':') {
        Some(("unix", path)) => match path.strip_prefix('@') {
            Some(name) => Listener::abstract_unix(name),
            None => {
                let path = std::path::absolute(path)?;
                // The default path is that of a disk, which may be long.
                check_socket(&path)?;
                Listener::unix(&path)
            }
        },
        Some(("tcp", address)) => Listener::tcp(address),
        _ if address == "stdio" => Listener::stdio(),
        _ => Err(io::Error::other(
            "unknown kind of address; use unix:PATH, unix:@NAME, tcp:ADDRESS:PORT or stdio",
        )),
    }
}

fn check_socket(path: &Path) -> io::Result<()> {
    paths::check_socket("--nbd", path).map_err(io::Error::other)
}

/// The sockets that systemd passed.
fn passed() -> io::Result<Vec<Listener>> {
    let refused = |error: io::Error| io::Error::other(format!("cannot take the sockets of systemd: {error}"));
    let fds = sd_notify::listen_fds().map_err(refused)?;
    fds.map(|fd| {
        // SAFETY: sd_listen_fds(3) promises that these descriptors are open and were
        // passed to this process, which takes each of them once, here.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        Listener::inherited(fd).map_err(refused)
    })
    .collect()
}

fn parse_connections(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("with 0 connections no client could connect; expected 1 or more".into()),
        Ok(number) => Ok(number),
        Err(_) => Err("expected a whole number, 1 or more".into()),
    }
}

fn parse_timeout_ms(text: &str) -> Result<u64, String> {
    match parse_duration_ms(text)? {
        0 => Err("every client would be dropped at once; use 1ms or more, such as 60s".into()),
        ms => Ok(ms),
    }
}

/// The address, as it was written.
fn parse_address(text: &str) -> Result<String, String> {
    let is_port = |port: &str| port.parse::<u16>().is_ok();
    let is_right = match text.split_once(':') {
        Some(("unix", path)) => !path.is_empty(),
        Some(("tcp", address)) => {
            address.rsplit_once(':').is_some_and(|(host, port)| !host.is_empty() && is_port(port))
        }
        _ => text == "stdio",
    };
    match is_right {
        true => Ok(text.into()),
        false => Err("use unix:PATH, tcp:ADDRESS:PORT or stdio, such as tcp:127.0.0.1:10809".into()),
    }
}
