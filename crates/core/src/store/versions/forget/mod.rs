//! Destruction: which versions die with a forget, which stubs are destroyed by which job, and when nothing is left of them.

pub(super) mod forgetting;
pub(super) mod killing;
pub(super) mod rekeying;
