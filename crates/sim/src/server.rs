//! The volume as it is served, and the machine below it. The simulator drives volumes only from here.
//!
//! The volume hands out input and output as commands. The server keeps those that are not done yet,
//! does them one by one in an order that chance decides, and reports their ends in another such
//! order. A real server's threads could produce no other concurrency, since no act on a medium
//! depends on another one that is under way.
//!
//! Two axes are free: the store ([`disk`]) and the guest above. A guest implements [`Above`]:
//! requests that know no file system ([`crate::guests::world`]), or file systems ([`crate::guests::files`]).

mod attacker;
mod busy;
mod cipher;
pub mod disk;
mod forensic;
mod keys;
mod life;
mod log;
mod sealed;
mod stubs;

pub use keys::Made;

use crate::machine::history::Setup;
use crate::machine::media::SimMedia;
use crate::machine::medium::{FaultKind, SimMedium};
use crate::machine::rng::Rng;
use crate::soak::figures;
use crate::verdict::{Judged, Violation, bad_reply, overdue};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, Extent, Millis, Pos};
use quietus_core::erase::policy::{Policy, Scratch};
use quietus_core::media::sealing::ContentError;
use quietus_core::owed::ledger::Cause;
use quietus_core::request::{Outcome, Refusal, RequestId};
use quietus_core::volume::{Checkpoint, Command, Event, Io, IoId, Performed, Receipt, Volume};
use quietus_detect::formats::format::Prober;
use quietus_detect::rules::options::Options;
use std::cell::RefCell;

/// Most turns and ticks until a disk that is left alone has done what a caller waits for; a hundred
/// times what any history was seen to need.
const TURNS_MAX: usize = 100_000;
/// Most ticks in a row that a disk asks for without doing anything.
const IDLE_TICKS_MAX: usize = 40;
/// Milliseconds by which each of these ticks but the first is late.
const IDLE_TICK_MS: u64 = 50;

/// A moment: a count of events.
pub type Moment = u64;

/// Inference: how much, and below which file systems.
#[derive(Clone, Debug)]
pub struct Watched {
    pub options: Options,
    pub probers: Vec<Prober>,
}

/// Messages of the server to the guest, and to its judge.
#[derive(Clone, Debug)]
pub enum Said {
    Reply(RequestId, Outcome),
    /// The extent is dead from here on, since a map shows it free.
    Died(Extent<Addr>),
    /// A receipt for something that was not destroyed just now.
    Late(Receipt),
}

#[derive(Debug)]
pub struct Server {
    pub(crate) setup: Setup,
    policy: Policy,
    watched: Option<Watched>,
    pub(crate) media: SimMedia,
    /// Keys of a disk that seals its content.
    pub(crate) keys: keys::Keys,
    /// Places where the guest keeps copies of content, by its own leave: no receipt says a word of those.
    pub(crate) copies: Vec<Extent<Addr>>,
    /// What an attacker has of a disk whose content dies with its keys, and what has died in this life.
    attacker: RefCell<attacker::Attacker>,
    deaths: Vec<sealed::Death>,
    /// Initial content of the part of the disk that has content on a medium at first.
    origin: Vec<u8>,
    pub(crate) volume: Volume,
    checkpoint: Option<Checkpoint>,
    pub(crate) now: Millis,
    moment: Moment,
    rng: Rng,
    /// Input and output that is not done yet, the oldest first until chance takes a turn.
    pub(crate) handed: Vec<Io>,
    /// Results that are done and not reported yet.
    done: Vec<(IoId, Result<Performed, ContentError>)>,
    out: Vec<Command>,
    /// Messages that the guest has not taken yet, each with its moment.
    said: Vec<(Moment, Said)>,
    scratch: Scratch,
    log: log::Log,
    clients: usize,
    /// Failures of the media in this life of the server.
    pub(crate) trouble: Vec<FaultKind>,
    /// A sync of content failed, and no reply has reported that yet.
    pub(crate) has_sync_failed: bool,
    pub(crate) is_latched: bool,
    pub(crate) is_stopping: bool,
    /// When the stop began, if it leaves to the next start what is owed, and no request was under way.
    halts_since: Option<Millis>,
    /// Progress of the search for holes, or for space; `None` when it is over.
    search_from: Option<u64>,
    /// The search for space is over, in this life.
    is_space_known: bool,
    /// The purge that waits for the root, if one does.
    held_up: Option<busy::HeldUp>,
    pub figures: Figures,
}

