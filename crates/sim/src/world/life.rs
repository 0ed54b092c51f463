//! How a server starts, stops and dies.

use super::{Figures, World, bad_reply, overdue};
use crate::book::{Book, Value};
use crate::content::{Tag, fill};
use crate::dice::Dice;
use crate::history::{History, Origin, Setup};
use crate::media::SimMedia;
use crate::medium::{Host, Power, SimMedium};
use crate::violation::Violation;
use quietus_core::blocks::BlockSet;
use quietus_core::journal::Shape;
use quietus_core::media::MediumId;
use quietus_core::medium::Medium;
use quietus_core::policy::{Policy, Scratch};
use quietus_core::store::{Kind, overlay};
use quietus_core::units::{Addr, BLOCK_BYTES, Extent, Millis, Pos};
use quietus_core::volume::{Checkpoint, Config, Event, OpenError, Opening, Volume};
use std::collections::BTreeMap;
use std::error::Error;
use std::sync::Arc;

const DISK: [u8; 16] = *b"a simulated disk";
/// No overlay needs more space than so many times the disk's.
const GROWTH_MAX: u64 = 6;
/// And so much for places that refused writes had: those are destroyed before they are
/// used again, which has to wait while the host is full.
const REFUSED_BYTES_MAX: u64 = 3 << 20;
/// The tag of what was on the medium at first.
pub(super) const ORIGIN: Tag = Tag(0);

impl World {
    /// The disk of `history`, just created and opened.
    pub(super) fn new(history: &History) -> Result<Self, Violation> {
        let setup = history.setup.clone();
        let policy: Policy = setup.policy.parse().map_err(|error| bad_reply(format!("{error}")))?;
        let (shape, media) = (shape(&setup), media(&setup, policy.passes().len()));
        let checkpoint = create(&setup, shape, &media).map_err(|error| cannot("created", &*error))?;
        let mut dice = Dice::new(history.seed);
        let opening = opening(&setup, &policy, Some(&checkpoint), (Millis(0), &media), &mut dice);
        let volume = Volume::open(opening, &media.get()).map_err(|error| cannot("opened", &error))?;
        let book = first_page(&setup);
        Ok(Self {
            setup,
            policy,
            media,
            volume,
            checkpoint: Some(checkpoint),
            now: Millis(0),
            moment: 1,
            newest: ORIGIN,
            dice,
            handed: Vec::new(),
            done: Vec::new(),
            pending: BTreeMap::new(),
            out: Vec::new(),
            scratch: Scratch::default(),
            book,
            log: Default::default(),
            trouble: Vec::new(),
            is_latched: false,
            is_stopping: false,
            search_from: None,
            is_space_known: false,
            figures: Figures::default(),
        })
    }

    /// The server is told to stop, does so, and starts again.
    pub(super) fn restart(&mut self) -> Result<(), Violation> {
        self.is_stopping = true;
        self.tell(Event::Stop { drain: true })?;
        self.drain()?;
        let is_clean = !self.is_latched;
        if is_clean {
            self.checkpoint = self.volume.checkpoint().or(self.checkpoint.take());
        }
        self.lose_process();
        self.forget(is_clean, !is_clean);
        self.open(None)
    }

    /// The server is killed, and starts again.
    pub(super) fn kill(&mut self) -> Result<(), Violation> {
        self.figures.crashes += 1;
        let was_latched = self.is_latched;
        self.lose_process();
        self.forget(false, was_latched);
        self.open(None)
    }

    /// The process is gone, and with it, unless it stopped in peace, what only it
    /// knew: where an overlay's content is. After a failure of the medium the cache is not trusted
    /// with what was written over dead bytes in place.
    fn forget(&mut self, is_clean: bool, was_latched: bool) {
        match () {
            () if is_clean => self.book.restarted(),
            () if self.setup.overlay.is_some() => self.book.forgotten(|_| true),
            () => self.book.forgotten(|died| died && was_latched),
        }
    }

    /// The power is cut, comes back, and perhaps is cut again by a fuse while
    /// the server starts.
    pub(super) fn cut_power(&mut self, again_after: Option<u32>) -> Result<(), Violation> {
        self.figures.crashes += 1;
        self.lose_process();
        self.lose_power();
        self.open(again_after)
    }

    fn lose_power(&mut self) {
        self.media.cut_power();
        self.book.power_cut();
    }

    /// What was under way may have been done, in part.
    fn lose_process(&mut self) {
        for io in std::mem::take(&mut self.handed) {
            if self.dice.chance(50) {
                self.media.tear(io, &mut self.scratch);
            }
        }
        self.done.clear();
        self.pending.clear();
        self.lose_log();
        self.heal();
        self.trouble.clear();
        (self.is_latched, self.is_stopping) = (false, false);
    }

    pub(super) fn heal(&mut self) {
        self.media.all().for_each(SimMedium::heal);
    }

    /// The host is full from now on, or has space again.
    pub(super) fn fill_host(&mut self, is_full: bool) -> Result<(), Violation> {
        self.figures.full += u64::from(is_full);
        self.media.host.set_full(is_full);
        Ok(())
    }

