//! Vaults that are put to, restored from, forgotten in and sanitized at once, with cuts of the power.

use crate::trial::assert_kept;
use quietus_sim::silence_panics;
use quietus_sim::soak::soak;
use quietus_sim::vault::played;

/// Histories of a CI run.
const HISTORIES: u64 = 300;

#[test]
fn every_promise_of_a_vault_is_kept() {
    silence_panics();
    let tally = soak(played, 0..HISTORIES, || {}, |_| {});
    tally.failure.iter().for_each(|(_, part)| assert_kept(part));
    let is_enough = tally.figures.all().all(|count| count > HISTORIES / 5);
    assert!(is_enough, "too little to judge: {:?}", tally.figures);
}
