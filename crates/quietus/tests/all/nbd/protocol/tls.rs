//! Encrypted connections.

use crate::nbd::client::*;
use crate::nbd::disk::Disk;
use quietus::front::nbd::{Config, Server, Tls, TlsFiles};
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

const SIZE: u64 = 1 << 20;

pub type Secured = StreamOwned<ClientConnection, UnixStream>;

/// An authority, and what it signed, as files.
pub struct Keys {
    dir: TempDir,
    authority: CertifiedIssuer<'static, KeyPair>,
}

impl Keys {
    pub fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
        let keys = Self { dir: tempfile::tempdir().unwrap(), authority };
        std::fs::write(keys.path("ca.pem"), keys.authority.pem()).unwrap();
        keys.issue("server");
        keys.issue("client");
        keys
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Puts these keys into the place of `others`' server.
    pub fn replace(&self, others: &Self) {
        for name in ["server.pem", "server.key"] {
            std::fs::copy(self.path(name), others.path(name)).unwrap();
        }
    }

    fn issue(&self, name: &str) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["localhost".to_string()]).unwrap();
        let certificate = params.signed_by(&key, &self.authority).unwrap();
        std::fs::write(self.path(&format!("{name}.pem")), certificate.pem()).unwrap();
        std::fs::write(self.path(&format!("{name}.key")), key.serialize_pem()).unwrap();
    }

    fn files(&self, clients: bool) -> TlsFiles {
        TlsFiles {
            certificate: self.path("server.pem"),
            key: self.path("server.key"),
            client_authorities: clients.then(|| self.path("ca.pem")),
        }
    }

    pub fn client(&self, certified: bool) -> ClientConnection {
        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_file(self.path("ca.pem")).unwrap()).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
        let builder = builder.with_root_certificates(roots);
        let config = if certified {
            let chain = vec![CertificateDer::from_pem_file(self.path("client.pem")).unwrap()];
            let key = PrivateKeyDer::from_pem_file(self.path("client.key")).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        } else {
            builder.with_no_client_auth()
        };
        ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap()
    }
}

pub fn require(keys: &Keys, clients: bool) -> Config {
    Config { tls: Tls::Require(keys.files(clients).load().unwrap()), ..Config::default() }
}

pub fn allow(keys: &Keys) -> Config {
    Config { tls: Tls::Allow(keys.files(false).load().unwrap()), ..Config::default() }
}

fn greeted(config: Config) -> (Server, Client<UnixStream>) {
    let (server, mut client) = connect(&[Disk::new("disk", SIZE)], config);
    client.greet();
    (server, client)
}

pub fn secure(mut client: Client<UnixStream>, tls: ClientConnection) -> Client<Secured> {
    assert_eq!(client.verdict(OPT_STARTTLS, &[]), ACK);
    Client { stream: StreamOwned::new(tls, client.stream), style: client.style }
}

/// A server, and a client without a certificate that has begun TLS.
pub fn secured(config: Config, keys: &Keys) -> (Server, Client<Secured>) {
    let (server, client) = greeted(config);
    (server, secure(client, keys.client(false)))
}

#[test]
fn everything_works_under_tls() {
    let keys = Keys::new();
    for style in STYLES {
        let (server, mut client) = secured(require(&keys, false), &keys);
        client.agree(style);
        let payload: Vec<u8> = (0..SIZE).map(|n| (n >> 3) as u8).collect();
        assert_eq!(client.write(FUA, 0, &payload), 0);
        assert!(client.read(0, 0, payload.len()) == Ok(payload));
        assert_eq!(client.request(FLUSH, 0, 0, 0), 0);
        assert!(server.connections()[0].tls);
        client.say_request(DISC, 0, 0, 0, 0);
        assert_eq!(client.stream.read(&mut [0]).unwrap(), 0, "the end is announced");
    }
}

#[test]
fn many_requests_are_in_flight_under_tls() {
    let keys = Keys::new();
    let (_server, mut client) = secured(require(&keys, false), &keys);
    client.agree(Style::Extended);
    for cookie in 0..100 {
        client.say_request(READ, 0, cookie, cookie * 100, 500_000);
    }
    for cookie in 0..100 {
        assert!(client.read_reply(cookie, cookie * 100, 500_000).is_ok());
    }
}

#[test]
fn without_tls_nothing_is_said_where_it_is_required() {
    let keys = Keys::new();
    let (_server, mut client) = greeted(require(&keys, false));
    for option in
        [OPT_LIST, OPT_INFO, OPT_GO, OPT_STRUCTURED, OPT_EXTENDED, OPT_SET_META, OPT_LIST_META, 4, 999]
    {
        assert_eq!(client.verdict(option, b"data"), ERR_TLS_REQD, "option {option}");
    }
    assert_eq!(client.verdict(OPT_ABORT, &[]), ACK);
    let (_server, mut client) = greeted(require(&keys, false));
    client.say_option(OPT_EXPORT_NAME, b"disk");
    assert!(client.is_closed());
    // Nor may a client come without fixed newstyle.
    let (_server, mut client) = connect(&[Disk::new("disk", SIZE)], require(&keys, false));
    client.greet_with(0);
    assert!(client.is_closed());
}

