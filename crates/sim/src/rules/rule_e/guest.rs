//! An ext2-like file system in the memory of a guest: it knows what it owns.
//!
//! The guest tells the disk only what ext2 tells. A block that is written is as
//! it is in memory; what was freed is not written any more; the superblock says
//! "in use" before anything else is written, and "whole" after all else. A free
//! block is used again at once. A deleted inode keeps its pointers on the disk, a
//! freed block of pointers is forgotten with its pointers in place. Some guests reserve space ([`Reserving`]).

mod reserving;

use crate::rules::rule_e::toy::{
    BLOCK_BYTES, Bytes, Inode, MAP, POINTERS, SUPER, Super, TABLE, Toy, page, table,
};
use quietus_detect::formats::format::{Block, Kind};
pub use reserving::{Converts, Place, Reserving};
use std::collections::{BTreeMap, BTreeSet};

pub const FILES: usize = 3;
/// Blocks of data that a file can have: two named by the inode, the others by
/// its block of pointers.
pub const SLOTS: usize = 2 + POINTERS;

/// A block as one file had it, from being allocated until being freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Stay(pub u16);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    pub file: u8,
    pub generation: u8,
}

/// Statement of a block's content about itself: its last bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mark {
    /// The stay that it was written in.
    pub stay: Stay,
    pub owner: Owner,
}

const MARK: usize = BLOCK_BYTES - 8;
/// Where a block says how often it was touched.
pub const TOUCHED: usize = MARK + 5;
/// Where a block says that it was written as a block of pointers.
pub const IS_POINTERS: usize = BLOCK_BYTES - 1;

impl Mark {
    pub fn of(bytes: &[u8]) -> Option<Self> {
        let mark = &bytes[MARK..];
        let stay = Stay(u16::from_le_bytes([mark[1], mark[2]]));
        (mark[0] == 0xc7).then_some(Self { stay, owner: Owner { file: mark[3], generation: mark[4] } })
    }

    pub fn put(self, bytes: &mut Bytes) {
        let [low, high] = self.stay.0.to_le_bytes();
        bytes[MARK..MARK + 5].copy_from_slice(&[0xc7, low, high, self.owner.file, self.owner.generation]);
    }
}

/// One thing that a process does.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Action {
    Create(usize),
    /// A file gets a block in a slot.
    Grow(usize, usize, Block),
    /// A file gets a block of pointers.
    GrowIndirect(usize, Block),
    /// A block is written again, in memory.
    Touch(Block),
    /// A file loses what it has in a slot.
    Punch(usize, usize),
    Truncate(usize),
    Delete(usize),
    /// A file reserves a block for a slot, and writes nothing.
    Reserve(usize, usize, Block),
    /// A file writes to a block that it has reserved.
    Fill(Block),
    /// A file gives up what it has in a slot, and keeps the block reserved.
    Zero(usize, usize),
    /// Something below the file system writes to a reserved block, as Linux does with a swap file.
    Swap(Block),
    /// What was written below the file system is not wanted any more.
    SwapOff(Block),
    /// The inodes change, and what they name stays.
    Stamp,
}

impl Action {
    pub fn frees(self) -> bool {
        matches!(
            self,
            Self::Punch(..) | Self::Truncate(_) | Self::Delete(_) | Self::Zero(..) | Self::SwapOff(_)
        )
    }

    pub fn allocates(self) -> Option<Block> {
        match self {
            Self::Grow(_, _, block) | Self::GrowIndirect(_, block) | Self::Reserve(_, _, block) => {
                Some(block)
            }
            _ => None,
        }
    }
}

/// The memory of a guest that has mounted the file system.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Guest {
    toy: Toy,
    inodes: [Inode; FILES],
    bits: Vec<bool>,
    /// Contents in memory, of blocks that are allocated.
    pages: BTreeMap<Block, Bytes>,
    /// Blocks that differ from the disk, or may, and may be written back.
    pub dirty: BTreeSet<Block>,
    /// The superblock, as it was when it was mounted.
    found: Super,
    pub next_generation: u8,
    reserving: Option<Reserving>,
    /// Reserved blocks with content in memory whose pointers say that nothing was written, and their files.
    filled: BTreeMap<Block, usize>,
    /// The reserved blocks that something below the file system writes to.
    swapped: BTreeSet<Block>,
    pub next_age: u8,
}

