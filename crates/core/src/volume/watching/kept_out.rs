//! A watcher that is kept out while the disk is written in another order than a file system would, and the new one after
//! that.
//!
//! What the old watcher knew is about another state of the disk. So the old watcher is dropped at once, with its
//! verdicts that were not carried out; answers to its reads, its evidence and its deaths under way go to [`KeptOut`], which
//! ignores them. The new watcher begins when nothing of that and no change is under way, so that no answer and no
//! refusal is about something that the new one never observed.

use super::{Proof, Watch};
use crate::base::units::{Addr, Extent};
use crate::volume::disk::Disk;
use crate::volume::watching::Watching;
use crate::watch::{Agenda, Moment, Observation, Observer, Scope, Verdict, Waits, WatchStatus, Watcher};

/// Stands for a watcher that is kept out: infers nothing, and asks for nothing.
#[derive(Debug)]
struct KeptOut {
    /// The watcher that begins after it, which has observed nothing.
    next: Box<dyn Watcher>,
}

impl Observer for KeptOut {
    fn observe(&mut self, _: Moment, _: Observation<'_>) {}
    fn needs(&self, _: Extent<Addr>) -> Vec<Extent<Addr>> {
        Vec::new()
    }
    fn wants(&mut self) -> Option<Extent<Addr>> {
        None
    }
    fn agenda(&self) -> Agenda {
        Agenda::default()
    }
    fn verdict(&mut self, _: Scope<'_>) -> Option<(Extent<Addr>, Verdict)> {
        None
    }
    fn waiting(&self) -> Waits<'_> {
        Box::new(std::iter::empty())
    }
    fn take_suspicious(&mut self, _: Extent<Addr>) -> Vec<Extent<Addr>> {
        Vec::new()
    }
    fn view(&self) -> Option<Vec<u8>> {
        None
    }
}

impl Watcher for KeptOut {
    fn restore(&mut self, _: Vec<u8>) {}
    fn watches(&self, _: Extent<Addr>) -> bool {
        false
    }
    fn status(&self) -> WatchStatus {
        let state = "nothing is inferred: the disk is being restored, or a restore was interrupted; once a restore is \
                     complete, the search for file systems begins anew";
        WatchStatus { state: state.into(), ..WatchStatus::default() }
    }
    fn anew(&self) -> Box<dyn Watcher> {
        self.next.anew()
    }
}

impl Watching {
    /// Drops the watcher, if there is one, with all that it knows; no other takes its place before
    /// [`Event::WatchAnew`](crate::volume::Event::WatchAnew).
    pub(in crate::volume) fn keep_watcher_out(&mut self) {
        if let Some(watching) = &mut self.watch {
            watching.watcher = Box::new(KeptOut { next: watching.watcher.anew() });
            watching.verdict.clear();
            watching.begins_anew = false;
        }
    }

    /// Has a new watcher begin, if there is one, once nothing is under way.
    pub(in crate::volume) fn watch_anew(&mut self) {
        if let Some(watching) = &mut self.watch {
            watching.begins_anew = true;
        }
    }

    /// Whether a new watcher is about to begin.
    pub(in crate::volume) fn is_watcher_awaited(&self, disk: &Disk) -> bool {
        let begins = self.watch.as_ref().is_some_and(|it| it.begins_anew);
        begins && !disk.schedule.stopping && disk.latched.is_none()
    }
}

impl Watch {
    /// Puts a death among the verdicts for which the ledger had no room.
    #[cfg(test)]
    pub(in crate::volume) fn keep_verdict(&mut self, extent: Extent<Addr>) {
        self.verdict.push((extent, Verdict::Dead));
    }

    /// Whether no read, evidence or death of a watcher is under way.
    pub(in crate::volume) fn is_at_rest(&self) -> bool {
        self.looks == 0 && self.parts == 0 && matches!(self.proof, Proof::None)
    }
}
