//! The volume as it is served, on simulated media, and how it lives and dies.
//! Input and output is done one by one, in an order that chance decides.

use super::Setup;
use super::wide::PROBER;
use crate::dice::Dice;
use crate::media::SimMedia;
use crate::medium::{Power, SimMedium};
use quietus_core::journal::Shape;
use quietus_core::ledger::Cause;
use quietus_core::medium::{Medium, MediumError};
use quietus_core::policy::{Policy, Scratch};
use quietus_core::request::{Buf, Outcome, RequestId};
use quietus_core::store::Kind;
use quietus_core::units::{Addr, BLOCK_BYTES, Extent, Millis, Pos};
use quietus_core::volume::{Checkpoint, Command, Config, Event, Io, IoId, LogHead, Opening, Volume};
use quietus_detect::Watch;

const DISK: [u8; 16] = *b"a file system...";

/// See the module's documentation.
#[derive(Debug)]
pub struct Server {
    setup: Setup,
    policy: Policy,
    media: SimMedia,
    volume: Volume,
    checkpoint: Option<Checkpoint>,
    now: Millis,
    dice: Dice,
    /// Not done yet.
    handed: Vec<Io>,
    /// Done, and not told yet.
    done: Vec<(IoId, Result<Buf, MediumError>)>,
    out: Vec<Command>,
    scratch: Scratch,
    /// Replies that nobody has heard yet.
    replies: Vec<(RequestId, Outcome)>,
    /// What a map called dead, that nobody has heard of yet.
    deaths: Vec<Extent<Addr>>,
    receipts: u64,
    /// The receipts before this one are in the audit log.
    recorded: u64,
}

impl Server {
    /// A disk of `blocks`, each with its content, that is served for the first
    /// time.
    pub fn new(setup: &Setup, blocks: &[Vec<u8>]) -> Result<Self, String> {
        let policy: Policy = setup.policy.parse().map_err(|it| format!("{it}"))?;
        let (power, passes) = (Power::default(), policy.passes().len());
        let shape = Shape { half_bytes: 8192, slots: setup.slots };
        let size = blocks.len() as u64 * BLOCK_BYTES;
        let data = SimMedium::new(size, passes, setup.punch, power.clone());
        let journal = SimMedium::new(shape.bytes(), passes, false, power.clone());
        data.write(Pos(0), &blocks.concat(), true).map_err(|it| it.to_string())?;
        let whole = Some(Extent::new(0, size));
        let checkpoint = Volume::format(&journal, shape, DISK, whole, None);
        let checkpoint = Some(checkpoint.map_err(|it| it.to_string())?);
        let now = Millis(1_000_000);
        let media = SimMedia { data, journal, others: Vec::new(), power, host: Default::default() };
        let volume = open(setup, &policy, &media, checkpoint.as_ref(), now)?;
        Ok(Self {
            setup: setup.clone(),
            policy,
            media,
            volume,
            checkpoint,
            now,
            dice: Dice::new(0),
            handed: Vec::new(),
            done: Vec::new(),
            out: Vec::new(),
            scratch: Scratch::default(),
            replies: Vec::new(),
            deaths: Vec::new(),
            receipts: 0,
            recorded: 0,
        })
    }

    /// Decides chance from now on.
    pub fn reseed(&mut self, seed: u64) {
        self.dice = Dice::new(seed);
        self.media.data.reseed(self.dice.roll());
        self.media.journal.reseed(self.dice.roll());
    }

    /// Replies since this was last asked.
    pub fn take_replies(&mut self) -> Vec<(RequestId, Outcome)> {
        std::mem::take(&mut self.replies)
    }

    /// What a map called dead since this was last asked.
    pub fn take_deaths(&mut self) -> Vec<Extent<Addr>> {
        std::mem::take(&mut self.deaths)
    }

    /// The medium that holds the disk's content, and the journal's.
    pub fn media(&self) -> (&SimMedium, &SimMedium) {
        (&self.media.data, &self.media.journal)
    }

    /// Passes that are due.
    pub fn passes(&self) -> usize {
        self.policy.passes().len()
    }

    /// Receipts so far.
    pub fn receipts(&self) -> u64 {
        self.receipts
    }

    /// The volume itself.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// Whether the file system has been found.
    pub fn is_watching(&self) -> bool {
        self.volume.watch_status().is_some_and(|it| it.file_system.is_some())
    }

    /// Deaths whose evidence is not durable, in blocks.
    pub fn unproven(&self) -> u64 {
        let status = self.volume.watch_status().unwrap_or_default();
        status.figures.iter().filter(|(name, _)| name.starts_with("dead, evidence")).map(|it| it.1).sum()
    }

