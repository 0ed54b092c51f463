//! Everything in flight on a connection: requests that have no outcome yet, and replies that are
//! not sent yet.
//!
//! 1. A request is in flight from its admission until the last byte of its
//!    reply is sent. The receiving thread waits while too many are, or too many
//!    bytes of payload.
//! 2. One thread at a time sends: a thread that has a reply while no other one is sending.
//!    It takes along replies that others bring meanwhile, and never waits: what the
//!    socket does not take goes to the connection's relief thread. So does what
//!    is long to copy, while the receiving thread has other requests to see to.
//! 3. The receiving thread holds back its own replies while more requests lie in
//!    its buffer, and sends them together. It flushes before it waits for
//!    anything.
//! 4. Once ended, nothing is sent, and outcomes are dropped.
//! 5. Buffers come home to the receiving thread, which hands them on to the
//!    next request.
//! 6. What a request holds of the server's [`Budget`] goes back with its payload:
//!    when the reply is sent, or dropped, and not before the outcome is there.

mod batch;
#[cfg(test)]
mod tests;

use super::budget::{Budget, Patience, Share};
use super::transport::channel::Channel;
use super::wire::reply::{Errno, ReplyFor};
use crate::base::buffers::{self, Kept};
use crate::base::lock::lock;
use crate::engine::export::Sink;
use batch::{Batch, Message, Progress};
use quietus_core::request::{Outcome, Refusal, Reply};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

/// Most requests in flight on a connection.
pub const REQUESTS_MAX: usize = 128;
/// Replies that the receiving thread holds back, at most.
const HELD_BACK_MAX: usize = 16;
/// Bytes of replies that the receiving thread holds back, at most.
const HELD_BACK_BYTES_MAX: usize = 64 << 10;
/// Bytes of replies that the receiving thread, if busy, leaves to another.
const RELIEVED_BYTES_MIN: usize = 256 << 10;
/// Longest wait at once for something to be sent.
const IDLE_CHECK: Duration = Duration::from_secs(3600);

/// Facts that the reply to a request needs.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Address of the reply.
    pub to: ReplyFor,
    /// Bytes that the reply must carry, if it is a success.
    pub read_bytes: usize,
    /// Bytes of memory that the request takes, at most.
    pub charge: usize,
}

/// See the module.
pub struct Outbox {
    channel: Arc<Channel>,
    receiver: ThreadId,
    bytes_max: usize,
    patience: Patience,
    draining: AtomicBool,
    more: AtomicBool,
    /// The receiving thread waits for the server's memory.
    starved: AtomicBool,
    /// The connection has ended; for threads that wait for the server's memory.
    gone: AtomicBool,
    state: Mutex<State>,
    /// Signalled when something is sent, and at the end.
    sent: Condvar,
    /// Signalled when there is work for the relief thread, and at the end.
    stuck: Condvar,
    me: Weak<Self>,
}

#[derive(Default)]
struct State {
    slots: Vec<Slot>,
    free: Vec<usize>,
    requests: usize,
    bytes: usize,
    queue: Vec<Message>,
    queued_bytes: usize,
    /// An empty list, kept for its memory.
    spare: Vec<Message>,
    sending: bool,
    stuck: Option<Batch>,
    relief: Option<JoinHandle<()>>,
    homing: Kept,
    /// Number of threads that wait for something to be sent.
    waiters: usize,
    /// The client has made a request.
    has_begun: bool,
    ended: bool,
}

/// Where a request waits for its outcome. A second outcome finds another
/// generation, and is dropped.
#[derive(Default)]
struct Slot {
    generation: u32,
    pending: Option<(Pending, Share)>,
}

impl Outbox {
    /// An outbox for `channel`, with the present thread as the receiving one.
    pub fn new(channel: Arc<Channel>, bytes_max: usize, patience: Patience) -> Arc<Self> {
        let state = State {
            slots: std::iter::repeat_with(Slot::default).take(REQUESTS_MAX).collect(),
            free: (0..REQUESTS_MAX).collect(),
            ..State::default()
        };
        Arc::new_cyclic(|me| Self {
            channel,
            receiver: thread::current().id(),
            bytes_max,
            patience,
            draining: AtomicBool::new(false),
            more: AtomicBool::new(false),
            starved: AtomicBool::new(false),
            gone: AtomicBool::new(false),
            state: Mutex::new(state),
            sent: Condvar::new(),
            stuck: Condvar::new(),
            me: me.clone(),
        })
    }

