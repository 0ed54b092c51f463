//! Many requests at once, and replies out of order.

use crate::nbd::client::*;
use crate::nbd::disk::{Disk, begun};
use quietus::front::nbd::Config;
use std::sync::Arc;
use std::time::Duration;

const SIZE: u64 = 1 << 20;

/// Long enough for what must not happen to happen.
const A_WHILE: Duration = Duration::from_millis(50);

#[test]
fn replies_come_in_the_order_of_the_outcomes() {
    for style in STYLES {
        let disk = Disk::new("disk", SIZE);
        disk.fill(|n| n as u8);
        let (_server, mut client) = transmit(&disk, style);
        disk.hold();
        for cookie in 0..4 {
            client.say_request(READ, 0, cookie, cookie * 10, 3);
        }
        disk.await_held(4);
        for (index, cookie) in [(3, 3), (0, 0), (1, 2), (0, 1)] {
            disk.release(index);
            let first = cookie as u8 * 10;
            assert_eq!(client.read_reply(cookie, cookie * 10, 3), Ok(vec![first, first + 1, first + 2]));
        }
    }
}

#[test]
fn requests_reach_the_disk_in_order_of_arrival() {
    let (disk, _server, mut client) = begun(Style::Structured);
    let mut said = Vec::new();
    for cookie in 0..100 {
        said.extend(request_bytes(client.style, TRIM, 0, cookie, cookie * 4096, 4096));
    }
    client.say(&said);
    (0..100).for_each(|cookie| assert_eq!(client.outcome(cookie), 0));
    let seen: Vec<_> = disk.seen().iter().map(|request| request.extent.start.0 / 4096).collect();
    assert_eq!(seen, (0..100).collect::<Vec<_>>());
}

#[test]
fn outcomes_from_many_threads_all_arrive() {
    let disk = Disk::new("disk", SIZE);
    disk.fill(|n| (n / 4096) as u8);
    let (_server, mut client) = transmit(&disk, Style::Structured);
    disk.hold();
    for cookie in 0..120 {
        client.say_request(READ, 0, cookie, cookie * 4096, 4096);
    }
    disk.await_held(120);
    let releasing: Vec<_> = (0..4)
        .map(|_| {
            let disk = Arc::clone(&disk);
            std::thread::spawn(move || (0..30).for_each(|_| disk.release(0)))
        })
        .collect();
    let mut cookies: Vec<u64> = (0..120)
        .map(|_| {
            let chunk = client.chunk(0);
            assert_eq!(chunk.payload[8..], vec![chunk.cookie as u8; 4096]);
            chunk.cookie
        })
        .collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..120).collect::<Vec<_>>());
    releasing.into_iter().for_each(|thread| thread.join().unwrap());
}

#[test]
fn a_connection_has_128_requests_in_flight_at_most() {
    let (disk, server, mut client) = begun(Style::Structured);
    disk.hold();
    for cookie in 0..130 {
        client.say_request(TRIM, 0, cookie, 0, 1);
    }
    disk.await_held(128);
    std::thread::sleep(A_WHILE);
    assert_eq!((disk.held(), server.connections()[0].in_flight), (128, 128));
    disk.release(0);
    disk.await_held(128);
    disk.release_all();
    let mut cookies: Vec<_> = (0..130).map(|_| client.chunk(0).cookie).collect();
    cookies.sort_unstable();
    assert_eq!(cookies, (0..130).collect::<Vec<_>>());
}

#[test]
fn a_connection_has_so_many_bytes_in_flight_at_most() {
    let disk = Disk::new("disk", SIZE);
    let config = Config { in_flight_bytes_max: 1 << 20, ..Config::default() };
    let (_server, mut client) = connect(std::slice::from_ref(&disk), config);
    client.begin(Style::Structured);
    disk.hold();
    for cookie in 0..3 {
        client.say_request(READ, 0, cookie, 0, 512 << 10);
    }
    disk.await_held(2);
    std::thread::sleep(A_WHILE);
    assert_eq!(disk.held(), 2);
    disk.release_all();
    disk.await_held(0);
    for _ in 0..3 {
        assert_eq!(client.chunk(0).payload.len(), (512 << 10) + 8);
    }
}

#[test]
fn a_single_request_larger_than_the_limit_is_served() {
    let disk = Disk::new("disk", 4 << 20);
    let config = Config { in_flight_bytes_max: 4096, ..Config::default() };
    let (_server, mut client) = connect(std::slice::from_ref(&disk), config);
    client.begin(Style::Structured);
    assert_eq!(client.write(0, 0, &vec![3; 4 << 20]), 0);
    assert_eq!(client.read(0, 1 << 20, 4), Ok(vec![3; 4]));
}

#[test]
fn refusals_count_as_in_flight_until_they_are_read() {
    let (_disk, _server, mut client) = begun(Style::Structured);
    for cookie in 0..5000 {
        client.say_request(999, 0, cookie, 0, 0);
    }
    (0..5000).for_each(|cookie| assert_eq!(client.outcome(cookie), EINVAL));
}

#[test]
fn a_half_closed_client_gets_the_replies_that_are_due() {
    let (disk, server, mut client) = begun(Style::Structured);
    disk.hold();
    client.say_request(READ, 0, 1, 0, 4096);
    client.stream.shutdown(std::net::Shutdown::Write).unwrap();
    disk.await_held(1);
    disk.release_all();
    assert!(client.read_reply(1, 0, 4096).is_ok());
    assert!(client.is_closed());
    server.wait_until_idle();
}

#[test]
fn disc_waits_for_what_is_in_flight() {
    let (disk, _server, mut client) = begun(Style::Structured);
    disk.hold();
    client.say_write(0, 1, 0, b"late");
    client.say_request(DISC, 0, 0, 0, 0);
    disk.await_held(1);
    disk.release_all();
    assert_eq!(client.outcome(1), 0);
    assert!(client.is_closed());
    assert_eq!(disk.bytes(0, 4), b"late");
}

#[test]
fn large_and_small_requests_mix() {
    let disk = Disk::new("disk", 8 << 20);
    let (_server, mut client) = transmit(&disk, Style::Extended);
    for round in 0..40_u64 {
        let large = vec![round as u8; (1 << 20) + round as usize];
        client.say_write(0, 1, 0, &large);
        client.say_write(0, 2, 4 << 20, &[round as u8; 100]);
        client.say_request(READ, 0, 3, 0, large.len() as u64);
        client.say_request(READ, 0, 4, 4 << 20, 100);
        assert_eq!((client.outcome(1), client.outcome(2)), (0, 0));
        assert!(client.read_reply(3, 0, large.len()) == Ok(large));
        assert_eq!(client.read_reply(4, 4 << 20, 100), Ok(vec![round as u8; 100]));
    }
}
