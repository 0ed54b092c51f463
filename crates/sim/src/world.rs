//! A disk, the machine around it, and the oracles that watch both while a
//! history happens to them.
//!
//! The volume hands out input and output as commands. The world keeps those
//! that are not done yet, does them one by one in an order that the history's
//! chance decides, and tells of their ends in another such order. That is all
//! the concurrency that a real server's threads could produce, since no act on
//! a medium depends on another one that is under way.

mod forensic;
mod life;
mod log;
mod replies;

use crate::book::{Book, Moment, Reading, Value};
use crate::content::{Tag, fill};
use crate::dice::Dice;
use crate::history::{Ask, Deed, History, Setup, Step};
use crate::media::SimMedia;
use crate::medium::{Fault, FaultKind, SimMedium};
use crate::violation::{Oracle, Violation};
use quietus_core::extents::ExtentMap;
use quietus_core::medium::MediumError;
use quietus_core::policy::{Policy, Scratch};
use quietus_core::request::{Buf, Op, Request, RequestId};
use quietus_core::units::{Addr, Extent, Millis, Pos};
use quietus_core::volume::{Checkpoint, Command, Event, Io, IoId, Volume};
use std::collections::BTreeMap;

/// Most turns and ticks until a disk that is left alone has met all its
/// obligations; a hundred times what any history was seen to need.
const DRAIN_TURNS_MAX: usize = 100_000;
/// Most ticks in a row that a disk asks for without doing anything.
const IDLE_TICKS_MAX: usize = 8;

/// See the module's documentation.
pub struct World {
    setup: Setup,
    policy: Policy,
    media: SimMedia,
    volume: Volume,
    checkpoint: Option<Checkpoint>,
    now: Millis,
    moment: Moment,
    newest: Tag,
    dice: Dice,
    /// Input and output that is not done yet.
    handed: Vec<Io>,
    /// Done, and not told yet.
    done: Vec<(IoId, Result<Buf, MediumError>)>,
    pending: BTreeMap<RequestId, Pending>,
    out: Vec<Command>,
    scratch: Scratch,
    book: Book,
    log: log::Log,
    /// Failures of the media in this life of the server.
    trouble: Vec<FaultKind>,
    is_latched: bool,
    is_stopping: bool,
    /// How far the search for holes, or for space, has come; none when it is over.
    search_from: Option<u64>,
    /// The search for space is over, in this life.
    is_space_known: bool,
    figures: Figures,
}

/// A request that was sent and not replied to.
struct Pending {
    ask: Ask,
    extent: Extent<Addr>,
    fua: bool,
    since: Moment,
    reading: Option<Reading>,
}

/// What happened in a history: that the oracles had something to judge.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Requests that were done.
    pub done: u64,
    /// Requests that were refused.
    pub refused: u64,
    /// Acts of input and output.
    pub acts: u64,
    /// Receipts for content that was destroyed.
    pub shredded: u64,
    /// Receipts for conservative overwrites.
    pub scoured: u64,
    /// Kills and power cuts.
    pub crashes: u64,
    /// Power cuts while the disk was being opened.
    pub cut_in_recovery: u64,
    /// Failures of a medium that came.
    pub failures: u64,
    /// Times that the host became full.
    pub full: u64,
    /// Times that all obligations were met and the media were examined.
    pub examined: u64,
}

impl Figures {
    /// Adds those of another history.
    pub fn add(&mut self, other: &Self) {
        self.done += other.done;
        self.refused += other.refused;
        self.acts += other.acts;
        self.shredded += other.shredded;
        self.scoured += other.scoured;
        self.crashes += other.crashes;
        self.cut_in_recovery += other.cut_in_recovery;
        self.failures += other.failures;
        self.full += other.full;
        self.examined += other.examined;
    }
}

/// Lets `history` happen.
///
/// # Errors
/// The first broken promise.
///
/// # Panics
/// If the code under test does.
pub fn run(history: &History) -> Result<Figures, Violation> {
    let mut world = World::new(history)?;
    for step in &history.steps {
        world.step(step)?;
    }
    world.finish()?;
    Ok(world.figures)
}

impl World {
    fn step(&mut self, step: &Step) -> Result<(), Violation> {
        self.dice = Dice::new(step.salt);
        self.media.all().for_each(|medium| medium.reseed(self.dice.roll()));
        for _ in 0..step.turns {
            self.turn()?;
        }
        match step.deed {
            Deed::Send { ask, extent, fua } => self.send(step.tag, ask, extent, fua),
            Deed::Wait { ms } => self.wait(ms),
            Deed::ShredNow => self.tell(Event::ShredNow),
            Deed::Drain => self.drain(),
            Deed::Restart => self.restart(),
            Deed::Kill => self.kill(),
            Deed::PowerCut { again_after } => self.cut_power(again_after),
            Deed::Full => self.fill_host(true),
            Deed::Room => self.fill_host(false),
            Deed::Fault { target, kind, after } => {
                self.media.on(target).plan(Fault { kind, after });
                Ok(())
            }
        }
    }

