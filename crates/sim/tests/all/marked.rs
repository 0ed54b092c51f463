//! The life of a marked block, in some of its lives. `quietus-sim marked-block` plays all.

use crate::trial::{assert_enough, of};
use quietus_sim::marked::graph::Graph;
use quietus_sim::marked::lives::{Enumerated, enumerated};
use quietus_sim::silence_panics;

/// Lives with one file in which `make check` plays one.
const EVERY: u64 = 200;
/// States with two files that `make check` explores.
const STATES: u64 = 4_000;

fn played(graph: &Graph, every: u64) -> Enumerated {
    silence_panics();
    let all = enumerated(graph, 0, every, |_| {});
    assert!(all.failure.is_none(), "{:#?}", all.failure);
    all
}

#[test]
fn the_product_and_the_page_agree_in_lives_of_one_file_from_the_first_state_to_the_last() {
    let graph = Graph::explored(1, u64::MAX);
    assert!(graph.is_complete());
    let all = played(&graph, EVERY * (EVERY / of(EVERY)));
    let is_deep = all.states >= of(33_020) && all.depth >= 16;
    assert_enough(is_deep && all.illegal > all.transitions / 3, &all);
}

#[test]
fn the_product_and_the_page_agree_on_two_files_in_every_state_near_the_first_one() {
    let states = of(STATES);
    let all = played(&Graph::explored(2, states), 1);
    assert_eq!((all.states, all.transitions), (states, 28 * states));
    let deep = if states < STATES { 4 } else { 6 };
    assert_enough(all.depth >= deep && all.illegal > all.transitions / 3, &all);
}
