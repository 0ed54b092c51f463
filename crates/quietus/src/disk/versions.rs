//! Making a disk that keeps versions.

use super::config::names::KEYS_FILE;
use super::config::versions::{INDEX_HEAD_BYTES, VersionsToml};
use super::config::{CreateOptions, DiskToml};
use super::epochs::{NAMES_FILE, Names};
use super::{DiskError, DiskErrorKind, entropy};
use crate::disk::keys::{self, KeysError, Purpose};
use crate::host::directory::{Access, DirectoryErrorKind, Draft, lock_storage, write_new};
use crate::host::media::flash::FlashDisk;
use crate::host::media::{DiskMedium, FileMedium};
use quietus_core::base::units::{Extent, Pos};
use quietus_core::media::MediumId;
use quietus_core::media::medium::{Medium, MediumError};
use quietus_core::store;
use quietus_seal::DiskId;
use quietus_seal::keys::FILE_BYTES_MAX;
use std::fs::File;
use std::io;
use std::path::Path;

/// Bytes that are written at once.
const PIECE_BYTES: u64 = 1 << 20;

/// Makes the files of a disk that keeps versions. Returns the flash chip, too, if the disk lies on one.
pub(super) fn make(
    draft: &mut Draft,
    options: &CreateOptions,
) -> Result<(DiskToml, Option<FlashDisk>), DiskError> {
    let toml = DiskToml::versions(options)?;
    let versions = toml.versions.as_ref().expect("the store keeps versions");
    match versions.seal.has_keys() {
        true => make_keys(draft.dir(), &toml, options)?,
        false if options.versions.source.is_some() => {
            let what = "--seal none has no keys; leave the credential out, or choose another seal";
            return Err(DiskErrorKind::Usage(what.into()).at(Path::new(KEYS_FILE)));
        }
        false => {}
    }
    let chip = toml.make_medium(draft, options, 0)?;
    make_index(draft.dir(), &toml)?;
    make_root(draft, &toml, versions)?;
    make_stubs(draft, &toml, versions)?;
    let path = draft.dir().join(NAMES_FILE);
    let failed = |error| DirectoryErrorKind::Io("make the file").of(&path, error);
    write_new(draft.dir(), NAMES_FILE, Names::NONE).map_err(failed)?;
    Ok((toml, chip))
}

/// Makes the index with its first head: one without any would be a lost index, and not an empty disk.
fn make_index(dir: &Path, toml: &DiskToml) -> Result<(), DiskError> {
    let map = toml.make(dir, MediumId::Map, INDEX_HEAD_BYTES)?;
    let failed =
        |error| DirectoryErrorKind::Io("make the index").of(&dir.join("map"), io::Error::other(error));
    let head = store::versions::format_index(*toml.uuid.as_bytes());
    // A full host must not keep a start from noting its session.
    let made = map.reserve(Extent::new(0, INDEX_HEAD_BYTES)).and_then(|()| map.write(Pos(0), &head, true));
    Ok(made.map_err(failed)?)
}

/// Makes the root, whose cells have to be durable before the first stub is.
fn make_root(draft: &mut Draft, toml: &DiskToml, versions: &VersionsToml) -> Result<(), DiskError> {
    let cells = quietus_core::base::cell::Cells::new(entropy()?);
    let (bytes, disk) = (store::versions::ROOT_BYTES, *toml.uuid.as_bytes());
    let (root, _, _lock) = made(draft, toml, MediumId::Root, ("--root", &versions.root), bytes)?;
    let failed = |error| {
        DirectoryErrorKind::Io("make the root").of(&draft.dir().join(&versions.root), io::Error::other(error))
    };
    let bytes = store::versions::format_root(disk, cells);
    Ok(root.write(Pos(0), &bytes, true).map_err(failed)?)
}

