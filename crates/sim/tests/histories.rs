//! Ten thousand histories, each with every oracle watching.

use quietus_sim::soak::{Tally, soak, threads};
use quietus_sim::verdict::silence_panics;

const SEEDS: u64 = 10_000;

fn run() -> Tally {
    silence_panics();
    soak(0..SEEDS, threads(), || {}, |_| {})
}

#[test]
fn every_promise_is_kept_in_ten_thousand_histories() {
    let tally = run();
    if let Some((seed, violation)) = &tally.failure {
        eprintln!("seed {seed}: {violation}\nagain: cargo run -p quietus-sim --release -- --seed {seed}");
        std::process::exit(1);
    }
    assert_eq!(tally.histories, SEEDS);
    let it = tally.figures;
    let seen = [it.done, it.refused, it.shredded, it.scoured, it.crashes, it.cut_in_recovery, it.failures];
    assert!(seen.iter().all(|count| *count > SEEDS / 20), "the oracles had too little to judge: {it:?}");
    assert!(it.examined >= 2 * SEEDS, "each history ends with two examinations: {it:?}");
}

/// Histories that found a defect which few find. 919933: an act that began within
/// a block of an overlay's base, so that the block died in parts, and the base
/// showed through again.
const RARE: [u64; 1] = [919_933];

#[test]
fn what_few_histories_find_stays_found() {
    for seed in RARE {
        let tally = soak(seed..seed + 1, 1, || {}, |_| {});
        assert!(tally.failure.is_none(), "{:?}", tally.failure);
    }
}
