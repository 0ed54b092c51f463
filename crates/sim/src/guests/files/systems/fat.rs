//! A FAT, in the memory of a guest that knows what it owns.
//!
//! The guest tells the disk only what FAT tells. Blocks are written as they are in memory; what was freed
//! is not written any more; a free block is used again at once. Where a file begins stands in the
//! directory, which is written for the rules to see; the guest itself never forgets it, as if it had
//! others. Each block of the table notes, behind the entries, the stay to which each entry belongs: by
//! that the truth knows one file from another that had the same blocks.

use crate::guests::files::systems::system::System;
use crate::guests::files::systems::truth::Truth;
use crate::rules::rule_e::fat::{DATA, ENTRIES, HEAD_BYTES, TABLE, entries, table};
use crate::rules::rule_e::guest::{Action, Mark, Owner, Stay};
use crate::rules::rule_e::toy::{Bytes, FAT_END, Layout, SUPER, Super, Toy, page};
use quietus_core::base::units::BLOCK_BYTES;
use quietus_detect::formats::format::{Block, Format};
use std::collections::{BTreeMap, BTreeSet};

/// See [`System::label`]: of a table that is final, and of one that needs rest.
pub const LABELS: [u8; 2] = [1, 2];
const FILES: usize = 2;
/// Place of the stays in a block of the table: two bytes an entry.
const STAYS: usize = 32;
/// The `file` of an owner that is itself a block, and names the next block of its chain.
const CHAIN: u8 = u8::MAX;

/// The first block of each file that has one.
type Heads = [Option<Block>; FILES];

#[derive(Debug)]
pub struct Fat {
    toy: Toy,
    memory: Option<Memory>,
    /// The heads of files, as the directories have them; no guest forgets these.
    heads: Heads,
}

/// The memory of a guest that has mounted the file system.
#[derive(Debug)]
struct Memory {
    toy: Toy,
    entries: Vec<u8>,
    heads: Heads,
    /// How often each file was made anew.
    generations: [u8; FILES],
    /// Blocks that are allocated to files, and the stay that each is in.
    stays: BTreeMap<Block, Stay>,
    /// The stays that the table noted at the mount: also the stays of chains that no file begins.
    noted: BTreeMap<Block, Stay>,
    /// Blocks that differ from the disk, or may.
    dirty: BTreeSet<Block>,
    touched: u8,
}

/// The block of the table that has the entry of `block`.
fn table_of(block: Block) -> Block {
    TABLE + block / ENTRIES as Block
}

/// The stay in `block`, as `page` of the table notes it.
fn noted(page: &Bytes, block: Block) -> Option<Stay> {
    let n = block as usize % ENTRIES;
    let at = STAYS + 2 * n;
    (page[n] != 0).then(|| Stay(u16::from_le_bytes([page[at], page[at + 1]])))
}

fn all_noted(toy: Toy, seen: &[Bytes]) -> impl Iterator<Item = (Block, Stay)> {
    toy.data().filter_map(|it| Some((it, noted(&seen[table_of(it) as usize], it)?)))
}

fn owner(stay: Stay) -> Owner {
    let [file, generation] = stay.0.to_le_bytes();
    Owner { file, generation }
}

impl Memory {
    /// Reads what lies on the disk, with files that begin at `heads`.
    fn mount(toy: Toy, seen: &[Bytes], heads: Heads) -> Self {
        let entries = entries(seen);
        let heads = heads.map(|it| it.filter(|block| entries[*block as usize] != 0));
        let directory = &seen[toy.directory() as usize];
        let generations = std::array::from_fn(|file| directory[file * HEAD_BYTES + 1]);
        let (noted, dirty) = (all_noted(toy, seen).collect(), BTreeSet::new());
        let stays = BTreeMap::new();
        let mut this = Self { toy, entries, heads, generations, stays, noted, dirty, touched: 0 };
        let owned = (0..FILES).flat_map(|file| this.chain(file));
        this.stays = owned.map(|it| (it, this.noted[&it])).collect();
        this
    }

    /// The blocks of `file`; a chain that goes in circles, or ends in a free
    /// block, ends there.
    fn chain(&self, file: usize) -> Vec<Block> {
        let mut chain = Vec::new();
        let mut next = self.heads[file];
        let is_allocated = |it: &Block| self.toy.data().contains(it) && self.entries[*it as usize] != 0;
        while let Some(block) = next.filter(|it| is_allocated(it) && !chain.contains(it)) {
            chain.push(block);
            next = Some(Block::from(self.entries[block as usize]));
        }
        chain
    }

