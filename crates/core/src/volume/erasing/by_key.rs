//! The erase tasks of a disk whose content dies with its keys, and when a purge begins.

use crate::base::units::{Addr, Extent};
use crate::erase::{Destroy, Logged, Method, Priority, RUNS_MAX, Verb, Zeros};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::owed::ledger::Due;
use crate::volume::disk::Disk;
use crate::volume::disk::purging::at_place;
use crate::volume::disk::site::Site;
use crate::volume::erasing::Erasing;
use crate::volume::erasing::task::{EraseTask, Kind, Placed};
use crate::volume::io::IoOp;

impl Erasing {
    /// The task that completes what the last purge has paid for.
    pub(in crate::volume) fn paid(&self, disk: &Disk) -> Option<EraseTask> {
        let runs = disk.limits().runs(disk.purging.paid_dead());
        if !runs.is_empty() {
            return Some(self.zeroed(disk, runs, Due::Shred { no_hole: false }, Priority::Due));
        }
        let blocks: Vec<_> = disk.purging.paid_owed().take(RUNS_MAX).collect();
        let (mut places, mut addresses) = (Vec::new(), Vec::new());
        for blocks in blocks {
            let owed = disk.state.owed.data().within(at_place(blocks).extent);
            for (part, content) in owed {
                places.push(Place { on: MediumId::Data, extent: part });
                addresses.push((content.address(part), content.cause));
            }
        }
        Self::complete_owed(disk, (places, addresses), Vec::new(), Placed::Content)
    }

    /// The task that gives back the space of `runs`, which are dead, and whose keys are gone or need not be.
    pub(in crate::volume) fn zeroed(
        &self,
        disk: &Disk,
        runs: Vec<Extent<Addr>>,
        due: Due,
        priority: Priority,
    ) -> EraseTask {
        let zeros = if disk.punches() && !due.keeps_space() {
            let places: Vec<_> = runs.iter().map(|run| at_place(*run).extent).collect();
            Zeros::Holes(Site::data(disk.limits().holes(&places)))
        } else {
            Zeros::Always
        };
        let method = Method::Destroy(Destroy {
            residue: Site::data(runs.iter().map(|run| at_place(*run).extent)),
            at_once: disk.limits().at_once(runs.iter().copied()),
            zeros,
            medium: Site::all_of(MediumId::Data),
            forget: Site::runs(&runs),
            checkpoint: false,
            record: true,
        });
        let kind = if due.is_plain() { Kind::Free } else { Kind::Shred };
        disk.erase_task(kind, runs, method, priority)
    }

    /// The operation of a step of a task that puts blocks under fresh keys, where that differs from other tasks.
    pub(in crate::volume) fn keyed_io(&mut self, disk: &mut Disk, verb: &Verb) -> Option<(Places, IoOp)> {
        let task = self.task.as_mut()?;
        let Kind::Restage { logging, .. } = &mut task.kind else { return None };
        let write = |(at, data), durable| (at, IoOp::Write { data, durable });
        match verb {
            Verb::Save => Some(write(disk.prepared(&task.runs, task.steps.contents(), true), true)),
            Verb::Write(content) => {
                let block = task.runs[task.steps.last_part()];
                Some(write(disk.prepared(&[block], std::slice::from_ref(content), false), false))
            }
            Verb::Log(logged) => {
                if logging.is_none() {
                    let keyed = disk.store.keyed_mut().expect("what gets a fresh key has one");
                    if *logged == Logged::Active {
                        task.runs.iter().for_each(|block| keyed.activate(*block));
                    }
                    *logging = keyed.log();
                }
                // The same bytes once more, if there was no space for them.
                let (at, data) = logging.clone().expect("each fresh key has its entry in the log");
                Some(write((at, data.into()), false))
            }
            _ => None,
        }
    }
}
