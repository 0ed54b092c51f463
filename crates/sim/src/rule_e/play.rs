//! A guest with a file system, the disk below it, the rules that watch, and
//! the judge; perhaps a cache between the guest and the disk. What differs
//! between file systems is a [`System`].

mod finish;
mod steps;

use crate::cache::{self, Cache};
use crate::differential::{Differential, Watchers};
use crate::files::ext2::Ext2;
use crate::files::fat::Fat;
use crate::files::system::System;
use crate::rule_e::differential;
use crate::rule_e::fat::FatToy;
use crate::rule_e::guest::actions::Action;
use crate::rule_e::guest::{Owner, SLOTS};
use crate::rule_e::judge::Judge;
use crate::rule_e::search::Space;
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, SUPER, Super, Toy, place};
use crate::rule_e::wide::narrowed;
use quietus_core::units::Millis;
use quietus_core::watch::Verdict;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Layout {
    /// With a map and inodes.
    Ext2,
    /// With a table that is map and pointers in one.
    Fat {
        /// The table is final; else it needs rest, as in exFAT.
        is_final: bool,
    },
}

/// A guest, a disk and the limits of a search.
#[derive(Clone, Debug)]
pub struct Setup {
    pub layout: Layout,
    /// Blocks of data.
    pub data: Block,
    /// Files at once.
    pub files: usize,
    pub slots: Vec<usize>,
    /// How much is inferred.
    pub options: Options,
    /// Steps of time.
    pub passes_ms: Vec<u64>,
    /// Writes may overtake one another within the window.
    pub reorders: bool,
    /// The guest may crash, and be mended or not.
    pub crashes: bool,
    /// The server may be killed.
    pub restarts: bool,
    /// The file system may be unmounted, and frees may be told of.
    pub unmounts: bool,
    /// A cache stands between the guest and the disk; else only writes that overtake do.
    pub is_cached: bool,
    /// The rules are told of the cache.
    pub is_told: bool,
    /// The versions of the rules that watch.
    pub watchers: Watchers,
}

impl Setup {
    /// Everything, for long histories.
    pub fn large(grade: Grade, eager: bool) -> Self {
        Self {
            layout: Layout::Ext2,
            data: 7,
            files: 3,
            slots: (0..SLOTS).collect(),
            options: Options { grade, eager, reorder_window_ms: 1000, settle_ms: 8000 },
            passes_ms: vec![100, 1500, 2500],
            reorders: true,
            crashes: true,
            restarts: true,
            unmounts: true,
            is_cached: false,
            is_told: true,
            watchers: Watchers::Both,
        }
    }

    /// So little that all of it can be searched.
    pub fn small(options: Options) -> Self {
        Self {
            data: 2,
            files: 2,
            slots: vec![0, 2],
            options,
            passes_ms: vec![2000],
            reorders: false,
            crashes: false,
            restarts: false,
            unmounts: false,
            ..Self::large(options.grade, options.eager)
        }
    }

    fn system(&self) -> Box<dyn System> {
        match self.layout {
            Layout::Ext2 => Box::new(Ext2::new(self.data, self.files, self.slots.clone())),
            Layout::Fat { is_final } => Box::new(Fat::new(self.data, is_final)),
        }
    }