impl Guest {
    pub fn mount(toy: Toy, disk: &[Bytes], next_generation: u8) -> Self {
        let slots = disk[TABLE as usize].chunks_exact(crate::rules::rule_e::toy::INODE_BYTES);
        let mut inodes = slots.map(Inode::from_bytes);
        let inodes = std::array::from_fn(|_| inodes.next().unwrap_or_default());
        let bits = (0..toy.blocks as usize).map(|it| disk[MAP as usize][it] != 0).collect();
        let found = Super::from_bytes(&disk[SUPER as usize]).unwrap_or_default();
        let (pages, dirty) = (BTreeMap::new(), BTreeSet::new());
        let mut this = Self { toy, inodes, bits, pages, dirty, found, next_generation, ..Self::default() };
        let named: Vec<_> = this.named().keys().copied().collect();
        this.pages = named.iter().map(|it| (*it, disk[*it as usize])).collect();
        let below: Vec<_> = this.named().keys().copied().filter(|it| !named.contains(it)).collect();
        this.pages.extend(below.into_iter().map(|it| (it, disk[it as usize])));
        this
    }

    /// The superblock that is to be written.
    pub fn superblock(&self, is_clean: bool) -> Bytes {
        Super { is_clean, ..self.found }.bytes()
    }

    /// The blocks that files name, and their owners.
    pub fn named(&self) -> BTreeMap<Block, Owner> {
        let mut named = BTreeMap::new();
        for file in self.present() {
            let has_content = |it: &(usize, Block, bool)| self.has_content(file, it.1, it.2);
            let blocks = self.claims(file).into_iter().filter(has_content).map(|it| it.1);
            let owned = self.inodes[file].owns().into_iter().filter(|(_, kind)| *kind != Kind::Data);
            let blocks = blocks.chain(owned.map(|(block, _)| Block::from(block)));
            for block in blocks {
                named.entry(block).or_insert(self.owner(file));
            }
        }
        named.retain(|it, _| self.toy.data().contains(it));
        named
    }

    /// The slots of data that `file` has, the block in each, and whether the pointer says that nothing was written.
    fn claims(&self, file: usize) -> Vec<(usize, Block, bool)> {
        let slots = (0..SLOTS).filter_map(|slot| Some((slot, self.at(file, slot)?)));
        slots.map(|(slot, block)| (slot, block, self.is_unwritten(file, slot))).collect()
    }

    /// The blocks that the block of pointers `block` names.
    fn below(&self, block: Block) -> Vec<Block> {
        let page = self.pages.get(&block).filter(|_| block != 0);
        let named = page.into_iter().flat_map(|it| &it[..POINTERS]).map(|it| Block::from(*it));
        named.filter(|it| self.toy.data().contains(it)).collect()
    }

    fn absent(&self) -> Vec<usize> {
        (0..FILES).filter(|it| self.inodes[*it].links == 0).collect()
    }

    fn present(&self) -> Vec<usize> {
        (0..FILES).filter(|it| self.inodes[*it].links > 0).collect()
    }

    pub fn free(&self) -> Vec<Block> {
        self.toy.data().filter(|it| !self.bits[*it as usize]).collect()
    }

    fn at(&self, file: usize, slot: usize) -> Option<Block> {
        let inode = self.inodes[file];
        let block = match slot {
            0 | 1 => Block::from(inode.direct[slot]),
            _ => Block::from(*self.pages.get(&Block::from(inode.indirect))?.get(slot - 2)?),
        };
        self.toy.data().contains(&block).then_some(block)
    }

    /// The block of pointers of `file`, if it has one.
    pub fn indirect(&self, file: usize) -> Option<Block> {
        Some(Block::from(self.inodes[file].indirect)).filter(|it| *it != 0)
    }

    pub fn pointers(&self) -> BTreeSet<Block> {
        self.pages.iter().filter(|(_, page)| page[IS_POINTERS] != 0).map(|(block, _)| *block).collect()
    }

    fn owner(&self, file: usize) -> Owner {
        Owner { file: file as u8, generation: self.inodes[file].generation }
    }

