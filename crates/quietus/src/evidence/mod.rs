//! The audit log, and the thread that writes one.

pub mod audit_log;
pub mod recorder;
