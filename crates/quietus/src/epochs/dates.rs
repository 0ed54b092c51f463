//! When epochs closed, as far as anybody can know: the host's clock may have been wrong, and was perhaps set.
//!
//! An epoch counts as closed no earlier than any before it, and those that closed while the clock was in doubt no earlier than the
//! time when somebody confirmed it. So what a date names had closed by then, by every clock that said when; what a date does not name,
//! a forget by date leaves.

use super::asking::{Listed, list};
use super::names::Confirmed;
use super::{FindError, Names};
use crate::engine::Engine;
use quietus_core::request::Refusal;
use quietus_core::units::Epoch;

/// All kept epochs.
pub(super) fn all(engine: &Engine) -> Result<Vec<Listed>, Refusal> {
    let (mut kept, mut from) = (Vec::<Listed>::new(), 0);
    loop {
        let part = list(engine, Epoch(from))?;
        let Some(end) = part.last() else { return Ok(kept) };
        from = end.epoch + 1;
        kept.extend(part);
    }
}

/// Gives the epochs that closed by a clock in doubt the time when that was confirmed: they are not older than they are.
pub(super) fn correct(kept: &mut [Listed], confirmed: &[Confirmed]) {
    for it in kept {
        let in_doubt =
            confirmed.iter().find(|confirmed| confirmed.after < it.epoch && it.epoch <= confirmed.epoch);
        // No two have closed at the same time: a rule keeps the last one of a time only.
        let closed = |confirmed: &Confirmed| confirmed.at_ms.saturating_sub(confirmed.epoch - it.epoch);
        it.closed_ms = in_doubt.map_or(it.closed_ms, closed);
    }
}

/// The kept epochs by the date when each counts as closed, the oldest first.
struct Dated(Vec<Listed>);

impl Dated {
    fn of(engine: &Engine, names: &Names) -> Result<Self, Refusal> {
        let mut kept = all(engine)?;
        correct(&mut kept, &names.confirmed());
        Ok(Self::ascending(kept, names.doubt().map(|doubt| doubt.after)))
    }

    /// The epochs with times that never run back; those after `doubted` have none yet.
    fn ascending(mut kept: Vec<Listed>, doubted: Option<u64>) -> Self {
        let mut latest = 0;
        for it in &mut kept {
            let is_unknown = doubted.is_some_and(|after| it.epoch > after);
            latest = if is_unknown { u64::MAX } else { latest.max(it.closed_ms) };
            it.closed_ms = latest;
        }
        Self(kept)
    }

    fn by(&self, ms: u64) -> Option<Epoch> {
        let end = self.0.partition_point(|it| it.closed_ms <= ms);
        self.0[..end].last().map(|it| Epoch(it.epoch))
    }

    fn from(&self, ms: u64) -> Option<Epoch> {
        let begin = self.0.partition_point(|it| it.closed_ms < ms);
        self.0.get(begin).map(|it| Epoch(it.epoch))
    }
}

/// The last kept epoch that had closed by `ms`, if any had.
pub(super) fn closed_by(engine: &Engine, names: &Names, ms: u64) -> Result<Option<Epoch>, FindError> {
    Ok(Dated::of(engine, names)?.by(ms))
}

/// The first kept epoch that had not closed before `ms`, if there is one.
pub(super) fn closed_from(engine: &Engine, names: &Names, ms: u64) -> Result<Option<Epoch>, FindError> {
    Ok(Dated::of(engine, names)?.from(ms))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dated(closed: &[(u64, u64)], doubted: Option<u64>) -> Dated {
        let listed = |(epoch, closed_ms): &(u64, u64)| Listed {
            epoch: *epoch,
            closed_ms: *closed_ms,
            changed_bytes: 0,
        };
        Dated::ascending(closed.iter().map(listed).collect(), doubted)
    }

    #[test]
    fn a_date_names_nothing_that_closed_later_whatever_the_clock_did() {
        let ran_back = dated(&[(1, 100), (2, 200), (4, 50), (5, 60), (6, 300)], None);
        let by = |ms| ran_back.by(ms).map(|epoch| epoch.0);
        assert_eq!([49, 60, 100, 199].map(by), [None, None, Some(1), Some(1)]);
        assert_eq!([200, 299, 300].map(by), [Some(5), Some(5), Some(6)]);
        let from = |ms| ran_back.from(ms).map(|epoch| epoch.0);
        assert_eq!([0, 101, 200, 201, 301].map(from), [Some(1), Some(2), Some(2), Some(6), None]);
        let doubted = dated(&[(1, 100), (2, 900), (3, 110)], Some(1));
        assert_eq!([100, 899, u64::MAX - 1].map(|ms| doubted.by(ms)), [Some(Epoch(1)); 3]);
    }
}
