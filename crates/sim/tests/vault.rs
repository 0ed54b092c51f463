//! Vaults that are put to, restored from, forgotten in and sanitized at once, with cuts of the power.

use quietus_sim::soak::threads;
use quietus_sim::vault::{Figures, soak};
use quietus_sim::verdict::silence_panics;

/// Histories of a CI run.
const HISTORIES: u64 = 300;

#[test]
fn every_promise_of_a_vault_is_kept() {
    silence_panics();
    let tally = soak(0..HISTORIES, threads(), || {});
    if let Some((seed, violation)) = tally.failure {
        panic!("{violation}\nagain: cargo run -p quietus-sim --release -- vault --from {seed} --seeds 1");
    }
    let Figures {
        commits,
        shared,
        forgets,
        sanitized,
        copied,
        gone,
        restores,
        stale,
        cuts,
        faults,
        full,
        ..
    } = tally.figures;
    let seen = [commits, shared, forgets, sanitized, copied, gone, restores, stale, cuts, faults, full];
    assert!(seen.iter().all(|count| *count > HISTORIES / 5), "too little to judge: {:?}", tally.figures);
}
