//! The end of a history: everything is written, mended and settled. Then a laboratory examines the medium: nothing
//! dead may be left.

use crate::guests::files::part::Part;
use crate::guests::files::{Event, Files};
use crate::machine::cache;
use crate::machine::cache::HOLD_MS;
use crate::machine::content::Tag;
use crate::machine::remanence::Trace;
use crate::rules::rule_e::guest::{Action, Guest, Owner};
use crate::rules::rule_e::toy::{SUPER, Super};
use crate::server::Above;
use crate::verdict::found;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::base::zeros::is_zeros;
use quietus_detect::formats::format::Block;
use quietus_detect::rules::options::Grade;
use std::collections::BTreeMap;

type Named = BTreeMap<Block, Owner>;

impl Files {
    /// Unmounts, lets the server do all that it wants, and has the file systems mounted and
    /// unmounted for as long as that takes to settle: time alone proves nothing.
    pub(super) fn settle_everything(&mut self) -> Result<(), String> {
        self.server.fill_host(false);
        self.everywhere(|it| it.begin(Event::Unmount(false)))?;
        self.flush_caches()?;
        self.until_quiet()?;
        self.everywhere(|it| {
            if it.is_whole() && !it.setup.is_cached() { Ok(()) } else { it.begin(Event::Fsck(false)) }
        })?;
        let hold_ms = if self.setup.is_cached() { HOLD_MS } else { 0 };
        for _ in 0..2 * (self.setup.options.settle_ms + hold_ms).div_ceil(1000) + 2 {
            self.drain()?;
            for event in [Event::Mount, Event::Do(Action::Stamp), Event::Unmount(false)] {
                self.everywhere(|it| if it.may_do(event) { it.begin(event) } else { Ok(()) })?;
                if matches!(event, Event::Do(_)) {
                    continue;
                }
                self.flush_caches()?;
                self.everywhere(|it| it.begin(Event::Pass(1000)))?;
            }
        }
        self.drain()?;
        self.begin(Event::Flush)?;
        self.until_quiet()?;
        self.drain()?;
        self.everywhere(Self::judge_log)?;
        if !self.parts.iter().all(|it| self.server.watches(it.extent())) {
            return Err("inference stopped although the guest did nothing wrong".into());
        }
        self.server.judge_attacker()?;
        self.judge_remains()
    }

    /// Whether `event` is for every guest: below a journal, reserved space is known only by what is logged.
    fn may_do(&self, event: Event) -> bool {
        !matches!(event, Event::Do(_)) || self.system.files().is_some_and(Guest::reserves)
    }

    fn flush_caches(&mut self) -> Result<(), String> {
        self.everywhere(|it| if it.setup.is_cached() { it.cache_does(cache::Step::Flush) } else { Ok(()) })
    }

    /// Reads everything; once nothing is mounted, nothing is left in a log.
    fn judge_log(&mut self) -> Result<(), String> {
        let (found, _) = self.read_and_judge(false)?;
        let left = self.system.log().find(|it| !is_zeros(&found[*it as usize]));
        left.map_or(Ok(()), |block| Err(format!("residue: block {block} of the log is not empty")))
    }

    fn drain(&mut self) -> Result<(), String> {
        self.begin(Event::Pass(1000))?;
        self.until(|it| it.server.is_drained() && it.parts.iter().all(|it| it.pending.is_empty()))?;
        self.server.judge_drained()?;
        Ok(self.server.judge_log()?)
    }

    pub(super) fn judge_remains(&mut self) -> Result<(), String> {
        self.everywhere(|it| {
            let named = it.named();
            it.judge_contents(&named)?;
            // Below a cache a map may arrive after its block was given away: nothing is promised of layers.
            if it.setup.is_cached() { Ok(()) } else { it.judge_layers(&named) }
        })
    }

    fn judge_layers(&self, named: &Named) -> Result<(), String> {
        let (whole, passes) = (self.extent(), self.server.passes());
        self.server.left(|traces| {
            let mut lacking = traces.filter_map(|(sector, trace)| {
                Some((sector.is_some(), trace, trace.lacking(whole, passes).next()?))
            });
            lacking.try_for_each(|(is_placed, trace, word)| {
                let is_well = self.is_excused(is_placed, trace, word, named);
                if is_well { Ok(()) } else { Err(self.left(trace, word)) }
            })
        })
    }

    fn left(&self, trace: &Trace, word: Extent<Addr>) -> String {
        let mark = self.truth.records[&trace.tag].mark;
        let (has, due) = (trace.passes_within(word).unwrap_or(0), self.server.passes());
        found(format!(
            "the content of {mark:?} at {word:?}, write {}, has {has} of {due} passes",
            trace.tag.0
        ))
        .into()
    }

    /// Checks that no dead content can be read, unless a crash gave it to a file.
    fn judge_contents(&self, named: &Named) -> Result<(), String> {
        for block in self.system.data() {
            let dead = self.visible(block).filter(|tag| self.is_dead(*tag));
            if let Some(tag) = dead.filter(|_| !named.contains_key(&block)) {
                let mark = self.truth.records[&tag].mark;
                return Err(found(format!("the content of {mark:?} is still in block {block}")).into());
            }
        }
        Ok(())
    }

    /// The write whose content can be read in `block`; a dead one, if there are several.
    fn visible(&self, block: Block) -> Option<Tag> {
        let tags = self.server.visible_tags(self.place(block));
        tags.iter().copied().find(|tag| self.is_dead(*tag)).or_else(|| tags.first().copied())
    }

    /// Whether `word` of `trace`, which lacks passes, may lack them.
    fn is_excused(&self, is_placed: bool, trace: &Trace, word: Extent<Addr>, named: &Named) -> bool {
        let (block, record) = (self.touched(word).start, &self.truth.records[&trace.tag]);
        let is_owed = self.is_dead(trace.tag) || self.setup.options.grade == Grade::Content;
        if self.server.is_current(trace.tag, word) || !is_owed {
            return true;
        }
        let top = self.visible(block);
        // One write over content is a pass, unless the key is what has to go.
        if self.server.passes() == 1 && !self.server.is_keyed() {
            return is_placed && top.is_some();
        }
        if top.is_some_and(|tag| self.is_dead(tag)) && named.contains_key(&block) {
            return true;
        }
        let decided = record.mark.and_then(|mark| self.system.excuse(block, mark));
        let (is_forgotten, is_hidden) =
            decided.unwrap_or_else(|| (record.is_excused, self.truth.is_hidden(block, record)));
        is_forgotten || (is_hidden && self.setup.options.grade != Grade::Content)
    }
}

impl Part {
    /// Whether no file system needs a repair. A guest that goes on after a crash with
    /// pointers that were never written may lose blocks without freeing them.
    fn is_whole(&self) -> bool {
        let (seen, named) = (&self.truth.seen, self.named());
        let mut shown = (0..).zip(seen).flat_map(|(block, page)| self.system.shown(block, page));
        let is_clean = Super::from_bytes(&seen[SUPER as usize]).is_some_and(|it| it.is_clean);
        let reserved = self.system.reserved_on(seen);
        let is_known = |it: &Block| named.contains_key(it) || reserved.contains(it);
        let is_leaked = |it: (Block, bool)| it.1 && self.system.is_data(it.0) && !is_known(&it.0);
        is_clean && !shown.any(is_leaked)
    }

    fn is_dead(&self, tag: Tag) -> bool {
        self.truth.is_dead(self.truth.records[&tag].mark)
    }
}
