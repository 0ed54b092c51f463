//! An ext2-like file system.

use super::system::System;
use super::truth::Truth;
use crate::rule_e::guest::{Action, FILES, Guest, IS_POINTERS, Mark, Owner, SLOTS, mend};
use crate::rule_e::toy::{Bytes, INODE_BYTES, Inode, MAP, POINTERS, Super, TABLE, Toy};
use quietus_detect::format::{Block, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// See [`System::label`].
pub const LABEL: u8 = 0;

#[derive(Debug)]
pub struct Ext2 {
    toy: Toy,
    guest: Option<Guest>,
    next_generation: u8,
}

impl Ext2 {
    /// An empty one, with so many blocks of data.
    pub fn new(data: Block) -> Self {
        Self { toy: Toy::new(3 + data), guest: None, next_generation: 1 }
    }
}

/// The part of the map of `toy` that is `page` of `block`.
pub(super) fn shown(toy: Toy, block: Block, page: &Bytes) -> Vec<(Block, bool)> {
    let shown = (0..toy.blocks).zip(page).map(|(block, byte)| (block, *byte != 0));
    shown.filter(|_| block == MAP).collect()
}

impl System for Ext2 {
    fn label(&self) -> u8 {
        LABEL
    }

    fn toy(&self) -> Toy {
        self.toy
    }

    fn is_mounted(&self) -> bool {
        self.guest.is_some()
    }

    fn mount(&mut self, seen: &[Bytes]) {
        self.guest = Some(Guest::mount(self.toy, seen, self.next_generation));
    }

    fn at_last(&self, was_clean: bool) -> Option<Super> {
        Super::from_bytes(&self.guest.as_ref()?.superblock(was_clean))
    }

    fn leave(&mut self) {
        let left = self.guest.take();
        self.next_generation = left.map_or(self.next_generation, |it| it.next_generation);
    }

    fn dirty(&self) -> BTreeSet<Block> {
        self.guest.as_ref().map(|it| it.dirty.clone()).unwrap_or_default()
    }

    fn write_back(&mut self, block: Block) -> Option<Bytes> {
        Some(self.guest.as_mut()?.write_back(block))
    }

    fn mend(&mut self, seen: &[Bytes]) -> Vec<(Block, Bytes)> {
        mend(self.toy, seen)
    }

    fn free(&self) -> Vec<Block> {
        self.guest.as_ref().map(Guest::free).unwrap_or_default()
    }

    fn actions(&self) -> Vec<Action> {
        let slots: Vec<_> = (0..SLOTS).collect();
        self.guest.iter().flat_map(|it| it.actions(FILES, &slots, &it.free(), usize::MAX)).collect()
    }

    fn does(&mut self, action: Action, truth: &mut Truth) {
        let Some(guest) = &mut self.guest else { return };
        let freed = guest.does(action, |block, owner| truth.begin(block, owner));
        freed.into_iter().for_each(|it| truth.end(it));
    }

    fn owners(&self) -> Option<BTreeMap<Block, Owner>> {
        self.guest.as_ref().map(Guest::named)
    }

    fn owners_on(&self, seen: &[Bytes], _: &[Vec<u8>]) -> BTreeMap<Block, Owner> {
        Guest::mount(self.toy, seen, 0).named()
    }

    fn shown(&self, block: Block, page: &Bytes) -> Vec<(Block, bool)> {
        shown(self.toy, block, page)
    }

    fn namers(&self, seen: &[Bytes]) -> Vec<BTreeSet<Owner>> {
        namers(self.toy, seen)
    }

    /// Data that looks as if it were pointers gives nobody anything, nor do pointers that were
    /// written before the owner got their block once more: older content may come back, and does not count.
    fn is_needed(
        &mut self,
        block: Block,
        mark: Option<Mark>,
        truth: &Truth,
        possible: &[Vec<Bytes>],
    ) -> bool {
        let Some(Mark { stay, owner }) = mark else { return false };
        let names = |at: Block, it: &Bytes| {
            it[IS_POINTERS] != 0
                && it[..POINTERS].iter().any(|it| Block::from(*it) == block)
                && Mark::of(it).map(|it| it.stay) == truth.latest(at, Some(&owner))
        };
        let files = possible[TABLE as usize].iter().flat_map(inodes).filter(|it| it.0 == owner);
        let names_it = |(it, kind): (u8, Kind)| {
            let at = Block::from(it);
            at == block || (kind != Kind::Data && possible[it as usize].iter().any(|it| names(at, it)))
        };
        truth.latest(block, Some(&owner)) == Some(stay)
            && files.flat_map(|(_, inode)| inode.owns()).any(names_it)
    }
}

/// The owners that name each block of `disk`, by what lies there.
fn namers(toy: Toy, disk: &[Bytes]) -> Vec<BTreeSet<Owner>> {
    let mut namers = vec![BTreeSet::new(); disk.len()];
    for (owner, inode) in inodes(&disk[TABLE as usize]) {
        for (block, kind) in inode.owns() {
            let below = disk.get(block as usize).filter(|_| kind != Kind::Data);
            let below = below.into_iter().flat_map(|it| it[..POINTERS].to_vec());
            for it in below.chain([block]).filter(|it| toy.data().contains(&Block::from(*it))) {
                namers[it as usize].insert(owner);
            }
        }
    }
    namers
}

/// The files in a block of inodes.
fn inodes(bytes: &Bytes) -> Vec<(Owner, Inode)> {
    let inodes = bytes.chunks_exact(INODE_BYTES).map(Inode::from_bytes).enumerate();
    let inodes = inodes.filter(|(_, inode)| inode.links > 0);
    let owner = |file: usize, inode: &Inode| Owner { file: file as u8, generation: inode.generation };
    inodes.map(|(file, inode)| (owner(file, &inode), inode)).collect()
}
