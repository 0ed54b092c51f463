//! A guest with an ext2-like file system, the disk below it, the rules that
//! watch, and the judge.

mod finish;
mod steps;

use crate::rule_e::guest::{Guest, Owner, SLOTS, mend};
use crate::rule_e::judge::{Excuses, Judge};
use crate::rule_e::search::Space;
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, MAP, SUPER, Super, Toy, place};
use crate::rule_e::twin;
use crate::twin::Twin;
use quietus_core::units::Millis;
use quietus_core::watch::Verdict;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What there is, and what may happen.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Blocks of data.
    pub data: Block,
    /// Files at once.
    pub files: usize,
    /// Slots that files use.
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
    /// The literal version of the rules watches too.
    pub compares: bool,
}

impl Setup {
    /// Everything, for long histories.
    #[must_use]
    pub fn large(grade: Grade, eager: bool) -> Self {
        Self {
            data: 7,
            files: 3,
            slots: (0..SLOTS).collect(),
            options: Options { grade, eager, reorder_window_ms: 1000, settle_ms: 8000 },
            passes_ms: vec![100, 1500, 2500],
            reorders: true,
            crashes: true,
            restarts: true,
            unmounts: true,
            compares: true,
        }
    }

    /// So little that all of it can be searched.
    #[must_use]
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
            compares: true,
        }
    }
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// The file system is mounted.
    Mount,
    /// A file is made.
    Create(usize),
    /// A file gets a block in a slot.
    Grow(usize, usize, Block),
    /// A file gets a block of pointers.
    GrowIndirect(usize, Block),
    /// A block is written again, in memory.
    Touch(Block),
    /// A file loses what it has in a slot.
    Punch(usize, usize),
    /// A file loses everything.
    Truncate(usize),
    /// A file is deleted.
    Delete(usize),
    /// A block goes to the disk as it is now.
    WriteBack(Block),
    /// It goes, and something holds it up.
    Delay(Block),
    /// What was held up arrives.
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
    /// It is.
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
    /// They pass while the guest is asleep.
    Sleep,
}

/// How long [`Step::Sleep`] is.
const SLEEP_MS: u64 = 10_000_000;

/// A guest, a disk, a watcher, a judge.
#[derive(Debug)]
pub struct Play {
    setup: Setup,
    toy: Toy,
    guest: Option<Guest>,
    /// What the file system said when it was mounted.
    was_clean: bool,
    twin: Twin<BLOCK_BYTES>,
    judge: Judge,
    /// On the way, as it was when it left.
    flights: BTreeMap<Block, Bytes>,
    /// Since when blocks differ from the disk, in time that the guest ran.
    dirty_since: BTreeMap<Block, u64>,
    run_ms: u64,
    next_generation: u8,
    is_cut: bool,
}

