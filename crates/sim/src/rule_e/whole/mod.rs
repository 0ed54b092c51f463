//! A guest with an ext2-like file system, a whole volume below it that watches,
//! and media that remember.
//!
//! The guest knows what it owns. Its writes leave in any order within the
//! window that is allowed, are under way several at a time, and are done and
//! replied to in any order. The server is stopped and killed, the power is cut,
//! the guest crashes and is mended. Oracles:
//!
//! - *safety*: whatever is read is what the disk promised to hold ([`shelf`]);
//!   only what the reader does not own may be gone;
//! - *forensic*: once all has settled, content of files that are gone is not
//!   there, and has its passes, but for what the decision on rule E excepts
//!   ([`truth`], `forensic`);
//! - *liveness*: what is due is done, and each request is replied to once.

mod crash;
mod files;
mod finish;
mod forensic;
mod server;
mod shelf;
mod steps;
mod traffic;
mod truth;
pub(crate) mod wide;

use crate::dice::Dice;
use crate::rule_e::guest::{Guest, Owner};
use crate::rule_e::judge::Excuses;
use crate::rule_e::search::Space;
use crate::rule_e::toy::{BLOCK_BYTES, MAP, SUPER, Super, Toy};
use quietus_core::request::RequestId;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use server::Server;
use shelf::Shelf;
use std::collections::BTreeMap;
use traffic::Sent;
use truth::Truth;

/// What there is, and what may happen.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Blocks of data.
    pub data: Block,
    /// How much is inferred.
    pub options: Options,
    /// The passes, by name.
    pub policy: &'static str,
    /// The data's medium can give space back.
    pub punch: bool,
    /// Slots of the journal.
    pub slots: u32,
    /// Longest write of an act.
    pub run_bytes_max: u64,
    /// After how long acts begin.
    pub idle_after_ms: u64,
    /// After how long they begin, idle or not.
    pub deadline_ms: u64,
    /// How often the medium's cache is written, in percent of the turns.
    pub destage_percent: u64,
    /// Most turns before a step.
    pub turns_max: u64,
    /// The server may be killed, and the power cut.
    pub crashes: bool,
}

impl Setup {
    /// The one of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut dice = Dice::new(!seed);
        let grade = if dice.chance(12) { Grade::Content } else { Grade::Generation };
        Self {
            data: dice.range(2, 7) as Block,
            options: Options { grade, eager: false, reorder_window_ms: 500, settle_ms: 3000 },
            policy: dice.pick(&["clear", "purge-2", "purge-2", "random,ff"]),
            punch: dice.chance(50),
            slots: dice.pick(&[1, 2, 4]),
            run_bytes_max: dice.pick(&[4096, 8192, 65536]),
            idle_after_ms: dice.pick(&[0, 50, 250]),
            deadline_ms: dice.pick(&[1_000, 600_000]),
            destage_percent: dice.pick(&[0, 5, 30]),
            turns_max: dice.pick(&[2, 6, 20]),
            crashes: dice.chance(50),
        }
    }
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
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
    /// A block is on its way to the disk, as it is now.
    WriteBack(Block),
    /// All that is on its way arrives.
    Arrive,
    /// A block is read.
    Read(Block),
    /// The guest tells of a free block.
    Trim(Block),
    /// The guest asks for what cannot be done, of a block.
    AskInVain(Block, Vain),
    /// The disk's cache is flushed.
    Flush,
    /// The file system is unmounted; the last metadata may come after the
    /// superblock.
    Unmount(bool),
    /// The guest crashes; what was on its way may arrive.
    CrashGuest(bool),
    /// The file system is mended; the superblock may come first.
    Fsck(bool),
    /// Milliseconds pass.
    Pass(u64),
    /// They pass while the guest is asleep.
    Sleep,
    /// Only input and output goes on.
    Turn,
    /// The owner wants everything destroyed that is due.
    ShredNow,
    /// The server stops, and destroys what is due before or not, and is started
    /// again.
    Restart(bool),
    /// It is killed, and started again; the guest may crash with it.
    Kill(bool),
    /// The power is cut.
    CutPower,
}

/// A request that is refused, whatever the state of the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Vain {
    /// Zeros that keep their space, and at once.
    FastZeros,
    /// A TRIM from there to beyond the end.
    TrimBeyond,
    /// A write with a payload of another length.
    WriteShort,
}