    fn free(&self) -> Vec<Block> {
        self.toy.data().filter(|it| self.entries[*it as usize] == 0).collect()
    }

    fn set(&mut self, block: Block, entry: u8) {
        self.entries[block as usize] = entry;
        self.dirty.insert(table_of(block));
    }

    /// Gives `file` the free `block`, at its end, in `stay`.
    fn grow(&mut self, file: usize, block: Block, stay: Stay) {
        match self.chain(file).last() {
            Some(last) => self.set(*last, block as u8),
            None => self.begin(file, Some(block)),
        }
        self.set(block, FAT_END);
        self.stays.insert(block, stay);
        self.dirty.insert(block);
    }

    /// Cuts `file` off behind its first `len` blocks. Returns what was freed.
    fn cut_off(&mut self, file: usize, len: usize) -> Vec<Block> {
        let mut chain = self.chain(file);
        let freed = chain.split_off(len.min(chain.len()));
        for block in &freed {
            self.set(*block, 0);
            self.stays.remove(block);
            self.dirty.remove(block);
        }
        match chain.last() {
            Some(last) if !freed.is_empty() => self.set(*last, FAT_END),
            Some(_) => {}
            None => self.begin(file, None),
        }
        freed
    }

    /// `file` begins at `head`, as another one than before.
    fn begin(&mut self, file: usize, head: Option<Block>) {
        self.heads[file] = head;
        self.generations[file] = self.generations[file].wrapping_add(u8::from(head.is_some()));
        if self.toy.map_is_final() {
            self.dirty.insert(self.toy.directory());
        }
    }

    fn actions(&self) -> Vec<Action> {
        let free = self.free();
        let of_file = |file| {
            let len = self.chain(file).len();
            let grow = free.iter().map(move |it| Action::Grow(file, len, *it));
            grow.chain((0..len).map(move |it| Action::Punch(file, it))).collect::<Vec<_>>()
        };
        (0..FILES).flat_map(of_file).collect()
    }

    /// `block` as it is in memory.
    fn page(&self, block: Block) -> Bytes {
        if block == self.toy.directory() {
            let entry = |file: usize| [self.heads[file].unwrap_or(0) as u8, self.generations[file]];
            return page((0..FILES).flat_map(entry));
        }
        if block >= DATA {
            let mut page = page([DATA as u8, FAT_END, block as u8, self.touched]);
            self.stays
                .get(&block)
                .iter()
                .for_each(|it| Mark { stay: **it, owner: owner(**it) }.put(&mut page));
            return page;
        }
        let mut page = table(block - TABLE, &self.entries);
        for (noted, stay) in self.noted.iter().chain(&self.stays).filter(|it| table_of(*it.0) == block) {
            let at = STAYS + 2 * (*noted as usize % ENTRIES);
            page[at..at + 2].copy_from_slice(&stay.0.to_le_bytes());
        }
        page
    }

    /// The table after a check: chains end where they lead nowhere, and
    /// what is of no file is free.
    fn mend(&mut self) {
        let mut taken = BTreeSet::new();
        for file in 0..FILES {
            let chain = self.chain(file);
            let own = chain.iter().take_while(|it| taken.insert(**it)).count();
            let is_end = |last: Block| self.entries[last as usize] == FAT_END && own == chain.len();
            match chain[..own].last() {
                Some(last) if !is_end(*last) => self.set(*last, FAT_END),
                Some(_) => {}
                None => self.begin(file, None),
            }
        }
        for block in self.toy.data().filter(|it| !taken.contains(it)) {
            self.set(block, 0);
            self.stays.remove(&block);
        }
    }
}

impl Fat {
    /// An empty file system with `data` blocks of data, whose table `is_final`, or needs rest.
    pub fn new(data: Block, is_final: bool) -> Self {
        let (block_bytes, layout) = (BLOCK_BYTES as u32, Layout::Fat { is_final });
        let toy = Toy { block_bytes, layout, ..Toy::new(DATA + data + 1) };
        Self { toy, memory: None, heads: [None; FILES] }
    }
}

impl System for Fat {
    fn label(&self) -> u8 {
        LABELS[usize::from(!self.toy.map_is_final())]
    }