figures! {
    /// Requests that were done.
    done,
    /// Requests that were refused.
    refused,
    /// Acts of input and output.
    acts,
    /// Receipts for content that was destroyed.
    shredded,
    /// Receipts for conservative overwrites.
    rewritten,
    /// Runs that were inferred to be dead.
    inferred,
    /// Kills and power cuts.
    crashes,
    /// Power cuts while the disk was being opened.
    cut_in_recovery,
    /// Failures of a medium that came.
    failures,
    /// Times that the host became full.
    full,
    /// Requests that were refused for want of space.
    no_space,
    /// Times that all obligations were completed and the media were examined.
    examined,
    /// Epochs that were closed.
    closed,
    /// Reads of what a kept epoch showed.
    past,
    /// Receipts for forgotten epochs.
    forgotten,
    /// Forgets of blocks in all epochs.
    chains,
    /// Forgets of what some epochs show of blocks.
    amended,
    /// The same, in several parts as one.
    sets,
    /// Times that a place would not be erased.
    remained,
    /// Fresh keys of all others that a purge has written to the root.
    turned,
    /// Times that the root was too busy for those.
    busy_turns,
    /// Times that the root was too busy for a pass over the old ones.
    busy_passes,
    /// Crashes while a purge waited for a busy root.
    busy_crashes,
    /// Stops that began then.
    busy_stops,
    /// Stops that left such a purge to the next start.
    busy_halts,
    /// Starts that the root was too busy for.
    busy_starts,
    /// Purges that went on after some content had got a fresh key while they waited.
    busy_restaged,
    /// Deaths, while a purge waited, of blocks that were dead when it began to wait, and were written then.
    busy_deaths,
}

impl Server {
    /// Number of passes that are due.
    pub fn passes(&self) -> usize {
        let passes = self.policy.passes().len();
        if self.setup.erases && passes > 0 { u8::MAX.into() } else { passes }
    }

    /// The epoch that takes changes; 0 if the disk keeps no epochs.
    pub fn open_epoch(&self) -> u64 {
        self.volume.status().store.versions().map_or(0, |store| store.open_epoch)
    }

    /// Whether a file system was found in `extent`, or in the partition there.
    pub fn watches(&self, extent: Extent<Addr>) -> bool {
        let status = self.volume.watch_status().unwrap_or_default();
        let part = status.parts.iter().find(|it| it.start_bytes == extent.start.0);
        part.map_or(&status, |it| &it.watch).file_system.is_some()
    }

    /// Blocks that died without durable evidence.
    pub fn unproven(&self) -> u64 {
        let status = self.volume.watch_status().unwrap_or_default();
        let parts = status.parts.iter().map(|it| &it.watch);
        let figures = parts.chain([&status]).flat_map(|it| &it.figures);
        figures.filter(|(name, _)| name.starts_with("dead, evidence")).map(|it| it.1).sum()
    }

    pub fn reseed(&mut self, seed: u64) {
        self.rng = Rng::new(seed);
        self.media.all().for_each(|medium| medium.reseed(self.rng.roll()));
    }

    pub fn next_moment(&mut self) -> Moment {
        self.moment += 1;
        self.moment
    }

    /// Messages since this was last called.
    pub fn take_said(&mut self) -> Vec<(Moment, Said)> {
        std::mem::take(&mut self.said)
    }

    /// Whether an answer to request `id` is among the messages that were not taken yet.
    pub(crate) fn has_replied(&self, id: RequestId) -> bool {
        self.said.iter().any(|(_, said)| matches!(said, Said::Reply(it, _) if *it == id))
    }

    /// Whether request `id` was refused by the last event.
    pub fn has_refused(&self, id: RequestId) -> bool {
        self.said.iter().any(|(_, said)| matches!(said, Said::Reply(it, Err(_)) if *it == id))
    }