    /// Both versions of the rules begin to watch `disk`.
    fn attach(&self, disk: Vec<Bytes>, now: Millis) -> Differential<BLOCK_BYTES> {
        let was_clean = Super::from_bytes(&disk[SUPER as usize]).is_some_and(|it| it.is_clean);
        let blocks = disk.len() as Block;
        let differential = match self.layout {
            Layout::Ext2 => {
                differential(Toy { was_clean, ..Toy::new(blocks) }, disk, self.options, now, true)
            }
            Layout::Fat { is_final } => {
                let toy = FatToy { blocks, was_clean, is_final, block_bytes: BLOCK_BYTES as u32 };
                differential(toy, disk, self.options, now, true)
            }
        };
        differential.watched_by(self.watchers)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    Mount,
    /// A process does something.
    Do(Action),
    /// A block goes to the disk as it is now.
    WriteBack(Block),
    /// A block goes, and something holds it up.
    Delay(Block),
    /// A held-up block arrives.
    Land(Block),
    /// The guest tells of a free block.
    Trim(Block),
    /// The file system is unmounted; the last metadata may come after the
    /// superblock.
    Unmount(bool),
    /// The guest crashes; what was held up may arrive.
    Crash(bool),
    /// The file system is mended; the superblock may come first.
    Fsck(bool),
    /// The server reads something that the rules want.
    Read,
    /// Evidence is being made durable.
    Cut,
    /// The evidence is durable.
    Proven,
    /// Verdicts are carried out; also those that may settle themselves?
    Act(bool),
    /// The server is killed and started again.
    Restart,
    /// The connection is lost: what was held up has arrived, and comes once more. The
    /// other connection may be there before this one is gone.
    Reconnect(bool),
    /// Milliseconds pass.
    Pass(u64),
    /// Milliseconds pass while the guest is asleep.
    Sleep,
    /// The guest writes everything.
    Sync,
    /// The cache does something.
    Cache(cache::Step),
    /// The host loses its power: the guest crashes, and its cache is lost.
    PowerCut,
}

/// How long [`Step::Sleep`] is.
const SLEEP_MS: u64 = 10_000_000;

/// A guest and its judge, a disk, a watcher.
#[derive(Debug)]
pub struct Play {
    setup: Setup,
    system: Box<dyn System>,
    judge: Judge,
    /// The file system said that it was clean when it was mounted.
    was_clean: bool,
    differential: Differential<BLOCK_BYTES>,
    cache: Cache<Bytes>,
    /// On the way, as it was when it left.
    flights: BTreeMap<Block, Bytes>,
    /// Since when blocks differ from the disk, in time that the guest ran.
    dirty_since: BTreeMap<Block, u64>,
    run_ms: u64,
    is_cut: bool,
}

impl Play {
    /// An empty file system, mounted.
    ///
    /// # Panics
    /// If the versions of the rules disagree on that.
    pub fn new(setup: &Setup) -> Self {
        let mut system = setup.system();
        let disk: Vec<_> = system.disk(0).iter().map(|it| narrowed(it)).collect();
        let mut this = Self {
            setup: setup.clone(),
            system,
            judge: Judge::new(disk.clone()),
            was_clean: true,
            differential: setup.attach(disk, Millis(1_000_000)),
            cache: Cache::new(setup.is_cached),
            flights: BTreeMap::new(),
            dirty_since: BTreeMap::new(),
            run_ms: 0,
            is_cut: false,
        };
        this.tell();
        for step in [Step::Read, Step::Mount] {
            this.step(step).expect("nothing has happened yet");
        }
        this
    }

    /// Tells the rules how the guest is attached.
    fn tell(&mut self) {
        if self.setup.is_told {
            self.differential.attached(self.cache.attached());
        }
    }

    /// The disk as the guest reads it.
    fn seen(&self) -> Vec<Bytes> {
        let mut disk = self.differential.disk().to_vec();
        self.cache.waiting().for_each(|(block, bytes)| disk[block as usize] = *bytes);
        disk
    }

    /// The guest sends `bytes`.
    fn send(&mut self, block: Block, bytes: Bytes) -> Result<(), String> {
        self.cache.take(block, bytes).map_or(Ok(()), |it| self.arrive(block, &it))
    }

    fn arrive_all(&mut self, sent: Vec<(Block, Bytes)>) -> Result<(), String> {
        sent.into_iter().try_for_each(|(block, bytes)| self.arrive(block, &bytes))
    }

    /// `bytes` arrive.
    fn arrive(&mut self, block: Block, bytes: &Bytes) -> Result<(), String> {
        for taken in self.differential.write(place(block), bytes)? {
            self.judge.destroyed(&*self.system, taken)?;
        }
        if self.differential.is_over() {
            return Err("inference stopped, and the guest has done nothing wrong".into());
        }
        self.judge.written(&*self.system, block, bytes);
        Ok(())
    }

    /// `block` leaves memory, if it is dirty.
    fn take_off(&mut self, block: Block) -> Result<Option<Bytes>, String> {
        self.land(block)?;
        let is_dirty = self.system.dirty().contains(&block);
        Ok(self.system.write_back(block).filter(|_| is_dirty))
    }

