//! Writes an overlay to its own base.
//!
//! 1. The overlay's own content is written to the base, and purged blocks as zeros. Meanwhile
//!    `disk.toml` says `committing = "writing"`: the base may have the old or the new content, and
//!    blocks that are not the overlay's own are the same in both.
//! 2. The base is durable, and its new identity noted with `committing = "emptying"`.
//! 3. The overlay gives its own blocks up: the base shows through, with the same content. The
//!    policy destroys the blocks, as those of no file system.
//! 4. The mark goes.
//!
//! Each step may be done again. Between 2 and 4 no block may be called purged, as an erase task
//! that a crash cut short would do if it knew the base: so the disk is only opened as if its base
//! held nothing.

use super::{Offline, OfflineError, PIECE_BYTES, at, go_on, overlay};
use crate::disk::{Base, Committing, DiskDir, OverlayToml, Step};
use crate::host::media::FileMedium;
use crate::open_disk::OpenDisk;
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::MediumId;
use quietus_core::media::medium::Medium;
use quietus_core::request::Liveness;
use quietus_core::store::overlay::MAP_HEAD_BYTES;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a commit.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Committed {
    /// Path of the base.
    #[serde(serialize_with = "crate::base::path_text::path_text")]
    pub base: PathBuf,
    /// Bytes written to the base.
    pub written_bytes: u64,
    /// Bytes made zeros in the base.
    pub purged_bytes: u64,
}

/// Writes what the overlay at `path` has changed to its base, and empties it.
pub fn commit(path: &Path, step: Step<'_>) -> Result<Committed, OfflineError> {
    let mut dir = DiskDir::open_without_base(path)?;
    let mut known = overlay(&dir)?;
    let base = Base::open(&known.base_path(path))?;
    if known.committing != Some(Committing::Writing) {
        base.check(&known, step)?;
    }
    base.lock_alone()?;
    let mut committed = Committed { base: known.base_path(path), ..Committed::default() };
    if known.committing != Some(Committing::Emptying) {
        (dir, (committed.written_bytes, committed.purged_bytes)) = write_down(dir, &base, step)?;
        known =
            OverlayToml { committing: Some(Committing::Emptying), ..base.describe_anew(known.base, step)? };
        dir.set_overlay(known.clone())?;
    }
    dir = empty(dir, &base, step)?;
    dir.set_overlay(OverlayToml { committing: None, ..known })?;
    Ok(committed)
}

/// What a commit of the overlay at `path` would write, at most. Nothing is changed.
pub fn weigh_commit(path: &Path, step: Step<'_>) -> Result<Committed, OfflineError> {
    let disk = OpenDisk::open(path, true, step)?;
    let base = overlay(&disk.dir)?.base_path(path);
    let offline = Offline(disk);
    let written_bytes = offline.held().map(|run| run.len).sum();
    offline.0.close(false, |_| true);
    Ok(Committed { base, written_bytes, purged_bytes: 0 })
}

/// Writes to the base; returns the bytes that were written and those that were made zeros.
fn write_down(
    mut dir: DiskDir,
    base: &Arc<Base>,
    step: Step<'_>,
) -> Result<(DiskDir, (u64, u64)), OfflineError> {
    let into = FileMedium::open_growing(base.path(), false).map_err(at(base.path()))?;
    dir.set_base(Arc::clone(base), Arc::clone(base.data()));
    dir.set_overlay(OverlayToml { committing: Some(Committing::Writing), ..overlay(&dir)? })?;
    Offline::start(dir)?.run(|offline| {
        offline.drain(step)?;
        let written_bytes = write_held(offline, &into, step)?;
        let purged_bytes = purge_dead(offline, base, &into)?;
        into.sync()?;
        Ok((written_bytes, purged_bytes))
    })
}

fn write_held(offline: &Offline, into: &FileMedium, step: Step<'_>) -> Result<u64, OfflineError> {
    let total: u64 = offline.held().map(|run| run.len).sum();
    let mut done = 0;
    for piece in offline.held().flat_map(|run| run.pieces(PIECE_BYTES)) {
        into.write(Pos(piece.start.0), &offline.read(piece)?, false)?;
        done += piece.len;
        go_on(step, done, total)?;
    }
    Ok(done)
}

/// Writes zeros where the base holds data and the disk does not.
fn purge_dead(offline: &Offline, base: &Base, into: &FileMedium) -> Result<u64, OfflineError> {
    let whole = Extent::new(0, offline.size().min(into.size()));
    let mut done = 0;
    for run in base.data().runs_within(whole) {
        for (extent, _) in offline.runs(run).filter(|(_, it)| *it == Liveness::Dead) {
            into.clear(Extent::new(extent.start.0, extent.len))?;
            done += extent.len;
        }
    }
    Ok(done)
}

/// Gives up all blocks of the overlay, so that its base shows through.
fn empty(mut dir: DiskDir, base: &Arc<Base>, step: Step<'_>) -> Result<DiskDir, OfflineError> {
    dir.set_base(Arc::clone(base), Arc::new(BlockSet::default()));
    let (dir, ()) = Offline::start(dir)?.run(|offline| {
        offline.purge(offline.whole())?;
        offline.drain(step)
    })?;
    if let Some(map) = dir.open_medium(MediumId::Map)? {
        dir.remove_stamp()?;
        map.clear(Extent::between(MAP_HEAD_BYTES, map.size()))?;
        map.sync()?;
        dir.stamp()?;
    }
    Ok(dir)
}
