//! Many histories of a pair, over all cores.

use crate::pairs::Pair;
use crate::rule_e::search::Part;
use crate::server::Figures;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Histories that a thread takes at a time.
const CHUNK: u64 = 16;

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
            let start = next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= seeds.end {
                return;
            }
            let part = chunk(pair, start..seeds.end.min(start + CHUNK));
            is_over.fetch_or(part.failure.is_some(), Ordering::Relaxed);
            let mut tally = tally.lock().expect("verdicts do not panic");
            tally.add(part);
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

/// The histories of `seeds`, up to the first that fails.
fn chunk(pair: &Pair, seeds: Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        let (part, figures) = pair.played(seed);
        let failure = part.failure.is_some().then(|| (seed, part.clone()));
        tally.add(Tally { histories: 1, steps: part.transitions, figures, failure });
        if tally.failure.is_some() {
            break;
        }
    }
    tally
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.steps += other.steps;
        self.figures.add(&other.figures);
        let failures = self.failure.take().into_iter().chain(other.failure);
        self.failure = failures.min_by_key(|(seed, _)| *seed);
    }
}
