//! The kept epochs, and their names in dates: all times are UTC.

use crate::base::rfc3339;
use crate::front::control::VersionLine;
use std::time::{Duration, SystemTime};

const SECONDS_OF_A_DAY: u64 = 86_400;

/// An epoch whose time is known.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Closed {
    at_ms: u64,
    epoch: u64,
}

impl Closed {
    fn second(self) -> u64 {
        self.at_ms / 1000
    }

    fn day(self) -> u64 {
        self.second() / SECONDS_OF_A_DAY
    }
}

/// The kept epochs.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Their numbers, in order.
    epochs: Vec<u64>,
    /// When each closed, in the same order, ms since 1970; 0 if that is not known.
    closed_ms: Vec<u64>,
    /// Those whose time is known, in the order of time.
    closed: Vec<Closed>,
}

impl Kept {
    pub(super) fn new(lines: &[VersionLine]) -> Self {
        let known = lines.iter().filter(|it| it.closed_ms > 0);
        let mut closed: Vec<_> = known.map(|it| Closed { at_ms: it.closed_ms, epoch: it.epoch }).collect();
        closed.sort_unstable();
        let (epochs, closed_ms) = lines.iter().map(|it| (it.epoch, it.closed_ms)).unzip();
        Self { epochs, closed_ms, closed }
    }

    /// Their numbers, in order.
    pub(super) fn epochs(&self) -> &[u64] {
        &self.epochs
    }

    pub(super) fn has(&self, epoch: u64) -> bool {
        self.epochs.binary_search(&epoch).is_ok()
    }

    /// When an epoch closed, if that is known.
    pub(super) fn closed(&self, epoch: u64) -> Option<SystemTime> {
        let closed_ms = self.closed_ms[self.epochs.binary_search(&epoch).ok()?];
        (closed_ms > 0).then(|| SystemTime::UNIX_EPOCH + Duration::from_millis(closed_ms))
    }

    /// The names of the days on which epochs closed, in order.
    pub(super) fn days(&self) -> Vec<String> {
        let mut days: Vec<_> = self.closed.iter().map(|it| it.day()).collect();
        days.dedup();
        days.into_iter().map(day_name).collect()
    }

    /// The day of that name, if an epoch closed then.
    pub(super) fn day(&self, name: &str) -> Option<u64> {
        let day = second(name, "00:00:00")? / SECONDS_OF_A_DAY;
        (day_name(day) == name && !self.of_day(day).is_empty()).then_some(day)
    }

    fn of_day(&self, day: u64) -> &[Closed] {
        let begin = self.closed.partition_point(|it| it.day() < day);
        let end = self.closed.partition_point(|it| it.day() <= day);
        &self.closed[begin..end]
    }

    fn of_second(&self, second: u64) -> &[Closed] {
        let begin = self.closed.partition_point(|it| it.second() < second);
        let end = self.closed.partition_point(|it| it.second() <= second);
        &self.closed[begin..end]
    }

    /// The names of the epochs that closed on that day: the time, and from the second one of a second on its number within the second.
    pub(super) fn times(&self, day: u64) -> Vec<String> {
        let (mut last, mut count) = (None, 0_usize);
        let name = |it: &Closed| {
            count = if last == Some(it.second()) { count + 1 } else { 1 };
            last = Some(it.second());
            let time = time_name(it.second());
            if count == 1 { time } else { format!("{time}-{count}") }
        };
        self.of_day(day).iter().map(name).collect()
    }

    /// The epoch that closed on that day, and has that name there.
    pub(super) fn at(&self, day: u64, name: &str) -> Option<u64> {
        let (time, number) = match name.split_once('-') {
            Some((time, number)) => (time, number.parse::<usize>().ok().filter(|it| *it > 1)?),
            None => (name, 1),
        };
        let second = second(&day_name(day), &time.replace('.', ":"))?;
        let found = self.of_second(second).get(number - 1)?;
        let is_name = match name.split_once('-') {
            Some((_, digits)) => digits == number.to_string(),
            None => true,
        };
        (is_name && time_name(second) == time).then_some(found.epoch)
    }

    /// Samba's names of the epochs, in order. Of several that closed within a second only the last one has such a name.
    pub(super) fn gmt(&self) -> Vec<String> {
        let mut seconds: Vec<_> = self.closed.iter().map(|it| it.second()).collect();
        seconds.dedup();
        seconds.into_iter().map(gmt_name).collect()
    }

    /// The epoch that has this name for Samba.
    pub(super) fn at_gmt(&self, name: &str) -> Option<u64> {
        let (day, time) = name.strip_prefix("@GMT-")?.split_once('-')?;
        let second = second(&day.replace('.', "-"), &time.replace('.', ":"))?;
        let found = self.of_second(second).last()?;
        (gmt_name(second) == name).then_some(found.epoch)
    }
}

/// The second of that day and time.
fn second(day: &str, time: &str) -> Option<u64> {
    let parsed = humantime::parse_rfc3339(&format!("{day}T{time}Z")).ok()?;
    parsed.duration_since(SystemTime::UNIX_EPOCH).ok().map(|it| it.as_secs())
}

/// The day and the time of a second, as in `2026-11-20` and `10:00:00`.
fn day_and_time(second: u64) -> (String, String) {
    let text = rfc3339::text(second.saturating_mul(1000));
    let (day, time) = text.split_once('T').expect("RFC 3339 has a T");
    (day.into(), time.split('.').next().unwrap_or_default().into())
}

fn day_name(day: u64) -> String {
    day_and_time(day.saturating_mul(SECONDS_OF_A_DAY)).0
}

fn time_name(second: u64) -> String {
    day_and_time(second).1.replace(':', ".")
}

fn gmt_name(second: u64) -> String {
    let (day, time) = day_and_time(second);
    format!("@GMT-{}-{}", day.replace('-', "."), time.replace(':', "."))
}
