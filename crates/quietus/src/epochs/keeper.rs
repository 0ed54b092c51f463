//! Carries out the rules of retention: forgets the epochs that no rule keeps.

use super::{Listed, Names, forget, list, now_ms};
use crate::engine::Engine;
use crate::open_disk::OpenDisk;
use quietus_core::request::Refusal;
use quietus_core::retention::{Candidate, Retention};
use quietus_core::units::{Epoch, EpochRange};
use std::time::{Duration, Instant};

/// How far the clock may go ahead or back while a server runs, in milliseconds.
const LEAP_MS_MAX: u64 = 60 * 60 * 1000;
/// How long a disk may have made no epoch before its server started, in milliseconds: after longer, the clock may have
/// leapt ahead.
const SILENCE_MS_MAX: u64 = 90 * 24 * 60 * 60 * 1000;

/// The clock of the host, as far as it can be trusted.
#[derive(Debug)]
pub struct Clock {
    began: (Instant, u64),
}

/// Why nothing is forgotten now.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Untrusted {
    /// The clock leapt.
    #[error("the host's clock leapt by {} s; set it right, and restart the server", .0 / 1000)]
    Leapt(u64),
    /// The clock is behind the last epoch.
    #[error("the host's clock is behind the last epoch; set it right")]
    Behind,
    /// The last epoch is very old.
    #[error("the last epoch is {} days old: the clock may be wrong; close an epoch (`quietus epoch`) to confirm it", .0 / 86_400_000)]
    Silent(u64),
}

impl Default for Clock {
    fn default() -> Self {
        Self { began: (Instant::now(), now_ms()) }
    }
}

impl Clock {
    /// Checks that it is `now`, `elapsed` after the beginning, where the last epoch closed at `last`.
    fn check(&self, now: u64, elapsed: Duration, last: u64) -> Result<(), Untrusted> {
        let expected = self.began.1.saturating_add(u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX));
        match now.abs_diff(expected) {
            leap if leap > LEAP_MS_MAX => return Err(Untrusted::Leapt(leap)),
            _ if now < last => return Err(Untrusted::Behind),
            _ => {}
        }
        let silence = now - last;
        if silence > SILENCE_MS_MAX { Err(Untrusted::Silent(silence)) } else { Ok(()) }
    }
}

/// Forgets what the rules of `disk` do not keep.
pub fn carry_out(disk: &OpenDisk, clock: &Clock) {
    let Some(rules) = disk.dir.toml().behaviour.retention.as_ref().filter(|it| it.has_rules()) else {
        return;
    };
    if let Err(error) = expire(disk, rules, clock) {
        tracing::warn!(%error, "the rules of retention are not carried out");
    }
}

fn expire(disk: &OpenDisk, rules: &Retention, clock: &Clock) -> Result<(), String> {
    let kept = all(&disk.engine).map_err(|refusal| refusal.to_string())?;
    let last = kept.last().map_or(0, |it| it.closed_ms);
    let now = now_ms();
    clock.check(now, clock.began.0.elapsed(), last).map_err(|why| why.to_string())?;
    for epochs in expired(&kept, rules, &disk.names, now) {
        forget(&disk.engine, epochs).map_err(|refusal| refusal.to_string())?;
        tracing::info!(from = epochs.from.0, to = epochs.to.0, "epochs are forgotten: no rule keeps them");
    }
    Ok(())
}

/// All kept epochs.
fn all(engine: &Engine) -> Result<Vec<Listed>, Refusal> {
    let (mut kept, mut from) = (Vec::<Listed>::new(), 0);
    loop {
        let part = list(engine, Epoch(from))?;
        let Some(end) = part.last() else { return Ok(kept) };
        from = end.epoch + 1;
        kept.extend(part);
    }
}

/// The runs of epochs that no rule, no name and no hold keeps.
fn expired(kept: &[Listed], rules: &Retention, names: &Names, now: u64) -> Vec<EpochRange> {
    let (named, mut runs) = (names.by_epoch(), Vec::<EpochRange>::new());
    let mut follows = false;
    for (n, it) in kept.iter().enumerate() {
        let epoch = Epoch(it.epoch);
        let next_closed = kept.get(n + 1).map(|next| next.closed_ms);
        let candidate = Candidate { closed: it.closed_ms, next_closed, younger: (kept.len() - n - 1) as u64 };
        let alone = EpochRange { from: epoch, to: epoch };
        // Nobody knows when an epoch closed that a crash ended.
        let is_kept = it.closed_ms == 0
            || rules.keeps(candidate, now)
            || named.contains_key(&it.epoch)
            || names.check_held(alone).is_err();
        match runs.last_mut().filter(|_| follows) {
            _ if is_kept => {}
            Some(run) => run.to = epoch,
            None => runs.push(alone),
        }
        follows = !is_kept;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 86_400_000;

    fn listed(closed: &[(u64, u64)]) -> Vec<Listed> {
        closed
            .iter()
            .map(|(epoch, closed_ms)| Listed { epoch: *epoch, closed_ms: *closed_ms, changed_bytes: 0 })
            .collect()
    }

    #[test]
    fn what_no_rule_keeps_expires_in_runs_of_kept_epochs() {
        let rules = "all 1d".parse().expect("rules");
        let kept = listed(&[(1, DAY), (2, 2 * DAY), (5, 3 * DAY), (6, 0), (7, 4 * DAY), (9, 10 * DAY)]);
        let run = |from, to| EpochRange { from: Epoch(from), to: Epoch(to) };
        assert_eq!(expired(&kept, &rules, &Names::default(), 10 * DAY), [run(1, 5), run(7, 7)]);
        assert_eq!(expired(&kept, &rules, &Names::default(), 2 * DAY + DAY / 2), [run(1, 1)]);
        assert_eq!(expired(&kept, &Retention::default(), &Names::default(), 10 * DAY), []);
    }

    #[test]
    fn a_clock_that_leaps_or_runs_back_forgets_nothing() {
        let clock = Clock { began: (Instant::now(), 100 * DAY) };
        let check = |now, hours: u64, last| clock.check(now, Duration::from_secs(3600 * hours), last);
        assert_eq!(check(101 * DAY, 24, 100 * DAY), Ok(()));
        assert_eq!(check(103 * DAY, 24, 100 * DAY), Err(Untrusted::Leapt(2 * DAY)));
        assert_eq!(check(98 * DAY, 24, 90 * DAY), Err(Untrusted::Leapt(3 * DAY)));
        assert_eq!(check(100 * DAY, 0, 100 * DAY + 1), Err(Untrusted::Behind));
        assert_eq!(check(100 * DAY, 0, DAY), Err(Untrusted::Silent(99 * DAY)));
    }
}
