//! The simulator's own test: deliberate defects of the core that it must find.

use crate::history::History;
use crate::shrink::shrink;
use crate::soak::soak;
use crate::violation::Violation;
use quietus_core::mutant::{Mutant, activate};

/// How a defect was found.
#[derive(Clone, Debug)]
pub struct Caught {
    /// Histories that happened until then, about.
    pub histories: u64,
    /// A history that shows the defect, cut down.
    pub history: History,
    /// What the oracle says of it.
    pub violation: Violation,
}

/// Switches `mutant` on and lets histories happen until one fails; at most
/// `seeds_max`. None: the defect was not found.
#[must_use]
pub fn hunt(mutant: Mutant, seeds_max: u64, threads: usize) -> Option<Caught> {
    let tally = soak(0..seeds_max, threads, || activate(Some(mutant)), |_| {});
    let (seed, violation) = tally.failure?;
    activate(Some(mutant));
    let history = shrink(&History::from_seed(seed), violation.oracle);
    let violation = crate::verdict::verdict(&history).err().unwrap_or(violation);
    activate(None);
    Some(Caught { histories: tally.histories, history, violation })
}
