//! A guest at work.

use super::part::Part;
use super::sent::What;
use super::{Files, Vain};
use crate::rule_e::guest::deeds::Deed;
use crate::rule_e::guest::{Guest, mend};
use crate::rule_e::toy::{SUPER, Super};
use crate::server::Above;
use quietus_detect::format::Block;

/// Milliseconds of [`super::Event::Sleep`].
const SLEEP_MS: u64 = 10_000_000;

impl Files {
    pub(super) fn mount(&mut self) -> Result<(), String> {
        if self.guest.is_some() {
            return Ok(());
        }
        let (_, pages) = self.read_and_judge(false)?;
        let before = Super::from_bytes(&pages[SUPER as usize]).ok_or("safety: the superblock is gone")?;
        self.was_clean = before.is_clean;
        self.post_write(SUPER, &Super { is_clean: false, ..before }.bytes());
        self.until_quiet()?;
        let guest = Guest::mount(self.toy, self.truth.seen(), self.next_generation);
        let named = guest.named();
        self.truth.recovered(&named);
        self.guest = Some(guest);
        Ok(())
    }

    pub(super) fn unmount(&mut self, is_late: bool) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Ok(()) };
        let generation = guest.next_generation();
        let superblock = guest.superblock(self.was_clean);
        let dirty: Vec<_> = guest.dirty().iter().copied().collect();
        let (first, last): (Vec<_>, Vec<_>) =
            dirty.into_iter().partition(|it| !is_late || self.toy.data().contains(it));
        self.next_generation = generation;
        first.into_iter().try_for_each(|it| self.write_back(it))?;
        self.until_quiet()?;
        self.until_idle(SUPER..SUPER + 1)?;
        self.post_write(SUPER, &superblock);
        if is_late {
            self.arrive_all()?;
        }
        last.into_iter().try_for_each(|it| self.write_back(it))?;
        self.until_quiet()?;
        self.guest = None;
        self.flush()?;
        self.until_quiet()
    }

    pub(super) fn fsck(&mut self, superblock_first: bool) -> Result<(), String> {
        if self.guest.is_some() {
            return Ok(());
        }
        let (_, pages) = self.read_and_judge(false)?;
        let mut written = mend(self.toy, &pages);
        if superblock_first {
            written.rotate_right(1);
        }
        for (block, page) in written {
            self.post_write(block, &page);
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
        self.until_idle(block..block + 1)?;
        let dirty = self.guest.as_mut().filter(|it| it.dirty().contains(&block));
        let Some(page) = dirty.map(|it| it.write_back(block)) else { return Ok(()) };
        self.post_write(block, &page);
        Ok(())
    }

    /// Reads content once more that is in memory and not dirty.
    pub(super) fn read_again(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        let stay = self.truth.present(block, self.named().get(&block));
        if stay.is_some() {
            self.post(What::Read(block, stay));
        }
        Ok(())
    }

    pub(super) fn trim(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        // A guest that goes on after a crash may take for free what a file names.
        let is_free = |it: &Guest| it.free().contains(&block) && !it.named().contains_key(&block);
        if self.guest.as_ref().is_some_and(is_free) {
            self.post(What::Trim(block));
        }
        Ok(())
    }

    /// Asks for something impossible; the owner of the block keeps it as it is.
    pub(super) fn ask_in_vain(&mut self, block: Block, vain: Vain) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        self.post(What::InVain(block, vain));
        Ok(())
    }

    /// Before a file loses blocks, the kernel waits for those on their way.
    pub(super) fn does(&mut self, deed: Deed) -> Result<(), String> {
        if deed.frees() {
            self.until_idle(self.toy.data())?;
        }
        if let Some(block) = deed.allocates() {
            self.until_idle(block..block + 1)?;
        }
        let Part { guest: Some(guest), truth, .. } = &mut **self else { return Ok(()) };
        let freed = guest.does(deed, |block, owner| truth.begin(block, owner));
        freed.into_iter().for_each(|it| truth.end(it));
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
