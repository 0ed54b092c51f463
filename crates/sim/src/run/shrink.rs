//! From a history that breaks a promise to a short one that still does.
//!
//! First steps are left out (delta debugging: halves, then quarters, down to
//! single steps), then each step and the disk are made simpler, and all of
//! that again until nothing helps any more. Each step carries its own chance,
//! so that leaving one out changes nothing in the others.

use crate::guests::world::verdict;
use crate::machine::history::{Action, Ask, History, Setup, Step, Store};
use crate::machine::remanence::SECTOR_BYTES;
use crate::rules::rule_e::search::cut_down;
use crate::verdict::Oracle;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::store::overlay::Mode;
use quietus_seal::Seal;

const TRIALS_MAX: usize = 20_000;
/// Largest half of a log of stubs.
const LOG_BYTES_MAX: u64 = 65_536;

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
        while let Some(simpler) = simpler(&best).into_iter().find(|it| fails(it)) {
            best = simpler;
        }
        if best == before {
            return best;
        }
    }
}

/// Histories with one step simpler, or the disk. Each is smaller in some measure, so that simplifying comes to an end.
fn simpler(history: &History) -> Vec<History> {
    let with_step = |n: usize, step: Step| {
        let mut simpler = history.clone();
        simpler.steps[n] = step;
        simpler
    };
    let of_steps = history.steps.iter().enumerate();
    let of_steps = of_steps.flat_map(|(n, it)| steps(it).into_iter().map(move |step| with_step(n, step)));
    let of_setup = setups(&history.setup).into_iter();
    of_steps.chain(of_setup.map(|setup| History { setup, ..history.clone() })).collect()
}

/// Steps simpler than `step`, the simplest first.
fn steps(step: &Step) -> Vec<Step> {
    let turns = [0, step.turns / 2, step.turns.saturating_sub(1)].into_iter().filter(|it| *it < step.turns);
    let turns = turns.map(|turns| Step { turns, ..step.clone() });
    let salts = (0..4).filter(|it| *it < step.salt).map(|salt| Step { salt, ..step.clone() });
    let actions = actions(step.action).into_iter().map(|action| Step { action, ..step.clone() });
    turns.chain(salts).chain(actions).collect()
}

fn actions(action: Action) -> Vec<Action> {
    match action {
        Action::Send { ask, extent, fua } => requests(ask, extent, fua),
        Action::PowerCut { again_after: Some(_) } => vec![Action::PowerCut { again_after: None }],
        Action::Fault { target, kind, after } if after > 0 => {
            vec![Action::Fault { target, kind, after: 0 }, Action::Fault { target, kind, after: after - 1 }]
        }
        Action::Busy { after, times } => {
            let fewer = (1..times).rev().map(|times| Action::Busy { after, times });
            let sooner = (after > 0).then(|| Action::Busy { after: after - 1, times });
            fewer.chain(sooner).collect()
        }
        Action::Wait { ms } if ms > 300 => vec![Action::Wait { ms: 300 }],
        _ => Vec::new(),
    }
}

fn requests(ask: Ask, extent: Extent<Addr>, fua: bool) -> Vec<Action> {
    let mut simpler: Vec<Action> =
        extents(extent).into_iter().map(|extent| Action::Send { ask, extent, fua }).collect();
    if fua {
        simpler.push(Action::Send { ask, extent, fua: false });
    }
    if matches!(ask, Ask::Purge | Ask::Zero { .. }) {
        simpler.push(Action::Send { ask: Ask::Trim, extent, fua });
    }
    simpler
}

fn extents(extent: Extent<Addr>) -> Vec<Extent<Addr>> {
    let (start, end) = (extent.start.0, extent.end());
    let mut simpler = Vec::new();
    for grain in [BLOCK_BYTES, SECTOR_BYTES as u64] {
        let down = start / grain * grain;
        for (from, to) in [(down, down + grain), (down, end / grain * grain), (start, start + extent.len / 2)]
        {
            let is_smaller = from <= to && to - from > 0 && (to - from < extent.len || from < start);
            if is_smaller && to <= end {
                simpler.push(Extent::between(from, to));
            }
        }
    }
    simpler
}

/// Disks simpler than `setup`, the simplest first.
fn setups(setup: &Setup) -> Vec<Setup> {
    let plain = Setup::plain(setup.disk_bytes);
    macro_rules! plainer {
        ($($field:ident)*) => { vec![$(Setup { $field: plain.$field, ..setup.clone() }),*] };
    }
    let mut all = plainer!(policy punch run_bytes_max batch_bytes_max deadline_ms detect_zeroes half_bytes
        slots in_flight_max destage_percent tells_holes origin store base_bytes);
    let store = match setup.store {
        Store::InPlace | Store::Spent | Store::Sealed => setup.store,
        Store::Overlay(_) => Store::Overlay(Mode::Lazy),
        Store::Versions { .. } => Store::Versions { seal: Seal::RandomKey, log_bytes: LOG_BYTES_MAX },
    };
    all.push(Setup { store, ..setup.clone() });
    all.retain(|it| it != setup);
    all
}

#[cfg(test)]
mod tests;
