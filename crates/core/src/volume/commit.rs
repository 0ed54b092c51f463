//! The journal's commits: one at a time, and what each one's end sets free.

use super::{Command, Purpose, Volume, io::IoOp};
use crate::journal::Change;
use crate::store::{Place, Target};
use crate::units::{Extent, Pos};

/// A commit under way.
#[derive(Debug)]
pub(super) struct Committing {
    seq: u64,
    /// To be written after it.
    mark: Option<(Pos, Vec<u8>)>,
}

impl Volume {
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
        self.write_journal(commit.pos, commit.bytes, true, out);
    }

    pub(super) fn commit_done(&mut self, out: &mut Vec<Command>) {
        let mut committing = self.committing.take().expect("a commit ends once");
        let seq = committing.seq;
        if let Some((pos, data)) = committing.mark.take() {
            self.committing = Some(committing);
            self.write_journal(pos, data, false, out);
        }
        if seq > self.durable_seq {
            self.durable_seq = seq;
            self.undurable.retain(|(since, _)| *since > seq);
            self.finish_committed(seq, out);
            self.act_committed(seq, out);
        }
    }

    fn write_journal(&mut self, pos: Pos, data: Vec<u8>, durable: bool, out: &mut Vec<Command>) {
        let place = Place { on: Target::Journal, extent: Extent::new(pos.0, data.len() as u64) };
        self.io(Purpose::Commit, place, IoOp::Write { data, durable }, out);
    }
}
