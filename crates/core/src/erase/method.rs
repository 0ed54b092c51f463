//! The methods of a task, and the steps of each, in order.

use super::Logged;
use super::Record;
use super::step::{Action, Step};
use crate::base::buf::Buf;
use crate::erase::policy::{Pattern, Policy};
use crate::media::medium::Keep;
use crate::mutant::{self, Mutant};

/// Blocks of content that moves, read and written at once.
const COPIES_AT_ONCE: usize = 64;

/// How bytes are destroyed where a task does so.
#[derive(Clone, Copy, Debug)]
pub enum Means<'a> {
    /// By the passes of this policy, each with a sync after it.
    Passes(&'a Policy),
    /// By the medium.
    Erase {
        /// What that leaves.
        keep: Keep,
        /// Each site on its own.
        one_by_one: bool,
    },
}

impl<'a> From<&'a Policy> for Means<'a> {
    fn from(policy: &'a Policy) -> Self {
        Self::Passes(policy)
    }
}

impl<'a> Means<'a> {
    /// The passes.
    #[must_use]
    pub fn passes(self) -> &'a [Pattern] {
        match self {
            Self::Passes(policy) => policy.passes(),
            Self::Erase { .. } => &[],
        }
    }

    fn leaves_zeros(self) -> bool {
        match self {
            Self::Passes(policy) => policy.leaves_zeros(),
            Self::Erase { .. } => true,
        }
    }

    /// The steps that destroy what is at the sites of `over`, and make that durable by `sync`.
    fn steps<S: Clone>(self, over: &Step<S>, sync: &Step<S>) -> Vec<Step<S>> {
        match self {
            Self::Passes(policy) => passes(policy, over, sync),
            Self::Erase { .. } if over.is_empty() => Vec::new(),
            Self::Erase { keep, one_by_one } => {
                let at_once = if one_by_one { 1 } else { over.sites().len() };
                vec![over.with(Action::Erase(keep)).by(at_once)]
            }
        }
    }
}

/// The job of a task.
#[derive(Clone, Debug)]
pub enum Method<S> {
    /// Destroy residue.
    Destroy(Destroy<S>),
    /// Destroy keys, then write fresh ones in their places: all of them, in order.
    Renew(Destroy<S>, Buf),
    /// Write fresh keys, then what they hide, then destroy the keys that this had.
    Rekey([Put<S>; 2], Destroy<S>),
    /// The same, and the task is never given up.
    Turn([Put<S>; 2], Destroy<S>),
    /// Write bytes, without a sync.
    Put(Put<S>),
    /// Destroy what lies below content, and put content there (a conservative overwrite).
    Rewrite(Rewrite<S>),
    /// Put content under fresh keys, in its place.
    Restage(Restage<S>),
    /// Copy live content to another site, so that the old one can be destroyed.
    CopyLive(CopyLive<S>),
    /// Give back the space of these sites, whose content is destroyed already or need not be.
    Punch(Vec<S>),
    /// Truncate the medium at this site.
    Shrink(S),
    /// Read these sites.
    Read(Vec<S>),
}

/// See [`Method::Rekey`].
#[derive(Clone, Debug)]
pub struct Put<S> {
    /// Where the bytes go, side by side. Nothing is done if that is nowhere.
    pub at: Vec<S>,
    /// The bytes.
    pub bytes: Buf,
    /// The medium that is synced.
    pub medium: S,
}

/// See [`Method::Destroy`].
#[derive(Clone, Debug)]
pub struct Destroy<S> {
    /// Where the passes go.
    pub residue: Vec<S>,
    /// How many of these sites one write of a pass covers.
    pub at_once: usize,
    /// The state of the residue after the last pass.
    pub zeros: Zeros<S>,
    /// The medium that is synced.
    pub medium: S,
    /// Sites that the map forgets once the residue is gone.
    pub forget: Vec<S>,
    /// Make a checkpoint after that.
    pub checkpoint: bool,
    /// End with [`Record::Erased`].
    pub record: bool,
}

/// Whether the sites of [`Destroy`] hold zeros after the last pass.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Zeros<S> {
    /// Zeros, if the policy has any pass.
    AfterPasses,
    /// Zeros in any case.
    Always,
    /// Zeros, if need be by giving back the space of these sites.
    Holes(Vec<S>),
}

/// See [`Method::Rewrite`].
#[derive(Clone, Debug)]
pub struct Rewrite<S> {
    /// Where the passes go, and then the content.
    pub sites: Vec<S>,
    /// The content of each site, in order; `None` to keep the present content of the site.
    pub contents: Option<Vec<Buf>>,
    /// The medium of the sites.
    pub medium: S,
    /// The staging area, large enough for all the content.
    pub staging: S,
    /// The medium of the staging area.
    pub staging_medium: S,
}

/// See [`Method::Restage`]. What ends the old keys comes later, and elsewhere.
#[derive(Clone, Debug)]
pub struct Restage<S> {
    /// Where the content lies.
    pub sites: Vec<S>,
    /// The medium of the sites.
    pub medium: S,
    /// The staging area, large enough for all the content.
    pub staging: S,
    /// The medium of the staging area.
    pub staging_medium: S,
    /// The medium of the log of keys.
    pub log_medium: S,
    /// Whether some of the sites may have no space on the host yet.
    pub may_be_holes: bool,
}

