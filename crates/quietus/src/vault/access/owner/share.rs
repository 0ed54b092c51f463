//! Shares: a sanitization and the requests of others take turns, so that each has its share of the bytes that the pool moves and of the
//! time of the owner's thread, and what the other leaves.

use crate::vault::Session;
use std::time::{Duration, Instant};

/// Bytes by which either side may be ahead of its share, besides its last turn.
const BYTES_MAX: u64 = 8 << 20;
/// The share of the time.
const TIME_MAX: Duration = Duration::from_millis(50);

/// The side that has had a turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Side {
    Sanitization,
    Others,
}

/// Whose turn it is, if both have work.
#[derive(Debug)]
pub(super) struct Share {
    /// Of the sanitization.
    percent: u32,
    bytes: Balance,
    /// In nanoseconds.
    time: Balance,
}

/// How far a sanitization is ahead of its share, in hundredths. Neither side saves up more than `max`: a side that comes late does not
/// get back what the other had while it was alone.
#[derive(Debug)]
struct Balance {
    ahead: i128,
    max: i128,
}

/// A turn under way.
pub(super) struct Turn {
    began: Instant,
    moved: u64,
}

impl Turn {
    pub(super) fn begin(session: &Session<'_>) -> Self {
        Self { began: Instant::now(), moved: session.vault.moved_bytes() }
    }

    pub(super) fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

impl Share {
    pub(super) fn new(percent: u32) -> Self {
        // Whatever a client asks for, others are answered.
        let percent = percent.clamp(1, 90);
        Self { percent, bytes: Balance::new(BYTES_MAX), time: Balance::new(nanos(TIME_MAX)) }
    }

    /// Notes what a turn took.
    pub(super) fn charge(&mut self, side: Side, turn: &Turn, session: &Session<'_>) {
        self.bytes.charge(side, session.vault.moved_bytes() - turn.moved, self.percent);
        self.time.charge(side, nanos(turn.elapsed()), self.percent);
    }

    /// Whether the sanitization has had more than its share of anything: then others come first, if they have work.
    pub(super) fn is_ahead(&self) -> bool {
        self.bytes.ahead > 0 || self.time.ahead > 0
    }
}

impl Balance {
    fn new(max: u64) -> Self {
        Self { ahead: 0, max: i128::from(max) * 100 }
    }

    fn charge(&mut self, side: Side, took: u64, percent: u32) {
        let (took, percent) = (i128::from(took), i128::from(percent));
        // A side that is ahead and goes on is alone. A side that goes on after the other works off all of the other's last turn.
        self.ahead = match side {
            Side::Sanitization => self.ahead.min(self.max) + took * (100 - percent),
            Side::Others => self.ahead.max(-self.max) - took * percent,
        };
    }
}

fn nanos(time: Duration) -> u64 {
    time.as_nanos() as u64
}

#[cfg(test)]
mod tests {
    use crate::vault::access::owner::share::*;

    #[test]
    fn what_one_side_had_alone_is_not_held_against_it_for_long() {
        let mut balance = Balance::new(100);
        (0..1000).for_each(|_| balance.charge(Side::Sanitization, 10, 50));
        assert!(balance.ahead > 0);
        balance.charge(Side::Others, 211, 50);
        assert!(balance.ahead < 0, "the others have had what it may be ahead by, and its last turn");
        (0..1000).for_each(|_| balance.charge(Side::Others, 10, 50));
        balance.charge(Side::Sanitization, 211, 50);
        assert!(balance.ahead > 0);
    }

    #[test]
    fn each_side_has_its_share_when_both_have_work_however_long_its_turns_are() {
        for (percent, its, theirs) in [(1, 10, 10), (10, 5000, 3), (50, 10, 700), (50, 700, 10), (90, 10, 10)]
        {
            let (mut balance, mut own, mut others) = (Balance::new(100), 0, 0);
            for _ in 0..1_000_000 {
                let (side, took, sum) = match balance.ahead > 0 {
                    true => (Side::Others, theirs, &mut others),
                    false => (Side::Sanitization, its, &mut own),
                };
                *sum += took;
                balance.charge(side, took, percent);
            }
            let share = own * 100 / (own + others);
            assert!(share.abs_diff(percent.into()) <= 1, "{share} of {percent} percent");
        }
    }
}
