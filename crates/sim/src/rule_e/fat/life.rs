//! A guest with a FAT, the disk below it, the rules that watch, and what may be
//! destroyed there.

use super::memory::{FILES, Memory, stay_of};
use super::{DATA, ENTRIES, FatToy, TABLE, entries};
use crate::rule_e::judge::Excuses;
use crate::rule_e::search::Space;
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, SUPER, Super, place};
use crate::rule_e::twin;
use crate::twin::Twin;
use quietus_core::units::Millis;
use quietus_core::watch::Verdict;
use quietus_detect::format::Block;
use quietus_detect::options::Options;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What there is, and what may happen.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Blocks of data, at most 4.
    pub data: Block,
    /// How much is inferred.
    pub options: Options,
    /// Steps of time.
    pub passes_ms: Vec<u64>,
    /// Writes may overtake one another within the window.
    pub reorders: bool,
    /// The guest may crash, and be mended or not; the server may be killed.
    pub crashes: bool,
    /// The table is final, as in FAT; else it needs rest, as in exFAT.
    pub is_final: bool,
    /// The literal version of the rules watches too.
    pub compares: bool,
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// The file system is mounted.
    Mount,
    /// A file gets a block at its end.
    Grow(usize, Block),
    /// A file keeps so many blocks.
    CutOff(usize, usize),
    /// A block is written again, in memory.
    Touch(Block),
    /// A block goes to the disk as it is now.
    WriteBack(Block),
    /// It goes, and something holds it up.
    Delay(Block),
    /// What was held up arrives.
    Land(Block),
    /// The guest tells of a free block, before it writes that it is.
    Trim(Block),
    /// The file system is unmounted.
    Unmount,
    /// The guest crashes; what was held up may arrive.
    Crash(bool),
    /// The file system is mended; the superblock may come first.
    Mend(bool),
    /// The server reads something that the rules want.
    Read,
    /// Evidence is being made durable.
    Cut,
    /// It is.
    Proven,
    /// Verdicts are carried out; also those that may settle themselves?
    Act(bool),
    /// The server is killed and started again.
    Restart,
    /// Milliseconds pass.
    Pass(u64),
    /// They pass while the guest is asleep.
    Sleep,
}

/// How long [`Step::Sleep`] is.
const SLEEP_MS: u64 = 10_000_000;
/// Most reads in a row; more than the blocks of any of these disks.
const READS_MAX: usize = 100;

/// A block of the table as it was written: which stays it gives blocks to.
type Version = BTreeMap<Block, u16>;

/// A guest, a disk, a watcher, and who owns what.
#[derive(Debug)]
pub struct Life {
    setup: Setup,
    toy: FatToy,
    memory: Option<Memory>,
    /// Where files begin, as directories have it.
    heads: [Option<Block>; FILES],
    was_clean: bool,
    twin: Twin<BLOCK_BYTES>,
    flights: BTreeMap<Block, (Bytes, Version)>,
    /// Versions of each block of the table that may come back.
    versions: BTreeMap<Block, Vec<Version>>,
    /// How many of them came before the cut.
    cut: Option<BTreeMap<Block, usize>>,
    dirty_since: BTreeMap<Block, u64>,
    run_ms: u64,
    next_stay: u16,
}

