//! Ctrl-C and SIGTERM: the first one asks a command to stop in good order, the
//! second one ends the program, which is safe because every file is consistent at
//! any time.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::{SIGINT, SIGTERM};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Whether the program was asked to stop.
pub(super) struct Stop {
    asked: Arc<AtomicBool>,
    /// Becomes readable with the first signal, and stays readable.
    wake: UnixStream,
}

static STOP: OnceLock<Stop> = OnceLock::new();

impl Stop {
    /// The flag of the process. From the first call on, a signal does not end the program but asks
    /// it to stop.
    pub(super) fn get() -> io::Result<&'static Self> {
        if let Some(stop) = STOP.get() {
            return Ok(stop);
        }
        let (ours, theirs) = UnixStream::pair()?;
        let stop = STOP.get_or_init(|| Self { asked: Arc::default(), wake: ours });
        for signal in [SIGINT, SIGTERM] {
            signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop.asked))?;
            signal_hook::flag::register(signal, Arc::clone(&stop.asked))?;
            signal_hook::low_level::pipe::register(signal, theirs.try_clone()?)?;
        }
        Ok(stop)
    }

    /// Whether a signal has asked the process to stop.
    pub(super) fn was_asked() -> bool {
        STOP.get().is_some_and(Self::is_asked)
    }

    pub(super) fn is_asked(&self) -> bool {
        self.asked.load(Ordering::Relaxed)
    }

    /// Waits until `input` can be read; returns false if a signal comes first.
    pub(super) fn wait_for(&self, input: &impl AsFd) -> io::Result<bool> {
        loop {
            let mut fds = [PollFd::new(&self.wake, PollFlags::IN), PollFd::new(input, PollFlags::IN)];
            match poll(&mut fds, None) {
                _ if self.is_asked() => return Ok(false),
                Ok(_) if !fds[1].revents().is_empty() => return Ok(true),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
    }

    /// Sleeps for `time`, or until a signal; returns whether to go on.
    pub(super) fn sleep(&self, time: Duration) -> bool {
        let timeout = Timespec::try_from(time).expect("a pause is short");
        // Whatever ends the sleep, the flag says why.
        let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&timeout));
        !self.is_asked()
    }
}
