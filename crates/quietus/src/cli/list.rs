//! `quietus list`: the disks and vaults in directories.

use super::Failure;
use super::args::ListDisksArgs;
use super::report::Report;
use crate::control;
use crate::disk::DiskToml;
use crate::output::{Home, HomeKind, Homes};
use crate::paths::Subject;
use crate::vault::VaultToml;
use std::path::Path;

/// Entries of a directory that are looked at.
const ENTRIES_MAX: usize = 100_000;

pub(super) fn list(args: &ListDisksArgs, out: &Report) -> Result<(), Failure> {
    let mut homes = Vec::new();
    for directory in &args.directories {
        homes.extend(found(directory)?);
    }
    out.homes(&Homes { homes });
    Ok(())
}

/// The disks and vaults in `directory`, or `directory` itself if it is one.
fn found(directory: &Path) -> Result<Vec<Home>, Failure> {
    if let Some(home) = home(directory) {
        return Ok(vec![home]);
    }
    let entries = std::fs::read_dir(directory)
        .map_err(|error| Failure::Error(format!("cannot list {}: {error}", directory.display())))?;
    let mut homes: Vec<Home> =
        entries.flatten().take(ENTRIES_MAX).filter_map(|entry| home(&entry.path())).collect();
    homes.sort_by(|one, other| one.path.cmp(&other.path));
    Ok(homes)
}

/// The disk or vault at `path`.
fn home(path: &Path) -> Option<Home> {
    let of = |kind, fault| Home { path: path.into(), kind, size_bytes: None, served: false, fault };
    if Subject::Disk.is_at(path) {
        let served = control::is_served(path);
        return Some(match DiskToml::read(path) {
            Ok(toml) => {
                let size_bytes = Some(toml.size_bytes);
                Home { size_bytes, served, ..of(HomeKind::of_disk(toml.store), None) }
            }
            Err(error) => of(HomeKind::Disk, Some(error.to_string())),
        });
    }
    Subject::Vault.is_at(path).then(|| match VaultToml::read(path) {
        Ok(_) => of(HomeKind::Vault, None),
        Err(error) => of(HomeKind::Vault, Some(error.to_string())),
    })
}
