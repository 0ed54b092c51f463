//! What a file system can do, found out by trying.

use rustix::fs::{FallocateFlags, Mode, OFlags};
use rustix::io::Errno;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of the file that is made, punched and forgotten.
const TRIAL_BYTES: u64 = 256 * 1024;

/// Whether freed space of `file`, called `path`, reads as zeros and is given
/// back. Nothing of what it holds is touched: the call is tried beyond its end,
/// and its effect on a nameless file beside it where the host has those.
pub(super) fn can_punch(file: &File, path: &Path) -> bool {
    takes_punch(file).unwrap_or(false) && beside(path).is_none_or(|trial| frees(&trial).unwrap_or(false))
}

fn punch(file: &File, start: u64, len: u64) -> io::Result<()> {
    let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    match rustix::fs::fallocate(file, flags, start, len) {
        Err(Errno::INTR) => punch(file, start, len),
        result => Ok(result?),
    }
}

fn takes_punch(file: &File) -> io::Result<bool> {
    let spare = file.metadata()?.len().next_multiple_of(TRIAL_BYTES);
    Ok(punch(file, spare, TRIAL_BYTES).is_ok())
}

fn beside(path: &Path) -> Option<File> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    rustix::fs::open(folder.unwrap_or(Path::new(".")), flags, mode).ok().map(File::from)
}

fn frees(trial: &File) -> io::Result<bool> {
    let full = vec![0xa5; TRIAL_BYTES as usize];
    trial.write_all_at(&full, 0)?;
    trial.sync_data()?;
    let before = trial.metadata()?.blocks();
    punch(trial, 0, TRIAL_BYTES)?;
    let mut after = full;
    trial.read_exact_at(&mut after, 0)?;
    Ok(after.iter().all(|byte| *byte == 0) && trial.metadata()?.blocks() < before)
}
