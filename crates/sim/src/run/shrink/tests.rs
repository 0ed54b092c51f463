use crate::machine::history::{Action, Ask};
use crate::run::shrink::*;

/// A history fails if a trim comes after a write that it overlaps.
fn trims_what_was_written(history: &History) -> bool {
    let mut written = Vec::new();
    history.steps.iter().any(|step| match step.action {
        Action::Send { ask: Ask::Write, extent, .. } => {
            written.push(extent);
            false
        }
        Action::Send { ask: Ask::Trim, extent, .. } => written.iter().any(|it| it.overlaps(extent)),
        _ => false,
    })
}

#[test]
fn shrinking_ends_with_the_two_steps_that_matter() {
    let failing = (0..).map(History::from_seed).find(trims_what_was_written);
    let history = failing.expect("such a history is common");
    let short = shrink_by(&history, trims_what_was_written);
    assert!(trims_what_was_written(&short));
    assert_eq!(short.steps.len(), 2, "{short}");
    assert!(short.steps.iter().all(|step| step.turns == 0 && step.salt == 0), "{short}");
    assert_eq!((short.setup.policy, short.setup.in_flight_max), ("clear", 1));
}
