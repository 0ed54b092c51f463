//! The ext2-like file system and its judge, as a play has them.

use super::actions::Action;
use super::{Guest, Owner, mend};
use crate::differential::Differential;
use crate::rule_e::differential;
use crate::rule_e::judge::{Excuses, Judge};
use crate::rule_e::play::{Setup, System};
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, MAP, Super, Toy};
use quietus_core::units::Millis;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash};

/// See the module's documentation.
#[derive(Debug)]
pub struct Ext2 {
    toy: Toy,
    guest: Option<Guest>,
    judge: Judge,
    next_generation: u8,
    is_cached: bool,
}

impl Ext2 {
    /// The owner of each block: in memory, or else by what lies on the disk.
    fn named(&self, disk: &[Bytes]) -> BTreeMap<Block, Owner> {
        let found = self.guest.as_ref().map(Guest::named);
        found.unwrap_or_else(|| Guest::mount(self.toy, disk, 0).named())
    }
}

impl System for Ext2 {
    type Action = Action;

    const MAY_BE_LATE: bool = true;

    fn new(setup: &Setup) -> (Self, Vec<Bytes>) {
        let toy = Toy { blocks: 3 + setup.data, inode_blocks: 1, journal: 0, was_clean: true };
        let disk = toy.disk();
        let (judge, is_cached) = (Judge::new(toy, &disk), setup.is_cached);
        (Self { toy, guest: None, judge, next_generation: 1, is_cached }, disk)
    }

    fn attach(
        &self,
        disk: Vec<Bytes>,
        options: Options,
        now: Millis,
        was_clean: bool,
    ) -> Differential<BLOCK_BYTES> {
        differential(Toy { was_clean, ..self.toy }, disk, options, now, true)
    }

    fn mount(&mut self, disk: &[Bytes]) {
        let guest = Guest::mount(self.toy, disk, self.next_generation);
        self.guest = Some(guest);
        self.recovered(disk);
    }

    fn is_mounted(&self) -> bool {
        self.guest.is_some()
    }

    fn leave(&mut self) {
        let left = self.guest.take();
        self.next_generation = left.map_or(self.next_generation, |it| it.next_generation());
    }

    fn recovered(&mut self, disk: &[Bytes]) {
        let named = self.named(disk);
        self.judge.recovered(&named, self.is_cached.then_some(disk));
    }

    fn superblock_in_use(&self, before: Super) -> Option<Super> {
        Some(Super { is_clean: false, ..before })
    }

    fn superblock_at_last(&self, was_clean: bool) -> Option<Bytes> {
        self.guest.as_ref().map(|it| it.superblock(was_clean))
    }

    fn dirty(&self) -> BTreeSet<Block> {
        self.guest.as_ref().map(|it| it.dirty().clone()).unwrap_or_default()
    }

    fn write_back(&mut self, block: Block) -> Bytes {
        self.guest.as_mut().expect("what is dirty is mounted").write_back(block)
    }

    fn mend(&mut self, disk: &[Bytes]) -> Vec<(Block, Bytes)> {
        mend(self.toy, disk)
    }

    fn is_data(&self, block: Block) -> bool {
        self.toy.data().contains(&block)
    }

    fn is_map(&self, block: Block) -> bool {
        block == MAP
    }

    fn free(&self) -> Vec<Block> {
        self.guest.as_ref().map(Guest::free).unwrap_or_default()
    }

    fn touches(&self) -> Vec<Action> {
        self.guest.iter().flat_map(|it| it.named().into_keys()).map(Action::Touch).collect()
    }

    fn actions(&self, setup: &Setup) -> Vec<Action> {
        let guest = self.guest.iter();
        guest.flat_map(|it| it.actions(setup.files, &setup.slots, &it.free(), usize::MAX)).collect()
    }

    fn frees(action: Action) -> bool {
        action.frees()
    }

    fn does(&mut self, action: Action) {
        let (Some(guest), judge) = (&mut self.guest, &mut self.judge) else { return };
        let freed = guest.does(action, |block, owner| judge.begin(block, owner));
        freed.into_iter().for_each(|it| judge.end(it));
    }

    fn written(&mut self, block: Block, bytes: &Bytes, disk: &[Bytes]) {
        self.judge.written(block, bytes, disk);
    }

    fn taken(&mut self, block: Block) -> Result<(), String> {
        self.judge.destroyed(block);
        Ok(())
    }

    fn freed(&mut self, block: Block, disk: &[Bytes]) {
        self.judge.freed(block, disk);
    }

    fn rewritten(&mut self, block: Block) {
        self.judge.rewritten(block);
    }

    fn dies(&mut self, block: Block, _: &[Bytes], seen: &[Bytes], eager: bool) -> Result<(), String> {
        self.judge.dies(block, &self.named(seen), eager)?;
        self.judge.destroyed(block);
        Ok(())
    }

    fn cut(&mut self) {
        self.judge.cut();
    }

    fn proven(&mut self) {
        self.judge.proven();
    }

    fn forgotten(&mut self) {
        self.judge.forgotten();
    }

    fn is_clean(&self, disk: &[Bytes], grade: Grade) -> Result<Excuses, String> {
        if grade == Grade::Content {
            self.judge.is_bare()?;
        }
        self.judge.is_clean(&self.named(disk))
    }

    fn digest(&self, hasher: &mut DefaultHasher) {
        self.guest.hash(hasher);
        self.judge.essence().hash(hasher);
    }
}