#[test]
fn tls_is_a_choice_where_it_is_allowed_but_not_within_tls() {
    let keys = Keys::new();
    let (_server, mut client) = greeted(allow(&keys));
    client.agree(Style::Structured);
    assert!(client.read(0, 0, 1).is_ok());
    let (_server, mut client) = secured(allow(&keys), &keys);
    assert_eq!(client.verdict(OPT_STARTTLS, &[]), ERR_INVALID);
    client.agree(Style::Structured);
    assert!(client.read(0, 0, 1).is_ok());
}

#[test]
fn tls_is_against_the_policy_where_it_is_off() {
    let (_server, mut client) = greeted(Config::default());
    assert_eq!(client.verdict(OPT_STARTTLS, &[]), ERR_POLICY);
    client.agree(Style::Simple);
}

#[test]
fn tls_forgets_what_was_agreed_before_it() {
    let keys = Keys::new();
    let (_server, mut client) = greeted(allow(&keys));
    assert_eq!(client.verdict(OPT_EXTENDED, &[]), ACK);
    let mut client = secure(client, keys.client(false));
    assert_eq!(client.verdict(OPT_SET_META, &meta("", &["base:allocation"])), ERR_INVALID);
    assert_eq!(client.verdict(OPT_GO, &info_request("", &[])), ACK);
    assert!(client.read(0, 0, 1).is_ok());
}

#[test]
fn options_said_in_the_clear_do_not_count_under_tls() {
    let keys = Keys::new();
    let (_server, mut client) = greeted(allow(&keys));
    let mut injected = option_bytes(OPT_STARTTLS, &[]);
    injected.extend(option_bytes(OPT_LIST, &[]));
    client.say(&injected);
    assert_eq!(client.take_bytes(20)[12..16], ACK.to_be_bytes());
    let mut tls = StreamOwned::new(keys.client(false), client.stream);
    assert!(tls.write_all(b"IHAVEOPT").is_err() || tls.flush().is_err() || tls.read(&mut [0; 1]).is_err());
}

#[test]
fn a_client_certificate_is_demanded_where_there_is_an_authority() {
    let keys = Keys::new();
    let (_server, client) = greeted(require(&keys, true));
    let mut client = secure(client, keys.client(true));
    client.agree(Style::Structured);
    assert!(client.read(0, 0, 1).is_ok());
    let strangers = Keys::new();
    for (tls, who) in [(keys.client(false), "no certificate"), (strange(&keys, &strangers), "a stranger")] {
        let (server, client) = greeted(require(&keys, true));
        let mut client = secure(client, tls);
        let _ = client.stream.write_all(&option_bytes(OPT_LIST, &[]));
        assert!(client.stream.read_exact(&mut [0; 20]).is_err(), "{who} was let in");
        server.wait_until_idle();
    }
}

/// A client that trusts the server of `keys`, with a certificate of `strangers`.
fn strange(keys: &Keys, strangers: &Keys) -> ClientConnection {
    for file in ["client.pem", "client.key"] {
        std::fs::copy(strangers.path(file), keys.path(file)).unwrap();
    }
    keys.client(true)
}

#[test]
fn under_tls_too_a_client_may_rest_between_requests_and_not_within_one() {
    let keys = Keys::new();
    let config = Config { stall_timeout: Duration::from_millis(200), ..require(&keys, false) };
    let (server, mut client) = secured(config, &keys);
    client.agree(Style::Structured);
    std::thread::sleep(Duration::from_millis(500));
    assert!(client.read(0, 0, 1).is_ok());
    client.say_request(WRITE, 0, 1, 0, SIZE);
    client.say(&[1; 1000]);
    assert!(client.is_closed());
    server.wait_until_idle();
}

#[test]
fn a_client_that_says_nonsense_instead_of_tls_is_let_go() {
    let keys = Keys::new();
    let (server, mut client) = greeted(allow(&keys));
    assert_eq!(client.verdict(OPT_STARTTLS, &[]), ACK);
    client.say(&[0x55; 4096]);
    assert!(client.is_closed());
    server.wait_until_idle();
}

#[test]
fn key_files_that_cannot_be_used_are_named() {
    let keys = Keys::new();
    for (certificate, key, named) in [
        ("/nonexistent/server.pem", "server.key", "/nonexistent/server.pem"),
        ("server.key", "server.key", "no certificate found"),
        ("server.pem", "server.pem", "server.pem"),
        ("server.pem", "client.key", "the certificate and the key"),
    ] {
        let files = TlsFiles { certificate: keys.path(certificate), key: keys.path(key), ..keys.files(true) };
        let said = files.load().unwrap_err().to_string();
        assert!(said.contains(named), "{certificate}, {key}: {said}");
    }
}
