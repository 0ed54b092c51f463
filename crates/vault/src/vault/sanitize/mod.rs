//! Sanitization, while puts and restores go on (the paper's section 5).
//!
//! | phase | work | after a crash |
//! | --- | --- | --- |
//! | settle, merge | the marker, the first consistency point (CP0), one sorted index | from here again, with a new CP0 |
//! | analysis | the set of live chunks is made | the same |
//! | enumeration | from now on the references of puts are kept; the second consistency point (CP1); the chunks that snapshots reach are marked | the same |
//! | audit | containers are judged; each marked chunk was found, or the run stops | the same |
//! | copy | live chunks move, and the containers that they leave are condemned: both in one frame | what is condemned stays so |
//! | compaction | the index drops the chunks that are gone | condemned all the same |
//! | zero | condemned slots are destroyed by the policy, then free | goes on |
//! | end | each forget that is older than CP0 has its receipt | |
//!
//! A container that is damaged stays if anything live may be in it that cannot be copied; the rest is destroyed, and every forget stays
//! owed, since it is not known what else lies there.
//!
//! Invariants:
//! 1. A slot is condemned only when its live chunks are durable elsewhere, and free only after the last sync of its last pass.
//! 2. Containers from the marker on are not judged.
//! 3. A chunk is live if a snapshot of CP0 or CP1 reaches it, a put referred to it when CP1 was taken, or has since.
//! 4. A receipt names only forgets older than CP0, and only if no container was left because of damage.

mod audit;
mod copy;
mod damage;
mod enumerate;
mod witness;
mod zero;

pub(crate) use zero::Zeroing;

use std::collections::BTreeMap;

use audit::Audit;
use copy::Plan;
use enumerate::Enumeration;

use crate::catalog::Change;
use crate::live::Live;
use crate::mutant::{self, Mutant};
use crate::vault::Vault;
use crate::{ContainerSequence, ForgetId, Ordinal, Reference, RunId, SnapshotId, VaultError};

/// Pages of the index that one step reads.
const PAGES_A_STEP: usize = 64;

/// The plan of a sanitization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// Ending a merge that was under way.
    Settle,
    /// Merging the index.
    Merge,
    /// Making the set of live chunks.
    Analysis,
    /// Marking what snapshots reach.
    Enumeration,
    /// Judging containers.
    Audit,
    /// Copying live chunks out of this many more containers.
    Copy(usize),
    /// Merging the index once more.
    Compaction,
    /// Destroying this many more slots.
    Zero(usize),
    /// The sanitization is over.
    Done,
}

/// The result of a sanitization.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Figures {
    /// Containers that were judged.
    pub judged: u64,
    /// The audit's result.
    pub found: Findings,
    /// The part of that work that is done: copied and condemned.
    pub done: Findings,
}

/// The work of copying and destroying.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Findings {
    /// Containers that have dead chunks, or no chunks.
    pub containers: u64,
    /// Dead chunks.
    pub dead: u64,
    /// Their bytes, as stored.
    pub dead_bytes: u64,
    /// Live chunks beside them, which are to be copied.
    pub live: u64,
    /// Their bytes, as stored.
    pub live_bytes: u64,
}

/// A sanitization under way.
pub(crate) struct Run {
    id: RunId,
    covered: Vec<ForgetId>,
    points: Points,
    phase: Phase,
    figures: Figures,
    /// Containers that stay because of damage, although something in them may be dead.
    left: Left,
}

/// The marker and the first consistency point.
#[derive(Default)]
struct Points {
    marker: ContainerSequence,
    ordinals_end: Ordinal,
    before: BTreeMap<SnapshotId, Reference>,
}

/// Damaged containers, each with its damage.
pub type Left = BTreeMap<ContainerSequence, VaultError>;

enum Phase {
    Settle,
    Merge,
    Analysis,
    Enumeration(Live, Enumeration),
    Audit(Live, Audit),
    Copy(Live, Plan),
    SettleAgain,
    Compaction,
    Zero,
    Done,
}

