//! The first process that opens a vault owns it, and serves later processes until all are done.
//!
//! The vault has one owner: a thread that answers requests one after another, and steps a sanitization between them. Requests come from this
//! process's own command, and through the socket `vault.sock` in the vault's directory from others.
//!
//! Invariants:
//! 1. What is acknowledged is durable: an answer is sent when the vault has returned.
//! 2. A client's puts end with its connection.
//! 3. Nothing that comes through the socket is trusted but the client's user: lengths are bounded, and the name of each chunk is computed here.

mod connection;
mod sanitizing;
mod share;
#[cfg(test)]
mod tests;
mod thread;

use crate::host::directory::{Access, DirectoryErrorKind};
use crate::vault::access::client::Client;
use crate::vault::access::wire::connect;
use crate::vault::{Error, Home, Line, Session, VaultDir, snapshots};
use connection::Connections;
use crossbeam_channel::bounded;
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};
use thread::Owner;

/// Requests that wait at most, besides those in sockets.
const JOBS_MAX: usize = 128;
/// How long a process that neither gets the vault nor reaches its owner tries again.
const REACH_MAX: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
/// Pause between two attempts.
const REACH_PAUSE: Duration = Duration::from_millis(20);

/// The process that has the vault.
enum Reached {
    Here(Box<VaultDir>),
    There(UnixStream),
}

/// Opens the vault at `path`, or asks the process that has it open, and does something with it. One that can only be read is opened by
/// every reader. `stays` is told how many other
/// commands are served still when this one is done.
///
/// # Errors
/// [`Error`], and the errors of `act`.
pub fn with_vault<T, E: From<Error>>(
    path: &Path,
    act: impl FnOnce(&mut Client) -> Result<T, E>,
    stays: impl FnOnce(usize),
) -> Result<T, E> {
    match reach(path)? {
        Reached::There(stream) => act(&mut Client::there(Home::open(path)?, stream)),
        Reached::Here(dir) => own(&dir, act, stays),
    }
}

/// Opens the vault at `path` for this process alone, and does something with it. Other processes wait meanwhile.
///
/// # Errors
/// [`Error`], [`Error::Invalid`] if another process has the vault open, and the errors of `act`.
pub fn with_vault_alone<T, E: From<Error>>(
    path: &Path,
    act: impl FnOnce(&mut Session<'_>) -> Result<T, E>,
) -> Result<T, E> {
    let Reached::Here(dir) = reach(path)? else {
        let what = "another command has the vault open, and this command needs the vault alone; wait until that command ends";
        return Err(Error::Invalid(format!("{}: {what}", path.display())).into());
    };
    // Clients that connect wait to be accepted. When the socket is closed, they try again.
    let _connections = listen(&dir);
    let mut session = Session::open(&dir)?;
    act(&mut session)
}

/// The snapshots of the vault at `path`, without a trace: a vault that another command has open is asked, and any other one is only
/// read.
pub fn peek(path: &Path) -> Result<Vec<Line>, Error> {
    match connect(path) {
        Ok(stream) => snapshots(&mut Client::there(Home::open(path)?, stream)),
        Err(_) => snapshots(&mut VaultDir::open_for(path, Access::ReadOnly)?.vault()?),
    }
}

/// The socket for others; `None` if the host cannot make it, such as on a file system without sockets: no other process is served then.
fn listen(dir: &VaultDir) -> Option<Connections> {
    // Others can read it, too.
    if dir.is_read_only() {
        return None;
    }
    let listening = Connections::listen(dir);
    listening.inspect_err(|error| tracing::warn!(%error, "no other command can use the vault meanwhile")).ok()
}

fn own<T, E: From<Error>>(
    dir: &VaultDir,
    act: impl FnOnce(&mut Client) -> Result<T, E>,
    stays: impl FnOnce(usize),
) -> Result<T, E> {
    let connections = listen(dir);
    std::thread::scope(move |scope| {
        // Dropped with this closure, however it ends: the threads of the scope wait for that.
        let connections = connections;
        let (jobs, queue) = bounded(JOBS_MAX);
        let (ready, opened) = bounded(1);
        let body = move || match Session::open(dir) {
            Ok(session) => {
                // The receiver waits for it.
                let _ = ready.send(Ok(()));
                Owner::new(session).run(&queue);
            }
            Err(error) => drop(ready.send(Err(error))),
        };
        let spawned = std::thread::Builder::new().name("vault".into()).spawn_scoped(scope, body);
        spawned.map_err(|error| Error::io("start a thread for it", dir.home().path(), error))?;
        opened
            .recv()
            .unwrap_or_else(|_| Err(Error::Invalid("the thread of the vault has panicked".into())))?;
        if let Some(connections) = &connections {
            connections.accept(scope, dir.home(), &jobs)?;
        }
        let done = act(&mut Client::here(dir.home().clone(), jobs));
        if let Some(connections) = &connections {
            connections.wait(stays);
        }
        done
    })
}

/// Finds the process that has the vault, or opens it. A process may begin or end meanwhile.
fn reach(path: &Path) -> Result<Reached, Error> {
    let mut since = Instant::now();
    loop {
        let unreached = match connect(path) {
            Ok(stream) => return Ok(Reached::There(stream)),
            Err(error) => error,
        };
        let locked = match VaultDir::open(path) {
            Err(Error::Directory(error)) if matches!(error.kind, DirectoryErrorKind::Locked(_)) => error,
            opened => return Ok(Reached::Here(Box::new(opened?))),
        };
        match unreached.kind() {
            io::ErrorKind::PermissionDenied => {
                let act = "reach the process that has the vault open, which is another user's";
                return Err(Error::io(act, path, unreached));
            }
            io::ErrorKind::InvalidData => {
                return Err(Error::io("use the process that has the vault open", path, unreached));
            }
            // An owner was there, and has ended.
            io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => since = Instant::now(),
            _ if since.elapsed() > REACH_MAX => return Err(Error::Directory(locked)),
            _ => {}
        }
        std::thread::sleep(REACH_PAUSE);
    }
}
