//! When epochs closed, as far as can be known: the host's clock may have been wrong, and was perhaps set.
//!
//! An epoch counts as closed no earlier than any before it, and those that closed while the clock was in doubt no earlier than the
//! time when the operator confirmed it. So what a date names had closed by then, by every clock that said when; what a date does not name,
//! a forget by date leaves.
//!
//! Lists are read page by page: a disk may keep a million epochs.

use super::asking::{Listed, list};
use crate::disk::epochs::{Confirmed, Names};
use crate::engine::Engine;
use quietus_core::base::units::Epoch;
use quietus_core::request::Refusal;
use std::iter::from_fn;

/// All kept epochs, the oldest first; one answer of the volume is in memory at a time. Nothing follows an error.
pub(crate) fn kept(engine: &Engine) -> impl Iterator<Item = Result<Listed, Refusal>> {
    let (mut page, mut next) = (Vec::new().into_iter(), Some(Epoch(0)));
    from_fn(move || {
        if page.len() == 0 {
            match list(engine, next.take()?) {
                Ok(part) => page = part.into_iter(),
                Err(refusal) => return Some(Err(refusal)),
            }
        }
        let listed = page.next()?;
        next = Some(Epoch(listed.epoch + 1));
        Some(Ok(listed))
    })
}

/// Gives an epoch that closed by a clock in doubt the time when that was confirmed: it is not older than that.
pub(super) fn corrected(listed: Listed, confirmed: &[Confirmed]) -> Listed {
    let covers = |it: &&Confirmed| it.after < listed.epoch && listed.epoch <= it.epoch;
    // No two have closed at the same time: a rule keeps the last one of a time only.
    let closed = |it: &Confirmed| it.at_ms.saturating_sub(it.epoch - listed.epoch);
    Listed { closed_ms: confirmed.iter().find(covers).map_or(listed.closed_ms, closed), ..listed }
}

/// The kept epochs with the date when each counts as closed, which never runs back; epochs that closed in doubt have no date yet.
pub(super) fn dated(engine: &Engine, names: &Names) -> impl Iterator<Item = Result<Listed, Refusal>> {
    let (confirmed, doubted) = (names.confirmed(), names.doubt().map(|doubt| doubt.after));
    let corrected = kept(engine).map(move |it| it.map(|it| corrected(it, &confirmed)));
    ascending(corrected, doubted)
}

fn ascending(
    kept: impl Iterator<Item = Result<Listed, Refusal>>,
    doubted: Option<u64>,
) -> impl Iterator<Item = Result<Listed, Refusal>> {
    let mut latest = 0;
    kept.map(move |it| {
        let it = it?;
        let is_unknown = doubted.is_some_and(|after| it.epoch > after);
        latest = if is_unknown { u64::MAX } else { latest.max(it.closed_ms) };
        Ok(Listed { closed_ms: latest, ..it })
    })
}

/// The last of the dated epochs that had closed by `ms`.
pub(super) fn last_by(
    mut dated: impl Iterator<Item = Result<Listed, Refusal>>,
    ms: u64,
) -> Result<Option<Epoch>, Refusal> {
    let mut last = None;
    while let Some(it) = dated.next().transpose()?.filter(|it| it.closed_ms <= ms) {
        last = Some(Epoch(it.epoch));
    }
    Ok(last)
}

/// The first of the dated epochs that had not closed before `ms`.
pub(super) fn first_from(
    mut dated: impl Iterator<Item = Result<Listed, Refusal>>,
    ms: u64,
) -> Result<Option<Epoch>, Refusal> {
    let found = dated.find(|it| it.as_ref().map_or(true, |it| it.closed_ms >= ms)).transpose()?;
    Ok(found.map(|it| Epoch(it.epoch)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(closed: &[(u64, u64)], doubted: Option<u64>) -> impl Iterator<Item = Result<Listed, Refusal>> {
        let listed = |(epoch, closed_ms)| Ok(Listed { epoch, closed_ms, changed_bytes: 0 });
        ascending(closed.iter().copied().map(listed), doubted)
    }

    #[test]
    fn a_date_names_nothing_that_closed_later_whatever_the_clock_did() {
        let ran_back = || dated(&[(1, 100), (2, 200), (4, 50), (5, 60), (6, 300)], None);
        let by = |ms| last_by(ran_back(), ms).expect("a list").map(|epoch| epoch.0);
        assert_eq!([49, 60, 100, 199].map(by), [None, None, Some(1), Some(1)]);
        assert_eq!([200, 299, 300].map(by), [Some(5), Some(5), Some(6)]);
        let from = |ms| first_from(ran_back(), ms).expect("a list").map(|epoch| epoch.0);
        assert_eq!([0, 101, 200, 201, 301].map(from), [Some(1), Some(2), Some(2), Some(6), None]);
        let doubted = || dated(&[(1, 100), (2, 900), (3, 110)], Some(1));
        assert!([100, 899, u64::MAX - 1].iter().all(|ms| last_by(doubted(), *ms) == Ok(Some(Epoch(1)))));
    }

    #[test]
    fn a_list_that_is_refused_names_no_epoch() {
        let refused = || dated(&[(1, 100)], None).chain([Err(Refusal::ShuttingDown)]);
        assert_eq!(last_by(refused(), 200), Err(Refusal::ShuttingDown));
        assert_eq!(first_from(refused(), 200), Err(Refusal::ShuttingDown));
    }
}
