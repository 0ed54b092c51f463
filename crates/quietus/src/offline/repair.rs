//! Repairs what is damaged in the files of a disk, and what the rest of the disk says for certain.
//!
//! 1. One wrong byte is mended where a checksum says which it is, and everything else agrees.
//! 2. The damaged head of a key tree, or of its root, is written anew once the root has opened the key tree.
//! 3. Damaged pages of an index of versions are rebuilt: a fresh index beside the damaged one, and one write of a head.
//! 4. Nothing is guessed. What cannot be decided stays as it is, and is named.

use super::{OfflineError, go_on};
use crate::disk::{DiskDir, Step};
use crate::host::media::Shadow;
use crate::open_disk::OpenDisk;
use quietus_core::media::medium::Medium;
use quietus_core::media::{MediaTable, MediumId};
use quietus_core::owed::journal;
use quietus_core::store::overlay;
use quietus_core::store::sealed::{self, SealedError};
use quietus_core::store::versions::{self, RebuildMedia, Sessions, Setup, VersionsError};
use quietus_core::volume::Checkpoint;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::Path;
use std::sync::Arc;

/// Result of a repair.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Repaired {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// The places where one byte was wrong.
    pub mended: Vec<String>,
    /// The files of a sealed disk whose damaged heads were written anew: their content proves whose they are.
    pub heads: Vec<String>,
    /// The damaged pages of the index of versions, which was rebuilt.
    pub rebuilt: Vec<String>,
    /// The versions in the rebuilt index that only the records of stubs named.
    pub versions_from_stubs: u64,
    /// All versions of the rebuilt index.
    pub versions: u64,
    /// The kept epochs of the rebuilt index.
    pub epochs: u64,
    /// The faults that are left, and the remedy for each.
    pub left: Option<String>,
}

impl Repaired {
    /// Whether there is anything to repair.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.mended.is_empty() && self.heads.is_empty() && self.rebuilt.is_empty()
    }
}

/// Repairs the disk at `path`, which no process may use meanwhile. With `dry_run` nothing is written.
pub fn repair(path: &Path, dry_run: bool, step: Step<'_>) -> Result<Repaired, OfflineError> {
    let dir = DiskDir::open_without_base(path)?;
    let media = dir.open_media()?;
    let drafts = media.view(|medium| Shadow::new(Arc::clone(medium)));
    let table = match dry_run {
        true => drafts.view(|medium| medium as &dyn Medium),
        false => media.view(|medium| &**medium as &dyn Medium),
    };
    let mut done = Repaired { dry_run, ..Repaired::default() };
    done.left = repair_all(&dir, &table, &mut done, step)?;
    drop(dir);
    if !dry_run && done.left.is_none() {
        done.left = doubt(path, step);
    }
    Ok(done)
}

/// Repairs all media; says what cannot be decided.
fn repair_all(
    dir: &DiskDir,
    media: &MediaTable<&dyn Medium>,
    done: &mut Repaired,
    step: Step<'_>,
) -> Result<Option<String>, OfflineError> {
    let disk = *dir.toml().uuid.as_bytes();
    let view = std::fs::read(dir.directory().file("view")).unwrap_or_default();
    let stopped = Checkpoint::from_bytes(&view, disk).map(|view| (view.generation, view.seq));
    done.mended.extend(journal::mend(*media.journal(), disk, stopped)?);
    let size = dir.toml().size_bytes;
    let map = media.get(MediumId::Map).copied();
    if let Some(map) = map.filter(|_| dir.toml().overlay.is_some()) {
        done.mended.extend(overlay::mend(map, disk, size)?);
    }
    let root = media.get(MediumId::Root).copied();
    if let (Some(map), Some(root), Some(sealed)) = (map, root, &dir.toml().sealed)
        && !sealed.begins_anew()
    {
        match sealed::mend([map, root], disk, size) {
            Ok(heads) => done.heads = heads.into_iter().map(String::from).collect(),
            Err(SealedError::Medium(error)) => return Err(error.into()),
            Err(error) => return Ok(Some(error.to_string())),
        }
    }
    let stubs_root = [MediumId::Stubs, MediumId::Root].map(|id| media.get(id).copied());
    let (Some(map), [Some(stubs), Some(root)], Some(toml)) = (map, stubs_root, &dir.toml().versions) else {
        return Ok(None);
    };
    let setup = Setup { layout: toml.layout(), sessions: Sessions::default() };
    let of = (&setup, disk, size);
    let media = RebuildMedia { map, stubs, root };
    let repaired = versions::mend(of, media).and_then(|mended| {
        done.mended.extend(mended);
        versions::rebuild(of, media, step)
    });
    match repaired {
        Ok(rebuilt) => {
            (done.rebuilt, done.versions_from_stubs) = (rebuilt.damage, rebuilt.from_stubs);
            (done.versions, done.epochs) = (rebuilt.versions, rebuilt.epochs);
            Ok(None)
        }
        Err(VersionsError::Interrupted) => Err(OfflineError::Interrupted),
        Err(error) => Ok(Some(error.to_string())),
    }
}

/// The faults that a start finds after the repair.
fn doubt(path: &Path, step: Step<'_>) -> Option<String> {
    if go_on(step, 0, 1).is_err() {
        return None;
    }
    match OpenDisk::open(path, true, step) {
        Err(error) => Some(error.to_string()),
        Ok(disk) => {
            let status = disk.engine.status();
            disk.close(false, |_| true);
            status.store.trouble().or(status.latched)
        }
    }
}
