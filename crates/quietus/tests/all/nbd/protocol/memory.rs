//! The memory that all connections share.

use crate::nbd::client::*;
use crate::nbd::disk::Disk;
use crate::program::wait_until;
use quietus::front::nbd::Config;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const LARGEST: u64 = 32 << 20;

/// A server with memory for one of the largest requests, and somewhat more.
struct Tight {
    at: Listening,
    disk: Arc<Disk>,
}

impl Tight {
    fn new(stall_timeout: Duration) -> Self {
        Self::with(48 << 20, stall_timeout)
    }

    fn with(memory_bytes_max: usize, stall_timeout: Duration) -> Self {
        let disk = Disk::new("disk", LARGEST);
        let config = Config { memory_bytes_max, stall_timeout, ..Config::default() };
        Self { at: Listening::new(exports(&[Arc::clone(&disk)]), config), disk }
    }

    fn connect(&self) -> Client<UnixStream> {
        self.at.begin(Style::Extended)
    }

    #[track_caller]
    fn await_starved(&self, count: usize) {
        let starved = || self.at.server.connections().iter().filter(|it| it.waits_for_memory).count();
        wait_until(|| starved() == count);
    }
}

#[test]
fn what_does_not_fit_into_the_memory_waits() {
    let tight = Tight::new(Duration::from_secs(60));
    let (mut first, mut second, mut third) = (tight.connect(), tight.connect(), tight.connect());
    tight.disk.hold();
    first.say_request(READ, 0, 1, 0, LARGEST);
    tight.disk.await_held(1);
    second.say_request(READ, 0, 2, 0, LARGEST);
    tight.await_starved(1);
    third.say_request(WRITE, PAYLOAD_LEN, 3, 0, LARGEST);
    tight.await_starved(2);
    assert_eq!(tight.disk.held(), 1);
    tight.disk.release_all();
    assert!(first.read_reply(1, 0, LARGEST as usize).is_ok());
    assert!(second.read_reply(2, 0, LARGEST as usize).is_ok());
    third.say(&vec![7; LARGEST as usize]);
    assert_eq!(third.outcome(3), 0);
}

#[test]
fn small_requests_are_served_while_another_client_reads_nothing_however_little_memory_there_is() {
    for memory_bytes_max in [1 << 20, 33 << 20] {
        let tight = Tight::with(memory_bytes_max, Duration::from_secs(60));
        let (mut greedy, mut modest) = (tight.connect(), tight.connect());
        // The kernel takes a part of the reply, and the rest stays in the server.
        (1..=2).for_each(|cookie| greedy.say_request(READ, 0, cookie, 0, LARGEST));
        tight.await_starved(1);
        assert_eq!(modest.write(0, 0, &[7; 4096]), 0);
        assert_eq!(modest.read(0, 0, 4096), Ok(vec![7; 4096]));
    }
}

#[test]
fn many_large_requests_at_once_all_end() {
    let tight = Tight::new(Duration::from_secs(60));
    let clients: Vec<_> = (0..6).map(|_| tight.connect()).collect();
    std::thread::scope(|scope| {
        for mut client in clients {
            scope.spawn(move || {
                for cookie in 0..4 {
                    client.say_request(READ, 0, cookie, 0, LARGEST / 2);
                }
                for cookie in 0..4 {
                    assert!(client.read_reply(cookie, 0, LARGEST as usize / 2).is_ok());
                }
            });
        }
    });
}

#[test]
fn a_payload_that_trickles_in_is_given_up_when_others_want_the_memory() {
    let tight = Tight::new(Duration::from_secs(1));
    let (mut slow, mut other) = (tight.connect(), tight.connect());
    slow.say_request(WRITE, PAYLOAD_LEN, 1, 0, LARGEST);
    let served = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !served.load(Ordering::Relaxed) && slow.stream.write_all(&[1]).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        other.say_request(READ, 0, 2, 0, LARGEST);
        let read = other.stream.read(&mut [0]);
        served.store(true, Ordering::Relaxed);
        assert!(matches!(read, Ok(1)), "{read:?}");
    });
    assert!(slow.is_closed());
}

#[test]
fn a_connection_that_ends_gives_its_memory_back() {
    let tight = Tight::new(Duration::from_secs(60));
    for _ in 0..3 {
        let mut gone = tight.connect();
        gone.say_request(WRITE, PAYLOAD_LEN, 1, 0, LARGEST);
        gone.say(&[1; 1000]);
    }
    let mut client = tight.connect();
    assert!(client.read(0, 0, LARGEST as usize).is_ok());
}
