//! Counts how many entries of tables are looked at.
//!
//! Tests hold an event to a limit that does not grow with what is outstanding.
//! Unlike time, steps are the same on every machine. Outside tests nothing is counted.

#[cfg(not(test))]
pub(crate) const fn step() {}

#[cfg(test)]
pub(crate) use count::{step, taken};

#[cfg(test)]
mod count {
    use std::cell::Cell;

    thread_local!(static STEPS: Cell<u64> = const { Cell::new(0) });

    /// One more entry was looked at.
    pub(crate) fn step() {
        STEPS.set(STEPS.get() + 1);
    }

    /// Steps of this thread since the last call.
    pub(crate) fn taken() -> u64 {
        STEPS.replace(0)
    }
}
