//! Whatever a guest may write, and in whatever order: the two versions of the
//! rules must agree.

use crate::rule_e::search::Space;
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, Inode, MAP, SUPER, Super, TABLE, Toy, place, table};
use crate::rule_e::twin;
use crate::twin::Twin;
use quietus_core::units::{Extent, Millis};
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The window, and `settle`, of [`options`]: so far apart that few steps of
/// time tell all their stages.
pub const WINDOW_MS: u64 = 10;
/// See [`WINDOW_MS`]. Twice as long is less than what a gap may count for.
pub const SETTLE_MS: u64 = 400;

/// Options for small state spaces.
#[must_use]
pub fn options(grade: Grade, eager: bool) -> Options {
    Options { grade, eager, reorder_window_ms: WINDOW_MS, settle_ms: SETTLE_MS }
}

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// All of a block is written: data that begins with these bytes.
    Data(Block, [u8; 2]),
    /// Half of it.
    Half(Block),
    /// The guest frees it.
    Free(Block),
    /// The map says of one block whether it is allocated, and nothing else.
    Bit(Block, bool),
    /// All bits of data are written.
    Map(bool),
    /// The inodes are written: the one of this number in [`INODES`].
    Inodes(usize),
    /// The superblock is written.
    Super(Super),
    /// Something that is wanted is read.
    Read,
    /// Evidence is being made durable.
    Cut,
    /// It is.
    Proven,
    /// Verdicts are carried out; also those that may settle themselves?
    Act(bool),
    /// Milliseconds pass.
    Pass(u64),
}

/// What the only block of inodes may hold.
pub const INODES: [&[Inode]; 11] = [
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
];

const fn file(generation: u8, direct: [u8; 2], indirect: u8, double: u8) -> Inode {
    Inode { generation, links: 1, direct, indirect, double }
}

/// A part of all that can happen, which is searched by itself.
#[derive(Clone, Debug)]
pub struct Theme {
    /// What it is about.
    pub name: &'static str,
    /// What lies there at first.
    pub was_clean: bool,
    /// And was it there from the start?
    pub seen_from_start: bool,
    /// How much is inferred.
    pub options: Options,
    /// What can happen.
    pub steps: Vec<Step>,
}

/// The blocks of the disk: 3 and on are data.
const BLOCKS: Block = 6;

/// Two versions of the rules, and a guest that knows no rules.
#[derive(Debug)]
pub struct Wild {
    twin: Twin<BLOCK_BYTES>,
    steps: Vec<Step>,
}

impl Wild {
    /// A disk with one file, block 3, and a map that says so.
    #[must_use]
    pub fn new(theme: &Theme) -> Self {
        let toy = Toy { blocks: BLOCKS, inode_blocks: 1, journal: 0, was_clean: theme.was_clean };
        let mut disk = vec![[0; BLOCK_BYTES]; BLOCKS as usize];
        disk[SUPER as usize] = Super { is_clean: theme.was_clean, mended: 0, mounts: 0 }.bytes();
        disk[MAP as usize][..4].fill(1);
        disk[TABLE as usize] = table(INODES[1]);
        let twin = twin(toy, disk, theme.options, Millis(1_000_000), theme.seen_from_start);
        Self { twin, steps: theme.steps.clone() }
    }

    fn write_map(&mut self, allocated: bool) -> Result<(), String> {
        let mut bytes: Bytes = [0; BLOCK_BYTES];
        bytes[..3].fill(1);
        bytes[3..].fill(u8::from(allocated));
        self.write(MAP, &bytes)
    }

    fn write(&mut self, block: Block, bytes: &[u8]) -> Result<(), String> {
        let extent = Extent::new(place(block).start.0, bytes.len() as u64);
        self.twin.write(extent, bytes, true).map(drop)
    }

    fn write_bit(&mut self, block: Block, allocated: bool) -> Result<(), String> {
        let at = Extent::new(place(MAP).start.0 + u64::from(block), 1);
        self.twin.write(at, &[u8::from(allocated)], true).map(drop)
    }

    fn write_data(&mut self, block: Block, begin: [u8; 2]) -> Result<(), String> {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[..2].copy_from_slice(&begin);
        self.write(block, &bytes)
    }
}

impl Space for Wild {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Data(block, begin) => self.write_data(block, begin),
            Step::Half(block) => self.write(block, &[0xee; BLOCK_BYTES / 2]),
            Step::Free(block) => self.twin.free(block),
            Step::Bit(block, allocated) => self.write_bit(block, allocated),
            Step::Map(allocated) => self.write_map(allocated),
            Step::Inodes(n) => self.write(TABLE, &table(INODES[n])),
            Step::Super(content) => self.write(SUPER, &content.bytes()),
            Step::Read => self.twin.read_one().map(drop),
            Step::Cut => {
                self.twin.cut();
                Ok(())
            }
            Step::Proven => {
                self.twin.proven();
                Ok(())
            }
            Step::Act(all) => self.twin.verdicts(true, all).map(drop),
            Step::Pass(ms) => self.twin.pass(ms),
        }
    }

    fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.twin.disk().hash(&mut hasher);
        if let Some(literal) = self.twin.literal() {
            literal.digest(&mut hasher);
        }
        hasher.finish()
    }

    fn is_over(&self) -> bool {
        self.twin.is_over() || self.twin.literal().is_none()
    }
}

