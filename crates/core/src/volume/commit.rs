//! The journal's commits: one at a time, and what each one's end sets free.

use super::{Command, Purpose, Target, Volume, io::IoOp};
use crate::journal::Change;
use crate::store::Store;
use crate::units::Pos;

/// A commit under way.
#[derive(Debug)]
pub(super) struct Committing {
    seq: u64,
    /// To be written after it.
    mark: Option<(Pos, Vec<u8>)>,
}

impl<S: Store> Volume<S> {
    /// Makes `change` now in memory, and with the next commit on the medium.
    /// Returns that commit's number.
    pub(super) fn change(&mut self, change: Change) -> u64 {
        self.state.apply(change, self.now);
        self.journal.push(change)
    }

    pub(super) fn commit_pending(&mut self, out: &mut Vec<Command>) {
        if self.committing.is_some() || !self.journal.has_pending() || self.latched.is_some() {
            return;
        }
        let commit = self.journal.commit(&self.state);
        self.committing = Some(Committing { seq: commit.seq, mark: commit.mark });
        let write = IoOp::Write { data: commit.bytes, durable: true };
        self.io(Purpose::Commit, Target::Journal, commit.pos.0, write, out);
    }

    pub(super) fn commit_done(&mut self, out: &mut Vec<Command>) {
        let mut committing = self.committing.take().expect("a commit ends once");
        let seq = committing.seq;
        if let Some((pos, data)) = committing.mark.take() {
            self.committing = Some(committing);
            let write = IoOp::Write { data, durable: false };
            self.io(Purpose::Commit, Target::Journal, pos.0, write, out);
        }
        if seq > self.durable_seq {
            self.durable_seq = seq;
            self.undurable.retain(|(since, _)| *since > seq);
            self.finish_committed(seq, out);
            self.act_committed(seq, out);
        }
    }
}
