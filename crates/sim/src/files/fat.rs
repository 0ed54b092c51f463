//! A FAT. Each block of its table notes, behind the entries, the stay to which each entry belongs: by
//! that the truth knows one file from another that had the same blocks.

use super::system::System;
use super::truth::Truth;
use crate::rule_e::fat::memory::{FILES, Memory};
use crate::rule_e::fat::{DATA, ENTRIES, FatToy, HEAD_BYTES, TABLE, entries};
use crate::rule_e::guest::actions::Action;
use crate::rule_e::guest::{Mark, Owner, Stay};
use crate::rule_e::toy::{Bytes, SUPER, Super};
use quietus_core::units::BLOCK_BYTES;
use quietus_detect::format::Block;
use std::collections::{BTreeMap, BTreeSet};

/// See [`System::label`]: of a table that is final, and of one that needs rest.
pub const LABELS: [u8; 2] = [1, 2];
/// Place of the stays in a block of the table: two bytes an entry.
const STAYS: usize = 32;
/// File of an owner that names a block as the next one behind itself.
const CHAIN: u8 = u8::MAX;

/// See the module's documentation.
#[derive(Debug)]
pub struct Fat {
    toy: FatToy,
    memory: Option<Memory>,
    /// Where files begin, as directories have it, which no guest forgets.
    heads: [Option<Block>; FILES],
    /// The stays that the table noted at the mount: those of chains that no file begins, too.
    noted: BTreeMap<Block, u16>,
}

impl Fat {
    /// An empty one, with so many blocks of data, whose table `is_final`, or needs rest.
    pub fn new(data: Block, is_final: bool) -> Self {
        let (blocks, block_bytes) = (DATA + data + 1, BLOCK_BYTES as u32);
        let toy = FatToy { blocks, was_clean: true, is_final, block_bytes };
        Self { toy, memory: None, heads: [None; FILES], noted: BTreeMap::new() }
    }
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

fn noted_on(seen: &[Bytes], block: Block) -> Option<Stay> {
    noted(&seen[table_of(block) as usize], block)
}

/// A stay as an owner of its block.
fn owner(stay: Stay) -> Owner {
    let [file, generation] = stay.0.to_le_bytes();
    Owner { file, generation }
}

impl System for Fat {
    fn label(&self) -> u8 {
        LABELS[usize::from(!self.toy.is_final)]
    }

    fn blocks(&self) -> Block {
        self.toy.blocks
    }

    fn is_data(&self, block: Block) -> bool {
        self.toy.data().contains(&block)
    }

    fn disk(&mut self, _: u64) -> Vec<Vec<u8>> {
        self.toy.disk().into_iter().map(Vec::from).collect()
    }

    fn is_mounted(&self) -> bool {
        self.memory.is_some()
    }

    /// As Linux does it: what is found in use stays so.
    fn in_use(&self, before: Super) -> Option<Super> {
        before.is_clean.then_some(Super { is_clean: false, ..before })
    }

    fn mount(&mut self, seen: &[Bytes]) {
        let mut memory = Memory::mount(self.toy, seen, self.heads);
        self.noted = self.toy.data().filter_map(|it| Some((it, noted_on(seen, it)?.0))).collect();
        let owned: Vec<_> = (0..FILES).flat_map(|file| memory.chain(file)).collect();
        memory.stays = owned.iter().map(|it| (*it, self.noted[it])).collect();
        self.memory = Some(memory);
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
        let mut page = memory.write_back(block);
        if let Some(stay) = memory.stays.get(&block).copied().map(Stay) {
            Mark { stay, owner: owner(stay) }.put(&mut page);
        }
        for (noted, stay) in self.noted.iter().chain(&memory.stays).filter(|it| table_of(*it.0) == block) {
            let at = STAYS + 2 * (*noted as usize % ENTRIES);
            page[at..at + 2].copy_from_slice(&stay.to_le_bytes());
        }
        Some(page)
    }

    fn mend(&mut self, seen: &[Bytes]) -> Vec<(Block, Bytes)> {
        self.mount(seen);
        let memory = self.memory.as_mut().expect("it is mounted");
        memory.mend();
        self.heads = memory.heads;
        let mut written: Vec<_> =
            self.dirty().into_iter().filter_map(|it| Some((it, self.write_back(it)?))).collect();
        written.extend(self.at_last(true).map(|it| (SUPER, it.bytes())));
        self.leave();
        written
    }

    fn free(&self) -> Vec<Block> {
        self.memory.as_ref().map(Memory::free).unwrap_or_default()
    }

    fn actions(&self) -> Vec<Action> {
        self.memory.iter().flat_map(Memory::actions).collect()
    }

    fn does(&mut self, action: Action, truth: &mut Truth) {
        let Some(memory) = &mut self.memory else { return };
        let before = memory.stays.clone();
        memory.does(action, |block| truth.begin(block, owner(truth.next_stay())).0);
        self.heads = memory.heads;
        before.keys().filter(|it| !memory.stays.contains_key(it)).for_each(|it| truth.end(*it));
    }

    fn owners(&self) -> Option<BTreeMap<Block, Owner>> {
        let stays = &self.memory.as_ref()?.stays;
        Some(stays.iter().map(|(block, stay)| (*block, owner(Stay(*stay)))).collect())
    }

    fn owners_on(&self, seen: &[Bytes], _: &[Vec<u8>]) -> BTreeMap<Block, Owner> {
        self.toy.data().filter_map(|it| Some((it, owner(noted_on(seen, it)?)))).collect()
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

    /// The table is final: no pointer gives anybody a block that the table does not.
    fn is_needed(&mut self, block: Block, mark: Option<Mark>, _: &Truth, possible: &[Vec<Bytes>]) -> bool {
        let stay = mark.map(|it| it.stay);
        possible[table_of(block) as usize].iter().any(|it| stay.is_some() && noted(it, block) == stay)
    }
}
