//! Tasks that meet a medium which will not erase. [`disk::remaining`](crate::volume::disk::remaining) keeps what remains.

use crate::buf::Buf;
use crate::medium::MediumError;
use crate::mutant::{self, Mutant};
use crate::volume::erasing::task::{Kind, Site};
use crate::volume::{Command, Volume};

impl Volume {
    /// Gives up what a task does at part `part` of its present step, where the medium will not erase. Content that the
    /// task keeps is put back; what was owed stays owed.
    pub(in crate::volume) fn task_remains(
        &mut self,
        part: usize,
        error: &MediumError,
        out: &mut Vec<Command>,
    ) {
        let Some(task) = &mut self.erasing.task else { return };
        let sites = task.steps.destroys(part).map(<[Site]>::to_vec).unwrap_or_default();
        // Each task would put live content into the same staging slots.
        let is_staging = matches!(task.kind, Kind::Rewrite { .. }) && !task.steps.puts_back();
        if sites.is_empty() || is_staging {
            return self.disk.latch(&format!("destroying: {error}"), out);
        }
        if mutant::is(Mutant::ForgetRemains) {
            return self.erasing.task_done(&mut self.disk, &mut self.requests, Buf::new());
        }
        self.disk.remaining.refused(error, self.disk.schedule.now);
        match &task.kind {
            Kind::Rewrite { .. } => {
                self.disk.remaining.note(&sites, task.is_careful);
                task.is_spared = true;
                task.runs.iter().for_each(|run| self.erasing.layers.forget(*run));
                return task.steps.skip();
            }
            Kind::Shred | Kind::Free | Kind::DestroyOwed { .. } => {
                self.disk.remaining.note(&sites, task.is_careful);
            }
            // The space is not given back; the next start finds it.
            Kind::GiveBack => sites.iter().for_each(|site| {
                if let Site::Run(run) = site {
                    self.erasing.pending_punch.remove(*run);
                }
            }),
            Kind::Job => task.remains.extend(sites.into_iter().filter_map(Site::place)),
        }
        task.steps.failed();
    }

    /// Has everything that remains tried again when it is time, and refuses the writes that wait for the destruction of some of
    /// it until then. What the task under way has found to remain is left out of the next one in any case.
    pub(in crate::volume) fn drive_remaining(&mut self, out: &mut Vec<Command>) {
        if self.disk.remains_rest() {
            self.on_requests(out, |requests, others| requests.refuse_above_remaining(others));
        } else if self.erasing.task.is_none() {
            self.disk.remaining.clear();
        }
    }
}
