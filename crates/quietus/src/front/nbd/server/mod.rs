//! Accepts clients, each of which gets a thread, and lets go of them.

mod table;

use super::budget::{Budget, Patience};
use super::config::{Config, Tls};
use super::handshake::{self, Offer};
use super::outbox::Outbox;
use super::session::Session;
use super::transport::listener::{Bound, Listener};
use super::transport::socket::{SILENCE_MAX, Socket};
use super::transport::stdio::Drained;
use crate::base::lock::lock;
use crate::front::Exports;
use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use std::io;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};
pub use table::ConnectionInfo;
use table::{Entry, Table};

/// Pause after a failed accept, as while the process has no file descriptor left.
const PAUSE_AFTER_FAILURE: Duration = Duration::from_millis(100);

/// A running server. Dropping it stops it as [`Server::shutdown`] does, without
/// waiting for what is in flight.
pub struct Server {
    shared: Arc<Shared>,
    bound: Vec<Bound>,
    /// Signals of connections through pipes that everything has gone out.
    drained: Mutex<Vec<Drained>>,
    acceptor: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    exports: Exports,
    config: Config,
    /// TLS for new clients; apart from `config`, as it may be exchanged.
    tls: RwLock<Tls>,
    budget: Arc<Budget>,
    table: Table,
    stopping: AtomicBool,
    wake: OwnedFd,
}

impl Server {
    /// Begins to serve `exports` to the clients of `listeners`.
    ///
    /// # Errors
    /// If the system has no thread or descriptor left.
    pub fn start(listeners: Vec<Listener>, exports: Exports, config: Config) -> io::Result<Self> {
        let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
        let tls = RwLock::new(config.tls.clone());
        let budget = Budget::new(config.memory_bytes_max, config.connections_max);
        let stopping = AtomicBool::new(false);
        let shared =
            Arc::new(Shared { exports, config, tls, budget, table: Table::default(), stopping, wake });
        let bound = listeners.iter().map(|listener| listener.bound().clone()).collect();
        let (mut connected, listening): (Vec<_>, Vec<_>) =
            listeners.into_iter().partition(|listener| *listener.bound() == Bound::Connected);
        for connection in &connected {
            shared.serve(connection.connection()?)?;
        }
        let drained = connected.iter_mut().filter_map(|it| it.drained.take()).collect();
        let acceptor = {
            let shared = Arc::clone(&shared);
            thread::Builder::new().name("nbd-accept".into()).spawn(move || shared.accept_from(listening))?
        };
        Ok(Self { shared, bound, drained: Mutex::new(drained), acceptor: Mutex::new(Some(acceptor)) })
    }

    /// The addresses of the listeners, with actual ports.
    #[must_use]
    pub fn bound(&self) -> &[Bound] {
        &self.bound
    }

    /// Sets TLS for new clients; connected clients keep what they began with.
    pub fn set_tls(&self, tls: Tls) {
        *self.shared.tls.write().unwrap_or_else(PoisonError::into_inner) = tls;
    }

    /// The connected clients, longest first.
    #[must_use]
    pub fn connections(&self) -> Vec<ConnectionInfo> {
        self.shared.table.entries().iter().map(|entry| entry.info()).collect()
    }

    /// Whether no new client can come.
    #[must_use]
    pub fn is_private(&self) -> bool {
        self.bound.iter().all(|bound| *bound == Bound::Connected)
    }

    /// Waits until no client is connected.
    pub fn wait_until_idle(&self) {
        self.shared.table.wait_until_empty(None);
    }

    /// Accepts no more clients, refuses new requests with `NBD_ESHUTDOWN`, lets requests in flight
    /// end, and closes all connections; whatever is not done at the `deadline` is cut off. Returns
    /// whether all was done before the time limit.
    pub fn shutdown(&self, deadline: Instant) -> bool {
        self.stop_accepting();
        let entries = self.shared.table.entries();
        entries.iter().for_each(|entry| entry.drain());
        entries.iter().for_each(|entry| entry.finish(deadline));
        let patience = deadline.min(Instant::now() + SILENCE_MAX);
        if !self.shared.table.wait_until_empty(Some(patience)) {
            entries.iter().for_each(|entry| entry.cut());
        }
        let drained = lock(&self.drained);
        let hangs_up = |drained: &Drained| {
            let left = deadline.saturating_duration_since(Instant::now());
            drained.recv_timeout(left) == Err(RecvTimeoutError::Disconnected)
        };
        self.shared.table.wait_until_empty(Some(deadline)) && drained.iter().all(hangs_up)
    }

