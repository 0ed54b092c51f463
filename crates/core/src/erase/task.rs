//! One task under way.

use super::step::{Action, Step};
use super::{FILLS_AT_WORK_MAX, FILLS_MAX, Means, Method, Point, StepIo, Verb, Work};
use crate::base::buf::Buf;
use crate::erase::policy::PASSES_MAX;

/// A task under way: see the module's documentation.
#[derive(Debug)]
pub struct Task<S> {
    /// Steps that are left, the next one last.
    steps: Vec<Step<S>>,
    /// Parts of the present step that have begun.
    begun: usize,
    /// Parts of the present step that have begun and not ended.
    under_way: usize,
    contents: Vec<Buf>,
    priority: Priority,
    must_end: bool,
    is_futile: bool,
    /// Work of the present step has failed, and the step begins again later.
    is_resting: bool,
    /// Work of the present step has failed, and content is put back without the steps before that.
    is_skipping: bool,
}

/// How urgent a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Priority {
    /// No request waits. The task goes on until a request waits for another one.
    Background,
    /// The task goes on while erasing is due, until a request waits for another one.
    Due,
    /// A request waits: the task gives way to no other.
    Urgent,
}

/// How much the foreground leaves to a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Foreground {
    /// Erasing is due: the foreground is idle, or the oldest obligation is old.
    pub is_due: bool,
    /// A client is at work.
    pub is_at_work: bool,
}

