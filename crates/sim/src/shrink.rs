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
pub fn shrink_by(history: &History, fails: impl FnMut(&History) -> bool) -> History {
    let mut search = Search { best: history.clone(), fails, trials_left: TRIALS_MAX };
    while search.round() {}
    search.best
}

struct Search<F> {
    best: History,
    fails: F,
    trials_left: usize,
}

impl<F: FnMut(&History) -> bool> Search<F> {
    /// Tries everything once; says whether something helped.
    fn round(&mut self) -> bool {
        let before = self.best.clone();
        self.leave_out();
        self.simplify_steps();
        self.simplify_setup();
        self.best != before && self.trials_left > 0
    }

    fn try_out(&mut self, candidate: History) -> bool {
        if self.trials_left == 0 || candidate == self.best {
            return false;
        }
        self.trials_left -= 1;
        let fails = (self.fails)(&candidate);
        if fails {
            self.best = candidate;
        }
        fails
    }

    fn leave_out(&mut self) {
        let steps = self.best.steps.clone();
        cut_down(steps, |shorter| {
            let steps = shorter.to_vec();
            self.try_out(History { steps, ..self.best.clone() })
        });
    }

    fn simplify_steps(&mut self) {
        for index in 0..self.best.steps.len() {
            while self.simplify_step(index) {}
        }
    }

    fn simplify_step(&mut self, index: usize) -> bool {
        let step = self.best.steps[index].clone();
        simpler::steps(&step).into_iter().any(|simpler: Step| {
            let mut candidate = self.best.clone();
            candidate.steps[index] = simpler;
            self.try_out(candidate)
        })
    }

    fn simplify_setup(&mut self) {
        while simpler::setups(&self.best.setup).into_iter().any(|setup| {
            let candidate = History { setup, ..self.best.clone() };
            self.try_out(candidate)
        }) {}
    }
}

#[cfg(test)]
mod tests;