/// Everything at once: for walks.
#[must_use]
pub fn everything(options: Options, was_clean: bool, seen_from_start: bool) -> Theme {
    let mut steps = Vec::new();
    for block in 3..BLOCKS {
        let begins = [[0, 0], [3, 0], [4, 0], [3, 5], [5, 0]];
        steps.extend(begins.map(|begin| Step::Data(block, begin)));
        steps.extend([Step::Half(block), Step::Free(block), Step::Bit(block, true), Step::Bit(block, false)]);
    }
    steps.extend([Step::Map(true), Step::Map(false)]);
    steps.extend((0..INODES.len()).map(Step::Inodes));
    steps.extend(supers().map(Step::Super));
    steps.extend([Step::Read; 12]);
    steps.extend([Step::Cut, Step::Proven, Step::Cut, Step::Proven, Step::Act(true), Step::Act(false)]);
    steps.extend([3 * WINDOW_MS, 2000, 3 * WINDOW_MS, 2000].map(Step::Pass));
    Theme { name: "everything", was_clean, seen_from_start, options, steps }
}

/// Parts that are searched each by itself: few steps, so that it goes deep.
#[must_use]
pub fn themes() -> Vec<Theme> {
    let usual = options(Grade::Generation, false);
    let theme = |name, was_clean, options, steps: &[&[Step]]| {
        let always = [Step::Read, Step::Cut, Step::Proven, Step::Act(false), Step::Pass(2000)];
        Theme {
            name,
            was_clean,
            seen_from_start: true,
            options,
            steps: [&always[..], &steps.concat()].concat(),
        }
    };
    let maps = [Step::Bit(3, true), Step::Bit(3, false), Step::Map(false), Step::Data(3, [0, 0])];
    let files = [0, 1, 3, 6].map(Step::Inodes);
    let near = [Step::Pass(3 * WINDOW_MS), Step::Act(true), Step::Half(3), Step::Free(3)];
    let deep = [0, 4, 5, 7, 8, 9, 10].map(Step::Inodes);
    let pointers =
        [Step::Data(4, [3, 0]), Step::Data(4, [5, 3]), Step::Data(3, [5, 0]), Step::Data(5, [0, 0])];
    let freed = [Step::Map(false), Step::Map(true), Step::Free(4)];
    let mounts = supers().map(Step::Super);
    vec![
        theme("maps and files", false, usual, &[&maps, &files, &near]),
        theme("maps and files, eager", false, options(Grade::Generation, true), &[&maps, &files, &near]),
        theme("maps and files, by content", false, options(Grade::Content, false), &[&maps, &files, &near]),
        theme("maps and files, by block", false, options(Grade::Block, false), &[&maps, &files, &near]),
        theme("pointers", false, usual, &[&pointers, &deep, &freed]),
        theme("pointers, not in use", true, usual, &[&pointers, &deep, &freed]),
        theme("mounts", true, usual, &[&maps, &mounts, &files[..2], &near]),
        Theme {
            seen_from_start: false,
            ..theme("made under our eyes", true, usual, &[&maps, &mounts, &files[..2], &near])
        },
    ]
}

fn supers() -> [Super; 3] {
    let [in_use, clean] = [false, true].map(|is_clean| Super { is_clean, mended: 0, mounts: 0 });
    [in_use, clean, Super { is_clean: true, mended: 1, mounts: 0 }]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::silence_panics;
    use quietus_core::watch::Verdict;

    #[test]
    fn data_of_a_block_that_changed_its_owner_and_its_level_names_nothing() {
        silence_panics();
        let theme = everything(options(Grade::Generation, false), false, true);
        let mut wild = Wild::new(&theme);
        // Block 4 is the old owner's of level 2, and then the new one's of level 1, whose data,
        // block 5, begins like a pointer to block 3.
        let owners =
            [Step::Map(true), Step::Inodes(7), Step::Data(4, [5, 0]), Step::Read, Step::Data(5, [3, 0])];
        let change = [Step::Read, Step::Read, Step::Inodes(9), Step::Inodes(10)];
        let freed = [
            Step::Pass(2000),
            Step::Bit(3, false),
            Step::Read,
            Step::Read,
            Step::Read,
            Step::Cut,
            Step::Proven,
        ];
        for step in [&owners[..], &change, &freed].concat() {
            wild.step(step).expect("both versions agree");
        }
        let verdicts = wild.twin.verdicts(true, false).expect("both versions agree");
        assert_eq!(verdicts.get(&3), Some(&Verdict::Dead));
    }
}
