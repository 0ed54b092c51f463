//! A guest at work.

use crate::guests::files::Files;
use crate::guests::files::part::Part;
use crate::guests::files::wire::What;
use crate::rules::rule_e::guest::{Action, Guest};
use crate::rules::rule_e::toy::{SUPER, Super};
use crate::rules::rule_e::wide::narrowed;
use crate::rules::rule_j::guest;
use crate::server::Above;
use quietus_detect::formats::format::Block;

/// Most rounds until a log is empty: each commit takes some.
const ROUNDS_MAX: usize = 60;

impl Files {
    pub(super) fn mount(&mut self) -> Result<(), String> {
        self.replay(false)?;
        let (_, pages) = self.read_and_judge(false)?;
        let pages = self.through_cache(pages);
        let before = Super::from_bytes(&pages[SUPER as usize]).ok_or("safety: the superblock is gone")?;
        self.was_clean = before.is_clean;
        let in_use = self.system.in_use(before);
        self.post_super(in_use);
        self.until_quiet()?;
        let seen = self.seen();
        self.system.mount(&seen);
        self.owned(&self.named());
        Ok(())
    }

    /// Brings the logged blocks to their places.
    fn replay(&mut self, empties: bool) -> Result<(), String> {
        if self.system.log().is_empty() {
            return Ok(());
        }
        let (found, _) = self.read_and_judge(false)?;
        for writes in self.system.replay(&found, empties)? {
            for (block, bytes) in writes {
                let tag = guest::tag(&narrowed(&bytes));
                self.post(What::Write { block, bytes, tag, fua: false });
            }
            self.until_quiet()?;
            self.flush()?;
            self.until_quiet()?;
        }
        Ok(())
    }

    /// Brings all that a journal has to its place, and empties the log.
    fn empty_log(&mut self) -> Result<(), String> {
        if self.system.log().is_empty() {
            return Ok(());
        }
        for _ in 0..ROUNDS_MAX {
            let is_settled = self.system.hurry();
            if is_settled {
                self.flush()?;
                self.until_quiet()?;
                self.system.empty();
            }
            self.send();
            self.until_quiet()?;
            if is_settled {
                return Ok(());
            }
        }
        Err("the model: the log cannot be emptied".into())
    }

    pub(super) fn unmount(&mut self, is_late: bool) -> Result<(), String> {
        self.write_reserved()?;
        self.empty_log()?;
        let at_last = self.system.at_last(self.was_clean);
        let dirty = self.system.dirty().into_iter();
        let (first, last): (Vec<_>, Vec<_>) = dirty.partition(|it| !is_late || self.system.is_data(*it));
        first.into_iter().try_for_each(|it| self.write_back(it))?;
        self.until_quiet()?;
        self.until_idle(&[SUPER])?;
        self.post_super(at_last);
        if is_late {
            self.arrive_all()?;
        }
        last.into_iter().try_for_each(|it| self.write_back(it))?;
        self.until_quiet()?;
        self.system.leave();
        self.flush()?;
        self.until_quiet()
    }

    /// Ends what goes on in reserved space: the pointers to what was written there change.
    fn write_reserved(&mut self) -> Result<(), String> {
        let swapped = self.system.files().map(Guest::swapped).unwrap_or_default();
        swapped.into_iter().try_for_each(|it| self.does(Action::SwapOff(it)))?;
        let filled = self.system.files().map(Guest::filled).unwrap_or_default();
        if filled.is_empty() {
            return Ok(());
        }
        filled.into_iter().try_for_each(|it| self.write_back(it))?;
        self.until_quiet()
    }

    pub(super) fn fsck(&mut self, superblock_first: bool) -> Result<(), String> {
        self.replay(true)?;
        let (_, pages) = self.read_and_judge(false)?;
        let pages = self.through_cache(pages);
        let mut written = self.system.mend(&pages);
        if superblock_first {
            written.rotate_right(1);
        }
        for (block, page) in written {
            match block {
                SUPER => self.post_super(Super::from_bytes(&page)),
                _ => self.post_write(block, &page),
            }
            self.arrive_all()?;
        }
        self.until_quiet()?;
        self.flush()?;
        self.until_quiet()?;
        self.owned(&self.named());
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), String> {
        self.post(What::Flush { is_barrier: false });
        Ok(())
    }

    pub(super) fn write_back(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(&[block])?;
        if self.system.dirty().contains(&block) {
            match self.system.write_back(block) {
                Some(page) => self.post_write(block, &page),
                None => self.send(),
            }
        }
        Ok(())
    }

    /// Reads content once more that is in memory and not dirty.
    pub(super) fn read_again(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(&[block])?;
        let stay = self.truth.present(block, self.named().get(&block));
        if stay.is_some() && !self.cache.waiting().any(|(it, _)| it == block) {
            self.post(What::Read(block, stay));
        }
        Ok(())
    }

    pub(super) fn trim(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(&[block])?;
        // A guest that goes on after a crash may take for free what a file names.
        if self.system.free().contains(&block) && !self.named().contains_key(&block) {
            self.post(What::Trim(block));
        }
        Ok(())
    }

    /// Before a file loses blocks, the kernel waits for those on their way.
    pub(super) fn does(&mut self, action: Action) -> Result<(), String> {
        if action.frees() {
            let data: Vec<_> = self.system.data().collect();
            self.until_idle(&data)?;
        }
        if let Some(block) = action.allocates() {
            self.until_idle(&[block])?;
        }
        let Part { system, truth, .. } = &mut **self;
        system.does(action, truth);
        Ok(())
    }

    /// The kernel writes what has been dirty for half of `settle`.
    fn write_back_old(&mut self, ms: u64) -> Result<(), String> {
        let (limit, end) = (self.setup.options.settle_ms / 2, self.run_ms + ms);
        let due = self.dirty_since.iter().filter(|(_, since)| end - **since > limit);
        let due: Vec<_> = due.map(|(block, _)| *block).collect();
        due.into_iter().try_for_each(|it| self.write_back(it))
    }

    /// Nothing is on its way for longer than the window.
    pub(super) fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.everywhere(|it| it.write_back_old(ms))?;
        self.everywhere(Self::arrive_all)?;
        self.everywhere(|it| it.hold_for(ms))?;
        self.run_ms += ms;
        self.server.pass(ms)?;
        self.cached_until = self.server.now;
        self.hear()
    }
}
