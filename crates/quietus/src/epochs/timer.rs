//! Closes epochs in time.

use super::close;
use crate::engine::Engine;
use std::sync::{Arc, mpsc};
use std::thread::JoinHandle;
use std::time::Duration;

/// Closes an epoch of a disk every so often, until it is dropped. Without a change there is no epoch.
pub struct Timer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    /// Closes an epoch of `engine` every `ms` milliseconds.
    ///
    /// # Errors
    /// The host has no thread.
    pub fn start(engine: Arc<Engine>, ms: u64) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let body = move || {
            let every = Duration::from_millis(ms);
            while stopped.recv_timeout(every) == Err(mpsc::RecvTimeoutError::Timeout) {
                if let Err(refusal) = close(&engine) {
                    tracing::warn!(%refusal, "cannot close the epoch; trying again in {every:?}");
                }
            }
        };
        let thread = std::thread::Builder::new().name("epochs".into()).spawn(body)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // It panicked, and said so.
            let _ = thread.join();
        }
    }
}
