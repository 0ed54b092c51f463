//! The ends of the guests, the server and the machine, and their ways back.

use crate::guests::files::Files;
use crate::guests::files::part::Part;
use crate::guests::files::systems::ext2;
use crate::rules::rule_e::guest::{Mark, Owner, Stay};
use crate::rules::rule_e::toy::Bytes;
use crate::server::Above;
use crate::verdict::overdue;
use quietus_core::volume::Event;
use quietus_detect::formats::format::Block;
use std::collections::BTreeMap;

impl Files {
    pub(super) fn shred_now(&mut self) -> Result<(), String> {
        self.server.fill_host(false);
        self.tell(Event::ShredNow)?;
        self.until(|it| it.server.volume.owes_nothing_due())?;
        match self.server.unproven() {
            0 => Ok(()),
            blocks => {
                Err(overdue(format!("all due work is done, but {blocks} blocks are not proven")).into())
            }
        }
    }

    /// Stops the server while the guests wait, and starts it again.
    pub(super) fn restart(&mut self, drains: bool) -> Result<(), String> {
        self.until_quiet()?;
        self.server.stop(drains)?;
        self.hear()?;
        self.server.fill_host(false);
        if drains {
            self.until(|it| it.server.is_drained())?;
        }
        self.until(|it| !it.server.is_at_work() && it.server.volume.is_at_rest())?;
        let knew = self.parts.iter().map(|it| self.server.watches(it.extent())).collect::<Vec<_>>();
        let knows = self.server.start_again()?;
        self.orphans.clear();
        // With several parts, the server does not say which ones it knew; amid a transaction, it does not know a journal's part.
        let is_one = self.parts.len() == 1;
        self.parts.iter_mut().for_each(|it| it.is_cold |= !knows || !(is_one || it.system.log().is_empty()));
        self.connect(true)?;
        self.tell_attached()?;
        self.settle_server()?;
        let is_lost = |(part, knew): (&Part, bool)| knew && !self.server.watches(part.extent());
        if knows && self.parts.iter().zip(knew).any(is_lost) {
            return Err(overdue("the file system is not found after a clean stop".into()).into());
        }
        Ok(())
    }

    /// Keeps the watcher out, whatever is under way for it, while the guests wait, and lets another one begin that knows
    /// nothing.
    pub(super) fn renew(&mut self) -> Result<(), String> {
        self.tell(Event::KeepWatcherOut)?;
        self.parts.iter_mut().for_each(|it| it.is_cold = true);
        self.until_quiet()?;
        self.tell(Event::WatchAnew)?;
        self.until(|it| !it.server.volume.is_watcher_awaited())
    }

    pub(super) fn crash_guest(&mut self, lands: bool) -> Result<(), String> {
        self.system.leave();
        if lands {
            self.arrive_all()?;
        }
        self.wire.clear();
        // Writes of an earlier connection may still land: a commit block, too.
        self.until(|it| it.orphans.is_empty())?;
        self.until_quiet()?;
        let (found, pages) = self.read_and_judge(false)?;
        self.system.found(&found)?;
        self.recovered(&pages, &found);
        Ok(())
    }

    /// Kills the server. Below an overlay that is to the guests like a power cut: unflushed content
    /// may be gone, so that no guest `survives`.
    pub(super) fn kill(&mut self, survives: bool) -> Result<(), String> {
        if self.setup.disk.erases {
            // The medium collects writes in the memory of the server.
            return self.cut_power(None);
        }
        let is_overlay = !self.setup.disk.is_in_place();
        self.server.kill()?;
        self.orphans.clear();
        self.parts.iter_mut().for_each(|it| it.is_cold = true);
        self.connect(true)?;
        self.tell_attached()?;
        if !survives || is_overlay {
            return self.recover(is_overlay, false);
        }
        self.parts.iter_mut().filter(|it| !it.system.is_mounted()).for_each(Part::hang_up);
        self.everywhere(Self::resend)?;
        self.everywhere(|it| if it.system.is_mounted() { Ok(()) } else { it.read_back(false, false) })
    }

    pub(super) fn cut_power(&mut self, again_after: Option<u32>) -> Result<(), String> {
        self.server.cut_power(again_after)?;
        self.orphans.clear();
        self.parts.iter_mut().for_each(|it| it.is_cold = true);
        self.connect(true)?;
        self.tell_attached()?;
        self.recover(true, true)
    }

    /// Recovers, when no guest survives.
    fn recover(&mut self, all: bool, is_last: bool) -> Result<(), String> {
        self.everywhere(|it| {
            if all {
                it.cache.lose();
            }
            it.hang_up();
            it.system.leave();
            Ok(())
        })?;
        self.everywhere(|it| it.read_back(all, is_last))
    }

    /// Takes the present content for all that can be read from now on. `all`: unflushed content may be gone. `is_last`:
    /// nothing else can come back.
    fn read_back(&mut self, all: bool, is_last: bool) -> Result<(), String> {
        let (found, pages) = self.read_and_judge(all)?;
        self.system.found(&found)?;
        self.moment += 1;
        let moment = self.moment;
        for ((n, bytes), page) in (0..).zip(found.clone()).zip(&pages) {
            let stay = self.stay_in(n, page);
            self.shelves[n as usize].found(bytes, stay, moment, is_last);
        }
        self.found(pages.clone());
        self.recovered(&pages, &found);
        Ok(())
    }

    /// Notes the owner of each block, as it follows from the content that the crash left.
    fn recovered(&mut self, pages: &[Bytes], found: &[Vec<u8>]) {
        let named = self.system.owners_on(&self.through_cache(pages.to_vec()), found);
        self.owned(&named);
    }

    /// Notes the owner of each block. Above a cache the content that the guest reads decides, where it tells: of two stays
    /// of one owner in one block that one lasts whose content is there.
    pub(super) fn owned(&mut self, named: &BTreeMap<Block, Owner>) {
        let is_read = self.setup.is_cached() && self.system.label() == ext2::LABEL;
        let read = || {
            let seen = self.seen();
            let marks =
                named.iter().filter_map(|(block, it)| Some((*block, it, Mark::of(&seen[*block as usize])?)));
            marks
                .filter(|(_, owner, mark)| mark.owner == **owner)
                .map(|(block, _, mark)| (block, mark.stay))
                .collect()
        };
        let tells = || self.system.stays_on(&self.seen(), &self.truth);
        let holds = if is_read { Some(read()) } else { self.system.holds().or_else(tells) };
        self.truth.recovered(named, holds);
    }

    /// The stay in which the content of `block` was written, if it is of a file.
    pub(super) fn stay_in(&self, block: Block, page: &Bytes) -> Option<Stay> {
        Mark::of(page).filter(|_| self.system.is_data(block)).map(|it| it.stay)
    }
}
