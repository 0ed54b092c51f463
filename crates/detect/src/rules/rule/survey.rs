//! Reads existing metadata: the inodes at a cold attach, and the maps once everything has been
//! written.

use crate::formats::format::Block;
use crate::input::sets::{ranges, set_of};
use quietus_core::base::units::{Addr, Extent, Millis};
use roaring::RoaringBitmap;
use std::collections::VecDeque;
use std::ops::{Range, RangeInclusive};

/// Time without a change, in milliseconds, before the maps are read again: a guest that marks
/// itself clean a thousand times a second then costs nothing.
const QUIET_MS: u64 = 500;

/// The metadata still to be read.
#[derive(Debug)]
pub(crate) struct Survey {
    block_bytes: u64,
    inodes: VecDeque<Range<Block>>,
    /// Blocks of inodes whose names have not been counted yet.
    owed: RoaringBitmap,
    maps: Option<Maps>,
    total: u64,
}

/// Maps to be read again.
#[derive(Debug)]
struct Maps {
    todo: VecDeque<Range<Block>>,
    left: RoaringBitmap,
    begin: Millis,
    begun: bool,
    /// All maps were written before the file system was marked clean.
    in_order: bool,
    /// Blocks written since that mark.
    written: RoaringBitmap,
}

impl Survey {
    pub(crate) fn new(inodes: Vec<Range<Block>>, block_bytes: u32) -> Self {
        let owed = set_of(inodes.iter().cloned());
        let total = owed.len() * u64::from(block_bytes);
        let block_bytes = u64::from(block_bytes);
        let inodes = pieces(inodes, block_bytes);
        Self { block_bytes, inodes, owed, maps: None, total }
    }

    /// Begins again with the inodes, which are all to be counted anew.
    pub(crate) fn again(&mut self, inodes: Vec<Range<Block>>, block_bytes: u32) {
        let maps = self.maps.take();
        *self = Self { maps, ..Self::new(inodes, block_bytes) };
    }

    /// Adds new blocks of inodes.
    pub(crate) fn owe(&mut self, more: &RoaringBitmap) {
        self.inodes.extend(pieces(ranges(more), self.block_bytes));
        self.owed |= more;
        self.total += more.len() * self.block_bytes;
    }

    /// Whether `block` of inodes still has to be counted; marks it counted.
    pub(crate) fn owes_inodes(&mut self, block: Block) -> bool {
        self.owed.remove(block)
    }

    pub(crate) fn reread_maps(&mut self, maps: Vec<Range<Block>>, now: Millis, in_order: bool) {
        self.maps = Some(Maps {
            left: set_of(maps.iter().cloned()),
            todo: pieces(maps, self.block_bytes),
            begin: Millis(now.0 + QUIET_MS),
            begun: false,
            in_order,
            written: RoaringBitmap::new(),
        });
    }

    /// Notes a change of the disk, which postpones the reads.
    pub(crate) fn changed(&mut self, now: Millis) {
        if let Some(maps) = self.maps.as_mut().filter(|maps| !maps.begun) {
            maps.begin = Millis(now.0 + QUIET_MS);
        }
    }

    pub(crate) fn tick(&mut self, now: Millis) {
        if let Some(maps) = &mut self.maps {
            maps.begun |= now >= maps.begin;
        }
    }

    /// Time at which the maps will be read again, while they wait.
    pub(crate) fn begins_at(&self) -> Option<Millis> {
        self.maps.as_ref().filter(|maps| !maps.begun).map(|maps| maps.begin)
    }

    pub(crate) fn written(&mut self, run: RangeInclusive<Block>) {
        if let Some(maps) = &mut self.maps {
            maps.written.insert_range(run);
        }
    }

    /// The blocks against which the map `block` proves nothing, if it is to be read again.
    pub(crate) fn exempt(&self, block: Block) -> Option<&RoaringBitmap> {
        let maps = self.maps.as_ref().filter(|maps| maps.begun && maps.left.contains(block));
        maps.map(|maps| &maps.written)
    }

    pub(crate) fn is_in_order(&self) -> bool {
        self.maps.as_ref().is_some_and(|maps| maps.in_order)
    }

    pub(crate) fn next_read(&mut self) -> Option<Extent<Addr>> {
        let next = self.inodes.pop_front().or_else(|| {
            let maps = self.maps.as_mut().filter(|maps| maps.begun)?;
            maps.todo.pop_front()
        })?;
        let bytes = self.block_bytes;
        Some(Extent::between(u64::from(next.start) * bytes, u64::from(next.end) * bytes))
    }

    pub(crate) fn is_done(&self) -> bool {
        self.owed.is_empty()
    }

    /// Drops the inodes: a view has supplied their names.
    pub(crate) fn skip_inodes(&mut self) {
        self.inodes.clear();
        self.owed.clear();
    }

    /// Drops the maps, which a view makes superfluous.
    pub(crate) fn skip_maps(&mut self) {
        self.maps = None;
    }

    /// Notes that maps may have been written after the file system was marked clean.
    pub(crate) fn distrust_order(&mut self) {
        if let Some(maps) = &mut self.maps {
            maps.in_order = false;
        }
    }

    /// Whether maps wait to be read again because a tool may have written them.
    pub(crate) fn awaits_tools(&self) -> bool {
        self.maps.as_ref().is_some_and(|maps| !maps.begun && !maps.in_order)
    }

    pub(crate) fn rereads_maps(&self) -> bool {
        self.maps.is_some()
    }

    /// Whether nothing is left to read.
    pub(crate) fn is_idle(&self) -> bool {
        self.is_done() && self.maps.is_none()
    }

    /// Notes that the map `block` has been read again.
    pub(crate) fn map_reread(&mut self, block: Block) {
        self.maps.take_if(|maps| {
            maps.left.remove(block);
            maps.left.is_empty()
        });
    }

    pub(crate) fn progress(&self) -> Option<(u64, u64)> {
        (!self.is_done()).then(|| (self.total - self.owed.len() * self.block_bytes, self.total))
    }
}

fn pieces(ranges: Vec<Range<Block>>, block_bytes: u64) -> VecDeque<Range<Block>> {
    let most = (crate::rules::rule::READ_BYTES_MAX / block_bytes).max(1) as Block;
    let pieces = ranges.into_iter().flat_map(|range| {
        range.clone().step_by(most as usize).map(move |from| from..range.end.min(from.saturating_add(most)))
    });
    pieces.collect()
}
