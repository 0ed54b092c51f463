//! What a laboratory would find once everything has settled: the dead must be
//! gone from the medium, and everything from the journal.

use super::Whole;
use super::wide::{place, touched};
use crate::content::{Tag, is_content, marks};
use crate::remanence::Trace;
use crate::rule_e::guest::Owner;
use crate::rule_e::judge::Excuses;
use quietus_core::medium::Medium;
use quietus_core::units::{Addr, Extent, Pos};
use quietus_detect::format::Block;
use quietus_detect::options::Grade;
use std::collections::BTreeMap;

/// Who has which block.
type Named = BTreeMap<Block, Owner>;

impl Whole {
    pub(super) fn judge_remains(&self) -> Result<Excuses, String> {
        let (named, mut excuses) = (self.named(), Excuses::default());
        self.judge_contents(&named, &mut excuses)?;
        let passes = self.server.passes();
        self.server.media().0.inspect(|remains| {
            let whole = self.whole();
            let lacking = remains.iter().filter_map(|(sector, trace)| {
                Some((sector.is_some(), trace, trace.lacking(whole, passes).next()?))
            });
            lacking.into_iter().try_for_each(|(is_placed, trace, word)| {
                let is_well = self.is_excused(is_placed, trace, word, &named, &mut excuses);
                if is_well { Ok(()) } else { Err(self.left(trace, word)) }
            })
        })?;
        self.judge_journal()?;
        Ok(excuses)
    }

    fn left(&self, trace: &Trace, word: Extent<Addr>) -> String {
        let mark = self.truth.record(trace.tag).mark;
        let has = trace.passes_within(word).unwrap_or(0);
        format!(
            "forensic: what {mark:?} had at {word:?}, write {}, has {has} of {} passes",
            trace.tag.0,
            self.server.passes()
        )
    }

    /// No dead content can be read, unless a crash gave it to somebody.
    fn judge_contents(&self, named: &Named, excuses: &mut Excuses) -> Result<(), String> {
        for block in self.toy.data() {
            let dead = self.visible(block).filter(|tag| self.is_dead(*tag));
            match dead {
                Some(_) if named.contains_key(&block) => excuses.exposed += 1,
                Some(tag) => {
                    let mark = self.truth.record(tag).mark;
                    return Err(format!("forensic: what {mark:?} had in block {block} lies there"));
                }
                None => {}
            }
        }
        Ok(())
    }

    fn is_dead(&self, tag: Tag) -> bool {
        self.truth.is_dead(self.truth.record(tag).mark)
    }

    /// The write of which content can be read in `block`; a dead one, if there
    /// are several.
    fn visible(&self, block: Block) -> Option<Tag> {
        let at = Extent::<Pos>::new(place(block).start.0, place(block).len);
        let tags: Vec<_> = self.server.media().0.peek(at, |bytes| marks(bytes).map(|it| it.tag).collect());
        tags.iter().copied().find(|tag| self.is_dead(*tag)).or_else(|| tags.first().copied())
    }

    /// Whether `word` of `trace`, which lacks passes, may lack them.
    fn is_excused(
        &self,
        is_placed: bool,
        trace: &Trace,
        word: Extent<Addr>,
        named: &Named,
        excuses: &mut Excuses,
    ) -> bool {
        let (block, record) = (touched(word).start, self.truth.record(trace.tag));
        let is_owed = self.is_dead(trace.tag) || self.setup.options.grade == Grade::Content;
        if self.is_current(trace.tag, word) || !is_owed {
            return true;
        }
        let top = self.visible(block);
        if self.server.passes() == 1 {
            return is_placed && top.is_some();
        }
        if top.is_some_and(|tag| self.is_dead(tag)) && named.contains_key(&block) {
            return true;
        }
        if record.is_excused {
            excuses.forgotten += 1;
            return true;
        }
        let hidden = self.truth.is_hidden(block, record) && self.setup.options.grade != Grade::Content;
        excuses.not_observable += u64::from(hidden);
        hidden
    }

    /// Whether `word` of the medium is what write `tag` wrote there.
    fn is_current(&self, tag: Tag, word: Extent<Addr>) -> bool {
        let at = Extent::<Pos>::new(word.start.0, word.len);
        self.server.media().0.peek(at, |bytes| is_content(tag, word.start.0, bytes))
    }

    fn judge_journal(&self) -> Result<(), String> {
        let (journal, passes) = (self.server.media().1, self.server.passes());
        let all = Extent::new(0, journal.size());
        if let Some(mark) = journal.peek(all, |bytes| marks(bytes).next()) {
            return Err(format!("forensic: {mark:?} can be read from the journal"));
        }
        let whole = self.whole();
        let left = journal.inspect(|remains| {
            remains
                .iter()
                .find_map(|(_, trace)| trace.lacking(whole, passes).next().map(|it| (trace.tag, it)))
        });
        left.map_or(Ok(()), |it| Err(format!("forensic: in the journal {it:?} has too few passes")))
    }

    fn whole(&self) -> Extent<Addr> {
        Extent::new(0, place(self.toy.blocks).start.0)
    }
}
