//! A guest whose requests know no file system, above a server, and the oracles that watch both
//! while a history happens to them.

mod epochs;
mod forensic;
mod forgotten;
mod lost;
mod replies;
mod sets;

use crate::guests::model::{Model, Reading, Value};
use crate::machine::content::{Tag, fill};
use crate::machine::history::{Action, Ask, History, Origin, Setup, Step};
use crate::machine::medium::{Fault, SimMedium};
pub use crate::server::Figures;
use crate::server::disk::original;
use crate::server::{Above, Moment, Said, Server};
use crate::verdict::{Judged, Violation, caught};
use epochs::{About, Book};
use forgotten::Dying;
use quietus_core::base::units::{Addr, BLOCK_BYTES, EpochRange, Extent, Scope};
use quietus_core::request::{Op, Question, Request, RequestId};
use quietus_core::volume::Event;
use std::collections::BTreeMap;

/// Tag of the initial content of the medium.
const ORIGIN: Tag = Tag(0);
/// Time after which a disk tries again to erase what would not be erased, at most.
const REMAINS_MS: u64 = 60_000;

pub struct World {
    server: Server,
    newest: Tag,
    pending: BTreeMap<RequestId, Pending>,
    model: Model,
    book: Book,
    /// Content of forgotten epochs that has to be gone.
    dying: Vec<Dying>,
}

/// A request that was sent and not replied to.
struct Pending {
    ask: Ask,
    extent: Extent<Addr>,
    fua: bool,
    since: Moment,
    reading: Option<Reading>,
    about: About,
}

/// Lets `history` happen, and takes a panic for a broken promise.
pub fn verdict(history: &History) -> Result<Figures, Violation> {
    caught(|| run(history))
}

fn run(history: &History) -> Result<Figures, Violation> {
    let mut world = World::new(history)?;
    for step in &history.steps {
        world.step(step)?;
    }
    world.finish()?;
    Ok(world.server.figures)
}

impl Above for World {
    type Broken = Violation;

    fn server(&mut self) -> &mut Server {
        &mut self.server
    }

    fn hear(&mut self) -> Judged {
        if std::mem::take(&mut self.server.has_sync_failed) {
            self.model.sync_failed();
        }
        self.look_at_epochs();
        for (moment, said) in self.server.take_said() {
            match said {
                Said::Reply(id, outcome) => self.replied(moment, id, outcome)?,
                Said::Late(receipt) => self.judge_late(&receipt)?,
                Said::Died(_) => {}
            }
        }
        Ok(())
    }

    fn pending(&self) -> String {
        let asks: Vec<_> = self.pending.iter().map(|(id, it)| (id.0, it.ask, it.extent)).collect();
        format!("requests {asks:?}")
    }
}

impl World {
    /// The disk of `history`, just created and opened.
    fn new(history: &History) -> Result<Self, Violation> {
        let setup = &history.setup;
        let mut content = vec![0; original(setup).len as usize];
        fill(ORIGIN, 0, &mut content);
        let server = Server::new(setup, content, None, history.seed)?;
        let book = Book::new(&server);
        Ok(Self {
            server,
            newest: ORIGIN,
            pending: BTreeMap::new(),
            model: first_page(setup),
            book,
            dying: Vec::new(),
        })
    }

    fn step(&mut self, step: &Step) -> Judged {
        self.server.reseed(step.salt);
        for _ in 0..step.turns {
            self.turn()?;
        }
        match step.action {
            Action::Send { ask, extent, fua } => self.send(step.tag, ask, extent, fua),
            Action::Wait { ms } => {
                self.server.pass(ms)?;
                self.hear()
            }
            Action::ShredNow => self.tell(Event::ShredNow),
            Action::Drain => self.drain(),
            Action::Restart => self.restart(),
            Action::Halt => self.halt(),
            Action::Kill => self.kill(),
            Action::PowerCut { again_after } => self.cut_power(again_after),
            Action::Full | Action::Room => {
                self.server.fill_host(step.action == Action::Full);
                Ok(())
            }
            Action::Fault { target, kind, after } => {
                self.server.media.on(target).plan(Fault { kind, after });
                Ok(())
            }
            Action::Busy { after, times } => {
                self.server.make_root_busy(after, times);
                Ok(())
            }
        }
    }

