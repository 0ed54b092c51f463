use super::*;
use crate::front::nbd::transport::socket::Socket;
use crate::front::nbd::wire::PAYLOAD_BYTES_MAX;
use crate::front::nbd::wire::request::Style;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

const PATIENT: Duration = Duration::from_secs(30);

fn outbox(bytes_max: usize, stall_timeout: Duration) -> (Arc<Outbox>, UnixStream) {
    outbox_of(bytes_max, stall_timeout, &Budget::new(1 << 30, 1))
}

fn outbox_of(bytes_max: usize, stall_timeout: Duration, budget: &Arc<Budget>) -> (Arc<Outbox>, UnixStream) {
    let (ours, theirs) = UnixStream::pair().unwrap();
    ours.set_read_timeout(Some(PATIENT)).unwrap();
    let channel = Channel::plain(Arc::new(Socket::new(theirs.into()).unwrap()));
    let patience = Patience { stall_timeout, budget: Arc::clone(budget) };
    (Outbox::new(Arc::new(channel), bytes_max, patience), ours)
}

fn pending(cookie: u64, read_bytes: usize) -> Pending {
    Pending { to: ReplyFor { style: Style::Simple, cookie, offset: 0 }, read_bytes, charge: read_bytes }
}

fn hear(client: &mut UnixStream, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    client.read_exact(&mut bytes).unwrap();
    bytes
}

fn nothing_waits(client: &UnixStream) -> bool {
    client.set_nonblocking(true).unwrap();
    let nothing =
        (&*client).read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock);
    client.set_nonblocking(false).unwrap();
    nothing
}

#[test]
fn the_receiver_holds_its_replies_back_until_it_flushes() {
    let (outbox, mut client) = outbox(1 << 20, PATIENT);
    for cookie in 0..3 {
        let ours = outbox.admit(pending(cookie, 0)).unwrap();
        outbox.reply(ours, Ok(Vec::new().into()));
    }
    assert!(nothing_waits(&client));
    outbox.flush();
    assert_eq!(hear(&mut client, 48)[32 + 8..], 2u64.to_be_bytes());
    assert_eq!(outbox.in_flight(), 0);
}

#[test]
fn a_second_outcome_of_a_request_is_dropped() {
    let (outbox, mut client) = outbox(1 << 20, PATIENT);
    let first = outbox.admit(pending(1, 0)).unwrap();
    outbox.reply(first, Ok(Vec::new().into()));
    let second = outbox.admit(pending(2, 0)).unwrap();
    outbox.reply(first, Err(Refusal::ReadOnly));
    outbox.reply(second, Ok(Vec::new().into()));
    outbox.reply(u64::MAX, Ok(Vec::new().into()));
    outbox.flush();
    assert_eq!(hear(&mut client, 32)[16 + 4..], [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2]);
    assert!(nothing_waits(&client));
}

#[test]
fn a_read_of_another_length_is_an_error() {
    let (outbox, mut client) = outbox(1 << 20, PATIENT);
    let ours = outbox.admit(pending(1, 5)).unwrap();
    outbox.reply(ours, Ok(b"four".to_vec().into()));
    outbox.flush();
    assert_eq!(hear(&mut client, 16)[4..8], (Errno::EIO as u32).to_be_bytes());
}

#[test]
fn a_stalled_client_ends_the_connection_and_wakes_who_waits() {
    let (outbox, _client) = outbox(32 << 20, Duration::from_secs(2));
    let mut admitted = 0;
    while let Some(ours) = outbox.admit(pending(admitted, 4 << 20)) {
        outbox.reply(ours, Ok(vec![0; 4 << 20].into()));
        admitted += 1;
    }
    assert!(admitted >= 8);
    outbox.close();
}

/// A taker that waits in `budget`, all of which is to be free for it.
fn waiter(budget: &Arc<Budget>) -> JoinHandle<bool> {
    let there = Arc::clone(budget);
    let waiter = thread::spawn(move || there.take(LARGEST, &AtomicBool::new(false)).is_some());
    while !budget.is_wanted() {
        thread::yield_now();
    }
    waiter
}

const LARGEST: usize = PAYLOAD_BYTES_MAX as usize;

#[test]
fn a_reply_that_is_taken_slowly_is_given_up_when_others_want_the_memory() {
    let budget = Budget::new(LARGEST, 1);
    let (outbox, client) = outbox_of(1 << 30, Duration::from_millis(200), &budget);
    client.set_read_timeout(None).unwrap();
    let slow = thread::spawn(move || {
        let mut taken = 0;
        while let Ok(len @ 1..) = (&client).read(&mut [0; 64 << 10]) {
            thread::sleep(Duration::from_millis(4));
            taken += len;
        }
        taken
    });
    let ours = outbox.admit(pending(1, LARGEST)).unwrap();
    outbox.reply(ours, Ok(vec![0; LARGEST].into()));
    outbox.flush();
    assert!(waiter(&budget).join().unwrap());
    assert!(slow.join().unwrap() < LARGEST);
    outbox.close();
}

#[test]
fn memory_is_held_until_the_outcome_even_if_the_client_is_gone() {
    let budget = Budget::new(LARGEST, 1);
    let (outbox, _client) = outbox_of(1 << 30, PATIENT, &budget);
    let ours = outbox.admit(pending(1, LARGEST)).unwrap();
    outbox.fail();
    assert!(budget.try_take(LARGEST).is_none());
    outbox.reply(ours, Ok(vec![0; LARGEST].into()));
    assert!(budget.try_take(LARGEST).is_some());
}

#[test]
fn the_end_wakes_who_waits_for_memory() {
    let budget = Budget::new(LARGEST, 1);
    let share = budget.try_take(LARGEST).unwrap();
    let (there, from) = std::sync::mpsc::channel();
    let (of, wakes) = (Arc::clone(&budget), Arc::clone(&budget));
    let receiver = thread::spawn(move || {
        let (outbox, client) = outbox_of(1 << 30, PATIENT, &of);
        there.send((Arc::clone(&outbox), client)).unwrap();
        outbox.admit(pending(1, LARGEST)).is_none()
    });
    let (outbox, _client) = from.recv().unwrap();
    while !(wakes.is_wanted() && outbox.is_starved()) {
        thread::yield_now();
    }
    outbox.fail();
    assert!(receiver.join().unwrap());
    assert!(!budget.is_wanted());
    drop(share);
}

#[test]
fn buffers_come_home_to_the_receiver() {
    let (outbox, mut client) = outbox(1 << 20, PATIENT);
    let ours = outbox.admit(pending(1, 3000)).unwrap();
    let mut sent = Vec::with_capacity(123_456);
    sent.resize(3000, 7);
    let there = Arc::clone(&outbox);
    thread::spawn(move || there.reply(ours, Ok(sent.into()))).join().unwrap();
    hear(&mut client, 3016);
    assert!(outbox.admit(pending(2, 0)).is_some());
    assert_eq!(buffers::take(100_000).capacity(), 123_456);
}

#[test]
fn a_finished_client_hears_its_replies_and_may_still_speak() {
    let (outbox, mut client) = outbox(1 << 20, PATIENT);
    let ours = outbox.admit(pending(1, 5)).unwrap();
    outbox.reply(ours, Ok(b"hello".to_vec().into()));
    outbox.finish(Instant::now() + PATIENT);
    assert!(outbox.admit(pending(2, 0)).is_none());
    client.write_all(b"late").unwrap();
    assert_eq!(hear(&mut client, 21)[16..], *b"hello");
    assert_eq!(client.read(&mut [0]).unwrap(), 0);
    drop(client);
    outbox.close();
}
