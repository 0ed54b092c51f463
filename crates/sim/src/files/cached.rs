//! A cache between a guest and the server.

use super::Files;
use super::sent::What;
use crate::cache;
use crate::server::Above;
use quietus_core::units::Millis;
use quietus_core::volume::Event;
use quietus_detect::format::Block;

/// Most that a gap between two writes counts for, in the rules and so here.
const GAP_MS_MAX: u64 = 1000;

impl Files {
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

    /// Lets so much time pass for the cache.
    pub(super) fn hold_for(&mut self, ms: u64) -> Result<(), String> {
        let sent = self.cache.pass(ms);
        self.emit(sent)
    }

    /// Lets the time pass for the cache that has passed for the server.
    pub(super) fn catch_up(&mut self) -> Result<(), String> {
        let now = self.server.now();
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

    /// The guest's host loses its power.
    pub(super) fn lose_host(&mut self) -> Result<(), String> {
        self.cache.lose();
        self.crash_guest(false)
    }
}
