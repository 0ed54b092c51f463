//! Writes over what has died, where the new content goes to the same place: with a policy of
//! one pass such a write is itself the pass, and waits for nothing.
//!
//! Invariants:
//! 1. Bytes are dead until the write over them has ended: nobody reads what it replaces. No
//!    erase task begins there meanwhile.
//! 2. The obligation is met by a sync that began after the write had ended. Until then the
//!    journal calls the bytes dead, and after a crash they are.
//! 3. Whoever asked for durable content, by FUA or a flush, is answered when the journal says
//!    durably that the obligation is met: else a crash would undo what was promised.

use super::admit::Stage;
use super::{Command, Volume};
use crate::extents::ExtentMap;
use crate::journal::Change;
use crate::mutant::{self, Mutant};
use crate::receipts::Done;
use crate::request::RequestId;
use crate::units::{Addr, Extent, Millis};

/// A kill of the server undoes writes over what was dead for so long at most, without a flush.
const UNSYNCED_MS_MAX: u64 = 1000;
/// Writes over what was dead that share a sync.
const UNSYNCED_ENTRIES_MAX: usize = 4096;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Overwriting {
    /// Dead bytes that writes under way go to.
    under_way: ExtentMap<Addr, ()>,
    /// When the first one ended that no sync covers, if there is one.
    since: Millis,
    /// The last commit that meets obligations so.
    met_seq: u64,
    /// Requests that wait for a commit.
    waiters: Vec<(u64, RequestId)>,
}

impl Overwriting {
    /// The parts of `extent` that no such write is under way to.
    pub(super) fn gaps(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        self.under_way.gaps(extent)
    }

    /// The medium failed: nobody waits any more.
    pub(super) fn give_up(&mut self) {
        self.waiters.clear();
    }
}

impl Volume {
    /// Whether a write of `extent` destroys all that is owed there.
    pub(super) fn can_overwrite(&self, extent: Extent<Addr>) -> bool {
        let is_dead = self.state.ledger.within(extent).all(|(_, it)| it.is_dead());
        self.store.is_fixed() && self.config.policy.passes().len() <= 1 && is_dead && self.has_room_for(2)
    }

    /// A write of `extent` begins.
    pub(super) fn begin_overwrite(&mut self, extent: Extent<Addr>) {
        if self.state.ledger.dead().overlaps(extent) {
            self.overwriting.under_way.insert(extent, ());
            if mutant::is(Mutant::OverwriteEarly) {
                self.state.ledger.overwrite(extent);
            }
        }
    }

    /// A write of `extent` has ended, durably or not.
    pub(super) fn end_overwrite(&mut self, extent: Extent<Addr>, is_there: bool) {
        if !self.overwriting.under_way.overlaps(extent) {
            return;
        }
        self.overwriting.under_way.remove(extent);
        if !is_there {
            return;
        }
        if !self.state.ledger.has_unsynced() {
            self.overwriting.since = self.now;
        }
        self.state.ledger.overwrite(extent);
    }

    /// What was dead in `extent` and was written over is durable. Returns whether there is some.
    pub(super) fn overwritten_durably(&mut self, extent: Extent<Addr>) -> bool {
        let parts: Vec<_> = self.state.ledger.overwritten_within(extent).map(|(part, _)| part).collect();
        self.meet_overwritten(&parts);
        !parts.is_empty()
    }

    /// A sync begins.
    pub(super) fn begin_overwritten_sync(&mut self) {
        self.state.ledger.begin_sync();
        if mutant::is(Mutant::OverwrittenUnsynced) {
            self.end_overwritten_sync();
        }
    }

    /// That sync has ended.
    pub(super) fn end_overwritten_sync(&mut self) {
        self.meet_overwritten(&self.state.ledger.synced());
    }

    fn meet_overwritten(&mut self, runs: &[Extent<Addr>]) {
        for run in runs {
            self.overwriting.met_seq = self.change(Change::Meet(*run, Done::Overwritten, 1));
            self.state.counters.destroyed_bytes += run.len;
        }
    }

    /// Whether all that was met so is durably met, and nothing is owed.
    pub(super) fn is_overwritten_met(&self) -> bool {
        !self.state.ledger.has_overwritten() && self.is_met_durable()
    }

    fn is_met_durable(&self) -> bool {
        self.durable_seq >= self.overwriting.met_seq || mutant::is(Mutant::FlushBeforeMet)
    }

    /// Whether `id` has to wait for what was met to be durable; then that ends it.
    pub(super) fn awaits_met(&mut self, id: RequestId) -> bool {
        if self.is_met_durable() {
            return false;
        }
        self.running.get_mut(id).stage = Stage::Commit;
        self.overwriting.waiters.push((self.overwriting.met_seq, id));
        true
    }

    /// A commit is durable.
    pub(super) fn overwriting_committed(&mut self, out: &mut Vec<Command>) {
        let durable = self.durable_seq;
        let ready: Vec<_> = self.overwriting.waiters.extract_if(.., |(seq, _)| *seq <= durable).collect();
        ready.into_iter().for_each(|(_, id)| self.finish_with_buf(id, out));
    }

    /// Whether what was written over should be synced although nobody asks.
    pub(super) fn wants_overwritten_sync(&self) -> bool {
        let crowded = self.state.ledger.overwritten_len() >= UNSYNCED_ENTRIES_MAX || !self.has_room();
        let is_old = self.now.since(self.overwriting.since) >= UNSYNCED_MS_MAX;
        self.state.ledger.has_unsynced() && (crowded || is_old)
    }

    /// When it should, at the latest.
    pub(super) fn overwritten_wakeup(&self) -> Option<Millis> {
        let latest = Millis(self.overwriting.since.0.saturating_add(UNSYNCED_MS_MAX));
        self.state.ledger.has_unsynced().then_some(latest)
    }
}
