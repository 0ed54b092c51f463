//! The end of a history: everything is written and settled, and nothing dead
//! may be left.

use super::{Play, Step};
use crate::cache;
use crate::rule_e::guest::actions::Action;
use crate::rule_e::search::Space;

/// Most reads in a row; more than the blocks of any of these disks.
const READS_MAX: usize = 100;

impl Play {
    pub(super) fn settle_everything(&mut self) -> Result<(), String> {
        self.step(Step::Unmount)?;
        let last = self.judge.newest();
        for _ in 0..if self.setup.is_cached { 12 } else { 2 } {
            for step in [Step::Pass(1000), Step::Work, Step::Mount(false)] {
                self.step(step)?;
            }
            if self.setup.is_cached {
                self.log_something()?;
            }
            let flush = Step::Cache(cache::Step::Flush);
            for step in [flush, Step::Pass(1000), Step::Unmount, flush] {
                self.step(step)?;
            }
        }
        for step in [Step::Pass(1000), Step::Work, Step::Work] {
            self.step(step)?;
        }
        let last = if self.setup.is_cached { last } else { self.judge.newest() };
        self.judge.is_clean(self.rules.knows_layers(), last)
    }

    /// Above a cache, what was logged is residue once the journal's superblock is written long
    /// after: something has to be logged again.
    fn log_something(&mut self) -> Result<(), String> {
        [Action::Delete(0), Action::Create(0)].into_iter().try_for_each(|it| self.step(Step::Do(it)))
    }

    /// The server does all that it can.
    pub(super) fn work(&mut self) -> Result<(), String> {
        let mut reads = 0;
        while self.read()? {
            reads += 1;
            if reads > READS_MAX {
                return Err("liveness: it never has enough to read".into());
            }
        }
        for step in [Step::Cut, Step::Proven, Step::Act(false)] {
            self.step(step)?;
        }
        Ok(())
    }
}
