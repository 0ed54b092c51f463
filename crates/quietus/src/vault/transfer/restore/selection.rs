//! The part of a snapshot that is wanted.

use crate::vault::Error;
use crate::vault::transfer::restore::{bytes_at, inside};
use quietus_vault::client::Access;
use quietus_vault::tree::Snapshot;
use std::path::PathBuf;

/// The part of an entry that is wanted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::vault) enum Wanted {
    Whole,
    /// Something below it.
    InPart,
    Not,
}

/// The paths that are wanted, or all.
pub(in crate::vault) struct Selection(Vec<Vec<u8>>);

impl Selection {
    /// The selected paths; empty for all.
    pub(in crate::vault) fn new(paths: &[PathBuf]) -> Result<Selection, Error> {
        Ok(Selection(paths.iter().map(|path| inside(path)).collect::<Result<_, _>>()?))
    }

    /// Whether the whole snapshot is wanted.
    pub(in crate::vault) fn is_all(&self) -> bool {
        self.0.is_empty()
    }

    /// Bytes of all files that are wanted.
    ///
    /// # Errors
    /// [`Error`]: the vault, or a path that the snapshot does not have.
    pub(in crate::vault) fn bytes(&self, vault: &mut dyn Access, top: &Snapshot) -> Result<u64, Error> {
        match self.is_all() {
            true => Ok(top.totals.bytes),
            false => self.0.iter().map(|path| bytes_at(vault, &top.folder, path)).sum(),
        }
    }

    /// How much of the entry at `path` is wanted.
    pub(in crate::vault) fn of(&self, path: &[u8]) -> Wanted {
        let is_below = |path: &[u8], top: &[u8]| {
            top.is_empty() || path.strip_prefix(top).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
        };
        match () {
            () if self.is_all() || self.0.iter().any(|it| is_below(path, it)) => Wanted::Whole,
            () if self.0.iter().any(|it| is_below(it, path)) => Wanted::InPart,
            () => Wanted::Not,
        }
    }
}
