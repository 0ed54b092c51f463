//! A pool of as many threads as there is work for.

use super::Shared;
use crate::base::lock::lock;
use quietus_core::erase::policy::Scratch;
use quietus_core::volume::Io;
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Time that an idle worker waits before it leaves, if another one waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// Does queued input and output on threads of its own. One thread waits unless as many as may be
/// are at work: a worker that takes something and leaves no worker idle spawns another one, and a
/// worker that waited in vain leaves if another one waits. So a disk at rest costs one thread,
/// which sleeps, and a slow disk holds up no other disk.
///
/// A worker that finds nothing to do sleeps at once. A channel that polls for a while first would take
/// the processor from the client and from the thread that serves the client, just when both have the
/// reply that the worker has sent.
pub(super) struct ThreadPool {
    name: &'static str,
    /// Niceness of the threads.
    niceness: i32,
    workers_max: usize,
    /// The pool itself, found in its engine.
    of: fn(&Shared) -> &Self,
    state: Mutex<State>,
    /// Signalled when something is queued, and when the workers are to leave.
    queued: Condvar,
}

#[derive(Default)]
struct State {
    /// Input and output to do.
    queue: VecDeque<Io>,
    /// The workers are to leave once the queue is empty.
    closed: bool,
    /// Number of workers.
    all: usize,
    /// Number of workers that have nothing to do.
    waiting: usize,
}

impl ThreadPool {
    pub(super) fn new(
        name: &'static str,
        workers_max: usize,
        niceness: i32,
        of: fn(&Shared) -> &Self,
    ) -> Self {
        Self { name, niceness, workers_max, of, state: Mutex::default(), queued: Condvar::new() }
    }

    pub(super) fn queue(&self, io: Io) {
        lock(&self.state).queue.push_back(io);
        self.queued.notify_one();
    }

    /// Lets every worker leave once nothing is left to do.
    pub(super) fn shut_down(&self) {
        lock(&self.state).closed = true;
        self.queued.notify_all();
    }

    /// Starts a worker if all are busy and there may be one more.
    pub(super) fn spawn(&self, shared: &Arc<Shared>) -> std::io::Result<()> {
        let mut state = lock(&self.state);
        if state.waiting == 0 && state.all < self.workers_max {
            let of = self.of;
            shared.start_thread(self.name, move |shared| of(shared).work(shared))?;
            state.all += 1;
            state.waiting += 1;
        }
        Ok(())
    }

    /// Works until the engine is closed, or the worker is not needed.
    fn work(&self, shared: &Arc<Shared>) {
        if self.niceness != 0 {
            // On Linux each thread has a niceness of its own. Only latency depends on it.
            let _ = rustix::process::nice(self.niceness);
        }
        let mut scratch = Scratch::default();
        while let Some(io) = self.next() {
            if let Err(error) = self.spawn(shared) {
                tracing::debug!(%error, "no further thread can be started");
            }
            shared.work_through(io, &mut scratch);
            lock(&self.state).waiting += 1;
        }
    }

    /// Waits for something to do. None if this worker is to leave, and does not count any more.
    fn next(&self) -> Option<Io> {
        let mut state = lock(&self.state);
        while state.queue.is_empty() {
            let another_waits = state.waiting > 1;
            let patience = if another_waits { PATIENCE } else { Duration::MAX };
            if state.closed {
                return state.leave();
            }
            let waited = self.queued.wait_timeout(state, patience).unwrap_or_else(PoisonError::into_inner);
            let in_vain = waited.1.timed_out();
            state = waited.0;
            if in_vain && state.queue.is_empty() && state.waiting > 1 {
                return state.leave();
            }
        }
        state.waiting -= 1;
        state.queue.pop_front()
    }

    /// Number of workers.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        lock(&self.state).all
    }
}

impl State {
    /// Notes that a worker that waited leaves.
    fn leave(&mut self) -> Option<Io> {
        self.all -= 1;
        self.waiting -= 1;
        None
    }
}
