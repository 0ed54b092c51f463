//! Recurring work of a server, until it stops.

use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Does something every so often, until it is dropped.
pub struct Timer {
    stop: Option<mpsc::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Timer {
    /// Does `body` after the time `first`, and then every so often.
    ///
    /// # Errors
    /// The host has no thread.
    pub fn start(
        name: &str,
        first: Duration,
        every: Duration,
        mut body: impl FnMut() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = mpsc::channel::<()>();
        let run = move || {
            let mut pause = first;
            while stopped.recv_timeout(pause) == Err(mpsc::RecvTimeoutError::Timeout) {
                body();
                pause = every;
            }
        };
        let thread = std::thread::Builder::new().name(name.into()).spawn(run)?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // The thread panicked, and has reported that.
            let _ = thread.join();
        }
    }
}
