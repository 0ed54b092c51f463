//! The deterministic simulator.
pub mod content;
pub mod dice;
pub mod medium;
pub mod remanence;
