//! The start, the stop and the death of a server.

use super::attacker::Attacker;
use super::keys::Keys;
use super::{Figures, Server, Watched, disk};
use crate::machine::history::{Setup, Store};
use crate::machine::medium::SimMedium;
use crate::machine::rng::Rng;
use crate::verdict::{Judged, Violation, bad_reply, overdue};
use quietus_core::base::units::{Extent, Millis};
use quietus_core::erase::policy::{Policy, Scratch};
use quietus_core::request::{Op, Request, RequestId};
use quietus_core::volume::{Event, OpenError, Volume};
use quietus_detect::Disk;
use std::cell::RefCell;
use std::error::Error;

/// Time at which a history begins.
const BEGINNING: Millis = Millis(1_000_000);
/// Longest stop that leaves what is owed to the next start: it waits for no medium that is busy.
const HALT_MS_MAX: u64 = 5_000;
/// Bytes of each write that copies content in.
const COPY_BYTES: usize = 64 << 10;

impl Server {
    /// The disk of `setup`, just created and opened, where `content` lies at first
    /// ([`disk::original`]); chance begins with `seed`.
    pub fn new(
        setup: &Setup,
        content: Vec<u8>,
        watched: Option<Watched>,
        seed: u64,
    ) -> Result<Self, Violation> {
        let policy: Policy = setup.policy.parse().map_err(|error| bad_reply(format!("{error}")))?;
        let media = disk::media(setup, policy.passes().len());
        let checkpoint = disk::create(setup, &content, &media).map_err(|error| cannot("created", &*error))?;
        let mut rng = Rng::new(seed);
        let is_keyed = setup.store == Store::Sealed;
        let mut keys = if is_keyed { Keys::with_cipher() } else { Keys::default() };
        let host = (BEGINNING, &media, &mut keys);
        let opening = disk::opening(setup, &policy, Some(&checkpoint), host, &mut rng);
        let volume = Volume::open(opening, &media.get()).map_err(|error| cannot("opened", &error))?;
        let mut this = Self {
            setup: setup.clone(),
            policy,
            watched,
            media,
            keys,
            origin: content,
            copies: Vec::new(),
            attacker: RefCell::new(Attacker::new(setup.disk_bytes)),
            deaths: Vec::new(),
            volume,
            checkpoint: Some(checkpoint),
            now: BEGINNING,
            moment: 1,
            rng,
            handed: Vec::new(),
            done: Vec::new(),
            out: Vec::new(),
            said: Vec::new(),
            scratch: Scratch::default(),
            log: Default::default(),
            clients: 0,
            trouble: Vec::new(),
            has_sync_failed: false,
            is_latched: false,
            is_stopping: false,
            halts_since: None,
            search_from: None,
            is_space_known: false,
            held_up: None,
            figures: Figures::default(),
        };
        if is_keyed {
            this.copy_in()?;
        }
        this.watch();
        Ok(this)
    }

    /// Writes the content that a disk has at first which cannot adopt any.
    fn copy_in(&mut self) -> Judged {
        let (content, id) = (self.origin.clone(), RequestId(0));
        self.connect(true)?;
        for (n, bytes) in content.chunks(COPY_BYTES).enumerate() {
            let extent = Extent::new((n * COPY_BYTES) as u64, bytes.len() as u64);
            let op = Op::Write(bytes.to_vec().into());
            self.tell(Event::Request(id, Request { op, extent, fua: true }))?;
            while !self.has_replied(id) {
                if self.handed.is_empty() { self.wake_up(1)? } else { self.act(0)? }
            }
            self.said.clear();
        }
        self.connect(false)
    }

    fn watch(&mut self) {
        if let Some(Watched { options, probers }) = &self.watched {
            let disk = Disk::new(self.setup.disk_bytes, probers.clone(), *options);
            self.volume.watch(Box::new(disk));
        }
    }

    /// Fills the host from now on, or gives it space again.
    pub fn fill_host(&mut self, is_full: bool) {
        self.figures.full += u64::from(is_full);
        self.media.host.0.set(is_full);
    }

    /// Forgets failures that were planned and did not come.
    pub fn heal(&self) {
        self.media.all().for_each(SimMedium::heal);
    }

    /// Stops the server, which first destroys what is due if it `drains`.
    pub fn stop(&mut self, drains: bool) -> Judged {
        self.is_stopping = true;
        let requests = self.volume.status().requests;
        let has_requests = requests.running + requests.waiting > 0;
        self.halts_since = (!drains && !has_requests).then_some(self.now);
        self.figures.busy_stops += u64::from(self.held_up.is_some());
        self.tell(Event::Stop { drain: drains })
    }

    /// Starts the server again after a stop. Returns whether the watcher knows again what it knew.
    pub fn start_again(&mut self) -> Result<bool, Violation> {
        let mut knows = false;
        if self.halts_since.is_some_and(|since| self.now.since(since) > HALT_MS_MAX) {
            return Err(overdue("a stop that leaves what is owed to the next start took too long".into()));
        }
        if !self.is_latched {
            let checkpoint = self.volume.checkpoint();
            knows = checkpoint.as_ref().is_some_and(|it| !it.watch.is_empty());
            self.checkpoint = checkpoint.or(self.checkpoint.take());
        }
        self.figures.busy_halts += u64::from(self.held_up.take().is_some());
        self.lose_process();
        self.open(None)?;
        Ok(knows)
    }

    pub fn kill(&mut self) -> Judged {
        self.figures.crashes += 1;
        self.lose_process();
        self.open(None)
    }

    /// Cuts the power, which comes back, and perhaps is cut again by a fuse while the server
    /// starts.
    pub fn cut_power(&mut self, again_after: Option<u32>) -> Judged {
        self.figures.crashes += 1;
        self.lose_process();
        self.media.cut_power();
        self.open(again_after)
    }

    /// Loses the process: anything under way may have been done, in part.
    fn lose_process(&mut self) {
        self.figures.busy_crashes += u64::from(self.held_up.take().is_some());
        for io in std::mem::take(&mut self.handed) {
            if self.rng.chance(50) {
                self.media.tear(io, self.keys.of_content(), &mut self.scratch);
            }
        }
        self.done.clear();
        self.said.clear();
        self.deaths.clear();
        self.clients = 0;
        self.lose_log();
        self.heal();
        self.trouble.clear();
        (self.is_latched, self.is_stopping) = (false, false);
    }

    fn open(&mut self, fuse: Option<u32>) -> Judged {
        if let Some(changes) = fuse {
            self.media.power.light_fuse(changes);
        }
        let (checkpoint, host) = (self.checkpoint.as_ref(), (self.now, &self.media, &mut self.keys));
        let opening = disk::opening(&self.setup, &self.policy, checkpoint, host, &mut self.rng);
        let opened = Volume::open(opening, &self.media.get());
        if self.media.power.is_off() {
            self.figures.cut_in_recovery += 1;
            self.media.cut_power();
            return self.open(None);
        }
        self.media.power.restore();
        if opened.is_err() && self.has_been_busy() {
            self.figures.busy_starts += 1;
            return self.open(None);
        }
        self.volume =
            opened.map_err(|error: OpenError| overdue(format!("the disk cannot be opened: {error}")))?;
        self.watch();
        let unknown = self.volume.status().holes_unknown;
        self.is_space_known = false;
        let searches = unknown || self.setup.is_in_place();
        self.search_from = (searches && self.setup.tells_holes).then_some(0);
        self.resume_log()
    }
}

fn cannot(what: &str, error: &dyn Error) -> Violation {
    bad_reply(format!("a new disk cannot be {what}: {error}"))
}
