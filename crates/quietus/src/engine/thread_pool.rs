//! A pool of as many threads as there is work for.

use super::Shared;
use crossbeam_channel::{Receiver, Sender, unbounded};
use quietus_core::policy::Scratch;
use quietus_core::volume::Io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Time that an idle worker waits before it leaves, if another one waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// Does queued input and output on threads of its own. One thread waits unless as many as may be
/// are at work: a worker that takes something and leaves nobody waiting spawns another one, and a
/// worker that waited in vain leaves if another one waits. So a disk at rest costs one thread,
/// which sleeps, and a slow disk holds up no other disk.
pub(super) struct ThreadPool {
    name: &'static str,
    /// Niceness of the threads.
    niceness: i32,
    workers_max: usize,
    /// The pool itself, found in its engine.
    of: fn(&Shared) -> &Self,
    /// Input and output to do; none tells the worker that takes it to leave.
    sender: Sender<Option<Io>>,
    queue: Receiver<Option<Io>>,
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    all: usize,
    waiting: usize,
}

impl ThreadPool {
    pub(super) fn new(
        name: &'static str,
        workers_max: usize,
        niceness: i32,
        of: fn(&Shared) -> &Self,
    ) -> Self {
        let (sender, queue) = unbounded();
        Self { name, niceness, workers_max, of, sender, queue, workers: Mutex::default() }
    }

    pub(super) fn queue(&self, io: Io) {
        self.send(Some(io));
    }

    /// Lets every worker leave once nothing is left to do.
    pub(super) fn shut_down(&self) {
        self.send(None);
    }

    fn send(&self, message: Option<Io>) {
        // The receiver goes with the sender.
        let _ = self.sender.send(message);
    }

    /// Starts a worker if none waits and there may be one more.
    pub(super) fn spawn(&self, shared: &Arc<Shared>) -> std::io::Result<()> {
        let mut workers = self.workers();
        if workers.waiting == 0 && workers.all < self.workers_max {
            let of = self.of;
            shared.start_thread(self.name, move |shared| of(shared).work(shared))?;
            workers.all += 1;
            workers.waiting += 1;
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
        while let Some(message) = self.next() {
            let Some(io) = message else {
                // The others are to leave too, after anything that was queued meanwhile.
                let is_done = self.queue.is_empty();
                self.shut_down();
                if is_done {
                    return;
                }
                continue;
            };
            self.workers().waiting -= 1;
            if let Err(error) = self.spawn(shared) {
                tracing::debug!(%error, "no further thread can be started");
            }
            shared.work_through(io, &mut scratch);
            self.workers().waiting += 1;
        }
    }

    /// Waits for the next message. None if this worker has left, as another one waits.
    fn next(&self) -> Option<Option<Io>> {
        while self.workers().waiting > 1 {
            match self.queue.recv_timeout(PATIENCE) {
                Ok(message) => return Some(message),
                Err(_) if self.is_one_too_many() => return None,
                Err(_) => {}
            }
        }
        self.queue.recv().ok()
    }

    /// Whether another worker waits; then this one has left.
    fn is_one_too_many(&self) -> bool {
        let mut workers = self.workers();
        let another = workers.waiting > 1;
        if another {
            workers.all -= 1;
            workers.waiting -= 1;
        }
        another
    }

    /// Number of workers.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.workers().all
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
