//! The deterministic simulator.
pub mod book;
pub mod content;
pub mod dice;
pub mod history;
pub mod medium;
pub mod remanence;
pub mod shrink;
pub mod verdict;
pub mod violation;
pub mod world;