    /// Leaves the disk alone until it has completed its obligations, examines it, takes its power
    /// away, and examines it again.
    fn finish(&mut self) -> Judged {
        if self.server.is_latched {
            self.kill()?;
        }
        self.server.heal();
        self.drain()?;
        self.ask(Ask::Flush, Extent::default())?;
        self.read_all_epochs()?;
        self.judge_opened()?;
        self.cut_power(None)?;
        self.read_all_epochs()?;
        self.drain()?;
        self.judge_opened()
    }

    fn send(&mut self, tag: Tag, ask: Ask, extent: Extent<Addr>, fua: bool) -> Judged {
        // Not too many requests are under way.
        self.until(|world| world.pending.len() < world.server.setup.in_flight_max)?;
        self.newest = tag;
        let since = self.server.next_moment();
        if !ask.is_read() && !ask.is_about_epochs() {
            self.model.arrived(extent);
        }
        if let Some(value) = ask.value(tag) {
            self.model.begin(tag, extent, value);
        }
        let reading = (ask == Ask::Read).then(|| self.model.begin_read(extent, since, tag));
        let id = RequestId(u64::from(tag.0));
        let about = self.book.about(ask);
        let op = ask.op(tag, extent, about.epochs);
        self.pending.insert(id, Pending { ask, extent, fua, since, reading, about });
        self.server.tell(Event::Request(id, Request { op, extent, fua }))?;
        if !self.server.has_refused(id) {
            self.note_for_epochs(tag, (ask, extent), since);
        }
        self.hear()
    }

    /// Sends a request of the judge's own, and waits for the reply.
    fn ask(&mut self, ask: Ask, extent: Extent<Addr>) -> Judged {
        self.newest = Tag(self.newest.0 + 1);
        self.send(self.newest, ask, extent, false)?;
        self.until(|world| world.pending.is_empty())
    }

    /// Stops the server in good order, and starts it again.
    fn restart(&mut self) -> Judged {
        self.server.stop(true)?;
        self.hear()?;
        self.drain()?;
        self.start_again()
    }

    /// The same, and leaves to the next start what is owed.
    fn halt(&mut self) -> Judged {
        self.server.stop(false)?;
        self.hear()?;
        self.server.fill_host(false);
        self.until(|world| {
            let has_stopped = !world.server.is_at_work() && world.server.volume.is_at_rest();
            world.server.is_latched || (world.pending.is_empty() && has_stopped)
        })?;
        self.start_again()
    }

    fn start_again(&mut self) -> Judged {
        let was_latched = self.server.is_latched;
        self.server.start_again()?;
        self.forget(!was_latched, was_latched)
    }

    fn kill(&mut self) -> Judged {
        if self.server.setup.erases {
            // The medium collects writes in the memory of the server.
            return self.cut_power(None);
        }
        let was_latched = self.server.is_latched;
        self.server.kill()?;
        self.forget(false, was_latched)
    }

    fn cut_power(&mut self, again_after: Option<u32>) -> Judged {
        self.server.cut_power(again_after)?;
        self.receipts_lost();
        self.pending.clear();
        self.model.power_cut();
        self.book.restarted(&self.server, &self.model, false)?;
        self.hear()
    }

    /// Loses the process, and with it, unless it stopped in peace, its own knowledge: where an
    /// overlay's content is. After a failure of the medium the cache is not trusted with writes
    /// over dead bytes in place.
    fn forget(&mut self, is_clean: bool, was_latched: bool) -> Judged {
        self.receipts_lost();
        self.pending.clear();
        match () {
            () if is_clean => self.model.restarted(),
            // Dead bytes that are written lie under keys that only the process knows yet.
            () if self.server.is_keyed() => self.model.forgotten(|died| died),
            () if !self.server.setup.is_in_place() => self.model.forgotten(|_| true),
            () => self.model.forgotten(|died| died && was_latched),
        }
        self.book.restarted(&self.server, &self.model, is_clean)?;
        self.hear()
    }