    /// Begins a request, when there is room for it, and returns the cookie under
    /// which its outcome is due. None if the connection has ended.
    pub fn admit(&self, pending: Pending) -> Option<u64> {
        let mut state = lock(&self.state);
        let mut share = None;
        if state.has_room(pending.charge, self.bytes_max) {
            share = self.budget().try_take(self.budget().shared_part(state.bytes, pending.charge));
        }
        if share.is_none() {
            drop(state);
            share = self.await_room(pending.charge);
            state = lock(&self.state);
        }
        state.homing.hand_over();
        if state.ended { None } else { share.map(|share| state.begin(pending, share)) }
    }

    fn budget(&self) -> &Arc<Budget> {
        &self.patience.budget
    }

    /// Waits for room on the connection, and then in the server's memory.
    fn await_room(&self, charge: usize) -> Option<Share> {
        self.flush();
        let mut state = lock(&self.state);
        while !state.ended && !state.has_room(charge, self.bytes_max) {
            state = self.await_sent(state, IDLE_CHECK);
        }
        // The part can only become less, as only this thread begins requests.
        let wanted = self.budget().shared_part(state.bytes, charge);
        drop(state);
        self.starved.store(true, Ordering::Relaxed);
        let share = self.budget().take(wanted, &self.gone);
        self.starved.store(false, Ordering::Relaxed);
        share
    }

    /// Answers request `cookie` with a refusal.
    pub fn refuse(&self, cookie: u64, errno: Errno, text: &str) {
        self.settle(cookie, |it| it.to.error(errno, text).into());
    }

    /// Answers request `cookie` with `data`, a whole reply.
    pub fn tell(&self, cookie: u64, data: Vec<u8>) {
        self.settle(cookie, |_| Message::new(None, data));
    }

    /// Answers request `cookie` with success, without data.
    pub fn done(&self, cookie: u64) {
        self.settle(cookie, |it| Message::returning(it.to.done(), Vec::new()));
    }

    fn settle(&self, cookie: u64, encode: impl FnOnce(&Pending) -> Message) {
        let mut state = lock(&self.state);
        let Some((pending, share)) = state.end(cookie) else { return };
        let message = encode(&pending).charged(pending.charge, share);
        state.queued_bytes += message.len();
        state.queue.push(message);
        let (replies, bytes) = (state.queue.len(), state.queued_bytes);
        drop(state);
        if !self.is_receiver() {
            self.flush();
        } else if bytes >= RELIEVED_BYTES_MIN && self.more.load(Ordering::Relaxed) {
            self.leave_to_relief();
        } else if replies >= HELD_BACK_MAX || bytes >= HELD_BACK_BYTES_MAX {
            self.flush();
        }
    }

    /// Tells whether the receiving thread has more requests at hand.
    pub fn expect_more(&self, more: bool) {
        self.more.store(more, Ordering::Relaxed);
    }

    fn leave_to_relief(&self) {
        let claimed = lock(&self.state).claim();
        if let Some(batch) = claimed {
            self.relieve(batch);
        }
    }

    fn is_receiver(&self) -> bool {
        thread::current().id() == self.receiver
    }

    /// Sends what is queued, or leaves it to the thread that is sending.
    pub fn flush(&self) {
        let claimed = lock(&self.state).claim();
        let Some(mut batch) = claimed else { return };
        loop {
            match batch.send(&self.channel) {
                Ok(Progress::All) if self.next(&mut batch) => {}
                Ok(Progress::All) => return,
                Ok(Progress::Stuck) => return self.relieve(batch),
                Err(_) => return self.fail(),
            }
        }
    }

