//! Many histories, over all cores.

use crate::rules::rule_e::search::Part;
use std::collections::BTreeMap;
use std::ops::{AddAssign, Range};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Defines the figures of histories, and how those of several add up.
macro_rules! figures {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// Events of a history: evidence that the oracles had something to judge.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Figures {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Figures {
            /// All figures.
            pub fn all(&self) -> impl Iterator<Item = u64> {
                [$(self.$name),*].into_iter()
            }
        }

        impl std::ops::AddAssign for Figures {
            fn add_assign(&mut self, other: Self) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

pub(crate) use figures;

/// Results of many histories.
#[derive(Clone, Debug, Default)]
pub struct Tally<F> {
    /// Histories that happened.
    pub histories: u64,
    /// Number of steps of all histories.
    pub steps: u64,
    /// Sums of the figures.
    pub figures: F,
    /// The failure of the lowest seed among those that failed.
    pub failure: Option<(u64, Part)>,
}

/// Lets the histories of `seeds` happen, as `played`, and stops soon after the first failure. Each
/// thread calls `prepare` first; `progress` is told how many histories are done.
pub fn soak<F: AddAssign + Default + Send>(
    played: impl Fn(u64) -> (Part, F) + Sync,
    seeds: Range<u64>,
    prepare: impl Fn() + Sync,
    progress: impl Fn(u64) + Sync,
) -> Tally<F> {
    let tally = Mutex::<Tally<F>>::default();
    let work = |seed| {
        let (part, figures) = played(seed);
        let is_over = part.failure.is_some();
        let mut tally = tally.lock().expect("verdicts do not panic");
        tally.add(seed, part, figures);
        progress(tally.histories);
        is_over
    };
    spread(seeds, prepare, work);
    tally.into_inner().expect("verdicts do not panic")
}

/// The results of `work` on the numbers below `end`, over all processors, in their order.
pub fn split<T: Send>(end: u64, work: impl Fn(u64) -> T + Sync) -> Vec<T> {
    let parts = Mutex::<BTreeMap<u64, T>>::default();
    let work = |n| {
        let part = work(n);
        parts.lock().expect("parts catch panics").insert(n, part);
        false
    };
    spread(0..end, || {}, work);
    parts.into_inner().expect("parts catch panics").into_values().collect()
}

/// Does `work` on `numbers` over all processors, until it says that this is enough.
fn spread(numbers: Range<u64>, prepare: impl Fn() + Sync, work: impl Fn(u64) -> bool + Sync) {
    let (next, is_over) = (AtomicU64::new(numbers.start), AtomicBool::new(false));
    let work = || {
        prepare();
        while !is_over.load(Ordering::Relaxed) {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= numbers.end {
                return;
            }
            is_over.fetch_or(work(n), Ordering::Relaxed);
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
}

impl<F: AddAssign> Tally<F> {
    fn add(&mut self, seed: u64, part: Part, figures: F) {
        self.histories += 1;
        self.steps += part.transitions;
        self.figures += figures;
        let is_first = self.failure.as_ref().is_none_or(|(first, _)| seed < *first);
        if part.failure.is_some() && is_first {
            self.failure = Some((seed, part));
        }
    }
}
