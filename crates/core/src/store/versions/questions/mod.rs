//! The answers to questions about epochs: what they show, where two of them differ, which of them change some blocks, and what bytes on a
//! medium are.

pub(super) mod comparing;
pub(super) mod epochs;
pub(super) mod judging;
pub(super) mod lives;
