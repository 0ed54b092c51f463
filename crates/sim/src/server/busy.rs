//! What came while a purge waited for a busy root: the cases that a test run has to meet.

use super::Server;
use crate::machine::medium::{FaultKind, SimMedium};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::media::MediumId;
use quietus_core::volume::{Io, IoOp};

/// An act on the root that a busy root refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RootAct {
    /// The write of the key of all others.
    Turn,
    /// A pass over the old one.
    Pass,
}

/// A purge that waits for the root.
#[derive(Debug)]
pub(super) struct HeldUp {
    /// What was dead when the purge began to wait.
    dead: ExtentMap<Addr, ()>,
    /// Bytes that had got fresh keys by then.
    rewritten_bytes: u64,
}

impl RootAct {
    pub(super) fn of(io: &Io) -> Option<Self> {
        let is_on_root = io.at.parts().any(|(place, _)| place.on == MediumId::Root);
        match io.op {
            IoOp::Write { .. } if is_on_root => Some(Self::Turn),
            IoOp::Fill { .. } if is_on_root => Some(Self::Pass),
            _ => None,
        }
    }
}

impl Server {
    /// Has the root refuse `times` writes or passes, after `after` that it takes.
    pub(crate) fn make_root_busy(&self, after: u32, times: u32) {
        self.media.on(MediumId::Root).be_busy(after, times);
    }

    /// Notes `act`, which was done, or was refused if the root `is_busy`.
    pub(super) fn note_root(&mut self, act: RootAct, is_busy: bool) {
        if !self.is_keyed() {
            return;
        }
        if is_busy {
            match act {
                RootAct::Turn => self.figures.busy_turns += 1,
                RootAct::Pass => self.figures.busy_passes += 1,
            }
            if self.held_up.is_none() {
                self.held_up = Some(self.now_held_up());
            }
            return;
        }
        self.figures.turned += u64::from(act == RootAct::Turn);
        let bytes = self.volume.status().counters.rewritten_bytes;
        let waited = self.held_up.take();
        let is_restaged = waited.is_some_and(|it| it.rewritten_bytes < bytes);
        self.figures.busy_restaged += u64::from(act == RootAct::Turn && is_restaged);
    }

    fn now_held_up(&self) -> HeldUp {
        let mut dead = ExtentMap::default();
        let obligations = self.volume.obligations().filter(|(_, it)| it.is_dead());
        obligations.for_each(|(extent, _)| dead.insert(extent, ()));
        HeldUp { dead, rewritten_bytes: self.volume.status().counters.rewritten_bytes }
    }

    /// Notes that `extent` has died.
    pub(super) fn note_held_up_death(&mut self, extent: Extent<Addr>) {
        let is_again = self.held_up.as_ref().is_some_and(|it| it.dead.overlaps(extent));
        self.figures.busy_deaths += u64::from(is_again);
    }

    /// Whether a medium was busy since this was last asked.
    pub(super) fn has_been_busy(&self) -> bool {
        let fired: Vec<_> = self.media.all().flat_map(SimMedium::take_fired).collect();
        fired.contains(&FaultKind::Busy)
    }
}
