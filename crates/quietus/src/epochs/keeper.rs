//! Epochs that close by the clock; those that no rule of retention keeps are forgotten.
//!
//! Nothing expires while the host's clock is not trusted. A doubt is noted durably, before the epoch that closes next has
//! its time, and stays until the operator confirms the clock: else a clock that leapt ahead would have everything expire after
//! the next start.

use super::dates::{corrected, kept};
use super::{Listed, Timer, close, forget};
use crate::disk::EpochEnd;
use crate::disk::epochs::{Doubt, Names};
use crate::engine::Entry;
use crate::open_disk::OpenDisk;
use quietus_core::base::units::{Epoch, EpochRange};
use quietus_core::request::Refusal;
use quietus_core::retention::{Candidate, Retention};
use std::iter::from_fn;
use std::sync::Arc;
use std::time::Duration;

/// The timers of a disk that is served: one closes epochs, and one carries out the rules of retention, at once and then
/// every so often.
///
/// # Errors
/// The host has no thread.
pub fn timers(disk: &Arc<OpenDisk>, retention: Duration) -> std::io::Result<Vec<Timer>> {
    let behaviour = &disk.dir.toml().behaviour;
    let mut timers = Vec::new();
    if disk.dir.is_read_only() || !disk.keeps_epochs() {
        return Ok(timers);
    }
    note_doubts(disk);
    if let Some(EpochEnd::After(ms)) = behaviour.epoch {
        let disk = Arc::clone(disk);
        let every = Duration::from_millis(ms);
        timers.push(Timer::start("epochs", every, every, move || close_in_time(&disk))?);
    }
    if let Some(rules) = behaviour.retention.clone().filter(Retention::has_rules) {
        let disk = Arc::clone(disk);
        let carry_out = move || {
            if let Err(error) = expire(&disk, &rules) {
                tracing::warn!(%error, "the rules of retention are not carried out");
            }
        };
        // A server that never runs for long forgets, too.
        timers.push(Timer::start("retention", Duration::ZERO, retention, carry_out)?);
    }
    Ok(timers)
}

/// Closes the open epoch.
fn close_in_time(disk: &OpenDisk) {
    note_doubts(disk);
    if let Err(refusal) = close(&disk.engine, disk.clock.now_ms()) {
        tracing::warn!(%refusal, "cannot close the epoch; it goes on until the next time");
    }
}

/// Forgets what the rules do not keep.
fn expire(disk: &OpenDisk, rules: &Retention) -> Result<(), String> {
    check_clock(disk)?;
    let (confirmed, said) = (disk.names.confirmed(), |refusal: Refusal| refusal.to_string());
    let count = kept(&disk.engine).try_fold(0, |count, it| it.map(|_| count + 1)).map_err(said)?;
    let dated = kept(&disk.engine).map(|it| it.map(|it| corrected(it, &confirmed)));
    for run in expired((dated, count), rules, &disk.names, disk.clock.now_ms()) {
        forget_run(disk, run.map_err(said)?)?;
    }
    Ok(())
}

/// Forgets a run of epochs that no rule keeps, unless some have been held or named meanwhile.
fn forget_run(disk: &OpenDisk, epochs: EpochRange) -> Result<(), String> {
    let _deciding = disk.names.decide();
    if disk.names.keep(epochs) {
        return Ok(());
    }
    forget(&disk.engine, epochs).map_err(|refusal| refusal.to_string())?;
    disk.engine.recorder().note(Entry::Forgets { scope: epochs.into(), by_rule: true });
    tracing::info!(from = epochs.from.0, to = epochs.to.0, "epochs are forgotten: no rule keeps them");
    Ok(())
}

/// Notes a doubt about the clock, if there is a new one.
pub(crate) fn note_doubts(disk: &OpenDisk) {
    if disk.names.doubt().is_none()
        && let Err(error) = check_clock(disk)
    {
        tracing::warn!(%error, "the host's clock is not trusted");
    }
}

