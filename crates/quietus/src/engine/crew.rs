//! Workers, as many as there is work for.

use super::Shared;
use crossbeam_channel::{Receiver, Sender, unbounded};
use quietus_core::policy::Scratch;
use quietus_core::volume::Io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long a worker waits for something to do before it may leave.
const PATIENCE: Duration = Duration::from_millis(500);

/// Does what is queued, on threads of its own. One of them waits unless all that
/// there may be are at work: who takes something and leaves nobody waiting calls
/// another one, and who waited in vain leaves if another one waits. So a disk at
/// rest costs one thread, and one that is slow holds up no other disk.
pub(super) struct Crew {
    name: &'static str,
    /// How much its threads give way to others.
    niceness: i32,
    workers_max: usize,
    /// Which of an engine's crews it is.
    of: fn(&Shared) -> &Self,
    sender: Sender<Io>,
    queue: Receiver<Io>,
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
        // It is only gone when this is.
        let _ = self.sender.send(io);
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
        loop {
            if let Ok(io) = self.queue.recv_timeout(PATIENCE) {
                self.workers().waiting -= 1;
                if let Err(error) = self.call(shared) {
                    tracing::debug!(%error, "no further thread can be started");
                }
                shared.work_through(io, &mut scratch);
                self.workers().waiting += 1;
            } else if shared.lock().closed || self.is_one_too_many() {
                return;
            }
        }
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
