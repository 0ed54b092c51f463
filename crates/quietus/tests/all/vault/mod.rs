//! Vaults, through the program as a user runs it.

mod catalog;
mod choosing;
mod damage;
mod device;
mod disk;
mod finding;
mod forgetting;
mod full;
mod mounting;
mod program;
mod reading;
mod repeating;
mod restoring;
mod tar;
mod together;
mod unchanged;
