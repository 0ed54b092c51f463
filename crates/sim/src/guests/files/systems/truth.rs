//! The owner of each block, the writer of each content, and the part of that which could have been
//! seen from below.

use crate::machine::content::Tag;
use crate::rules::rule_e::guest::{Mark, Owner, Stay};
use crate::rules::rule_e::toy::{BLOCK_BYTES, Bytes};
use crate::rules::rule_j::judge::Holds;
use quietus_detect::formats::format::Block;
use std::collections::{BTreeMap, BTreeSet};

/// A write of a block of data.
#[derive(Clone, Debug)]
pub struct Record {
    /// Stay in which it was written.
    pub mark: Option<Mark>,
    /// Epoch of the block when it arrived.
    epoch: u32,
    /// Epoch of the block when the next write of it arrived, if one did.
    covered: Option<u32>,
    /// The server has crashed since the write arrived, or watched nothing then: it may have forgotten
    /// that something lies below the block's content.
    pub is_excused: bool,
}

impl Record {
    fn of(page: &Bytes) -> Self {
        Self { mark: Mark::of(page), epoch: 0, covered: None, is_excused: false }
    }
}

/// Events that were seen of a block's owners.
#[derive(Clone, Debug, Default)]
struct Place {
    /// Number of changes of the block's owner, and of maps that show it free.
    epoch: u32,
    namers: BTreeSet<Owner>,
    last: Option<Tag>,
}

#[derive(Clone, Debug)]
pub struct Truth {
    /// The owner of each stay, and whether it lasts.
    stays: Vec<(Block, Owner, bool)>,
    /// Stays whose content was called dead, and rightly so. Nothing brings them back: pointers that
    /// name their blocks later were not written to do so.
    gone: BTreeSet<Stay>,
    pub records: BTreeMap<Tag, Record>,
    places: Vec<Place>,
    /// Contents as they have arrived; zeros where they were called dead.
    pub seen: Vec<Bytes>,
}

impl Truth {
    pub fn new(seen: Vec<Bytes>) -> Self {
        let places = vec![Place::default(); seen.len()];
        Self { stays: Vec::new(), gone: BTreeSet::new(), records: BTreeMap::new(), places, seen }
    }

    pub fn next_stay(&self) -> Stay {
        Stay(self.stays.len() as u16)
    }

    /// Gives `block` to `owner`, and ends any other stay there: a guest that goes on after a crash may
    /// take for free what a file still names.
    pub fn begin(&mut self, block: Block, owner: Owner) -> Stay {
        self.end(block);
        let stay = self.next_stay();
        self.stays.push((block, owner, true));
        stay
    }

    /// The stay of `owner` in `block`, if it lasts.
    pub fn present(&self, block: Block, owner: Option<&Owner>) -> Option<Stay> {
        self.latest(block, owner).filter(|it| self.stays[it.0 as usize].2)
    }

    pub fn latest(&self, block: Block, owner: Option<&Owner>) -> Option<Stay> {
        let latest = self.stays.iter().rposition(|it| it.0 == block && Some(&it.1) == owner);
        latest.map(|n| Stay(n as u16))
    }

    pub fn end(&mut self, block: Block) {
        self.stays.iter_mut().filter(|it| it.0 == block).for_each(|it| it.2 = false);
    }

    /// Notes the owners after a crash, as they follow from the content, or the stays, where a journal
    /// decides them.
    pub fn recovered(&mut self, named: &BTreeMap<Block, Owner>, holds: Option<Holds>) {
        for (n, (block, owner, lasts)) in (0..).zip(&mut self.stays) {
            *lasts = match &holds {
                Some(holds) => holds.get(block) == Some(&Stay(n)) && !self.gone.contains(&Stay(n)),
                None => named.get(block) == Some(owner) && !self.gone.contains(&Stay(n)),
            };
        }
    }

    pub fn tag(&mut self, page: &Bytes) -> Tag {
        let tag = Tag(self.records.len() as u32);
        self.records.insert(tag, Record::of(page));
        tag
    }

    /// Notes that `page` arrives at `block`, and whether each of the blocks `shown` is allocated.
    pub fn arrived(&mut self, block: Block, page: &Bytes, tag: Option<Tag>, shown: &[(Block, bool)]) {
        if let Some(tag) = tag {
            let record = self.records.entry(tag).or_insert_with(|| Record::of(page));
            let Place { epoch, last, .. } = &mut self.places[block as usize];
            (record.epoch, record.covered, record.is_excused) = (*epoch, None, false);
            let covered = last.replace(tag).filter(|it| *it != tag);
            if let Some(record) = covered.and_then(|it| self.records.get_mut(&it)) {
                record.covered = Some(*epoch);
            }
        }
        self.seen[block as usize] = *page;
        for (free, _) in shown.iter().filter(|(_, is_allocated)| !is_allocated) {
            self.places[*free as usize].epoch += 1;
        }
    }

    /// Notes the owners that name each block, as far as pointers on the disk tell.
    pub fn named(&mut self, namers: Vec<BTreeSet<Owner>>) {
        for (place, namers) in self.places.iter_mut().zip(namers) {
            place.epoch += u32::from(place.namers != namers);
            place.namers = namers;
        }
    }

    /// Forgets what was suspicious.
    pub fn forget(&mut self) {
        self.records.values_mut().for_each(|it| it.is_excused = true);
    }

    /// Whether the write in `mark` is of a stay that is over.
    pub fn is_dead(&self, mark: Option<Mark>) -> bool {
        mark.is_some_and(|it| !self.stays[it.stay.0 as usize].2)
    }

    /// Notes that the content of `block`, which has `mark`, was called dead, and rightly so.
    pub fn died(&mut self, block: Block, mark: Option<Mark>) {
        self.gone.extend(mark.map(|it| it.stay));
        self.seen[block as usize] = [0; BLOCK_BYTES];
    }

    /// Whether nothing could be seen of the end of the stay of `record`, a write to `block`: no more than that it was
    /// written over. If what covers it dies, it gets the passes of that.
    pub fn is_hidden(&self, block: Block, record: &Record) -> bool {
        let place = &self.places[block as usize];
        record.epoch == record.covered.unwrap_or(place.epoch) && !place.namers.is_empty()
    }
}
