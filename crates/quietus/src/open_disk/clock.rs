//! The host's clock, as far as it can be trusted.

use crate::base::lock::lock;
use crate::base::rfc3339::now_ms;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How far the clock may go ahead or back while a disk is open, in milliseconds.
const LEAP_MS_MAX: u64 = 60 * 60 * 1000;
/// How long a disk may have made no epoch, in milliseconds: after longer, the clock may have leapt ahead while no server
/// looked.
const SILENCE_MS_MAX: u64 = 90 * 24 * 60 * 60 * 1000;

/// The readings of both clocks at one instant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reading {
    /// The wall clock, in milliseconds since 1970.
    pub wall_ms: u64,
    /// The time since any beginning, by a monotonic clock.
    pub elapsed: Duration,
}

/// See the module's documentation.
pub struct Clock {
    read: Box<dyn Fn() -> Reading + Send + Sync>,
    /// The readings when the wall clock was last trusted.
    trusted: Mutex<Reading>,
}

/// Why the clock is not trusted.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untrusted {
    /// The clock leapt while the disk was open.
    #[error("the host's clock leapt by {} s", .0 / 1000)]
    Leapt(u64),
    /// The clock is behind the last epoch.
    #[error("the host's clock is {} s behind the last epoch", .0 / 1000)]
    Behind(u64),
    /// The last epoch is very old.
    #[error("the last epoch is {} days old, and the host's clock may have leapt", .0 / 86_400_000)]
    Silent(u64),
}

impl Default for Clock {
    fn default() -> Self {
        let began = Instant::now();
        Self::of(move || Reading { wall_ms: now_ms(), elapsed: began.elapsed() })
    }
}

impl Clock {
    /// The clock that `read` reads.
    pub fn of(read: impl Fn() -> Reading + Send + Sync + 'static) -> Self {
        let trusted = Mutex::new(read());
        Self { read: Box::new(read), trusted }
    }

    /// Milliseconds since 1970.
    #[must_use]
    pub fn now_ms(&self) -> u64 {
        (self.read)().wall_ms
    }

    /// Trusts the wall clock from now on.
    pub fn trust(&self) {
        *lock(&self.trusted) = (self.read)();
    }

    /// Checks the clock against a monotonic one, and against the time when the last epoch closed.
    ///
    /// # Errors
    /// Why it cannot be trusted.
    pub fn check(&self, last_ms: u64) -> Result<(), Untrusted> {
        let now = (self.read)();
        let trusted = *lock(&self.trusted);
        let elapsed = now.elapsed.saturating_sub(trusted.elapsed).as_millis();
        let expected = trusted.wall_ms.saturating_add(u64::try_from(elapsed).unwrap_or(u64::MAX));
        match now.wall_ms.abs_diff(expected) {
            leap if leap > LEAP_MS_MAX => return Err(Untrusted::Leapt(leap)),
            _ if now.wall_ms < last_ms => return Err(Untrusted::Behind(last_ms - now.wall_ms)),
            _ => {}
        }
        let silence = now.wall_ms - last_ms;
        if last_ms > 0 && silence > SILENCE_MS_MAX { Err(Untrusted::Silent(silence)) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const HOUR: u64 = 3_600_000;
    const DAY: u64 = 24 * HOUR;

    #[test]
    fn a_clock_that_leaps_runs_back_or_was_not_looked_at_for_long_is_not_trusted() {
        let hands = Arc::new(Mutex::new(Reading { wall_ms: 100 * DAY, elapsed: Duration::ZERO }));
        let theirs = Arc::clone(&hands);
        let clock = Clock::of(move || *theirs.lock().expect("no thread panics"));
        let check = |wall_ms, hours: u64, last| {
            *hands.lock().expect("no thread panics") =
                Reading { wall_ms, elapsed: Duration::from_secs(3600 * hours) };
            clock.check(last)
        };
        assert_eq!(check(101 * DAY, 24, 100 * DAY), Ok(()));
        assert_eq!(check(103 * DAY, 24, 100 * DAY), Err(Untrusted::Leapt(2 * DAY)));
        assert_eq!(check(98 * DAY, 24, 90 * DAY), Err(Untrusted::Leapt(3 * DAY)));
        assert_eq!(check(100 * DAY, 0, 100 * DAY + 1), Err(Untrusted::Behind(1)));
        assert_eq!(check(100 * DAY, 0, DAY), Err(Untrusted::Silent(99 * DAY)));
        assert_eq!(check(100 * DAY, 0, 0), Ok(()), "no epoch has closed");
        clock.trust();
        assert_eq!(check(100 * DAY + HOUR, 1, 100 * DAY), Ok(()));
        assert_eq!(check(103 * DAY, 24, 100 * DAY), Err(Untrusted::Leapt(2 * DAY)));
        clock.trust();
        assert_eq!(check(103 * DAY + HOUR, 25, 103 * DAY), Ok(()));
    }
}