    /// Leaves the disk alone until it owes nothing, and examines it. The host has space
    /// by then: until it has, some may stay owed.
    fn drain(&mut self) -> Judged {
        self.server.fill_host(false);
        self.until(|world| {
            let is_drained = world.server.is_drained() || world.server.is_stuck();
            world.server.is_latched || (world.pending.is_empty() && is_drained)
        })?;
        if self.server.setup.remains {
            self.mend()?;
        }
        if self.server.is_latched {
            return Ok(());
        }
        self.judge_drained()?;
        self.server.judge_log()
    }

    /// Lets the media erase all places again, once nothing is owed that they would, and waits until that is done.
    fn mend(&mut self) -> Judged {
        self.server.judge_remaining()?;
        self.server.media.all().for_each(SimMedium::mend);
        if self.newest.0.is_multiple_of(2) {
            self.tell(Event::ShredNow)?;
        } else {
            self.server.pass(REMAINS_MS)?;
            self.hear()?;
        }
        self.until(|world| world.server.is_latched || world.server.is_drained())
    }

    fn read_everything(&mut self) -> Judged {
        self.ask(Ask::Read, Extent::new(0, self.server.setup.disk_bytes))
    }
}

fn first_page(setup: &Setup) -> Model {
    let mut model = Model::new(setup.disk_bytes, Value::Zeros);
    let whole = Extent::new(0, setup.disk_bytes);
    if setup.is_in_place() && setup.origin == Origin::Foreign {
        model.died(Tag(ORIGIN.0 + 1), whole);
    } else if !original(setup).is_empty() {
        model.begin(ORIGIN, original(setup), Value::Content(ORIGIN));
        model.settle(ORIGIN, original(setup), 0, true);
    }
    model
}

impl Ask {
    /// The value of the bytes once the request is done, if it changes them.
    fn value(self, tag: Tag) -> Option<Value> {
        match self {
            Self::Write => Some(Value::Content(tag)),
            Self::WriteZeros | Self::Trim | Self::Zero { .. } | Self::Purge => Some(Value::Zeros),
            Self::Read
            | Self::ConservativeOverwrite
            | Self::Cache
            | Self::Flush
            | Self::CloseEpoch
            | Self::ReadPast { .. }
            | Self::ListEpochs { .. }
            | Self::Forget { .. }
            | Self::ForgetBlocks
            | Self::ForgetShown { .. }
            | Self::ForgetSet { .. } => None,
        }
    }

    fn op(self, tag: Tag, extent: Extent<Addr>, epochs: EpochRange) -> Op {
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
            Self::ConservativeOverwrite => Op::ConservativeOverwrite,
            Self::Cache => Op::Cache,
            Self::Flush => Op::Flush,
            Self::CloseEpoch => Op::CloseEpoch { when: epochs::when_of(tag), anew: false },
            Self::ReadPast { .. } => Op::ReadPast(epochs.from),
            Self::ListEpochs { .. } => Op::Ask(Question::Epochs(epochs.from)),
            Self::Forget { .. } => Op::Forget(epochs.into()),
            Self::ForgetBlocks => Op::Forget(Scope::chain(epochs, whole_blocks(extent))),
            Self::ForgetShown { .. } => Op::Forget(Scope::shown(epochs, whole_blocks(extent))),
            Self::ForgetSet { .. } => Op::ForgetSet(sets::parts_of(whole_blocks(extent), epochs).into()),
        }
    }
}

/// The blocks that have bytes of `extent`.
fn whole_blocks(extent: Extent<Addr>) -> Extent<Addr> {
    Extent::between(extent.start.0 / BLOCK_BYTES * BLOCK_BYTES, extent.end().next_multiple_of(BLOCK_BYTES))
}

#[cfg(test)]
mod tests;
