//! Many histories of a pair, over all cores.

use crate::pairs::Pair;
use crate::rule_e::search::Part;
use crate::server::Figures;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Results of many histories.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Histories that happened.
    pub histories: u64,
    /// Number of steps of all histories.
    pub steps: u64,
    /// Sums of the figures.
    pub figures: Figures,
    /// The failure of the lowest seed among those that failed.
    pub failure: Option<(u64, Part)>,
}

/// Lets the histories of `seeds` happen to `pair`, and stops soon after the first
/// failure. Each of `threads` threads calls `prepare` first; `progress` is told
/// how many histories are done.
pub fn soak(
    pair: &Pair,
    seeds: Range<u64>,
    threads: usize,
    prepare: impl Fn() + Sync,
    progress: impl Fn(u64) + Sync,
) -> Tally {
    let (next, is_over) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let tally = Mutex::<Tally>::default();
    let work = || {
        prepare();
        while !is_over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let (part, figures) = pair.played(seed);
            is_over.fetch_or(part.failure.is_some(), Ordering::Relaxed);
            let mut tally = tally.lock().expect("verdicts do not panic");
            tally.add(seed, part, &figures);
            progress(tally.histories);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    tally.into_inner().expect("verdicts do not panic")
}

/// The processors of this machine.
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

impl Tally {
    fn add(&mut self, seed: u64, part: Part, figures: &Figures) {
        self.histories += 1;
        self.steps += part.transitions;
        self.figures.add(figures);
        let is_first = self.failure.as_ref().is_none_or(|(first, _)| seed < *first);
        if part.failure.is_some() && is_first {
            self.failure = Some((seed, part));
        }
    }
}
