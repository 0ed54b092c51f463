//! The wear of a flash chip over time: the file `wear`, a line of JSON each.

use super::DiskDir;
use serde::{Deserialize, Serialize};
use std::io;

const FILE: &str = "wear";
/// Time over which the wear of the last days is looked at, ms.
const RECENT_MS: u64 = 7 * 86_400_000;
/// Shortest time from which the life of a chip is told, ms.
const LEAST_MS: u64 = 3_600_000;

/// How often the blocks of a chip were erased, by one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Worn {
    /// Milliseconds since 1970.
    #[serde(rename = "time", with = "crate::base::rfc3339")]
    pub time_ms: u64,
    /// Erases of all blocks together, since the disk was made.
    pub erases: u64,
}

impl DiskDir {
    /// Appends `now`, if the chip was erased since the last line.
    ///
    /// # Errors
    /// Errors of the host.
    pub fn note_wear(&self, now: Worn) -> io::Result<()> {
        self.append(FILE, &now, |last: &Worn| last.erases == now.erases)
    }

    /// The erases of the last days up to `now`, and how many milliseconds these days are; `None` if too little is known.
    #[must_use]
    pub fn recent_wear(&self, now: Worn) -> Option<(u64, u64)> {
        recent(&self.series(FILE), now)
    }
}

fn recent(all: &[Worn], now: Worn) -> Option<(u64, u64)> {
    // A clock that was set back tells nothing.
    let known = all.iter().filter(|it| it.time_ms < now.time_ms && it.erases <= now.erases);
    let is_recent = |it: &&Worn| now.time_ms - it.time_ms <= RECENT_MS;
    let first = known.clone().find(is_recent).or_else(|| known.clone().next_back())?;
    let over_ms = now.time_ms - first.time_ms;
    (over_ms >= LEAST_MS).then_some((now.erases - first.erases, over_ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wear_of_the_last_days_counts_and_a_clock_that_was_set_back_does_not() {
        let at = |hours: u64, erases| Worn { time_ms: hours * 3_600_000, erases };
        let all = [at(0, 0), at(100, 50), at(200, 90), at(999, 95)];
        assert_eq!(recent(&all, at(220, 100)), Some((50, 120 * 3_600_000)));
        assert_eq!(recent(&all[..1], at(500, 100)), Some((100, 500 * 3_600_000)), "the last one before");
        assert_eq!((recent(&[], at(1, 1)), recent(&all[..1], at(0, 1))), (None, None));
    }
}
