//! Vaults, through the program as a user runs it.

mod catalog;
mod damage;
pub(crate) mod device;
mod disk;
pub(crate) mod files;
mod finding;
mod forgetting;
mod full;
mod program;
mod reading;
mod together;
