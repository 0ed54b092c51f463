//! What can happen next.

use super::{Deed, Vain, Whole};
use crate::rule_e::guest::{FILES, Guest, SLOTS};

impl Whole {
    pub(super) fn possible(&self) -> Vec<Deed> {
        let mut deeds = vec![Deed::Turn; 4];
        deeds.extend([Deed::Arrive, Deed::Flush, Deed::ShredNow]);
        deeds.extend([100, 300, 1200].map(Deed::Pass));
        match &self.guest {
            Some(guest) => self.mounted(guest, &mut deeds),
            None => deeds.extend([Deed::Mount, Deed::Mount, Deed::Fsck(false), Deed::Fsck(true)]),
        }
        deeds.extend([Deed::Restart(true), Deed::Restart(false), Deed::Sleep]);
        if self.setup.crashes {
            deeds.extend([Deed::Kill(true), Deed::Kill(false), Deed::CutPower]);
        }
        deeds
    }

    fn mounted(&self, guest: &Guest, deeds: &mut Vec<Deed>) {
        for file in guest.present() {
            self.file(guest, file, deeds);
        }
        deeds.extend(guest.absent().into_iter().filter(|it| *it < FILES).map(Deed::Create));
        deeds.extend(guest.dirty().iter().flat_map(|it| [Deed::WriteBack(*it); 3]));
        deeds.extend(guest.named().keys().flat_map(|it| [Deed::Read(*it), Deed::Touch(*it)]));
        deeds.extend(guest.free().first().map(|it| Deed::Trim(*it)));
        deeds.extend(guest.named().keys().map(|it| Deed::AskInVain(*it, Vain::FastZeros)));
        let other = guest.named().into_keys().next().into_iter();
        deeds.extend(
            other.flat_map(|it| [Vain::TrimBeyond, Vain::WriteShort].map(|vain| Deed::AskInVain(it, vain))),
        );
        deeds.extend([Deed::Unmount(false), Deed::Unmount(true)]);
        deeds.extend([Deed::CrashGuest(false), Deed::CrashGuest(true)]);
        if self.map_is_dirty() {
            deeds.extend([Deed::WriteBack(crate::rule_e::toy::MAP); 4]);
        }
    }

    fn file(&self, guest: &Guest, file: usize, deeds: &mut Vec<Deed>) {
        deeds.extend([Deed::Delete(file), Deed::Truncate(file)]);
        let free = guest.free();
        if guest.indirect(file).is_none() {
            deeds.extend(free.iter().map(|it| Deed::GrowIndirect(file, *it)));
        }
        for slot in 0..SLOTS {
            if guest.at(file, slot).is_some() {
                deeds.push(Deed::Punch(file, slot));
            } else if slot < 2 || guest.indirect(file).is_some() {
                deeds.extend(free.iter().map(|it| Deed::Grow(file, slot, *it)));
            }
        }
    }
}
