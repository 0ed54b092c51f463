//! The life of a marked block, enumerated. `quietus-sim marked-block` goes on from there.

use quietus_sim::marked::enumerated;
use quietus_sim::silence_panics;

const STATES: u64 = 4_000;

#[test]
fn the_product_and_the_page_agree_in_every_state_near_the_empty_one() {
    silence_panics();
    let all = enumerated(2, STATES, |_| {});
    assert_eq!(all.failure, None);
    assert_eq!(all.states, STATES);
    assert!(all.depth >= 6 && all.illegal > all.transitions / 3, "{all:?}");
}
