//! Marks of the toy's files: every second generation has one, from its creation on; and so has a file without
//! content that is always there.

use crate::rules::rule_e::toy::{BLOCK_BYTES, INODE_BYTES, Inode, POINTERS, Toy};
use quietus_detect::formats::format::{Block, Branch, Kind, Marking, Owner, Role};

/// The number of the file that is always there.
const ALWAYS: u32 = 0xFFFF;

/// Whether files of this generation are marked.
pub fn is_marked(generation: u8) -> bool {
    generation % 2 == 1
}

impl Toy {
    fn branch(&self, block: u8, level: u8) -> Option<Branch> {
        let start = Block::from(block);
        let role = Role { level, is_folder: false };
        self.data().contains(&start).then_some(Branch { start, end: start + 1, role })
    }
}

impl Marking for Toy {
    fn owners(&self, _: Block, content: &[u8]) -> Vec<Owner> {
        let always = Owner { number: ALWAYS, generation: 0, is_in_use: true, is_marked: true };
        let inodes = content[..BLOCK_BYTES].chunks_exact(INODE_BYTES).map(Inode::from_bytes);
        let owner = |(number, inode): (u32, Inode)| Owner {
            number,
            generation: inode.generation.into(),
            is_in_use: inode.links > 0,
            is_marked: is_marked(inode.generation),
        };
        (0..).zip(inodes).map(owner).chain([always]).collect()
    }

    fn branches_of(&self, _: Block, content: &[u8], number: u32) -> Vec<Branch> {
        let mut slots = content[..BLOCK_BYTES].chunks_exact(INODE_BYTES);
        let owned = slots.nth(number as usize).map(|it| Inode::from_bytes(it).owns()).unwrap_or_default();
        let level = |kind| if let Kind::Pointers(level) = kind { level } else { 0 };
        owned.into_iter().filter_map(|(block, kind)| self.branch(block, level(kind))).collect()
    }

    fn branches(&self, role: Role, content: &[u8]) -> Vec<Branch> {
        content[..POINTERS].iter().filter_map(|block| self.branch(*block, role.level - 1)).collect()
    }

    fn entries(&self, _: &[u8]) -> Vec<u32> {
        Vec::new()
    }

    fn table_of(&self, _: u32) -> Option<Block> {
        None
    }

    fn owners_write(&self) -> bool {
        true
    }

    fn frees_wait(&self) -> bool {
        self.frees_wait
    }
}
