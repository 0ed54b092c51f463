//! The time, and which work is due by now.

use crate::base::units::Millis;
use crate::volume::Config;
use crate::volume::disk::shortage::Shortage;

/// A guest is at work when its last request is younger than this, in milliseconds; sooner if the disk counts
/// as idle sooner.
const AT_WORK_MS: u64 = 50;

/// See the module's documentation.
#[derive(Debug)]
pub(in crate::volume) struct Schedule {
    pub(in crate::volume) now: Millis,
    /// When a guest last asked for something.
    last_request: Millis,
    /// Whether all obligations are due.
    pub(in crate::volume) all_due: bool,
    /// Whether no request is taken any more.
    pub(in crate::volume) stopping: bool,
    /// Whether no work is done that no request waits for.
    pub(in crate::volume) halting: bool,
    /// The work that lacked space on the host.
    pub(in crate::volume) shortage: Shortage,
}

impl Schedule {
    pub(in crate::volume) fn new(now: Millis) -> Self {
        let shortage = Shortage::default();
        Self { now, last_request: now, all_due: false, stopping: false, halting: false, shortage }
    }

    /// Notes that it is `now`. Time never goes back.
    pub(in crate::volume) fn pass(&mut self, now: Millis) {
        self.now = self.now.max(now);
        assert!(self.last_request <= self.now, "the last request came at a time that has been");
    }

    /// Notes a request of a guest.
    pub(in crate::volume) fn request_arrived(&mut self) {
        self.last_request = self.now;
    }

    /// Begins the stop: all obligations are due before it, or, without `drain`, left for the next start.
    pub(in crate::volume) fn stop(&mut self, drain: bool) {
        (self.stopping, self.halting, self.all_due) = (true, !drain, drain);
    }

    /// Notes that all due work has been done.
    pub(in crate::volume) fn nothing_left(&mut self) {
        self.all_due = self.stopping && !self.halting;
    }

    /// Whether work that has been pending since `since` is due.
    pub(in crate::volume) fn is_due_since(&self, since: Millis, config: &Config) -> bool {
        let is_idle = self.now.since(self.last_request) >= config.idle_after_ms;
        !self.halting && (self.all_due || is_idle || self.is_overdue_since(since, config))
    }

    /// Whether work that has been pending since `since` is past its deadline.
    pub(in crate::volume) fn is_overdue_since(&self, since: Millis, config: &Config) -> bool {
        self.now.since(since) >= config.deadline_ms
    }

    /// Whether a guest is at work, so that what no request waits for gives way.
    pub(in crate::volume) fn is_at_work(&self, config: &Config) -> bool {
        self.now.since(self.last_request) < at_work_ms(config)
    }

    /// When the disk is idle, if no request comes.
    pub(in crate::volume) fn idle_at(&self, config: &Config) -> Millis {
        Millis(self.last_request.0.saturating_add(config.idle_after_ms))
    }

    /// When no guest is at work, if no request comes.
    pub(in crate::volume) fn work_ends_at(&self, config: &Config) -> Millis {
        Millis(self.last_request.0.saturating_add(at_work_ms(config)))
    }
}

fn at_work_ms(config: &Config) -> u64 {
    config.idle_after_ms.min(AT_WORK_MS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config() -> Config {
        let policy = "clear".parse().unwrap();
        Config { idle_after_ms: 200, deadline_ms: 1000, ..Config::new(policy) }
    }

    fn at(now: u64) -> Schedule {
        let mut schedule = Schedule::new(Millis(0));
        schedule.pass(Millis(5000));
        schedule.request_arrived();
        schedule.pass(Millis(5000 + now));
        schedule
    }

    #[test]
    fn what_is_pending_is_due_when_the_disk_is_idle_or_at_its_deadline() {
        let is_due = |now: u64, since: u64| at(now).is_due_since(Millis(since), &config());
        assert!(!is_due(199, 5000) && is_due(200, 5000));
        assert!(!is_due(0, 4001) && is_due(0, 4000));
        assert_eq!(at(0).idle_at(&config()), Millis(5200));
    }

    #[test]
    fn a_guest_is_at_work_for_a_while_after_its_last_request() {
        assert!(at(AT_WORK_MS - 1).is_at_work(&config()) && !at(AT_WORK_MS).is_at_work(&config()));
        assert_eq!(at(0).work_ends_at(&config()), Millis(5000 + AT_WORK_MS));
        let hasty = Config { idle_after_ms: 10, ..config() };
        assert!(at(9).is_at_work(&hasty) && !at(10).is_at_work(&hasty));
    }

    #[test]
    fn time_never_goes_back() {
        let mut schedule = at(0);
        schedule.pass(Millis(1));
        assert_eq!(schedule.now, Millis(5000));
    }

    #[test]
    fn a_stop_that_drains_makes_everything_due_and_one_that_does_not_makes_nothing() {
        let (mut drains, mut halts) = (at(0), at(5000));
        drains.stop(true);
        halts.stop(false);
        assert!(drains.is_due_since(Millis(5000), &config()) && !halts.is_due_since(Millis(0), &config()));
        drains.nothing_left();
        halts.nothing_left();
        assert!(drains.all_due && !halts.all_due);
    }
}
