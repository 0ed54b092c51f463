//! Erase tasks that fail: what is given up and tried again, and what stops the disk.

use super::{Act, Kind};
use crate::medium::{MediumError, MediumErrorKind};
use crate::request::Buf;
use crate::volume::{Command, Volume};

impl Volume {
    /// A job that cannot read gives up, and whatever there is no space for is tried again later. Any other
    /// failure latches: content that may be in the staging slots only has to be put back.
    pub(in crate::volume) fn act_failed(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let no_space = error.kind == MediumErrorKind::NoSpace;
        let Some(act) = &mut self.erasing.act else { return };
        let is_job = matches!(act.kind, Kind::Job(_));
        if no_space && is_job && act.task.is_checkpointing() {
            // What moved is at its new place, and the next checkpoint frees the old one.
            return self.act_done(Buf::new());
        }
        let may_wait = no_space && !matches!(act.kind, Kind::Keep { .. });
        if !(is_job && act.task.is_reading() || may_wait) {
            return self.latch(&format!("destroying: {error}"), out);
        }
        act.task.failed();
        if is_job { self.put_off_jobs() } else { self.put_off_acts(error, out) }
    }

    /// There is no space for the part of the map that the death of what is being destroyed
    /// changes: that waits.
    pub(in crate::volume) fn act_lacks_map(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let lacks = |run: &crate::units::Extent<_>| self.store.lacks_space(*run, true).is_some();
        let is_lacking = |act: &Act| matches!(act.kind, Kind::Shred) && act.runs.iter().any(lacks);
        if self.erasing.act.as_ref().is_some_and(is_lacking) {
            if let Some(act) = &mut self.erasing.act {
                act.task.give_up();
            }
            self.put_off_map(error, out);
        }
    }

    /// The medium failed. Kept content may be in the slots only: those bytes
    /// stay closed.
    pub(in crate::volume) fn abandon_act(&mut self) {
        self.erasing.act.take_if(|act| !matches!(act.kind, Kind::Keep { .. }));
    }
}
