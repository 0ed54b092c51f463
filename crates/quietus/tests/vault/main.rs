//! Vaults, through the program as a user runs it.

mod damage;
mod finding;
mod forgetting;
mod killed;
mod mounting;
mod program;
mod restoring;
mod tar;
