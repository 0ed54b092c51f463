//! Vaults that are put to, restored from, forgotten in and sanitized at once, with cuts of the power.

use crate::trial::{assert_kept, of};
use quietus_sim::silence_panics;
use quietus_sim::soak::soak;
use quietus_sim::vault::played;

/// Histories of `make check`.
const HISTORIES: u64 = 300;

#[test]
fn every_promise_of_a_vault_is_kept() {
    silence_panics();
    let tally = soak(played, 0..of(HISTORIES), || {}, |_| {});
    tally.failure.iter().for_each(|(_, part)| assert_kept(part));
    let is_enough = tally.figures.all().all(|count| count > of(HISTORIES) / 5);
    assert!(is_enough, "too little to judge: {:?}", tally.figures);
}
