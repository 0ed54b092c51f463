//! The end of a history: everything is written and settled, and nothing dead
//! may be left.

use super::{Play, Step};
use crate::rule_e::judge::Excuses;
use crate::rule_e::search::Space;

/// Most reads in a row; more than the blocks of any of these disks.
const READS_MAX: usize = 100;

impl Play {
    pub(super) fn settle_everything(&mut self) -> Result<Excuses, String> {
        self.step(Step::Unmount)?;
        for _ in 0..2 {
            for step in [Step::Pass(1000), Step::Work, Step::Mount(false), Step::Pass(1000), Step::Unmount] {
                self.step(step)?;
            }
        }
        for step in [Step::Pass(1000), Step::Work, Step::Work] {
            self.step(step)?;
        }
        self.judge.is_clean(self.rules.knows_layers())
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
