//! Deaths: how the bytes that a request frees get their obligations.

use crate::base::units::{Addr, Extent};
use crate::owed::ledger::{Cause, Due};
use crate::store::{Content, WritePlan};
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::origin::Origin;
use crate::volume::requests::running::{Deaths, Stage};
use crate::volume::requests::{Others, Requests};
use crate::volume::{Purpose, io::IoOp, no_place};

/// Most pieces of requests that become obligations in one event.
const PIECES_MAX: usize = 1024;
impl Requests {
    /// Begins the death of `extent` for request `id`.
    pub(in crate::volume) fn begin_death(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        extent: Extent<Addr>,
        due: Due,
        cause: Cause,
    ) {
        assert!(!extent.is_empty(), "a request that frees nothing is answered as it arrives");
        let deaths = Deaths { rest: vec![extent], due, cause };
        let needs_checkpoint = match due {
            // An obligation for what lies below would replace one that is not completed yet.
            Due::ConservativeOverwrite => {
                others.disk.state.ledger.overwritten_within(extent).next().is_some()
            }
            // Otherwise a crash could leave an obligation for a part of a block without a place of its own.
            _ => others.disk.store.geometry().edges(extent).any(|edge| !others.disk.store.is_durable(edge)),
        };
        if needs_checkpoint {
            self.run(id, extent, true, Stage::Checkpoint(Some(deaths)));
            return others.disk.want_checkpoint(Waiter::Request(id), others.out);
        }
        self.run(id, extent, true, Stage::Oblige(deaths));
        self.oblige_more(others, id);
    }

    /// Gives the `deaths` of request `id` their obligations.
    pub(in crate::volume) fn die(&mut self, others: &mut Others<'_>, id: Origin, deaths: Deaths) {
        assert!(!deaths.rest.is_empty(), "at least one part dies");
        self.running.get_mut(id).stage = Stage::Oblige(deaths);
        self.oblige_more(others, id);
    }

    /// Goes on with the requests that wait for room in the ledger.
    pub(in crate::volume) fn oblige_waiting(&mut self, others: &mut Others<'_>) {
        let mut left = PIECES_MAX;
        while left > 0
            && others.disk.has_room()
            && let Some(id) = self.obliging.pop_front()
        {
            self.oblige_some(others, id, &mut left);
        }
    }

    /// Makes obligations of the deaths of request `id`, as many as there is room for.
    pub(in crate::volume) fn oblige_more(&mut self, others: &mut Others<'_>, id: Origin) {
        self.oblige_some(others, id, &mut { PIECES_MAX });
    }

    /// The same, for at most `left` pieces.
    fn oblige_some(&mut self, others: &mut Others<'_>, id: Origin, left: &mut usize) {
        if self.is_early(others.disk, id) {
            return self.closes.wait_for_epoch(id);
        }
        let Stage::Oblige(Deaths { rest, due, cause }) = &mut self.running.get_mut(id).stage else {
            return;
        };
        let (mut rest, due, cause) = (std::mem::take(rest), *due, *cause);
        while *left > 0
            && others.disk.has_room()
            && let Some(extent) = rest.pop()
        {
            *left -= 1;
            let (part, its_due) = self.plain.first(id, extent, due);
            assert!(part.start == extent.start && !part.is_empty(), "a request dies part by part, in order");
            rest.extend(Some(Extent::between(part.end(), extent.end())).filter(|it| !it.is_empty()));
            rest.extend(others.erasing.oblige_first(others.disk, part, its_due, cause, others.out));
        }
        if !rest.is_empty() {
            self.running.get_mut(id).stage = Stage::Oblige(Deaths { rest, due, cause });
            self.obliging.push_back(id);
            assert!(
                self.obliging.len() <= self.running.len(),
                "a request waits for room once, while it runs"
            );
            return;
        }
        let extent = self.running.get_mut(id).extent;
        if due.keeps_space() {
            return self.provide_more(others, id, extent);
        }
        self.await_commit(others, id);
    }

    /// Zeros the parts of `rest` without data, one after the other, so that they have space. Then the
    /// request waits for its commit.
    pub(in crate::volume) fn provide_more(
        &mut self,
        others: &mut Others<'_>,
        id: Origin,
        rest: Extent<Addr>,
    ) {
        if others.disk.latched.is_some() {
            return self.await_commit(others, id);
        }
        let data = others.disk.store.first(Content::Own, rest);
        let gap_end = data.map_or(rest.end(), |run| run.start.0);
        let gap = Extent::<Addr>::between(rest.start.0, gap_end);
        if let (true, Some(data)) = (gap.is_empty(), data) {
            return self.provide_more(others, id, Extent::between(data.end(), rest.end()));
        }
        if gap.is_empty() {
            return self.await_commit(others, id);
        }
        let WritePlan::To(places) = self.allocate(others.disk, others.erasing, id, gap) else {
            return self.finish(others, id, Err(no_place()));
        };
        let rest = Extent::between(gap.end(), rest.end());
        self.running.get_mut(id).stage = Stage::Provide { gap, rest };
        others.disk.io(Purpose::Request(id), places, IoOp::Zero, others.out);
    }
}
