//! The connected clients, and the order in which they make room when all places are taken.
//!
//! The first place of these is given up: that of the longest handshake; that of the client that has
//! been idle for longest without ever making a request, once that is as long as a handshake may
//! take; that of the client that has been idle for longest, once that is as long as
//! [`Config::idle_timeout`]. A guest may be idle for hours with its disk mounted, and
//! losing it does more harm than a newcomer that is turned away.

use crate::base::lock::lock;
use crate::front::nbd::config::Config;
use crate::front::nbd::outbox::Outbox;
use crate::front::nbd::transport::socket::Socket;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Longest wait of a newcomer for the place of a client that was sent away.
const WAIT_FOR_PLACE: Duration = Duration::from_secs(1);
/// Time between two warnings that newcomers are turned away.
const WARN_EVERY: Duration = Duration::from_secs(60);

/// Facts about a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// The other end: an address, or a process.
    pub peer: String,
    /// Name of the disk; `None` during the handshake.
    pub export: Option<String>,
    /// Whether the connection is under TLS.
    pub tls: bool,
    /// Number of requests without a reply.
    pub in_flight: usize,
    /// The next request waits for the memory that all connections share.
    pub waits_for_memory: bool,
}

/// A connection.
pub struct Entry {
    /// The number of the connection; no other connection ever has it.
    pub id: u64,
    /// The socket of the connection.
    pub socket: Arc<Socket>,
    /// Whether the client may believe that the handshake is over.
    pub agreed: AtomicBool,
    transmission: OnceLock<Transmission>,
}

struct Transmission {
    export: String,
    tls: bool,
    outbox: Arc<Outbox>,
}

impl Entry {
    /// Notes that the handshake is over.
    pub fn begin(&self, export: String, tls: bool, outbox: Arc<Outbox>) {
        let begun = self.transmission.set(Transmission { export, tls, outbox });
        assert!(begun.is_ok(), "a handshake ends once");
    }

    /// Refuses new requests.
    pub fn drain(&self) {
        if let Some(transmission) = self.transmission.get() {
            transmission.outbox.drain();
        }
    }

    /// Hangs up when nothing is in flight; at the `deadline`, cuts off what is. The connection ends
    /// when the client hangs up too.
    pub fn finish(&self, deadline: Instant) {
        match self.transmission.get() {
            Some(transmission) => transmission.outbox.finish(deadline),
            None => self.socket.hang_up(),
        }
    }

    /// Ends the connection at once.
    pub fn cut(&self) {
        match self.transmission.get() {
            Some(transmission) => transmission.outbox.fail(),
            None => self.socket.shutdown(),
        }
    }

    fn is_unused(&self) -> bool {
        self.transmission.get().is_some_and(|it| !it.outbox.has_begun())
    }

    /// For how long the client has had nothing to ask, if that may end the connection in
    /// favour of a newcomer.
    fn idle(&self, limits: &Config) -> Option<Duration> {
        let outbox = &self.transmission.get()?.outbox;
        let limit = if outbox.has_begun() { limits.idle_timeout } else { limits.handshake_timeout };
        let waited = self.socket.waited();
        (outbox.in_flight() == 0 && waited >= limit).then_some(waited)
    }

    /// The facts about the connection.
    pub fn info(&self) -> ConnectionInfo {
        let transmission = self.transmission.get();
        ConnectionInfo {
            peer: self.socket.peer().to_string(),
            export: transmission.map(|transmission| transmission.export.clone()),
            tls: transmission.is_some_and(|transmission| transmission.tls),
            in_flight: transmission.map_or(0, |transmission| transmission.outbox.in_flight()),
            waits_for_memory: transmission.is_some_and(|transmission| transmission.outbox.is_starved()),
        }
    }
}

/// The connections, by number, and so by age.
#[derive(Default)]
pub struct Table {
    places: Mutex<Places>,
    left: Condvar,
}

#[derive(Default)]
struct Places {
    next_id: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
    warned: Option<Instant>,
}

impl Table {
    /// Takes in a client, if `limits` have room. If they have not, an idle client makes some; if no client does, the
    /// newcomer is let go.
    pub fn admit(&self, socket: Socket, limits: &Config) -> Option<Arc<Entry>> {
        let mut places = lock(&self.places);
        let full = |places: &mut Places| places.entries.len() >= limits.connections_max;
        if full(&mut places)
            && let Some(entry) = places.expendable(limits)
        {
            tracing::debug!(peer = entry.socket.peer(), "makes room for a newcomer");
            entry.cut();
            let waited = self.left.wait_timeout_while(places, WAIT_FOR_PLACE, full);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        if full(&mut places) {
            places.warn(socket.peer(), limits.connections_max);
            return None;
        }
        Some(places.add(socket))
    }

    /// Forgets connection `id`.
    pub fn remove(&self, id: u64) {
        lock(&self.places).entries.remove(&id);
        self.left.notify_all();
    }

    /// Every connection.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        lock(&self.places).entries.values().cloned().collect()
    }

    /// Waits until there is no connection, until `deadline` at most. Returns
    /// whether there is none.
    pub fn wait_until_empty(&self, deadline: Option<Instant>) -> bool {
        let mut places = lock(&self.places);
        while !places.entries.is_empty() {
            let left =
                deadline.map_or(Duration::from_secs(3600), |at| at.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return false;
            }
            places = self.left.wait_timeout(places, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Places {
    /// The entry whose place a newcomer may have.
    fn expendable(&self, limits: &Config) -> Option<Arc<Entry>> {
        let in_handshake = self.entries.values().find(|entry| !entry.agreed.load(Ordering::Relaxed));
        let idle = || {
            let idle = self.entries.values().filter_map(|entry| Some((entry.idle(limits)?, entry)));
            let unused_first = |(waited, entry): &(Duration, &Arc<Entry>)| (entry.is_unused(), *waited);
            idle.max_by_key(unused_first).map(|(_, entry)| entry)
        };
        in_handshake.or_else(idle).cloned()
    }

    fn warn(&mut self, peer: &str, connections_max: usize) {
        if self.warned.is_none_or(|last| last.elapsed() >= WARN_EVERY) {
            self.warned = Some(Instant::now());
            tracing::warn!(
                peer,
                "a client is turned away: all {connections_max} connections are in use; raise --connections, \
                 or lower --idle-timeout"
            );
        }
    }

    fn add(&mut self, socket: Socket) -> Arc<Entry> {
        let id = self.next_id;
        self.next_id += 1;
        let entry = Arc::new(Entry {
            id,
            socket: Arc::new(socket),
            agreed: AtomicBool::new(false),
            transmission: OnceLock::new(),
        });
        self.entries.insert(id, Arc::clone(&entry));
        entry
    }
}