    /// Does `action`, if it can be done; returns what was freed. `begin` is told
    /// of each block that gets an owner.
    pub fn does(&mut self, action: Action, begin: impl FnOnce(Block, Owner) -> Stay) -> Vec<Block> {
        if self.is_refused(action) {
            return Vec::new();
        }
        match action {
            Action::Create(file) if self.absent().contains(&file) => {
                let generation = self.next_generation;
                self.inodes[file] = Inode { generation, links: 1, ..Inode::default() };
                self.next_generation += 1;
                self.dirty.insert(TABLE);
            }
            Action::Grow(file, slot, block) => self.grow(file, Some(slot), block, begin),
            Action::GrowIndirect(file, block) => self.grow(file, None, block, begin),
            Action::Touch(block) => {
                if let Some(page) = self.pages.get_mut(&block) {
                    page[TOUCHED] = page[TOUCHED].wrapping_add(1);
                    self.dirty.insert(block);
                }
            }
            Action::Punch(file, slot) => return self.punch(file, slot),
            Action::Reserve(file, slot, block) => self.reserve(file, slot, block),
            Action::Fill(block) => self.fill(block, false, begin),
            Action::Swap(block) => self.fill(block, true, begin),
            Action::Zero(file, slot) => return self.zero(file, slot).into_iter().collect(),
            Action::SwapOff(block) if self.swapped.contains(&block) => {
                self.drop_page(block);
                return vec![block];
            }
            Action::Stamp => drop(self.dirty.insert(TABLE)),
            Action::Truncate(file) | Action::Delete(file) if self.present().contains(&file) => {
                let freed = self.release(file);
                let Inode { generation, links, age, .. } = self.inodes[file];
                match action {
                    Action::Delete(_) => self.inodes[file].links = 0,
                    _ => self.inodes[file] = Inode { generation, links, age, ..Inode::default() },
                }
                self.dirty.insert(TABLE);
                return freed;
            }
            _ => {}
        }
        Vec::new()
    }

    /// Gives `file` the free `block` in `slot`, or as its block of pointers, if it can have it there.
    fn grow(
        &mut self,
        file: usize,
        slot: Option<usize>,
        block: Block,
        begin: impl FnOnce(Block, Owner) -> Stay,
    ) {
        if self.can_have(file, slot, block) {
            self.allocate(file, block, begin(block, self.owner(file)), slot.is_none());
            self.point(file, slot, block);
        }
    }

    fn can_have(&self, file: usize, slot: Option<usize>, block: Block) -> bool {
        let has = slot.map_or_else(|| self.indirect(file), |it| self.at(file, it));
        let is_possible = self.present().contains(&file) && self.free().contains(&block) && has.is_none();
        let is_deep = slot.is_some_and(|it| it >= 2);
        is_possible && (!is_deep || self.indirect(file).is_some())
    }

    /// Lets `file` name `block` in `slot`, or as its block of pointers.
    fn point(&mut self, file: usize, slot: Option<usize>, block: Block) {
        match slot {
            None => self.inodes[file].indirect = block as u8,
            Some(slot @ (0 | 1)) => self.inodes[file].direct[slot] = block as u8,
            Some(slot) => return self.set_below(file, slot - 2, block as u8),
        }
        self.dirty.insert(TABLE);
    }

    /// Actions on files below `files` in `slots`, with the blocks of
    /// `free`. Of the slots that a file has free the first `most` count.
    pub fn actions(&self, files: usize, slots: &[usize], free: &[Block], most: usize) -> Vec<Action> {
        let mut actions = Vec::new();
        for file in self.present() {
            self.actions_on(file, slots, (free, most), &mut actions);
        }
        actions.extend(self.absent().into_iter().filter(|it| *it < files).map(Action::Create));
        actions
    }

    fn actions_on(
        &self,
        file: usize,
        slots: &[usize],
        (free, most): (&[Block], usize),
        actions: &mut Vec<Action>,
    ) {
        actions.extend([Action::Delete(file), Action::Truncate(file)]);
        if self.indirect(file).is_none() && slots.iter().any(|it| *it >= 2) {
            actions.extend(free.iter().take(most).map(|it| Action::GrowIndirect(file, *it)));
        }
        let (taken, vacant): (Vec<_>, Vec<_>) =
            slots.iter().copied().partition(|it| self.at(file, *it).is_some());
        actions.extend(taken.into_iter().map(|it| Action::Punch(file, it)));
        let vacant = vacant.into_iter().filter(|it| *it < 2 || self.indirect(file).is_some());
        actions.extend(
            vacant.take(most).flat_map(|slot| free.iter().map(move |it| Action::Grow(file, slot, *it))),
        );
        self.reserving_actions(file, slots, (free, most), actions);
    }

    fn allocate(&mut self, file: usize, block: Block, stay: Stay, is_pointers: bool) {
        assert!(!self.bits[block as usize], "only what is free is allocated");
        self.bits[block as usize] = true;
        self.put_page(file, block, stay, is_pointers);
        self.dirty.insert(MAP);
    }

    fn put_page(&mut self, file: usize, block: Block, stay: Stay, is_pointers: bool) {
        let mut page = [0; BLOCK_BYTES];
        if !is_pointers {
            page[..2].copy_from_slice(&[self.toy.first_data() as u8, block as u8]);
        }
        Mark { stay, owner: self.owner(file) }.put(&mut page);
        page[IS_POINTERS] = u8::from(is_pointers);
        self.pages.insert(block, page);
        self.dirty.insert(block);
    }

