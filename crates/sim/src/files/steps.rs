//! Possible next steps.

use super::part::Part;
use super::{Event, Files, Vain};
use crate::rule_e::guest::deeds::Deed;
use crate::rule_e::guest::{FILES, Guest, SLOTS};
use crate::rule_e::toy::MAP;

impl Files {
    pub(super) fn possible(&self, part: &Part) -> Vec<Event> {
        let mut events = vec![Event::Turn; 4];
        events.extend([Event::Arrive, Event::Flush, Event::ShredNow]);
        events.extend([100, 300, 1200].map(Event::Pass));
        match &part.guest {
            Some(guest) => self.mounted(guest, &mut events),
            None => events.extend([Event::Mount, Event::Mount, Event::Fsck(false), Event::Fsck(true)]),
        }
        events.extend([false, true].map(Event::Reconnect));
        events.extend([Event::Restart(true), Event::Restart(false), Event::Sleep]);
        if self.setup.crashes {
            events.extend([Event::Kill(true), Event::Kill(false)]);
            events.extend([Event::CutPower(None), Event::CutPower(Some(self.count % 25))]);
        }
        events
    }

    fn mounted(&self, guest: &Guest, events: &mut Vec<Event>) {
        let slots: Vec<_> = (0..SLOTS).collect();
        events.extend(guest.deeds(FILES, &slots, &guest.free(), SLOTS).into_iter().map(Event::Do));
        events.extend(guest.dirty().iter().flat_map(|it| [Event::WriteBack(*it); 3]));
        events.extend(guest.named().keys().flat_map(|it| [Event::Read(*it), Event::Do(Deed::Touch(*it))]));
        events.extend(guest.free().first().map(|it| Event::Trim(*it)));
        if self.setup.disk.overlay.is_none() {
            events.extend(guest.named().keys().map(|it| Event::AskInVain(*it, Vain::FastZeros)));
        }
        let other = guest.named().into_keys().next().into_iter();
        events.extend(
            other.flat_map(|it| [Vain::TrimBeyond, Vain::WriteShort].map(|vain| Event::AskInVain(it, vain))),
        );
        events.extend([Event::Unmount(false), Event::Unmount(true)]);
        events.extend([Event::CrashGuest(false), Event::CrashGuest(true)]);
        if guest.dirty().contains(&MAP) {
            events.extend([Event::WriteBack(MAP); 4]);
        }
    }
}
