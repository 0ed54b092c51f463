//! A history's verdict, whatever the code under test does.

use crate::history::History;
use crate::violation::{Oracle, Violation};
use crate::world::{self, Figures};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Lets `history` happen, and takes a panic for what it is: a broken promise.
pub fn verdict(history: &History) -> Result<Figures, Violation> {
    let caught = catch_unwind(AssertUnwindSafe(|| world::run(history)));
    caught.unwrap_or_else(|payload| Err(Violation { oracle: Oracle::Panic, what: message(payload.as_ref()) }))
}

pub(crate) fn message(payload: &(dyn Any + Send)) -> String {
    let text = payload.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "it says nothing".into())
}

/// Keeps panics, which are verdicts here, off the screen.
pub fn silence_panics() {
    std::panic::set_hook(Box::new(|_| {}));
}
