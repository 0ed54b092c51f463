//! The state of erasing: the task under way, and what is remembered from one task to the next.

use super::act::Act;
use super::layers::Layers;
use super::space::Spare;
use super::tidy::Jobs;
use crate::blocks::BlockSet;
use crate::erase::Seeds;
use crate::medium::Capabilities;
use crate::request::Request;
use crate::units::{Addr, Extent, Millis};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Erasing {
    /// The task under way.
    pub(super) act: Option<Act>,
    pub(super) seeds: Seeds,
    /// What the data medium can do.
    pub(super) capabilities: Capabilities,
    /// Written since the disk was opened; none once all holes are known.
    pub(super) fresh: Option<BlockSet>,
    pub(super) layers: Layers,
    pub(super) spare: Spare,
    pub(super) jobs: Jobs,
    /// Where the next batch of obligations begins.
    pub(super) sweep: u64,
    /// What is owed by place comes before what is owed by address next.
    repays_next: bool,
}

impl Erasing {
    pub(super) fn new(
        entropy: [u8; 32],
        capabilities: Capabilities,
        fresh: Option<BlockSet>,
        now: Millis,
    ) -> Self {
        Self {
            act: None,
            seeds: Seeds::new(entropy),
            capabilities,
            fresh,
            layers: Layers::default(),
            spare: Spare::new(now),
            jobs: Jobs::default(),
            sweep: 0,
            repays_next: false,
        }
    }

    /// Whether no task is under way, and none is wanted for spare space.
    pub(super) fn is_quiet(&self) -> bool {
        self.act.is_none() && self.spare.is_empty()
    }

    /// Whether the task under way keeps `request` from beginning, before which the watcher has to see
    /// what it `needs`.
    pub(super) fn keeps_out(&self, request: &Request, needs: &[Extent<Addr>]) -> bool {
        let keeps_out = |act: &Act| act.excludes(request) || needs.iter().any(|seen| act.hides(*seen));
        self.act.as_ref().is_some_and(keeps_out)
    }

    /// Whether the task under way overwrites content of `extent` that will be put back.
    pub(super) fn hides(&self, extent: Extent<Addr>) -> bool {
        self.act.as_ref().is_some_and(|act| act.hides(extent))
    }

    /// Whether the task under way is about bytes of `extent` where they lie now.
    pub(super) fn is_at(&self, extent: Extent<Addr>) -> bool {
        self.act.as_ref().is_some_and(|act| act.is_at(extent))
    }

    /// Whether the task under way, if there is one, destroys nothing.
    pub(super) fn destroys_nothing(&self) -> bool {
        self.act.as_ref().is_none_or(Act::gives_back)
    }

    /// Whether what is owed by place has its turn, which it has every other time.
    pub(super) fn takes_turns(&mut self) -> bool {
        self.repays_next = !self.repays_next;
        self.repays_next
    }
}
