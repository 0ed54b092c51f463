//! Which guest is played above which store, how a failing history is cut down, and the hunt for deliberate defects.

#[cfg(debug_assertions)]
pub mod mutants;
pub mod pairs;
pub(crate) mod shrink;
