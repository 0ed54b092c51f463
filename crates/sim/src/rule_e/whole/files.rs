//! The guest at work.

use super::{Deed, Vain, Whole};
use crate::rule_e::guest::{Guest, mend};
use crate::rule_e::toy::{MAP, SUPER, Super};
use quietus_detect::format::Block;

/// How long [`Deed::Sleep`] is.
const SLEEP_MS: u64 = 10_000_000;

impl Whole {
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
        self.truth.recovered(&guest.named());
        self.guest = Some(guest);
        Ok(())
    }

    pub(super) fn unmount(&mut self, is_late: bool) -> Result<(), String> {
        let Some(guest) = &self.guest else { return Ok(()) };
        self.next_generation = guest.next_generation();
        let superblock = guest.superblock(self.was_clean);
        let dirty: Vec<_> = guest.dirty().iter().copied().collect();
        let (first, last): (Vec<_>, Vec<_>) =
            dirty.into_iter().partition(|it| !is_late || self.toy.data().contains(it));
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
        self.post_flush();
        Ok(())
    }

    pub(super) fn write_back(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        let Some(guest) = self.guest.as_mut().filter(|it| it.dirty().contains(&block)) else {
            return Ok(());
        };
        let page = guest.write_back(block);
        self.post_write(block, &page);
        Ok(())
    }

    /// What is in memory and not dirty is read once more.
    pub(super) fn read_again(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        let stay = self.truth.present(block, self.named().get(&block));
        if stay.is_some() {
            self.post_read(block, stay);
        }
        Ok(())
    }

    pub(super) fn trim(&mut self, block: Block) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        // A guest that goes on after a crash may take for free what a file names.
        let is_free = |it: &Guest| it.free().contains(&block) && !it.named().contains_key(&block);
        if self.guest.as_ref().is_some_and(is_free) {
            self.post_trim(block);
        }
        Ok(())
    }

    /// Whoever has the block keeps it as it is.
    pub(super) fn ask_in_vain(&mut self, block: Block, vain: Vain) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        self.post_in_vain(block, vain);
        Ok(())
    }

    /// Before a file loses blocks, the kernel waits for those on their way.
    pub(super) fn change_files(&mut self, deed: Deed) -> Result<(), String> {
        if matches!(deed, Deed::Punch(..) | Deed::Truncate(_) | Deed::Delete(_)) {
            self.until_idle(self.toy.data())?;
        }
        let Some(guest) = &mut self.guest else { return Ok(()) };
        let is_present = |file| guest.present().contains(&file);
        let freed = match deed {
            Deed::Create(file) if guest.absent().contains(&file) => {
                guest.create(file);
                Vec::new()
            }
            Deed::Punch(file, slot) => guest.punch(file, slot),
            Deed::Truncate(file) if is_present(file) => guest.truncate(file),
            Deed::Delete(file) if is_present(file) => guest.delete(file),
            Deed::Touch(block) => {
                guest.touch(block);
                Vec::new()
            }
            _ => Vec::new(),
        };
        freed.into_iter().for_each(|it| self.truth.end(it));
        Ok(())
    }

    pub(super) fn grow(&mut self, file: usize, slot: Option<usize>, block: Block) -> Result<(), String> {
        self.until_idle(block..block + 1)?;
        let Some(guest) = &mut self.guest else { return Ok(()) };
        let has = slot.map_or_else(|| guest.indirect(file), |it| guest.at(file, it));
        let is_possible = guest.present().contains(&file) && guest.free().contains(&block) && has.is_none();
        let is_deep = slot.is_some_and(|it| it >= 2);
        if !is_possible || (is_deep && guest.indirect(file).is_none()) {
            return Ok(());
        }
        let stay = self.truth.begin(block, guest.owner(file));
        match slot {
            Some(slot) => guest.grow(file, slot, block, stay),
            None => guest.grow_indirect(file, block, stay),
        }
        Ok(())
    }

    pub(super) fn note_dirty(&mut self) {
        let dirty = self.guest.as_ref().map(|it| it.dirty().clone()).unwrap_or_default();
        self.dirty_since.retain(|it, _| dirty.contains(it));
        for block in dirty {
            self.dirty_since.entry(block).or_insert(self.run_ms);
        }
    }

    /// The kernel writes what has been dirty for half of `settle`.
    fn write_back_old(&mut self, ms: u64) -> Result<(), String> {
        let limit = self.setup.options.settle_ms / 2;
        let due = self.dirty_since.iter().filter(|(_, since)| self.run_ms + ms - **since > limit);
        let due: Vec<_> = due.map(|(block, _)| *block).collect();
        due.into_iter().try_for_each(|it| self.write_back(it))
    }

    /// Nothing is on its way for longer than the window.
    pub(super) fn pass(&mut self, ms: u64) -> Result<(), String> {
        self.write_back_old(ms)?;
        self.arrive_all()?;
        self.run_ms += ms;
        self.server.pass(ms)?;
        self.hear()
    }

    pub(super) fn sleep(&mut self) -> Result<(), String> {
        self.arrive_all()?;
        self.server.pass(SLEEP_MS)?;
        self.hear()
    }

    /// Whether the map is one of the blocks that differ from the disk.
    pub(super) fn map_is_dirty(&self) -> bool {
        self.guest.as_ref().is_some_and(|it| it.dirty().contains(&MAP))
    }
}
