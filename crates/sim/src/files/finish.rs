//! The end of a history: everything is written, mended and settled, and nothing
//! dead may be left.

use super::part::Part;
use super::{Event, Files};
use crate::cache::{self, HOLD_MS};
use crate::rule_e::toy::{SUPER, Super};
use crate::server::Above;
use quietus_detect::format::Block;

impl Files {
    /// Unmounts, lets the server do all that it wants, and has the file systems mounted and
    /// unmounted for as long as that takes to settle: time alone proves nothing.
    pub(super) fn settle_everything(&mut self) -> Result<(), String> {
        self.server.fill_host(false);
        self.everywhere(|it| it.begin(Event::Unmount(false)))?;
        self.flush_caches()?;
        self.until_quiet()?;
        self.everywhere(|it| {
            if it.is_whole() && !it.setup.is_cached() { Ok(()) } else { it.begin(Event::Fsck(false)) }
        })?;
        let hold_ms = if self.setup.is_cached() { HOLD_MS } else { 0 };
        for _ in 0..2 * (self.setup.options.settle_ms + hold_ms).div_ceil(1000) + 2 {
            self.drain()?;
            for event in [Event::Mount, Event::Unmount(false)] {
                self.everywhere(|it| it.begin(event))?;
                self.flush_caches()?;
                self.everywhere(|it| it.begin(Event::Pass(1000)))?;
            }
        }
        self.drain()?;
        self.begin(Event::Flush)?;
        self.until_quiet()?;
        self.drain()?;
        self.everywhere(Self::judge_log)?;
        if !self.parts.iter().all(|it| self.server.watches(it.extent())) {
            return Err("inference stopped, and the guest has done nothing wrong".into());
        }
        self.judge_remains()
    }

    fn flush_caches(&mut self) -> Result<(), String> {
        self.everywhere(|it| if it.setup.is_cached() { it.cache_does(cache::Step::Flush) } else { Ok(()) })
    }

    /// Reads everything; once nothing is mounted, nothing is left in a log.
    fn judge_log(&mut self) -> Result<(), String> {
        let (found, _) = self.read_and_judge(false)?;
        match self.system.log().find(|it| found[*it as usize].iter().any(|byte| *byte != 0)) {
            Some(block) => Err(format!("residue: block {block} of the log is not empty")),
            None => Ok(()),
        }
    }

    fn drain(&mut self) -> Result<(), String> {
        self.begin(Event::Pass(1000))?;
        self.until(|it| it.server.is_drained() && it.parts.iter().all(|it| it.pending.is_empty()))?;
        self.server.judge_drained()?;
        Ok(self.server.judge_log()?)
    }
}

impl Part {
    /// Whether nothing is to be mended. A guest that goes on after a crash with
    /// pointers that were never written may lose blocks without freeing them.
    fn is_whole(&self) -> bool {
        let (seen, named) = (&self.truth.seen, self.named());
        let mut shown = (0..).zip(seen).flat_map(|(block, page)| self.system.shown(block, page));
        let is_clean = Super::from_bytes(&seen[SUPER as usize]).is_some_and(|it| it.is_clean);
        let is_leaked = |it: (Block, bool)| it.1 && self.system.is_data(it.0) && !named.contains_key(&it.0);
        is_clean && !shown.any(is_leaked)
    }
}
