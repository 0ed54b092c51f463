//! The commands that need more than a call.

pub(super) mod doctor;
pub(super) mod epochs;
pub(super) mod files;
pub(super) mod key;
pub(super) mod list;
pub(super) mod past;
pub(super) mod repair;
pub(super) mod serve;
pub(super) mod vault;
