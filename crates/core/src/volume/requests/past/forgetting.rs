//! Requests to forget: epochs, blocks in all epochs, or what some epochs show of blocks.

use crate::base::units::{Extent, Scope};
use crate::mutant::{self, Mutant};
use crate::owed::journal::Change;
use crate::request::Refusal;
use crate::volume::disk::checkpoints::Waiter;
use crate::volume::erasing::forgetting::{Check, FORGETS_MAX};
use crate::volume::origin::Origin;
use crate::volume::requests::running::Stage;
use crate::volume::requests::{Others, Requests};

impl Requests {
    /// Begins to forget `scope`, for request `id`.
    pub(in crate::volume) fn begin_forget(&mut self, others: &mut Others<'_>, id: Origin, scope: Scope) {
        self.run(id, Extent::new(0, 0), false, Stage::Forget(scope));
        match scope.blocks {
            None => others.disk.want_checkpoint(Waiter::Request(id), others.out),
            Some(left) => {
                let open = others.disk.open_epoch();
                let checks = &mut others.erasing.forgetting.checks;
                checks.push_back(Check { id, left, scope, open });
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
    pub(in crate::volume) fn intend_forget(&mut self, others: &mut Others<'_>, id: Origin, scope: Scope) {
        assert!(scope.epochs.to < others.disk.open_epoch(), "only epochs that have closed are forgotten");
        let seq = others.disk.change(Change::Forget(scope));
        assert!(
            others.erasing.forgetting.after <= seq,
            "each intent is in the commit of the last one, or a later one"
        );
        others.erasing.forgetting.after = seq;
        others.disk.resume_forget(scope);
        if mutant::is(Mutant::ReplyBeforeIntent) {
            return self.finish_with_buf(others, id);
        }
        self.running.get_mut(id).stage = Stage::Commit;
        others.disk.commits.wait_for(others.erasing.forgetting.after, id);
    }
}
