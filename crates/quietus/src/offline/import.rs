//! Makes a disk that keeps versions, with the content of an image.

use super::{Offline, OfflineError, PIECE_BYTES, at, go_on};
use crate::base::zeros::filled;
use crate::disk::keys::Source;
use crate::disk::{CreateOptions, DiskDir, DiskError, DiskErrorKind, DiskToml, Step};
use crate::host::directory::DirectoryErrorKind;
use crate::host::media::FileMedium;
use crate::host::paths;
use crate::open_disk::OpenDisk;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent, Pos};
use quietus_core::media::medium::Medium;
use std::io;
use std::path::Path;

/// Makes the directory `path` with a new disk that has the content of the raw `image`, or nothing at all. What is a hole
/// in the image, or a block of zeros, takes up no space.
pub fn create_from(
    path: &Path,
    options: &CreateOptions,
    image: &Path,
    step: Step<'_>,
) -> Result<DiskToml, OfflineError> {
    paths::check_raw_image("--from", image).map_err(DiskError::from)?;
    let from = FileMedium::open(image, true).map_err(at(image))?;
    let content = from.size().next_multiple_of(512);
    let size = options.size.unwrap_or(content);
    if size < content {
        let what =
            format!("--size is {size} bytes, and the image has {content}; use {content} or a larger size");
        return Err(DiskErrorKind::Invalid(what).at(image).into());
    }
    let options = CreateOptions { size: Some(size), ..options.clone() };
    let source = options.versions.source.clone().unwrap_or_default();
    let failed = |error: OfflineError| match error {
        OfflineError::Interrupted => DirectoryErrorKind::Interrupted.at(image).into(),
        error => DiskError::from(DirectoryErrorKind::Io("copy the image").of(image, io::Error::other(error))),
    };
    Ok(DiskDir::create_filled(path, &options, step, |dir, step| {
        fill(dir, &source, &from, step).map_err(failed)
    })?)
}

/// Copies the image `from` to the disk in the directory `dir`.
fn fill(dir: &Path, source: &Source, from: &FileMedium, step: Step<'_>) -> Result<(), OfflineError> {
    let disk = Offline(OpenDisk::open_unlocked(dir, false, Some(source), step)?);
    disk.run(|disk| {
        let whole = Extent::<Addr>::new(0, from.size());
        let total: u64 = from.data_within(Extent::new(0, from.size())).map(|run| run.len).sum();
        let mut done = 0;
        for piece in whole.pieces(PIECE_BYTES) {
            let at = Extent::new(piece.start.0, piece.len);
            let data: u64 = from.data_within(at).map(|run| run.len).sum();
            if data > 0 {
                copy_piece(disk, from, at)?;
            }
            done += data;
            go_on(step, done, total)?;
        }
        disk.flush()
    })
    .map(drop)
}

/// Copies what is not zeros.
fn copy_piece(disk: &Offline, from: &FileMedium, at: Extent<Pos>) -> Result<(), OfflineError> {
    let mut bytes = vec![0; at.len as usize];
    from.read(at.start, &mut bytes)?;
    for run in filled(&bytes) {
        disk.write(at.start.0 + run.start as u64, &bytes[run])?;
    }
    Ok(())
}

// Blocks of zeros are told from others where they lie on the disk.
const _: () = assert!(PIECE_BYTES.is_multiple_of(BLOCK_BYTES));
