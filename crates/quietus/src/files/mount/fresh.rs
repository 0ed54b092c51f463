//! When something is read anew.

use std::time::{Duration, Instant};

/// How long what was read counts as fresh at least.
pub(super) const PAUSE: Duration = Duration::from_secs(1);
/// How many times as long as the reading took it counts as fresh: so that most of the time is left for other things.
const TIMES: u32 = 10;

/// Until when something that was read counts as fresh.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fresh(Instant);

impl Fresh {
    /// What was read from `began` up to now.
    pub(super) fn since(began: Instant) -> Self {
        let now = Instant::now();
        Self(now + PAUSE.max(now.duration_since(began).saturating_mul(TIMES)))
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() >= self.0
    }
}
