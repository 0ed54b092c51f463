//! Any writes of a guest, in any order: the two versions of the rules must
//! agree.

use crate::rules::differential::{Differential, Watchers};
use crate::rules::rule_e::differential;
use crate::rules::rule_e::search::Space;
use crate::rules::rule_e::toy::{BLOCK_BYTES, Bytes, Inode, MAP, SUPER, Super, TABLE, Toy, page, table};
use quietus_core::base::units::Millis;
use quietus_core::watch::{Attached, Observation};
use quietus_detect::formats::format::Block;
use quietus_detect::rules::options::{Grade, Options};
use std::fmt;
use std::hash::Hasher;

/// The window, and `settle`, of [`options`]: so far apart that a few steps of
/// time tell all their stages apart.
pub const WINDOW_MS: u64 = 10;
/// See [`WINDOW_MS`]. Twice as long is less than what a gap may count for.
pub const SETTLE_MS: u64 = 400;

/// Options for small state spaces.
pub fn options(grade: Grade, eager: bool) -> Options {
    Options { grade, eager, reorder_window_ms: WINDOW_MS, settle_ms: SETTLE_MS, ..Options::default() }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// All of a block is written.
    Put(Block, Page),
    Half(Block),
    /// Only one byte of the block is written.
    Byte(Block, u8, u8),
    Free(Block),
    /// A block that the rules want is read.
    Read,
    Clients(usize),
    /// A cache stands between the guest and the disk, or nothing.
    Cached(bool),
    /// The server is killed and started again.
    Restart,
    Cut,
    Proven,
    /// Verdicts are carried out; if true, also those that may still settle by themselves.
    Act(bool),
    Pass(u64),
}

/// The content of a block; listed up to its zeros.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Page(pub Bytes);

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let len = self.0.iter().rposition(|it| *it != 0).map_or(0, |it| it + 1);
        write!(f, "{:?}", &self.0[..len])
    }
}

/// A block is written that begins with `begin`.
pub(super) fn put(block: Block, begin: &[u8]) -> Step {
    Step::Put(block, Page(page(begin.iter().copied())))
}

/// The map says of one block whether it is allocated, and nothing else.
fn bit(block: Block, allocated: bool) -> Step {
    Step::Byte(MAP, block as u8, u8::from(allocated))
}

/// All bits of data are written.
fn map(allocated: bool) -> Step {
    let data = u8::from(allocated);
    let mut page = [data; BLOCK_BYTES];
    page[..3].fill(1);
    Step::Put(MAP, Page(page))
}

/// The inodes are written: the one of this number in [`INODES`].
fn inodes(n: usize) -> Step {
    Step::Put(TABLE, Page(table(INODES[n])))
}

pub(super) fn supers() -> [Step; 3] {
    let [in_use, clean] = [false, true].map(|is_clean| Super { is_clean, mended: 0, mounts: 0 });
    let mended = Super { is_clean: true, mended: 1, mounts: 0 };
    [in_use, clean, mended].map(|it| Step::Put(SUPER, Page(it.bytes())))
}

/// Contents that the only block of inodes may have.
pub const INODES: [&[Inode]; 14] = [
    &[],
    &[file(1, [3, 0], 0, 0)],
    &[file(1, [3, 4], 0, 0)],
    &[file(2, [3, 0], 0, 0)],
    &[file(1, [0, 0], 4, 0)],
    &[file(2, [0, 0], 4, 0)],
    &[Inode { links: 0, ..file(1, [3, 0], 4, 0) }],
    &[file(1, [0, 0], 0, 4)],
    &[file(1, [3, 0], 0, 0), file(1, [4, 0], 3, 0)],
    &[file(1, [0, 0], 0, 4), file(1, [0, 0], 4, 0)],
    &[file(0, [0, 0], 0, 0), file(1, [0, 0], 4, 0)],
    &[Inode { unwritten: 1, ..file(1, [3, 0], 0, 0) }],
    &[Inode { unwritten: 1, ..file(1, [3, 0], 0, 0) }, file(1, [4, 0], 3, 0)],
    &[Inode { unwritten: 1, ..file(2, [3, 0], 4, 0) }, Inode { unwritten: 1, ..file(1, [3, 0], 0, 0) }],
];