    /// Leaves the disk alone until it has met its obligations, examines it,
    /// takes its power away, and examines it again.
    fn finish(&mut self) -> Result<(), Violation> {
        if self.is_latched {
            self.kill()?;
        }
        self.heal();
        self.drain()?;
        self.flush()?;
        self.read_everything()?;
        self.cut_power(None)?;
        self.read_everything()?;
        self.drain()
    }

    fn wait(&mut self, ms: u64) -> Result<(), Violation> {
        self.now.0 += ms;
        self.tell(Event::Tick)
    }

    fn send(&mut self, tag: Tag, ask: Ask, extent: Extent<Addr>, fua: bool) -> Result<(), Violation> {
        self.make_room()?;
        self.newest = tag;
        self.moment += 1;
        if ask != Ask::Read {
            self.book.arrived(extent);
        }
        if let Some(value) = ask.value(tag) {
            self.book.begin(tag, extent, value);
        }
        let reading = (ask == Ask::Read).then(|| self.book.begin_read(extent, self.moment, tag));
        let id = RequestId(u64::from(tag.0));
        self.pending.insert(id, Pending { ask, extent, fua, since: self.moment, reading });
        self.tell(Event::Request(id, Request { op: ask.op(tag, extent), extent, fua }))
    }

    /// Waits until there are not too many requests under way.
    fn make_room(&mut self) -> Result<(), Violation> {
        self.turn_until(|world| world.pending.len() < world.setup.in_flight_max)
    }

    /// Lets all happen that can, until `is_enough`.
    fn turn_until(&mut self, is_enough: impl Fn(&Self) -> bool) -> Result<(), Violation> {
        let mut idle_ticks = 0;
        for _ in 0..DRAIN_TURNS_MAX {
            if is_enough(self) {
                return Ok(());
            }
            if self.handed.is_empty() && self.done.is_empty() && self.log.is_at_rest() {
                idle_ticks += 1;
                self.wake_up(idle_ticks)?;
            } else {
                idle_ticks = 0;
                self.turn()?;
            }
        }
        Err(overdue(format!("after {DRAIN_TURNS_MAX} turns it is still not done: {}", self.state())))
    }

    /// Lets time pass until the disk wants to do something.
    fn wake_up(&mut self, idle_ticks: usize) -> Result<(), Violation> {
        let Some(due) = self.volume.next_wakeup() else {
            return Err(overdue(format!("nothing will ever happen again: {}", self.state())));
        };
        if idle_ticks > IDLE_TICKS_MAX {
            return Err(overdue(format!("it wakes up and does nothing: {}", self.state())));
        }
        self.now = self.now.max(due);
        self.tell(Event::Tick)
    }

    fn state(&self) -> String {
        let asks: Vec<_> = self.pending.iter().map(|(id, it)| (id.0, it.ask, it.extent)).collect();
        let owed: Vec<_> = self.volume.obligations().collect();
        format!(
            "requests {asks:?}, obligations {owed:?}, now {:?}, wakes {:?}",
            self.now,
            self.volume.next_wakeup()
        )
    }

    /// One act of input or output is done, or told to be done.
    fn turn(&mut self) -> Result<(), Violation> {
        self.destage();
        self.search()?;
        self.turn_log()?;
        let choices = self.handed.len() + self.done.len();
        if choices == 0 {
            return Ok(());
        }
        let choice = self.dice.index(choices);
        if choice < self.handed.len() {
            let io = self.handed.swap_remove(choice);
            self.perform(io);
            return Ok(());
        }
        let (id, result) = self.done.swap_remove(choice - self.handed.len());
        self.tell(Event::Completed(id, result))
    }

    fn perform(&mut self, io: Io) {
        self.figures.acts += 1;
        self.done.push(io.perform(&self.media.get(), &mut self.scratch));
        let journal = self.media.journal.take_fired();
        let content: Vec<_> = self.media.all().flat_map(SimMedium::take_fired).collect();
        if content.contains(&FaultKind::Sync) {
            self.book.sync_failed();
        }
        self.figures.failures += (content.len() + journal.len()) as u64;
        self.trouble.extend(content.into_iter().chain(journal));
    }

    fn destage(&mut self) {
        if self.dice.chance(self.setup.destage_percent) {
            self.media.data.destage(self.dice.range(1, 16));
            self.media.journal.destage(self.dice.range(0, 4));
            for (_, medium) in self.media.others.iter().filter(|(id, _)| id.is_changed()) {
                medium.destage(self.dice.range(0, 4));
            }
        }
    }

