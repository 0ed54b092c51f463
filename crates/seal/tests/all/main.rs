//! What seals promise, and that they are what their documents say.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod common;
mod destroyed;
mod judge;
mod properties;
mod vectors;
