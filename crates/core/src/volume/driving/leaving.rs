//! Dead content that leaves its place without a write.

use crate::base::extents::ExtentMap;
use crate::base::units::{Addr, BLOCK_BYTES};
use crate::owed::journal::Change;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::{Command, Volume};

/// Most dead blocks that leave their places in one event.
const LEAVES_MAX: usize = 1024;

/// Entries of the ledger that a block that leaves its place may need: the rest of its run, and its place.
const ENTRIES_NEEDED: usize = 2;

impl Volume {
    /// Makes dead blocks leave their places, where only what has left can be destroyed. A close waits for that: no byte of the
    /// ledger may have died in an epoch that is not the open one. Uses also the entries that are reserved for erase
    /// tasks: nothing else would make room in a ledger that is full of dead addresses.
    pub(in crate::volume) fn leave_dead(&mut self, out: &mut Vec<Command>) {
        if !self.disk.dead_leave() || self.disk.config.read_only {
            return;
        }
        let dead = self.disk.state.ledger.dead().iter();
        let blocks = dead.flat_map(|(run, it)| run.pieces(BLOCK_BYTES).map(|block| (block, it.cause)));
        let mut left = ExtentMap::<Addr, ()>::default();
        let mut wants_checkpoint = false;
        for (block, cause) in blocks.take(LEAVES_MAX).collect::<Vec<_>>() {
            if self.requests.running.reads(block) || self.erasing.is_at(block) || self.disk.must_wait(block) {
                continue;
            }
            if !self.disk.store.is_durable(block) {
                wants_checkpoint = true;
                continue;
            }
            let has_room =
                self.disk.entries() + ENTRIES_NEEDED <= self.disk.commits.journal.shape().entries_max();
            if !has_room
                || !self.disk.store.mapped().is_some_and(|it| it.can_leave(block))
                || !self.disk.has_map(block, out)
                || !self.disk.has_map_space(block, out)
            {
                break;
            }
            self.disk.leave_place(block, cause);
            left.insert(block, ());
        }
        for (run, ()) in left.iter() {
            self.disk.commits.left_seq = self.disk.change(Change::Clear(run));
            self.requests.waiting.obligations_ended(run);
        }
        if !left.is_empty() {
            self.on_requests(out, |requests, others| requests.settle(others));
        }
        if wants_checkpoint && self.disk.checkpoints.is_empty() {
            self.disk.want_checkpoint(Waiter::Nothing, out);
        }
    }
}