impl Life {
    /// An empty file system, mounted.
    ///
    /// # Panics
    /// If the versions of the rules disagree on that.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let toy = FatToy { blocks: DATA + setup.data + 1, was_clean: true, is_final: setup.is_final };
        let twin = attach(setup, toy, toy.disk(), Millis(1_000_000));
        let mut this = Self {
            setup: setup.clone(),
            toy,
            memory: None,
            heads: [None; FILES],
            was_clean: true,
            twin,
            flights: BTreeMap::new(),
            versions: (TABLE..DATA).map(|it| (it, vec![Version::new()])).collect(),
            cut: None,
            dirty_since: BTreeMap::new(),
            run_ms: 0,
            next_stay: 0,
        };
        this.step(Step::Mount).expect("nothing has happened yet");
        this
    }

    /// Which stays `block` of the table gives blocks to, as it is in memory.
    fn version(&self, block: Block) -> Version {
        let first = (block - TABLE) * ENTRIES as Block;
        let stays = self.memory.iter().flat_map(|it| &it.stays).map(|(block, stay)| (*block, *stay));
        stays.filter(|(it, _)| (first..first + ENTRIES as Block).contains(it)).collect()
    }

    fn arrive(&mut self, block: Block, bytes: &Bytes, version: Version) -> Result<(), String> {
        for taken in self.twin.write(place(block), bytes, true)? {
            self.is_spared(taken)?;
        }
        if self.twin.is_over() {
            return Err("inference stopped, and the guest has done nothing wrong".into());
        }
        if let Some(versions) = self.versions.get_mut(&block) {
            versions.push(version);
        }
        Ok(())
    }

    /// What is destroyed before a write is what the write replaces: the
    /// metadata is not.
    fn is_spared(&self, block: Block) -> Result<(), String> {
        let is_data = self.toy.data().contains(&block);
        if is_data { Ok(()) } else { Err(format!("safety: block {block} is metadata")) }
    }

    /// `block` leaves memory: its bytes, and what they say.
    fn leave(&mut self, block: Block) -> Option<(Bytes, Version)> {
        let version = if block < DATA { self.version(block) } else { Version::new() };
        let memory = self.memory.as_mut().filter(|it| it.dirty.contains(&block))?;
        Some((memory.write_back(block), version))
    }

    fn write_back(&mut self, block: Block) -> Result<(), String> {
        self.land(block)?;
        let Some((bytes, version)) = self.leave(block) else { return Ok(()) };
        self.arrive(block, &bytes, version)
    }

    fn delay(&mut self, block: Block) -> Result<(), String> {
        self.land(block)?;
        let left = self.leave(block);
        self.flights.extend(left.map(|it| (block, it)));
        Ok(())
    }

    fn land(&mut self, block: Block) -> Result<(), String> {
        let Some((bytes, version)) = self.flights.remove(&block) else { return Ok(()) };
        self.arrive(block, &bytes, version)
    }

    fn land_all(&mut self) -> Result<(), String> {
        self.flights.clone().into_keys().try_for_each(|it| self.land(it))
    }

    /// The kernel writes what has been dirty for half of `settle`.
    fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.land_all()?;
        let (limit, end) = (self.setup.options.settle_ms / 2, self.run_ms + ms);
        let due: Vec<_> = self.dirty_since.iter().filter(|(_, since)| end - **since > limit).collect();
        let due: Vec<_> = due.into_iter().map(|(block, _)| *block).collect();
        due.into_iter().try_for_each(|it| self.write_back(it))?;
        self.run_ms = end;
        self.twin.pass(ms)
    }

    fn write_super(&mut self, is_clean: bool) -> Result<(), String> {
        self.arrive(SUPER, &Super { is_clean, mended: 0, mounts: 0 }.bytes(), Version::new())
    }

    /// As Linux does it: what it finds in use stays so.
    fn mount(&mut self) -> Result<(), String> {
        if self.memory.is_some() {
            return Ok(());
        }
        self.was_clean = Super::from_bytes(self.twin.content(SUPER)).is_some_and(|it| it.is_clean);
        if self.was_clean {
            self.write_super(false)?;
        }
        self.memory = Some(Memory::mount(self.toy, self.twin.disk(), self.heads));
        Ok(())
    }

    fn unmount(&mut self) -> Result<(), String> {
        let Some(memory) = &self.memory else { return Ok(()) };
        let dirty: Vec<_> = memory.dirty.iter().copied().collect();
        self.land_all()?;
        dirty.into_iter().try_for_each(|it| self.write_back(it))?;
        if self.was_clean {
            self.write_super(true)?;
        }
        self.memory = None;
        Ok(())
    }

    fn crash(&mut self, lands: bool) -> Result<(), String> {
        if self.memory.take().is_some() && lands {
            self.land_all()?;
        }
        self.flights.clear();
        Ok(())
    }

    fn mend(&mut self, superblock_first: bool) -> Result<(), String> {
        if self.memory.is_some() {
            return Ok(());
        }
        let mut memory = Memory::mount(self.toy, self.twin.disk(), self.heads);
        memory.mend();
        self.heads = memory.heads;
        let dirty: Vec<_> = memory.dirty.iter().copied().collect();
        self.memory = Some(memory);
        if superblock_first {
            self.write_super(true)?;
        }
        dirty.into_iter().try_for_each(|it| self.write_back(it))?;
        if !superblock_first {
            self.write_super(true)?;
        }
        self.memory = None;
        Ok(())
    }

    fn act(&mut self, all: bool) -> Result<(), String> {
        for (block, verdict) in self.twin.verdicts(true, all)? {
            if verdict == Verdict::Dead {
                self.may_die(block)?;
                self.twin.destroy(block);
            }
        }
        Ok(())
    }

    /// Safety: whether the content of `block` may be destroyed.
    fn may_die(&self, block: Block) -> Result<(), String> {
        self.is_spared(block)?;
        let Some(top) = stay_of(self.twin.content(block)) else { return Ok(()) };
        let is_owned = match &self.memory {
            Some(memory) => memory.stays.get(&block) == Some(&top),
            None => entries(self.twin.disk())[block as usize] != 0,
        };
        if is_owned {
            return Err(format!("safety: a file has block {block} and what lies there is its own"));
        }
        let mut versions = self.versions.values().flatten();
        if versions.any(|it| it.get(&block) == Some(&top)) {
            return Err(format!("safety: after a crash a file may have block {block} again"));
        }
        Ok(())
    }

    fn proven(&mut self) {
        let Some(cut) = self.cut.take() else { return };
        self.twin.proven();
        for (block, count) in cut {
            self.versions.get_mut(&block).expect("it was counted").drain(..count - 1);
        }
    }

    fn restart(&mut self) {
        let was_clean = Super::from_bytes(self.twin.content(SUPER)).is_some_and(|it| it.is_clean);
        let toy = FatToy { was_clean, ..self.toy };
        let (disk, now) = (self.twin.disk().to_vec(), self.twin.now());
        self.twin = attach(&self.setup, toy, disk, now);
        self.cut = None;
    }

    fn change_files(&mut self, step: Step) -> Result<(), String> {
        if matches!(step, Step::CutOff(..)) {
            self.land_all()?;
        }
        let Some(memory) = &mut self.memory else { return Ok(()) };
        match step {
            Step::Grow(file, block) if memory.free().contains(&block) => {
                memory.grow(file, block, self.next_stay);
                self.next_stay += 1;
            }
            Step::CutOff(file, len) => memory.cut_off(file, len),
            Step::Touch(block) => memory.touch(block),
            _ => {}
        }
        self.heads = memory.heads;
        Ok(())
    }

    fn trim(&mut self, block: Block) -> Result<(), String> {
        let is_free = self.memory.as_ref().is_some_and(|it| it.free().contains(&block));
        if is_free { self.twin.free(block) } else { Ok(()) }
    }

    fn happen(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Mount => self.mount()?,
            Step::Grow(..) | Step::CutOff(..) | Step::Touch(_) => self.change_files(step)?,
            Step::WriteBack(block) => self.write_back(block)?,
            Step::Delay(block) => self.delay(block)?,
            Step::Land(block) => self.land(block)?,
            Step::Trim(block) => self.trim(block)?,
            Step::Unmount => self.unmount()?,
            Step::Crash(lands) => self.crash(lands)?,
            Step::Mend(first) => self.mend(first)?,
            Step::Read => drop(self.twin.read_one()?),
            Step::Cut => {
                self.twin.cut();
                self.cut = Some(self.versions.iter().map(|(block, it)| (*block, it.len())).collect());
            }
            Step::Proven => self.proven(),
            Step::Act(all) => self.act(all)?,
            Step::Restart => self.restart(),
            Step::Pass(ms) => self.pass(ms)?,
            Step::Sleep => {
                self.land_all()?;
                self.twin.pass(SLEEP_MS)?;
            }
        }
        Ok(())
    }

    fn note_dirty(&mut self) {
        let dirty = self.memory.as_ref().map(|it| it.dirty.clone()).unwrap_or_default();
        self.dirty_since.retain(|it, _| dirty.contains(it));
        for block in dirty {
            self.dirty_since.entry(block).or_insert(self.run_ms);
        }
    }

    fn mounted(&self, memory: &Memory, steps: &mut Vec<Step>) {
        let free = memory.free();
        for file in 0..FILES {
            steps.extend(free.iter().map(|it| Step::Grow(file, *it)));
            steps.extend((0..memory.chain(file).len()).map(|len| Step::CutOff(file, len)));
        }
        steps.extend(memory.dirty.iter().map(|it| Step::WriteBack(*it)));
        steps.extend(free.first().map(|it| Step::Trim(*it)));
        steps.push(Step::Unmount);
        if self.setup.reorders {
            steps.extend(memory.stays.keys().map(|it| Step::Touch(*it)));
            let tables = memory.dirty.iter().filter(|it| **it < DATA);
            steps.extend(tables.chain(&memory.dirty).map(|it| Step::Delay(*it)));
        }
        if self.setup.crashes {
            steps.extend([Step::Crash(false), Step::Crash(true)]);
        }
    }

    /// Forensic: nothing dead is left, once everything has settled.
    fn is_clean(&self) -> Result<Excuses, String> {
        let entries = entries(self.twin.disk());
        let left = |it: &Block| entries[*it as usize] == 0 && stay_of(self.twin.content(*it)).is_some();
        match self.toy.data().find(left) {
            Some(block) => Err(format!("forensic: what was in block {block} lies there")),
            None => Ok(Excuses::default()),
        }
    }

    fn work(&mut self) -> Result<(), String> {
        self.step(Step::Pass(1000))?;
        let mut reads = 0;
        while self.twin.read_one()? {
            reads += 1;
            if reads > READS_MAX {
                return Err("liveness: it never has enough to read".into());
            }
        }
        [Step::Cut, Step::Proven, Step::Act(false)].into_iter().try_for_each(|it| self.step(it))
    }
}

