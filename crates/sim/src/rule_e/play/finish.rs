//! The end of a history: everything is written, mended and settled, and nothing
//! dead may be left.

use super::{Play, Step};
use crate::rule_e::judge::Excuses;
use crate::rule_e::search::Space;
use crate::rule_e::toy::{SUPER, Super};
use quietus_detect::options::Grade;

/// Most reads and acts in a row; more than the blocks of any of these disks.
const ROUNDS_MAX: usize = 100;

impl Play {
    /// Unmounts, lets the server do all that it wants, and has the file system
    /// mounted and unmounted for as long as it takes to settle: time alone
    /// proves nothing.
    pub(super) fn settle_everything(&mut self) -> Result<Excuses, String> {
        self.step(Step::Unmount(false))?;
        if !self.is_whole() {
            self.step(Step::Fsck(false))?;
        }
        for _ in 0..2 * self.setup.options.settle_ms.div_ceil(1000) + 2 {
            self.work()?;
            for step in [Step::Mount, Step::Pass(1000), Step::Unmount(false), Step::Pass(1000)] {
                self.step(step)?;
            }
        }
        self.work()?;
        self.work()?;
        if self.setup.options.grade == Grade::Content {
            self.judge.is_bare()?;
        }
        self.judge.is_clean(&self.named())
    }

    fn is_whole(&self) -> bool {
        Super::from_bytes(self.twin.content(SUPER)).is_some_and(|it| it.is_clean)
    }

    fn work(&mut self) -> Result<(), String> {
        self.step(Step::Pass(1000))?;
        let mut rounds = 0;
        while self.twin.read_one()? {
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
