//! What can happen next.

use super::{Play, Step};
use crate::rule_e::guest::Guest;
use crate::rule_e::toy::MAP;
use quietus_detect::format::Block;

impl Play {
    pub(super) fn possible(&self) -> Vec<Step> {
        let mut steps = vec![Step::Read, Step::Cut, Step::Act(false), Step::Act(true)];
        steps.extend(self.is_cut.then_some(Step::Proven));
        if self.setup.reorders {
            // By chance too few of these would come together.
            steps.extend([Step::Read, Step::Cut, Step::Proven, Step::Act(false), Step::Act(false)]);
        }
        steps.extend(self.setup.passes_ms.iter().map(|it| Step::Pass(*it)));
        steps.extend(self.flights.keys().map(|it| Step::Land(*it)));
        match &self.guest {
            Some(guest) => self.mounted(guest, &mut steps),
            None => steps.extend([Step::Mount, Step::Fsck(false), Step::Fsck(true)]),
        }
        if !self.flights.is_empty() {
            steps.extend([false, true].map(Step::Reconnect));
        }
        if self.setup.restarts {
            steps.extend([Step::Restart, Step::Sleep]);
        }
        steps
    }

    fn mounted(&self, guest: &Guest, steps: &mut Vec<Step>) {
        for file in guest.present() {
            self.file(guest, file, steps);
        }
        steps.extend(guest.absent().into_iter().filter(|it| *it < self.setup.files).map(Step::Create));
        steps.extend(guest.dirty().iter().map(|it| Step::WriteBack(*it)));
        if self.setup.reorders {
            steps.extend(guest.dirty().iter().map(|it| Step::Delay(*it)));
            steps.extend(guest.named().keys().map(|it| Step::Touch(*it)));
            let maps = guest.dirty().iter().filter(|it| **it == MAP);
            steps.extend(maps.flat_map(|it| [Step::Delay(*it); 6]));
        }
        if self.setup.unmounts {
            steps.extend([Step::Unmount(false), Step::Unmount(true)]);
            steps.extend(guest.free().first().map(|it| Step::Trim(*it)));
        }
        if self.setup.crashes {
            steps.extend([Step::Crash(false), Step::Crash(true)]);
        }
    }

    fn file(&self, guest: &Guest, file: usize, steps: &mut Vec<Step>) {
        steps.extend([Step::Delete(file), Step::Truncate(file)]);
        let free: Vec<Block> = guest.free();
        if guest.indirect(file).is_none() && self.setup.slots.iter().any(|it| *it >= 2) {
            steps.extend(free.iter().map(|it| Step::GrowIndirect(file, *it)));
        }
        for slot in self.setup.slots.iter().copied() {
            if guest.at(file, slot).is_some() {
                steps.push(Step::Punch(file, slot));
            } else if slot < 2 || guest.indirect(file).is_some() {
                steps.extend(free.iter().map(|it| Step::Grow(file, slot, *it)));
            }
        }
    }
}