/// See [`Method::CopyLive`].
#[derive(Clone, Debug)]
pub struct CopyLive<S> {
    /// The old site of each block.
    pub from: Vec<S>,
    /// The new one of each.
    pub to: Vec<S>,
    /// The medium that is synced.
    pub medium: S,
}

impl<S: Clone> Method<S> {
    /// The steps, in order; the content that is known already.
    pub(super) fn steps(self, means: Means<'_>) -> (Vec<Step<S>>, Vec<Buf>) {
        match self {
            Self::Destroy(it) => (it.steps(means), Vec::new()),
            Self::Renew(it, fresh) => it.renewed(means, fresh),
            Self::Turn(puts, _) if mutant::is(Mutant::SpareRoot) => (rekeyed(puts, Vec::new()), Vec::new()),
            Self::Rekey(puts, old) | Self::Turn(puts, old) => (rekeyed(puts, old.steps(means)), Vec::new()),
            Self::Put(put) => (put.steps().into_iter().take(1).collect(), Vec::new()),
            Self::Rewrite(it) => it.steps(means),
            Self::Restage(it) => (it.steps(), Vec::new()),
            Self::CopyLive(it) => (it.steps(), Vec::new()),
            Self::Punch(sites) => (vec![Step::at(Action::Punch, sites)], Vec::new()),
            Self::Shrink(site) => (vec![Step::at(Action::Shrink, [site])], Vec::new()),
            Self::Read(sites) => {
                let at_once = sites.len();
                (vec![Step::at(Action::Read, sites).by(at_once)], Vec::new())
            }
        }
    }

    /// The medium on which the task destroys something, if it does.
    #[must_use]
    pub fn destroys_on(&self) -> Option<&S> {
        match self {
            Self::Destroy(it) | Self::Renew(it, _) | Self::Rekey(_, it) | Self::Turn(_, it) => {
                Some(&it.medium)
            }
            Self::Rewrite(it) => Some(&it.medium),
            Self::Put(_)
            | Self::Restage(_)
            | Self::CopyLive(_)
            | Self::Punch(_)
            | Self::Shrink(_)
            | Self::Read(_) => None,
        }
    }

    /// Whether the task must not be given up: otherwise content would lie at two sites, or at
    /// a site that the map does not name; or a medium would hold the keys of two times.
    pub(super) fn must_end(&self) -> bool {
        matches!(
            self,
            Self::Rewrite(_) | Self::Restage(_) | Self::CopyLive(_) | Self::Shrink(_) | Self::Turn(..)
        )
    }
}

impl<S: Clone> Destroy<S> {
    fn renewed(self, means: Means<'_>, fresh: Buf) -> (Vec<Step<S>>, Vec<Buf>) {
        let write = Step::at(Action::Write, self.residue.clone()).by(self.residue.len());
        let sync = Step::at(Action::Sync, [self.medium.clone()]);
        let mut steps = self.steps(means);
        if mutant::is(Mutant::SparePass) {
            steps.drain(..steps.len().min(2));
        }
        steps.push(write);
        steps.extend(Some(sync).filter(|_| !mutant::is(Mutant::CellUnsynced)));
        (steps, vec![fresh])
    }

    fn steps(self, means: Means<'_>) -> Vec<Step<S>> {
        let residue = Step::at(Action::Punch, self.residue).by(self.at_once);
        let sync = Step::at(Action::Sync, [self.medium]);
        let mut steps = means.steps(&residue, &sync);
        let has_passes = !steps.is_empty();
        let zeros = match self.zeros {
            _ if means.leaves_zeros() => None,
            Zeros::AfterPasses if !has_passes => None,
            Zeros::AfterPasses | Zeros::Always => Some(residue.with(Action::Fill(Pattern::zeros()))),
            Zeros::Holes(holes) => Some(Step::at(Action::Punch, holes)),
        };
        if let Some(zeros) = zeros.filter(|it| !it.is_empty()) {
            steps.extend([zeros, sync]);
        }
        let is_job = !self.record && !self.checkpoint;
        if self.record && mutant::is(Mutant::ReceiptBeforeSync)
            || is_job && (mutant::is(Mutant::ForgottenUnsynced) || mutant::is(Mutant::ReceiptBeforeRoot))
        {
            steps.pop();
        }
        steps.push(Step::at(Action::Forget, self.forget));
        if self.checkpoint && !mutant::is(Mutant::MeetBeforeCheckpoint) {
            steps.push(Step::once(Action::Checkpoint));
        }
        if self.record {
            steps.push(Step::once(Action::Record(Record::Erased)));
        }
        steps
    }
}

