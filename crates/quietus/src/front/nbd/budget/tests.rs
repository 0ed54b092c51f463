use super::*;
use std::thread::{self, JoinHandle};

const LARGEST: usize = PAYLOAD_BYTES_MAX as usize;

fn never() -> Arc<AtomicBool> {
    Arc::default()
}

/// A taker of so many bytes, on a thread of its own.
fn taker(budget: &Arc<Budget>, bytes: usize, given_up: &Arc<AtomicBool>) -> JoinHandle<Option<Share>> {
    let (budget, given_up) = (Arc::clone(budget), Arc::clone(given_up));
    thread::spawn(move || budget.take(bytes, &given_up))
}

fn await_waiters(budget: &Budget, count: usize) {
    while budget.waiting.load(Ordering::Relaxed) != count {
        thread::yield_now();
    }
}

#[test]
fn the_largest_request_always_fits() {
    for (bytes, connections) in [(0, 0), (1, 1), (LARGEST, 256), (1 << 30, 256), (1 << 30, 1 << 20)] {
        let budget = Budget::new(bytes, connections);
        assert!(budget.try_take(LARGEST).is_some(), "{bytes} for {connections}");
        let least = LARGEST + OWN_BYTES_MIN * connections;
        assert!(budget.bytes_max + budget.own_bytes * connections <= bytes.max(least));
    }
}

#[test]
fn what_is_set_aside_is_not_shared() {
    let budget = Budget::new(1 << 30, 256);
    assert_eq!(budget.own_bytes, OWN_BYTES_MAX);
    assert_eq!(budget.shared_part(0, OWN_BYTES_MAX), 0);
    assert_eq!(budget.shared_part(OWN_BYTES_MAX, 5), 5);
    assert_eq!(budget.shared_part(OWN_BYTES_MAX - 1, 5), 4);
    assert_eq!(budget.shared_part(0, OWN_BYTES_MAX + 7), 7);
}

#[test]
fn a_connection_that_holds_everything_leaves_others_their_part_however_little_there_is() {
    for bytes in [1 << 20, LARGEST, 65 << 20, 70 << 20] {
        let budget = Budget::new(bytes, 256);
        assert_eq!(budget.shared_part(0, 4 * 4096), 0, "{bytes}");
    }
}

#[test]
fn who_waits_first_is_served_first_however_much_it_wants() {
    let budget = Budget::new(LARGEST, 0);
    let share = budget.try_take(1).unwrap();
    let large = taker(&budget, LARGEST, &never());
    await_waiters(&budget, 1);
    assert!(budget.is_wanted());
    assert!(budget.try_take(1).is_none(), "another client waits");
    let small = taker(&budget, 1, &never());
    await_waiters(&budget, 2);
    drop(share);
    let large = large.join().unwrap();
    assert!(!small.is_finished());
    drop(large);
    assert!(small.join().unwrap().is_some());
    assert!(!budget.is_wanted());
}

#[test]
fn who_gives_up_lets_the_next_one_through() {
    let budget = Budget::new(LARGEST, 0);
    let _share = budget.try_take(1).unwrap();
    let given_up = never();
    let large = taker(&budget, LARGEST, &given_up);
    await_waiters(&budget, 1);
    let small = taker(&budget, 1, &never());
    await_waiters(&budget, 2);
    given_up.store(true, Ordering::Relaxed);
    budget.wake();
    assert!(large.join().unwrap().is_none());
    assert!(small.join().unwrap().is_some());
}

#[test]
fn patience_ends_only_while_a_client_waits() {
    let budget = Budget::new(LARGEST, 0);
    let patience = Patience { stall_timeout: Duration::ZERO, budget: Arc::clone(&budget) };
    let since = Instant::now() - Duration::from_secs(1);
    assert!(patience.check(since).is_ok());
    let share = budget.try_take(LARGEST).unwrap();
    let waiter = taker(&budget, 1, &never());
    await_waiters(&budget, 1);
    assert_eq!(patience.check(since).unwrap_err().kind(), io::ErrorKind::TimedOut);
    let patient = Patience { stall_timeout: Duration::from_secs(3600), budget };
    assert!(patient.check(since).is_ok());
    drop(share);
    assert!(waiter.join().unwrap().is_some());
}
