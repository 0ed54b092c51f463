//! An ext2-like file system in the memory of a guest: it knows what it owns.
//!
//! The guest gives the disk what ext2 gives, and no more. A block that is written is as
//! it is in memory; what was freed is not written any more; the superblock says
//! "in use" before anything else is written, and "whole" after all else. A free
//! block is used again at once. A deleted inode keeps its pointers on the disk, a
//! freed block of pointers is forgotten with its pointers in place.

pub mod actions;

use crate::rule_e::toy::{BLOCK_BYTES, Bytes, Inode, MAP, POINTERS, SUPER, Super, TABLE, Toy, page, table};
use quietus_detect::format::Block;
use std::collections::{BTreeMap, BTreeSet};

/// Files at once.
pub const FILES: usize = 3;
/// Blocks of data that a file can have: two named by the inode, the others by
/// its block of pointers.
pub const SLOTS: usize = 2 + POINTERS;

/// A block as one file had it, from being allocated until being freed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Stay(pub u16);

/// Owner of a [`Stay`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Owner {
    /// The inode's number.
    pub file: u8,
    pub generation: u8,
}

/// Statement of a block's content about itself: its last bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mark {
    /// The stay that it was written in.
    pub stay: Stay,
    /// By whom.
    pub owner: Owner,
}

const MARK: usize = BLOCK_BYTES - 8;
/// Where a block says how often it was touched.
pub const TOUCHED: usize = MARK + 5;
/// Where a block says that it was written as a block of pointers.
pub const IS_POINTERS: usize = BLOCK_BYTES - 1;

impl Mark {
    /// The mark in `bytes`, if there is one.
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

/// The memory of a guest that has mounted the file system.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
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
}

