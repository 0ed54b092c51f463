//! Which epochs a disk keeps, by the rules of its owner.
//!
//! A rule keeps all epochs of some time, or the last of each hour, day, week, month or year of it, or the last
//! ones whatever their age. An epoch that no rule keeps is to be forgotten.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

const SECOND: u64 = 1000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const WEEK: u64 = 7 * DAY;
const YEAR: u64 = 365 * DAY;

/// Units of time, by their letter, in milliseconds.
const UNITS: [(char, u64); 6] =
    [('s', SECOND), ('m', MINUTE), ('h', HOUR), ('d', DAY), ('w', WEEK), ('y', YEAR)];
/// The periods of which the last epoch is kept, by their name, in milliseconds.
const PERIODS: [(&str, u64); 5] =
    [("minutely", MINUTE), ("hourly", HOUR), ("daily", DAY), ("weekly", WEEK), ("yearly", YEAR)];

/// A rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rule {
    /// The last epoch of each period of so many milliseconds, for epochs at most `age` milliseconds old. All
    /// epochs, if the period is 1.
    Each { period: u64, age: u64 },
    /// The last epochs, so many.
    Last(u64),
}

/// The rules of a disk: an epoch is kept if one of the rules keeps it. Without a rule, every epoch is kept.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Retention(Vec<Rule>);

/// Why rules of retention cannot be understood.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "unknown retention rule \"{0}\"; expected `all 1d`, `hourly 30d` (or minutely, daily, weekly, yearly), \
     or `last 100`, separated by commas; ages in s, m, h, d, w or y"
)]
pub struct RetentionError(String);

impl FromStr for Retention {
    type Err = RetentionError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let rules = text.split(',').map(str::trim).filter(|rule| !rule.is_empty());
        rules
            .map(|rule| parse(rule).ok_or_else(|| RetentionError(rule.into())))
            .collect::<Result<_, _>>()
            .map(Self)
    }
}

impl TryFrom<String> for Retention {
    type Error = RetentionError;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<Retention> for String {
    fn from(retention: Retention) -> Self {
        retention.to_string()
    }
}

fn parse(rule: &str) -> Option<Rule> {
    let (name, value) = rule.split_once(char::is_whitespace)?;
    let value = value.trim();
    if name == "last" {
        return value.parse().ok().filter(|count| *count > 0).map(Rule::Last);
    }
    let periods = PERIODS.iter().find(|(known, _)| *known == name).map(|(_, period)| *period);
    let period = if name == "all" { 1 } else { periods? };
    let unit = value.chars().next_back()?;
    let (_, bytes) = UNITS.iter().find(|(letter, _)| *letter == unit)?;
    let count: u64 = value.strip_suffix(unit)?.parse().ok()?;
    Some(Rule::Each { period, age: count.checked_mul(*bytes).filter(|age| *age > 0)? })
}

impl fmt::Display for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, rule) in self.0.iter().enumerate() {
            f.write_str(if n > 0 { ", " } else { "" })?;
            match rule {
                Rule::Last(count) => write!(f, "last {count}")?,
                Rule::Each { period, age } => {
                    let name =
                        PERIODS.iter().find(|(_, known)| known == period).map_or("all", |(name, _)| *name);
                    let largest = UNITS.iter().rev().find(|(_, unit)| age.is_multiple_of(*unit));
                    let (letter, unit) = largest.copied().unwrap_or(UNITS[0]);
                    write!(f, "{name} {}{letter}", age / unit)?;
                }
            }
        }
        Ok(())
    }
}

/// An epoch, as far as retention looks at it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Candidate {
    /// When it closed, in milliseconds since 1970.
    pub closed: u64,
    /// When the epoch after it closed; `None` if there is none.
    pub next_closed: Option<u64>,
    /// How many kept epochs are younger.
    pub younger: u64,
}

