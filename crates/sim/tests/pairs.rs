//! Every guest above every store that the table of pairs puts it above.

use quietus_sim::pairs::{Guest, PAIRS, Pair};
use quietus_sim::server::Figures;
use quietus_sim::verdict::silence_panics;

fn play(pair: &Pair) {
    silence_panics();
    let (mut steps, mut figures) = (0, Figures::default());
    for seed in 0..pair.histories {
        let (part, seen) = pair.played(seed);
        if let Some((history, broken)) = &part.failure {
            eprintln!("{}: {broken}\n{history}", part.name);
            std::process::exit(1);
        }
        steps += part.transitions;
        figures.add(&seen);
    }
    assert!(steps > pair.histories * 50, "the lives are short: {steps} steps");
    let Figures { done, refused, inferred, shredded, crashes, examined, .. } = figures;
    let seen = [done, refused, inferred, shredded, crashes, examined];
    assert!(seen.iter().all(|it| *it > pair.histories / 20), "{pair}: too little to judge: {figures:?}");
}

#[test]
fn what_a_guest_owns_stays_and_what_is_dead_is_destroyed() {
    PAIRS.iter().filter(|it| it.guest != Guest::Bare).for_each(play);
}
