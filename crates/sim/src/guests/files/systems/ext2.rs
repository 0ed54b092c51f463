//! An ext2-like file system.

use crate::guests::files::systems::system::System;
use crate::guests::files::systems::truth::Truth;
use crate::rules::rule_e::guest::{
    Action, Converts, FILES, Guest, IS_POINTERS, Mark, Owner, Place, Reserving, SLOTS, Stay, mend,
};
use crate::rules::rule_e::toy::{AGE, Bytes, INODE_BYTES, Inode, POINTERS, Super, TABLE, Toy};
use crate::rules::rule_j::judge::Holds;
use quietus_detect::formats::format::{Block, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// See [`System::label`].
pub const LABEL: u8 = 0;

#[derive(Debug, Default)]
pub struct Ext2 {
    toy: Toy,
    guest: Option<Guest>,
    next_generation: u8,
    next_age: u8,
    reserving: Option<Reserving>,
    /// The stay that each pointer to each block meant: one of another age may mean another stay of the same file.
    /// Nothing of a guest that does not reserve space.
    meant: BTreeMap<(Place, Block), Stay>,
}

impl Ext2 {
    pub fn new(data: Block) -> Self {
        Self { toy: Toy::new(3 + data), next_generation: 1, ..Self::default() }
    }

    /// An empty file system whose files reserve space, as in ext4 without a journal.
    pub fn reserving(data: Block) -> Self {
        let converts = if data.is_multiple_of(4) { Converts::Sent } else { Converts::Complete };
        Self { reserving: Some(Reserving { converts, slots: SLOTS }), ..Self::new(data) }
    }

    /// The stay that a pointer in `place` to `block` means.
    fn meant(&self, place: Place, block: Block, truth: &Truth) -> Option<Stay> {
        self.meant.get(&(place, block)).copied().or_else(|| truth.latest(block, Some(&place.1)))
    }

    /// Notes what the pointers in memory mean.
    fn note(&mut self, truth: &Truth) {
        let contents = self.guest.iter().filter(|it| it.reserves()).flat_map(Guest::contents);
        let stays = contents.filter_map(|it| Some((it, truth.present(it.1, Some(&it.0.1))?)));
        self.meant.extend(stays.collect::<Vec<_>>());
    }
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
        let guest = Guest::mount(self.toy, seen, self.next_generation);
        let mut guest = guest.reserving(self.reserving);
        guest.next_age = self.next_age;
        self.guest = Some(guest);
    }

    fn at_last(&self, was_clean: bool) -> Option<Super> {
        Super::from_bytes(&self.guest.as_ref()?.superblock(was_clean))
    }

    fn leave(&mut self) {
        let left = self.guest.take();
        if let Some(left) = left {
            (self.next_generation, self.next_age) = (left.next_generation, left.next_age);
        }
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
        self.note(truth);
    }

    fn replied(&mut self, block: Block) {
        if let Some(guest) = &mut self.guest {
            guest.landed(block);
        }
    }

    fn files(&self) -> Option<&Guest> {
        self.guest.as_ref()
    }

    fn stays_on(&self, seen: &[Bytes], truth: &Truth) -> Option<Holds> {
        self.reserving?;
        let guest = Guest::mount(self.toy, seen, 0);
        let contents = guest.contents();
        let stay = |(block, owner): (Block, Owner)| {
            let place = contents.iter().find(|it| it.1 == block && it.0.1 == owner);
            let meant = place.and_then(|it| self.meant(it.0, block, truth));
            // The file may have given the block up and got it once more, without a write of its pointers since.
            let there = Mark::of(&seen[block as usize]).filter(|it| it.owner == owner).map(|it| it.stay);
            let meant = meant.max(there.filter(|_| meant.is_some()));
            Some((block, meant.or_else(|| truth.latest(block, Some(&owner)))?))
        };
        Some(guest.named().into_iter().filter_map(stay).collect())
    }

    fn owners(&self) -> Option<BTreeMap<Block, Owner>> {
        self.guest.as_ref().map(Guest::named)
    }

    fn owners_on(&self, seen: &[Bytes], _: &[Vec<u8>]) -> BTreeMap<Block, Owner> {
        Guest::mount(self.toy, seen, 0).named()
    }

    fn namers(&self, seen: &[Bytes]) -> Vec<BTreeSet<Owner>> {
        let mut namers = vec![BTreeSet::new(); seen.len()];
        for (owner, inode) in inodes(&seen[TABLE as usize]) {
            for (block, kind) in inode.owns() {
                let below = seen.get(block as usize).filter(|_| kind != Kind::Data);
                let below = below.into_iter().flat_map(|it| it[..POINTERS].to_vec());
                for it in below.chain([block]).filter(|it| self.is_data(Block::from(*it))) {
                    namers[it as usize].insert(owner);
                }
            }
        }
        namers
    }

    /// Data that looks like pointers makes no file an owner, nor do pointers that were
    /// written before the owner got their block once more: older content may come back, and does not count.
    fn is_needed(
        &mut self,
        block: Block,
        mark: Option<Mark>,
        truth: &Truth,
        possible: &[Vec<Bytes>],
    ) -> bool {
        let Some(Mark { stay, owner }) = mark else { return false };
        // Of the pointers in `place`, these say that something was written.
        let name = |place: Place, pointers: &[u8], unwritten: u8| {
            let names_it = |(n, it): (usize, &u8)| Block::from(*it) == block && unwritten >> n & 1 == 0;
            pointers.iter().enumerate().any(names_it) && self.meant(place, block, truth) == Some(stay)
        };
        let below = |at: Block, it: &Bytes| {
            it[IS_POINTERS] != 0
                && name((at, owner, it[AGE]), &it[..POINTERS], it[POINTERS])
                && Mark::of(it).map(|it| it.stay) == truth.latest(at, Some(&owner))
        };
        let is_latest = truth.latest(block, Some(&owner)) == Some(stay);
        let leads_there = |(it, kind): (u8, Kind)| {
            let at = Block::from(it);
            kind != Kind::Data
                && ((at == block && is_latest) || possible[it as usize].iter().any(|it| below(at, it)))
        };
        let mut files = possible[TABLE as usize].iter().flat_map(inodes).filter(|it| it.0 == owner);
        files.any(|(_, inode)| {
            name((TABLE, owner, inode.age), &inode.direct, inode.unwritten)
                || inode.owns().into_iter().any(leads_there)
        })
    }
}

/// The files in a block of inodes.
fn inodes(bytes: &Bytes) -> Vec<(Owner, Inode)> {
    let inodes = bytes.chunks_exact(INODE_BYTES).map(Inode::from_bytes).enumerate();
    let inodes = inodes.filter(|(_, inode)| inode.links > 0);
    let owner = |file: usize, inode: &Inode| Owner { file: file as u8, generation: inode.generation };
    inodes.map(|(file, inode)| (owner(file, &inode), inode)).collect()
}
