//! The steps of a task.

use super::{Logged, Record};
use crate::base::buf::Buf;
use crate::erase::policy::Pattern;
use crate::media::medium::Keep;
use std::sync::Arc;

/// One step of a task, in parts: each is handed out as one [`Work`](super::Work).
#[derive(Clone, Debug)]
pub(super) struct Step<S> {
    pub(super) action: Action<S>,
    /// No sites if the step is done once for the whole task.
    sites: Option<Arc<[S]>>,
    /// Sites of one part.
    at_once: usize,
}

/// The kinds of step.
#[derive(Clone, Debug)]
pub(super) enum Action<S> {
    Reserve,
    Read,
    Write,
    /// Writes these bytes, which are known from the start.
    Put(Buf),
    Save,
    /// Writes the next entries of the log of keys.
    Log(Logged),
    Fill(Pattern),
    Erase(Keep),
    Punch,
    Sync,
    Shrink,
    Forget,
    /// With the new sites.
    Rebind(Arc<[S]>),
    Checkpoint,
    Record(Record),
}

impl<S: Clone> Step<S> {
    pub(super) fn at(action: Action<S>, sites: impl Into<Arc<[S]>>) -> Self {
        Self { action, sites: Some(sites.into()), at_once: 1 }
    }

    pub(super) fn once(action: Action<S>) -> Self {
        Self { action, sites: None, at_once: 1 }
    }

    /// Another step at the same sites, in the same parts.
    pub(super) fn with(&self, action: Action<S>) -> Self {
        Self { action, sites: self.sites.clone(), at_once: self.at_once }
    }

    /// The same step, with so many sites in one part.
    pub(super) fn by(self, at_once: usize) -> Self {
        assert!(at_once > 0, "each part of a step has a site");
        Self { at_once, ..self }
    }

    pub(super) fn sites(&self) -> Arc<[S]> {
        self.sites.clone().unwrap_or_else(|| Arc::new([]))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts() == 0
    }

    /// How many parts the step has.
    pub(super) fn parts(&self) -> usize {
        self.sites.as_ref().map_or(1, |sites| sites.len().div_ceil(self.at_once))
    }

    /// Whether the step puts content back.
    pub(super) fn puts_back(&self) -> bool {
        matches!(self.action, Action::Write)
    }

    /// The sites of part number `n`.
    pub(super) fn sites_of(&self, n: usize) -> &[S] {
        assert!(n < self.parts(), "a step has {} parts, and not part {n}", self.parts());
        let sites = self.sites.as_deref().unwrap_or_default();
        let from = (n * self.at_once).min(sites.len());
        &sites[from..sites.len().min(from + self.at_once)]
    }
}
