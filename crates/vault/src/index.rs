//! The index: in which container each chunk is (the paper's section 3).
//!
//! New chunks are noted in memory ([`Recent`]); when that is full it is merged with the sorted [`Part`] on
//! the medium into a new one. A crash loses the part in memory only, and the directories of the containers that are newer than
//! the last merge have all of that. A [`Filter`] keeps a chunk that is new from costing a read.

mod filter;
mod merge;
mod page;
mod part;
mod recent;

#[cfg(test)]
mod tests;

pub use filter::Filter;
pub use merge::merge;
pub use page::{PAGE_BYTES, PAGE_ENTRIES, Page, PageError};
pub use part::{Part, PartBuilder};
pub use recent::Recent;

use crate::{ContainerSequence, Fingerprint, Ordinal};

/// Where a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The chunk's number.
    pub ordinal: Ordinal,
    /// The container that has it.
    pub container: ContainerSequence,
}

/// The index's entry for a chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IndexEntry {
    /// The chunk's name.
    pub fingerprint: Fingerprint,
    /// Where it is.
    pub location: Location,
}
