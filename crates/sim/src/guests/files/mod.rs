//! Guests with file systems ([`system`](systems::system)), one on the disk or one in each partition, above a
//! server whose volume watches, on media that remember.
//!
//! A guest knows the blocks that it owns. Its writes leave in any order within the allowed window,
//! are under way several at a time, and are done and replied to in any order. The server is stopped
//! and killed, the power is cut, the host is full for a while, a guest crashes and is mended, its
//! client loses the connection and sends again. Oracles:
//!
//! - *safety*: whatever is read is what the disk promised to hold ([`shelf`]);
//!   only what the reader does not own may be gone;
//! - *forensic*: once all has settled, content of files that are gone is not
//!   there, and has its passes, but for what the decision on rule E excepts
//!   ([`truth`](systems::truth), `finish`);
//! - *liveness*: due work is done, and each request gets one reply;
//! - whatever [`crate::server`] demands of the disk of any guest.

mod client;
mod crash;
mod finish;
mod part;
mod prober;
mod shelf;
mod steps;
mod systems;
mod traffic;
mod wire;
mod work;

use crate::guests::files::systems::ext2::Ext2;
use crate::guests::files::systems::ext4::Ext4;
use crate::guests::files::systems::fat::Fat;
use crate::guests::files::systems::system::System;
use crate::machine::cache;
use crate::machine::history;
use crate::machine::rng::Rng;
use crate::rules::rule_e::guest::Action;
use crate::rules::rule_e::search::Space;
use crate::server::{Above, Server, Watched};
use part::Part;
use prober::PROBER;
use quietus_core::base::units::Millis;
use quietus_core::request::RequestId;
use quietus_detect::formats::format::Block;
use quietus_detect::rules::options::{Grade, Options};
use std::collections::BTreeMap;
use std::fmt;
use std::ops::{Deref, DerefMut};
use wire::{Sent, What};

/// Histories in which the host may become full, in percent.
const FULL_PERCENT: u64 = 10;
/// Histories of a sealed disk in which its root may be busy, in percent.
const BUSY_PERCENT: u64 = 50;
/// Milliseconds of [`Event::Sleep`].
const SLEEP_MS: u64 = 10_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileSystem {
    /// With maps and inodes: one without the other proves no death.
    Ext2,
    /// With a table that is map and pointers in one.
    Fat,
    /// A FAT with a table that needs rest.
    ExFat,
    Ext4,
    /// As ext2, with files that reserve space: ext4 without a journal.
    Ext4Unjournaled,
    /// With files that reserve space.
    Ext4Reserving,
}

impl fmt::Display for FileSystem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ext2 => "ext2",
            Self::Fat => "FAT",
            Self::ExFat => "exFAT",
            Self::Ext4 => "ext4",
            Self::Ext4Unjournaled => "ext4 without a journal, with reserved space",
            Self::Ext4Reserving => "ext4 with reserved space",
        })
    }
}

impl FileSystem {
    /// Most blocks of data, in a table with one entry of a byte for each block, and in a partition;
    /// of ext4, the number of guests to choose from.
    fn data_max(self, is_alone: bool) -> u64 {
        match self {
            Self::Ext4 | Self::Ext4Reserving => 5_000,
            Self::Ext2 | Self::Ext4Unjournaled if is_alone => 7,
            Self::Ext2 | Self::Ext4Unjournaled | Self::Fat | Self::ExFat => 4,
        }
    }
}

/// A disk with guests, and the limits of its history.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The disk, but for its size.
    pub disk: history::Setup,
    /// Partitions: the file system in each, and its blocks of data, or its number. One is the whole disk.
    pub parts: Vec<(FileSystem, Block)>,
    pub options: Options,
    /// Most turns before a step.
    pub turns_max: u64,
    /// The server may be killed, and the power cut.
    pub crashes: bool,
    pub fills: bool,
    /// The root of the disk may be busy.
    pub is_busy: bool,
    /// The watcher may be kept out for a while, and begin anew.
    pub renews: bool,
    /// A cache stands between the guest and the disk, and the server is told of it, or not.
    pub cache: Option<bool>,
}

impl Setup {
    pub fn from_seed(seed: u64, disk: history::Setup, parts: &[FileSystem]) -> Self {
        let mut rng = Rng::new(!seed);
        let is_sealed = disk.store == history::Store::Sealed;
        let is_busy = is_sealed && Rng::new(seed.rotate_left(16)).chance(BUSY_PERCENT);
        let grade = if rng.chance(12) { Grade::Content } else { Grade::Generation };
        Self {
            parts: parts
                .iter()
                .map(|it| (*it, rng.range(2, it.data_max(parts.len() == 1)) as Block))
                .collect(),
            options: Options { grade, reorder_window_ms: 500, settle_ms: 3000, ..Options::default() },
            turns_max: rng.pick(&[2, 6, 20]),
            crashes: rng.chance(50),
            disk: history::Setup { idle_after_ms: rng.pick(&[0, 50, 250]), ..disk },
            fills: rng.chance(FULL_PERCENT),
            is_busy,
            renews: false,
            cache: None,
        }
    }

