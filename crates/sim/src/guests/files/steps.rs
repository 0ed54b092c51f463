//! Possible next steps.

use crate::guests::files::part::Part;
use crate::guests::files::{Event, Files, Vain};
use crate::machine::cache;
use crate::machine::history::BUSY_TIMES;
use crate::rules::rule_e::guest::Action;
use quietus_detect::formats::format::Block;

impl Files {
    pub(super) fn possible(&self, part: &Part) -> Vec<Event> {
        let mut events = vec![Event::Turn; 4];
        events.extend([Event::Arrive, Event::Flush, Event::ShredNow]);
        events.extend([100, 300, 1200].map(Event::Pass));
        if part.system.is_mounted() {
            self.mounted(part, &mut events);
        } else {
            events.extend([Event::Mount, Event::Mount, Event::Fsck(false), Event::Fsck(true)]);
        }
        if self.setup.is_cached() {
            self.cached(part, &mut events);
        } else {
            events.extend([false, true].map(Event::Reconnect));
        }
        events.extend([Event::Restart(true), Event::Restart(false), Event::Sleep]);
        if self.setup.renews {
            events.extend([Event::Renew; 3]);
        }
        if self.setup.crashes {
            events.extend([Event::Kill(true), Event::Kill(false)]);
            events.extend([Event::CutPower(None), Event::CutPower(Some(self.count % 25))]);
        }
        if self.setup.fills {
            events.extend([true, true, false].map(Event::Fill));
        }
        if self.setup.is_busy {
            let times = BUSY_TIMES[(self.count / 3) as usize % BUSY_TIMES.len()];
            events.extend([Event::Busy(self.count % 3, times); 2]);
        }
        events
    }

    fn cached(&self, part: &Part, events: &mut Vec<Event>) {
        events.extend(part.cache.steps().into_iter().map(Event::Cache));
        if self.setup.crashes {
            let is_between = part.cache.attached().is_cached();
            events.extend([Event::LoseHost, Event::Cache(cache::Step::Between(!is_between))]);
        }
    }

    fn mounted(&self, part: &Part, events: &mut Vec<Event>) {
        let (system, named) = (&part.system, part.named());
        if !system.log().is_empty() {
            events.extend([Event::Commit; 8]);
            events.extend([Event::MoveTail; 3]);
        }
        let dirty = system.dirty();
        events.extend(system.actions().into_iter().map(Event::Do));
        events.extend(dirty.iter().flat_map(|it| [Event::WriteBack(*it); 3]));
        events.extend(named.keys().flat_map(|it| [Event::Read(*it), Event::Do(Action::Touch(*it))]));
        let free = system.free().into_iter().filter(|_| !self.setup.is_cached());
        events.extend(free.take(1).map(Event::Trim));
        if self.setup.disk.is_in_place() {
            events.extend(named.keys().map(|it| Event::AskInVain(*it, Vain::FastZeros)));
        }
        let other = named.into_keys().next().into_iter();
        events.extend(
            other.flat_map(|it| [Vain::TrimBeyond, Vain::WriteShort].map(|vain| Event::AskInVain(it, vain))),
        );
        events.extend([Event::Unmount(false), Event::Unmount(true)]);
        events.extend([Event::CrashGuest(false), Event::CrashGuest(true)]);
        let is_map = |it: &&Block| !system.shown(**it, &part.truth.seen[**it as usize]).is_empty();
        events.extend(dirty.iter().filter(is_map).flat_map(|it| [Event::WriteBack(*it); 4]));
    }
}
