//! `quietus list`: the disks and vaults below directories.

use crate::cli::Failure;
use crate::cli::args::ListDisksArgs;
use crate::cli::output::{Home, HomeKind, Listing, Unread};
use crate::cli::report::Report;
use crate::disk::DiskToml;
use crate::front::control;
use crate::host::paths::{self, Found, Subject};
use crate::vault::VaultToml;
use std::fs::DirEntry;
use std::path::Path;

/// Entries that one call looks at: a search that was meant for a folder may have begun at `/`.
const ENTRIES_MAX: usize = 100_000;

pub(in crate::cli) fn list(args: &ListDisksArgs, out: &Report) -> Result<(), Failure> {
    args.directories.iter().try_for_each(|directory| paths::check_directory(directory))?;
    let mut search = Search { found: Vec::new(), unread: Vec::new(), left: ENTRIES_MAX };
    for directory in &args.directories {
        if !search.is_home(directory) {
            search.below(directory, args.depth);
        }
    }
    let Search { mut found, mut unread, .. } = search;
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found.dedup_by(|one, other| one.path == other.path);
    unread.sort_by(|one, other| one.path.cmp(&other.path));
    unread.dedup_by(|one, other| one.path == other.path);
    out.listing(&Listing { found, unread });
    Ok(())
}

struct Search {
    found: Vec<Home>,
    unread: Vec<Unread>,
    /// Entries that may still be looked at.
    left: usize,
}

impl Search {
    /// Looks at the entries of `directory`, and `depth` levels deep in all.
    fn below(&mut self, directory: &Path, depth: u32) {
        let entries = match std::fs::read_dir(directory) {
            Ok(entries) => entries,
            Err(error) => return self.unread(directory, error.to_string()),
        };
        for entry in entries.flatten() {
            if self.left == 0 {
                let why =
                    format!("a search ends after {ENTRIES_MAX} entries; name a directory further below");
                return self.unread(directory, why);
            }
            self.left -= 1;
            self.entry(&entry, depth);
        }
    }

    /// Looks at an entry. What has a hidden name may be a disk that is just being made.
    fn entry(&mut self, entry: &DirEntry, depth: u32) {
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        let path = entry.path();
        if !is_hidden && !self.is_home(&path) && is_directory && depth > 1 {
            self.below(&path, depth - 1);
        }
    }

    /// Notes the disk or vault at `path`, or why the path cannot be read. Returns whether there was anything to note.
    fn is_home(&mut self, path: &Path) -> bool {
        match Found::at(path) {
            Ok(None) => return false,
            Ok(Some(Found { subject, fault })) => self.found.push(home(path, subject, fault)),
            Err(error) => self.unread(path, error.to_string()),
        }
        true
    }

    fn unread(&mut self, path: &Path, why: String) {
        self.unread.push(Unread { path: path.into(), why });
    }
}

/// The disk or vault at `path`, whose `fault` is known already.
fn home(path: &Path, subject: Subject, fault: Option<String>) -> Home {
    let of = |kind, fault| Home { path: path.into(), kind, size_bytes: None, served: false, fault };
    match (subject, fault) {
        (Subject::Disk, Some(fault)) => of(HomeKind::Disk, Some(fault)),
        (Subject::Disk, None) => match DiskToml::read(path) {
            Ok(toml) => Home {
                size_bytes: Some(toml.size_bytes),
                served: control::is_served(path),
                ..of(HomeKind::of_disk(toml.store), None)
            },
            Err(error) => of(HomeKind::Disk, Some(error.to_string())),
        },
        (Subject::Vault, fault) => {
            let unread = || VaultToml::read(path).err().map(|error| error.to_string());
            of(HomeKind::Vault, fault.or_else(unread))
        }
    }
}
