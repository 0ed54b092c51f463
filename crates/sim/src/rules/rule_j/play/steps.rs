//! Possible next steps.

use crate::machine::cache;
use crate::rules::rule_e::guest::Action;
use crate::rules::rule_j::guest::{Journaled, Mode};
use crate::rules::rule_j::play::{Play, Step};

/// Steps, and how likely they are to be among those that are taken by chance.
type Group = (usize, Vec<Step>);

impl Play {
    pub(super) fn possible(&self) -> Vec<Step> {
        let mut groups = vec![self.server()];
        match &self.guest {
            Some(guest) => groups.extend(self.mounted(guest)),
            None => groups.push((4, self.beginnings())),
        }
        if self.setup.restarts {
            groups.push((1, vec![Step::Restart]));
        }
        if self.setup.is_cached {
            groups.push((12, self.cache.steps().into_iter().map(Step::Cache).collect()));
            let is_between = self.cache.attached().is_cached();
            groups.extend(
                self.setup.restarts.then(|| (1, vec![Step::Cache(cache::Step::Between(!is_between))])),
            );
        }
        weighed(groups)
    }

    fn beginnings(&self) -> Vec<Step> {
        let tries = if self.setup.external_journal.is_some() { 3 } else { 1 };
        [vec![Step::Mount(true); tries], vec![Step::Mount(false), Step::Fsck]].concat()
    }

    fn server(&self) -> Group {
        let mut steps = vec![Step::Read, Step::Cut, Step::Act(false), Step::Act(true)];
        steps.extend(self.is_cut.then_some(Step::Proven));
        if !self.setup.is_small {
            // By chance too few of these would come together.
            steps.extend([Step::Work, Step::Work]);
            // Where the rules do not see a recovery read, no recovery takes so long that doubts settle.
            let may_pass =
                !self.is_interrupted || self.setup.external_journal.is_none_or(|it| !it.hides_reads);
            steps.extend([100, 1500].map(Step::Pass).into_iter().filter(|_| may_pass));
        }
        (10, steps)
    }

    fn mounted(&self, guest: &Journaled) -> Vec<Group> {
        let (files, slots) = self.setup.files();
        let actions = guest.files.actions(files, &slots.collect::<Vec<_>>(), &guest.free(), 1);
        let mut groups = vec![(12, actions.into_iter().map(Step::Do).collect())];
        groups.extend([(10, self.data(guest)), (10, self.journal(guest)), (2, self.ends())]);
        if !self.setup.is_small {
            groups.push((4, guest.checkpointable().into_iter().map(Step::Checkpoint).collect()));
            groups.push((2, guest.files.named().keys().map(|it| Step::Do(Action::Touch(*it))).collect()));
            groups.push((1, guest.can_move_tail().then_some(Step::MoveTail).into_iter().collect()));
            groups.push((1, vec![Step::Sync(false), Step::Sync(true)]));
        } else {
            groups.push((1, vec![Step::Sync(true)]));
        }
        groups
    }

    fn data(&self, guest: &Journaled) -> Vec<Step> {
        let in_place = guest.wire.iter().filter(|(_, it)| !it.what.is_log());
        let mut steps: Vec<_> = in_place.map(|(block, _)| Step::Land(*block)).collect();
        if self.setup.mode != Mode::Journal {
            steps.extend(guest.dirty().into_iter().map(Step::Write));
        }
        steps
    }

    fn journal(&self, guest: &Journaled) -> Vec<Step> {
        let log = guest.wire.iter().filter(|(_, it)| it.what.is_log());
        let mut steps: Vec<_> = log.clone().map(|(block, _)| Step::Land(*block)).collect();
        if self.setup.splits {
            steps.extend(log.map(|(block, _)| Step::Split(*block)));
        }
        steps.extend(guest.can_commit().then_some(Step::Commit));
        steps.extend(guest.can_send_commit().then_some(Step::SendCommit));
        steps.extend(guest.is_committing().then_some(Step::Finish));
        steps.extend(guest.finished().map(|_| Step::Acknowledge));
        if self.setup.restarts && guest.finished().is_some() {
            steps.push(Step::Again);
        }
        steps
    }

    fn ends(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if !self.setup.is_small || self.setup.crashes {
            steps.push(Step::Unmount);
        }
        if self.setup.crashes {
            steps.extend([Step::Crash(false), Step::Crash(true)]);
        }
        steps
    }
}

/// All steps, those of light groups less often than those of heavy ones.
fn weighed(mut groups: Vec<Group>) -> Vec<Step> {
    groups.retain(|(_, steps)| !steps.is_empty());
    let scale = groups.iter().map(|(weight, steps)| steps.len().div_ceil(*weight)).max().unwrap_or(1);
    let repeat = |(weight, steps): Group| {
        let times = (weight * scale / steps.len()).max(1);
        steps.repeat(times)
    };
    groups.into_iter().flat_map(repeat).collect()
}