impl Vault<'_> {
    /// Begins a sanitization; [`step_sanitization`](Vault::step_sanitization) carries it out. A sanitization that a crash has cut short begins again.
    ///
    /// # Errors
    ///
    /// [`VaultError::Running`] if one is under way; those of the catalog.
    pub fn begin_sanitization(&mut self) -> Result<RunId, VaultError> {
        if self.run.is_some() {
            return Err(VaultError::Running);
        }
        let id = match self.catalog.state().run {
            Some(id) => id,
            None => {
                let id = self.catalog.state().next.run;
                self.catalog.commit(&[Change::Begin(id)])?;
                id
            }
        };
        self.run = Some(Box::new(Run {
            id,
            covered: Vec::new(),
            points: Points::default(),
            phase: Phase::Settle,
            figures: Figures::default(),
            left: Left::new(),
        }));
        Ok(id)
    }

    /// Refuses puts until the sanitization that is under way has ended.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotRunning`]; [`VaultError::Putting`] if puts are under way.
    pub fn refuse_puts(&mut self) -> Result<(), VaultError> {
        match (self.run.is_some(), self.puts.len()) {
            (false, _) => Err(VaultError::NotRunning),
            (true, 0) => {
                self.puts.are_refused = true;
                Ok(())
            }
            (true, running) => Err(VaultError::Putting(running)),
        }
    }

    /// Whether a sanitization is under way.
    pub fn is_sanitizing(&self) -> bool {
        self.run.is_some()
    }

    /// Progress of the sanitization under way.
    pub fn sanitization_figures(&self) -> Option<Figures> {
        self.run.as_ref().map(|run| run.figures)
    }

    /// Damaged containers that the sanitization under way leaves unchanged: they have live chunks, and may have dead ones.
    pub fn sanitization_left(&self) -> Option<&Left> {
        self.run.as_ref().map(|run| &run.left)
    }

    /// Does a bounded part of the sanitization.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotRunning`]. After any other error the sanitization has stopped: its obligations stay, and it can
    /// be begun again.
    pub fn step_sanitization(&mut self) -> Result<Progress, VaultError> {
        let mut run = self.run.take().ok_or(VaultError::NotRunning)?;
        let stepped = self.step_run(&mut run);
        let progress = run.progress(self.catalog.table().condemned().len());
        if stepped.is_err() || progress == Progress::Done {
            self.puts.end_listening();
        } else {
            self.run = Some(run);
        }
        stepped.map(|()| progress)
    }

    /// Ends the sanitization under way without its receipts. What it has condemned stays so.
    ///
    /// # Errors
    ///
    /// [`VaultError::NotRunning`]; the errors of the catalog.
    pub fn cancel_sanitization(&mut self) -> Result<(), VaultError> {
        let run = self.run.take().ok_or(VaultError::NotRunning)?;
        self.puts.end_listening();
        Ok(self.catalog.commit(&[Change::End(run.id)])?)
    }

    fn step_run(&mut self, run: &mut Run) -> Result<(), VaultError> {
        let phase = std::mem::replace(&mut run.phase, Phase::Done);
        run.phase = match phase {
            Phase::Settle => self.settle(run)?,
            Phase::Merge if self.merge_or_destroy()? => Phase::Analysis,
            Phase::Merge => Phase::Merge,
            // A merge in between replaces the index: then all begins again.
            Phase::Analysis if self.catalog.state().index.merged != run.points.marker => Phase::Settle,
            Phase::Analysis => self.begin_enumeration(run, Live::new(run.points.ordinals_end)),
            Phase::Enumeration(set, enumeration) => self.enumerate(run, set, enumeration)?,
            Phase::Audit(set, audit) => self.audit(run, set, audit)?,
            Phase::Copy(set, plan) => self.copy(run, set, plan)?,
            Phase::SettleAgain if self.merge_or_destroy()? => {
                self.begin_merge()?;
                Phase::Compaction
            }
            Phase::SettleAgain => Phase::SettleAgain,
            Phase::Compaction if self.merge_or_destroy()? => Phase::Zero,
            Phase::Compaction => Phase::Compaction,
            Phase::Zero if self.destroy_some()? => self.end(run)?,
            Phase::Zero => Phase::Zero,
            Phase::Done => Phase::Done,
        };
        Ok(())
    }

    /// Waits for a merge that was under way; then the marker and CP0.
    fn settle(&mut self, run: &mut Run) -> Result<Phase, VaultError> {
        if !self.merge_or_destroy()? {
            return Ok(Phase::Settle);
        }
        self.begin_merge()?;
        let state = self.catalog.state();
        run.points = Points {
            marker: state.next.container,
            ordinals_end: self.next_ordinal,
            before: state.roots.clone(),
        };
        run.covered = state.obligations.keys().copied().collect();
        Ok(Phase::Merge)
    }

    /// A step of the merge, or of making room for it.
    fn merge_or_destroy(&mut self) -> Result<bool, VaultError> {
        match self.step_merge() {
            Err(VaultError::Full { .. }) if !self.catalog.table().condemned().is_empty() => {
                self.destroy_some().map(|_| false)
            }
            stepped => stepped,
        }
    }

    fn end(&mut self, run: &Run) -> Result<Phase, VaultError> {
        let passes = self.policy.passes().len() as u16;
        let owed = &self.catalog.state().obligations;
        let is_covered = |forget: &ForgetId| {
            run.covered.binary_search(forget).is_ok() || mutant::is(Mutant::ReceiptTooEarly)
        };
        // Forgotten content may lie in a container that was left.
        let is_met = run.left.is_empty() || mutant::is(Mutant::MeetDespiteDamage);
        let met = owed.keys().filter(|forget| is_met && is_covered(forget));
        let met = met.map(|forget| Change::Met(*forget, run.id, passes));
        let changes: Vec<Change> = met.chain([Change::End(run.id)]).collect();
        self.catalog.commit(&changes)?;
        Ok(Phase::Done)
    }
}

impl Run {
    fn progress(&self, condemned: usize) -> Progress {
        match &self.phase {
            Phase::Settle => Progress::Settle,
            Phase::Merge => Progress::Merge,
            Phase::Analysis => Progress::Analysis,
            Phase::Enumeration(..) => Progress::Enumeration,
            Phase::Audit(..) => Progress::Audit,
            Phase::Copy(_, plan) => Progress::Copy(plan.containers.len()),
            Phase::SettleAgain | Phase::Compaction => Progress::Compaction,
            Phase::Zero => Progress::Zero(condemned),
            Phase::Done => Progress::Done,
        }
    }
}
