//! Who gives up a place when all are taken.

use crate::nbd::client::*;
use crate::nbd::disk::Disk;
use quietus::front::nbd::{Config, Listener, Server};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// Long enough to be idle by any limit below that is not a day.
const AGES: Duration = Duration::from_millis(200);
const SHORT: Duration = Duration::from_millis(50);
const DAY: Duration = Duration::from_secs(86_400);

/// A server with two places.
struct Bench {
    _dir: tempfile::TempDir,
    path: PathBuf,
    disk: Arc<Disk>,
    _server: Server,
}

impl Bench {
    fn new(config: Config) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (path, disk) = (dir.path().join("socket"), Disk::new("disk", 1 << 20));
        let listener = Listener::unix(&path).unwrap();
        let config = Config { connections_max: 2, ..config };
        let server = Server::start(vec![listener], exports(std::slice::from_ref(&disk)), config).unwrap();
        Self { _dir: dir, path, disk, _server: server }
    }

    fn connect(&self) -> Client<UnixStream> {
        Client::new(UnixStream::connect(&self.path).unwrap())
    }

    /// A client that has finished its handshake.
    fn client(&self) -> Client<UnixStream> {
        let mut client = self.connect();
        client.begin(Style::Structured);
        client
    }
}

fn works(client: &mut Client<UnixStream>) -> bool {
    client.read(0, 0, 1).is_ok()
}

#[test]
fn who_never_asked_for_anything_gives_way_and_who_did_does_not() {
    let bench = Bench::new(Config { handshake_timeout: SHORT, idle_timeout: DAY, ..Config::default() });
    let (mut works_first, mut unused) = (bench.client(), bench.client());
    assert!(works(&mut works_first));
    std::thread::sleep(AGES);
    let mut newcomer = bench.client();
    assert!(unused.is_closed());
    assert!(works(&mut newcomer) && works(&mut works_first));
    std::thread::sleep(AGES);
    assert!(bench.connect().is_closed(), "both have asked for something today");
    assert!(works(&mut newcomer) && works(&mut works_first));
}

#[test]
fn who_has_been_idle_for_longest_gives_way_and_who_waits_for_an_answer_does_not() {
    let bench = Bench::new(Config { handshake_timeout: DAY, idle_timeout: SHORT, ..Config::default() });
    let (mut busy, mut idle) = (bench.client(), bench.client());
    assert!(works(&mut idle));
    bench.disk.hold();
    busy.say_request(READ, 0, 1, 0, 1);
    bench.disk.await_held(1);
    std::thread::sleep(AGES);
    let mut newcomer = bench.client();
    assert!(idle.is_closed());
    // Now no client is idle: one waits for its answer, and one has come just now.
    assert!(bench.connect().is_closed());
    bench.disk.release_all();
    assert!(newcomer.read(0, 0, 1).is_ok());
}

#[test]
fn who_has_just_come_does_not_give_way() {
    let bench = Bench::new(Config { handshake_timeout: DAY, idle_timeout: SHORT, ..Config::default() });
    let (mut one, mut other) = (bench.client(), bench.client());
    assert!(bench.connect().is_closed());
    assert!(works(&mut one) && works(&mut other));
}
