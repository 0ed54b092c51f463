//! Many histories, over all cores.

use crate::history::History;
use crate::verdict::verdict;
use crate::violation::Violation;
use crate::world::Figures;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Histories that a thread takes at a time.
const CHUNK: u64 = 16;

/// What came of many histories.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Histories that happened.
    pub histories: u64,
    /// Their sums.
    pub figures: Figures,
    /// The failure of the lowest seed among those that failed.
    pub failure: Option<(u64, Violation)>,
}

/// Lets the histories of `seeds` happen, and stops soon after the first
/// failure. Each of `threads` threads calls `prepare` first; `progress` is told
/// how many histories are done.
pub fn soak(
    seeds: Range<u64>,
    threads: usize,
    prepare: impl Fn() + Sync,
    progress: impl Fn(u64) + Sync,
) -> Tally {
    let shared = Shared {
        next: AtomicU64::new(seeds.start),
        end: seeds.end,
        is_over: AtomicBool::new(false),
        tally: Mutex::default(),
    };
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                prepare();
                shared.work(&progress);
            });
        }
    });
    shared.tally.into_inner().expect("verdicts do not panic")
}

/// The processors of this machine.
#[must_use]
pub fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

struct Shared {
    next: AtomicU64,
    end: u64,
    is_over: AtomicBool,
    tally: Mutex<Tally>,
}

impl Shared {
    fn work(&self, progress: &impl Fn(u64)) {
        while !self.is_over.load(Ordering::Relaxed) {
            let start = self.next.fetch_add(CHUNK, Ordering::Relaxed);
            if start >= self.end {
                return;
            }
            let part = chunk(start..self.end.min(start + CHUNK));
            self.is_over.fetch_or(part.failure.is_some(), Ordering::Relaxed);
            let mut tally = self.tally.lock().expect("verdicts do not panic");
            tally.add(part);
            progress(tally.histories);
        }
    }
}

/// The histories of `seeds`, up to the first that fails.
fn chunk(seeds: Range<u64>) -> Tally {
    let mut tally = Tally::default();
    for seed in seeds {
        tally.histories += 1;
        match verdict(&History::from_seed(seed)) {
            Ok(figures) => tally.figures.add(&figures),
            Err(violation) => {
                tally.failure = Some((seed, violation));
                break;
            }
        }
    }
    tally
}

impl Tally {
    fn add(&mut self, other: Self) {
        self.histories += other.histories;
        self.figures.add(&other.figures);
        let failures = self.failure.take().into_iter().chain(other.failure);
        self.failure = failures.min_by_key(|(seed, _)| *seed);
    }
}
