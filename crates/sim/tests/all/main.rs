//! The simulator's histories and walks, some of each: `quietus-sim soak` and `differential` play more.

mod keylife;
mod marked;
mod pairs;
mod rule_e;
mod rule_j;
mod trial;
mod unitlife;
mod vault;
