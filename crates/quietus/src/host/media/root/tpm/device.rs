//! The ways to a TPM: a character device of the kernel, or the socket of a TPM in software.

use super::super::TpmWay;
use super::command::{HEAD_BYTES, RESPONSE_BYTES_MAX, response_bytes};
use crate::base::lock::lock;
use quietus_core::media::medium::{MediumError, MediumErrorKind};
use std::fmt::Debug;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;
use zeroize::Zeroizing;

/// Longest wait for a TPM in software. The kernel has a limit of its own for each of its devices.
const WAIT_MAX: Duration = Duration::from_secs(20);

/// The response to a command.
pub(super) type Response = Zeroizing<Vec<u8>>;

/// Carries commands to a TPM.
pub(super) trait Carrier: Debug + Send + Sync {
    /// Sends a command, and returns the whole response.
    ///
    /// # Errors
    /// Whether the TPM has carried the command out is unknown.
    fn transmit(&self, command: &[u8]) -> io::Result<Response>;
}

/// Opens the way to a TPM, and keeps others from the two indices from `index` on: readers from writers, a writer from all.
///
/// # Errors
/// There is no such device or socket, or another process has the indices.
pub(super) fn open(way: &TpmWay, index: u32, read_only: bool) -> io::Result<Box<dyn Carrier>> {
    match way {
        TpmWay::Device(path) => {
            let file = open_device(path)?;
            lock_indices(&file, index, read_only)?;
            Ok(Box::new(Device(Mutex::new(file))))
        }
        TpmWay::Socket(path) => {
            let connected = connect(path)?;
            Ok(Box::new(Socket { path: path.clone(), stream: Mutex::new(Some(connected)) }))
        }
    }
}

/// Opens the way to a TPM that is only asked what it is.
pub(super) fn open_to_ask(way: &TpmWay) -> io::Result<Box<dyn Carrier>> {
    match way {
        TpmWay::Device(path) => {
            let file = open_device(path)?;
            Ok(Box::new(Device(Mutex::new(file))))
        }
        TpmWay::Socket(_) => open(way, 0, true),
    }
}

fn open_device(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(path).map_err(|error| {
        let message = match error.kind() {
            io::ErrorKind::NotFound => {
                "the host has no such TPM; name one that exists (`quietus doctor` shows it)"
            }
            io::ErrorKind::PermissionDenied => {
                "no permission; add the user to the group of the device, such as `tss`"
            }
            // Without the kernel's resource manager a TPM is open for one program at a time.
            io::ErrorKind::ResourceBusy => return io::Error::other(busy(path)),
            _ => return error,
        };
        io::Error::other(format!("{}: {message}", path.display()))
    })
}

fn busy(path: &Path) -> MediumError {
    let message = format!(
        "{}: another program has the TPM open; name /dev/tpmrm0, which takes several",
        path.display()
    );
    MediumError { kind: MediumErrorKind::Busy, message }
}

/// A lock that ends with the file: a TPM has none for its indices, so that two bytes of its device stand for them.
fn lock_indices(file: &File, index: u32, read_only: bool) -> io::Result<()> {
    let kind = if read_only { libc::F_RDLCK } else { libc::F_WRLCK };
    let range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: index.into(),
        l_len: 2,
        l_pid: 0,
    };
    // SAFETY: the call reads the range, which outlives it, and the descriptor is open.
    let locked = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) };
    match (locked, io::Error::last_os_error()) {
        (0, _) => Ok(()),
        (_, error) if error.kind() == io::ErrorKind::WouldBlock => {
            Err(io::Error::other("another process uses the NV indices; stop it first"))
        }
        (_, error) => Err(error),
    }
}

/// A character device: a write is one command, and a read its response.
#[derive(Debug)]
struct Device(Mutex<File>);

impl Carrier for Device {
    fn transmit(&self, command: &[u8]) -> io::Result<Response> {
        let mut file = lock(&self.0);
        let written = file.write(command)?;
        if written != command.len() {
            return Err(io::Error::other("the kernel accepted only a part of the command"));
        }
        let mut response = Zeroizing::new(vec![0; RESPONSE_BYTES_MAX]);
        let read = loop {
            match file.read(&mut response) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => break read?,
            }
        };
        response.truncate(read);
        Ok(response)
    }
}

/// A socket that carries the same bytes, as `swtpm socket --server type=unixio` has it.
#[derive(Debug)]
struct Socket {
    path: PathBuf,
    /// `None` after a failure: what comes next on that stream would answer an earlier command.
    stream: Mutex<Option<UnixStream>>,
}

fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = UnixStream::connect(path).map_err(|error| {
        let message =
            format!("{}: cannot connect to the TPM in software: {error}; start it first", path.display());
        io::Error::other(message)
    })?;
    stream.set_read_timeout(Some(WAIT_MAX))?;
    stream.set_write_timeout(Some(WAIT_MAX))?;
    Ok(stream)
}

impl Carrier for Socket {
    fn transmit(&self, command: &[u8]) -> io::Result<Response> {
        let mut kept = lock(&self.stream);
        let mut stream = match kept.take() {
            Some(stream) => stream,
            None => connect(&self.path)?,
        };
        let response = exchange(&mut stream, command)?;
        *kept = Some(stream);
        Ok(response)
    }
}

fn exchange(stream: &mut UnixStream, command: &[u8]) -> io::Result<Response> {
    stream.write_all(command)?;
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head)?;
    let bytes = response_bytes(&head).ok_or_else(|| io::Error::other("the response has no valid length"))?;
    let mut response = Zeroizing::new(vec![0; bytes]);
    response[..HEAD_BYTES].copy_from_slice(&head);
    stream.read_exact(&mut response[HEAD_BYTES..])?;
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_disks_do_not_write_to_one_index_and_may_have_others_of_the_same_tpm() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let open = || OpenOptions::new().read(true).write(true).open(file.path()).expect("it opens");
        let (first, second, third) = (open(), open(), open());
        lock_indices(&first, 0x0180_0150, false).expect("the first lock");
        for index in [0x0180_014f, 0x0180_0150, 0x0180_0151] {
            let error = lock_indices(&second, index, true).expect_err("the index is in use");
            assert!(error.to_string().contains("another process"), "{error}");
        }
        lock_indices(&second, 0x0180_0152, false).expect("the next two indices");
        drop(first);
        lock_indices(&third, 0x0180_0150, true).expect("the lock ended with its file");
    }
}
