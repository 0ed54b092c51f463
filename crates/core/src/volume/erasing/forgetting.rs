//! Forgetting epochs, blocks in all epochs or in some, and sets of that: the intent is durable before the answer, and the receipt comes when all
//! that died is destroyed.
//!
//! Blocks are forgotten in all epochs that are kept, and only if the open epoch shows nothing of what would die; or in some epochs, and
//! only if neither the open one nor another one does. What the open epoch shows instead is durable before the intent: else a crash could
//! bring the destroyed content back as the current one.

use crate::base::parts::{Forget, PARTS_MAX, Parts};
use crate::base::units::{Addr, BLOCK_BYTES, Epoch, EpochRange, Extent, Scope};
use crate::request::Refusal;
use crate::volume::disk::Disk;
use crate::volume::erasing::Erasing;
use crate::volume::origin::Origin;
use std::collections::VecDeque;

/// Most forgets that are not completed.
pub(in crate::volume) const FORGETS_MAX: usize = 256;
/// How far the volume is with what is to be forgotten.
#[derive(Debug, Default)]
pub(in crate::volume) struct Forgetting {
    /// The commit that has to be durable before anything is destroyed.
    pub(in crate::volume) after: u64,
    /// Whether there is a step to take at once.
    pub(in crate::volume) has_more: bool,
    /// Requests to forget blocks, of which the current state may show some.
    pub(in crate::volume) checks: VecDeque<Check>,
}

/// A look for content that the current state shows, and that is to be forgotten.
#[derive(Clone, Debug)]
pub(in crate::volume) struct Check {
    pub(in crate::volume) id: Origin,
    /// What is to be forgotten.
    pub(in crate::volume) forget: Forget,
    /// The number of what is being looked at, in [`Forget::nth`].
    pub(in crate::volume) at: usize,
    /// Its blocks that are still to be looked at.
    pub(in crate::volume) left: Extent<Addr>,
    /// The open epoch when the look began.
    pub(in crate::volume) open: Epoch,
}

impl Check {
    /// What is being looked at.
    pub(in crate::volume) fn scope(&self) -> Scope {
        self.forget.nth(self.at).expect("a look is at something")
    }
}

impl Disk {
    /// Up to where the bytes from the start of `block` on are dead by address, if they are. Such content has not left its
    /// place yet.
    pub(in crate::volume) fn dead_up_to(&self, block: Extent<Addr>) -> Option<u64> {
        let dead = self.state.ledger.dead().iter_from(block.start.0).next();
        dead.map(|(dead, _)| dead).filter(|dead| dead.start <= block.start).map(|dead| dead.end())
    }

    /// Begins what the journal says is to be forgotten.
    pub(in crate::volume) fn resume_forget(&mut self, forget: Forget) {
        if let Some(known) = self.store.epochs_mut() {
            known.forget(forget);
        }
    }

    /// Why the journal takes no `parts` more, if so.
    pub(in crate::volume) fn refuse_roomless_parts(&self, parts: usize) -> Option<Refusal> {
        let why = "the journal has no room for so many parts; wait for some to be forgotten";
        (parts > 0 && !self.has_room_for_parts(parts)).then(|| Refusal::NoSpace(why.into()))
    }

    /// Whether content that is to be forgotten is dead by address: the store takes it for current until it has left its
    /// place.
    pub(in crate::volume) fn waits_for_deaths(&self) -> bool {
        let (first, dead) = (self.state.forgets.first(), self.state.ledger.dead());
        first.is_some_and(|forget| forget.any_blocks(|blocks| dead.overlaps(blocks)))
    }
}

impl Erasing {
    /// Why `scope` cannot be forgotten, as far as that is known at once.
    pub(in crate::volume) fn refuse_forget(&self, disk: &Disk, scope: Scope) -> Option<Refusal> {
        if matches!(scope, Scope::Set(_)) {
            return Some(Refusal::Invalid("a set is forgotten with its parts"));
        }
        let refusal = refuse_scope(disk, scope.epochs(), scope.blocks());
        refusal.or_else(|| self.refuse_one_more(disk))
    }

    /// Why `parts` cannot be forgotten as one, as far as that is known at once.
    pub(in crate::volume) fn refuse_parts(&self, disk: &Disk, parts: &Parts) -> Option<Refusal> {
        let all = parts.all();
        if all.is_empty() || all.len() > PARTS_MAX || !parts.are_sorted() {
            return Some(Refusal::Invalid(
                "a set has 1 to 8192 parts, in the order of their first blocks, and then of their epochs",
            ));
        }
        let refusal = all.iter().find_map(|part| refuse_scope(disk, part.epochs, Some(part.blocks)));
        refusal.or_else(|| self.refuse_one_more(disk)).or_else(|| {
            let waiting: usize = self.forgetting.checks.iter().map(|check| check.forget.parts().len()).sum();
            disk.refuse_roomless_parts(waiting + all.len())
        })
    }

    fn refuse_one_more(&self, disk: &Disk) -> Option<Refusal> {
        let is_full = disk.state.forgets.len() + self.forgetting.checks.len() >= FORGETS_MAX;
        is_full.then(|| Refusal::NoSpace("too many forgets are under way; wait for some to complete".into()))
    }

    /// Whether something is still to be forgotten.
    pub(in crate::volume) fn has_forgets(&self, disk: &Disk) -> bool {
        !disk.state.forgets.is_empty() || !self.forgetting.checks.is_empty()
    }
}

/// Why these blocks cannot be forgotten in these epochs, or these as a whole.
fn refuse_scope(disk: &Disk, epochs: EpochRange, blocks: Option<Extent<Addr>>) -> Option<Refusal> {
    let Some(known) = disk.store.epochs() else {
        return Some(Refusal::NotSupported("the disk does not keep versions"));
    };
    if epochs.from > epochs.to || epochs.to >= known.open() {
        return Some(Refusal::Invalid(
            "the epochs to forget have to be closed, and the first not after the last",
        ));
    }
    let size = disk.store.geometry().size.next_multiple_of(BLOCK_BYTES);
    let is_whole = |it: Extent<Addr>| {
        let are_whole = [it.start.0, it.len].iter().all(|bytes| bytes.is_multiple_of(BLOCK_BYTES));
        are_whole && !it.is_empty() && it.end() <= size
    };
    let refused = blocks.is_some_and(|it| !is_whole(it));
    refused.then_some(Refusal::Invalid("the blocks to forget have to be whole ones of the disk"))
}