    /// Accounts for what `batch` sent, and refills it. False when all is sent; then the present
    /// thread is no longer the sender.
    fn next(&self, batch: &mut Batch) -> bool {
        let mut state = lock(&self.state);
        self.account(&mut state, batch);
        std::mem::swap(&mut batch.messages, &mut state.queue);
        state.queued_bytes = 0;
        state.sending = !batch.messages.is_empty() && !state.ended;
        if !state.sending {
            state.spare = std::mem::take(&mut batch.messages);
            state.spare.clear();
        }
        state.sending
    }

    /// Returns how many replies were sent.
    fn account(&self, state: &mut State, batch: &mut Batch) -> usize {
        let sent = batch.take_sent();
        state.requests = state.requests.saturating_sub(sent.requests);
        state.bytes = state.bytes.saturating_sub(sent.charge);
        if self.is_receiver() {
            sent.buffers.for_each(buffers::give);
        } else {
            sent.buffers.for_each(|buf| state.homing.give(buf));
        }
        // A signal costs a call of the kernel, whether a thread listens or not.
        if sent.requests > 0 && state.waiters > 0 {
            self.sent.notify_all();
        }
        sent.requests
    }

    /// Leaves `batch`, and the sending, to the relief thread.
    fn relieve(&self, mut batch: Batch) {
        let mut state = lock(&self.state);
        self.account(&mut state, &mut batch);
        state.stuck = Some(batch);
        if state.relief.is_none() {
            state.relief = self.spawn_relief();
        }
        let spawned = state.relief.is_some();
        drop(state);
        if spawned { self.stuck.notify_one() } else { self.fail() }
    }

    fn spawn_relief(&self) -> Option<JoinHandle<()>> {
        let me = self.me.upgrade()?;
        thread::Builder::new().name("nbd-send".into()).spawn(move || me.run_relief()).ok()
    }

    fn run_relief(&self) {
        while let Some(mut batch) = self.await_stuck() {
            if self.send_patiently(&mut batch).is_err() {
                self.fail();
            }
        }
    }

    fn await_stuck(&self) -> Option<Batch> {
        let waits = |state: &mut State| state.stuck.is_none() && !state.ended;
        let mut state =
            self.stuck.wait_while(lock(&self.state), waits).unwrap_or_else(PoisonError::into_inner);
        if state.ended { None } else { state.stuck.take() }
    }

    fn send_patiently(&self, batch: &mut Batch) -> std::io::Result<()> {
        let mut since = Instant::now();
        loop {
            match batch.send(&self.channel)? {
                Progress::All if self.next(batch) => since = Instant::now(),
                Progress::All => return Ok(()),
                Progress::Stuck => {
                    if self.account(&mut lock(&self.state), batch) > 0 {
                        since = Instant::now();
                    }
                    self.patience.check(since)?;
                    self.channel.socket().wait_to_send(self.patience.stall_timeout)?;
                }
            }
        }
    }

    /// Refuses requests from now on, as the server is being stopped.
    pub fn drain(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// Whether requests are to be refused.
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// Number of requests in flight.
    pub fn in_flight(&self) -> usize {
        lock(&self.state).requests
    }

    /// Whether there ever was a request.
    pub fn has_begun(&self) -> bool {
        lock(&self.state).has_begun
    }

    /// Whether the next request waits for the server's memory.
    pub fn is_starved(&self) -> bool {
        self.starved.load(Ordering::Relaxed)
    }

    /// Waits until nothing is in flight, until `deadline` at most.
    pub fn wait_until_idle(&self, deadline: Option<Instant>) {
        self.flush();
        let mut state = lock(&self.state);
        while state.requests > 0 && !state.ended {
            let left = deadline.map_or(Duration::MAX, |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return;
            }
            state = self.await_sent(state, left.min(IDLE_CHECK));
        }
    }

    /// Waits until something is sent, at the end, or for `most`.
    fn await_sent<'a>(&self, mut state: MutexGuard<'a, State>, most: Duration) -> MutexGuard<'a, State> {
        state.waiters += 1;
        let waited = self.sent.wait_timeout(state, most);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner).0;
        state.waiters -= 1;
        state
    }

    /// Sends nothing more when nothing is in flight; at the `deadline`, cuts off what is. The
    /// connection ends when the client hangs up too.
    pub fn finish(&self, deadline: Instant) {
        self.wait_until_idle(Some(deadline));
        let idle = {
            let mut state = lock(&self.state);
            state.ended |= state.requests == 0;
            state.requests == 0
        };
        if idle {
            self.channel.hang_up(deadline.saturating_duration_since(Instant::now()));
        } else {
            self.fail();
        }
    }

    /// Ends the connection at once.
    pub fn fail(&self) {
        let mut state = lock(&self.state);
        state.ended = true;
        (state.requests, state.bytes) = (0, 0);
        state.queue.clear();
        state.stuck = None;
        drop(state);
        self.gone.store(true, Ordering::Relaxed);
        self.channel.socket().shutdown();
        self.sent.notify_all();
        self.stuck.notify_all();
        self.budget().wake();
    }

    /// Ends the connection, and waits for its relief thread. The receiving thread calls this last.
    pub fn close(&self) {
        let idle = lock(&self.state).requests == 0;
        if idle && !self.gone.load(Ordering::Relaxed) {
            self.channel.close(self.patience.stall_timeout);
        }
        self.fail();
        let relief = lock(&self.state).relief.take();
        if let Some(relief) = relief {
            // The thread has nothing to return.
            let _ = relief.join();
        }
    }
}

