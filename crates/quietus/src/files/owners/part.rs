//! Parts of what dies, and where files lie from epoch to epoch.

use quietus_core::base::units::{Addr, Extent};
use quietus_files::FileId;
use std::collections::HashSet;

/// The versions of some blocks that some epochs show: they die.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Part {
    /// The blocks.
    pub blocks: Extent<Addr>,
    /// The first and the last of the epochs.
    pub epochs: (u64, u64),
}

/// Files whose content lies elsewhere from an epoch on than in the one before.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Moving {
    /// The epoch, and the last one in which the content lies there.
    pub epochs: (u64, u64),
    /// The files that have content then.
    pub files: HashSet<FileId>,
}
