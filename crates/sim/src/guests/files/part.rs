//! One file system, in its partition or on the whole disk.

use crate::guests::files::shelf::Shelf;
use crate::guests::files::systems::system::{LABEL, System};
use crate::guests::files::systems::truth::Truth;
use crate::guests::files::wire::{Sent, What};
use crate::machine::cache::Cache;
use crate::machine::content::Tag;
use crate::rules::rule_e::guest::{Mark, Owner};
use crate::rules::rule_e::toy::{Bytes, SUPER};
use crate::rules::rule_e::wide::narrowed;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::request::RequestId;
use quietus_detect::formats::format::Block;
use std::collections::BTreeMap;

const SECTORS: u32 = BLOCK_BYTES as u32 / 512;

/// A guest, the promises to it, and the owners of its blocks.
#[derive(Debug)]
pub struct Part {
    pub(super) system: Box<dyn System>,
    /// First block of the file system on the disk.
    base: Block,
    /// The file system said that it was clean when it was mounted.
    pub(super) was_clean: bool,
    pub(super) shelves: Vec<Shelf>,
    pub(super) truth: Truth,
    /// Writes that a cache below the guest holds back.
    pub(super) cache: Cache<What>,
    /// Requests on their way, which have not arrived at the server.
    pub(super) wire: Vec<Sent>,
    pub(super) pending: BTreeMap<RequestId, Sent>,
    /// Contents that were read for a mount or a repair.
    pub(super) looked: BTreeMap<Block, Vec<u8>>,
    /// The server crashed, and has not found the file system since.
    pub(super) is_cold: bool,
    /// When each block began to differ from the disk, on a clock that runs while the guest does.
    pub(super) dirty_since: BTreeMap<Block, u64>,
}

impl Part {
    /// An empty file system from block `base` on, and the bytes of its blocks.
    pub(super) fn new(mut system: Box<dyn System>, base: Block, is_cached: bool) -> (Self, Vec<Vec<u8>>) {
        let mut wide = system.disk(u64::from(base) * BLOCK_BYTES);
        wide[SUPER as usize][LABEL] = system.label();
        wide.iter_mut().for_each(|it| it.resize(BLOCK_BYTES as usize, 0));
        let may_be_gone = |it| system.is_data(it) || system.log().contains(&it);
        let shelf = |(n, it): (Block, &Vec<u8>)| Shelf::new(it.clone(), may_be_gone(n));
        let shelves = (0..).zip(&wide).map(shelf).collect();
        let this = Self {
            system,
            base,
            was_clean: true,
            shelves,
            truth: Truth::new(wide.iter().map(|it| narrowed(it)).collect()),
            cache: Cache::new(is_cached),
            wire: Vec::new(),
            pending: BTreeMap::new(),
            looked: BTreeMap::new(),
            is_cold: false,
            dirty_since: BTreeMap::new(),
        };
        (this, wide)
    }

    /// The bytes of `block` on the disk.
    pub(super) fn place(&self, block: Block) -> Extent<Addr> {
        Extent::new(u64::from(self.base + block) * BLOCK_BYTES, BLOCK_BYTES)
    }

    /// The bytes of the file system on the disk.
    pub(super) fn extent(&self) -> Extent<Addr> {
        Extent::between(self.place(0).start.0, self.place(self.system.blocks()).start.0)
    }

    /// The blocks that `extent`, which lies within, touches.
    pub(super) fn touched(&self, extent: Extent<Addr>) -> std::ops::Range<Block> {
        let block = |at: u64| (at / BLOCK_BYTES) as Block - self.base;
        block(extent.start.0)..block(extent.end().next_multiple_of(BLOCK_BYTES))
    }

    /// The owner of each block: by the guest's memory while it runs, else by what it would read.
    pub(super) fn named(&self) -> BTreeMap<Block, Owner> {
        self.system.owners().unwrap_or_else(|| self.system.owners_on(&self.seen(), &[]))
    }

    /// The blocks that have arrived, as the guest reads them.
    pub(super) fn seen(&self) -> Vec<Bytes> {
        self.through_cache(self.truth.seen.clone())
    }

    /// The disk, as the guest reads it.
    pub(super) fn through_cache(&self, mut pages: Vec<Bytes>) -> Vec<Bytes> {
        for (block, what) in self.cache.waiting() {
            if let What::Write { bytes, .. } = what {
                pages[block as usize] = narrowed(bytes);
            }
        }
        pages
    }

    pub(super) fn arrived(&mut self, block: Block, page: &Bytes, tag: Option<Tag>) {
        self.truth.arrived(block, page, tag, &self.system.shown(block, page));
        self.truth.named(self.system.namers(&self.truth.seen));
    }

    /// Notes the content after a crash.
    pub(super) fn found(&mut self, seen: Vec<Bytes>) {
        self.truth.named(self.system.namers(&seen));
        self.truth.seen = seen;
    }

    /// Safety: the content of `block`, the latest that has arrived, is called dead. `possible`: what a crash may leave
    /// of each block.
    pub(super) fn dies(
        &mut self,
        block: Block,
        named: &BTreeMap<Block, Owner>,
        possible: &[Vec<Bytes>],
    ) -> Result<(), String> {
        let mark = Mark::of(&self.truth.seen[block as usize]);
        let is_own = |it: &Mark| named.get(&block) == Some(&it.owner) && !self.truth.is_dead(Some(*it));
        if let Some(Mark { owner, .. }) = mark.filter(is_own) {
            return Err(format!("safety: block {block} holds present content of {owner:?}"));
        }
        if self.system.is_needed(block, mark, &self.truth, possible) {
            return Err(format!("safety: after a crash {mark:?} may be wanted in block {block} again"));
        }
        self.truth.died(block, mark);
        Ok(())
    }

    /// Drops the guest, and with it all that it waits for.
    pub(super) fn hang_up(&mut self) {
        self.wire.clear();
        self.pending.clear();
    }

    pub(super) fn note_dirty(&mut self, run_ms: u64) {
        let dirty = self.system.dirty();
        self.dirty_since.retain(|it, _| dirty.contains(it));
        for block in dirty {
            self.dirty_since.entry(block).or_insert(run_ms);
        }
    }

    /// Whether something is on its way to `block`, or from there.
    pub(super) fn is_busy(&self, block: Block) -> bool {
        self.wire.iter().chain(self.pending.values()).any(|it| it.what.block() == Some(block))
    }
}

/// The block before the partitions, which have these lengths in blocks: an MBR.
pub(super) fn table(blocks: impl Iterator<Item = Block>) -> Vec<u8> {
    let mut bytes = vec![0; BLOCK_BYTES as usize];
    let mut first = 1;
    for (entry, blocks) in bytes[446..510].chunks_exact_mut(16).zip(blocks) {
        entry[4] = 0x83;
        entry[8..12].copy_from_slice(&(first * SECTORS).to_le_bytes());
        entry[12..].copy_from_slice(&(blocks * SECTORS).to_le_bytes());
        first += blocks;
    }
    bytes[510..512].copy_from_slice(&[0x55, 0xaa]);
    bytes
}