impl<S: Clone> Rewrite<S> {
    fn steps(self, means: Means<'_>) -> (Vec<Step<S>>, Vec<Buf>) {
        let has_all = |contents: &Vec<Buf>| contents.len() == self.sites.len();
        assert!(self.contents.as_ref().is_none_or(has_all), "each site has its content");
        let sites = Step::at(Action::Read, self.sites);
        let sync = Step::at(Action::Sync, [self.medium]);
        if let Means::Erase { .. } = means {
            let write = self.contents.is_some().then(|| sites.with(Action::Write));
            let erased = Step::once(Action::Record(Record::Erased));
            let steps = write.into_iter().chain(means.steps(&sites, &sync)).chain([erased]);
            return (steps.collect(), self.contents.unwrap_or_default());
        }
        let save = Step::at(Action::Save, [self.staging]);
        let mut steps = Vec::new();
        if !mutant::is(Mutant::PassBeforeSpace) {
            steps.push(sites.with(Action::Reserve).by(sites.sites().len().max(1)));
        }
        if self.contents.is_none() {
            steps.push(sites.clone());
        }
        if !mutant::is(Mutant::KeepNothing) {
            steps.extend([save.clone(), Step::once(Action::Record(Record::Saved))]);
        }
        steps.extend(means.steps(&sites, &sync));
        steps.extend([sites.with(Action::Write), sync, Step::once(Action::Record(Record::Restored))]);
        if !mutant::is(Mutant::KeepSlots) {
            steps.extend(means.steps(&save, &Step::at(Action::Sync, [self.staging_medium])));
        }
        steps.push(Step::once(Action::Record(Record::Erased)));
        (steps, self.contents.unwrap_or_default())
    }
}

impl<S: Clone> Restage<S> {
    /// A key is durable before the record that content lies under it, and is in use only once all of that content does: until then
    /// a start finds the content, whole, in the staging area. It needs the space of the sites then, which is durable by that time.
    fn steps(self) -> Vec<Step<S>> {
        let sites = Step::at(Action::Read, self.sites);
        let sync = |medium: &S| Step::at(Action::Sync, [medium.clone()]);
        let log = |logged| Step::at(Action::Log(logged), [self.log_medium.clone()]);
        let save = Step::at(Action::Save, [self.staging]);
        let mut steps = vec![sites.with(Action::Reserve).by(sites.sites().len().max(1))];
        steps.extend(Some(sync(&self.medium)).filter(|_| self.may_be_holes));
        steps.push(sites.clone());
        steps.extend([log(Logged::Prepared), sync(&self.log_medium), save.clone()]);
        if !mutant::is(Mutant::FreshUnderLive) {
            steps.push(Step::once(Action::Record(Record::Saved)));
        }
        steps.extend([sites.with(Action::Write), log(Logged::Active)]);
        steps.extend([sync(&self.medium), sync(&self.log_medium)]);
        steps.push(Step::once(Action::Record(Record::Restored)));
        steps.extend([save.with(Action::Fill(Pattern::zeros())), sync(&self.staging_medium)]);
        steps.push(Step::once(Action::Record(Record::Erased)));
        steps
    }
}

impl<S: Clone> CopyLive<S> {
    fn steps(self) -> Vec<Step<S>> {
        assert!(self.from.len() == self.to.len(), "each block that moves has a new site");
        let from = Step::at(Action::Read, self.from);
        let to = Step::at(Action::Write, self.to);
        let sync = Step::at(Action::Sync, [self.medium]);
        let rebind = from.with(Action::Rebind(to.sites()));
        vec![from.by(COPIES_AT_ONCE), to.by(COPIES_AT_ONCE), sync, rebind, Step::once(Action::Checkpoint)]
    }
}

/// Writes keys, then what they hide; then `destroys` the keys that this had.
fn rekeyed<S: Clone>([keys, content]: [Put<S>; 2], destroys: Vec<Step<S>>) -> Vec<Step<S>> {
    let (mut keys, content) = (keys.steps(), content.steps());
    if mutant::is(Mutant::FreshCellUnsynced) || mutant::is(Mutant::TopBeforePages) {
        keys.pop();
    }
    if mutant::is(Mutant::KillHomeEarly) {
        return [keys, destroys, content].concat();
    }
    [keys, content, destroys].concat()
}

impl<S: Clone> Put<S> {
    fn steps(self) -> Vec<Step<S>> {
        assert!(self.at.is_empty() == self.bytes.is_empty(), "what is put somewhere has bytes");
        if self.at.is_empty() {
            return Vec::new();
        }
        let at_once = self.at.len();
        let put = Step::at(Action::Put(self.bytes), self.at).by(at_once);
        vec![put, Step::at(Action::Sync, [self.medium])]
    }
}

/// The passes of `policy` over the sites of `over`, each with a sync after it.
fn passes<S: Clone>(policy: &Policy, over: &Step<S>, sync: &Step<S>) -> Vec<Step<S>> {
    if over.is_empty() {
        return Vec::new();
    }
    let last = policy.passes().len();
    let with_sync = policy.passes().iter().zip(1..).flat_map(|(pattern, n)| {
        let is_synced = n == last || !mutant::is(Mutant::FoldPasses);
        let sync = Some(sync.clone()).filter(|_| is_synced);
        [Some(over.with(Action::Fill(pattern.clone()))), sync]
    });
    with_sync.flatten().collect()
}
