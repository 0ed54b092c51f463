//! The rules of inference on trial: two versions of each, and a guest that knows what it owns.

pub(crate) mod differential;
pub mod rule_e;
pub mod rule_j;
