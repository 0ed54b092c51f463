//! How a server starts, stops and dies.

use super::{Figures, World, bad_reply, overdue};
use crate::book::{Book, Value};
use crate::content::{Tag, fill};
use crate::dice::Dice;
use crate::history::{History, Origin, Setup};
use crate::medium::{Power, SimMedium};
use crate::violation::Violation;
use quietus_core::journal::Shape;
use quietus_core::medium::{Medium, MediumError};
use quietus_core::policy::{Policy, Scratch};
use quietus_core::store::InPlace;
use quietus_core::units::{Extent, Millis, Pos};
use quietus_core::volume::{Checkpoint, Config, Event, Io, IoOp, OpenError, Opening, Volume};
use std::collections::BTreeMap;

const DISK: [u8; 16] = *b"a simulated disk";
/// The tag of what was on the medium at first.
const ORIGIN: Tag = Tag(0);

impl World {
    /// The disk of `history`, just created and opened.
    pub(super) fn new(history: &History) -> Result<Self, Violation> {
        let setup = history.setup.clone();
        let policy: Policy = setup.policy.parse().map_err(|error| bad_reply(format!("{error}")))?;
        let (power, passes) = (Power::default(), policy.passes().len());
        let shape = Shape { half_bytes: setup.half_bytes, slots: setup.slots };
        let data = SimMedium::new(setup.disk_bytes, passes, setup.punch, power.clone());
        let journal = SimMedium::new(shape.bytes(), passes, false, power.clone());
        let checkpoint = create(&setup, shape, &data, &journal).map_err(|error| cannot("created", &error))?;
        let mut dice = Dice::new(history.seed);
        let opening = opening(&setup, &policy, Some(&checkpoint), Millis(0), &mut dice);
        let volume = Volume::open(opening, &data, &journal).map_err(|error| cannot("opened", &error))?;
        let book = first_page(&setup);
        Ok(Self {
            setup,
            policy,
            power,
            data,
            journal,
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
            trouble: Vec::new(),
            is_latched: false,
            is_stopping: false,
            holes_from: None,
            figures: Figures::default(),
        })
    }

    /// The server is told to stop, does so, and starts again.
    pub(super) fn restart(&mut self) -> Result<(), Violation> {
        self.is_stopping = true;
        self.tell(Event::Stop { drain: true })?;
        self.drain()?;
        if !self.is_latched {
            self.checkpoint = self.volume.checkpoint().or(self.checkpoint.take());
        }
        self.lose_process();
        self.book.restarted();
        self.open(None)
    }

    /// The server is killed, and starts again.
    pub(super) fn kill(&mut self) -> Result<(), Violation> {
        self.figures.crashes += 1;
        self.lose_process();
        self.book.restarted();
        self.open(None)
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
        self.data.cut_power();
        self.journal.cut_power();
        self.power.restore();
        self.book.power_cut();
    }

    /// What was under way may have been done, in part.
    fn lose_process(&mut self) {
        for io in std::mem::take(&mut self.handed) {
            if self.dice.chance(50) {
                self.tear(io);
            }
        }
        self.done.clear();
        self.pending.clear();
        self.heal();
        self.trouble.clear();
        (self.is_latched, self.is_stopping) = (false, false);
    }

    pub(super) fn heal(&mut self) {
        self.data.heal();
        self.journal.heal();
    }

    fn tear(&mut self, io: Io) {
        match &io.op {
            IoOp::Write { data, .. } => self.medium(io.target).tear(io.pos, data),
            IoOp::Fill { len, pattern, seed } => {
                let mut bytes = vec![0; *len as usize];
                pattern.fill(*seed, &mut bytes);
                self.medium(io.target).tear(io.pos, &bytes);
            }
            IoOp::Sync => self.medium(io.target).destage(8),
            IoOp::Punch { .. } | IoOp::Zero { .. } => self.perform(io),
            IoOp::Read { .. } | IoOp::Prefetch { .. } => {}
        }
    }

    fn open(&mut self, fuse: Option<u32>) -> Result<(), Violation> {
        if let Some(changes) = fuse {
            self.power.light_fuse(changes);
        }
        let opening = opening(&self.setup, &self.policy, self.checkpoint.as_ref(), self.now, &mut self.dice);
        let opened = Volume::open(opening, &self.data, &self.journal);
        if self.power.is_off() {
            self.figures.cut_in_recovery += 1;
            self.lose_power();
            return self.open(None);
        }
        self.power.restore();
        self.volume = opened.map_err(|error: OpenError| overdue(format!("it cannot be opened: {error}")))?;
        let unknown = self.volume.status().holes_unknown;
        self.holes_from = (unknown && self.setup.tells_holes).then_some(0);
        Ok(())
    }
}

fn opening(
    setup: &Setup,
    policy: &Policy,
    checkpoint: Option<&Checkpoint>,
    now: Millis,
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
    Opening { config, disk: DISK, size: setup.disk_bytes, entropy, now, checkpoint: checkpoint.cloned() }
}

/// Puts on the medium what is there at first, and makes the journal.
fn create(
    setup: &Setup,
    shape: Shape,
    data: &SimMedium,
    journal: &SimMedium,
) -> Result<Checkpoint, MediumError> {
    let whole = Some(Extent::new(0, setup.disk_bytes));
    if setup.origin != Origin::Empty {
        let mut bytes = vec![0; setup.disk_bytes as usize];
        fill(ORIGIN, 0, &mut bytes);
        data.write(Pos(0), &bytes, true)?;
    }
    let held = whole.filter(|_| setup.origin == Origin::Adopted);
    let dead = whole.filter(|_| setup.origin == Origin::Foreign);
    Volume::<InPlace>::format(journal, shape, DISK, held, dead)
}

fn first_page(setup: &Setup) -> Book {
    let value = if setup.origin == Origin::Adopted { Value::Content(ORIGIN) } else { Value::Zeros };
    let mut book = Book::new(setup.disk_bytes, value);
    if setup.origin == Origin::Foreign {
        book.died(Tag(ORIGIN.0 + 1), Extent::new(0, setup.disk_bytes));
    }
    book
}

fn cannot(what: &str, error: &dyn std::error::Error) -> Violation {
    bad_reply(format!("a new disk cannot be {what}: {error}"))
}