impl Sink for Outbox {
    fn reply(&self, cookie: u64, outcome: Outcome) {
        self.settle(cookie, |pending| match outcome.map(Reply::into_buf) {
            Err(refusal) => {
                let text = refusal.to_string();
                pending.to.error(errno(&refusal), &text).into()
            }
            Ok(buf) if pending.read_bytes == 0 => Message::returning(pending.to.done(), buf.into_memory()),
            Ok(buf) if buf.len() == pending.read_bytes => {
                Message::new(Some(pending.to.data(buf.len())), buf.into_vec())
            }
            Ok(_) => pending.to.error(Errno::EIO, "the disk returned another number of bytes").into(),
        });
    }
}

const fn errno(refusal: &Refusal) -> Errno {
    match refusal {
        Refusal::ReadOnly | Refusal::Restoring => Errno::EPERM,
        Refusal::Latched(_)
        | Refusal::Io(_)
        | Refusal::Unauthentic(_)
        | Refusal::Forgotten(_)
        | Refusal::ForgottenBlocks(..) => Errno::EIO,
        Refusal::Invalid(_) | Refusal::Current(..) | Refusal::Shared(..) => Errno::EINVAL,
        Refusal::NoSpace(_) => Errno::ENOSPC,
        Refusal::NotSupported(_) => Errno::ENOTSUP,
        Refusal::ShuttingDown => Errno::ESHUTDOWN,
    }
}

impl State {
    const fn has_room(&self, charge: usize, bytes_max: usize) -> bool {
        let bytes_fit = self.bytes == 0 || self.bytes.saturating_add(charge) <= bytes_max;
        self.requests < REQUESTS_MAX && bytes_fit
    }

    /// The part of `budget` that `charge` more bytes take.
    fn begin(&mut self, pending: Pending, share: Share) -> u64 {
        self.has_begun = true;
        self.requests += 1;
        self.bytes += pending.charge;
        let index = self.free.pop().expect("there are as many slots as requests");
        let slot = &mut self.slots[index];
        slot.pending = Some((pending, share));
        (u64::from(slot.generation) << 32) | index as u64
    }

    /// Ends the wait of the request under `cookie`, and returns the request.
    fn end(&mut self, cookie: u64) -> Option<(Pending, Share)> {
        let index = (cookie & u64::from(u32::MAX)) as usize;
        let slot = self.slots.get_mut(index).filter(|slot| u64::from(slot.generation) == cookie >> 32)?;
        let pending = slot.pending.take()?;
        slot.generation = slot.generation.wrapping_add(1);
        self.free.push(index);
        (!self.ended).then_some(pending)
    }

    fn claim(&mut self) -> Option<Batch> {
        if self.sending || self.ended || self.queue.is_empty() {
            return None;
        }
        self.sending = true;
        self.queued_bytes = 0;
        let spare = std::mem::take(&mut self.spare);
        Some(Batch::new(std::mem::replace(&mut self.queue, spare)))
    }
}
