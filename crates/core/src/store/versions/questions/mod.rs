//! The answers to questions about epochs: what they show, where two of them differ, and what bytes on a medium are.

pub(super) mod comparing;
pub(super) mod epochs;
pub(super) mod judging;
