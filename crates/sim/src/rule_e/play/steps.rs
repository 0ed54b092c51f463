//! Possible next steps.

use super::{Layout, Play, Step};
use crate::cache;
use crate::rule_e::guest::actions::Action;
use quietus_detect::format::Block;

impl Play {
    pub(super) fn possible(&self) -> Vec<Step> {
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

    fn is_map(&self, block: Block) -> bool {
        !self.system.shown(block, &self.judge.truth.seen()[block as usize]).is_empty()
    }

    fn cached(&self, steps: &mut Vec<Step>) {
        steps.extend(self.cache.steps().into_iter().map(Step::Cache));
        if self.system.is_mounted() {
            let dirty = self.system.dirty().into_iter();
            steps.extend(dirty.filter(|it| self.is_map(*it)).flat_map(|it| [Step::WriteBack(it); 6]));
            steps.push(Step::Sync);
        }
        if self.setup.crashes {
            let is_between = self.cache.attached().is_cached();
            steps.extend([Step::PowerCut, Step::Cache(cache::Step::Between(!is_between))]);
        }
    }

    fn mounted(&self, steps: &mut Vec<Step>) {
        let dirty = self.system.dirty();
        steps.extend(self.system.actions().into_iter().map(Step::Do));
        steps.extend(dirty.iter().map(|it| Step::WriteBack(*it)));
        if self.setup.reorders {
            steps.extend(dirty.iter().map(|it| Step::Delay(*it)));
            steps.extend(self.named().into_keys().map(|it| Step::Do(Action::Touch(it))));
            let maps = dirty.iter().filter(|it| self.is_map(**it));
            steps.extend(maps.flat_map(|it| [Step::Delay(*it); 6]));
        }
        if self.setup.unmounts {
            steps.extend([false, self.setup.layout == Layout::Ext2].map(Step::Unmount));
            let free = self.system.free().into_iter().filter(|_| !self.setup.is_cached);
            steps.extend(free.take(1).map(Step::Trim));
        }
        if self.setup.crashes {
            steps.extend([Step::Crash(false), Step::Crash(true)]);
        }
    }
}