    fn stop_accepting(&self) {
        self.shared.stopping.store(true, Ordering::Relaxed);
        // Eight bytes always fit into the counter.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        let acceptor = lock(&self.acceptor).take();
        if let Some(acceptor) = acceptor {
            // An acceptor that panicked accepts no client either.
            let _ = acceptor.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop_accepting();
        self.shared.table.entries().iter().for_each(|entry| entry.cut());
    }
}

impl Shared {
    fn accept_from(self: Arc<Self>, listeners: Vec<Listener>) {
        let mut fds = vec![PollFd::new(&self.wake, PollFlags::IN)];
        fds.extend(listeners.iter().map(Listener::poll_fd));
        while !self.stopping.load(Ordering::Relaxed) {
            // A failure, as by a signal, leaves the flags as they were.
            if poll(&mut fds, None).is_err() {
                continue;
            }
            let ready = fds[1..].iter().zip(&listeners).filter(|(fd, _)| !fd.revents().is_empty());
            let accept = |listener: &Listener| match listener.accept()? {
                Some(socket) => self.serve(socket),
                None => Ok(()),
            };
            if !ready.map(|(_, listener)| accept(listener)).all(|accepted| accepted.is_ok()) {
                self.pause();
            }
        }
    }

    /// Waits a moment, or until the server is stopped.
    fn pause(&self) {
        let timeout = Timespec::try_from(PAUSE_AFTER_FAILURE).expect("a moment is not long");
        // Whatever ends the poll, the pause is over.
        let _ = poll(&mut [PollFd::new(&self.wake, PollFlags::IN)], Some(&timeout));
    }

    fn serve(self: &Arc<Self>, socket: Socket) -> io::Result<()> {
        let Some(entry) = self.table.admit(socket, &self.config) else { return Ok(()) };
        let shared = Arc::clone(self);
        let leave = Leave { shared, entry };
        thread::Builder::new().name("nbd".into()).spawn(move || leave.run()).map(drop)
    }

    fn converse(&self, entry: &Entry) -> io::Result<()> {
        let offer = Offer {
            exports: &self.exports,
            tls: self.tls.read().unwrap_or_else(PoisonError::into_inner).clone(),
            handshake_timeout: self.config.handshake_timeout,
            extended_headers: self.config.extended_headers,
            stopping: &self.stopping,
            agreed: &entry.agreed,
        };
        let Some(mut agreed) = handshake::negotiate(Arc::clone(&entry.socket), &offer)? else {
            return Ok(());
        };
        let (stall_timeout, budget) = (self.config.stall_timeout, Arc::clone(&self.budget));
        let patience = Patience { stall_timeout, budget };
        agreed.input.begin_transmission(patience.clone());
        let channel = Arc::clone(agreed.input.channel());
        let info = agreed.export.info();
        let secure = channel.is_secure();
        let outbox = Outbox::new(channel, self.config.in_flight_bytes_max, patience);
        entry.begin(info.name, secure, Arc::clone(&outbox));
        if self.stopping.load(Ordering::Relaxed) {
            outbox.drain();
        }
        let export = Arc::clone(&agreed.export);
        let client = export.connected(entry.socket.process);
        let mut session = Session::new(agreed, Arc::clone(&outbox));
        let outcome = catch_unwind(AssertUnwindSafe(|| session.run()));
        export.disconnected(client);
        if !matches!(outcome, Ok(Ok(()))) {
            outbox.fail();
        }
        outbox.close();
        outcome.unwrap_or_else(|_| Err(io::Error::other("a defect of the server")))
    }
}

/// Tells the table when a connection's thread ends, however it does.
struct Leave {
    shared: Arc<Shared>,
    entry: Arc<Entry>,
}

impl Leave {
    fn run(&self) {
        let peer = self.entry.socket.peer();
        match self.shared.converse(&self.entry) {
            Ok(()) => tracing::debug!(peer, "connection ended"),
            Err(error) => tracing::debug!(peer, %error, "connection ended"),
        }
    }
}

impl Drop for Leave {
    fn drop(&mut self) {
        self.entry.cut();
        self.shared.table.remove(self.entry.id);
    }
}
