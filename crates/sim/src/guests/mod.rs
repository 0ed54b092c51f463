//! What is simulated above a disk: bare requests ([`world`]) with the plain model of what they must see ([`model`]), and file systems with their
//! clients ([`files`]).

pub(crate) mod files;
pub(crate) mod model;
pub(crate) mod world;