    /// Connects one client more, or one less.
    pub fn connect(&mut self, comes: bool) -> Judged {
        self.clients = if comes { self.clients + 1 } else { self.clients - 1 };
        self.tell(if comes { Event::Connected } else { Event::Disconnected })
    }

    /// Tells the volume of `event`, and does what the volume then wants.
    pub fn tell(&mut self, event: Event) -> Judged {
        self.moment += 1;
        let mut out = std::mem::take(&mut self.out);
        self.volume.apply(self.now, event, &mut out);
        for command in out.drain(..) {
            match command {
                Command::Io(io) => self.handed.push(io),
                Command::Reply(id, outcome) => {
                    self.figures.no_space += u64::from(matches!(outcome, Err(Refusal::NoSpace(_))));
                    self.say(Said::Reply(id, outcome));
                }
                Command::Receipt(number, receipt) => self.log_receipt(number, receipt)?,
                Command::Latched(reason) => self.latched(&reason)?,
                Command::Died(cause, extent, _) => {
                    self.note_death(extent);
                    if cause == Cause::Map {
                        self.figures.inferred += 1;
                        self.say(Said::Died(extent));
                    }
                }
            }
        }
        self.out = out;
        Ok(())
    }

    fn say(&mut self, what: Said) {
        self.said.push((self.moment, what));
    }

    fn latched(&mut self, reason: &str) -> Judged {
        self.is_latched = true;
        if !self.has_failed() {
            return Err(bad_reply(format!("the disk latched although no medium had failed: {reason}")));
        }
        Ok(())
    }

    /// Whether a medium has failed; a medium on a full host has not, nor one that is busy, or will not erase a place.
    pub(crate) fn has_failed(&self) -> bool {
        self.trouble.iter().any(|it| !matches!(it, FaultKind::Full | FaultKind::Remains | FaultKind::Busy))
    }

    pub fn pass(&mut self, ms: u64) -> Judged {
        self.now.0 += ms;
        self.tell(Event::Tick)
    }

    /// Whether something can happen without time passing.
    pub fn is_at_work(&self) -> bool {
        let searches = self.search_from.is_some() && self.volume.holes_unknown() && self.watched.is_some();
        !self.handed.is_empty() || !self.done.is_empty() || !self.log.is_at_rest() || searches
    }

    /// Whether the disk owes nothing, and the audit log knows of all that it did.
    pub fn is_drained(&self) -> bool {
        self.volume.is_drained() && self.log.is_at_rest()
    }

    /// Whether the disk waits for a medium to erase what it would not: receipts wait for that, and take all their room.
    pub fn is_stuck(&self) -> bool {
        self.setup.remains && self.volume.status().owed.pauses.is_some() && !self.is_at_work()
    }

    /// Does one act of input or output, or reports one.
    pub fn turn(&mut self) -> Judged {
        self.destage();
        self.search()?;
        self.turn_log()?;
        let choices = self.handed.len() + self.done.len();
        if choices == 0 {
            return Ok(());
        }
        let choice = self.rng.index(choices);
        if choice < self.handed.len() {
            let io = self.handed.swap_remove(choice);
            self.perform(io);
            return Ok(());
        }
        let (id, result) = self.done.swap_remove(choice - self.handed.len());
        self.tell(Event::Completed(id, result))
    }

    /// Does the `n`th of those acts, and reports it: no chance is asked. The audit log is durable at once.
    pub(crate) fn act(&mut self, n: usize) -> Judged {
        if n >= self.handed.len() {
            return Err(overdue(format!("nothing is under way: {}", self.state())));
        }
        let io = self.handed.remove(n);
        self.perform(io);
        let (id, result) = self.done.pop().expect("it was just done");
        self.tell(Event::Completed(id, result))?;
        self.log_at_once()
    }

