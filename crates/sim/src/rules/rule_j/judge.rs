//! The judge knows the owner of each block's content, and what any crash may give back to which file.
//!
//! A recovery brings back some finished transaction's state, whole. So
//! the judge keeps the owners at the end of each transaction from the newest
//! that is durable for certain: content is dead for good when it has no owner in
//! any of these, nor in the memory of the guest.

use crate::rules::rule_e::guest::{Mark, Owner, Stay};
use crate::rules::rule_e::toy::marking::is_marked;
use crate::rules::rule_e::toy::{BLOCK_BYTES, Toy};
use crate::rules::rule_j::log::{Area, At, Tail, Tid};
use quietus_detect::formats::format::Block;
use std::collections::{BTreeMap, BTreeSet};

/// The owner's stay in each block.
pub type Holds = BTreeMap<Block, Stay>;

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Layer {
    stay: Stay,
    /// Since it was written, the rules have seen a committed map that shows its
    /// block free.
    was_shown_free: bool,
    /// Commits that had been received when it was written.
    commits: u64,
    /// The server has crashed since: its marks are gone.
    is_excused: bool,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Place {
    top: Option<Layer>,
    below: Vec<Layer>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Judge {
    toy: Toy,
    area: Area,
    places: BTreeMap<Block, Place>,
    stays: Vec<Owner>,
    /// The owners in the memory of a guest, if there is one.
    pub holds: Holds,
    is_mounted: bool,
    /// At the end of each transaction that may be recovered.
    ends: BTreeMap<Tid, Holds>,
    /// What files had reserved and not written at the end of each transaction.
    reserved: BTreeMap<Tid, BTreeSet<Block>>,
    /// The newest transaction that is on the disk.
    pub newest: Tid,
    /// The newest transaction whose commit block is.
    pub ended: Tid,
    /// Commits, of all mounts, that brought a map.
    commits: u64,
    /// The rules have no map before this many commits.
    knows_from: u64,
    /// The rules have not read what they want since they began to watch.
    is_new: bool,
    cut: Option<(Tid, usize)>,
    /// Which transaction wrote a block of the log last.
    log: BTreeMap<At, Tid>,
    /// Where the log may begin: since the last that is durable for certain.
    pub tails: Vec<Tail>,
}

impl Judge {
    /// An empty file system, and an empty log.
    pub fn new(toy: Toy, area: Area, tail: Tail) -> Self {
        Self {
            toy,
            area,
            places: toy.data().map(|it| (it, Place::default())).collect(),
            ends: BTreeMap::from([(0, Holds::new())]),
            knows_from: 1,
            tails: vec![tail],
            ..Self::default()
        }
    }

    pub fn begin(&mut self, block: Block, owner: Owner) -> Stay {
        self.stays.push(owner);
        let stay = Stay((self.stays.len() - 1) as u16);
        self.holds.insert(block, stay);
        stay
    }

    /// The owner of `block` gives it up.
    pub fn end(&mut self, block: Block) {
        self.holds.remove(&block);
    }

    /// Transaction `tid` is closed: it begins to commit. It has those blocks `reserved`: after a recovery, no file
    /// owns what lies there.
    pub fn closed(&mut self, tid: Tid, reserved: BTreeSet<Block>) {
        let mut holds = self.holds.clone();
        holds.retain(|it, _| !reserved.contains(it));
        self.ends.insert(tid, holds);
        self.reserved.insert(tid, reserved);
    }

    /// All of `tid` is on the disk.
    pub fn finished(&mut self, tid: Tid, brings_map: bool) {
        if self.newest != tid {
            self.commits += u64::from(brings_map);
        }
        self.newest = tid;
    }

    /// What the newest transaction that is on the disk has reserved.
    fn reserved_now(&self) -> BTreeSet<Block> {
        self.reserved.get(&self.newest).cloned().unwrap_or_default()
    }

    pub fn owner(&self, stay: Stay) -> Owner {
        self.stays[stay.0 as usize]
    }

    /// The stays at the end of `tid`, if it may be recovered.
    pub fn end_of(&self, tid: Tid) -> Holds {
        self.ends.get(&tid).cloned().unwrap_or_default()
    }

    /// A crash has left the transactions up to `tid`.
    ///
    /// # Errors
    /// If no crash can leave that.
    pub fn recovered(&mut self, tid: Tid) -> Result<(), String> {
        if !self.ends.contains_key(&tid) {
            let ends = self.ends.keys();
            return Err(format!("safety: of the transactions {ends:?} {tid} is the last found"));
        }
        self.newest = tid;
        self.crashed();
        Ok(())
    }

    /// The guest is gone; transactions that are not on the disk are gone with it.
    pub fn crashed(&mut self) {
        self.is_mounted = false;
        self.ends.retain(|tid, _| *tid <= self.newest);
    }

    /// The state at the end of the newest transaction is the one that there is;
    /// the next one is `tid`.
    pub fn mounted(&mut self, tid: Tid) {
        self.holds = self.ends.remove(&self.newest).unwrap_or_default();
        self.knows_from = self.knows_from.max(self.commits + 1);
        let lost = self.log.values_mut().filter(|it| **it > self.newest);
        lost.for_each(|it| *it = 0);
        self.ends = BTreeMap::from([(tid - 1, self.holds.clone())]);
        self.reserved = BTreeMap::from([(tid - 1, self.reserved_now())]);
        (self.newest, self.is_mounted) = (tid - 1, true);
        self.cut = self.cut.map(|(_, tails)| (tid - 1, tails));
    }

    /// The guest has unmounted in order.
    pub fn unmounted(&mut self) {
        self.is_mounted = false;
    }

    /// `bytes` have gone to a block of data.
    pub fn written(&mut self, block: Block, bytes: &[u8]) {
        let Some(place) = self.places.get_mut(&block) else { return };
        place.below.extend(place.top.take());
        let mark = Mark::of(&bytes[..BLOCK_BYTES]);
        let layer = |Mark { stay, .. }| Layer { stay, commits: self.commits, ..Layer::default() };
        place.top = mark.map(layer);
    }

    /// A crash has left `bytes` in a block of data.
    pub fn lies(&mut self, block: Block, bytes: &[u8]) {
        let top = self.places.get(&block).and_then(|it| it.top.as_ref()).map(|it| it.stay);
        if top != Mark::of(&bytes[..BLOCK_BYTES]).map(|it| it.stay) {
            self.written(block, bytes);
        }
    }

    /// Whether a crash of the server forgot what `stay` left below the present content of `block`, and
    /// whether nothing showed before the crash that this was dead.
    pub fn excuse(&self, block: Block, stay: Stay) -> (bool, bool) {
        let below = self.places.get(&block).and_then(|it| it.below.iter().rev().find(|it| it.stay == stay));
        below.map_or((false, false), |it| (it.is_excused, !it.was_shown_free))
    }

    /// A block of the log has been written by `tid`.
    pub fn logged(&mut self, block: Block, tid: Tid) {
        if let Some(at) = self.area.at(block) {
            self.log.insert(at, tid);
        }
    }

    /// The rules have seen all that there was to see.
    pub fn has_seen(&mut self) {
        if std::mem::take(&mut self.is_new) {
            // The first commit block that comes from here on shows where the next
            // transaction begins. That of one that is still on its way has come.
            let missed = u64::from(self.ended > self.newest);
            self.knows_from = self.commits + missed + 2;
        }
        let knows = !self.is_new && self.commits >= self.knows_from;
        let holds = self.ends.get(&self.newest).cloned().unwrap_or_default();
        let reserved = self.reserved_now();
        let is_free = |block: &Block| !holds.contains_key(block) && !reserved.contains(block);
        for (block, place) in self.places.iter_mut().filter(|(block, _)| is_free(block)) {
            debug_assert!(self.toy.data().contains(block));
            let seen = place.top.as_mut().filter(|it| knows && self.commits > it.commits);
            seen.into_iter().for_each(|it| it.was_shown_free = true);
        }
    }

    pub fn destroyed(&mut self, block: Block) {
        if let Some(place) = self.places.get_mut(&block) {
            *place = Place::default();
        }
        if let Some(at) = self.area.at(block) {
            self.log.remove(&at);
        }
    }

    /// All but the present content of `block` is destroyed.
    pub fn rewritten(&mut self, block: Block) {
        if let Some(place) = self.places.get_mut(&block) {
            place.below.clear();
        }
    }

    /// The server was killed: its marks are gone, and so is its proof.
    pub fn forgotten(&mut self) {
        self.cut = None;
        self.is_new = true;
        for place in self.places.values_mut() {
            place.below.iter_mut().chain(&mut place.top).for_each(|it| it.is_excused = true);
        }
    }

    /// The rules have to read before they can go on, and may lose their place
    /// until then.
    pub fn waits(&mut self) {
        self.is_new = true;
    }

    /// Evidence begins to be made durable.
    pub fn cut(&mut self) {
        self.cut = Some((self.newest, self.tails.len()));
    }

    /// Notes that the evidence is durable.
    pub fn proven(&mut self) {
        let Some((tid, tails)) = self.cut.take() else { return };
        self.proven_to(tid);
        self.tails.drain(..tails - 1);
    }

    pub fn proven_to(&mut self, tid: Tid) {
        self.ends.retain(|it, _| *it >= tid);
    }

    /// Safety: whether the content of `block` may be destroyed.
    ///
    /// # Errors
    /// If a file has the block, or may have it again; or if a recovery may need it.
    pub fn dies(&self, block: Block) -> Result<(), String> {
        if let Some(at) = self.area.at(block) {
            return self.log_dies(at, &self.tails);
        }
        let Some(place) = self.places.get(&block) else {
            return Err(format!("safety: block {block} is metadata in a fixed place"));
        };
        let Some(stay) = place.top.as_ref().map(|it| it.stay) else { return Ok(()) };
        let owner = self.stays[stay.0 as usize];
        if self.is_mounted && self.holds.get(&block) == Some(&stay) {
            return Err(format!("safety: block {block} holds present content of {owner:?}"));
        }
        let end = self.ends.iter().find(|(_, holds)| holds.get(&block) == Some(&stay));
        let wrong =
            |tid| Err(format!("safety: a crash may give block {block} back to {owner:?}, as of {tid}"));
        end.map_or(Ok(()), |(tid, _)| wrong(tid))
    }

    /// Safety: whether block `at` of the log may be destroyed, if it may begin at any of `tails`.
    pub fn log_dies(&self, at: At, tails: &[Tail]) -> Result<(), String> {
        if at == 0 {
            return Err("safety: the journal's superblock is not residue".into());
        }
        let Some(tid) = self.log.get(&at) else { return Ok(()) };
        let tail = tails.iter().find(|it| it.start != 0 && *tid >= it.tid);
        let wrong = |it| Err(format!("safety: a recovery from {it:?} needs block {at} of the log, of {tid}"));
        tail.map_or(Ok(()), wrong)
    }

    fn is_marked(&self, layer: &Layer) -> bool {
        is_marked(self.owner(layer.stay).generation)
    }

    /// Blocks with content of a marked file, or with some left below their present content.
    pub fn marked(&self) -> Vec<Block> {
        let is_marked = |place: &Place| place.below.iter().chain(&place.top).any(|it| self.is_marked(it));
        self.places.iter().filter(|(_, place)| is_marked(place)).map(|(block, _)| *block).collect()
    }

    /// Blocks that unmarked files have, and have written, in which nothing of marked files is left.
    pub fn unmarked(&self) -> Vec<Block> {
        let marked = self.marked();
        let has_written = |(block, stay): &(&Block, &Stay)| {
            self.places.get(block).and_then(|it| it.top.as_ref()).is_some_and(|it| it.stay == **stay)
        };
        let owned = self.holds.iter().filter(has_written).map(|(block, _)| *block);
        owned.filter(|block| !marked.contains(block)).collect()
    }

    /// Forensic: nothing dead is left, once everything has settled and nothing is mounted, but for what a
    /// crash gave to a file that had not written it yet. Layers below content count if the rules know of
    /// layers; of the journal what transactions up to `last` logged. If it `has_marks`, only content of marked files
    /// counts.
    pub fn is_clean(&self, knows_layers: bool, last: Tid, has_marks: bool) -> Result<(), String> {
        let holds = self.ends.get(&self.newest).cloned().unwrap_or_default();
        if let Some((at, tid)) = self.log.iter().find(|(_, tid)| **tid <= last) {
            return Err(format!("residue: block {at} of the log still holds what {tid} logged"));
        }
        for (block, place) in &self.places {
            let held = holds.get(block);
            let exposed = place.top.as_ref().filter(|it| Some(&it.stay) != held);
            let counts = |layer: &&Layer| !has_marks || self.is_marked(layer);
            if let Some(top) = exposed.filter(|_| held.is_none()).filter(counts) {
                let owner = self.stays[top.stay.0 as usize];
                return Err(format!("forensic: the content of {owner:?} is still in block {block}"));
            }
            let mut below = place.below.iter().filter(|_| exposed.is_none() && knows_layers);
            if let Some(layer) =
                below.find(|it| Some(&it.stay) != held && !it.is_excused && it.was_shown_free && counts(it))
            {
                let stay = layer.stay;
                return Err(format!(
                    "forensic: the content of {stay:?} in block {block} is only overwritten"
                ));
            }
        }
        Ok(())
    }
}