    fn write_back(&mut self, block: Block) -> Result<(), String> {
        let bytes = self.take_off(block)?;
        bytes.map_or(Ok(()), |it| self.send(block, it))
    }

    fn delay(&mut self, block: Block) -> Result<(), String> {
        let bytes = self.take_off(block)?;
        self.flights.extend(bytes.map(|it| (block, it)));
        Ok(())
    }

    fn land(&mut self, block: Block) -> Result<(), String> {
        let Some(bytes) = self.flights.remove(&block) else { return Ok(()) };
        self.arrive(block, &bytes)
    }

    fn land_all(&mut self) -> Result<(), String> {
        self.flights.clone().into_keys().try_for_each(|it| self.land(it))
    }

    /// The kernel writes what has been dirty for half of `settle`.
    fn write_back_old(&mut self, ms: u64) -> Result<(), String> {
        let (limit, end) = (self.setup.options.settle_ms / 2, self.run_ms + ms);
        let due = self.dirty_since.iter().filter(|(_, since)| end - **since > limit);
        let due: Vec<_> = due.map(|(block, _)| *block).collect();
        due.into_iter().try_for_each(|it| self.write_back(it))
    }

    fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.land_all()?;
        self.write_back_old(ms)?;
        let sent = self.cache.pass(ms);
        self.arrive_all(sent)?;
        self.run_ms += ms;
        self.differential.pass(ms)
    }

    /// The owner of each block: in memory, or else by what lies on the disk.
    fn named(&self) -> BTreeMap<Block, Owner> {
        self.system.owners().unwrap_or_else(|| self.system.owners_on(&self.seen(), &[]))
    }

    /// Notes who has what, as it follows from what lies on the disk.
    fn recovered(&mut self) {
        let (named, seen) = (self.named(), self.seen());
        let reads = self.setup.is_cached && self.setup.layout == Layout::Ext2;
        self.judge.recovered(&named, reads.then_some(&seen));
    }

    fn superblock(&self) -> Super {
        Super::from_bytes(&self.seen()[SUPER as usize]).expect("it is a superblock")
    }

    fn mount(&mut self) -> Result<(), String> {
        if self.system.is_mounted() {
            return Ok(());
        }
        let before = self.superblock();
        self.was_clean = before.is_clean;
        if let Some(in_use) = self.system.in_use(before) {
            self.send(SUPER, in_use.bytes())?;
        }
        let seen = self.seen();
        self.system.mount(&seen);
        self.recovered();
        Ok(())
    }

    fn unmount(&mut self, is_late: bool) -> Result<(), String> {
        if !self.system.is_mounted() {
            return Ok(());
        }
        let superblock = self.system.at_last(self.was_clean);
        let dirty = self.system.dirty().into_iter();
        let (first, last): (Vec<_>, Vec<_>) = dirty.partition(|it| !is_late || self.system.is_data(*it));
        self.land_all()?;
        first.into_iter().try_for_each(|it| self.write_back(it))?;
        superblock.map_or(Ok(()), |it| self.send(SUPER, it.bytes()))?;
        last.into_iter().try_for_each(|it| self.write_back(it))?;
        self.system.leave();
        Ok(())
    }

    fn sync(&mut self) -> Result<(), String> {
        self.system.dirty().into_iter().try_for_each(|it| self.write_back(it))
    }

    fn crash(&mut self, lands: bool) -> Result<(), String> {
        if !self.system.is_mounted() {
            return Ok(());
        }
        self.system.leave();
        if lands {
            self.land_all()?;
        }
        self.flights.clear();
        self.recovered();
        Ok(())
    }

    fn power_cut(&mut self) {
        self.cache.lose();
        self.flights.clear();
        self.system.leave();
        self.recovered();
    }

    fn cache_does(&mut self, step: cache::Step) -> Result<(), String> {
        let sent = self.cache.happen(step);
        self.arrive_all(sent)?;
        self.tell();
        Ok(())
    }

    fn fsck(&mut self, superblock_first: bool) -> Result<(), String> {
        if self.system.is_mounted() {
            return Ok(());
        }
        let mut written = self.system.mend(&self.seen());
        if superblock_first {
            written.rotate_right(1);
        }
        written.into_iter().try_for_each(|(block, bytes)| self.send(block, bytes))?;
        self.recovered();
        Ok(())
    }

