//! Changes of parts of blocks, where a store writes whole blocks only: the rest of a block is [merged](merge) in memory, or
//! [copied](copy_up) from below.

pub(in crate::volume) mod copy_up;
pub(in crate::volume) mod merge;
