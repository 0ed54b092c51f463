//! The memory for requests, shared by all connections.
//!
//! 1. Connections never take more than there is. A connection that wants more waits, and gets it in
//!    order of arrival.
//! 2. No request is larger than the whole, and no connection waits while it keeps others from
//!    giving back: the longest wait comes to an end.
//! 3. A part is set aside for each connection, and not counted: a connection that holds all the
//!    rest does not hold up small requests.
//! 4. While another client waits, a client may not hold memory for longer than the stall
//!    timeout without an end of a payload or of a reply, however often a byte of it
//!    moves.

#[cfg(test)]
mod tests;

use super::wire::PAYLOAD_BYTES_MAX;
use crate::base::lock::lock;
use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Set aside for each connection, at most: 64 requests of 4 KiB.
const OWN_BYTES_MAX: usize = 256 << 10;
/// Set aside for each connection, at least: 4 requests of 4 KiB.
const OWN_BYTES_MIN: usize = 16 << 10;

/// See the module.
pub struct Budget {
    /// Bytes that connections share.
    bytes_max: usize,
    own_bytes: usize,
    state: Mutex<State>,
    freed: Condvar,
    /// Number of tickets in the queue, for a look without the lock.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct State {
    taken: usize,
    /// Tickets of the threads that wait.
    queue: BTreeSet<u64>,
    tickets: u64,
}

/// A part of a [`Budget`], given back when dropped; perhaps nothing.
#[derive(Default)]
pub struct Share(Option<(Arc<Budget>, usize)>);

impl Budget {
    /// A budget of `bytes` for `connections_max` connections; of the largest request and the least
    /// part of each connection, if that is more.
    pub fn new(bytes: usize, connections_max: usize) -> Arc<Self> {
        let largest = PAYLOAD_BYTES_MAX as usize;
        let bytes = bytes.max(largest + OWN_BYTES_MIN * connections_max);
        let own_bytes = (bytes - largest) / 2 / connections_max.max(1);
        let own_bytes = own_bytes.clamp(OWN_BYTES_MIN, OWN_BYTES_MAX);
        Arc::new(Self {
            bytes_max: bytes - own_bytes * connections_max,
            own_bytes,
            state: Mutex::default(),
            freed: Condvar::new(),
            waiting: AtomicUsize::new(0),
        })
    }

    /// The part of `bytes` more that is not a connection's own, if the connection has `held`
    /// already.
    pub const fn shared_part(&self, held: usize, bytes: usize) -> usize {
        let before = held.saturating_sub(self.own_bytes);
        held.saturating_add(bytes).saturating_sub(self.own_bytes) - before
    }

    /// Takes `bytes`, if they are free and no client waits.
    pub fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Share> {
        if bytes == 0 {
            return Some(Share::default());
        }
        let mut state = lock(&self.state);
        let free = state.queue.is_empty() && self.fits(&state, bytes);
        free.then(|| self.share(&mut state, bytes))
    }

    /// Takes `bytes`, after earlier requests. None once `given_up`, after which [`Self::wake`] must
    /// be called.
    pub fn take(self: &Arc<Self>, bytes: usize, given_up: &AtomicBool) -> Option<Share> {
        if bytes == 0 {
            return Some(Share::default());
        }
        let mut state = lock(&self.state);
        state.tickets += 1;
        let ticket = state.tickets;
        state.queue.insert(ticket);
        self.waiting.store(state.queue.len(), Ordering::Relaxed);
        let waits = |state: &mut State| {
            let next = state.queue.first() == Some(&ticket) && self.fits(state, bytes);
            !next && !given_up.load(Ordering::Relaxed)
        };
        state = self.freed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner);
        state.queue.remove(&ticket);
        self.waiting.store(state.queue.len(), Ordering::Relaxed);
        // There may be something left for the next.
        self.freed.notify_all();
        if given_up.load(Ordering::Relaxed) { None } else { Some(self.share(&mut state, bytes)) }
    }

    fn share(self: &Arc<Self>, state: &mut State, bytes: usize) -> Share {
        state.taken += bytes;
        Share(Some((Arc::clone(self), bytes)))
    }

    /// Wakes the threads that wait, as one of them may have given up.
    pub fn wake(&self) {
        drop(lock(&self.state));
        self.freed.notify_all();
    }

    /// Whether a client waits.
    pub fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    fn fits(&self, state: &State, bytes: usize) -> bool {
        assert!(bytes <= self.bytes_max, "a request for more than the whole budget");
        state.taken + bytes <= self.bytes_max
    }

    fn give_back(&self, bytes: usize) {
        let mut state = lock(&self.state);
        state.taken -= bytes;
        if !state.queue.is_empty() {
            self.freed.notify_all();
        }
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if let Some((budget, bytes)) = self.0.take() {
            budget.give_back(bytes);
        }
    }
}

/// Limits of the time that a client may take.
#[derive(Clone)]
pub struct Patience {
    /// Longest time without a byte of progress.
    pub stall_timeout: Duration,
    /// The budget that others may wait for.
    pub budget: Arc<Budget>,
}

impl Patience {
    /// Checks whether to go on with what began at `since`.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`] if that takes too long and others wait.
    pub fn check(&self, since: Instant) -> io::Result<()> {
        if self.budget.is_wanted() && since.elapsed() > self.stall_timeout {
            let text = "dropped: other clients wait for the memory that this slow client holds";
            return Err(io::Error::new(io::ErrorKind::TimedOut, text));
        }
        Ok(())
    }
}