pub(super) const fn file(generation: u8, direct: [u8; 2], indirect: u8, double: u8) -> Inode {
    Inode { generation, links: 1, direct, indirect, double, unwritten: 0, age: 0 }
}

/// A part of all that can happen, which is searched by itself.
#[derive(Clone, Debug)]
pub struct Theme {
    pub name: &'static str,
    pub was_clean: bool,
    /// Whether the rules have watched the file system from the start.
    pub seen_from_start: bool,
    pub options: Options,
    pub steps: Vec<Step>,
    pub toy: Toy,
    pub disk: fn(&Theme) -> Vec<Bytes>,
}

/// The blocks of the disk: 3 and on are data.
const BLOCKS: Block = 6;

/// Two versions of the rules, and a guest that knows no rules.
#[derive(Debug)]
pub struct Fuzz {
    theme: Theme,
    watchers: Watchers,
    pub(super) differential: Differential<BLOCK_BYTES>,
}

/// A disk with one file, block 3, and a map that says so.
fn disk(theme: &Theme) -> Vec<Bytes> {
    let mut disk = theme.empty_disk();
    disk[MAP as usize][3] = 1;
    disk[TABLE as usize] = table(INODES[1]);
    disk
}

impl Theme {
    pub(super) fn empty_disk(&self) -> Vec<Bytes> {
        Toy { was_clean: self.was_clean, ..self.toy }.disk()
    }

    /// Both versions of the rules begin to watch `disk`.
    fn attach(&self, disk: Vec<Bytes>, now: Millis) -> Differential<BLOCK_BYTES> {
        let toy = self.toy.found(&disk[SUPER as usize]);
        differential(toy, disk, self.options, now, self.seen_from_start)
    }
}

impl Fuzz {
    pub fn new(theme: &Theme) -> Self {
        Self::watched_by(theme, Watchers::Both)
    }

    pub fn watched_by(theme: &Theme, watchers: Watchers) -> Self {
        let differential = theme.attach((theme.disk)(theme), Millis(1_000_000));
        Self { theme: theme.clone(), watchers, differential: differential.watched_by(watchers) }
    }
}

impl Space for Fuzz {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        self.theme.steps.clone()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Put(block, page) => drop(self.differential.write(block, 0, &page.0)?),
            Step::Half(block) => drop(self.differential.write(block, 0, &[0xee; BLOCK_BYTES / 2])?),
            Step::Byte(block, at, byte) => drop(self.differential.write(block, at.into(), &[byte])?),
            Step::Free(block) => self.differential.free(block)?,
            Step::Read => drop(self.differential.read_one()?),
            Step::Clients(clients) => self.differential.connected(clients),
            Step::Cached(is) => {
                let cached = Attached::Cached { hold_ms: SETTLE_MS };
                self.differential.attached(if is { cached } else { Attached::Direct });
            }
            Step::Restart => {
                let (disk, now) = (self.differential.disk.clone(), self.differential.now);
                self.differential = self.theme.attach(disk, now).watched_by(self.watchers);
            }
            Step::Cut => self.differential.observe(Observation::Cut),
            Step::Proven => self.differential.observe(Observation::Proven),
            Step::Act(all) => drop(self.differential.verdicts(all)?),
            Step::Pass(ms) => self.differential.pass(ms)?,
        }
        Ok(())
    }

    fn digest(&self, hasher: &mut dyn Hasher) {
        self.differential.digest(hasher);
    }

    fn is_over(&self) -> bool {
        self.differential.is_done()
    }
}