    /// The search for holes goes on, as it does beside the requests; or, where the
    /// disk knows what it holds, for space.
    fn search(&mut self) -> Result<(), Violation> {
        let Some(from) = self.search_from.filter(|_| self.dice.chance(30)) else { return Ok(()) };
        let to = (from + self.dice.range(1, 16) * 4096).min(self.setup.disk_bytes);
        let part = Extent::<Pos>::between(from, to);
        let mut holes = ExtentMap::<Pos, ()>::default();
        self.media.data.holes().into_iter().for_each(|hole| holes.insert(hole, ()));
        let on_disk = |it: Extent<Pos>| Extent::new(it.start.0, it.len);
        let events: Vec<_> = if self.volume.holes_unknown() {
            holes.within(part).map(|(hole, ())| Event::Hole(on_disk(hole))).collect()
        } else {
            holes.gaps(part).into_iter().map(|space| Event::Space(on_disk(space))).collect()
        };
        events.into_iter().try_for_each(|event| self.tell(event))?;
        self.search_from = (to < self.setup.disk_bytes).then_some(to);
        if self.search_from.is_none() {
            self.is_space_known = !self.volume.holes_unknown();
            self.volume.holes_known();
        }
        Ok(())
    }

    /// Tells the volume of `event`, and does what it then wants.
    fn tell(&mut self, event: Event) -> Result<(), Violation> {
        self.moment += 1;
        let mut out = std::mem::take(&mut self.out);
        self.volume.apply(self.now, event, &mut out);
        for command in out.drain(..) {
            match command {
                Command::Io(io) => self.handed.push(io),
                Command::Reply(id, outcome) => self.replied(id, outcome)?,
                Command::Receipt(number, receipt) => self.log_receipt(number, receipt)?,
                Command::Latched(reason) => self.latched(&reason)?,
                Command::Died(..) => {}
            }
        }
        self.out = out;
        Ok(())
    }

    fn latched(&mut self, reason: &str) -> Result<(), Violation> {
        self.is_latched = true;
        if self.trouble.iter().all(|it| *it == FaultKind::Full) {
            return Err(bad_reply(format!("the disk latched, and no medium had failed: {reason}")));
        }
        Ok(())
    }

    /// Leaves the disk alone until it owes nothing, and examines it. The host has space
    /// by then: until it has, some may stay owed.
    fn drain(&mut self) -> Result<(), Violation> {
        self.fill_host(false)?;
        self.turn_until(|world| {
            let is_drained = world.volume.is_drained() && world.log.is_at_rest();
            world.is_latched || (world.pending.is_empty() && is_drained)
        })?;
        if self.is_latched {
            return Ok(());
        }
        self.figures.examined += 1;
        self.judge_drained()?;
        self.judge_log()
    }

    fn flush(&mut self) -> Result<(), Violation> {
        self.newest = Tag(self.newest.0 + 1);
        self.send(self.newest, Ask::Flush, Extent::default(), false)?;
        self.turn_until(|world| world.pending.is_empty())
    }

    fn read_everything(&mut self) -> Result<(), Violation> {
        let whole = Extent::new(0, self.setup.disk_bytes);
        self.newest = Tag(self.newest.0 + 1);
        self.send(self.newest, Ask::Read, whole, false)?;
        self.turn_until(|world| world.pending.is_empty())
    }
}

impl Ask {
    /// What the bytes hold once it is done, if it changes them.
    fn value(self, tag: Tag) -> Option<Value> {
        match self {
            Self::Write => Some(Value::Content(tag)),
            Self::WriteZeros | Self::Trim | Self::Zero { .. } | Self::Purge => Some(Value::Zeros),
            Self::Read | Self::Scour | Self::Cache | Self::Flush => None,
        }
    }

    fn op(self, tag: Tag, extent: Extent<Addr>) -> Op {
        match self {
            Self::Read => Op::Read,
            Self::Write => {
                let mut payload = vec![0; extent.len as usize];
                fill(tag, extent.start.0, &mut payload);
                Op::Write(payload.into())
            }
            Self::WriteZeros => Op::Write(vec![0; extent.len as usize].into()),
            Self::Trim => Op::Trim,
            Self::Zero { no_hole, fast } => Op::Zero { no_hole, fast },
            Self::Purge => Op::Purge,
            Self::Scour => Op::Scour,
            Self::Cache => Op::Cache,
            Self::Flush => Op::Flush,
        }
    }
}

fn overdue(what: String) -> Violation {
    Violation { oracle: Oracle::Liveness, what }
}

fn bad_reply(what: String) -> Violation {
    Violation { oracle: Oracle::Replies, what }
}

#[cfg(test)]
mod tests;
