//! Trials of what a file system can do.

use quietus_core::base::zeros::is_zeros;
use rustix::fs::{FallocateFlags, Mode, OFlags};
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of the file that the trial makes, punches and drops.
const TRIAL_BYTES: u64 = 256 << 10;

/// Whether the host gives back punched space of `file`, which is at `path` and has `size` bytes,
/// and reads it as zeros. The content of the file is not touched: the call is tried beyond its end,
/// and the effect on a nameless file beside it, where the host has such.
pub(super) fn can_punch(file: &File, path: &Path, size: u64) -> bool {
    let beyond = size.next_multiple_of(TRIAL_BYTES);
    punch(file, beyond).is_ok() && beside(path).is_none_or(|trial| speaks_for_it(frees(&trial)))
}

/// Whether the trial, as it went, leaves it at what the host says of itself. On a
/// full host there is no trial, and giving space back matters less.
fn speaks_for_it(trial: io::Result<bool>) -> bool {
    trial.unwrap_or_else(|error| super::is_no_space(&error))
}

fn punch(file: &File, at: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    Ok(rustix::io::retry_on_intr(|| rustix::fs::fallocate(file, flags, at, TRIAL_BYTES))?)
}

fn beside(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::RUSR | Mode::WUSR).ok().map(File::from)
}

fn frees(trial: &File) -> io::Result<bool> {
    let mut bytes = vec![0xa5; TRIAL_BYTES as usize];
    trial.write_all_at(&bytes, 0)?;
    trial.sync_data()?;
    let before = trial.metadata()?.blocks();
    punch(trial, 0)?;
    trial.read_exact_at(&mut bytes, 0)?;
    Ok(is_zeros(&bytes) && trial.metadata()?.blocks() < before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_host_is_believed_and_a_trial_that_failed_otherwise_is_not() {
        assert!(speaks_for_it(Ok(true)) && !speaks_for_it(Ok(false)));
        for (kind, speaks) in [
            (io::ErrorKind::StorageFull, true),
            (io::ErrorKind::QuotaExceeded, true),
            (io::ErrorKind::PermissionDenied, false),
        ] {
            assert_eq!(speaks_for_it(Err(kind.into())), speaks, "{kind}");
        }
    }
}
