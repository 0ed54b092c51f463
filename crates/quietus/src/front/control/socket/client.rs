//! The asking end: the server of a disk answers, or without one the disk itself.

use crate::disk::keys::Source;
use crate::disk::{DiskErrorKind, Step};
use crate::engine::StartError;
use crate::front::control::call::Call;
use crate::front::control::refused::Refused;
use crate::front::control::reply::Answer;
use crate::front::control::socket::wire;
use crate::front::control::socket::wire::{Line, SOCKET, through_fd};
use crate::host::directory::DirectoryErrorKind;
use crate::open_disk::{OpenDisk, backlog_bytes};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType};
use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Asks the server of the disk at `path`, or, without one, the disk itself; `file`
/// goes with the call.
///
/// # Errors
/// The reason why there is no answer.
pub fn ask<T: Answer>(path: &Path, call: &Call, file: Option<&File>, step: Step<'_>) -> Result<T, Refused> {
    ask_unlocked(path, call, file, None, step)
}

/// As [`ask`]; without a server, the credential of `source` opens the keys of the disk, if it has some.
///
/// # Errors
/// The reason why there is no answer.
pub fn ask_unlocked<T: Answer>(
    path: &Path,
    call: &Call,
    file: Option<&File>,
    source: Option<&Source>,
    step: Step<'_>,
) -> Result<T, Refused> {
    let asked = Asked::open(path, !call.changes(), source, step)?;
    let answer = asked.ask(call, file, step);
    let forgets = matches!(call, Call::Forget { .. } | Call::ForgetBlocks { .. } | Call::ForgetParts { .. });
    let drains = forgets || matches!(call, Call::Shred | Call::Compact);
    asked.close(drains, step);
    answer
}

/// A disk that is asked more than once: by its server, or, without one, here, where it is open meanwhile.
pub struct Asked {
    path: PathBuf,
    /// The disk; `None` if a server answers.
    open: Option<Box<OpenDisk>>,
    /// The connection for the next call, if there is one: a server answers one call on each.
    next: Cell<Option<UnixStream>>,
}

impl Asked {
    /// The disk at `path`. Without a server, the credential of `source` opens its keys, if it has some; with `look_only` nothing is
    /// written.
    ///
    /// # Errors
    /// The reason why it cannot be asked.
    pub fn open(
        path: &Path,
        look_only: bool,
        source: Option<&Source>,
        step: Step<'_>,
    ) -> Result<Self, Refused> {
        let served = |stream| Self { path: path.into(), open: None, next: Cell::new(Some(stream)) };
        if let Some(stream) = connect(path) {
            return Ok(served(stream));
        }
        match OpenDisk::open_unlocked(path, look_only, source, step) {
            Ok(open) => Ok(Self { path: path.into(), open: Some(Box::new(open)), next: Cell::new(None) }),
            // A server may have started meanwhile.
            Err(StartError::Disk(error))
                if matches!(error.kind, DiskErrorKind::Directory(DirectoryErrorKind::Locked(_))) =>
            {
                connect(path).map(served).ok_or_else(|| error.to_string().into())
            }
            Err(error) if error.is_interrupted() => Err(Refused::Interrupted),
            Err(error) => Err(error.to_string().into()),
        }
    }

    /// Whether its server answers.
    pub fn is_served(&self) -> bool {
        self.open.is_none()
    }

    /// The answer to `call`; `file` goes with it.
    ///
    /// # Errors
    /// The reason why there is no answer.
    pub fn ask<T: Answer>(&self, call: &Call, file: Option<&File>, step: Step<'_>) -> Result<T, Refused> {
        match &self.open {
            Some(open) => open.answer(call, file, step),
            None => {
                let stream = self.next.take().or_else(|| connect(&self.path));
                let stream = stream.ok_or("the server of the disk has ended; run the command again")?;
                ask_server(&stream, call, file, step)
            }
        }
    }

    /// Closes the disk, if it is open here. With `drains`, queued content is destroyed first, while `step` says so.
    fn close(mut self, drains: bool, step: Step<'_>) {
        if let Some(open) = self.open.take() {
            let total = backlog_bytes(&open.engine.status()).max(1);
            open.close(drains, |status| step(total.saturating_sub(backlog_bytes(status)), total));
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        if let Some(open) = self.open.take() {
            open.close(false, |_| true);
        }
    }
}

/// Whether a server runs the disk at `path`. Does not wait for it.
#[must_use]
pub fn is_served(path: &Path) -> bool {
    let connected = through_fd(path, SOCKET, |socket| {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let stream = rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
        Ok(rustix::net::connect(&stream, &SocketAddrUnix::new(socket)?)?)
    });
    // A server that many connect to at once may have no room for one more.
    connected.map_or_else(|error| error.kind() == io::ErrorKind::WouldBlock, |()| true)
}

/// Asks the server of the disk at `path`; `None` if no server runs, or it refuses. Nothing is opened here.
#[must_use]
pub fn ask_served<T: Answer>(path: &Path, call: &Call) -> Option<T> {
    ask_server(&connect(path)?, call, None, &mut |_, _| true).ok()
}

fn connect(path: &Path) -> Option<UnixStream> {
    through_fd(path, SOCKET, |socket| UnixStream::connect(socket)).ok()
}

fn ask_server<T: Answer>(
    stream: &UnixStream,
    call: &Call,
    file: Option<&File>,
    step: Step<'_>,
) -> Result<T, Refused> {
    let failed = |error: io::Error| format!("cannot ask the server of the disk: {error}; see its log");
    let text = serde_json::to_string(call).map_err(|error| error.to_string())?;
    wire::send(stream, &text, file).map_err(failed)?;
    for line in BufReader::new(stream).lines() {
        let line: Line<T> =
            serde_json::from_str(&line.map_err(failed)?).map_err(|error| failed(error.into()))?;
        match line {
            Line::Ok(answer) => return Ok(answer),
            Line::Error(error) => return Err(Refused::Error(error)),
            Line::Forgotten(text) => return Err(Refused::Forgotten(text)),
            Line::Progress(done, of) if step(done, of) => {}
            Line::Progress(..) => return Err(Refused::Interrupted),
        }
    }
    Err("the server of the disk ended before it answered; see its log".into())
}
