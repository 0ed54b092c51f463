//! A FAT in the memory of a guest: it knows what it owns.
//!
//! It gives the disk what FAT gives, and no more. What is written is as it is in
//! memory; what was freed is not written any more; a free block is used again at
//! once. Where a file begins stands in the directory, which is written for the rules to
//! see; the guest itself never forgets it, as if it had others.

use super::{DATA, END, ENTRIES, FatToy, HEAD_BYTES, TABLE, directory, entries, table};
use crate::rule_e::guest::actions::Action;
use crate::rule_e::toy::{Bytes, page};
use quietus_detect::format::Block;
use std::collections::{BTreeMap, BTreeSet};

/// Files at once.
pub const FILES: usize = 2;

/// The memory of a guest that has mounted the file system.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Memory {
    toy: FatToy,
    entries: Vec<u8>,
    /// The first block of each file that has one.
    pub heads: [Option<Block>; FILES],
    /// How often each file was made anew.
    generations: [u8; FILES],
    /// Blocks that are allocated to files, and the stay that each is in.
    pub stays: BTreeMap<Block, u16>,
    /// Blocks that differ from the disk, or may.
    pub dirty: BTreeSet<Block>,
    touched: u8,
}

impl Memory {
    /// Reads what lies on `disk`, with files that begin at `heads`; the stays are for the caller to note.
    pub fn mount(toy: FatToy, disk: &[Bytes], heads: [Option<Block>; FILES]) -> Self {
        let entries = entries(disk);
        let heads = heads.map(|it| it.filter(|block| entries[*block as usize] != 0));
        let lies = &disk[toy.directory() as usize];
        let generations = std::array::from_fn(|file| lies[file * HEAD_BYTES + 1]);
        let (stays, dirty) = (BTreeMap::new(), BTreeSet::new());
        Self { toy, entries, heads, generations, stays, dirty, touched: 0 }
    }

    /// The blocks of `file`; a chain that goes in circles, or ends in a free
    /// block, ends there.
    pub fn chain(&self, file: usize) -> Vec<Block> {
        let mut chain = Vec::new();
        let mut next = self.heads[file];
        while let Some(block) = next.filter(|it| self.is_allocated(*it) && !chain.contains(it)) {
            chain.push(block);
            next = Some(Block::from(self.entries[block as usize]));
        }
        chain
    }

    /// Whether the table has `block` in use.
    pub fn is_allocated(&self, block: Block) -> bool {
        self.toy.data().contains(&block) && self.entries[block as usize] != 0
    }

    pub fn free(&self) -> Vec<Block> {
        self.toy.data().filter(|it| self.entries[*it as usize] == 0).collect()
    }

    fn set(&mut self, block: Block, entry: u8) {
        self.entries[block as usize] = entry;
        self.dirty.insert(TABLE + block / ENTRIES as Block);
    }

    /// Gives `file` the free `block`, at its end, in `stay`.
    fn grow(&mut self, file: usize, block: Block, stay: u16) {
        assert!(!self.is_allocated(block), "only what is free is allocated");
        match self.chain(file).last() {
            Some(last) => self.set(*last, block as u8),
            None => self.begin(file, Some(block)),
        }
        self.set(block, END);
        self.stays.insert(block, stay);
        self.dirty.insert(block);
    }

    /// Cuts `file` off behind its first `len` blocks.
    fn cut_off(&mut self, file: usize, len: usize) {
        let chain = self.chain(file);
        for block in chain.iter().skip(len) {
            self.set(*block, 0);
            self.stays.remove(block);
            self.dirty.remove(block);
        }
        match chain[..len.min(chain.len())].last() {
            Some(last) if len < chain.len() => self.set(*last, END),
            Some(_) => {}
            None => self.begin(file, None),
        }
    }

    /// `file` begins at `head`, as another one than before.
    fn begin(&mut self, file: usize, head: Option<Block>) {
        self.heads[file] = head;
        self.generations[file] = self.generations[file].wrapping_add(u8::from(head.is_some()));
        if self.toy.is_final {
            self.dirty.insert(self.toy.directory());
        }
    }

    fn directory(&self) -> Bytes {
        let entry = |file: usize| [self.heads[file].unwrap_or(0) as u8, self.generations[file]];
        directory(&std::array::from_fn::<_, FILES, _>(entry))
    }

    /// What can be done to files, but for writing something again.
    pub fn actions(&self) -> Vec<Action> {
        let free = self.free();
        let of_file = |file| {
            let len = self.chain(file).len();
            let grow = free.iter().map(move |it| Action::Grow(file, len, *it));
            grow.chain((0..len).map(move |it| Action::Punch(file, it))).collect::<Vec<_>>()
        };
        (0..FILES).flat_map(of_file).collect()
    }

    /// Does `action`, if it can be done; `begin` gives a stay to the block that is allocated. A file
    /// that loses what it has in a slot loses all that follows.
    pub fn does(&mut self, action: Action, begin: impl FnOnce(Block) -> u16) {
        match action {
            Action::Grow(file, _, block) if self.free().contains(&block) => {
                self.grow(file, block, begin(block))
            }
            Action::Punch(file, len) => self.cut_off(file, len),
            Action::Touch(block) => self.touch(block),
            _ => {}
        }
    }

    /// Writes `block` of a file again.
    fn touch(&mut self, block: Block) {
        if self.stays.contains_key(&block) {
            self.touched = self.touched.wrapping_add(1);
            self.dirty.insert(block);
        }
    }

    /// `block` as it is in memory, to be written.
    pub fn write_back(&mut self, block: Block) -> Bytes {
        self.dirty.remove(&block);
        if block < DATA {
            return table(block - TABLE, &self.entries);
        }
        if block == self.toy.directory() {
            return self.directory();
        }
        page([DATA as u8, END, block as u8, self.touched])
    }

    /// What a check makes of the table: chains end where they lead nowhere, and
    /// what is of no file is free.
    pub fn mend(&mut self) {
        let mut taken = BTreeSet::new();
        for file in 0..FILES {
            let chain = self.chain(file);
            let own = chain.iter().take_while(|it| taken.insert(**it)).count();
            match chain[..own].last() {
                Some(last) if !self.leads_on(*last, chain.get(own)) => self.set(*last, END),
                Some(_) => {}
                None => self.begin(file, None),
            }
        }
        for block in self.toy.data().filter(|it| !taken.contains(it)) {
            self.set(block, 0);
            self.stays.remove(&block);
        }
    }

    /// Whether the entry of a chain's `last` block ends it, and nothing follows.
    fn leads_on(&self, last: Block, next: Option<&Block>) -> bool {
        self.entries[last as usize] == END && next.is_none()
    }
}