/// Checks the clock, and notes a doubt durably.
fn check_clock(disk: &OpenDisk) -> Result<(), String> {
    if let Some(doubt) = disk.names.doubt() {
        return Err(doubt.why);
    }
    let last = last_known_ms(disk).map_err(|refusal| refusal.to_string())?;
    let Err(untrusted) = disk.clock.check(last) else { return Ok(()) };
    let why = format!(
        "{untrusted}; set it right if it is wrong, and confirm it with `quietus epoch {} --confirm-clock`",
        disk.dir.name()
    );
    let after = disk.engine.open_epoch().map_or(0, |open| open.0.saturating_sub(1));
    let doubt = Doubt { why: why.clone(), after };
    disk.names.note_doubt(disk.dir.directory(), doubt).map_err(|error| error.to_string())?;
    Err(why)
}

/// The last time that an epoch closed, or that the operator confirmed the clock; 0 if no such time is known.
fn last_known_ms(disk: &OpenDisk) -> Result<u64, Refusal> {
    let confirmed = disk.names.confirmed().last().copied();
    let last = super::last(&disk.engine)?;
    let last = last.filter(|last| confirmed.is_none_or(|it| last.epoch > it.epoch));
    Ok(last.map_or(0, |last| last.closed_ms).max(confirmed.map_or(0, |it| it.at_ms)))
}

