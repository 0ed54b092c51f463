//! A FAT and who owns what in it, as a play has them.

use super::memory::{FILES, Memory, stay_of};
use super::{DATA, ENTRIES, FatToy, TABLE, entries};
use crate::differential::Differential;
use crate::rule_e::differential;
use crate::rule_e::guest::actions::Action;
use crate::rule_e::judge::Excuses;
use crate::rule_e::play::{Setup, System};
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, SUPER, Super};
use quietus_core::units::Millis;
use quietus_detect::format::Block;
use quietus_detect::options::{Grade, Options};
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash};

/// A block of the table as it was written: which stays it gives blocks to.
type Version = BTreeMap<Block, u16>;

/// See the module's documentation.
#[derive(Debug)]
pub struct Fat {
    toy: FatToy,
    memory: Option<Memory>,
    /// Where files begin, as directories have it.
    heads: [Option<Block>; FILES],
    /// Each block of the table as it left memory last.
    left: BTreeMap<Block, Version>,
    /// Versions of each block of the table that may come back.
    versions: BTreeMap<Block, Vec<Version>>,
    /// How many of them came before the cut.
    cut: BTreeMap<Block, usize>,
    next_stay: u16,
}

impl Fat {
    /// Which stays `block` of the table gives blocks to, as it is in memory.
    fn version(&self, block: Block) -> Version {
        let first = (block - TABLE) * ENTRIES as Block;
        let stays = self.memory.iter().flat_map(|it| &it.stays).map(|(block, stay)| (*block, *stay));
        stays.filter(|(it, _)| (first..first + ENTRIES as Block).contains(it)).collect()
    }

    /// Whether `block` is data: nothing else is ever destroyed.
    fn is_spared(&self, block: Block) -> Result<(), String> {
        if self.is_data(block) { Ok(()) } else { Err(format!("safety: block {block} is metadata")) }
    }
}

impl System for Fat {
    type Action = Action;

    const MAY_BE_LATE: bool = false;

    fn new(setup: &Setup) -> (Self, Vec<Bytes>) {
        let toy = FatToy { blocks: DATA + setup.data + 1, was_clean: true, is_final: setup.is_final };
        let this = Self {
            toy,
            memory: None,
            heads: [None; FILES],
            left: BTreeMap::new(),
            versions: (TABLE..DATA).map(|it| (it, vec![Version::new()])).collect(),
            cut: BTreeMap::new(),
            next_stay: 0,
        };
        (this, toy.disk())
    }

    fn attach(
        &self,
        disk: Vec<Bytes>,
        options: Options,
        now: Millis,
        was_clean: bool,
    ) -> Differential<BLOCK_BYTES> {
        differential(FatToy { was_clean, ..self.toy }, disk, options, now, true)
    }

    fn mount(&mut self, disk: &[Bytes]) {
        self.memory = Some(Memory::mount(self.toy, disk, self.heads));
    }

    fn is_mounted(&self) -> bool {
        self.memory.is_some()
    }

    fn leave(&mut self) {
        self.memory = None;
    }

    fn recovered(&mut self, _: &[Bytes]) {}

    /// As Linux does it: what it finds in use stays so.
    fn superblock_in_use(&self, before: Super) -> Option<Super> {
        before.is_clean.then_some(Super { is_clean: false, mended: 0, mounts: 0 })
    }

    fn superblock_at_last(&self, was_clean: bool) -> Option<Bytes> {
        was_clean.then(|| Super { is_clean: true, mended: 0, mounts: 0 }.bytes())
    }

    fn dirty(&self) -> BTreeSet<Block> {
        self.memory.as_ref().map(|it| it.dirty.clone()).unwrap_or_default()
    }

    fn write_back(&mut self, block: Block) -> Bytes {
        if self.is_map(block) {
            self.left.insert(block, self.version(block));
        }
        self.memory.as_mut().expect("what is dirty is mounted").write_back(block)
    }

    fn mend(&mut self, disk: &[Bytes]) -> Vec<(Block, Bytes)> {
        self.mount(disk);
        let memory = self.memory.as_mut().expect("it is mounted");
        memory.mend();
        self.heads = memory.heads;
        let dirty = self.dirty().into_iter();
        let mut written: Vec<_> = dirty.map(|it| (it, self.write_back(it))).collect();
        written.extend(self.superblock_at_last(true).map(|it| (SUPER, it)));
        self.leave();
        written
    }

    fn is_data(&self, block: Block) -> bool {
        self.toy.data().contains(&block)
    }

    fn is_map(&self, block: Block) -> bool {
        (TABLE..DATA).contains(&block)
    }

    fn free(&self) -> Vec<Block> {
        self.memory.as_ref().map(Memory::free).unwrap_or_default()
    }

    fn touches(&self) -> Vec<Action> {
        self.memory.iter().flat_map(|it| it.stays.keys().copied()).map(Action::Touch).collect()
    }

    fn actions(&self, _: &Setup) -> Vec<Action> {
        self.memory.iter().flat_map(Memory::actions).collect()
    }

    fn frees(action: Action) -> bool {
        action.frees()
    }

    fn does(&mut self, action: Action) {
        let Some(memory) = &mut self.memory else { return };
        let next_stay = &mut self.next_stay;
        memory.does(action, |_| {
            *next_stay += 1;
            *next_stay - 1
        });
        self.heads = memory.heads;
    }

    fn written(&mut self, block: Block, _: &Bytes, _: &[Bytes]) {
        if let Some(versions) = self.versions.get_mut(&block) {
            versions.extend(self.left.get(&block).cloned());
        }
    }

    /// What is destroyed before a write is what the write replaces.
    fn taken(&mut self, block: Block) -> Result<(), String> {
        self.is_spared(block)
    }

    fn dies(&mut self, block: Block, disk: &[Bytes], seen: &[Bytes], _: bool) -> Result<(), String> {
        self.is_spared(block)?;
        let Some(top) = stay_of(&disk[block as usize]) else { return Ok(()) };
        let is_owned = match &self.memory {
            Some(memory) => memory.stays.get(&block) == Some(&top),
            None => entries(seen)[block as usize] != 0 && stay_of(&seen[block as usize]) == Some(top),
        };
        if is_owned {
            return Err(format!("safety: a file has block {block} and what lies there is its own"));
        }
        let mut versions = self.versions.values().flatten();
        if versions.any(|it| it.get(&block) == Some(&top)) {
            return Err(format!("safety: after a crash a file may have block {block} again"));
        }
        Ok(())
    }

    fn cut(&mut self) {
        self.cut = self.versions.iter().map(|(block, it)| (*block, it.len())).collect();
    }

    fn proven(&mut self) {
        for (block, count) in std::mem::take(&mut self.cut) {
            self.versions.get_mut(&block).expect("it was counted").drain(..count - 1);
        }
    }

    fn forgotten(&mut self) {
        self.cut.clear();
    }

    fn is_clean(&self, disk: &[Bytes], _: Grade) -> Result<Excuses, String> {
        let entries = entries(disk);
        let left = |it: &Block| entries[*it as usize] == 0 && stay_of(&disk[*it as usize]).is_some();
        match self.toy.data().find(left) {
            Some(block) => Err(format!("forensic: what was in block {block} lies there")),
            None => Ok(Excuses::default()),
        }
    }

    fn digest(&self, hasher: &mut DefaultHasher) {
        (&self.memory, self.heads, &self.left, &self.versions, &self.cut).hash(hasher);
    }
}
