//! A history's verdict, whatever the code under test does.

use crate::history::History;
use crate::violation::{Oracle, Violation};
use crate::world::{self, Figures};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lets `history` happen.
pub fn verdict(history: &History) -> Result<Figures, Violation> {
    caught(|| world::run(history))
}

/// The result of `work`; takes a panic for what it is: a broken promise.
pub(crate) fn caught<T, E: From<Violation>>(work: impl FnOnce() -> Result<T, E>) -> Result<T, E> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|payload| {
        let text = payload.downcast_ref::<&str>().map(ToString::to_string);
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned());
        let what = text.unwrap_or_else(|| "it says nothing".into());
        Err(Violation { oracle: Oracle::Panic, what }.into())
    })
}

/// Keeps panics, which are verdicts here, off the screen.
pub fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}
