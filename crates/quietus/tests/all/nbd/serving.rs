//! Listening, changing what is served, and stopping.

use crate::nbd::client::*;
use crate::nbd::disk::{Disk, begun};
use quietus::front::nbd::{Bound, Config, Listener, Server};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::sync::Arc;
use std::time::{Duration, Instant};

const SIZE: u64 = 1 << 20;

fn soon() -> Instant {
    Instant::now() + Duration::from_secs(30)
}

#[test]
fn a_unix_socket_is_served_and_goes_with_the_server() {
    let at = Listening::new(exports(&[Disk::new("disk", SIZE)]), Config::default());
    assert_eq!(at.server.bound(), [Bound::Unix(at.path.clone())]);
    assert_eq!(at.begin(Style::Structured).read(0, 0, 2), Ok(vec![0; 2]));
    assert!(at.server.shutdown(soon()));
    assert!(!at.path.exists());
}

#[test]
fn a_unix_socket_with_an_abstract_name_is_served_without_a_file() {
    let name = format!("quietus-{}", std::process::id());
    let listener = Listener::abstract_unix(&name).unwrap();
    assert!(Listener::abstract_unix(&name).is_err(), "the name is taken");
    assert!(Listener::abstract_unix("").is_err());
    let server =
        Server::start(vec![listener], exports(&[Disk::new("disk", SIZE)]), Config::default()).unwrap();
    assert_eq!(server.bound(), [Bound::Abstract(name.clone())]);
    let address = SocketAddr::from_abstract_name(name).unwrap();
    let mut client = Client::new(UnixStream::connect_addr(&address).unwrap());
    client.begin(Style::Structured);
    assert_eq!(client.read(0, 0, 2), Ok(vec![0; 2]));
    assert!(server.shutdown(soon()));
}

#[test]
fn an_abandoned_unix_socket_is_replaced_and_a_served_one_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("socket");
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists());
    let _served = Listener::unix(&path).unwrap();
    assert!(Listener::unix(&path).is_err());
    let file = dir.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(Listener::unix(&file).is_err());
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
}

#[test]
fn connections_are_told_of() {
    let (server, mut client) = connect(&[Disk::new("disk", SIZE)], Config::default());
    client.greet();
    assert_eq!(client.verdict(OPT_LIST, &[]), ACK);
    assert_eq!(server.connections()[0].export, None);
    client.agree(Style::Structured);
    assert!(client.read(0, 0, 1).is_ok());
    let told = server.connections().remove(0);
    assert_eq!((told.export.as_deref(), told.tls), (Some("disk"), false));
    assert!(told.peer.starts_with("process "));
    drop(client);
    server.wait_until_idle();
    assert!(server.connections().is_empty());
}

#[test]
fn a_disk_is_told_who_comes_and_goes() {
    let disk = Disk::new("disk", SIZE);
    let at = Listening::new(exports(std::slice::from_ref(&disk)), Config::default());
    let come = || {
        let mut client = at.begin(Style::Extended);
        assert!(client.read(0, 0, 1).is_ok());
        client
    };
    let first = come();
    disk.await_clients(1);
    let mut second = come();
    disk.await_clients(2);
    drop(first);
    disk.await_clients(1);
    disk.panic();
    second.say_request(READ, 0, 1, 0, 1);
    disk.await_clients(0);
}

#[test]
fn disks_come_and_go_and_connections_keep_theirs() {
    let offered = exports(&[Disk::new("old", SIZE)]);
    let at = Listening::new(offered.clone(), Config::default());
    let mut early = at.begin(Style::Simple);
    offered.set(vec![Disk::new("new", 2 * SIZE)]);
    let mut late = at.connect();
    late.greet();
    assert_eq!(late.verdict(OPT_GO, &info_request("old", &[])), ERR_UNKNOWN);
    assert_eq!(late.verdict(OPT_GO, &info_request("new", &[])), ACK);
    assert!(late.read(0, SIZE, 1).is_ok());
    assert!(early.read(0, SIZE - 1, 1).is_ok());
}

#[test]
fn a_server_without_disks_has_no_default() {
    let (_server, mut client) = connect::<Disk>(&[], Config::default());
    client.greet();
    assert_eq!(client.option(OPT_LIST, &[]), [(ACK, Vec::new())]);
    assert_eq!(client.verdict(OPT_GO, &info_request("", &[])), ERR_UNKNOWN);
}

#[test]
fn a_stop_lets_requests_end_and_refuses_new_ones() {
    let (disk, server, mut client) = begun(Style::Structured);
    disk.hold();
    client.say_write(0, 1, 0, b"kept");
    disk.await_held(1);
    let server = Arc::new(server);
    let stopping = {
        let server = Arc::clone(&server);
        std::thread::spawn(move || server.shutdown(soon()))
    };
    disk.hold_no_more();
    let refused = std::iter::repeat_with(|| client.request(CACHE, 0, 0, 1)).find(|error| *error != 0);
    assert_eq!(refused, Some(ESHUTDOWN));
    disk.release_all();
    assert_eq!(client.outcome(1), 0);
    assert!(client.is_closed());
    assert!(stopping.join().unwrap());
    assert_eq!(disk.bytes(0, 4), b"kept");
}

#[test]
fn a_stop_does_not_wait_beyond_its_deadline() {
    let (disk, server, mut client) = begun(Style::Structured);
    disk.hold();
    client.say_request(READ, 0, 1, 0, 4096);
    disk.await_held(1);
    server.shutdown(Instant::now() + Duration::from_millis(20));
    assert!(client.is_closed());
    disk.release_all();
}

#[test]
fn a_stop_ends_handshakes() {
    let (server, mut client) = connect(&[Disk::new("disk", SIZE)], Config::default());
    client.greet();
    assert_eq!(client.verdict(OPT_LIST, &[]), ACK);
    assert!(server.shutdown(soon()));
    assert!(client.is_closed());
}
