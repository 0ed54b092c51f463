//! Which snapshots of a series are kept.

use crate::base::rfc3339;
use quietus_vault::SnapshotId;
use std::collections::BTreeSet;

const DAY_MS: u64 = 86_400_000;

/// How many snapshots of each series are kept: the last ones, and the last of each of the last hours, days, weeks, months and
/// years that have any.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Keep {
    /// The last ones.
    pub last: usize,
    /// Snapshots made within this time before the last one, in milliseconds.
    pub within_ms: u64,
    /// The last of each hour.
    pub hourly: usize,
    /// The last of each day.
    pub daily: usize,
    /// The last of each week, which begins on Monday.
    pub weekly: usize,
    /// The last of each month.
    pub monthly: usize,
    /// The last of each year.
    pub yearly: usize,
}

impl Keep {
    /// The snapshots of a series that no rule keeps; `series` gives the time when each was made, in the order of numbers. Days are in UTC.
    pub fn gone(&self, series: &[(SnapshotId, u64)]) -> Vec<SnapshotId> {
        let mut kept: BTreeSet<SnapshotId> = series.iter().rev().take(self.last).map(|(it, _)| *it).collect();
        if let (Some((_, last_ms)), 1..) = (series.last(), self.within_ms) {
            let since_ms = last_ms.saturating_sub(self.within_ms);
            kept.extend(series.iter().filter(|(_, created_ms)| *created_ms >= since_ms).map(|(it, _)| *it));
        }
        let counts = [self.hourly, self.daily, self.weekly, self.monthly, self.yearly];
        let made: Vec<_> = series.iter().map(|(it, created_ms)| (*it, periods(*created_ms))).collect();
        for (n, count) in counts.into_iter().enumerate() {
            let mut seen = BTreeSet::new();
            for (snapshot, periods) in made.iter().rev() {
                if seen.len() < count && seen.insert(&periods[n]) {
                    kept.insert(*snapshot);
                }
            }
        }
        series.iter().map(|(it, _)| *it).filter(|it| !kept.contains(it)).collect()
    }
}

/// The hour, the day, the week, the month and the year of a time, in UTC.
fn periods(ms: u64) -> [String; 5] {
    let text = rfc3339::text(ms);
    // 1970 began on a Thursday.
    let week = (ms / DAY_MS + 3) / 7;
    [text[..13].into(), text[..10].into(), week.to_string(), text[..7].into(), text[..4].into()]
}

#[cfg(test)]
mod tests {
    use crate::vault::choose::retention::*;

    fn gone(keep: Keep, days: &[u64]) -> Vec<u64> {
        let series: Vec<_> = (0..).zip(days).map(|(n, day)| (SnapshotId(n), day * DAY_MS + 5)).collect();
        keep.gone(&series).into_iter().map(|it| it.0).collect()
    }

    #[test]
    fn the_last_of_each_period_that_has_any_is_kept() {
        let days = [0, 0, 1, 4, 5, 31, 32, 365, 366];
        assert_eq!(gone(Keep { last: 2, ..Keep::default() }, &days), [0, 1, 2, 3, 4, 5, 6]);
        assert_eq!(gone(Keep { last: 99, ..Keep::default() }, &days), [0; 0], "more than there are");
        assert_eq!(gone(Keep { daily: 3, ..Keep::default() }, &days), [0, 1, 2, 3, 4, 5]);
        // Thursday the 1st to Sunday the 4th of January 1970 are one week; Monday the 5th begins another.
        let four = [0, 1, 3, 4];
        assert_eq!(gone(Keep { weekly: 9, ..Keep::default() }, &four), [0, 1]);
        assert_eq!(gone(Keep { monthly: 9, ..Keep::default() }, &days), [0, 1, 2, 3, 5, 7]);
        assert_eq!(gone(Keep { yearly: 1, ..Keep::default() }, &days), [0, 1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(gone(Keep { last: 1, yearly: 2, ..Keep::default() }, &days), [0, 1, 2, 3, 4, 5, 7]);
    }

    #[test]
    fn hours_and_a_time_before_the_last_one_are_kept() {
        let series: Vec<_> = [0, 10, 50, 70, 130, 131].map(|minute| minute * 60_000).into();
        let series: Vec<_> = (0..).map(SnapshotId).zip(series).collect();
        let gone = |keep: Keep| keep.gone(&series).into_iter().map(|it| it.0).collect::<Vec<_>>();
        assert_eq!(gone(Keep { hourly: 2, ..Keep::default() }), [0, 1, 2, 4]);
        assert_eq!(gone(Keep { hourly: 9, ..Keep::default() }), [0, 1, 4]);
        assert_eq!(gone(Keep { within_ms: 61 * 60_000, ..Keep::default() }), [0, 1, 2]);
        assert_eq!(gone(Keep { within_ms: 1, last: 1, ..Keep::default() }), [0, 1, 2, 3, 4]);
        assert_eq!(gone(Keep { within_ms: u64::MAX, ..Keep::default() }), [0; 0]);
        assert_eq!(Keep { within_ms: 5, ..Keep::default() }.gone(&[]), []);
    }
}
