//! A vault on this host: its directory, its settings, its audit log, and a vault that is open here.

pub(super) mod dir;
pub(super) mod record;
pub(super) mod session;
pub(super) mod settings;
