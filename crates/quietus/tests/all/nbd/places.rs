//! Who gives up a place when all are taken.

use crate::nbd::client::*;
use crate::nbd::disk::Disk;
use quietus::front::nbd::Config;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Long enough to be idle by any limit below that is not a day.
const AGES: Duration = Duration::from_millis(200);
const SHORT: Duration = Duration::from_millis(50);
const DAY: Duration = Duration::from_secs(86_400);

/// A server of `disk` with two places.
fn two_places(disk: &Arc<Disk>, handshake_timeout: Duration, idle_timeout: Duration) -> Listening {
    let config = Config { connections_max: 2, handshake_timeout, idle_timeout, ..Config::default() };
    Listening::new(exports(std::slice::from_ref(disk)), config)
}

fn works(client: &mut Client<UnixStream>) -> bool {
    client.read(0, 0, 1).is_ok()
}

#[test]
fn who_never_asked_for_anything_gives_way_and_who_did_does_not() {
    let bench = two_places(&Disk::new("disk", 1 << 20), SHORT, DAY);
    let (mut works_first, mut unused) = (bench.begin(Style::Structured), bench.begin(Style::Structured));
    assert!(works(&mut works_first));
    std::thread::sleep(AGES);
    let mut newcomer = bench.begin(Style::Structured);
    assert!(unused.is_closed());
    assert!(works(&mut newcomer) && works(&mut works_first));
    std::thread::sleep(AGES);
    assert!(bench.connect().is_closed(), "both have asked for something today");
    assert!(works(&mut newcomer) && works(&mut works_first));
}

#[test]
fn who_has_been_idle_for_longest_gives_way_and_who_waits_for_an_answer_does_not() {
    let disk = Disk::new("disk", 1 << 20);
    let bench = two_places(&disk, DAY, SHORT);
    let (mut busy, mut idle) = (bench.begin(Style::Structured), bench.begin(Style::Structured));
    assert!(works(&mut idle));
    disk.hold();
    busy.say_request(READ, 0, 1, 0, 1);
    disk.await_held(1);
    std::thread::sleep(AGES);
    let mut newcomer = bench.begin(Style::Structured);
    assert!(idle.is_closed());
    // Now no client is idle: one waits for its answer, and one has come just now.
    assert!(bench.connect().is_closed());
    disk.release_all();
    assert!(newcomer.read(0, 0, 1).is_ok());
}

#[test]
fn who_has_just_come_does_not_give_way() {
    let bench = two_places(&Disk::new("disk", 1 << 20), DAY, SHORT);
    let (mut one, mut other) = (bench.begin(Style::Structured), bench.begin(Style::Structured));
    assert!(bench.connect().is_closed());
    assert!(works(&mut one) && works(&mut other));
}
