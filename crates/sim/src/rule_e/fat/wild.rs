//! Whatever a guest may write to a FAT, and in whatever order: the two versions
//! of the rules must agree.

use super::{DATA, END, ENTRIES, FatToy, HEAD_BYTES, TABLE, directory, entry_at};
use crate::rule_e::search::Space;
use crate::rule_e::toy::{BLOCK_BYTES, SUPER, Super, place};
use crate::rule_e::twin;
use crate::rule_e::wild::{WINDOW_MS, options};
use crate::twin::Twin;
use quietus_core::units::{Extent, Millis};
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use std::hash::{DefaultHasher, Hash, Hasher};

/// What can happen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Step {
    /// All of a block of data is written.
    Data(Block),
    /// Half of it.
    Half(Block),
    /// The guest frees it.
    Free(Block),
    /// One entry of the table is written, and nothing else.
    Entry(Block, u8),
    /// The second block of the table is written: entries 4 and on.
    Table([u8; ENTRIES]),
    /// The directory is written.
    Directory([[u8; HEAD_BYTES]; 2]),
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

/// A part of all that can happen, which is searched by itself.
#[derive(Clone, Debug)]
pub struct Theme {
    /// What it is about.
    pub name: &'static str,
    /// What lies there at first.
    pub was_clean: bool,
    /// And was it there from the start?
    pub seen_from_start: bool,
    /// Is the table final?
    pub is_final: bool,
    /// How much is inferred.
    pub options: Options,
    /// What can happen.
    pub steps: Vec<Step>,
}

/// The blocks of the disk: 3 to 6 are data, 7 is the directory.
const BLOCKS: Block = 8;
/// The end of the data.
const DATA_END: Block = BLOCKS - 1;

/// Two versions of the rules, and a guest that knows no rules.
#[derive(Debug)]
pub struct Wild {
    twin: Twin<BLOCK_BYTES>,
    steps: Vec<Step>,
}

impl Wild {
    /// A disk with one file: block 3, then 4.
    #[must_use]
    pub fn new(theme: &Theme) -> Self {
        let toy = FatToy { blocks: BLOCKS, was_clean: theme.was_clean, is_final: theme.is_final };
        let mut disk = toy.disk();
        for (block, entry) in [(3, 4), (4, END)] {
            disk[(TABLE + block / ENTRIES as Block) as usize][block as usize % ENTRIES] = entry;
        }
        let twin = twin(toy, disk, theme.options, Millis(1_000_000), theme.seen_from_start);
        Self { twin, steps: theme.steps.clone() }
    }

    fn write(&mut self, block: Block, bytes: &[u8]) -> Result<(), String> {
        let extent = Extent::new(place(block).start.0, bytes.len() as u64);
        self.twin.write(extent, bytes, true).map(drop)
    }

    fn write_table(&mut self, entries: [u8; ENTRIES]) -> Result<(), String> {
        let mut bytes = [0; BLOCK_BYTES];
        bytes[..ENTRIES].copy_from_slice(&entries);
        self.write(TABLE + 1, &bytes)
    }
}

impl Space for Wild {
    type Step = Step;

    fn steps(&self) -> Vec<Step> {
        self.steps.clone()
    }

