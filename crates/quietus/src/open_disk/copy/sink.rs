//! Where a copy goes.

use super::error::CopyError;
use super::pieces::{GRANULE_BYTES, head};
use crate::base::zeros::runs_where;
use quietus_core::base::units::BLOCK_BYTES;
use quietus_core::base::zeros::is_zeros;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::fs::{FileExt, FileTypeExt};
use std::time::Duration;

/// How often the copy asks whether it is still wanted while the pipe has no reader.
const ASKED_EVERY: Duration = Duration::from_millis(100);

/// See the module's documentation.
pub(super) enum Sink<'a> {
    /// A file that becomes the image.
    Image(&'a File),
    /// A pipe to a reader of [`Pieces`](super::Pieces).
    Pipe(&'a File),
}

impl<'a> Sink<'a> {
    /// The sink of a disk of `size` bytes that `file` is.
    pub(super) fn of(file: &'a File, size: u64) -> Result<Self, CopyError> {
        let about = file.metadata()?;
        if about.is_file() && about.len() == 0 {
            file.set_len(size)?;
            return Ok(Self::Image(file));
        }
        if about.file_type().is_fifo() {
            let flags = fcntl_getfl(file).map_err(io::Error::from)?;
            fcntl_setfl(file, flags | OFlags::NONBLOCK).map_err(io::Error::from)?;
            return Ok(Self::Pipe(file));
        }
        Err(CopyError::NoSink)
    }

    /// Bytes that the sink takes together, from a multiple of them on.
    pub(super) fn granule(&self) -> u64 {
        match self {
            Self::Image(_) => BLOCK_BYTES,
            Self::Pipe(_) => GRANULE_BYTES,
        }
    }

    /// Takes the bytes from `first` on. `is_filled` tells where the copy has something else than zeros so far; `wait` whether to wait
    /// for a reader.
    pub(super) fn put(
        &self,
        first: u64,
        bytes: &[u8],
        is_filled: &dyn Fn(u64) -> bool,
        wait: &mut dyn FnMut() -> bool,
    ) -> Result<(), CopyError> {
        match self {
            // Zeros are written only over something else.
            Self::Image(file) => {
                let is_wanted =
                    |block: std::ops::Range<usize>| is_filled(block.start as u64) || !is_zeros(&bytes[block]);
                for run in runs_where(bytes, is_wanted) {
                    file.write_all_at(&bytes[run.clone()], first + run.start as u64)?;
                }
                Ok(())
            }
            Self::Pipe(pipe) => {
                send(pipe, &head(first, bytes.len()), wait)?;
                send(pipe, bytes, wait)
            }
        }
    }
}

/// Writes to a pipe, and waits for its reader no longer than `wait` says.
fn send(mut pipe: &File, mut bytes: &[u8], wait: &mut dyn FnMut() -> bool) -> Result<(), CopyError> {
    let timeout = Timespec::try_from(ASKED_EVERY).expect("a moment is not long");
    while !bytes.is_empty() {
        match pipe.write(bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                // Whatever ends the wait, the next write says why.
                let _ = poll(&mut [PollFd::new(pipe, PollFlags::OUT)], Some(&timeout));
                if !wait() {
                    return Err(CopyError::Interrupted);
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
