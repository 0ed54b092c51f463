//! Histories of a vault: puts, forgets, restores and sanitizations at once, and cuts of the power at any write.
//!
//! Oracles: what a live snapshot has is restored as it was put; what nothing refers to since before a sanitization is nowhere when that has
//! ended, whether as content, compressed, as a name, or as a fingerprint, on the media or in the findings of a laboratory; a forget
//! has one receipt, and only then; everything that the index finds is there; a vault that is left alone meets all that it owes.

mod client;
mod forensic;
mod items;
mod life;
mod model;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::verdict::message;
use crate::violation::{Oracle, Violation};

/// What happened in histories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Calls of the vault.
    pub steps: u64,
    /// Snapshots that were committed.
    pub commits: u64,
    /// Chunks that were there when a put offered them.
    pub shared: u64,
    /// Snapshots that were forgotten.
    pub forgets: u64,
    /// Sanitizations that ended.
    pub sanitized: u64,
    /// Chunks that they copied.
    pub copied: u64,
    /// Items that were looked for in vain when one ended.
    pub gone: u64,
    /// Snapshots that were restored.
    pub restores: u64,
    /// Reads of a place where a chunk was before.
    pub stale: u64,
    /// Cuts of the power.
    pub cuts: u64,
    /// Lives that a failing medium ended.
    pub faults: u64,
    /// Puts that found the vault full.
    pub full: u64,
}

impl Figures {
    fn add(&mut self, other: &Figures) {
        self.steps += other.steps;
        self.commits += other.commits;
        self.shared += other.shared;
        self.forgets += other.forgets;
        self.sanitized += other.sanitized;
        self.copied += other.copied;
        self.gone += other.gone;
        self.restores += other.restores;
        self.stale += other.stale;
        self.cuts += other.cuts;
        self.faults += other.faults;
        self.full += other.full;
    }
}

/// Lets the history of `seed` happen.
///
/// # Errors
/// The first promise that was broken.
pub fn played(seed: u64) -> Result<Figures, Violation> {
    let caught = catch_unwind(AssertUnwindSafe(|| life::run(seed)));
    caught.unwrap_or_else(|payload| Err(Violation { oracle: Oracle::Panic, what: message(payload.as_ref()) }))
}

/// The results of many histories: their number, what happened, and the failure of the lowest seed that failed.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Histories that happened.
    pub histories: u64,
    /// What happened.
    pub figures: Figures,
    /// The seed of a history, and the promise that it broke.
    pub failure: Option<(u64, Violation)>,
}

/// Lets the histories of `seeds` happen on so many threads, each of which calls `prepare` first; stops soon after a failure.
pub fn soak(seeds: Range<u64>, threads: usize, prepare: impl Fn() + Sync) -> Tally {
    let (next, is_over) = (AtomicU64::new(seeds.start), AtomicBool::new(false));
    let tally = Mutex::<Tally>::default();
    let work = || {
        prepare();
        while !is_over.load(Ordering::Relaxed) {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds.end {
                return;
            }
            let played = played(seed);
            is_over.fetch_or(played.is_err(), Ordering::Relaxed);
            tally.lock().expect("histories catch panics").add(seed, played);
        }
    };
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    tally.into_inner().expect("histories catch panics")
}

impl Tally {
    fn add(&mut self, seed: u64, played: Result<Figures, Violation>) {
        self.histories += 1;
        match played {
            Ok(figures) => self.figures.add(&figures),
            Err(violation) => {
                let failures = self.failure.take().into_iter().chain([(seed, violation)]);
                self.failure = failures.min_by_key(|(seed, _)| *seed);
            }
        }
    }
}
