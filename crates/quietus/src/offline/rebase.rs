//! Puts an overlay above another base, and keeps what it shows.
//!
//! Blocks that differ between the two bases, and that the overlay has not changed, become its own
//! first: by a copy, or, where the guest is to read zeros, as purged blocks. The guest above the
//! old base sees no change. Then `disk.toml` names the new one.

use super::{Offline, OfflineError, PIECE_BYTES, go_on, overlay};
use crate::base::zeros::{filled, runs_where};
use crate::disk::{Base, DiskDir, DiskErrorKind, OverlayToml, Step};
use quietus_core::base::blocks::BlockSet;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::medium::Medium;
use schemars::JsonSchema;
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Result of a rebase.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, JsonSchema)]
pub struct Rebased {
    /// Path of the new base.
    #[serde(serialize_with = "crate::base::path_text::path_text")]
    pub base: PathBuf,
    /// Bytes copied from the old base.
    pub copied_bytes: u64,
    /// Bytes purged, so that nothing of the new base shows through.
    pub purged_bytes: u64,
}

/// Puts the disk at `path` above `image`. With `as_it_is` nothing is copied: blocks that the disk
/// has not changed read as in the new base.
pub fn rebase(path: &Path, image: &Path, as_it_is: bool, step: Step<'_>) -> Result<Rebased, OfflineError> {
    let mut dir = DiskDir::open_without_base(path)?;
    let known = overlay(&dir)?;
    if known.committing.is_some() {
        return Err(DiskErrorKind::Committing.at(path).into());
    }
    let (fresh, new) = dir.settle_base(image, step)?;
    if fresh.base_bytes > dir.toml().size_bytes {
        let what = format!(
            "--base has {} bytes, and the disk {}; use an image that is no larger",
            fresh.base_bytes,
            dir.toml().size_bytes
        );
        return Err(DiskErrorKind::Invalid(what).at(image).into());
    }
    let mut rebased = Rebased { base: fresh.base_path(path), ..Rebased::default() };
    let is_same = (&fresh.base_hash, fresh.base_bytes) == (&known.base_hash, known.base_bytes);
    if !is_same && !as_it_is {
        let old = open_old(path, &known, step)?;
        dir = copy_up(dir, &old, &new, &mut rebased, step)?;
    }
    dir.set_overlay(fresh)?;
    if known.base.is_relative() && known.base_path(path) != rebased.base {
        // A converted base was the disk's own copy.
        let _ = std::fs::remove_file(known.base_path(path));
    }
    Ok(rebased)
}

fn open_old(path: &Path, known: &OverlayToml, step: Step<'_>) -> Result<Arc<Base>, OfflineError> {
    let old = Base::open(&known.base_path(path)).and_then(|old| old.check(known, step).map(|_| old));
    old.map_err(|error| match error.kind {
        DiskErrorKind::BaseMissing | DiskErrorKind::BaseChanged(_) => OfflineError::OldBase(error),
        _ => error.into(),
    })
}

/// Copies up the blocks of `old` that the disk shows and that differ in `new`.
fn copy_up(
    mut dir: DiskDir,
    old: &Arc<Base>,
    new: &Arc<Base>,
    rebased: &mut Rebased,
    step: Step<'_>,
) -> Result<DiskDir, OfflineError> {
    let mut either = BlockSet::clone(old.data());
    either.union(new.data());
    dir.set_base(Arc::clone(old), Arc::new(either.clone()));
    let (dir, ()) = Offline::start(dir)?.run(|offline| {
        let total = either.len() * BLOCK_BYTES;
        let mut done = 0;
        for piece in either.runs_within(offline.whole()).flat_map(|run| run.pieces(PIECE_BYTES)) {
            copy_piece(offline, old, new, piece, rebased)?;
            done += piece.len;
            go_on(step, done, total)?;
        }
        offline.flush()?;
        offline.drain(step)
    })?;
    Ok(dir)
}

fn copy_piece(
    offline: &Offline,
    old: &Base,
    new: &Base,
    piece: Extent<Addr>,
    rebased: &mut Rebased,
) -> Result<(), OfflineError> {
    let (mut was, mut will_be) = (vec![0; piece.len as usize], vec![0; piece.len as usize]);
    old.read(Pos(piece.start.0), &mut was)?;
    new.read(Pos(piece.start.0), &mut will_be)?;
    if was == will_be {
        return Ok(());
    }
    let shown = offline.read(piece)?;
    // Content that the guest sees and the old base does not have is the overlay's own already.
    let differ = |run: std::ops::Range<usize>| {
        was[run.clone()] != will_be[run.clone()] && was[run.clone()] == shown[run]
    };
    for run in runs_where(&was, differ) {
        let (start, bytes) = (piece.start.0 + run.start as u64, &was[run]);
        for run in filled(bytes) {
            offline.write(start + run.start as u64, &bytes[run.clone()])?;
            rebased.copied_bytes += run.len() as u64;
        }
        for zeros in runs_where(bytes, |block| is_zeros(&bytes[block])) {
            let extent = Extent::new(start + zeros.start as u64, zeros.len() as u64);
            offline.purge(extent)?;
            rebased.purged_bytes += extent.len;
        }
    }
    Ok(())
}
