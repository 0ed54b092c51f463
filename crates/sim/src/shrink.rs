//! From a history that breaks a promise to a short one that still does.
//!
//! First steps are left out (delta debugging: halves, then quarters, down to
//! single steps), then each step and the disk are made simpler, and all of
//! that again until nothing helps any more. Each step carries its own chance,
//! so that leaving one out changes nothing in the others.

mod simpler;

use crate::history::{History, Step};
use crate::rule_e::search::cut_down;
use crate::verdict::verdict;
use crate::violation::Oracle;

/// Most histories that are tried.
const TRIALS_MAX: usize = 20_000;

/// The shortest history found that `oracle` still objects to.
pub fn shrink(history: &History, oracle: Oracle) -> History {
    shrink_by(history, |candidate| verdict(candidate).is_err_and(|it| it.oracle == oracle))
}

/// The shortest history found that `fails`.
pub fn shrink_by(history: &History, mut fails: impl FnMut(&History) -> bool) -> History {
    let (mut best, mut trials_left) = (history.clone(), TRIALS_MAX);
    let mut fails = |candidate: &History| {
        let may_try = trials_left > 0;
        trials_left -= usize::from(may_try);
        may_try && fails(candidate)
    };
    loop {
        let before = best.clone();
        let with = |steps: &[Step]| History { steps: steps.to_vec(), ..before.clone() };
        best.steps = cut_down(before.steps.clone(), |steps| fails(&with(steps)));
        while let Some(simpler) = simpler::histories(&best).into_iter().find(|it| fails(it)) {
            best = simpler;
        }
        if best == before {
            return best;
        }
    }
}

#[cfg(test)]
mod tests;
