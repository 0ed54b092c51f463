//! What is written down as it happens: the audit log, and the thread that writes one.

pub mod audit_log;
pub mod recorder;
