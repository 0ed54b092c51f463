//! The socket of a vault, and what goes through it: frames, each with its length before it.

use crate::front::control::through_fd;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// The name of the socket in the vault's directory.
pub(super) const SOCKET: &str = "vault.sock";
/// The first frame of the owner, the protocol and its version; or a sentence that says why the client is not served.
pub(super) const GREETING: &str = "quietus-vault-3";
/// Longest request: the chunks of a megabyte, or some 10,000 snapshots that lose paths.
pub(super) const REQUEST_BYTES_MAX: u32 = 4 << 20;
/// Longest answer.
const ANSWER_BYTES_MAX: u32 = 256 << 20;

/// Reaches the process that has the vault at `path` open, once that is ready.
///
/// # Errors
/// No owner is there, or it has just ended; [`io::ErrorKind::InvalidData`] if it speaks otherwise.
pub(in crate::vault) fn connect(path: &Path) -> io::Result<UnixStream> {
    let stream = through_fd(path, SOCKET, |socket| UnixStream::connect(socket))?;
    match receive::<String>(&stream)? {
        greeting if greeting == GREETING => Ok(stream),
        other if other.starts_with("quietus-") => {
            let what = format!(
                "the vault's owner speaks {other}, and this program {GREETING}; use the same version of Quietus"
            );
            Err(io::Error::new(io::ErrorKind::InvalidData, what))
        }
        refusal => Err(io::Error::new(io::ErrorKind::InvalidData, refusal)),
    }
}

/// Sends a value as a frame.
pub(in crate::vault) fn send<T: Serialize>(mut stream: &UnixStream, value: &T) -> io::Result<()> {
    let mut frame = postcard::to_extend(value, vec![0; 4]).map_err(io::Error::other)?;
    let length = u32::try_from(frame.len() - 4).map_err(io::Error::other)?;
    frame[..4].copy_from_slice(&length.to_le_bytes());
    stream.write_all(&frame)
}

/// Takes an answer.
pub(in crate::vault) fn receive<T: DeserializeOwned>(stream: &UnixStream) -> io::Result<T> {
    receive_at_most(stream, ANSWER_BYTES_MAX)
}

/// Takes a frame of at most `bytes_max`. Memory is taken only for what comes.
pub(super) fn receive_at_most<T: DeserializeOwned>(mut stream: &UnixStream, bytes_max: u32) -> io::Result<T> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length);
    if length > bytes_max {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("a frame of {length} bytes, of at most {bytes_max}"),
        ));
    }
    let mut frame = Vec::new();
    stream.take(length.into()).read_to_end(&mut frame)?;
    postcard::from_bytes(&frame).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}