    fn act(&mut self, all: bool) -> Result<(), String> {
        let named = self.named();
        for (block, verdict) in self.differential.verdicts(all)? {
            if verdict == Verdict::ConservativeOverwrite {
                self.judge.rewritten(block);
                continue;
            }
            self.judge.dies(&mut *self.system, block, &named)?;
            self.differential.destroy(block);
        }
        Ok(())
    }

    fn restart(&mut self) {
        let (disk, now) = (self.differential.disk().to_vec(), self.differential.now());
        self.differential = self.setup.attach(disk, now);
        self.tell();
        self.judge.forgotten();
        self.is_cut = false;
    }

    /// Nothing that was sent has been answered, so that the guest waits for it.
    fn reconnect(&mut self, overlaps: bool) -> Result<(), String> {
        let echoes = self.flights.clone();
        if overlaps {
            self.differential.connected(2);
        }
        echoes.iter().try_for_each(|(block, bytes)| self.arrive(*block, bytes))?;
        if overlaps {
            echoes.iter().try_for_each(|(block, bytes)| self.arrive(*block, bytes))?;
        } else {
            self.differential.connected(0);
        }
        self.differential.connected(1);
        Ok(())
    }

    fn trim(&mut self, block: Block) -> Result<(), String> {
        if !self.system.free().contains(&block) {
            return Ok(());
        }
        self.differential.free(block)?;
        self.judge.destroyed(&*self.system, block)?;
        self.judge.written(&*self.system, block, &[0; BLOCK_BYTES]);
        Ok(())
    }

    fn does(&mut self, action: Action) -> Result<(), String> {
        if action.frees() {
            self.land_all()?;
        }
        self.system.does(action, &mut self.judge.truth);
        Ok(())
    }

    fn note_dirty(&mut self) {
        let dirty = self.system.dirty();
        self.dirty_since.retain(|it, _| dirty.contains(it));
        for block in dirty {
            self.dirty_since.entry(block).or_insert(self.run_ms);
        }
    }

    fn happen(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Mount => self.mount()?,
            Step::Do(action) => self.does(action)?,
            Step::WriteBack(block) => self.write_back(block)?,
            Step::Delay(block) => self.delay(block)?,
            Step::Land(block) => self.land(block)?,
            Step::Trim(block) => self.trim(block)?,
            Step::Unmount(is_late) => self.unmount(is_late)?,
            Step::Crash(lands) => self.crash(lands)?,
            Step::Fsck(first) => self.fsck(first)?,
            Step::Read => drop(self.differential.read_one()?),
            Step::Cut => self.cut(),
            Step::Proven => self.proven(),
            Step::Act(all) => self.act(all)?,
            Step::Restart => self.restart(),
            Step::Reconnect(overlaps) => self.reconnect(overlaps)?,
            Step::Pass(ms) => self.pass(ms)?,
            Step::Sleep => {
                self.land_all()?;
                self.differential.pass(SLEEP_MS)?;
            }
            Step::Sync => self.sync()?,
            Step::Cache(step) => self.cache_does(step)?,
            Step::PowerCut => self.power_cut(),
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.is_cut = true;
        self.differential.cut();
        self.judge.cut();
    }

    fn proven(&mut self) {
        if std::mem::take(&mut self.is_cut) {
            self.differential.proven();
            self.judge.proven();
        }
    }
}

impl Space for Play {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        self.possible()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        self.happen(step)?;
        self.note_dirty();
        Ok(())
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        format!("{:?}", self.system).hash(&mut hasher);
        self.judge.digest(&mut hasher);
        (self.was_clean, self.differential.disk(), &self.cache, &self.flights, self.is_cut).hash(&mut hasher);
        let ages = self.dirty_since.iter().map(|(block, since)| (*block, self.run_ms - since));
        ages.collect::<Vec<_>>().hash(&mut hasher);
        if let Some(reference) = self.differential.reference() {
            reference.digest(&mut hasher);
        }
        hasher.finish()
    }

    fn finish(&mut self) -> Result<(), String> {
        self.settle_everything()
    }
}