/// All steps at once, for walks.
pub fn everything(options: Options, was_clean: bool, seen_from_start: bool) -> Theme {
    let mut steps = Vec::new();
    for block in 3..BLOCKS {
        let begins = [[0, 0], [3, 0], [4, 0], [3, 5], [5, 0]];
        steps.extend(begins.map(|begin| put(block, &begin)));
        steps.extend([put(block, &[3, 5, 0, 0, 1]), put(block, &[3, 5, 0, 0, 2])]);
        steps.extend([Step::Half(block), Step::Free(block), bit(block, true), bit(block, false)]);
    }
    steps.extend([map(true), map(false)]);
    steps.extend((0..INODES.len()).map(inodes));
    steps.extend(supers());
    steps.extend([Step::Read; 6]);
    steps.extend(server());
    let name = "arbitrary writes";
    Theme { name, was_clean, seen_from_start, options, steps, toy: Toy::new(BLOCKS), disk }
}

/// Steps of the server, in a walk.
pub(super) fn server() -> Vec<Step> {
    let mut steps = vec![Step::Read; 6];
    steps.extend([Step::Cut, Step::Proven, Step::Cut, Step::Proven, Step::Act(true), Step::Act(false)]);
    steps.extend([3 * WINDOW_MS, 2000, 3 * WINDOW_MS, 2000].map(Step::Pass));
    steps.extend([0, 1, 2].map(Step::Clients));
    steps.extend([Step::Cached(true), Step::Cached(false), Step::Restart]);
    steps
}

/// A theme that the rules watch from the start, with `steps` besides those that are always possible.
pub(super) fn theme(
    (toy, disk): (Toy, fn(&Theme) -> Vec<Bytes>),
    name: &'static str,
    was_clean: bool,
    options: Options,
    steps: &[&[Step]],
) -> Theme {
    let always = [Step::Read, Step::Cut, Step::Proven, Step::Act(false), Step::Pass(2000)];
    let steps = [&always[..], &steps.concat()].concat();
    Theme { name, was_clean, seen_from_start: true, options, steps, toy, disk }
}

/// Parts that are searched each by itself: few steps, so that it goes deep.
pub fn themes() -> Vec<Theme> {
    let usual = options(Grade::Generation, false);
    let toy = Toy::new(BLOCKS);
    let theme =
        |name, was_clean, options, steps: &[&[Step]]| theme((toy, disk), name, was_clean, options, steps);
    let maps = [bit(3, true), bit(3, false), map(false), put(3, &[0, 0])];
    let files = [0, 1, 3, 6].map(inodes);
    let near = [Step::Pass(3 * WINDOW_MS), Step::Act(true), Step::Half(3), Step::Free(3)];
    let deep = [0, 4, 5, 7, 8, 9, 10].map(inodes);
    let pointers = [put(4, &[3, 0]), put(4, &[5, 3]), put(3, &[5, 0]), put(5, &[0, 0])];
    let freed = [map(false), map(true), Step::Free(4)];
    let mounts = supers();
    let prepared = [1, 11, 12, 13].map(inodes);
    let below = [put(4, &[5]), put(4, &[5, 0, 0, 0, 1]), put(5, &[]), inodes(4), inodes(0)];
    vec![
        theme("maps and files", false, usual, &[&maps, &files, &near]),
        theme("maps and files, eager", false, options(Grade::Generation, true), &[&maps, &files, &near]),
        theme("maps and files, by content", false, options(Grade::Content, false), &[&maps, &files, &near]),
        theme("maps and files, by block", false, options(Grade::Block, false), &[&maps, &files, &near]),
        theme("pointers", false, usual, &[&pointers, &deep, &freed]),
        theme("pointers, not in use", true, usual, &[&pointers, &deep, &freed]),
        theme("unwritten", false, usual, &[&maps, &prepared, &near]),
        theme("unwritten, at rest", true, usual, &[&maps[..2], &mounts, &prepared, &near[3..]]),
        theme("unwritten, in pointers", false, usual, &[&below, &freed]),
        theme("mounts", true, usual, &[&maps, &mounts, &files[..2], &near]),
        Theme {
            seen_from_start: false,
            ..theme("watched from the start", true, usual, &[&maps, &mounts, &files[..2], &near])
        },
    ]
}

/// An empty file system, for a history with the times that the product has.
pub fn empty() -> Theme {
    let options = Options { settle_ms: 8000, ..Options::default() };
    theme((Toy::new(BLOCKS), Theme::empty_disk), "kept", true, options, &[])
}