/// The runs of epochs, of `count` kept ones, that no rule, no name and no hold keeps. Each is told as soon as it is known: a disk may
/// keep a million epochs.
fn expired(
    (kept, count): (impl Iterator<Item = Result<Listed, Refusal>>, u64),
    rules: &Retention,
    names: &Names,
    now: u64,
) -> impl Iterator<Item = Result<EpochRange, Refusal>> {
    let (named, mut kept, mut younger) = (names.by_epoch(), kept.peekable(), count);
    let is_kept = move |it: &Listed, candidate| {
        let alone = EpochRange { from: Epoch(it.epoch), to: Epoch(it.epoch) };
        rules.keeps(candidate, now) || named.contains_key(&it.epoch) || names.check_held(alone).is_err()
    };
    from_fn(move || {
        let mut run: Option<EpochRange> = None;
        while let Some(it) = kept.next() {
            let it = match it {
                Ok(it) => it,
                Err(refusal) => return Some(Err(refusal)),
            };
            let next_closed = kept.peek().and_then(|next| Some(next.as_ref().ok()?.closed_ms));
            // What closes meanwhile is younger, too.
            younger = younger.saturating_sub(1);
            if !is_kept(&it, Candidate { closed: it.closed_ms, next_closed, younger }) {
                let epoch = Epoch(it.epoch);
                run = Some(EpochRange { from: run.map_or(epoch, |run| run.from), to: epoch });
            } else if run.is_some() {
                break;
            }
        }
        run.map(Ok)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::epochs::HoldOf;
    use crate::disk::keys::Source;
    use crate::disk::{CreateOptions, DiskDir, StoreKind, VersionsOptions};
    use crate::engine::export::carry_out;
    use crate::front::control::{Call, Epochs};
    use quietus_core::base::units::Extent;
    use quietus_core::request::{Op, Request};
    use quietus_seal::Seal;

    const DAY: u64 = 86_400_000;

    fn listed((epoch, closed_ms): (u64, u64)) -> Result<Listed, Refusal> {
        Ok(Listed { epoch, closed_ms, changed_bytes: 0 })
    }

    #[test]
    fn what_no_rule_keeps_expires_in_runs_of_kept_epochs() {
        let rules = "all 1d".parse().expect("rules");
        let run = |from, to| Ok(EpochRange { from: Epoch(from), to: Epoch(to) });
        let expired = |rules: &Retention, now| {
            let kept = [(1, DAY), (2, 2 * DAY), (5, 3 * DAY), (7, 4 * DAY), (9, 10 * DAY)];
            expired((kept.into_iter().map(listed), 5), rules, &Names::default(), now).collect::<Vec<_>>()
        };
        assert_eq!(expired(&rules, 10 * DAY), [run(1, 7)]);
        assert_eq!(expired(&rules, 2 * DAY + DAY / 2), [run(1, 1)]);
        assert_eq!(expired(&Retention::default(), 10 * DAY), []);
        let (last, daily) = ("last 2".parse().expect("rules"), "last 1, daily 8d".parse().expect("rules"));
        assert_eq!(expired(&last, 10 * DAY), [run(1, 5)]);
        assert_eq!(expired(&daily, 10 * DAY + DAY / 2), [run(1, 2)]);
    }

    #[test]
    fn a_million_kept_epochs_are_looked_at_one_by_one() {
        // One epoch a second; of each minute one is kept.
        let (rules, looked) = ("minutely 1y".parse().expect("rules"), std::cell::Cell::new(0));
        let kept = (1..=1_000_000).map(|n| {
            looked.set(n);
            listed((n, 1000 * n))
        });
        let (names, now) = (Names::default(), 1_000_000_000);
        let mut runs = expired((kept, 1_000_000), &rules, &names, now);
        assert_eq!(runs.next(), Some(Ok(EpochRange { from: Epoch(1), to: Epoch(58) })));
        assert!(looked.get() <= 61, "{} were asked for", looked.get());
        assert_eq!(runs.next(), Some(Ok(EpochRange { from: Epoch(60), to: Epoch(118) })));
        assert_eq!((runs.count(), looked.get()), (16_665, 1_000_000));
    }

    #[test]
    fn a_list_that_is_refused_has_nothing_more_expire() {
        let rules = "last 1".parse().expect("rules");
        let kept = [listed((1, 5)), Err(Refusal::ShuttingDown)].into_iter();
        let names = Names::default();
        let found: Vec<_> = expired((kept, 9), &rules, &names, DAY).take(2).collect();
        assert_eq!(found, [Err(Refusal::ShuttingDown)]);
    }

    /// A disk with three epochs; the directory goes with it.
    fn disk() -> (tempfile::TempDir, OpenDisk) {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("disk");
        let versions = VersionsOptions { seal: Some(Seal::None), ..VersionsOptions::default() };
        let options = CreateOptions {
            size: Some(1 << 20),
            store: StoreKind::Versions,
            policy: "clear".into(),
            versions,
            ..CreateOptions::default()
        };
        DiskDir::create(&path, &options).expect("a disk");
        let disk = OpenDisk::open_unlocked(&path, false, Some(&Source::default()), &mut |_, _| true)
            .expect("it opens");
        for byte in 1..=3 {
            let op = Op::Write(vec![byte; 4096].into());
            let request = Request { op, extent: Extent::new(0, 4096), fua: false };
            carry_out(&*disk.engine, request).expect("a write");
            close(&disk.engine, DAY).expect("an epoch");
        }
        (dir, disk)
    }

    fn hold(disk: &OpenDisk, epoch: u64) {
        let hold =
            HoldOf { from: epoch, to: epoch, who: "legal".into(), why: "a case".into(), since_ms: DAY };
        disk.names.hold(disk.dir.directory(), "case", hold).expect("it is held");
    }

    fn kept(disk: &OpenDisk) -> Vec<u64> {
        super::kept(&disk.engine).map(|it| it.expect("a list").epoch).collect()
    }

    #[test]
    fn an_epoch_that_is_held_or_named_while_others_expire_is_kept() {
        let (_dir, disk) = disk();
        let runs = [1, 2, 3].map(|n| EpochRange { from: Epoch(n), to: Epoch(n) });
        hold(&disk, 2);
        disk.names.name(disk.dir.directory(), "release", Epoch(3)).expect("it is named");
        runs.into_iter().for_each(|run| forget_run(&disk, run).expect("the rest expires"));
        assert_eq!(kept(&disk), [2, 3]);
    }

    #[test]
    fn a_forget_waits_for_a_hold_that_is_being_granted_and_is_refused_then() {
        let (_dir, disk) = disk();
        let epochs = Epochs { from: "2".into(), to: None };
        let deciding = disk.names.decide();
        std::thread::scope(|scope| {
            let call = Call::Forget { epochs, wait: false };
            let disk = &disk;
            let forget = scope.spawn(move || disk.reply(&call, None, &mut |_, _| true));
            std::thread::sleep(Duration::from_millis(100));
            hold(disk, 2);
            drop(deciding);
            let refused = forget.join().expect("an answer").expect_err("it is held");
            assert!(refused.to_string().contains("held by"), "{refused}");
        });
        assert_eq!(kept(&disk), [1, 2, 3]);
    }
}
