//! Sanitizing a vault, proving what is gone, and making its catalog anew.

pub(super) mod prove;
pub(super) mod repair;
pub(super) mod sanitize;
