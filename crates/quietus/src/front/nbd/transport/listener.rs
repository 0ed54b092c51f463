//! Sources of clients.

use super::socket::Socket;
use super::stdio::{self, Drained};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{SocketFlags, sockopt};
use std::io;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{self, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

/// Clients that may wait to be accepted.
const BACKLOG: i32 = 4096;

/// A socket on which clients arrive, or the one client that has.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    bound: Bound,
    /// The signal that everything for the client has gone out, if that is later than the end of the
    /// connection.
    pub(in crate::front::nbd) drained: Option<Drained>,
}

/// The address of a [`Listener`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bound {
    /// A Unix-domain socket that was made here; its file goes with the listener.
    Unix(PathBuf),
    /// A Unix-domain socket with an abstract name, which no file system has (unix(7)).
    Abstract(String),
    /// A TCP port.
    Tcp(SocketAddr),
    /// A listening socket that was handed to the process.
    Inherited,
    /// A connection that was handed to the process.
    Connected,
}

impl Listener {
    /// Listens on a Unix-domain socket at `path`. A socket that a server left behind there is
    /// replaced.
    ///
    /// # Errors
    /// If a server answers at `path`, or something else lies there.
    pub fn unix(path: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(path).or_else(|error| {
            if error.kind() != io::ErrorKind::AddrInUse || !is_abandoned(path) {
                return Err(error);
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        })?;
        rustix::net::listen(&listener, BACKLOG)?;
        Self::new(listener.into(), Bound::Unix(path.to_path_buf()))
    }

    /// Listens on a Unix-domain socket with the abstract `name`.
    ///
    /// # Errors
    /// If a server has the name, or the name is empty or too long.
    pub fn abstract_unix(name: &str) -> io::Result<Self> {
        if name.is_empty() {
            let text = "the abstract name is empty; use unix:@NAME, such as unix:@vm1";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        let listener = UnixListener::bind_addr(&net::SocketAddr::from_abstract_name(name)?)?;
        rustix::net::listen(&listener, BACKLOG)?;
        Self::new(listener.into(), Bound::Abstract(name.to_string()))
    }

    /// Listens on a TCP port; port 0 is any free one.
    ///
    /// # Errors
    /// If the address is not this host's, or in use.
    pub fn tcp(address: impl ToSocketAddrs) -> io::Result<Self> {
        let listener = TcpListener::bind(address)?;
        rustix::net::listen(&listener, BACKLOG)?;
        let address = listener.local_addr()?;
        Self::new(listener.into(), Bound::Tcp(address))
    }

    /// Takes a socket that was handed to the process, listening or connected.
    ///
    /// # Errors
    /// If the descriptor is neither.
    pub fn inherited(fd: OwnedFd) -> io::Result<Self> {
        if sockopt::socket_acceptconn(&fd)? {
            return Self::new(fd, Bound::Inherited);
        }
        rustix::net::getpeername(&fd)?;
        Ok(Self { fd, bound: Bound::Connected, drained: None })
    }

    /// Takes the client at standard input and output: one socket, or a pipe each. From then on the
    /// process has no input, and prints to standard error.
    ///
    /// # Errors
    /// If standard input and output are something else, or a socket without a client.
    pub fn stdio() -> io::Result<Self> {
        let (fd, drained) = stdio::take()?;
        rustix::net::getpeername(&fd)?;
        Ok(Self { fd, bound: Bound::Connected, drained })
    }

    fn new(fd: OwnedFd, bound: Bound) -> io::Result<Self> {
        // Another process may take the client for which we are woken.
        rustix::io::ioctl_fionbio(&fd, true)?;
        Ok(Self { fd, bound, drained: None })
    }

    /// The address of the listener.
    #[must_use]
    pub const fn bound(&self) -> &Bound {
        &self.bound
    }

    pub(in crate::front::nbd) fn poll_fd(&self) -> PollFd<'_> {
        PollFd::new(&self.fd, PollFlags::IN)
    }

    /// The next client, if one has arrived.
    pub(in crate::front::nbd) fn accept(&self) -> io::Result<Option<Socket>> {
        match rustix::net::accept_with(&self.fd, SocketFlags::CLOEXEC) {
            Ok(fd) => Socket::new(fd).map(Some),
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR | rustix::io::Errno::CONNABORTED) => {
                Ok(None)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The client that was handed over.
    pub(in crate::front::nbd) fn connection(&self) -> io::Result<Socket> {
        Socket::new(self.fd.try_clone()?)
    }
}

/// Whether a socket without a listener lies at `path`.
fn is_abandoned(path: &Path) -> bool {
    let is_socket = path.symlink_metadata().is_ok_and(|metadata| metadata.file_type().is_socket());
    is_socket
        && matches!(UnixStream::connect(path), Err(error) if error.kind() == io::ErrorKind::ConnectionRefused)
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Bound::Unix(path) = &self.bound {
            // Another process may have removed the socket before.
            let _ = std::fs::remove_file(path);
        }
    }
}