impl Retention {
    /// Whether there is a rule. Without one nothing is ever forgotten.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.0.is_empty()
    }

    /// Whether the epoch is kept at `now`, in milliseconds since 1970.
    #[must_use]
    pub fn keeps(&self, epoch: Candidate, now: u64) -> bool {
        self.0.is_empty() || self.0.iter().any(|rule| rule.keeps(epoch, now))
    }
}

impl Rule {
    fn keeps(self, epoch: Candidate, now: u64) -> bool {
        match self {
            Self::Last(count) => epoch.younger < count,
            Self::Each { period, age } => {
                assert!(period > 0 && age > 0, "a rule keeps epochs of some time");
                let is_last = epoch.next_closed.is_none_or(|next| next / period != epoch.closed / period);
                now.saturating_sub(epoch.closed) <= age && is_last
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(text: &str) -> Retention {
        text.parse().expect("rules")
    }

    /// The epochs that are left of one each `step` milliseconds up to `now`, oldest first.
    fn left(retention: &Retention, mut all: Vec<u64>, now: u64) -> Vec<u64> {
        let count = all.len();
        let next: Vec<Option<u64>> = all.iter().skip(1).copied().map(Some).chain([None]).collect();
        let mut n = 0;
        all.retain(|closed| {
            let epoch = Candidate { closed: *closed, next_closed: next[n], younger: (count - n - 1) as u64 };
            n += 1;
            retention.keeps(epoch, now)
        });
        all
    }

    #[test]
    fn rules_are_written_as_they_are_read() {
        for text in ["all 1d, hourly 30d, daily 7y, last 100", "last 1", "minutely 90s, weekly 3w", ""] {
            assert_eq!(rules(text).to_string(), text);
        }
        assert_eq!(rules(" all   48h ,,last 2 ").to_string(), "all 2d, last 2");
    }

    #[test]
    fn what_is_no_rule_is_named() {
        for bad in
            ["all", "all 1", "all 0d", "hourly d", "last 0", "last -1", "last 2d", "monthly 1y", "all 1d5"]
        {
            let error = format!("daily 1d, {bad}").parse::<Retention>().expect_err(bad);
            assert_eq!(error, RetentionError(bad.into()));
        }
        assert!("all 999999999999999999y".parse::<Retention>().is_err());
    }

    #[test]
    fn epochs_are_thinned_with_their_age() {
        let now = 40 * DAY + 30 * MINUTE;
        let all: Vec<u64> = (0..=now).step_by(10 * MINUTE as usize).collect();
        let kept = left(&rules("all 1d, hourly 3d, daily 30d"), all, now);
        let age = |closed: &u64| now - closed;
        assert_eq!(kept.iter().filter(|it| age(it) <= DAY).count(), 145);
        assert_eq!(kept.iter().filter(|it| age(it) > DAY && age(it) <= 3 * DAY).count(), 48);
        assert_eq!(kept.iter().filter(|it| age(it) > 3 * DAY).count(), 27);
        assert!(kept.iter().all(|it| age(it) <= 30 * DAY));
    }

    #[test]
    fn thinning_in_steps_ends_as_thinning_at_once() {
        let rules = rules("all 2h, hourly 1d, daily 10d, last 5");
        let (mut steps, mut all) = (Vec::new(), Vec::new());
        for now in (0..20 * DAY).step_by(7 * MINUTE as usize) {
            steps.push(now);
            all.push(now);
            steps = left(&rules, steps, now);
        }
        assert_eq!(steps, left(&rules, all, 20 * DAY / (7 * MINUTE) * 7 * MINUTE));
    }

    #[test]
    fn the_last_ones_stay_however_old_and_without_rules_all_do() {
        let all: Vec<u64> = (0..50).collect();
        assert_eq!(left(&rules("last 3"), all.clone(), 9 * YEAR), [47, 48, 49]);
        assert_eq!(left(&rules(""), all.clone(), 9 * YEAR), all);
        assert!(!rules("").has_rules());
    }
}
