//! A guest at work.

use super::part::Part;
use super::sent::What;
use super::{Files, Vain};
use crate::rule_e::guest::deeds::Deed;
use crate::rule_e::toy::{SUPER, Super};
use crate::server::Above;
use quietus_detect::format::Block;

/// Milliseconds of [`Event::Sleep`].
const SLEEP_MS: u64 = 10_000_000;

impl Files {
    pub(super) fn mount(&mut self) -> Result<(), String> {
        if self.system.is_mounted() {
            return Ok(());
        }
        let (_, pages) = self.read_and_judge(false)?;
        let before = Super::from_bytes(&pages[SUPER as usize]).ok_or("safety: the superblock is gone")?;
        self.was_clean = before.is_clean;
        let in_use = self.system.in_use(before);
        self.post_super(in_use);
        self.until_quiet()?;
        let Part { system, truth, .. } = &mut **self;
        system.mount(truth.seen());
        let named = self.named();
        self.truth.recovered(&named);
        Ok(())
    }

    pub(super) fn unmount(&mut self, is_late: bool) -> Result<(), String> {
        if !self.system.is_mounted() {
            return Ok(());
        }
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

    pub(super) fn fsck(&mut self, superblock_first: bool) -> Result<(), String> {
        if self.system.is_mounted() {
            return Ok(());
        }
        let (_, pages) = self.read_and_judge(false)?;
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
        let named = self.named();
        self.truth.recovered(&named);
        Ok(())
    }

    pub(super) fn flush(&mut self) -> Result<(), String> {
        self.post(What::Flush);
        Ok(())
    }

    pub(super) fn write_back(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(&[block])?;
        if self.system.dirty().contains(&block) {
            let page = self.system.write_back(block);
            self.post_write(block, &page);
        }
        Ok(())
    }

    /// Reads content once more that is in memory and not dirty.
    pub(super) fn read_again(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(&[block])?;
        let stay = self.truth.present(block, self.named().get(&block));
        if stay.is_some() {
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

    /// Asks for something impossible; the owner of the block keeps it as it is.
    pub(super) fn ask_in_vain(&mut self, block: Block, vain: Vain) -> Result<(), String> {
        self.until_idle(&[block])?;
        self.post(What::InVain(block, vain));
        Ok(())
    }

    /// Before a file loses blocks, the kernel waits for those on their way.
    pub(super) fn does(&mut self, deed: Deed) -> Result<(), String> {
        if deed.frees() {
            let data = self.data();
            self.until_idle(&data)?;
        }
        if let Some(block) = deed.allocates() {
            self.until_idle(&[block])?;
        }
        let Part { system, truth, .. } = &mut **self;
        system.does(deed, truth);
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
        self.run_ms += ms;
        self.server.pass(ms)?;
        self.hear()
    }

    pub(super) fn sleep(&mut self) -> Result<(), String> {
        self.everywhere(Self::arrive_all)?;
        self.server.pass(SLEEP_MS)?;
        self.hear()
    }
}
