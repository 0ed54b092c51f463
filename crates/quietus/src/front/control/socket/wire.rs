//! The socket, and what goes through it: a call is a line, and perhaps an open file.

use crate::front::control::refused::Refused;
use rustix::cmsg_space;
use rustix::io::retry_on_intr;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::net::UnixStream;
use std::path::Path;

/// Longest call.
const CALL_BYTES_MAX: usize = 1 << 20;

/// A line of an answer.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(in super::super) enum Line<T> {
    Progress(u64, u64),
    Ok(T),
    Forgotten(String),
    Error(String),
}

impl<T> From<Result<T, Refused>> for Line<T> {
    fn from(answer: Result<T, Refused>) -> Self {
        match answer {
            Ok(answer) => Self::Ok(answer),
            Err(Refused::Forgotten(text)) => Self::Forgotten(text),
            Err(refused) => Self::Error(refused.to_string()),
        }
    }
}

/// The name of the socket in the directory of a disk.
pub(in super::super) const SOCKET: &str = "control.sock";

/// The path of the socket `name` in the directory at `path`, short however long that is.
pub(crate) fn through_fd<T>(
    path: &Path,
    name: &str,
    with: impl FnOnce(&Path) -> io::Result<T>,
) -> io::Result<T> {
    let dir = std::fs::File::open(path)?;
    with(Path::new(&format!("/proc/self/fd/{}/{name}", dir.as_raw_fd())))
}

/// Sends `line`, and `file` with its first byte.
pub(in super::super) fn send(mut stream: &UnixStream, line: &str, file: Option<&File>) -> io::Result<()> {
    let fds: Vec<_> = file.iter().map(AsFd::as_fd).collect();
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut along = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        along.push(SendAncillaryMessage::ScmRights(&fds));
    }
    let text = format!("{line}\n");
    let line = [IoSlice::new(text.as_bytes())];
    let sent = retry_on_intr(|| sendmsg(stream, &line, &mut along, SendFlags::NOSIGNAL))?;
    stream.write_all(&text.as_bytes()[sent..])
}

/// Takes a line, and the last file that came with it.
pub(in super::super) fn receive(stream: &UnixStream) -> io::Result<(String, Option<File>)> {
    let (mut line, mut file) = (Vec::new(), None);
    while !line.contains(&b'\n') && line.len() < CALL_BYTES_MAX {
        let mut part = [0; 4096];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut along = RecvAncillaryBuffer::new(&mut space);
        let mut into = [IoSliceMut::new(&mut part)];
        let taken = retry_on_intr(|| recvmsg(stream, &mut into, &mut along, RecvFlags::CMSG_CLOEXEC))?;
        let bytes = taken.bytes;
        let files = along.drain().filter_map(|it| match it {
            RecvAncillaryMessage::ScmRights(fds) => fds.last().map(File::from),
            _ => None,
        });
        file = files.last().or(file);
        if bytes == 0 {
            break;
        }
        line.extend(&part[..bytes]);
    }
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    Ok((String::from_utf8_lossy(line).into_owned(), file))
}
