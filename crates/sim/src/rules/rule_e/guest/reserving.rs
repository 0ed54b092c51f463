//! Space that files reserve without writing it, as `fallocate` does on ext4: the pointer to a reserved block says
//! that nothing was written, and the file reads zeros there.

use crate::rules::rule_e::guest::{Action, Guest, Owner, Stay};
use crate::rules::rule_e::toy::{AGE, MAP, POINTERS, TABLE};
use quietus_detect::formats::format::Block;
use std::collections::BTreeSet;

/// When the pointer to a reserved block changes, after a file wrote there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Converts {
    /// When the write is complete, as ext4 does it.
    Complete,
    /// When the write is sent, as ext4 with `dioread_lock` does it.
    Sent,
    /// With the content, in one transaction, as ext4 with `data=journal` does it.
    Logged,
}

/// A guest that reserves space.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Reserving {
    pub converts: Converts,
    /// How many slots of each file may be reserved.
    pub slots: usize,
}

/// A pointer as it lies on the disk: its block, its owner, and its age.
pub type Place = (Block, Owner, u8);

impl Guest {
    /// The same guest, with space that it may reserve.
    pub fn reserving(self, reserving: Option<Reserving>) -> Self {
        Self { reserving, ..self }
    }

    pub fn reserves(&self) -> bool {
        self.reserving.is_some()
    }

    /// Blocks whose pointers say that nothing was written.
    pub fn reserved(&self) -> BTreeSet<Block> {
        self.unwritten().into_iter().map(|(_, _, block)| block).collect()
    }

    /// Blocks whose content is lost unless it is written, and the pointer changes.
    pub fn filled(&self) -> Vec<Block> {
        self.filled.keys().copied().filter(|it| !self.swapped.contains(it)).collect()
    }

    /// Blocks that something below the file system writes to.
    pub fn swapped(&self) -> Vec<Block> {
        self.swapped.iter().copied().collect()
    }

    /// Whether `block` is allocated.
    pub fn has(&self, block: Block) -> bool {
        self.bits[block as usize]
    }

    /// The pointers to blocks of data with content, and those blocks.
    pub fn contents(&self) -> Vec<(Place, Block)> {
        let place = |file: usize, slot: usize| match slot {
            0 | 1 => (TABLE, self.owner(file), self.inodes[file].age),
            _ => {
                let block = Block::from(self.inodes[file].indirect);
                (block, self.owner(file), self.pages.get(&block).map_or(0, |it| it[AGE]))
            }
        };
        let of_file = |file| {
            let claims = self.claims(file).into_iter().filter(move |it| self.has_content(file, it.1, it.2));
            claims.map(move |(slot, block, _)| (place(file, slot), block))
        };
        self.present().into_iter().flat_map(of_file).collect()
    }

    /// Whether `file` has content in `block`, by a pointer that says that nothing was written, or does not.
    pub(super) fn has_content(&self, file: usize, block: Block, is_unwritten: bool) -> bool {
        !is_unwritten || self.filled.get(&block) == Some(&file)
    }

    /// The slots whose pointers say that nothing was written: the file, the slot, the block.
    fn unwritten(&self) -> Vec<(usize, usize, Block)> {
        let of_file = |file| {
            let claims = self.claims(file).into_iter().filter(|it| it.2);
            claims.map(move |(slot, block, _)| (file, slot, block))
        };
        self.present().into_iter().flat_map(of_file).collect()
    }

    pub(super) fn is_unwritten(&self, file: usize, slot: usize) -> bool {
        let inode = self.inodes[file];
        match slot {
            0 | 1 => inode.unwritten >> slot & 1 == 1,
            _ => {
                let page = self.pages.get(&Block::from(inode.indirect));
                page.is_some_and(|it| it[POINTERS] >> (slot - 2) & 1 == 1)
            }
        }
    }

    /// Lets the pointer in `slot` say whether nothing was written.
    pub(super) fn set_unwritten(&mut self, file: usize, slot: usize, is_unwritten: bool) {
        if self.is_unwritten(file, slot) == is_unwritten {
            return;
        }
        let inode = &mut self.inodes[file];
        let (bits, n, holder) = match slot {
            0 | 1 => (&mut inode.unwritten, slot, TABLE),
            _ => {
                let block = Block::from(inode.indirect);
                let Some(page) = self.pages.get_mut(&block) else { return };
                (&mut page[POINTERS], slot - 2, block)
            }
        };
        *bits ^= 1 << n;
        self.dirty.insert(holder);
    }

