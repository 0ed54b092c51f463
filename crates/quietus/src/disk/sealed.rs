//! Making and opening a sealed disk.

use super::beginning::Beginning;
use super::config::names::KEYTREE_FILE;
use super::config::{CreateOptions, DiskToml};
use super::versions::{clear, made_or_device, make_keys};
use super::{DiskError, DiskErrorKind, SealedToml, entropy};
use crate::base::locked::{forbid_core_dumps, keep_secrets};
use crate::disk::keys::content::ContentKeys;
use crate::host::directory::{Access, DirectoryErrorKind, Draft, lock_storage};
use crate::host::media::DiskMedium;
use crate::host::media::root::{RootKind, TpmMedium};
use quietus_core::base::cell::Cells;
use quietus_core::base::memory;
use quietus_core::base::units::Extent;
use quietus_core::media::MediumId;
use quietus_core::media::medium::Medium;
use quietus_core::store::sealed;
use quietus_seal::SectorCipher;
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;

/// What the content of a sealed disk is encrypted with, if that needs no credential. From now on the memory of the process is not
/// swapped or dumped: the store has cells in it, which dead content opens with.
pub(super) fn opened(sealed: &SealedToml) -> Option<ContentKeys> {
    forbid_core_dumps();
    keep_secrets();
    (!sealed.credential).then(|| content_keys(SectorCipher::new_without_master()))
}

/// The keys that a cipher has, in memory that is not swapped out.
pub(super) fn content_keys(cipher: SectorCipher) -> ContentKeys {
    let cipher = Arc::new(cipher);
    memory::keep(&*cipher);
    ContentKeys::Cipher(cipher)
}

/// Makes the files of a sealed disk. The content of a device that is not adopted is dead.
pub(super) fn make(draft: &mut Draft, options: &CreateOptions) -> Result<Beginning, DiskError> {
    let toml = DiskToml::sealed(options)?;
    let seal = toml.sealed.as_ref().expect("the store is sealed");
    if seal.credential {
        make_keys(draft.dir(), &toml, options)?;
    }
    let device = options.medium.as_deref().filter(|path| path.exists());
    let chip = match device {
        Some(path) => lock_storage(path, Access::ReadWrite).map(|_| None)?,
        None => toml.make_medium(draft, options, toml.sealed_medium_bytes())?,
    };
    let root = seal.root_kind().map_err(|error| DiskErrorKind::Usage(error).at(Path::new("--root")))?;
    let (root, _lock) = match root {
        RootKind::Chip => (toml.make(draft.dir(), MediumId::Root, sealed::ROOT_BYTES)?, None),
        root => make_root(draft, &root)?,
    };
    make_keytree(draft.dir(), &toml, &root)?;
    root.keep();
    let dead = device.map(|_| Extent::new(0, toml.size_bytes));
    Ok(Beginning { toml, held: None, dead, chip })
}

/// Makes the key tree of the disk in `dir`, and in `root` the key that opens it.
pub(super) fn make_keytree(dir: &Path, toml: &DiskToml, root: &DiskMedium) -> Result<(), DiskError> {
    let map = toml.make(dir, MediumId::Map, sealed::map_bytes(toml.size_bytes))?;
    let place = dir.join(KEYTREE_FILE);
    let failed = |error| DirectoryErrorKind::Io("make the key tree").of(&place, io::Error::other(error));
    // A flush may need the log, and must not fail because the host is full.
    map.reserve(sealed::log_extent()).map_err(failed)?;
    let (disk, cells) = (*toml.uuid.as_bytes(), Cells::new(entropy()?));
    Ok(sealed::format(&map, root, disk, toml.size_bytes, cells).map_err(failed)?)
}

/// Makes the medium of a root, which holds zeros; and locks it if another directory may name it too.
fn make_root(draft: &mut Draft, root: &RootKind) -> Result<(DiskMedium, Option<File>), DiskError> {
    let place = draft.dir().join(root.to_string());
    let failed = |error| DirectoryErrorKind::Io("make the root").of(&place, error);
    let RootKind::Path(path) = root else {
        let made = DiskMedium::create_root(root);
        let made = made.map_err(|error| {
            DirectoryErrorKind::Io("make the root").of(Path::new(&root.to_string()), error)
        })?;
        return Ok((made.expect("the root lies at no path"), None));
    };
    let (medium, is_new, lock) = made_or_device(draft, "--root", path, sealed::ROOT_BYTES)?;
    // What a device held there would be taken for the remains of a cell.
    let cleared = if is_new { Ok(()) } else { clear(&medium, sealed::ROOT_BYTES) };
    cleared.map_err(|error| failed(io::Error::other(error)))?;
    Ok((medium.into(), lock))
}

/// Removes the root of a disk that is not made after all from where no directory goes with it.
pub(super) fn discard_root(toml: &DiskToml) {
    if let Some(Ok(RootKind::Tpm(place))) = toml.sealed.as_ref().map(SealedToml::root_kind)
        && let Err(error) = TpmMedium::remove(&place, *toml.uuid.as_bytes())
    {
        tracing::warn!(%error, "cannot remove from the TPM the root of a disk that was not made");
    }
}