/// The stub medium, which must not hold another disk's log.
fn make_stubs(draft: &mut Draft, toml: &DiskToml, versions: &VersionsToml) -> Result<(), DiskError> {
    let (bytes, disk) = (versions.log_bytes(), *toml.uuid.as_bytes());
    let place = ("--stub-medium", &*versions.stubs);
    let (stubs, is_new, _lock) = made(draft, toml, MediumId::Stubs, place, bytes)?;
    let failed = |error| {
        DirectoryErrorKind::Io("make the stub medium")
            .of(&draft.dir().join(&versions.stubs), io::Error::other(error))
    };
    // A full host must not keep a commit from its place in the log.
    let room = if is_new { stubs.reserve(Extent::new(0, bytes)) } else { clear(&stubs, bytes) };
    let made = room.and_then(|()| stubs.write(Pos(0), &store::versions::format_stubs(disk), false));
    Ok(made.and_then(|()| stubs.sync()).map_err(failed)?)
}

/// The medium `id`, of at least `bytes` bytes: a part of the disk's chip, or else what [`made_or_device`] makes.
fn made(
    draft: &mut Draft,
    toml: &DiskToml,
    id: MediumId,
    (option, path): (&str, &Path),
    bytes: u64,
) -> Result<(DiskMedium, bool, Option<File>), DiskError> {
    if toml.part_of_chip(id).is_some() {
        return Ok((toml.make(draft.dir(), id, bytes)?, true, None));
    }
    let (medium, is_new, lock) = made_or_device(draft, option, path, bytes)?;
    Ok((medium.into(), is_new, lock))
}

/// A medium of at least `bytes` bytes at the path that `option` may have named: a file, which is made, or a block device.
/// Whether the file is new; and a lock.
pub(super) fn made_or_device(
    draft: &mut Draft,
    option: &str,
    path: &Path,
    bytes: u64,
) -> Result<(FileMedium, bool, Option<File>), DiskError> {
    let there = draft.dir().join(path);
    let failed = |error| DirectoryErrorKind::Io("make the medium").of(&there, error);
    if std::fs::metadata(&there).is_err() {
        draft.make_file(path, bytes).map_err(failed)?;
        return Ok((FileMedium::open(&there, false).map_err(failed)?, true, None));
    }
    let lock = lock_storage(&there, Access::ReadWrite)?;
    let medium = FileMedium::open(&there, false).map_err(failed)?;
    if medium.size() < bytes {
        let what =
            format!("{option} has {} bytes, and needs {bytes} at least; use a larger device", medium.size());
        return Err(DiskErrorKind::Invalid(what).at(&there));
    }
    Ok((medium, false, lock))
}

pub(super) fn clear(medium: &impl Medium, bytes: u64) -> Result<(), MediumError> {
    let zeros = vec![0; PIECE_BYTES as usize];
    for piece in Extent::<Pos>::new(0, bytes).pieces(PIECE_BYTES) {
        medium.write(piece.start, &zeros[..piece.len as usize], false)?;
    }
    Ok(())
}

pub(super) fn make_keys(dir: &Path, toml: &DiskToml, options: &CreateOptions) -> Result<(), DiskError> {
    let path = dir.join(KEYS_FILE);
    let source = options.versions.source.clone().unwrap_or_default();
    let refused = |error: KeysError| match error {
        KeysError::Interrupted => DirectoryErrorKind::Interrupted.at(&path).into(),
        error => DiskErrorKind::Invalid(error.to_string()).at(Path::new(KEYS_FILE)),
    };
    let secret = source.read("the new disk", Purpose::New).map_err(refused)?;
    let bytes =
        keys::new_file(DiskId(*toml.uuid.as_bytes()), &secret, Path::new("the new disk")).map_err(refused)?;
    let failed = |error| DirectoryErrorKind::Io("make the key file").of(&path, error);
    write_new(dir, KEYS_FILE, &bytes).map_err(failed)?;
    let grown = File::options().write(true).open(&path).and_then(|file| {
        file.set_len(FILE_BYTES_MAX as u64)?;
        file.sync_all()
    });
    Ok(grown.map_err(failed)?)
}
