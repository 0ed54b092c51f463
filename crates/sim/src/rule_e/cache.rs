//! The same guest above a cache that holds its writes back, merges them and sends them in any
//! order: a host's page cache, with another one below it.
//!
//! Each of the two layers has one copy of a block, the newest that it was given. A write passes
//! both within [`HOLD_MS`] of the guest's time; no more is known of its way.

mod life;
mod steps;

use crate::rule_e::guest::deeds::Deed;
use crate::rule_e::guest::{Guest, Owner};
use crate::rule_e::judge::{Excuses, Judge};
use crate::rule_e::search::{Space, happen_and_finish};
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, MAP, SUPER, Super, Toy};
use crate::rule_e::trial::{Part, walked_through};
use crate::rule_e::twin;
use crate::twin::Twin;
use quietus_core::units::Millis;
use quietus_core::watch::Attached;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Longest time that the cache holds a write back.
pub const HOLD_MS: u64 = 3000;
/// Time that a guest needs to settle, ms: it writes back within half of that.
const SETTLE_MS: u64 = 2000;
const WINDOW_MS: u64 = 500;
const FILES: usize = 3;

/// Copies of blocks, and since when the guest's oldest write waits in each.
type Layer = BTreeMap<Block, (Bytes, u64)>;

/// A guest, a cache and a disk.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Blocks of data.
    pub data: Block,
    /// The rules are told of the cache.
    pub is_told: bool,
    /// The guest and its host may crash, and the server may be killed.
    pub crashes: bool,
    /// The literal version of the rules watches too.
    pub compares: bool,
}

/// Possible steps.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// The file system is mounted.
    Mount,
    /// A process does something.
    Do(Deed),
    /// The guest writes a block as it is now: the cache takes it.
    WriteBack(Block),
    /// The upper layer hands a block to the lower one.
    Sink(Block),
    /// The lower layer sends a block to the server.
    Emit(Block),
    /// The cache sends a block again that it has sent: a part of the same page was written.
    Resend(Block),
    /// The guest writes everything and flushes; a cache that obeys sends everything.
    Sync(bool),
    /// The file system is unmounted; a cache that obeys flushes sends everything.
    Unmount(bool),
    /// The guest crashes; the cache goes on.
    Crash,
    /// The host loses its power, and its cache with it.
    PowerCut,
    /// The file system is mended, through the cache.
    Fsck,
    /// The cache comes (the rules are told at once), or goes once it is empty.
    Between(bool),
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
    /// Milliseconds pass.
    Pass(u64),
    /// Milliseconds pass while guest and host are asleep.
    Sleep,
}

/// A guest, its cache, a disk, a watcher, a judge.
#[derive(Debug)]
pub struct Cached {
    setup: Setup,
    toy: Toy,
    guest: Option<Guest>,
    was_clean: bool,
    twin: Twin<BLOCK_BYTES>,
    judge: Judge,
    upper: Layer,
    lower: Layer,
    /// Contents that were sent, as long as nothing newer was.
    sent: BTreeMap<Block, Bytes>,
    is_between: bool,
    dirty_since: BTreeMap<Block, u64>,
    run_ms: u64,
    next_generation: u8,
    is_cut: bool,
}

impl Cached {
    /// An empty file system, mounted below a cache.
    ///
    /// # Panics
    /// If the versions of the rules disagree on that.
    #[must_use]
    pub fn new(setup: Setup) -> Self {
        let toy = Toy { blocks: 3 + setup.data, inode_blocks: 1, journal: 0, was_clean: true };
        let mut disk = vec![[0; BLOCK_BYTES]; toy.blocks as usize];
        disk[SUPER as usize] = Super { is_clean: true, mended: 0, mounts: 0 }.bytes();
        disk[MAP as usize][..3].fill(1);
        let judge = Judge::new(toy, &disk);
        let twin = attach(setup, toy, disk, Millis(1_000_000));
        let mut this = Self {
            setup,
            toy,
            guest: None,
            was_clean: true,
            twin,
            judge,
            upper: Layer::new(),
            lower: Layer::new(),
            sent: BTreeMap::new(),
            is_between: true,
            dirty_since: BTreeMap::new(),
            run_ms: 0,
            next_generation: 1,
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
            let cached = Attached::Cached { hold_ms: HOLD_MS };
            self.twin.attached(if self.is_between { cached } else { Attached::Direct });
        }
    }

    /// The disk as the guest reads it.
    fn seen(&self) -> Vec<Bytes> {
        let mut disk = self.twin.disk().to_vec();
        for (block, (bytes, _)) in self.lower.iter().chain(&self.upper) {
            disk[*block as usize] = *bytes;
        }
        disk
    }

