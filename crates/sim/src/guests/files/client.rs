//! Between a guest and the server: clients that come and go, and a cache.

use crate::guests::files::Files;
use crate::guests::files::wire::{Sent, What};
use crate::machine::cache;
use crate::server::Above;
use quietus_core::base::units::Millis;
use quietus_core::volume::Event;
use quietus_detect::formats::format::Block;

/// Most that a gap between two writes counts for, in the rules and so here.
const GAP_MS_MAX: u64 = 1000;

impl Files {
    /// Loses the connection. Requests on their way may still arrive, while the other connection may
    /// be there already, and the client repeats each request without a reply.
    pub(super) fn reconnect(&mut self, overlaps: bool) -> Result<(), String> {
        if overlaps {
            self.connect(true)?;
        }
        self.everywhere(|it| {
            let again: Vec<_> = it.pending.values().chain(&it.wire).cloned().collect();
            for index in (0..it.wire.len()).rev() {
                if it.rng.chance(30) {
                    it.wire.remove(index);
                }
            }
            it.arrive_all()?;
            // The client waits for no reply any more.
            let (at, pending) = (it.at, std::mem::take(&mut it.pending));
            it.orphans.extend(pending.into_iter().map(|(id, sent)| (id, (at, sent))));
            it.wire = again.into_iter().map(|sent| it.renewed(sent)).collect();
            Ok(())
        })?;
        if !overlaps {
            self.connect(false)?;
            return self.connect(true);
        }
        self.everywhere(Self::arrive_all)?;
        self.connect(false)
    }

    pub(super) fn connect(&mut self, comes: bool) -> Result<(), String> {
        self.server.connect(comes)?;
        self.hear()
    }

    /// Keeps a change for later that was refused for want of space: it changed nothing. The host
    /// gets room sooner or later.
    pub(super) fn try_again(&mut self, block: Block, sent: Sent) {
        self.server.figures.refused += 1;
        self.shelves[block as usize].withdraw();
        self.system.refused(block);
        let sent = self.renewed(sent);
        self.wire.push(sent);
        if self.rng.chance(20) {
            self.server.fill_host(false);
        }
    }

    fn renewed(&mut self, sent: Sent) -> Sent {
        Sent { id: self.new_id(), ..sent }
    }

    /// Tells the server how the guest is attached, if it is to know.
    pub(super) fn tell_attached(&mut self) -> Result<(), String> {
        if self.setup.cache != Some(true) {
            return Ok(());
        }
        let attached = self.cache.attached();
        self.tell(Event::Attached(attached))
    }

    pub(super) fn cache_does(&mut self, step: cache::Step) -> Result<(), String> {
        let sent = self.cache.happen(step);
        self.emit(sent)?;
        self.tell_attached()
    }

    /// Lets `ms` milliseconds pass for the cache.
    pub(super) fn hold_for(&mut self, ms: u64) -> Result<(), String> {
        let sent = self.cache.pass(ms);
        self.emit(sent)
    }

    /// Lets the time pass for the cache that has passed for the server.
    pub(super) fn catch_up(&mut self) -> Result<(), String> {
        let now = self.server.now;
        let Millis(before) = std::mem::replace(&mut self.cached_until, now);
        self.hold_for((now.0 - before).min(GAP_MS_MAX))
    }

    /// Sends what the cache lets go, of a block one after the other.
    fn emit(&mut self, sent: Vec<(Block, What)>) -> Result<(), String> {
        for (block, what) in sent {
            self.until_idle(&[block])?;
            self.pass_on(what);
            self.arrive_all()?;
        }
        Ok(())
    }
}
