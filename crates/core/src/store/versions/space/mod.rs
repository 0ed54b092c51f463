//! Space: which slot a version gets, what room the host has given for the tables and homes, and how much memory all of it may take.

pub(super) mod limits;
pub(super) mod room;
pub(super) mod slots;