    fn is_cached(&self) -> bool {
        self.cache.is_some()
    }

    fn systems(&self) -> Vec<Box<dyn System>> {
        let system = |&(it, data): &(_, Block)| -> Box<dyn System> {
            match it {
                FileSystem::Ext2 => Box::new(Ext2::new(data)),
                FileSystem::Fat => Box::new(Fat::new(data, true)),
                FileSystem::ExFat => Box::new(Fat::new(data, false)),
                FileSystem::Ext4 => Box::new(Ext4::new(data.into())),
                FileSystem::Ext4Unjournaled => Box::new(Ext2::reserving(data)),
                FileSystem::Ext4Reserving => Box::new(Ext4::reserving(data.into())),
            }
        };
        self.parts.iter().map(system).collect()
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    Mount,
    Do(Action),
    /// A block is sent to the disk, as it is now.
    WriteBack(Block),
    /// All requests on their way arrive.
    Arrive,
    Read(Block),
    /// The guest tells of a free block.
    Trim(Block),
    /// The guest sends a request for a block that the server must refuse.
    AskInVain(Block, Vain),
    /// The commit of a journal takes its next step, or begins.
    Commit,
    /// The tail of a journal moves up.
    MoveTail,
    Flush,
    /// The file system is unmounted; the last metadata may come after the
    /// superblock.
    Unmount(bool),
    /// The guest crashes; its requests on their way may arrive.
    CrashGuest(bool),
    /// The file system is mended; the superblock may come first.
    Fsck(bool),
    Cache(cache::Step),
    /// The guest's host loses its power: the guest crashes, and its cache is lost.
    LoseHost,
    /// The client's connection is lost: the client repeats each request without a reply. The other
    /// connection may be there before this one is gone.
    Reconnect(bool),
    /// Milliseconds pass.
    Pass(u64),
    /// Milliseconds pass while the guests are asleep.
    Sleep,
    /// Only input and output go on.
    Turn,
    /// The owner asks for all that is due to be destroyed.
    ShredNow,
    /// The server stops, and destroys what is due before or not, and is started
    /// again.
    Restart(bool),
    /// The watcher is kept out while the guests wait, and then begins anew.
    Renew,
    /// The server is killed, and started again; the guests may crash with it.
    Kill(bool),
    /// The power is cut; and cut again after this many changes by the next start.
    CutPower(Option<u32>),
    /// The host becomes full, or has room again.
    Fill(bool),
    /// The root takes so many writes and passes, and then no more for so many.
    Busy(u32, u32),
}

/// A request that is refused, whatever the state of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vain {
    /// Zeros that keep their space, with the flag that wants them fast.
    FastZeros,
    /// A TRIM from there to beyond the end.
    TrimBeyond,
    /// A write with a payload of another length.
    WriteShort,
}

/// An event in a partition, and the chance that goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    part: usize,
    event: Event,
    salt: u32,
}

/// Guests; see the module's documentation. Each field of [`Part`] is the current
/// partition's.
#[derive(Debug)]
pub struct Files {
    setup: Setup,
    pub server: Server,
    parts: Vec<Part>,
    /// The current partition.
    at: usize,
    /// Requests whose client is gone, and the partition of each.
    orphans: BTreeMap<RequestId, (usize, Sent)>,
    moment: u64,
    run_ms: u64,
    /// Time of the server up to which time has passed for the cache.
    cached_until: Millis,
    count: u32,
    rng: Rng,
}

impl Deref for Files {
    type Target = Part;

    fn deref(&self) -> &Part {
        &self.parts[self.at]
    }
}

impl DerefMut for Files {
    fn deref_mut(&mut self) -> &mut Part {
        &mut self.parts[self.at]
    }
}

