//! Where an archive is written: to a file, which has its name once it is whole, or to whatever takes bytes as they come.

use crate::host::entries::Partial;
use crate::vault::transfer::restore::Restored;
use crate::vault::transfer::tar::write::write_tar;
use crate::vault::{Error, Step};
use quietus_vault::SnapshotId;
use quietus_vault::client::Access;
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

/// Bytes that are written at once.
const BUFFER_BYTES: usize = 1 << 20;

/// Writes the snapshot, or only `paths` of it, as an archive to `path`: a file to make, a pipe or a device; `-` is standard output.
///
/// # Errors
/// [`Error`]. There is no new file then.
pub fn write_tar_file(
    vault: &mut dyn Access,
    snapshot: SnapshotId,
    path: &Path,
    paths: &[PathBuf],
    step: Step<'_>,
) -> Result<Restored, Error> {
    let mut write = |out: &mut dyn Write, path: &Path| {
        let mut out = BufWriter::with_capacity(BUFFER_BYTES, out);
        write_tar(vault, snapshot, (&mut out, path), paths, step)
    };
    if path == Path::new("-") {
        return write(&mut io::stdout().lock(), Path::new("standard output"));
    }
    let failed = |error: Errno| Error::io("make it", path, error);
    match fs::metadata(path).map(|about| about.file_type()) {
        Ok(of) if of.is_fifo() || of.is_char_device() || of.is_block_device() => {
            let file = File::options().write(true).open(path);
            return write(&mut file.map_err(|error| Error::io("open it", path, error))?, path);
        }
        Ok(_) => return Err(exists(path)),
        Err(_) => {}
    }
    let name = path.file_name().ok_or_else(|| exists(path))?;
    let dir = path.parent().filter(|it| !it.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::DIRECTORY | OFlags::CLOEXEC | OFlags::RDONLY;
    let dir = rustix::fs::open(dir, flags, Mode::empty()).map_err(failed)?;
    let (partial, mut file) = Partial::file(dir.as_fd()).map_err(failed)?;
    let written = write(&mut file, path)?;
    file.sync_all().map_err(|error| Error::io("write it", path, error))?;
    match partial.keep(name.as_bytes(), false) {
        Err(Errno::EXIST) => Err(exists(path)),
        kept => kept.map(|()| written).map_err(failed),
    }
}

fn exists(path: &Path) -> Error {
    let path = path.display();
    Error::Invalid(format!("--tar {path}: already exists; name a file to make, or remove it"))
}