    fn toy(&self) -> Toy {
        self.toy
    }

    fn is_mounted(&self) -> bool {
        self.memory.is_some()
    }

    /// As in Linux: a file system that is found in use stays marked as in use.
    fn in_use(&self, before: Super) -> Option<Super> {
        before.is_clean.then_some(Super { is_clean: false, ..before })
    }

    fn mount(&mut self, seen: &[Bytes]) {
        self.memory = Some(Memory::mount(self.toy, seen, self.heads));
    }

    fn at_last(&self, was_clean: bool) -> Option<Super> {
        was_clean.then_some(Super { is_clean: true, mended: 0, mounts: 0 })
    }

    fn leave(&mut self) {
        self.memory = None;
    }

    fn dirty(&self) -> BTreeSet<Block> {
        self.memory.as_ref().map(|it| it.dirty.clone()).unwrap_or_default()
    }

    fn write_back(&mut self, block: Block) -> Option<Bytes> {
        let memory = self.memory.as_mut()?;
        memory.dirty.remove(&block);
        Some(memory.page(block))
    }

    fn mend(&mut self, seen: &[Bytes]) -> Vec<(Block, Bytes)> {
        let mut memory = Memory::mount(self.toy, seen, self.heads);
        memory.mend();
        self.heads = memory.heads;
        let dirty = memory.dirty.iter().map(|it| (*it, memory.page(*it)));
        dirty.chain(self.at_last(true).map(|it| (SUPER, it.bytes()))).collect()
    }

    fn free(&self) -> Vec<Block> {
        self.memory.as_ref().map(Memory::free).unwrap_or_default()
    }

    fn actions(&self) -> Vec<Action> {
        self.memory.iter().flat_map(Memory::actions).collect()
    }

    /// A file that loses what it has in a slot loses all that follows.
    fn does(&mut self, action: Action, truth: &mut Truth) {
        let Some(memory) = &mut self.memory else { return };
        match action {
            Action::Grow(file, _, block) if memory.free().contains(&block) => {
                memory.grow(file, block, truth.begin(block, owner(truth.next_stay())));
            }
            Action::Punch(file, len) => memory.cut_off(file, len).iter().for_each(|it| truth.end(*it)),
            Action::Touch(block) if memory.stays.contains_key(&block) => {
                memory.touched = memory.touched.wrapping_add(1);
                memory.dirty.insert(block);
            }
            _ => {}
        }
        self.heads = memory.heads;
    }

    fn owners(&self) -> Option<BTreeMap<Block, Owner>> {
        let stays = &self.memory.as_ref()?.stays;
        Some(stays.iter().map(|(block, stay)| (*block, owner(*stay))).collect())
    }

    fn owners_on(&self, seen: &[Bytes], _: &[Vec<u8>]) -> BTreeMap<Block, Owner> {
        all_noted(self.toy, seen).map(|(block, stay)| (block, owner(stay))).collect()
    }

    fn reserved_on(&self, _: &[Bytes]) -> BTreeSet<Block> {
        BTreeSet::new()
    }

    fn shown(&self, block: Block, page: &Bytes) -> Vec<(Block, bool)> {
        let of_page = self.toy.data().filter(|it| table_of(*it) == block);
        of_page.map(|it| (it, page[it as usize % ENTRIES] != 0)).collect()
    }

    fn namers(&self, seen: &[Bytes]) -> Vec<BTreeSet<Owner>> {
        let mut namers = vec![BTreeSet::new(); seen.len()];
        let chains =
            (0..).zip(entries(seen)).map(|(block, next)| (next, Owner { file: CHAIN, generation: block }));
        let heads = seen[self.toy.directory() as usize].chunks_exact(HEAD_BYTES).take(FILES).enumerate();
        let heads = heads.map(|(file, head)| (head[0], Owner { file: file as u8, generation: head[1] }));
        for (block, owner) in chains.chain(heads).filter(|(block, _)| self.is_data(Block::from(*block))) {
            namers[block as usize].insert(owner);
        }
        namers
    }

    /// The table is final: no pointer makes a file the owner of a block that the table does not give it.
    fn is_needed(&mut self, block: Block, mark: Option<Mark>, _: &Truth, possible: &[Vec<Bytes>]) -> bool {
        let stay = mark.map(|it| it.stay);
        possible[table_of(block) as usize].iter().any(|it| stay.is_some() && noted(it, block) == stay)
    }
}