impl<S: Clone> Task<S> {
    /// Does what `method` says, by `means`.
    #[must_use]
    pub fn new<'a>(method: Method<S>, means: impl Into<Means<'a>>, priority: Priority) -> Self {
        let means = means.into();
        assert!(means.passes().len() <= PASSES_MAX, "a policy has a limit of passes");
        let must_end = method.must_end();
        let (mut steps, contents) = method.steps(means);
        steps.retain(|step| !step.is_empty());
        let puts_all = contents.is_empty() || steps.iter().any(Step::puts_back);
        assert!(puts_all, "content that is known from the start is put somewhere");
        steps.reverse();
        let (begun, under_way, is_futile, is_resting, is_skipping) = (0, 0, false, false, false);
        Self { steps, begun, under_way, contents, priority, must_end, is_futile, is_resting, is_skipping }
    }

    /// The next work, if one may begin now. [`Task::done`] or [`Task::failed`] reports its end.
    pub fn next(&mut self, foreground: Foreground) -> Option<Work<S>> {
        if !self.may_begin(foreground) {
            return None;
        }
        let (step, n) = (self.steps.last()?, self.begun);
        let has_all = !step.puts_back() || self.contents.len() == step.parts();
        assert!(has_all, "each part of what is put back has its content");
        let mut at = step.sites_of(n).to_vec();
        let io = |at, verb| Work::Io(StepIo { at, verb });
        let work = match &step.action {
            Action::Reserve => io(at, Verb::Reserve),
            Action::Read => io(at, Verb::Read),
            Action::Write => io(at, Verb::Write(self.contents[n].clone())),
            Action::Put(bytes) => io(at, Verb::Write(bytes.clone())),
            Action::Save => io(at, Verb::Save),
            Action::Log(logged) => io(at, Verb::Log(*logged)),
            Action::Fill(pattern) => io(at, Verb::Fill(pattern.clone())),
            Action::Erase(keep) => io(at, Verb::Erase(*keep)),
            Action::Punch => io(at, Verb::Punch),
            Action::Sync => io(at, Verb::Sync),
            Action::Shrink => io(at, Verb::Shrink),
            Action::Forget => Work::Point(Point::Forget(at.swap_remove(0))),
            Action::Rebind(to) => Work::Point(Point::Rebind { from: at.swap_remove(0), to: to[n].clone() }),
            Action::Checkpoint => Work::Point(Point::Checkpoint),
            Action::Record(record) => Work::Point(Point::Record(*record)),
        };
        self.begun += 1;
        self.under_way += 1;
        assert!(
            self.under_way <= self.begun.min(FILLS_MAX),
            "what is under way has begun, and is within its limit"
        );
        Some(work)
    }

    /// The sites of the work that [`Task::next`] would hand out, for a driver that has to look up
    /// first where they are.
    #[must_use]
    pub fn next_sites(&self, foreground: Foreground) -> &[S] {
        let step = self.steps.last().filter(|_| self.may_begin(foreground));
        step.map_or(&[], |step| step.sites_of(self.begun))
    }

    fn may_begin(&self, foreground: Foreground) -> bool {
        let Some(step) = self.steps.last() else { return false };
        let is_time = self.priority != Priority::Due || foreground.is_due;
        let shares = foreground.is_at_work && self.priority != Priority::Urgent;
        let max = match step.action {
            Action::Fill(_) if shares => FILLS_AT_WORK_MAX,
            Action::Fill(_) => FILLS_MAX,
            // Content that is read is kept in order, and holes in one file wait for one another anyway.
            _ => 1,
        };
        let has_failed = self.is_futile || self.is_resting || self.is_skipping;
        is_time && !has_failed && self.under_way < max && self.begun < step.parts()
    }

    /// Work that was handed out has ended; with what it read.
    pub fn done(&mut self, read: Buf) {
        assert!(self.under_way > 0, "work ends once");
        self.under_way -= 1;
        if self.is_skipping {
            return self.skip_if_at_rest();
        }
        let Some(step) = self.steps.last() else { return };
        if matches!(step.action, Action::Read) {
            self.contents.push(read);
            assert!(self.contents.len() <= step.parts(), "each part of a step is read once");
        }
        assert!(self.begun <= step.parts(), "a step has begun no more parts than it has");
        if self.under_way == 0 && self.begun == step.parts() && !self.is_resting {
            if matches!(step.action, Action::Write) {
                self.contents.clear();
            }
            self.steps.pop();
            self.begun = 0;
        }
    }

    /// Work has failed harmlessly: the task begins nothing more, and is to be given up once it is at
    /// rest.
    pub fn failed(&mut self) {
        assert!(self.under_way > 0, "work ends once");
        self.under_way -= 1;
        self.is_futile = true;
    }

    /// Work has failed for now: the present step begins again with [`Task::retry`], since content would be
    /// lost without it.
    pub fn postponed(&mut self) {
        assert!(self.under_way > 0, "work ends once");
        self.under_way -= 1;
        if self.is_skipping {
            return self.skip_if_at_rest();
        }
        self.is_resting = true;
    }

    /// Work has failed for good, and content would be lost if the task were given up: it is put back as soon as the task is at
    /// rest, without the steps before that.
    pub fn skip(&mut self) {
        assert!(self.under_way > 0, "work ends once");
        self.under_way -= 1;
        assert!(self.puts_back(), "content that is spared a pass is put back");
        self.is_skipping = true;
        self.skip_if_at_rest();
    }

    fn skip_if_at_rest(&mut self) {
        if self.is_at_rest() {
            assert!(self.puts_back(), "content that is spared a pass is still to be put back");
            self.steps.truncate(self.steps.iter().rposition(Step::puts_back).map_or(0, |at| at + 1));
            assert!(self.steps.last().is_some_and(Step::puts_back), "the next step puts content back");
            (self.is_skipping, self.begun) = (false, 0);
        }
    }

    /// Whether content is still to be put back.
    #[must_use]
    pub fn puts_back(&self) -> bool {
        self.steps.iter().any(Step::puts_back)
    }

    /// The part of the present step that began last.
    ///
    /// # Panics
    /// If no part has begun.
    #[must_use]
    pub fn last_part(&self) -> usize {
        assert!(self.begun > 0, "a part of the step has begun");
        self.begun - 1
    }

    /// The sites of part `part` of the present step, if that step destroys what lies there.
    #[must_use]
    pub fn destroys(&self, part: usize) -> Option<&[S]> {
        let step = self.steps.last()?;
        matches!(step.action, Action::Fill(_) | Action::Erase(_) | Action::Punch).then(|| step.sites_of(part))
    }

    /// Whether the present step has the medium destroy something: what is kept of it is in its place.
    #[must_use]
    pub fn is_erasing(&self) -> bool {
        self.steps.last().is_some_and(|step| matches!(step.action, Action::Erase(_)))
    }

    /// Whether the present step waits to begin again.
    #[must_use]
    pub fn is_resting(&self) -> bool {
        self.is_resting
    }

    /// Begins the present step again if it failed, once nothing of it is under way.
    pub fn retry(&mut self) {
        if self.is_resting && self.is_at_rest() {
            (self.is_resting, self.begun) = (false, 0);
            if self.is_reading() {
                // All parts of the step are read again.
                self.contents.clear();
            }
        }
    }

    /// Whether the task is done.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.steps.is_empty()
    }

    /// Whether nothing is under way.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.under_way == 0
    }

    /// Stops the task, because something that it needs is not available: it begins nothing more, and is
    /// to be given up once it is at rest.
    pub fn give_up(&mut self) {
        self.is_futile = true;
    }

    /// Whether the present step is a checkpoint.
    #[must_use]
    pub fn is_checkpointing(&self) -> bool {
        self.steps.last().is_some_and(|step| matches!(step.action, Action::Checkpoint))
    }

    /// Whether the present step takes space: nothing has been overwritten yet.
    #[must_use]
    pub fn is_reserving(&self) -> bool {
        self.steps.last().is_some_and(|step| matches!(step.action, Action::Reserve))
    }

    /// Whether bytes are still to be put somewhere: nothing that was there before is destroyed yet.
    #[must_use]
    pub fn is_putting(&self) -> bool {
        self.steps.iter().any(|step| matches!(step.action, Action::Put(_)))
    }

    /// Whether the present step puts content into the staging area.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.steps.last().is_some_and(|step| matches!(step.action, Action::Save))
    }

    /// Whether the present step reads.
    #[must_use]
    pub fn is_reading(&self) -> bool {
        self.steps.last().is_some_and(|step| matches!(step.action, Action::Read))
    }

    /// Whether the task is to be given up, once it is at rest; `is_in_the_way` of a task that
    /// a request waits for.
    #[must_use]
    pub fn should_end(&self, is_in_the_way: bool) -> bool {
        self.is_futile || is_in_the_way && self.priority != Priority::Urgent && !self.must_end
    }

    /// Makes the task urgent: a request waits for it.
    pub fn hurry(&mut self) {
        self.priority = Priority::Urgent;
    }

    /// Content that was read, or is to be put back: a buffer for each part of the step that reads.
    /// Empty once it has been put back.
    #[must_use]
    pub fn contents(&self) -> &[Buf] {
        &self.contents
    }
}