    fn set_below(&mut self, file: usize, n: usize, pointer: u8) {
        let block = Block::from(self.inodes[file].indirect);
        if let Some(page) = self.pages.get_mut(&block) {
            page[n] = pointer;
            self.dirty.insert(block);
        }
    }

    /// Cuts one slot off. Returns what was freed.
    fn punch(&mut self, file: usize, slot: usize) -> Vec<Block> {
        let Some(block) = self.at(file, slot) else { return Vec::new() };
        self.set_unwritten(file, slot, false);
        if slot < 2 {
            self.inodes[file].direct[slot] = 0;
            self.dirty.insert(TABLE);
        } else {
            self.set_below(file, slot - 2, 0);
        }
        self.free_block(block);
        vec![block]
    }

    fn release(&mut self, file: usize) -> Vec<Block> {
        let indirect = Block::from(self.inodes[file].indirect);
        let mut blocks: Vec<_> = self.inodes[file].owns().iter().map(|it| Block::from(it.0)).collect();
        blocks.extend(self.below(indirect));
        blocks.retain(|it| self.toy.data().contains(it));
        blocks.iter().for_each(|it| self.free_block(*it));
        blocks
    }

    /// Delete suppression: what was freed is not written.
    fn free_block(&mut self, block: Block) {
        self.bits[block as usize] = false;
        self.drop_page(block);
        self.dirty.insert(MAP);
    }

    /// `block` as it is in memory, to be written.
    pub fn write_back(&mut self, block: Block) -> Bytes {
        self.dirty.remove(&block);
        self.sent(block);
        match block {
            MAP => page(self.bits.iter().map(|it| u8::from(*it))),
            TABLE => table(&self.inodes),
            _ => self.pages[&block],
        }
    }
}

/// The blocks that fsck writes, given `disk`; the superblock last.
pub fn mend(toy: Toy, disk: &[Bytes]) -> Vec<(Block, Bytes)> {
    let mut fsck = Fsck { guest: Guest::mount(toy, disk, 0), claimed: BTreeMap::new() };
    fsck.claim_all(disk, true);
    fsck.claim_all(disk, false);
    fsck.guest.bits.fill(false);
    fsck.guest.bits[..toy.first_data() as usize].fill(true);
    for block in fsck.claimed.keys() {
        fsck.guest.bits[*block as usize] = true;
    }
    let mut written: Vec<_> = std::mem::take(&mut fsck.guest.dirty).into_iter().collect();
    written.extend([TABLE, MAP]);
    let mut written: Vec<_> = written.into_iter().map(|it| (it, fsck.guest.write_back(it))).collect();
    written.retain(|(block, bytes)| disk[*block as usize] != *bytes);
    fsck.guest.found.mended += 1;
    written.push((SUPER, fsck.guest.superblock(true)));
    written
}

struct Fsck {
    guest: Guest,
    claimed: BTreeMap<Block, (usize, usize)>,
}

/// The slot of the block of pointers.
const INDIRECT: usize = SLOTS;

impl Fsck {
    /// Every file claims its blocks; at first only those whose content is its.
    fn claim_all(&mut self, disk: &[Bytes], only_own: bool) {
        for file in 0..FILES {
            if self.guest.inodes[file].links == 0 {
                self.guest.inodes[file] =
                    Inode { generation: self.guest.inodes[file].generation, ..Inode::default() };
                continue;
            }
            for slot in [0, 1, INDIRECT].into_iter().chain(2..SLOTS) {
                self.claim(file, slot, disk, only_own);
            }
        }
    }

    fn claim(&mut self, file: usize, slot: usize, disk: &[Bytes], only_own: bool) {
        let found = if slot == INDIRECT { self.guest.indirect(file) } else { self.guest.at(file, slot) };
        let has_pointers =
            self.guest.indirect(file).map(|it| self.claimed.get(&it)) == Some(Some(&(file, INDIRECT)));
        let Some(block) = found.filter(|_| slot < 2 || slot == INDIRECT || has_pointers) else { return };
        let is_own = Mark::of(&disk[block as usize]).is_some_and(|it| it.owner == self.guest.owner(file));
        if only_own && !is_own {
            return;
        }
        if *self.claimed.entry(block).or_insert((file, slot)) != (file, slot) {
            self.give_up(file, slot);
        }
    }

    fn give_up(&mut self, file: usize, slot: usize) {
        if slot != INDIRECT {
            self.guest.set_unwritten(file, slot, false);
        }
        match slot {
            0 | 1 => self.guest.inodes[file].direct[slot] = 0,
            INDIRECT => self.guest.inodes[file].indirect = 0,
            _ => self.guest.set_below(file, slot - 2, 0),
        }
    }
}
