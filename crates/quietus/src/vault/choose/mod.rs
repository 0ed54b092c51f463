//! Which snapshots and paths a command means, and which snapshots of a series are kept.

pub(super) mod glob;
pub(super) mod label;
pub(super) mod retention;
pub(super) mod select;
