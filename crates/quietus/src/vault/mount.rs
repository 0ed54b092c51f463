//! Snapshots of a vault as a file system of this host, to read, by [FUSE](crate::host::fuse).

#[cfg(test)]
mod tests;
mod tree;

use super::{Client, Error};
use crate::host::fuse::Place;
use quietus_vault::SnapshotId;
use std::path::Path;
use tree::Tree;

/// Shows snapshots at the folder `at`, until it is unmounted or `is_asked` to stop: each in a folder of its own, or the files of
/// `only` one. Calls `ready` once they can be seen.
///
/// # Errors
/// [`Error`]: the folder, FUSE, the vault.
pub fn mount(
    client: &mut Client,
    at: &Path,
    only: Option<SnapshotId>,
    ready: impl FnOnce(),
    is_asked: impl Fn() -> bool,
) -> Result<(), Error> {
    let place = Place::new(at, "the vault")?;
    let name = format!("quietus:{}", client.home().path().display());
    Ok(place.show(&mut Tree::new(client, only)?, &name, ready, is_asked)?)
}
