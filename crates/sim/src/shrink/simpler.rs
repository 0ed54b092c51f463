//! Steps and disks that are simpler than a given one. Each proposal is smaller in some measure, so
//! that simplifying comes to an end.

use crate::history::{Action, Ask, History, Setup, Step, Store};
use crate::remanence::SECTOR_BYTES;
use quietus_core::store::overlay::Mode;
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};
use quietus_seal::Seal;

/// Largest half of a log of stubs.
const LOG_BYTES_MAX: u64 = 65_536;

/// Histories with one step simpler, or the disk.
pub(super) fn histories(history: &History) -> Vec<History> {
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
    let now = || setup.clone();
    let all = [
        Setup { policy: plain.policy, ..now() },
        Setup { punch: plain.punch, ..now() },
        Setup { run_bytes_max: plain.run_bytes_max, ..now() },
        Setup { batch_bytes_max: plain.batch_bytes_max, ..now() },
        Setup { deadline_ms: plain.deadline_ms, ..now() },
        Setup { detect_zeroes: plain.detect_zeroes, ..now() },
        Setup { half_bytes: plain.half_bytes, ..now() },
        Setup { slots: plain.slots, ..now() },
        Setup { in_flight_max: plain.in_flight_max, ..now() },
        Setup { destage_percent: plain.destage_percent, ..now() },
        Setup { tells_holes: plain.tells_holes, ..now() },
        Setup { origin: plain.origin, ..now() },
        Setup { store: plain.store, ..now() },
        Setup { store: simpler_store(setup.store), ..now() },
        Setup { base_bytes: plain.base_bytes, ..now() },
    ];
    all.into_iter().filter(|it| it != setup).collect()
}

fn simpler_store(store: Store) -> Store {
    match store {
        Store::InPlace => store,
        Store::Overlay(_) => Store::Overlay(Mode::Lazy),
        Store::Versions { .. } => Store::Versions { seal: Seal::RandomKey, log_bytes: LOG_BYTES_MAX },
    }
}
