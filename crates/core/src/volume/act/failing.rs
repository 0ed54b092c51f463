//! Acts that fail: what is given up and tried again, and what stops the disk.

use super::{Kind, Step};
use crate::medium::{MediumError, MediumErrorKind};
use crate::volume::{Command, Volume};

impl Volume {
    /// What to tidy up and cannot be read stays, and all that there is no space for is
    /// tried again later. Content that may be in the slots only has to be put back.
    pub(in crate::volume) fn act_failed(&mut self, error: &MediumError, out: &mut Vec<Command>) {
        let no_space = error.kind == MediumErrorKind::NoSpace;
        let Some(act) = &mut self.act else { return };
        let (is_chore, step) = (act.chore.is_some(), act.steps.last());
        if no_space && is_chore && step == Some(&Step::Seal) {
            // What moved is at its new place, and the next checkpoint frees the old one.
            return self.act_sealed();
        }
        let (reads, reserves) =
            (matches!(step, Some(Step::Read | Step::Search)), step == Some(&Step::Reserve));
        if !(is_chore && (reads || no_space) || no_space && !matches!(act.kind, Kind::Keep { .. })) {
            return self.latch(&format!("destroying: {error}"), out);
        }
        act.under_way -= 1;
        act.is_futile = true;
        match (is_chore, reserves) {
            (true, _) => self.put_off_chores(),
            (false, true) => self.put_off_map(error, out),
            (false, false) => self.put_off_acts(error, out),
        }
    }

    /// The medium failed. Kept content may be in the slots only: those bytes
    /// stay closed.
    pub(in crate::volume) fn abandon_act(&mut self) {
        self.act.take_if(|act| !matches!(act.kind, Kind::Keep { .. }));
    }
}
