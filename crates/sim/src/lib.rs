//! The deterministic simulator.
//!
//! A seed makes a [`history`](machine::history): a small disk, and its events. The [`server`] drives the code that is
//! served, unchanged, on simulated media ([`medium`](machine::medium)) that have a volatile cache, tear and fold
//! writes, fail and remember every layer that was ever on them ([`remanence`](machine::remanence)). Above it there is a
//! guest: requests that know no file system ([`world`](guests::world)), or file systems that a watcher observes
//! ([`files`](guests::files)); [`pairs`](run::pairs) says which guest
//! is put above which store. Three oracles watch, and identify bytes by [`content`](machine::content), never by
//! place:
//!
//! - *safety* ([`model`](guests::model), `guests::files::shelf`): what is read is what was promised to be there, after
//!   any crash; nothing that a guest owns dies;
//! - *forensic* (`server::forensic`, and one of each guest): what was called destroyed, or is
//!   owed to be when nothing is owed any more, has had its passes, everywhere;
//! - *liveness of obligations* ([`server`]): a disk that is left alone completes all
//!   its obligations, whatever happened before, in bounded time.
//!
//! An error, be it a text or a [`verdict::Violation`], is the first promise that was broken, or what
//! two versions of a rule disagree on.
//!
//! A history that breaks a promise is cut down to a few steps ([`shrink`](run::shrink)).
//! Everything follows from the seed: the same seed is the same failure.
#![forbid(unsafe_code)]

mod guests;
pub mod keylife;
mod machine;
pub mod marked;
pub mod rules;
pub mod run;
mod server;
pub mod soak;
mod spent;
pub mod unitlife;
pub mod vault;
mod verdict;

pub use crate::rules::differential::Watchers;
pub use server::Figures;
pub use verdict::silence_panics;