impl Files {
    /// Empty file systems, mounted.
    pub fn new(setup: &Setup) -> Self {
        let mut content: Vec<Vec<u8>> = Vec::new();
        let mut parts: Vec<Part> = Vec::new();
        let systems = setup.systems();
        if systems.len() > 1 {
            content.push(part::table(systems.iter().map(|it| it.blocks())));
        }
        for system in systems {
            let (part, wide) = Part::new(system, content.len() as Block, setup.is_cached());
            parts.push(part);
            content.extend(wide);
        }
        let content = content.concat();
        let disk = history::Setup { disk_bytes: content.len() as u64, ..setup.disk.clone() };
        let disk = history::Setup { base_bytes: disk.disk_bytes, ..disk };
        let watched = Watched { options: setup.options, probers: vec![PROBER] };
        let mut server = Server::new(&disk, content, Some(watched), 0).expect("a new disk can be opened");
        let logs = parts.iter().flat_map(|it| it.system.log().map(|block| it.place(block)));
        server.copies = logs.collect();
        let mut this = Self {
            setup: setup.clone(),
            server,
            parts,
            at: 0,
            orphans: BTreeMap::new(),
            moment: 0,
            run_ms: 0,
            cached_until: Millis(0),
            count: 0,
            rng: Rng::new(0),
        };
        this.cached_until = this.server.now;
        this.server.connect(true).expect("nothing has happened yet");
        this.tell_attached().expect("nothing has happened yet");
        this.settle_server().expect("nothing has happened yet");
        this.begin(Event::Pass(1)).expect("nothing has happened yet");
        this.settle_server().expect("nothing has happened yet");
        this.everywhere(|it| it.begin(Event::Mount)).expect("nothing has happened yet");
        this
    }

    fn everywhere(&mut self, mut what: impl FnMut(&mut Self) -> Result<(), String>) -> Result<(), String> {
        (0..self.parts.len()).try_for_each(|part| self.within(part, &mut what))
    }

    fn within<T>(&mut self, part: usize, what: impl FnOnce(&mut Self) -> T) -> T {
        let before = std::mem::replace(&mut self.at, part);
        let result = what(self);
        self.at = before;
        result
    }

    fn begin(&mut self, event: Event) -> Result<(), String> {
        self.step(Step { part: self.at, event, salt: self.count })
    }

    fn happen(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Mount | Event::Fsck(_) if self.system.is_mounted() => Ok(()),
            Event::Unmount(_) | Event::CrashGuest(_) if !self.system.is_mounted() => Ok(()),
            Event::Mount => self.mount(),
            Event::Do(action) => self.does(action),
            Event::WriteBack(block) => self.write_back(block),
            Event::Arrive => self.arrive_all(),
            Event::Read(block) => self.read_again(block),
            Event::Trim(block) => self.trim(block),
            Event::AskInVain(block, vain) => {
                self.until_idle(&[block])?;
                self.post(What::InVain(block, vain));
                Ok(())
            }
            Event::Commit => {
                self.system.advance();
                self.send();
                Ok(())
            }
            Event::MoveTail => {
                self.system.move_tail();
                self.send();
                Ok(())
            }
            Event::Flush => self.flush(),
            Event::Unmount(is_late) => self.unmount(is_late),
            Event::CrashGuest(lands) => self.crash_guest(lands),
            Event::Fsck(first) => self.fsck(first),
            Event::Cache(step) => self.cache_does(step),
            Event::LoseHost => {
                self.cache.lose();
                self.happen(Event::CrashGuest(false))
            }
            Event::Reconnect(overlaps) => self.reconnect(overlaps),
            Event::Pass(ms) => self.pass(ms),
            Event::Sleep => {
                self.everywhere(Self::arrive_all)?;
                self.server.pass(SLEEP_MS)?;
                self.hear()
            }
            Event::Turn => self.turn(),
            Event::ShredNow => self.shred_now(),
            Event::Restart(drains) => self.restart(drains),
            Event::Renew => self.renew(),
            Event::Kill(survives) => self.kill(survives),
            Event::CutPower(again_after) => self.cut_power(again_after),
            Event::Fill(is_full) => {
                self.server.fill_host(is_full);
                Ok(())
            }
            Event::Busy(after, times) => {
                self.server.make_root_busy(after, times);
                Ok(())
            }
        }
    }
}

impl Space for Files {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let salt = crate::machine::rng::mix(u64::from(self.count)) as u32;
        let part = salt as usize % self.parts.len();
        self.possible(&self.parts[part]).into_iter().map(|event| Step { part, event, salt }).collect()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        self.count += 1;
        self.at = step.part;
        self.rng = Rng::new(u64::from(step.salt));
        self.server.reseed(self.rng.roll());
        for _ in 0..self.rng.below(self.setup.turns_max + 1) {
            self.turn()?;
        }
        self.everywhere(Self::catch_up)?;
        self.happen(step.event)?;
        let run_ms = self.run_ms;
        self.parts.iter_mut().for_each(|part| part.note_dirty(run_ms));
        Ok(())
    }

    fn finish(&mut self) -> Result<(), String> {
        self.settle_everything()
    }
}
