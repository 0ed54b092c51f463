//! Other processes: each has a connection, and a thread that passes its requests on to the owner.

use crate::front::control::through_fd;
use crate::vault::access::job::{Event, Job};
use crate::vault::access::request::{Refusal, Reply, Request};
use crate::vault::access::wire;
use crate::vault::access::wire::{GREETING, REQUEST_BYTES_MAX, SOCKET};
use crate::vault::{Error, Home, VaultDir};
use crossbeam_channel::{Sender, unbounded};
use quietus_vault::chunk::Sent;
use quietus_vault::client::{self, Answer};
use quietus_vault::{PutId, VaultError};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::Mode;
use rustix::net::{AddressFamily, Shutdown, SocketAddrUnix, SocketType, sockopt};
use std::collections::BTreeSet;
use std::io;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Scope;
use std::time::Duration;

/// Most connections at once.
const CONNECTIONS_MAX: usize = 64;
/// Longest silence of a client within a frame.
const STALL_MAX: Duration = Duration::from_secs(10);
/// Pause after a failed accept, and between two looks at which clients are still there.
const PAUSE: Duration = Duration::from_millis(20);

/// The socket, and the clients that came through it.
pub(super) struct Connections {
    listener: UnixListener,
    socket: PathBuf,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    count: AtomicUsize,
    is_ending: AtomicBool,
}

impl Connections {
    /// Listens. Clients wait until [`accept`](Self::accept).
    pub(super) fn listen(dir: &VaultDir) -> Result<Self, Error> {
        let path = dir.home().path();
        let socket = path.join(SOCKET);
        let listener = through_fd(path, SOCKET, |at| {
            // The lock is held here: any socket in its place was left by a crash.
            let _ = std::fs::remove_file(at);
            let fd = rustix::net::socket(AddressFamily::UNIX, SocketType::STREAM, None)?;
            rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
            // Before it has a name, so that at no time others may connect.
            rustix::fs::fchmod(&fd, Mode::RUSR | Mode::WUSR)?;
            rustix::net::bind(&fd, &SocketAddrUnix::new(at)?)?;
            rustix::net::listen(&fd, CONNECTIONS_MAX as i32)?;
            Ok(UnixListener::from(fd))
        });
        let listener = listener.map_err(|error| Error::io("make the socket", &socket, error))?;
        Ok(Self { listener, socket, shared: Arc::default() })
    }

    /// Serves the clients that come.
    pub(super) fn accept<'s, 'e: 's>(
        &self,
        scope: &'s Scope<'s, 'e>,
        home: &'e Home,
        jobs: &Sender<Job>,
    ) -> Result<(), Error> {
        let failed = |error| Error::io("start a thread for the socket", &self.socket, error);
        let listener = self.listener.try_clone().map_err(failed)?;
        let (shared, jobs) = (Arc::clone(&self.shared), jobs.clone());
        let body = move || {
            for stream in listener.incoming() {
                match stream {
                    Ok(stream) => take(scope, home, &jobs, &shared, stream),
                    Err(_) if shared.is_ending.load(Ordering::Acquire) => return,
                    Err(_) => std::thread::sleep(PAUSE),
                }
            }
        };
        std::thread::Builder::new().name("vault.sock".into()).spawn_scoped(scope, body).map_err(failed)?;
        Ok(())
    }

    /// Waits until no client is served any more. `stays` is told of how many there are.
    pub(super) fn wait(&self, stays: impl FnOnce(usize)) {
        let count = || self.shared.count.load(Ordering::Acquire);
        if count() > 0 {
            stays(count());
        }
        while count() > 0 {
            std::thread::sleep(PAUSE);
        }
    }
}

impl Drop for Connections {
    /// Closes the socket. Clients that have come before are served to the end.
    fn drop(&mut self) {
        self.shared.is_ending.store(true, Ordering::Release);
        // The thread that accepts wakes up, and ends.
        let _ = rustix::net::shutdown(&self.listener, Shutdown::Both);
        let _ = std::fs::remove_file(&self.socket);
    }
}

