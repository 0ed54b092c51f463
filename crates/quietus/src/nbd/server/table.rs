//! Who is connected.

use crate::nbd::outbox::Outbox;
use crate::nbd::socket::Socket;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// How long a newcomer waits for the place of one that was sent away.
const WAIT_FOR_PLACE: Duration = Duration::from_secs(1);

/// What is told of a connection.
#[derive(Clone, Debug)]
pub struct ConnectionInfo {
    /// Its number; no other ever has it.
    pub id: u64,
    /// The other end: an address, or a process.
    pub peer: String,
    /// The disk's name; none during the handshake.
    pub export: Option<String>,
    /// Whether it is under TLS.
    pub tls: bool,
    /// Requests without a reply.
    pub in_flight: usize,
    /// The next request waits for the memory that all connections share.
    pub waits_for_memory: bool,
    /// Since when it is connected.
    pub since: Instant,
}

/// A connection.
pub struct Entry {
    id: u64,
    socket: Arc<Socket>,
    since: Instant,
    agreed: AtomicBool,
    transmission: OnceLock<Transmission>,
}

struct Transmission {
    export: String,
    tls: bool,
    outbox: Arc<Outbox>,
}

impl Entry {
    /// Its number.
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// Its socket.
    pub const fn socket(&self) -> &Arc<Socket> {
        &self.socket
    }

    /// Whether the client may believe that the handshake is over.
    pub const fn agreed(&self) -> &AtomicBool {
        &self.agreed
    }

    /// The handshake is over.
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

    /// Ends the connection when nothing is in flight, or at the `deadline`.
    pub fn finish(&self, deadline: Instant) {
        if let Some(transmission) = self.transmission.get() {
            transmission.outbox.wait_until_idle(Some(deadline));
        }
        self.cut();
    }

    /// Ends the connection.
    pub fn cut(&self) {
        match self.transmission.get() {
            Some(transmission) => transmission.outbox.fail(),
            None => self.socket.shutdown(),
        }
    }

    fn info(&self) -> ConnectionInfo {
        let transmission = self.transmission.get();
        ConnectionInfo {
            id: self.id,
            peer: self.socket.peer().to_string(),
            export: transmission.map(|transmission| transmission.export.clone()),
            tls: transmission.is_some_and(|transmission| transmission.tls),
            in_flight: transmission.map_or(0, |transmission| transmission.outbox.in_flight()),
            waits_for_memory: transmission.is_some_and(|transmission| transmission.outbox.is_starved()),
            since: self.since,
        }
    }
}

/// The connections, by number, and so by age.
pub struct Table {
    connections_max: usize,
    places: Mutex<Places>,
    left: Condvar,
}

#[derive(Default)]
struct Places {
    next_id: u64,
    entries: BTreeMap<u64, Arc<Entry>>,
}

impl Table {
    /// With room for `connections_max`.
    pub fn new(connections_max: usize) -> Self {
        Self { connections_max, places: Mutex::default(), left: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Places> {
        self.places.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in a client. If there is no room, the one that has been in its
    /// handshake for longest makes some; if none is, the newcomer is let go.
    pub fn admit(&self, socket: Socket) -> Option<Arc<Entry>> {
        let mut places = self.lock();
        if places.entries.len() >= self.connections_max {
            places.oldest_in_handshake()?.cut();
            let full = |places: &mut Places| places.entries.len() >= self.connections_max;
            let waited = self.left.wait_timeout_while(places, WAIT_FOR_PLACE, full);
            places = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        (places.entries.len() < self.connections_max).then(|| places.add(socket))
    }

    /// Forgets connection `id`.
    pub fn remove(&self, id: u64) {
        self.lock().entries.remove(&id);
        self.left.notify_all();
    }

    /// Every connection.
    pub fn entries(&self) -> Vec<Arc<Entry>> {
        self.lock().entries.values().cloned().collect()
    }

    /// What is told of every connection.
    pub fn infos(&self) -> Vec<ConnectionInfo> {
        self.entries().iter().map(|entry| entry.info()).collect()
    }

    /// Waits until there is no connection, until `deadline` at most. Returns
    /// whether there is none.
    pub fn wait_until_empty(&self, deadline: Option<Instant>) -> bool {
        let mut places = self.lock();
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
    fn oldest_in_handshake(&self) -> Option<&Arc<Entry>> {
        self.entries.values().find(|entry| !entry.agreed.load(Ordering::Relaxed))
    }

    fn add(&mut self, socket: Socket) -> Arc<Entry> {
        let id = self.next_id;
        self.next_id += 1;
        let entry = Arc::new(Entry {
            id,
            socket: Arc::new(socket),
            since: Instant::now(),
            agreed: AtomicBool::new(false),
            transmission: OnceLock::new(),
        });
        self.entries.insert(id, Arc::clone(&entry));
        entry
    }
}
