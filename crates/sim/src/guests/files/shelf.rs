//! The contents that may be read from each block, by the requests to the disk alone: the promises
//! of a disk that destroys nothing.

use crate::machine::remanence::SECTOR_BYTES;
use crate::rules::rule_e::guest::Stay;
use quietus_core::base::zeros::is_zeros;
use std::fmt;

/// A moment: replies and flushes are told apart by it.
pub type Moment = u64;

/// One content that a block was given.
#[derive(Clone)]
struct Version {
    bytes: Vec<u8>,
    /// Stay in which the content was written, if in any.
    stay: Option<Stay>,
    done: Option<Moment>,
}

/// The contents of one block that may still come back, in order of arrival.
///
/// Invariant: the first one was replied to.
#[derive(Clone, Debug)]
pub struct Shelf {
    versions: Vec<Version>,
    /// Metadata is never gone.
    is_data: bool,
}

impl Shelf {
    /// A shelf that has always held `bytes`, which belong to no stay.
    pub fn new(bytes: Vec<u8>, is_data: bool) -> Self {
        Self { versions: vec![Version { bytes, stay: None, done: Some(0) }], is_data }
    }

    pub fn arrive(&mut self, bytes: Vec<u8>, stay: Option<Stay>) {
        self.versions.push(Version { bytes, stay, done: None });
    }

    /// Forgets the latest write, which was refused.
    pub fn withdraw(&mut self) {
        self.versions.pop();
    }

    /// Notes the reply to the latest write. `durable`: and the promise that it lasts.
    pub fn done(&mut self, moment: Moment, durable: bool) {
        let last = self.versions.len() - 1;
        self.versions[last].done = Some(moment);
        if durable {
            self.versions.drain(..last);
        }
    }

    /// Notes the reply to a free: if nothing was written since, zeros are all there is.
    pub fn freed(&mut self, moment: Moment) {
        if self.versions.last().is_some_and(|it| is_zeros(&it.bytes)) {
            self.done(moment, true);
        }
    }

    /// Notes the reply to a flush that was sent at `since`.
    pub fn flushed(&mut self, since: Moment) {
        let newest = self.versions.iter().rposition(|it| it.done.is_some_and(|done| done < since));
        self.versions.drain(..newest.unwrap_or(0));
    }

    /// Whether `bytes`, read in `stay`, may be the content; after a power cut `all` unflushed
    /// content may be gone.
    ///
    /// Content of another stay may have been destroyed, and reads as zeros then.
    pub fn allows(&self, bytes: &[u8], stay: Option<Stay>, all: bool) -> bool {
        let newest = self.versions.iter().rposition(|it| it.done.is_some()).unwrap_or(0);
        let possible = &self.versions[if all { 0 } else { newest }..];
        let may_be_gone = self.is_data && possible.iter().any(|it| it.stay.is_none() || it.stay != stay);
        let sectors = bytes.chunks_exact(SECTOR_BYTES).enumerate();
        let is_gone = |it: &[u8]| may_be_gone && is_zeros(it);
        let part = |it: &'_ Version, n: usize| it.bytes[n * SECTOR_BYTES..(n + 1) * SECTOR_BYTES].to_vec();
        sectors.into_iter().all(|(n, it)| is_gone(it) || possible.iter().any(|from| part(from, n) == it))
    }

    /// Whether a content that begins with `head` may come back.
    pub fn may_return(&self, head: &[u8]) -> bool {
        self.versions.iter().any(|it| it.bytes.starts_with(head))
    }

    /// Notes that after a crash `bytes`, of `stay` as they say, are the content. `all`: and nothing
    /// else can come back.
    pub fn found(&mut self, bytes: Vec<u8>, stay: Option<Stay>, moment: Moment, all: bool) {
        if all {
            self.versions.clear();
        }
        self.versions.push(Version { bytes, stay, done: Some(moment) });
    }
}

impl fmt::Debug for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} replied to {:?}", self.stay, self.done)
    }
}
