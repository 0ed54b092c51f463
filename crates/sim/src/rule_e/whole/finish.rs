//! The end of a history: everything is written, mended and settled, and nothing
//! dead may be left.

use super::{Deed, Step, Whole};
use crate::rule_e::judge::Excuses;
use crate::rule_e::search::Space;
use crate::rule_e::toy::{MAP, SUPER, Super};

impl Whole {
    /// Unmounts, lets the server do all that it wants, and has the file system
    /// mounted and unmounted for as long as it takes to settle: time alone
    /// proves nothing.
    pub(super) fn settle_everything(&mut self) -> Result<Excuses, String> {
        self.end(Deed::Unmount(false))?;
        self.until_quiet()?;
        if !self.is_whole() {
            self.end(Deed::Fsck(false))?;
        }
        for _ in 0..2 * self.setup.options.settle_ms.div_ceil(1000) + 2 {
            self.drain()?;
            for deed in [Deed::Mount, Deed::Pass(1000), Deed::Unmount(false), Deed::Pass(1000)] {
                self.end(deed)?;
            }
        }
        self.drain()?;
        self.end(Deed::Flush)?;
        self.until_quiet()?;
        self.read_and_judge(false)?;
        if !self.server.is_watching() {
            return Err("inference stopped, and the guest has done nothing wrong".into());
        }
        self.judge_remains()
    }

    fn end(&mut self, deed: Deed) -> Result<(), String> {
        let salt = self.count;
        self.step(Step { deed, salt })
    }

    /// Whether nothing is to be mended. A guest that goes on after a crash with
    /// pointers that were never written may lose blocks without freeing them.
    fn is_whole(&self) -> bool {
        let (seen, named) = (self.truth.seen(), self.named());
        let is_leaked = |it| seen[MAP as usize][it as usize] != 0 && !named.contains_key(&it);
        let is_clean = Super::from_bytes(&seen[SUPER as usize]).is_some_and(|it| it.is_clean);
        is_clean && !self.toy.data().any(is_leaked)
    }

    fn drain(&mut self) -> Result<(), String> {
        self.end(Deed::Pass(1000))?;
        self.until(|it| it.pending.is_empty() && it.server.volume().is_drained())
    }
}
