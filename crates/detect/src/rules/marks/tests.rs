//! Marked folders without measure.

use crate::formats::format::{Branch, Marking, Owner, Role};
use crate::rules::marks::*;

/// Where the inodes begin, 16 in a block; the blocks of the folder, which is inode 1; and those of files, one each.
const TABLE: Block = 10;
const FOLDER: Block = 1 << 20;
const FILES: Block = 1 << 21;
const INODES_PER_BLOCK: u32 = 16;
/// Entries in a block of the folder.
const ENTRIES: u32 = 50;
/// Blocks in one read.
const READ_BLOCKS: u32 = 64;
const ROLE: Role = Role { level: 0, is_folder: true };

/// A file system of one marked folder, whose blocks have as many entries, each of another file, or of `links` each.
#[derive(Debug)]
struct Wide {
    folder_blocks: u32,
    links: u32,
}

impl Marking for Wide {
    fn owners(&self, block: Block, _: &[u8]) -> Vec<Owner> {
        let first = (block - TABLE) * INODES_PER_BLOCK;
        let owner = |number| Owner { number, generation: 1, is_in_use: true, is_marked: number == 1 };
        (first..first + INODES_PER_BLOCK).filter(|number| *number > 0).map(owner).collect()
    }

    fn branches_of(&self, _: Block, _: &[u8], number: u32) -> Vec<Branch> {
        vec![match number {
            1 => Branch { start: FOLDER, end: FOLDER + self.folder_blocks, role: ROLE },
            _ => Branch { start: FILES + number, end: FILES + number + 1, role: Role::MIN },
        }]
    }

    fn branches(&self, _: Role, _: &[u8]) -> Vec<Branch> {
        unreachable!("nothing has blocks of pointers")
    }

    fn entries(&self, content: &[u8]) -> Vec<u32> {
        let at = u32::from_le_bytes(content.try_into().expect("the number of the block")) * ENTRIES;
        (at..at + ENTRIES).map(|n| 2 + n / self.links).collect()
    }

    fn table_of(&self, number: u32) -> Option<Block> {
        Some(TABLE + number / INODES_PER_BLOCK)
    }

    fn owners_write(&self) -> bool {
        true
    }

    fn frees_wait(&self) -> bool {
        true
    }
}

impl Wide {
    /// The marks once nothing is left to be read, and how many blocks were.
    fn followed(&self) -> (Marks, u32) {
        let (mut marks, mut reads) = (Marks::new(FILES * 2, RoaringBitmap::new(), false), 0);
        marks.follow(|tree| tree.table_seen(self, TABLE, &[], true));
        while let Some(run) = marks.next_read(READ_BLOCKS).filter(|_| marks.note().is_ok()) {
            for block in run {
                reads += 1;
                marks.follow(|tree| match block {
                    FOLDER.. => tree.seen(self, block, &(block - FOLDER).to_le_bytes()),
                    _ => tree.table_seen(self, block, &[], false),
                });
            }
        }
        marks.surveyed();
        (marks, reads)
    }
}

#[test]
fn a_folder_of_a_million_entries_that_is_marked_at_once_is_read_once() {
    let (marks, reads) = Wide { folder_blocks: 20_000, links: 1 }.followed();
    // A block of the table in which two reads of the folder name inodes is read after each of them.
    let (tables, twice) = ((1_000_001 + 1) / INODES_PER_BLOCK, 20_000_u32.div_ceil(READ_BLOCKS));
    assert!((20_000 + tables..=20_000 + tables + twice).contains(&reads), "{reads} reads");
    assert_eq!(marks.figures()[..2], [("marked inodes", 1_000_001), ("marked blocks", 1_020_000)]);
    assert!(marks.note().is_ok());
    assert_eq!([FILES + 2, FILES + 1_000_001, FILES + 1_000_002].map(|it| marks.class(it)), {
        [Class::Sensitive, Class::Sensitive, Class::Unsettled]
    });
}

#[test]
fn beyond_the_limit_of_folders_and_links_everything_is_sensitive() {
    for wide in [Wide { folder_blocks: (1 << 20) + 1, links: 1 }, Wide { folder_blocks: 45_000, links: 2 }] {
        let (marks, _) = wide.followed();
        assert_eq!((marks.note().is_ok(), marks.class(5)), (false, Class::Sensitive), "{wide:?}");
    }
}