/// Takes a connection, unless there are too many.
fn take<'s, 'e: 's>(
    scope: &'s Scope<'s, 'e>,
    home: &'e Home,
    jobs: &Sender<Job>,
    shared: &Arc<Shared>,
    stream: UnixStream,
) {
    let served = Served::begin(shared);
    if shared.count.load(Ordering::Acquire) > CONNECTIONS_MAX {
        let what = format!("{CONNECTIONS_MAX} commands use the vault already; wait for one of them");
        let _ = wire::send(&stream, &what);
        return;
    }
    let mut connection = Connection { home, jobs: jobs.clone(), puts: BTreeSet::new(), _served: served };
    let body = move || {
        // A client that goes away, or says what cannot be, is owed no answer.
        if let Err(error) = connection.serve(&stream)
            && error.kind() != io::ErrorKind::UnexpectedEof
        {
            tracing::info!(%error, "a client of the vault is gone");
        }
    };
    if let Err(error) = std::thread::Builder::new().name("client".into()).spawn_scoped(scope, body) {
        tracing::warn!(%error, "cannot start a thread for a client of the vault");
    }
}

/// One more client that is served, until this is dropped.
struct Served(Arc<Shared>);

impl Served {
    fn begin(shared: &Arc<Shared>) -> Self {
        shared.count.fetch_add(1, Ordering::AcqRel);
        Self(Arc::clone(shared))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.0.count.fetch_sub(1, Ordering::AcqRel);
    }
}

/// A client elsewhere.
struct Connection<'e> {
    home: &'e Home,
    jobs: Sender<Job>,
    /// The puts that the client has begun and not ended.
    puts: BTreeSet<PutId>,
    _served: Served,
}

impl Connection<'_> {
    /// Answers until the client goes.
    fn serve(&mut self, stream: &UnixStream) -> io::Result<()> {
        stream.set_read_timeout(Some(STALL_MAX))?;
        stream.set_write_timeout(Some(STALL_MAX))?;
        let who = format!("uid {}", sockopt::socket_peercred(stream)?.uid.as_raw());
        wire::send(stream, &GREETING)?;
        loop {
            // Between two requests a client may be silent for as long as it likes.
            while poll(&mut [PollFd::new(stream, PollFlags::IN)], None).is_err() {}
            let request = wire::receive_at_most(stream, REQUEST_BYTES_MAX)?;
            self.answer(stream, request, &who)?;
        }
    }

    fn answer(&mut self, stream: &UnixStream, request: Request<Sent>, who: &str) -> io::Result<()> {
        let (chunks, chunks_max) = request.chunks();
        if chunks > chunks_max {
            let what = format!("a client asks for {chunks} chunks at once, of at most {chunks_max}");
            return refuse(stream, Error::Invalid(what));
        }
        let put = request.put();
        if let Some(unknown) = put.filter(|put| !self.puts.contains(put)) {
            return refuse(stream, VaultError::NoPut(unknown).into());
        }
        let request = match request.check(self.home.key()) {
            Ok(request) => request,
            Err(_) => return refuse(stream, VaultError::Sent.into()),
        };
        let (events, answers) = unbounded();
        let gone = |_| io::Error::other("the owner of the vault has ended");
        self.jobs.send(Job(request, who.into(), events)).map_err(gone)?;
        loop {
            let event = answers.recv().map_err(|_| io::Error::other("the owner of the vault has ended"))?;
            if let Event::Done(Ok(Reply::Vault(answer))) = &event {
                match (answer, &put) {
                    (Answer::BeginPut(put), _) => drop(self.puts.insert(*put)),
                    (Answer::Commit(_) | Answer::Replace(_) | Answer::DropPut(()), Some(put)) => {
                        self.puts.remove(put);
                    }
                    _ => {}
                }
            }
            wire::send(stream, &event)?;
            if let Event::Done(_) = event {
                return Ok(());
            }
        }
    }
}

impl Drop for Connection<'_> {
    /// Ends the puts that the client did not end.
    fn drop(&mut self) {
        for put in std::mem::take(&mut self.puts) {
            let (events, answers) = unbounded();
            let job = Job(Request::Vault(client::Request::DropPut(put)), String::new(), events);
            // A put without an end is owed at the next start.
            if self.jobs.send(job).is_ok() {
                let _ = answers.recv();
            }
        }
    }
}

fn refuse(stream: &UnixStream, error: Error) -> io::Result<()> {
    wire::send(stream, &Event::Done(Err(Refusal::from(error))))
}
