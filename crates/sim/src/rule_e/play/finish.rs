//! The end of a history: everything is written, mended and settled, and nothing
//! dead may be left.

use super::{Layout, Play, Step};
use crate::cache;
use crate::rule_e::search::Space;
use quietus_detect::options::Grade;

/// Most reads and acts in a row; more than the blocks of any of these disks.
const ROUNDS_MAX: usize = 100;

impl Play {
    /// Unmounts, lets the server do all that it wants, and has the file system
    /// mounted and unmounted for as long as it takes to settle, each time where
    /// the server sees it: time alone proves nothing.
    pub(super) fn settle_everything(&mut self) -> Result<(), String> {
        self.step(Step::Unmount(false))?;
        if self.setup.is_cached || !self.superblock().is_clean {
            self.step(Step::Fsck(false))?;
        }
        let flush = Step::Cache(cache::Step::Flush);
        let hold_ms = if self.setup.is_cached { cache::HOLD_MS } else { 0 };
        for _ in 0..2 * (self.setup.options.settle_ms + hold_ms).div_ceil(1000) + 2 {
            self.work()?;
            for step in [Step::Mount, flush, Step::Pass(1000), Step::Unmount(false), flush, Step::Pass(1000)]
            {
                self.step(step)?;
            }
        }
        self.work()?;
        self.work()?;
        match self.judged() {
            // A map may arrive after the block was given away: nothing is promised of layers.
            Err(broken) if self.setup.is_cached && broken.ends_with("is only overwritten") => Ok(()),
            judged => judged,
        }
    }

    fn judged(&self) -> Result<(), String> {
        let is_ext2 = self.setup.layout == Layout::Ext2;
        if is_ext2 && self.setup.options.grade == Grade::Content {
            self.judge.is_bare()?;
        }
        self.judge.is_clean(&self.named(), is_ext2)
    }

    fn work(&mut self) -> Result<(), String> {
        self.step(Step::Pass(1000))?;
        let mut rounds = 0;
        while self.differential.read_one()? {
            rounds += 1;
            if rounds > ROUNDS_MAX {
                return Err("liveness: it never has enough to read".into());
            }
        }
        for step in [Step::Cut, Step::Proven, Step::Act(false)] {
            self.step(step)?;
        }
        Ok(())
    }
}
