//! Requests to forget: epochs, blocks in all epochs, what some epochs show of blocks, or sets of that.

use crate::base::parts::Forget;
use crate::base::units::{Extent, Scope};
use crate::mutant::{self, Mutant};
use crate::owed::journal::changes_of;
use crate::request::Refusal;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::forgetting::{Check, FORGETS_MAX};
use crate::volume::origin::Origin;
use crate::volume::requests::running::Stage;
use crate::volume::requests::{Others, Requests};

impl Requests {
    /// Begins a forget, for request `id`.
    pub(in crate::volume) fn begin_forget(&mut self, others: &mut Others<'_>, id: Origin, forget: Forget) {
        self.run(id, Extent::new(0, 0), false, Stage::Forget(forget.clone()));
        match forget.nth(0).and_then(Scope::blocks) {
            None => others.disk.want_checkpoint(Waiter::Request(id), others.out),
            Some(left) => {
                let open = others.disk.open_epoch();
                let checks = &mut others.erasing.forgetting.checks;
                checks.push_back(Check { id, forget, at: 0, left, open });
                assert!(checks.len() <= FORGETS_MAX, "a forget is refused when there are too many");
            }
        }
    }

    pub(in crate::volume) fn refuse_check(&mut self, others: &mut Others<'_>, refusal: Refusal) {
        if let Some(Check { id, .. }) = others.erasing.forgetting.checks.pop_front() {
            self.finish(others, id, Err(refusal));
        }
    }

    /// Notes the intent of request `id`, whose epochs have closed durably.
    pub(in crate::volume) fn intend_forget(&mut self, others: &mut Others<'_>, id: Origin, forget: Forget) {
        let last = forget.scope().epochs().to;
        assert!(last < others.disk.open_epoch(), "only epochs that have closed are forgotten");
        // What has come meanwhile may have taken the room.
        if let Some(refusal) = others.disk.refuse_roomless_parts(forget.parts().len()) {
            return self.finish(others, id, Err(refusal));
        }
        // Nothing else comes between: a set and its parts are of one commit.
        let seqs = changes_of(&forget).map(|change| others.disk.change(change));
        let seq = seqs.last().expect("a forget is a change");
        assert!(
            others.erasing.forgetting.after <= seq,
            "each intent is in the commit of the last one, or a later one"
        );
        others.erasing.forgetting.after = seq;
        others.disk.resume_forget(forget);
        if mutant::is(Mutant::ReplyBeforeIntent) {
            return self.finish_with_buf(others, id);
        }
        self.running.get_mut(id).stage = Stage::Commit;
        others.disk.commits.wait_for(others.erasing.forgetting.after, id);
    }
}