    /// The owner of each block: in memory, or else by what lies on the disk.
    fn named(&self) -> BTreeMap<Block, Owner> {
        let found = self.guest.as_ref().map(Guest::named);
        found.unwrap_or_else(|| Guest::mount(self.toy, &self.seen(), 0).named())
    }
}

fn attach(setup: Setup, toy: Toy, disk: Vec<Bytes>, now: Millis) -> Twin<BLOCK_BYTES> {
    let options = Options {
        grade: Grade::Generation,
        eager: false,
        reorder_window_ms: WINDOW_MS,
        settle_ms: SETTLE_MS,
    };
    let twin = twin(toy, disk, options, now, true);
    if setup.compares { twin } else { twin.alone() }
}

impl Space for Cached {
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
        (&self.guest, self.was_clean, self.twin.disk(), &self.upper, &self.lower, &self.sent, self.is_cut)
            .hash(&mut hasher);
        (self.run_ms, self.is_between).hash(&mut hasher);
        self.judge.essence().hash(&mut hasher);
        hasher.finish()
    }

    fn is_over(&self) -> bool {
        false
    }

    fn finish(&mut self) -> Result<Excuses, String> {
        self.settle_everything()
    }
}

fn setup_of(seed: u64) -> Setup {
    let data = 1 + (seed / 2 % 5) as u32;
    Setup { data, is_told: true, crashes: seed % 3 == 1, compares: true }
}

/// The walk of `seed` through a guest's life above a cache.
#[must_use]
pub fn walked(seed: u64) -> Part {
    walked_through("a guest above a cache", seed, || Cached::new(setup_of(seed)))
}

/// The same, and only the judge watches.
#[must_use]
pub fn judged(seed: u64) -> Part {
    let setup = Setup { compares: false, ..setup_of(seed) };
    walked_through("a guest above a cache", seed, || Cached::new(setup))
}

/// The same, and nobody tells the rules of the cache.
#[must_use]
pub fn untold(seed: u64) -> Part {
    let setup = Setup { is_told: false, compares: false, ..setup_of(seed) };
    walked_through("a guest above a cache that nobody knows of", seed, || Cached::new(setup))
}

/// Lets `steps` happen to a guest above a cache of which the rules are told, or not; only the
/// judge watches.
///
/// # Errors
/// The first broken promise.
pub fn retold(steps: &[Step], is_told: bool) -> Result<(), String> {
    let setup = Setup { data: 3, is_told, crashes: true, compares: false };
    happen_and_finish(&mut Cached::new(setup), steps).map(drop)
}

/// Histories in which live data is destroyed if nobody tells the rules of the cache: what they
/// show, as a fact, and what happens.
#[must_use]
pub fn histories() -> Vec<(&'static str, Vec<Step>)> {
    use Deed::{Create, Grow};
    use Step::{Act, Cut, Do, Emit, Pass, Proven, Read, Sink, Unmount, WriteBack};
    let mounted = [Sink(SUPER), Emit(SUPER)];
    // The map leaves the guest before block 3 is allocated.
    let early = [Do(Create(0)), Do(Grow(0, 0, 4)), WriteBack(MAP), Sink(MAP)];
    let again = [Do(Grow(0, 1, 5)), WriteBack(MAP)];
    let written = [Do(Create(1)), Do(Grow(1, 0, 3)), WriteBack(3), Sink(3), Emit(3)];
    let late = [Pass(700), Pass(700), Emit(MAP)];
    let in_turn = [Emit(MAP), Sink(MAP), Emit(MAP)];
    let unmounted = [Unmount(false), Sink(SUPER), Emit(SUPER), Pass(700), Read];
    let history = |steps: &[&[Step]]| [&mounted[..], &steps.concat(), &[Cut, Proven, Act(false)]].concat();
    vec![
        ("a_map_that_is_held_back_proves_nothing", history(&[&early, &written, &late])),
        (
            "the_second_of_two_maps_that_are_held_back_proves_nothing",
            history(&[&early, &again, &written, &in_turn]),
        ),
        ("an_unmount_that_overtakes_the_map_proves_nothing", history(&[&written, &unmounted])),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::silence_panics;

    #[test]
    fn live_data_dies_below_a_cache_that_nobody_knows_of() {
        silence_panics();
        for (name, steps) in histories() {
            let broken = retold(&steps, false).expect_err(name);
            assert!(broken.starts_with("safety"), "{name}: {broken}");
        }
    }

    #[test]
    fn live_data_stays_below_a_cache_that_is_known() {
        silence_panics();
        for (name, steps) in histories() {
            assert_eq!(retold(&steps, true), Ok(()), "{name}");
        }
    }
}
