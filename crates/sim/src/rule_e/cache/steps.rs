//! Possible next steps.

use super::{Cached, FILES, Step};
use crate::rule_e::guest::{Guest, SLOTS};
use crate::rule_e::toy::MAP;

impl Cached {
    pub(super) fn possible(&self) -> Vec<Step> {
        let mut steps = vec![Step::Act(false), Step::Act(true), Step::Read, Step::Cut, Step::Proven];
        // By chance too few of these would come together.
        steps.extend([Step::Read, Step::Cut, Step::Proven, Step::Act(false)].repeat(2));
        steps.extend([100, 700, 1500, 700, 700].map(Step::Pass));
        steps.extend(self.upper.keys().flat_map(|it| [Step::Sink(*it); 2]));
        steps.extend(self.lower.keys().flat_map(|it| [Step::Emit(*it); 2]));
        steps.extend(self.sent.keys().map(|it| Step::Resend(*it)));
        match &self.guest {
            Some(guest) => self.mounted(guest, &mut steps),
            None => steps.extend([Step::Mount, Step::Mount, Step::Fsck]),
        }
        if self.setup.crashes {
            steps.extend([Step::Restart, Step::Sleep, Step::PowerCut, Step::Between(!self.is_between)]);
        }
        steps
    }

    fn mounted(&self, guest: &Guest, steps: &mut Vec<Step>) {
        let slots: Vec<_> = (0..SLOTS).collect();
        steps.extend(guest.deeds(FILES, &slots, &guest.free(), SLOTS).into_iter().map(Step::Do));
        steps.extend(guest.dirty().iter().map(|it| Step::WriteBack(*it)));
        let maps = guest.dirty().iter().filter(|it| **it == MAP);
        steps.extend(maps.flat_map(|it| [Step::WriteBack(*it); 6]));
        steps.extend([true, false].map(Step::Unmount));
        steps.extend([true, false].map(Step::Sync));
        if self.setup.crashes {
            steps.push(Step::Crash);
        }
    }
}
