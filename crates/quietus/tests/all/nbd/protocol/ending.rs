//! Clients that still speak when the server ends the session: they hear every reply.

use crate::nbd::client::*;
use crate::nbd::disk::Disk;
use crate::nbd::protocol::hostile::{come, serve};
use crate::nbd::protocol::tls::{Keys, allow, require, secured};
use quietus::front::nbd::Config;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

const SIZE: u64 = 1 << 20;
/// More than the kernel holds of a connection: no client can say so much to a server that does not
/// listen.
const FLOOD_BYTES: usize = 32 << 20;

/// Says `bytes`, and much behind them at once.
pub fn flood<S: Read + Write>(client: &mut Client<S>, mut bytes: Vec<u8>) {
    bytes.resize(bytes.len() + FLOOD_BYTES, 0x5a);
    client.say(&bytes);
}

/// A request that is refused for its length, which ends the session.
pub fn too_long(style: Style) -> Vec<u8> {
    request_bytes(style, WRITE, 0, 5, 0, (32 << 20) + 1)
}

/// Whether the server ends the connection without a reset, and has no more to say.
pub fn hears_the_end<S: Read + Write>(client: &mut Client<S>) -> bool {
    matches!(client.stream.read(&mut [0]), Ok(0))
}

fn assert_hears_the_refusal<S: Read + Write>(client: &mut Client<S>) {
    flood(client, too_long(client.style));
    assert_eq!(client.outcome(5), EINVAL);
    assert!(hears_the_end(client));
}

pub fn over_tcp(disk: &Arc<Disk>) -> (quietus::front::nbd::Server, Client<TcpStream>) {
    let (server, address) = serve(disk, Config::default());
    (server, come(address))
}

#[test]
fn a_refusal_is_heard_by_a_client_that_says_much_behind_the_refused_header() {
    let disk = Disk::new("disk", SIZE);
    let keys = Keys::new();
    for style in STYLES {
        let (_server, mut client) = transmit(&disk, style);
        assert_hears_the_refusal(&mut client);
        let (_server, mut client) = over_tcp(&disk);
        client.begin(style);
        assert_hears_the_refusal(&mut client);
        let (_server, mut client) = secured(require(&keys, false), &keys);
        client.agree(style);
        assert_hears_the_refusal(&mut client);
    }
    assert_eq!(disk.seen(), []);
}

#[test]
fn replies_are_heard_by_a_client_that_reads_them_after_the_end() {
    let (server, mut client) = over_tcp(&Disk::new("disk", SIZE));
    client.begin(Style::Structured);
    let mut said = request_bytes(Style::Structured, READ, 0, 4, 0, SIZE);
    said.extend(too_long(Style::Structured));
    // More than the server takes in one go, and less than the kernel holds.
    said.resize(1 << 20, 0x5a);
    client.say(&said);
    server.wait_until_idle();
    assert!(client.read_reply(4, 0, SIZE as usize) == Ok(vec![0; SIZE as usize]));
    assert_eq!(client.outcome(5), EINVAL);
    assert!(hears_the_end(&mut client));
}

#[test]
fn replies_are_heard_by_a_client_that_says_nonsense_behind_the_requests() {
    let (_server, mut client) = over_tcp(&Disk::new("disk", SIZE));
    client.begin(Style::Structured);
    let requests = (0..3).map(|cookie| request_bytes(Style::Structured, CACHE, 0, cookie, 0, 1));
    flood(&mut client, requests.collect::<Vec<_>>().concat());
    for cookie in 0..3 {
        assert_eq!(client.outcome(cookie), 0);
    }
    assert!(hears_the_end(&mut client));
}

#[test]
fn the_end_of_a_handshake_is_heard_by_a_client_that_still_speaks() {
    let nonsense = [option_bytes(999, &[]), b"nonsense".to_vec()].concat();
    for (said, reply, text) in
        [(option_bytes(OPT_ABORT, &[]), ACK, ""), (nonsense, ERR_UNSUP, "unknown option")]
    {
        let (_server, mut client) = over_tcp(&Disk::new("disk", SIZE));
        client.greet();
        flood(&mut client, said);
        assert_eq!(client.take_bytes(20)[12..16], reply.to_be_bytes());
        assert_eq!(client.take_bytes(text.len()), text.as_bytes());
        assert!(hears_the_end(&mut client), "{text}");
    }
}

#[test]
fn an_abort_under_tls_ends_tls_too() {
    let keys = Keys::new();
    let (_server, mut client) = secured(allow(&keys), &keys);
    assert_eq!(client.verdict(OPT_ABORT, &[]), ACK);
    assert!(hears_the_end(&mut client));
}

#[test]
fn a_client_without_a_certificate_hears_why_it_is_refused() {
    let keys = Keys::new();
    let (_server, mut client) = secured(require(&keys, true), &keys);
    flood(&mut client, option_bytes(OPT_LIST, &[]));
    let error = client.stream.read(&mut [0]).unwrap_err().to_string();
    assert!(error.contains("CertificateRequired"), "{error}");
}

#[test]
fn a_client_that_speaks_on_and_on_is_cut_off() {
    let (server, mut client) = over_tcp(&Disk::new("disk", SIZE));
    client.begin(Style::Structured);
    client.say(&too_long(Style::Structured));
    let piece = vec![0; 8 << 20];
    assert!((0..64).any(|_| client.stream.write_all(&piece).is_err()));
    server.wait_until_idle();
}

#[test]
fn a_client_that_does_not_hang_up_is_not_waited_for() {
    let (server, mut client) = transmit(&Disk::new("disk", SIZE), Style::Structured);
    client.say(&too_long(Style::Structured));
    server.wait_until_idle();
    assert_eq!(client.outcome(5), EINVAL);
    assert!(hears_the_end(&mut client));
}
