//! The owner of each block, the writer of each content, and the part of that which could have been
//! seen from below.

use crate::content::Tag;
use crate::rule_e::guest::{IS_POINTERS, Mark, Owner, Stay};
use crate::rule_e::judge::{inodes, namers};
use crate::rule_e::toy::{BLOCK_BYTES, Bytes, MAP, POINTERS, TABLE, Toy};
use quietus_detect::format::{Block, Kind};
use std::collections::{BTreeMap, BTreeSet};

/// A write of a block of data.
#[derive(Clone, Debug)]
pub struct Record {
    /// Stay in which it was written.
    pub mark: Option<Mark>,
    /// Epoch of the block when it arrived.
    epoch: u32,
    /// The write arrived, and the server has crashed since, or nobody was watching: the server may
    /// have forgotten that something lies below the block's content.
    pub is_excused: bool,
}

/// Events that were seen of a block's owners.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Number of changes of the block's owner, and of maps that show it free.
    epoch: u32,
    namers: BTreeSet<Owner>,
}

/// Truth; see the module's documentation.
#[derive(Clone, Debug)]
pub struct Truth {
    toy: Toy,
    /// The owner of each stay, and whether it lasts.
    stays: Vec<(Block, Owner, bool)>,
    /// Stays whose content was called dead, and rightly so. Nothing brings them back: pointers that
    /// name their blocks later were not written to do so.
    gone: BTreeSet<Stay>,
    /// Writes, by tag.
    records: Vec<Record>,
    places: Vec<Place>,
    /// Contents as they have arrived; zeros where they were called dead.
    seen: Vec<Bytes>,
}

impl Truth {
    /// The truth of a disk with this content.
    pub fn new(toy: Toy, seen: Vec<Bytes>) -> Self {
        let places = vec![Place::default(); seen.len()];
        Self { toy, stays: Vec::new(), gone: BTreeSet::new(), records: Vec::new(), places, seen }
    }

    /// Contents as they have arrived; zeros where they were called dead.
    pub fn seen(&self) -> &[Bytes] {
        &self.seen
    }

    /// Gives `block` to `owner`.
    pub fn begin(&mut self, block: Block, owner: Owner) -> Stay {
        self.stays.push((block, owner, true));
        Stay((self.stays.len() - 1) as u16)
    }

    /// The stay of `owner` in `block`, if it lasts.
    pub fn present(&self, block: Block, owner: Option<&Owner>) -> Option<Stay> {
        self.latest(block, owner).filter(|it| self.stays[it.0 as usize].2)
    }

    /// The latest stay of `owner` in `block`.
    fn latest(&self, block: Block, owner: Option<&Owner>) -> Option<Stay> {
        let latest = self.stays.iter().rposition(|it| it.0 == block && Some(&it.1) == owner);
        latest.map(|n| Stay(n as u16))
    }

    /// Ends the stay in `block`.
    pub fn end(&mut self, block: Block) {
        self.stays.iter_mut().filter(|it| it.0 == block).for_each(|it| it.2 = false);
    }

    /// Notes the owners after a crash, as they follow from the content.
    pub fn recovered(&mut self, named: &BTreeMap<Block, Owner>) {
        for (n, (block, owner, lasts)) in (0..).zip(&mut self.stays) {
            *lasts = named.get(block) == Some(owner) && !self.gone.contains(&Stay(n));
        }
    }

    /// Gives a write of `page` a tag.
    pub fn tag(&mut self, page: &Bytes) -> Tag {
        self.records.push(Record { mark: Mark::of(page), epoch: 0, is_excused: false });
        Tag((self.records.len() - 1) as u32)
    }

    /// The write `tag`.
    pub fn record(&self, tag: Tag) -> &Record {
        &self.records[tag.0 as usize]
    }

    /// Notes that `page` arrives for `block`; `excused`: and nobody watches.
    pub fn arrived(&mut self, block: Block, page: &Bytes, tag: Option<Tag>, excused: bool) {
        if let Some(record) = tag.and_then(|tag| self.records.get_mut(tag.0 as usize)) {
            record.epoch = self.places[block as usize].epoch;
            record.is_excused = excused;
        }
        self.seen[block as usize] = *page;
        if block == MAP {
            for (place, _) in self.places.iter_mut().zip(page).filter(|(_, byte)| **byte == 0) {
                place.epoch += 1;
            }
        }
        self.observe();
    }

    /// Notes the content after a crash.
    pub fn found(&mut self, seen: Vec<Bytes>) {
        self.seen = seen;
        self.observe();
    }

    fn observe(&mut self) {
        for (place, namers) in self.places.iter_mut().zip(namers(self.toy, &self.seen)) {
            place.epoch += u32::from(place.namers != namers);
            place.namers = namers;
        }
    }

    /// Forgets what was suspicious.
    pub fn forget(&mut self) {
        self.records.iter_mut().for_each(|it| it.is_excused = true);
    }

    /// Whether the write in `mark` is of a stay that is over.
    pub fn is_dead(&self, mark: Option<Mark>) -> bool {
        mark.is_some_and(|it| !self.stays[it.stay.0 as usize].2)
    }

    /// Safety: the content of `block`, the latest that has arrived, is called
    /// dead. `possible`: what a crash may leave of
    /// each block.
    pub fn dies(
        &mut self,
        block: Block,
        named: &BTreeMap<Block, Owner>,
        possible: &[Vec<Bytes>],
    ) -> Result<(), String> {
        let Some(mark) = Mark::of(&self.seen[block as usize]) else {
            self.seen[block as usize] = [0; BLOCK_BYTES];
            return Ok(());
        };
        let Mark { stay, owner } = mark;
        if named.get(&block) == Some(&owner) && self.present(block, Some(&owner)) == Some(stay) {
            return Err(format!("safety: {owner:?} has block {block}, and what lies there is its own"));
        }
        let is_latest = self.latest(block, Some(&owner)) == Some(stay);
        if is_latest && self.may_be_recovered(block, owner, possible) {
            return Err(format!("safety: after a crash {owner:?} may have block {block} again"));
        }
        self.gone.insert(stay);
        self.seen[block as usize] = [0; BLOCK_BYTES];
        Ok(())
    }

    /// Whether nothing could be seen of the end of the stay of `record`, a write
    /// to `block`.
    pub fn is_hidden(&self, block: Block, record: &Record) -> bool {
        let place = &self.places[block as usize];
        record.epoch == place.epoch && !place.namers.is_empty()
    }

    /// Whether some mixture of what is possible gives `block` to `owner`. Data
    /// that looks as if it were pointers gives nobody anything, nor do pointers
    /// that were written before the owner got their block once more.
    fn may_be_recovered(&self, block: Block, owner: Owner, possible: &[Vec<Bytes>]) -> bool {
        let names = |at: Block, it: &Bytes| {
            it[IS_POINTERS] != 0
                && it[..POINTERS].iter().any(|it| Block::from(*it) == block)
                && Mark::of(it).map(|it| it.stay) == self.latest(at, Some(&owner))
        };
        let files = possible[TABLE as usize].iter().flat_map(inodes).filter(|it| it.0 == owner);
        files.flat_map(|(_, inode)| inode.owns()).any(|(it, kind)| {
            let at = Block::from(it);
            at == block || (kind != Kind::Data && possible[it as usize].iter().any(|it| names(at, it)))
        })
    }
}