    fn open(&mut self, fuse: Option<u32>) -> Result<(), Violation> {
        if let Some(changes) = fuse {
            self.media.power.light_fuse(changes);
        }
        let host = (self.now, &self.media);
        let opening = opening(&self.setup, &self.policy, self.checkpoint.as_ref(), host, &mut self.dice);
        let opened = Volume::open(opening, &self.media.get());
        if self.media.power.is_off() {
            self.figures.cut_in_recovery += 1;
            self.lose_power();
            return self.open(None);
        }
        self.media.power.restore();
        self.volume = opened.map_err(|error: OpenError| overdue(format!("it cannot be opened: {error}")))?;
        let unknown = self.volume.status().holes_unknown;
        self.is_space_known = false;
        let searches = unknown || self.setup.overlay.is_none();
        self.search_from = (searches && self.setup.tells_holes).then_some(0);
        self.resume_log()
    }
}

fn opening(
    setup: &Setup,
    policy: &Policy,
    checkpoint: Option<&Checkpoint>,
    (now, media): (Millis, &SimMedia),
    dice: &mut Dice,
) -> Opening {
    let config = Config {
        run_bytes_max: setup.run_bytes_max,
        batch_bytes_max: setup.batch_bytes_max,
        deadline_ms: setup.deadline_ms,
        detect_zeroes: setup.detect_zeroes,
        ..Config::new(policy.clone())
    };
    let mut entropy = [0; 32];
    entropy[..8].copy_from_slice(&dice.roll().to_le_bytes());
    let size = setup.disk_bytes;
    let overlay = |mode| Kind::Overlay(overlay::Setup { mode, base_data: Arc::new(base_data(setup)) });
    let store = setup.overlay.map_or(Kind::InPlace, overlay);
    let (session, checkpoint) = (media.journal.session(), checkpoint.cloned());
    Opening { config, disk: DISK, size, session, entropy, now, checkpoint, store }
}

fn shape(setup: &Setup) -> Shape {
    Shape { half_bytes: setup.half_bytes, slots: setup.slots }
}

/// The media of a disk that is not made yet.
fn media(setup: &Setup, passes: usize) -> SimMedia {
    let (power, host) = (Power::default(), Host::default());
    let fixed = |bytes| SimMedium::new(bytes, passes, false, power.clone());
    let journal = fixed(shape(setup).bytes());
    if setup.overlay.is_none() {
        let data = SimMedium::new(setup.disk_bytes, passes, setup.punch, power.clone());
        return SimMedia { data, journal, others: Vec::new(), power, host };
    }
    let data_max = setup.disk_bytes.next_multiple_of(BLOCK_BYTES) * GROWTH_MAX + REFUSED_BYTES_MAX;
    let data = SimMedium::growing(data_max, passes, true, power.clone()).on_host(&host);
    let map = fixed(overlay::map_bytes(setup.disk_bytes)).on_host(&host);
    let journal = journal.on_host(&host);
    let others = vec![(MediumId::Map, map), (MediumId::Base, fixed(setup.disk_bytes))];
    SimMedia { data, journal, others, power, host }
}

/// The part of the disk whose content is on a medium at first.
pub(super) fn original(setup: &Setup) -> Extent<Addr> {
    let bytes = if setup.overlay.is_some() { setup.base_bytes } else { setup.disk_bytes };
    Extent::new(0, if setup.origin == Origin::Empty { 0 } else { bytes })
}

fn base_data(setup: &Setup) -> BlockSet {
    let mut blocks = BlockSet::default();
    blocks.insert(original(setup));
    blocks
}

/// Puts on the medium what is there at first, and makes the journal.
fn create(setup: &Setup, shape: Shape, media: &SimMedia) -> Result<Checkpoint, Box<dyn Error>> {
    let whole = Some(Extent::new(0, setup.disk_bytes));
    let mut bytes = vec![0; original(setup).len as usize];
    fill(ORIGIN, 0, &mut bytes);
    let journal = &media.journal;
    if setup.overlay.is_none() {
        media.data.write(Pos(0), &bytes, true)?;
        let held = whole.filter(|_| setup.origin == Origin::Adopted);
        let dead = whole.filter(|_| setup.origin == Origin::Foreign);
        return Ok(Volume::format(journal, shape, DISK, held, dead)?);
    }
    media.on(MediumId::Base).write(Pos(0), &bytes, true)?;
    overlay::format_map(media.on(MediumId::Map), DISK, setup.disk_bytes)?;
    Ok(Volume::format(journal, shape, DISK, None, None)?)
}

fn first_page(setup: &Setup) -> Book {
    let mut book = Book::new(setup.disk_bytes, Value::Zeros);
    let whole = Extent::new(0, setup.disk_bytes);
    if setup.overlay.is_none() && setup.origin == Origin::Foreign {
        book.died(Tag(ORIGIN.0 + 1), whole);
    } else if !original(setup).is_empty() {
        book.begin(ORIGIN, original(setup), Value::Content(ORIGIN));
        book.settle(ORIGIN, original(setup), 0, true);
    }
    book
}

fn cannot(what: &str, error: &dyn Error) -> Violation {
    bad_reply(format!("a new disk cannot be {what}: {error}"))
}