    /// Whether something below the file system writes to a file that `action` is about: the kernel refuses it.
    pub(super) fn is_refused(&self, action: Action) -> bool {
        let file = match action {
            Action::Grow(file, ..)
            | Action::GrowIndirect(file, _)
            | Action::Punch(file, _)
            | Action::Truncate(file)
            | Action::Delete(file)
            | Action::Reserve(file, ..)
            | Action::Zero(file, _) => Some(file),
            Action::Fill(block) => self.unwritten().iter().find(|it| it.2 == block).map(|it| it.0),
            Action::Create(_) | Action::Touch(_) | Action::Swap(_) | Action::SwapOff(_) | Action::Stamp => {
                None
            }
        };
        file.is_some_and(|file| self.swapped.iter().any(|it| self.filled.get(it) == Some(&file)))
    }

    pub(super) fn reserve(&mut self, file: usize, slot: usize, block: Block) {
        if self.can_have(file, Some(slot), block) {
            self.bits[block as usize] = true;
            self.dirty.insert(MAP);
            self.point(file, Some(slot), block);
            self.set_unwritten(file, slot, true);
        }
    }

    /// Writes to the reserved `block`, below the file system if it is `swapped`.
    pub(super) fn fill(&mut self, block: Block, swapped: bool, begin: impl FnOnce(Block, Owner) -> Stay) {
        let found = self.unwritten().into_iter().find(|it| it.2 == block);
        let Some((file, ..)) = found.filter(|_| !self.filled.contains_key(&block)) else { return };
        let stay = begin(block, self.owner(file));
        self.put_page(file, block, stay, false);
        self.filled.insert(block, file);
        if swapped {
            self.swapped.insert(block);
        }
    }

    /// Gives the content in `slot` up and keeps the block. Returns the block.
    pub(super) fn zero(&mut self, file: usize, slot: usize) -> Option<Block> {
        let block = self.at(file, slot)?;
        if self.is_unwritten(file, slot) && !self.filled.contains_key(&block) {
            return None;
        }
        self.drop_page(block);
        self.set_unwritten(file, slot, true);
        self.next_age = self.next_age.wrapping_add(1);
        match slot {
            0 | 1 => self.inodes[file].age = self.next_age,
            _ => self.pages.get_mut(&Block::from(self.inodes[file].indirect))?[AGE] = self.next_age,
        }
        self.dirty.insert(if slot < 2 { TABLE } else { Block::from(self.inodes[file].indirect) });
        Some(block)
    }

    pub(super) fn drop_page(&mut self, block: Block) {
        self.pages.remove(&block);
        self.dirty.remove(&block);
        self.filled.remove(&block);
        self.swapped.remove(&block);
    }

    fn convert(&mut self, block: Block) {
        let Some(file) = self.filled.get(&block).copied().filter(|_| !self.swapped.contains(&block)) else {
            return;
        };
        self.filled.remove(&block);
        for (_, slot, _) in self.unwritten().into_iter().filter(|it| it.0 == file && it.2 == block) {
            self.set_unwritten(file, slot, false);
        }
    }

    fn converts(&self, when: Converts) -> bool {
        self.reserving.is_some_and(|it| it.converts == when)
    }

    /// `block` is sent. Returns whether its pointer changes.
    pub fn sent(&mut self, block: Block) -> bool {
        let counts = self.converts(Converts::Sent) && self.filled.contains_key(&block);
        if counts {
            self.convert(block);
        }
        counts
    }

    /// The write of `block` is complete.
    pub fn landed(&mut self, block: Block) {
        if self.converts(Converts::Complete) {
            self.convert(block);
        }
    }

    /// All that was written joins a transaction.
    pub fn logged(&mut self) {
        if self.converts(Converts::Logged) {
            self.filled().into_iter().for_each(|it| self.convert(it));
        }
    }

    pub(super) fn reserving_actions(
        &self,
        file: usize,
        slots: &[usize],
        (free, most): (&[Block], usize),
        actions: &mut Vec<Action>,
    ) {
        let Some(Reserving { converts, slots: slots_max }) = self.reserving else { return };
        let slots = slots.iter().copied().filter(|it| *it < slots_max);
        let (taken, vacant): (Vec<_>, Vec<_>) = slots.partition(|it| self.at(file, *it).is_some());
        let vacant = vacant.into_iter().filter(|it| *it < 2 || self.indirect(file).is_some());
        let reserve = |slot| free.iter().map(move |it| Action::Reserve(file, slot, *it));
        actions.extend(vacant.take(most).flat_map(reserve));
        actions.extend(taken.into_iter().flat_map(|it| [Action::Zero(file, it); 2]));
        for (_, _, block) in self.unwritten().into_iter().filter(|it| it.0 == file) {
            match (self.filled.contains_key(&block), self.swapped.contains(&block)) {
                (true, true) => actions.push(Action::SwapOff(block)),
                (true, false) => {}
                (false, _) => {
                    actions.extend([Action::Fill(block); 2]);
                    // Nothing that is journaled is written below the file system.
                    actions.extend((converts != Converts::Logged).then_some(Action::Swap(block)));
                }
            }
        }
    }
}