    fn step(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Data(block) => self.write(block, &[0xee; BLOCK_BYTES]),
            Step::Half(block) => self.write(block, &[0xdd; BLOCK_BYTES / 2]),
            Step::Free(block) => self.twin.free(block),
            Step::Entry(block, entry) => self.twin.write(entry_at(block), &[entry], true).map(drop),
            Step::Table(entries) => self.write_table(entries),
            Step::Directory(heads) => self.write(BLOCKS - 1, &directory(&heads)),
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
pub fn everything(options: Options, was_clean: bool, seen_from_start: bool, is_final: bool) -> Theme {
    let mut steps = Vec::new();
    for block in DATA..DATA_END {
        steps.extend([Step::Data(block), Step::Half(block), Step::Free(block)]);
        steps.extend([0, 3, 4, 5, END].map(|entry| Step::Entry(block, entry)));
    }
    steps.extend(tables());
    steps.extend(directories());
    steps.extend(supers());
    steps.extend([Step::Read; 6]);
    steps.extend([Step::Cut, Step::Proven, Step::Cut, Step::Proven, Step::Act(true), Step::Act(false)]);
    steps.extend([3 * WINDOW_MS, 2000, 3 * WINDOW_MS, 2000].map(Step::Pass));
    Theme { name: "everything", was_clean, seen_from_start, is_final, options, steps }
}

/// Nothing, a chain of two, one of three with its head elsewhere, a circle.
fn tables() -> [Step; 5] {
    [[0; 4], [5, END, 0, 0], [END, 4, 0, 0], [5, 6, END, 0], [5, 4, 0, 0]].map(Step::Table)
}

/// Nothing, one file, the same as another one, a second, two that have the same block.
fn directories() -> [Step; 5] {
    let both = [[[0, 0], [0, 0]], [[3, 1], [0, 0]], [[3, 2], [0, 0]], [[3, 2], [5, 1]], [[4, 1], [4, 2]]];
    both.map(Step::Directory)
}

fn supers() -> [Step; 3] {
    let [in_use, clean] = [false, true].map(|is_clean| Super { is_clean, mended: 0, mounts: 0 });
    [in_use, clean, Super { is_clean: true, mended: 1, mounts: 0 }].map(Step::Super)
}

/// Parts that are searched each by itself: few steps, so that it goes deep.
#[must_use]
pub fn themes() -> Vec<Theme> {
    let usual = options(Grade::Generation, false);
    let by = |grade| options(grade, false);
    let theme = |name, was_clean, options, steps: &[&[Step]]| {
        let always = [Step::Read, Step::Cut, Step::Proven, Step::Act(false), Step::Pass(2000)];
        let steps = [&always[..], &steps.concat()].concat();
        Theme { name, was_clean, seen_from_start: true, is_final: true, options, steps }
    };
    let near = [Step::Pass(3 * WINDOW_MS), Step::Act(true), Step::Half(4), Step::Free(4)];
    let entries = [(3, 0), (3, 4), (3, 5), (4, 0), (4, END), (5, 4)].map(|(it, to)| Step::Entry(it, to));
    let data = [Step::Data(4), Step::Data(3)];
    let (tables, directories, mounts) = (tables(), directories(), supers());
    vec![
        theme("fat: entries", false, usual, &[&entries, &data, &near]),
        theme("fat: entries, eager", false, options(Grade::Generation, true), &[&entries, &data, &near]),
        theme("fat: entries, by content", false, by(Grade::Content), &[&entries, &data, &near]),
        theme("fat: entries, by block", false, by(Grade::Block), &[&entries, &data, &near]),
        theme("fat: tables", false, usual, &[&tables, &data, &near]),
        theme("fat: tables, not in use", true, usual, &[&tables, &data, &near]),
        theme("fat: tables and entries", false, usual, &[&tables, &entries[..2], &data]),
        theme("fat: directories", false, usual, &[&directories, &entries[..2], &data, &near]),
        theme("fat: directories, by content", false, by(Grade::Content), &[&directories, &data, &near]),
        theme("fat: directories, not in use", true, usual, &[&directories, &tables[..2], &data, &near]),
        theme(
            "fat: mounts and directories",
            true,
            usual,
            &[&mounts, &directories[..4], &entries[..2], &data],
        ),
        theme("fat: mounts", true, usual, &[&mounts, &entries[..4], &data, &near]),
        theme("fat: mounts and tables", true, usual, &[&mounts, &tables[..3], &data, &near]),
        Theme {
            seen_from_start: false,
            ..theme("fat: made under our eyes", true, usual, &[&mounts, &entries[..4], &data, &near])
        },
        Theme {
            is_final: false,
            ..theme("fat: a table that needs rest", false, usual, &[&entries, &data, &near])
        },
        Theme {
            is_final: false,
            ..theme("fat: a table that needs rest, mounts", true, usual, &[&mounts, &entries, &data])
        },
    ]
}
