//! Possible next steps.

use super::{Play, Step, System};
use crate::cache;

impl<S: System> Play<S> {
    pub(super) fn possible(&self) -> Vec<Step<S::Action>> {
        let mut steps = vec![Step::Read, Step::Cut, Step::Act(false), Step::Act(true)];
        steps.extend(self.is_cut.then_some(Step::Proven));
        if self.setup.reorders || self.setup.is_cached {
            // By chance too few of these would come together.
            steps.extend([Step::Read, Step::Cut, Step::Proven, Step::Act(false), Step::Act(false)]);
        }
        steps.extend(self.setup.passes_ms.iter().map(|it| Step::Pass(*it)));
        steps.extend(self.flights.keys().map(|it| Step::Land(*it)));
        if self.system.is_mounted() {
            self.mounted(&mut steps);
        } else {
            steps.extend([Step::Mount, Step::Fsck(false), Step::Fsck(true)]);
        }
        if !self.flights.is_empty() {
            steps.extend([false, true].map(Step::Reconnect));
        }
        if self.setup.restarts {
            steps.extend([Step::Restart, Step::Sleep]);
        }
        if self.setup.is_cached {
            self.cached(&mut steps);
        }
        steps
    }

    fn cached(&self, steps: &mut Vec<Step<S::Action>>) {
        steps.extend(self.cache.steps().into_iter().map(Step::Cache));
        if self.system.is_mounted() {
            let dirty = self.system.dirty().into_iter();
            steps.extend(dirty.filter(|it| self.system.is_map(*it)).flat_map(|it| [Step::WriteBack(it); 6]));
            steps.push(Step::Sync);
        }
        if self.setup.crashes {
            let is_between = self.cache.attached().is_cached();
            steps.extend([Step::PowerCut, Step::Cache(cache::Step::Between(!is_between))]);
        }
    }

    fn mounted(&self, steps: &mut Vec<Step<S::Action>>) {
        let dirty = self.system.dirty();
        steps.extend(self.system.actions(&self.setup).into_iter().map(Step::Do));
        steps.extend(dirty.iter().map(|it| Step::WriteBack(*it)));
        if self.setup.reorders {
            steps.extend(dirty.iter().map(|it| Step::Delay(*it)));
            steps.extend(self.system.touches().into_iter().map(Step::Do));
            let maps = dirty.iter().filter(|it| self.system.is_map(**it));
            steps.extend(maps.flat_map(|it| [Step::Delay(*it); 6]));
        }
        if self.setup.unmounts {
            steps.extend([false, S::MAY_BE_LATE].map(Step::Unmount));
            let free = self.system.free().into_iter().filter(|_| !self.setup.is_cached);
            steps.extend(free.take(1).map(Step::Trim));
        }
        if self.setup.crashes {
            steps.extend([Step::Crash(false), Step::Crash(true)]);
        }
    }
}
