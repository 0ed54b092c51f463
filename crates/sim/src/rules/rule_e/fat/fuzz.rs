//! Any writes of a guest to a FAT, in any order: the two versions of the rules
//! must agree.

use crate::rules::rule_e::fat::{DATA, ENTRIES, TABLE};
use crate::rules::rule_e::fuzz::{Step, Theme, WINDOW_MS, options, put, server, supers, theme};
use crate::rules::rule_e::toy::{BLOCK_BYTES, Bytes, FAT_END, Layout, Toy};
use quietus_detect::formats::format::Block;
use quietus_detect::rules::options::{Grade, Options};

/// The blocks of the disk: 3 to 6 are data, 7 is the directory.
const BLOCKS: Block = 8;
const DATA_END: Block = BLOCKS - 1;
const WHOLE: [u8; BLOCK_BYTES] = [0xee; BLOCK_BYTES];

/// A disk with one file: block 3, then 4.
fn disk(theme: &Theme) -> Vec<Bytes> {
    let mut disk = theme.empty_disk();
    for (block, entry) in [(3, 4), (4, FAT_END)] {
        disk[(TABLE + block / ENTRIES as Block) as usize][block as usize % ENTRIES] = entry;
    }
    disk
}

fn toy(is_final: bool) -> Toy {
    Toy { layout: Layout::Fat { is_final }, ..Toy::new(BLOCKS) }
}

/// One entry of the table is written, and nothing else.
fn entry_is(block: Block, entry: u8) -> Step {
    Step::Byte(TABLE + block / ENTRIES as Block, block as u8 % ENTRIES as u8, entry)
}

/// All steps at once, for walks.
pub fn everything(options: Options, was_clean: bool, seen_from_start: bool, is_final: bool) -> Theme {
    let mut steps = Vec::new();
    for block in DATA..DATA_END {
        steps.extend([put(block, &WHOLE), Step::Half(block), Step::Free(block)]);
        steps.extend([0, 3, 4, 5, FAT_END].map(|entry| entry_is(block, entry)));
    }
    steps.extend(tables());
    steps.extend(directories());
    steps.extend(supers());
    steps.extend(server());
    let name = "arbitrary writes to a FAT";
    Theme { name, was_clean, seen_from_start, options, steps, toy: toy(is_final), disk }
}

/// Nothing, a chain of two, one of three with its head elsewhere, a circle.
fn tables() -> [Step; 5] {
    [[0; 4], [5, FAT_END, 0, 0], [FAT_END, 4, 0, 0], [5, 6, FAT_END, 0], [5, 4, 0, 0]]
        .map(|it| put(TABLE + 1, &it))
}

/// Nothing, one file, the same as another one, a second, two that have the same block.
fn directories() -> [Step; 5] {
    let both = [[[0, 0], [0, 0]], [[3, 1], [0, 0]], [[3, 2], [0, 0]], [[3, 2], [5, 1]], [[4, 1], [4, 2]]];
    both.map(|heads| put(BLOCKS - 1, heads.as_flattened()))
}

/// Parts that are searched each by itself: few steps, so that it goes deep.
pub fn themes() -> Vec<Theme> {
    let usual = options(Grade::Generation, false);
    let by = |grade| options(grade, false);
    let theme = |name, was_clean, options, steps: &[&[Step]]| {
        theme((toy(true), disk), name, was_clean, options, steps)
    };
    let near = [Step::Pass(3 * WINDOW_MS), Step::Act(true), Step::Half(4), Step::Free(4)];
    let entries = [(3, 0), (3, 4), (3, 5), (4, 0), (4, FAT_END), (5, 4)].map(|(it, to)| entry_is(it, to));
    let data = [put(4, &WHOLE), put(3, &WHOLE)];
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
            ..theme("fat: watched from the start", true, usual, &[&mounts, &entries[..4], &data, &near])
        },
        Theme {
            toy: toy(false),
            ..theme("fat: a table that needs rest", false, usual, &[&entries, &data, &near])
        },
        Theme {
            toy: toy(false),
            ..theme("fat: a table that needs rest, mounts", true, usual, &[&mounts, &entries, &data])
        },
    ]
}