    fn perform(&mut self, io: Io) {
        self.figures.acts += 1;
        let on_root = busy::RootAct::of(&io);
        self.done.push(io.perform(&self.media.get(), self.keys.of_content(), &mut self.scratch));
        let journal = self.media.journal.take_fired();
        let content: Vec<_> = self.media.all().flat_map(SimMedium::take_fired).collect();
        self.has_sync_failed |= content.contains(&FaultKind::Sync);
        self.figures.failures += (content.len() + journal.len()) as u64;
        let before = self.trouble.len();
        self.trouble.extend(content.into_iter().chain(journal));
        let remained = self.trouble[before..].iter().filter(|it| **it == FaultKind::Remains);
        self.figures.remained += remained.count() as u64;
        let is_busy = self.trouble[before..].contains(&FaultKind::Busy);
        if let Some(act) = on_root {
            self.note_root(act, is_busy);
        }
    }

    fn destage(&mut self) {
        if self.rng.chance(self.setup.destage_percent) {
            self.media.data.destage(self.rng.range(1, 16));
            self.media.journal.destage(self.rng.range(0, 4));
            for (_, medium) in self.media.others.iter().filter(|(id, _)| id.is_changed()) {
                medium.destage(self.rng.range(0, 4));
            }
        }
    }

    /// Continues the search for holes, as it goes on beside the requests; or, where the disk knows
    /// what it holds, the search for space.
    fn search(&mut self) -> Judged {
        let Some(from) = self.search_from.filter(|_| self.rng.chance(30)) else { return Ok(()) };
        let to = (from + self.rng.range(1, 16) * 4096).min(self.setup.disk_bytes);
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
            if self.watched.is_some() {
                return self.tell(Event::Tick);
            }
        }
        Ok(())
    }

    /// Lets time pass until the disk wants to do something, for the `n`th time in a row.
    fn wake_up(&mut self, n: usize) -> Judged {
        let Some(due) = self.volume.next_wakeup() else {
            return Err(overdue(format!("the disk stands still: {}", self.state())));
        };
        if n > IDLE_TICKS_MAX {
            return Err(overdue(format!("the disk wakes up and does nothing: {}", self.state())));
        }
        self.now = self.now.max(due);
        self.pass(if n > 1 { IDLE_TICK_MS } else { 0 })
    }

    fn state(&self) -> String {
        let owed: Vec<_> = self.volume.obligations().collect();
        format!("obligations {owed:?}, now {:?}, wakes {:?}", self.now, self.volume.next_wakeup())
    }
}

/// A guest above a server, and its knowledge of it.
pub trait Above {
    /// Type that reports a broken promise.
    type Broken: From<Violation>;

    fn server(&mut self) -> &mut Server;

    /// Takes the messages of the server.
    fn hear(&mut self) -> Result<(), Self::Broken>;

    /// Requests that wait for a reply, in words.
    fn pending(&self) -> String;

    /// Whether something of the guest's own is on its way to the server.
    fn is_sending(&self) -> bool {
        false
    }

    /// Lets something happen: it arrives at the server, is done, or is reported.
    fn turn(&mut self) -> Result<(), Self::Broken> {
        self.server().turn()?;
        self.hear()
    }

    /// Tells the server of `event`.
    fn tell(&mut self, event: Event) -> Result<(), Self::Broken> {
        self.server().tell(event)?;
        self.hear()
    }

    /// Lets everything happen that can, until `is_enough`.
    ///
    /// # Errors
    /// If a promise is broken, or if `is_enough` never holds.
    fn until(&mut self, is_enough: impl Fn(&mut Self) -> bool) -> Result<(), Self::Broken> {
        let mut idle_ticks = 0;
        for _ in 0..TURNS_MAX {
            if is_enough(self) {
                return Ok(());
            }
            if self.is_sending() || self.server().is_at_work() {
                idle_ticks = 0;
                self.turn()?;
            } else {
                idle_ticks += 1;
                let woken = self.server().wake_up(idle_ticks);
                woken.map_err(|it| Violation { what: format!("{}, {}", it.what, self.pending()), ..it })?;
                self.hear()?;
            }
        }
        let (pending, state) = (self.pending(), self.server().state());
        Err(overdue(format!("not done after {TURNS_MAX} turns: {pending}, {state}")).into())
    }
}