impl Guest {
    /// Reads what lies on `disk`.
    pub fn mount(toy: Toy, disk: &[Bytes], next_generation: u8) -> Self {
        let slots = disk[TABLE as usize].chunks_exact(crate::rule_e::toy::INODE_BYTES);
        let mut inodes = slots.map(Inode::from_bytes);
        let inodes = std::array::from_fn(|_| inodes.next().unwrap_or_default());
        let bits = (0..toy.blocks as usize).map(|it| disk[MAP as usize][it] != 0).collect();
        let found = Super::from_bytes(&disk[SUPER as usize]).unwrap_or_default();
        let (pages, dirty) = (BTreeMap::new(), BTreeSet::new());
        let mut this = Self { toy, inodes, bits, pages, dirty, found, next_generation };
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

    /// Which blocks files name, and whose they are.
    pub fn named(&self) -> BTreeMap<Block, Owner> {
        let mut named = BTreeMap::new();
        for (file, inode) in self.inodes.iter().enumerate().filter(|(_, it)| it.links > 0) {
            let owner = Owner { file: file as u8, generation: inode.generation };
            for (block, _) in inode.owns() {
                named.entry(Block::from(block)).or_insert(owner);
            }
            for block in self.below(Block::from(inode.indirect)) {
                named.entry(block).or_insert(owner);
            }
        }
        named.retain(|it, _| self.toy.data().contains(it));
        named
    }

    /// The blocks that the block of pointers `block` names.
    fn below(&self, block: Block) -> Vec<Block> {
        let page = self.pages.get(&block).filter(|_| block != 0);
        let named = page.into_iter().flat_map(|it| &it[..POINTERS]).map(|it| Block::from(*it));
        named.filter(|it| self.toy.data().contains(it)).collect()
    }

    pub fn absent(&self) -> Vec<usize> {
        (0..FILES).filter(|it| self.inodes[*it].links == 0).collect()
    }

    pub fn present(&self) -> Vec<usize> {
        (0..FILES).filter(|it| self.inodes[*it].links > 0).collect()
    }

    pub fn free(&self) -> Vec<Block> {
        self.toy.data().filter(|it| !self.bits[*it as usize]).collect()
    }

    /// The block in `slot` of `file`, if there is one.
    pub fn at(&self, file: usize, slot: usize) -> Option<Block> {
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

    /// The blocks that hold pointers.
    pub fn pointers(&self) -> BTreeSet<Block> {
        self.pages.iter().filter(|(_, page)| page[IS_POINTERS] != 0).map(|(block, _)| *block).collect()
    }

    /// Makes a file of another generation.
    pub fn create(&mut self, file: usize) {
        self.inodes[file] = Inode { generation: self.next_generation, links: 1, ..Inode::default() };
        self.next_generation += 1;
        self.dirty.insert(TABLE);
    }

    /// The owner that `file` is now.
    pub fn owner(&self, file: usize) -> Owner {
        Owner { file: file as u8, generation: self.inodes[file].generation }
    }

    /// Gives `file` the free `block` in `slot`, or as its block of pointers, with content of `stay`.
    pub fn grow(&mut self, file: usize, slot: Option<usize>, block: Block, stay: Stay) {
        self.allocate(file, block, stay, slot.is_none());
        match slot {
            None => self.inodes[file].indirect = block as u8,
            Some(slot @ (0 | 1)) => self.inodes[file].direct[slot] = block as u8,
            Some(slot) => return self.set_below(file, slot - 2, block as u8),
        }
        self.dirty.insert(TABLE);
    }

    fn allocate(&mut self, file: usize, block: Block, stay: Stay, is_pointers: bool) {
        assert!(!self.bits[block as usize], "only what is free is allocated");
        self.bits[block as usize] = true;
        let mut page = [0; BLOCK_BYTES];
        if !is_pointers {
            page[..2].copy_from_slice(&[self.toy.first_data() as u8, block as u8]);
        }
        Mark { stay, owner: self.owner(file) }.put(&mut page);
        page[IS_POINTERS] = u8::from(is_pointers);
        self.pages.insert(block, page);
        self.dirty.extend([MAP, block]);
    }

    fn set_below(&mut self, file: usize, n: usize, pointer: u8) {
        let block = Block::from(self.inodes[file].indirect);
        if let Some(page) = self.pages.get_mut(&block) {
            page[n] = pointer;
            self.dirty.insert(block);
        }
    }

    /// Writes what `file` has in `slot` again.
    pub fn touch(&mut self, block: Block) {
        if let Some(page) = self.pages.get_mut(&block) {
            page[TOUCHED] = page[TOUCHED].wrapping_add(1);
            self.dirty.insert(block);
        }
    }

    /// Cuts `file` off; its pointers too. Returns what was freed.
    pub fn truncate(&mut self, file: usize) -> Vec<Block> {
        let freed = self.release(file);
        let inode = &mut self.inodes[file];
        *inode = Inode { generation: inode.generation, links: inode.links, ..Inode::default() };
        self.dirty.insert(TABLE);
        freed
    }

    /// Cuts one slot off. Returns what was freed.
    pub fn punch(&mut self, file: usize, slot: usize) -> Vec<Block> {
        let Some(block) = self.at(file, slot) else { return Vec::new() };
        if slot < 2 {
            self.inodes[file].direct[slot] = 0;
            self.dirty.insert(TABLE);
        } else {
            self.set_below(file, slot - 2, 0);
        }
        self.free_block(block);
        vec![block]
    }

    /// Deletes `file`: the inode keeps its pointers. Returns what was freed.
    pub fn delete(&mut self, file: usize) -> Vec<Block> {
        let freed = self.release(file);
        self.inodes[file].links = 0;
        self.dirty.insert(TABLE);
        freed
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
        self.pages.remove(&block);
        self.dirty.remove(&block);
        self.dirty.insert(MAP);
    }

    /// `block` as it is in memory, to be written.
    pub fn write_back(&mut self, block: Block) -> Bytes {
        self.dirty.remove(&block);
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
        match slot {
            0 | 1 => self.guest.inodes[file].direct[slot] = 0,
            INDIRECT => self.guest.inodes[file].indirect = 0,
            _ => self.guest.set_below(file, slot - 2, 0),
        }
    }
}