    /// Tells the volume of `event`, and takes what it then wants.
    pub fn tell(&mut self, event: Event) -> Result<(), String> {
        let told = self.recorded;
        let mut out = std::mem::take(&mut self.out);
        self.volume.apply(self.now, event, &mut out);
        for command in out.drain(..) {
            match command {
                Command::Io(io) => self.handed.push(io),
                Command::Reply(id, outcome) => self.replies.push((id, outcome)),
                Command::Died(Cause::Map, extent) => self.deaths.push(extent),
                Command::Died(..) => {}
                Command::Receipt(number, _) => self.receipt(number),
                Command::Latched(reason) => return Err(format!("liveness: it latched: {reason}")),
            }
        }
        self.out = out;
        if self.recorded > told {
            return self.tell(self.recorded());
        }
        Ok(())
    }

    fn recorded(&self) -> Event {
        let head = LogHead { lines: self.recorded, hash: [0; 32] };
        Event::Recorded { receipts: self.recorded, head }
    }

    /// The audit log has receipt `number` at once.
    fn receipt(&mut self, number: u64) {
        self.receipts += 1;
        self.recorded = self.recorded.max(number + 1);
    }

    /// Whether anything is under way.
    pub fn is_at_work(&self) -> bool {
        !self.handed.is_empty() || !self.done.is_empty()
    }

    /// One act of input or output is done, or told to be done.
    pub fn turn(&mut self) -> Result<(), String> {
        if self.dice.chance(self.setup.destage_percent) {
            self.media.data.destage(self.dice.range(1, 16));
            self.media.journal.destage(self.dice.range(0, 4));
        }
        if self.volume.holes_unknown() && self.dice.chance(20) {
            self.tell_of_holes()?;
        }
        let choices = self.handed.len() + self.done.len();
        if choices == 0 {
            return Ok(());
        }
        let choice = self.dice.index(choices);
        if choice < self.handed.len() {
            let io = self.handed.swap_remove(choice);
            self.done.push(io.perform(&self.media.get(), &mut self.scratch));
            return Ok(());
        }
        let (id, result) = self.done.swap_remove(choice - self.handed.len());
        self.tell(Event::Completed(id, result))
    }

    fn tell_of_holes(&mut self) -> Result<(), String> {
        for hole in self.media.data.holes() {
            self.tell(Event::Hole(Extent::new(hole.start.0, hole.len)))?;
        }
        self.volume.holes_known();
        self.tell(Event::Tick)
    }

    /// Milliseconds pass.
    pub fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.now.0 += ms;
        self.tell(Event::Tick)
    }

    /// Time passes until the volume wants to do something, `late_ms` longer.
    pub fn wake(&mut self, late_ms: u64) -> Result<(), String> {
        if self.volume.holes_unknown() {
            return self.tell_of_holes();
        }
        let due = self.volume.next_wakeup().ok_or("liveness: nothing will ever happen again")?;
        self.now = self.now.max(due);
        self.pass(late_ms)
    }

    /// The process is killed, and started again.
    pub fn kill(&mut self) -> Result<(), String> {
        self.lose_process();
        self.start()
    }

    /// The power is cut, and comes back.
    pub fn cut_power(&mut self) -> Result<(), String> {
        self.lose_process();
        self.media.data.cut_power();
        self.media.journal.cut_power();
        self.start()
    }

    /// It has stopped in order, and is started again. Says whether what was
    /// known is known again.
    pub fn restart(&mut self) -> Result<bool, String> {
        if self.is_at_work() {
            return Err("liveness: it stopped with something under way".into());
        }
        self.checkpoint = self.volume.checkpoint().or(self.checkpoint.take());
        let knows = self.volume.checkpoint().is_some_and(|it| !it.watch.is_empty());
        self.start()?;
        Ok(knows)
    }

    /// What was under way may have been done, in part.
    fn lose_process(&mut self) {
        for io in std::mem::take(&mut self.handed) {
            if self.dice.chance(50) {
                self.media.tear(io, &mut self.scratch);
            }
        }
        self.done.clear();
    }

    fn start(&mut self) -> Result<(), String> {
        self.volume = open(&self.setup, &self.policy, &self.media, self.checkpoint.as_ref(), self.now)?;
        self.tell(self.recorded())?;
        self.tell(Event::Tick)
    }
}

fn open(
    setup: &Setup,
    policy: &Policy,
    media: &SimMedia,
    checkpoint: Option<&Checkpoint>,
    now: Millis,
) -> Result<Volume, String> {
    let config = Config {
        idle_after_ms: setup.idle_after_ms,
        deadline_ms: setup.deadline_ms,
        run_bytes_max: setup.run_bytes_max,
        ..Config::new(policy.clone())
    };
    let size = media.data.size();
    let mut entropy = [0; 32];
    entropy[..8].copy_from_slice(&(now.0 ^ 0x5eed).to_le_bytes());
    let (session, checkpoint) = (media.journal.session(), checkpoint.cloned());
    let store = Kind::InPlace;
    let opening = Opening { config, disk: DISK, size, session, entropy, now, checkpoint, store };
    let mut volume =
        Volume::open(opening, &media.get()).map_err(|it| format!("liveness: it cannot be opened: {it}"))?;
    volume.watch(Box::new(Watch::new(size, vec![PROBER], setup.options)));
    Ok(volume)
}
