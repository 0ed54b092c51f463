//! What the volume asks of cells.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, Extent, Pos};
use crate::media::MediumId;
use crate::media::cipher::Keyed as Part;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::owed::KeysPosition;
use crate::store::Keyed;
use crate::store::allocated::{SECTOR_BYTES, outward};
use crate::store::sealed::early::RUN_BLOCKS_MAX;
use crate::store::sealed::page::BIRTH_MAX;
use crate::store::sealed::purge::Purge;
use crate::store::sealed::{Sealed, blocks_of, push};

/// Runs that a write may add at most: it may split one that waits for its own entry, and be cut itself where seeds end.
const RUNS_OF_WRITE: u64 = 3;

impl Keyed for Sealed {
    fn has_room(&self, blocks: Extent<Addr>) -> bool {
        let count = blocks.len.div_ceil(BLOCK_BYTES);
        let sectors = self.early.sectors(RUNS_OF_WRITE + count / RUN_BLOCKS_MAX, count);
        self.stopped.is_none() && self.halves.has_room(sectors)
    }

    fn is_filling(&self) -> bool {
        self.halves.is_filling()
    }

    fn renew(&mut self, blocks: Extent<Addr>) {
        let blocks = self.whole(blocks);
        self.early.renew(blocks, || self.cells.draw_key());
    }

    fn begin_purge(&mut self, dead: BlockSet) {
        assert!(self.purge.is_none(), "one purge at a time");
        assert!(self.tree.purge < BIRTH_MAX, "the number of a purge has 31 bits");
        let cell = self.cells.draw_key();
        self.early.begin_purge(&dead);
        self.halves.begin_purge(cell.clone(), &self.tree.layout, self.tree.purge + 1);
        self.purge = Some(Purge::new(dead, cell, &self.tree));
    }

    fn is_purging(&self) -> bool {
        self.purge.is_some()
    }

    fn position(&self) -> KeysPosition {
        KeysPosition { purge: self.tree.purge, log: self.halves.durable() }
    }

    fn give_up_prepared(&mut self) {
        self.early.give_up_prepared();
    }

    fn prepare(&mut self, blocks: Extent<Addr>) {
        let blocks = self.whole(blocks);
        self.early.prepare(blocks, || self.cells.draw_key());
    }

    fn log(&mut self) -> Option<(Places, Vec<u8>)> {
        let entries = self.early.take_log()?;
        let (writes, end) = self.halves.append(&entries, self.tree.purge, &mut self.cells);
        self.early.logged(&entries, end);
        let places = writes.iter().map(|(place, _)| *place).collect();
        Some((places, writes.into_iter().flat_map(|(_, bytes)| bytes).collect()))
    }

    fn prepared(&self, blocks: Extent<Addr>, slots: Option<Pos>) -> Places {
        let extent = outward(blocks, SECTOR_BYTES);
        let mut places = None;
        for block in blocks_of(extent) {
            let whole = Extent::new(block * BLOCK_BYTES, BLOCK_BYTES);
            let part = whole.overlap(extent).expect("a block of the extent has a part of it");
            let cell =
                self.early.prepared(block).expect("a block is prepared before its content goes anywhere");
            let place = match slots {
                Some(first) => Place {
                    on: MediumId::Journal,
                    extent: Extent::new(first.0 + (part.start.0 - extent.start.0), part.len),
                },
                None => Place { on: MediumId::Data, extent: Extent::new(part.start.0, part.len) },
            };
            push(&mut places, place, Part { cell, part });
        }
        places.expect("some blocks are prepared")
    }

    fn activate(&mut self, blocks: Extent<Addr>) {
        // All of a block is written, also where it had no data.
        self.allocated.allocate(blocks);
        let reaches = self.early.activate(self.whole(blocks));
        if let Some((purge, sectors)) = reaches
            && purge == self.tree.purge
        {
            // The prepared cells had to be durable first.
            self.halves.settle(sectors);
        }
    }
}