fn attach(setup: &Setup, toy: FatToy, disk: Vec<Bytes>, now: Millis) -> Twin<BLOCK_BYTES> {
    let twin = twin(toy, disk, setup.options, now, true);
    if setup.compares { twin } else { twin.alone() }
}

impl Space for Life {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let mut steps = vec![Step::Read, Step::Cut, Step::Act(false), Step::Act(true)];
        steps.extend(self.cut.iter().map(|_| Step::Proven));
        steps.extend(self.setup.passes_ms.iter().map(|it| Step::Pass(*it)));
        steps.extend(self.flights.keys().map(|it| Step::Land(*it)));
        match &self.memory {
            Some(memory) => self.mounted(memory, &mut steps),
            None => steps.extend([Step::Mount, Step::Mend(false), Step::Mend(true)]),
        }
        if self.setup.crashes {
            steps.extend([Step::Restart, Step::Sleep]);
        }
        steps
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        self.happen(step)?;
        self.note_dirty();
        Ok(())
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        (&self.memory, self.heads, self.was_clean, self.twin.disk(), &self.flights).hash(&mut hasher);
        (&self.versions, &self.cut).hash(&mut hasher);
        let ages = self.dirty_since.iter().map(|(block, since)| (*block, self.run_ms - since));
        ages.collect::<Vec<_>>().hash(&mut hasher);
        if let Some(literal) = self.twin.literal() {
            literal.digest(&mut hasher);
        }
        hasher.finish()
    }

    fn is_over(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<Excuses, String> {
        self.step(Step::Unmount)?;
        if !Super::from_bytes(self.twin.content(SUPER)).is_some_and(|it| it.is_clean) {
            self.step(Step::Mend(false))?;
        }
        for _ in 0..2 * self.setup.options.settle_ms.div_ceil(1000) + 2 {
            self.work()?;
            for step in [Step::Mount, Step::Pass(1000), Step::Unmount, Step::Pass(1000)] {
                self.step(step)?;
            }
        }
        self.work()?;
        self.work()?;
        self.is_clean()
    }
}
