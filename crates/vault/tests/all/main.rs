//! The resources that a vault takes from its host.

mod memory;
