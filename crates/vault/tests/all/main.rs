//! What a vault takes of its host.

mod memory;