/// A deed, and the chance that goes with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    deed: Deed,
    salt: u32,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Whole {
    setup: Setup,
    toy: Toy,
    guest: Option<Guest>,
    /// What the file system said when it was mounted.
    was_clean: bool,
    server: Server,
    shelves: Vec<Shelf>,
    truth: Truth,
    /// On its way; nothing below has heard of it.
    wire: Vec<Sent>,
    pending: BTreeMap<RequestId, Sent>,
    /// Contents that were read for whoever mounts or mends.
    read: BTreeMap<Block, Vec<u8>>,
    moment: u64,
    /// The server crashed, and has not found the file system since.
    is_cold: bool,
    /// Since when blocks differ from the disk, in time that the guest ran.
    dirty_since: BTreeMap<Block, u64>,
    run_ms: u64,
    next_generation: u8,
    count: u32,
    dice: Dice,
}

impl Whole {
    /// An empty file system, mounted.
    ///
    /// # Panics
    /// If it cannot be.
    #[must_use]
    pub fn new(setup: &Setup) -> Self {
        let toy = Toy { blocks: 3 + setup.data, inode_blocks: 1, journal: 0, was_clean: true };
        let mut disk = vec![[0; BLOCK_BYTES]; toy.blocks as usize];
        disk[SUPER as usize] = Super { is_clean: true, mended: 0, mounts: 0 }.bytes();
        disk[MAP as usize][..3].fill(1);
        let wide: Vec<_> = (0..).zip(&disk).map(|(n, page)| wide::widened(n, page, None)).collect();
        let mut this = Self {
            setup: setup.clone(),
            toy,
            guest: None,
            was_clean: true,
            server: Server::new(setup, &wide).expect("a new disk can be opened"),
            shelves: (0..).zip(wide).map(|(n, it)| Shelf::new(it, toy.data().contains(&n))).collect(),
            truth: Truth::new(toy, disk),
            wire: Vec::new(),
            pending: BTreeMap::new(),
            read: BTreeMap::new(),
            moment: 0,
            is_cold: false,
            dirty_since: BTreeMap::new(),
            run_ms: 0,
            next_generation: 1,
            count: 0,
            dice: Dice::new(0),
        };
        for deed in [Deed::Pass(1), Deed::Mount] {
            this.settle_server().expect("nothing has happened yet");
            this.step(Step { deed, salt: 0 }).expect("nothing has happened yet");
        }
        this
    }

    /// Receipts so far: how much there was to judge.
    #[must_use]
    pub fn receipts(&self) -> u64 {
        self.server.receipts()
    }

    /// Who has what: in memory, or else by what has arrived.
    fn named(&self) -> BTreeMap<Block, Owner> {
        let found = self.guest.as_ref().map(Guest::named);
        found.unwrap_or_else(|| Guest::mount(self.toy, self.truth.seen(), 0).named())
    }

    fn happen(&mut self, deed: Deed) -> Result<(), String> {
        match deed {
            Deed::Mount => self.mount(),
            Deed::Grow(file, slot, block) => self.grow(file, Some(slot), block),
            Deed::GrowIndirect(file, block) => self.grow(file, None, block),
            Deed::Create(_) | Deed::Touch(_) | Deed::Punch(..) | Deed::Truncate(_) | Deed::Delete(_) => {
                self.change_files(deed)
            }
            Deed::WriteBack(block) => self.write_back(block),
            Deed::Arrive => self.arrive_all(),
            Deed::Read(block) => self.read_again(block),
            Deed::Trim(block) => self.trim(block),
            Deed::AskInVain(block, vain) => self.ask_in_vain(block, vain),
            Deed::Flush => self.flush(),
            Deed::Unmount(is_late) => self.unmount(is_late),
            Deed::CrashGuest(lands) => self.crash_guest(lands),
            Deed::Fsck(first) => self.fsck(first),
            Deed::Pass(ms) => self.pass(ms),
            Deed::Sleep => self.sleep(),
            Deed::Turn => self.turn(),
            Deed::ShredNow => self.shred_now(),
            Deed::Restart(drains) => self.restart(drains),
            Deed::Kill(survives) => self.kill(survives),
            Deed::CutPower => self.cut_power(),
        }
    }
}

impl Space for Whole {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        let salt = crate::dice::mix(u64::from(self.count)) as u32;
        self.possible().into_iter().map(|deed| Step { deed, salt }).collect()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        self.count += 1;
        self.dice = Dice::new(u64::from(step.salt));
        self.server.reseed(self.dice.roll());
        for _ in 0..self.dice.below(self.setup.turns_max + 1) {
            self.turn()?;
        }
        self.happen(step.deed)?;
        self.note_dirty();
        Ok(())
    }

    fn digest(&self) -> u64 {
        0
    }

    fn is_over(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<Excuses, String> {
        self.settle_everything()
    }
}
