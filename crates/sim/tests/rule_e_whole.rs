//! A guest with a file system above a whole volume that watches it.

use quietus_sim::rule_e::trial::walked_whole;
use quietus_sim::verdict::silence_panics;

const GUESTS: u64 = 3_000;
/// Seeds of failures that were mended: a death during a conservative overwrite.
const KNOWN: [u64; 1] = [6483];

#[test]
fn what_a_guest_owns_stays_and_what_is_dead_is_destroyed_below_a_whole_volume() {
    silence_panics();
    let mut steps = 0;
    for seed in (0..GUESTS).chain(KNOWN) {
        let part = walked_whole(seed);
        if let Some((history, broken)) = &part.failure {
            eprintln!("{}: {broken}\n{history}", part.name);
            std::process::exit(1);
        }
        steps += part.transitions;
    }
    assert!(steps > GUESTS * 50, "the lives are short: {steps} steps");
}