impl Play {
    /// An empty file system, mounted.
    ///
    /// # Panics
    /// If the versions of the rules disagree on that.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let toy = Toy { blocks: 3 + setup.data, inode_blocks: 1, journal: 0, was_clean: true };
        let mut disk = vec![[0; BLOCK_BYTES]; toy.blocks as usize];
        disk[SUPER as usize] = Super { is_clean: true, mended: 0, mounts: 0 }.bytes();
        disk[MAP as usize][..3].fill(1);
        let judge = Judge::new(toy, &disk);
        let twin = attach(setup, toy, disk, Millis(1_000_000));
        let mut this = Self {
            setup: setup.clone(),
            toy,
            guest: None,
            was_clean: true,
            twin,
            judge,
            flights: BTreeMap::new(),
            dirty_since: BTreeMap::new(),
            run_ms: 0,
            next_generation: 1,
            is_cut: false,
        };
        for step in [Step::Read, Step::Mount] {
            this.step(step).expect("nothing has happened yet");
        }
        this
    }

    /// Who has what: in memory, or else by what lies on the disk.
    fn named(&self) -> BTreeMap<Block, Owner> {
        let found = self.guest.as_ref().map(Guest::named);
        found.unwrap_or_else(|| Guest::mount(self.toy, self.twin.disk(), 0).named())
    }

    /// `bytes` arrive.
    fn arrive(&mut self, block: Block, bytes: &Bytes) -> Result<(), String> {
        for taken in self.twin.write(place(block), bytes, true)? {
            self.judge.destroyed(taken);
        }
        if self.twin.is_over() {
            return Err("inference stopped, and the guest has done nothing wrong".into());
        }
        self.judge.written(block, bytes, self.twin.disk());
        Ok(())
    }

    fn write_back(&mut self, block: Block) -> Result<(), String> {
        self.land(block)?;
        let Some(guest) = self.guest.as_mut().filter(|it| it.dirty().contains(&block)) else {
            return Ok(());
        };
        let bytes = guest.write_back(block);
        self.arrive(block, &bytes)
    }

    fn delay(&mut self, block: Block) -> Result<(), String> {
        self.land(block)?;
        let Some(guest) = self.guest.as_mut().filter(|it| it.dirty().contains(&block)) else {
            return Ok(());
        };
        let bytes = guest.write_back(block);
        self.flights.insert(block, bytes);
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
        let limit = self.setup.options.settle_ms / 2;
        let due: Vec<_> =
            self.dirty_since.iter().filter(|(_, since)| self.run_ms + ms - **since > limit).collect();
        let due: Vec<_> = due.into_iter().map(|(block, _)| *block).collect();
        due.into_iter().try_for_each(|it| self.write_back(it))
    }

    fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.land_all()?;
        self.write_back_old(ms)?;
        self.run_ms += ms;
        self.twin.pass(ms)
    }

    fn mount(&mut self) -> Result<(), String> {
        if self.guest.is_some() {
            return Ok(());
        }
        let before = Super::from_bytes(self.twin.content(SUPER)).expect("it is a superblock");
        self.was_clean = before.is_clean;
        self.arrive(SUPER, &Super { is_clean: false, ..before }.bytes())?;
        let guest = Guest::mount(self.toy, self.twin.disk(), self.next_generation);
        self.judge.recovered(&guest.named());
        self.guest = Some(guest);
        Ok(())
    }

    fn unmount(&mut self, is_late: bool) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Ok(()) };
        self.next_generation = guest.next_generation();
        let superblock = guest.superblock(self.was_clean);
        let dirty: Vec<_> = guest.dirty().iter().copied().collect();
        let (first, last): (Vec<_>, Vec<_>) =
            dirty.into_iter().partition(|it| !is_late || self.toy.data().contains(it));
        self.land_all()?;
        first.into_iter().try_for_each(|it| self.write_back(it))?;
        self.arrive(SUPER, &superblock)?;
        last.into_iter().try_for_each(|it| self.write_back(it))?;
        self.guest = None;
        Ok(())
    }

    fn crash(&mut self, lands: bool) -> Result<(), String> {
        let Some(guest) = self.guest.take() else { return Ok(()) };
        self.next_generation = guest.next_generation();
        if lands {
            self.land_all()?;
        }
        self.flights.clear();
        let named = self.named();
        self.judge.recovered(&named);
        Ok(())
    }

    fn fsck(&mut self, superblock_first: bool) -> Result<(), String> {
        if self.guest.is_some() {
            return Ok(());
        }
        let mut written = mend(self.toy, self.twin.disk());
        if superblock_first {
            written.rotate_right(1);
        }
        written.into_iter().try_for_each(|(block, bytes)| self.arrive(block, &bytes))?;
        let named = self.named();
        self.judge.recovered(&named);
        Ok(())
    }

    fn act(&mut self, all: bool) -> Result<(), String> {
        let named = self.named();
        for (block, verdict) in self.twin.verdicts(true, all)? {
            if verdict == Verdict::Scour {
                self.judge.scoured(block);
                continue;
            }
            self.judge.dies(block, &named, self.setup.options.eager)?;
            self.judge.destroyed(block);
            self.twin.destroy(block);
        }
        Ok(())
    }

    fn restart(&mut self) {
        let was_clean = Super::from_bytes(self.twin.content(SUPER)).is_some_and(|it| it.is_clean);
        let toy = Toy { was_clean, ..self.toy };
        let (disk, now) = (self.twin.disk().to_vec(), self.twin.now());
        self.twin = attach(&self.setup, toy, disk, now);
        self.judge.forgotten();
        self.is_cut = false;
    }

    /// Nothing that was sent has been answered, so that the guest waits for it.
    fn reconnect(&mut self, overlaps: bool) -> Result<(), String> {
        let echoes = self.flights.clone();
        if overlaps {
            self.twin.connected(2);
        }
        echoes.iter().try_for_each(|(block, bytes)| self.arrive(*block, bytes))?;
        if overlaps {
            echoes.iter().try_for_each(|(block, bytes)| self.arrive(*block, bytes))?;
        } else {
            self.twin.connected(0);
        }
        self.twin.connected(1);
        Ok(())
    }

    fn trim(&mut self, block: Block) -> Result<(), String> {
        let is_free = self.guest.as_ref().is_some_and(|it| it.free().contains(&block));
        if !is_free {
            return Ok(());
        }
        self.twin.free(block)?;
        self.judge.freed(block, self.twin.disk());
        Ok(())
    }

    fn change_files(&mut self, step: Step) -> Result<(), String> {
        if matches!(step, Step::Punch(..) | Step::Truncate(_) | Step::Delete(_)) {
            self.land_all()?;
        }
        let Some(guest) = &mut self.guest else { return Ok(()) };
        let freed = match step {
            Step::Create(file) if guest.absent().contains(&file) => {
                guest.create(file);
                Vec::new()
            }
            Step::Punch(file, slot) => guest.punch(file, slot),
            Step::Truncate(file) if guest.present().contains(&file) => guest.truncate(file),
            Step::Delete(file) if guest.present().contains(&file) => guest.delete(file),
            Step::Touch(block) => {
                guest.touch(block);
                Vec::new()
            }
            _ => Vec::new(),
        };
        freed.into_iter().for_each(|it| self.judge.end(it));
        Ok(())
    }

    fn grow(&mut self, file: usize, slot: Option<usize>, block: Block) {
        let Some(guest) = &mut self.guest else { return };
        let has = slot.map_or_else(|| guest.indirect(file), |it| guest.at(file, it));
        let is_possible = guest.present().contains(&file) && guest.free().contains(&block) && has.is_none();
        let is_deep = slot.is_some_and(|it| it >= 2);
        if !is_possible || (is_deep && guest.indirect(file).is_none()) {
            return;
        }
        let stay = self.judge.begin(block, guest.owner(file));
        match slot {
            Some(slot) => guest.grow(file, slot, block, stay),
            None => guest.grow_indirect(file, block, stay),
        }
    }

    fn note_dirty(&mut self) {
        let dirty = self.guest.as_ref().map(|it| it.dirty().clone()).unwrap_or_default();
        self.dirty_since.retain(|it, _| dirty.contains(it));
        for block in dirty {
            self.dirty_since.entry(block).or_insert(self.run_ms);
        }
    }

    fn happen(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Mount => self.mount()?,
            Step::Grow(file, slot, block) => self.grow(file, Some(slot), block),
            Step::GrowIndirect(file, block) => self.grow(file, None, block),
            Step::Create(_) | Step::Touch(_) | Step::Punch(..) | Step::Truncate(_) | Step::Delete(_) => {
                self.change_files(step)?;
            }
            Step::WriteBack(block) => self.write_back(block)?,
            Step::Delay(block) => self.delay(block)?,
            Step::Land(block) => self.land(block)?,
            Step::Trim(block) => self.trim(block)?,
            Step::Unmount(is_late) => self.unmount(is_late)?,
            Step::Crash(lands) => self.crash(lands)?,
            Step::Fsck(first) => self.fsck(first)?,
            Step::Read => drop(self.twin.read_one()?),
            Step::Cut => self.cut(),
            Step::Proven => self.proven(),
            Step::Act(all) => self.act(all)?,
            Step::Restart => self.restart(),
            Step::Reconnect(overlaps) => self.reconnect(overlaps)?,
            Step::Pass(ms) => self.pass(ms)?,
            Step::Sleep => {
                self.land_all()?;
                self.twin.pass(SLEEP_MS)?;
            }
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.is_cut = true;
        self.twin.cut();
        self.judge.cut();
    }

    fn proven(&mut self) {
        if std::mem::take(&mut self.is_cut) {
            self.twin.proven();
            self.judge.proven();
        }
    }
}

fn attach(setup: &Setup, toy: Toy, disk: Vec<Bytes>, now: Millis) -> Twin<BLOCK_BYTES> {
    let twin = twin(toy, disk, setup.options, now, true);
    if setup.compares { twin } else { twin.alone() }
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
        (&self.guest, self.was_clean, self.twin.disk(), &self.flights, self.is_cut).hash(&mut hasher);
        self.judge.essence().hash(&mut hasher);
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
        self.settle_everything()
    }
}
