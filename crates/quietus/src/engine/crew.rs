//! Workers, as many as there is work for.

use super::Shared;
use crossbeam_channel::{Receiver, Sender, unbounded};
use quietus_core::policy::Scratch;
use quietus_core::volume::Io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a worker waits for something to do before it leaves, if another one waits.
const PATIENCE: Duration = Duration::from_millis(500);

/// Does what is queued, on threads of its own. One of them waits unless all that
/// there may be are at work: who takes something and leaves nobody waiting calls
/// another one, and who waited in vain leaves if another one waits. So a disk at
/// rest costs one thread, which sleeps, and one that is slow holds up no other disk.
pub(super) struct Crew {
    name: &'static str,
    /// How much its threads give way to others.
    niceness: i32,
    workers_max: usize,
    /// Which of an engine's crews it is.
    of: fn(&Shared) -> &Self,
    /// Nothing is for whoever takes it to leave.
    sender: Sender<Option<Io>>,
    queue: Receiver<Option<Io>>,
    workers: Mutex<Workers>,
}

#[derive(Default)]
struct Workers {
    all: usize,
    waiting: usize,
}

impl Crew {
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

    /// Lets everybody go once there is nothing left to do.
    pub(super) fn dismiss(&self) {
        self.send(None);
    }

    fn send(&self, message: Option<Io>) {
        // The receiver goes with the sender.
        let _ = self.sender.send(message);
    }

    /// Makes sure that somebody waits, if there may be one more.
    pub(super) fn call(&self, shared: &Arc<Shared>) -> std::io::Result<()> {
        let mut workers = self.workers();
        if workers.waiting == 0 && workers.all < self.workers_max {
            let of = self.of;
            shared.start_thread(self.name, move |shared| of(shared).work(shared))?;
            workers.all += 1;
            workers.waiting += 1;
        }
        Ok(())
    }

    /// Works until the engine is closed, or nobody is needed.
    fn work(&self, shared: &Arc<Shared>) {
        if self.niceness != 0 {
            // On Linux that is this thread's own. Nothing depends on it but latency.
            let _ = rustix::process::nice(self.niceness);
        }
        let mut scratch = Scratch::default();
        while let Some(message) = self.next() {
            let Some(io) = message else {
                // The others are to leave too, and what was queued meanwhile is done first.
                let is_done = self.queue.is_empty();
                self.dismiss();
                if is_done {
                    return;
                }
                continue;
            };
            self.workers().waiting -= 1;
            if let Err(error) = self.call(shared) {
                tracing::debug!(%error, "no further thread can be started");
            }
            shared.work_through(io, &mut scratch);
            self.workers().waiting += 1;
        }
    }

    /// Waits for the next message. None if this one has left, as another one waits.
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

    /// Whether another one waits; then this one has left.
    fn is_one_too_many(&self) -> bool {
        let mut workers = self.workers();
        let another = workers.waiting > 1;
        if another {
            workers.all -= 1;
            workers.waiting -= 1;
        }
        another
    }

    /// How many there are.
    #[cfg(test)]
    pub(super) fn size(&self) -> usize {
        self.workers().all
    }

    fn workers(&self) -> MutexGuard<'_, Workers> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
