//! The knowledge of rule J, saved at a clean stop as bytes (`docs/formats/view.md`).

use crate::formats::format::Block;
use crate::formats::jbd2::Tid;
use crate::rules::marks::committed::Committed;
use crate::rules::rule::deaths::Deaths;
use crate::rules::rule::history::RecentBlocks;
use crate::rules::rule::sets::{put_sets, take_sets};
use crate::rules::rule_j::RuleJ;
use crate::rules::rule_j::journal::copies::Copies;
use crate::rules::rule_j::journal::log::Log;
use crate::rules::rule_j::marked::Marked;
use crate::rules::rule_j::unwritten::Unwritten;
use quietus_core::base::fields::Fields;
use roaring::RoaringBitmap;

const SETS: usize = 6;
/// Marks are not known: an attach knows as much.
const UNKNOWN: u8 = 0;
/// No file has had a mark.
const NONE: u8 = 1;
/// Some have, and the trees follow.
const FOUND: u8 = 2;
/// Some have, and no more is known.
const LOST: u8 = 3;
/// Stands for an unknown beginning of a transaction.
const NO_BEGIN: u32 = 0;

impl RuleJ {
    /// `None` while the place in the journal is not known, or amid a transaction: then a cold attach
    /// knows as much.
    pub(super) fn known(&self) -> Option<Vec<u8>> {
        let log = self.log.as_ref().filter(|log| log.is_known() && log.is_between())?;
        let is_calm = self.broken.is_none() && !self.changed;
        if !is_calm || !self.reads.is_empty() || !self.commits.are_settled() {
            return None;
        }
        let (tid, begin) = log.next();
        let mut bytes = vec![u8::from(self.in_use), u8::from(self.survey.rereads_maps())];
        bytes.extend(tid.0.to_le_bytes());
        bytes.extend(begin.unwrap_or(NO_BEGIN).to_le_bytes());
        let [condemned, _] = self.deaths.sets();
        let lately = self.lately.all();
        let sets: [&RoaringBitmap; SETS] =
            [&self.live, &self.free, &self.suspicious, &lately, &self.commits.written, &condemned];
        put_sets(sets, &mut bytes);
        if let Some(marked) = &self.marked {
            marked.put(&self.commits.window, &mut bytes);
        }
        Some(bytes)
    }

    pub(super) fn resumed(&mut self, view: &[u8]) -> Option<()> {
        let mut rest = Fields(view);
        let [in_use, rereads] = rest.array()?;
        let (tid, begin) = (rest.u32()?, rest.u32()?);
        let sets: [RoaringBitmap; SETS] = take_sets(&mut rest, self.format.blocks())?;
        let window = match &mut self.marked {
            Some(marked) => marked.restore(&mut rest, self.format.blocks())?,
            None => RoaringBitmap::new(),
        };
        if !rest.is_empty() {
            return None;
        }
        if rereads == 0 {
            self.survey.skip_maps();
        }
        let [live, free, suspicious, lately, written, condemned] = sets;
        self.in_use = in_use != 0;
        if self.in_use {
            self.unwritten = Unwritten::new(live.clone());
        }
        self.candidates = &live & &free;
        (self.live, self.free, self.suspicious) = (live, free, suspicious);
        self.lately = RecentBlocks::kept(&lately);
        self.commits.resume(written, window);
        self.deaths = Deaths::restore(condemned, &RoaringBitmap::new(), self.clock.now);
        self.resumes = Some((Tid(tid), begin));
        Some(())
    }

    /// Continues where the log was left, now that the journal's superblock has been seen, or learns
    /// the place anew.
    pub(super) fn resume_log(&mut self, log: &mut Log) {
        let Some((tid, begin)) = self.resumes.take() else { return };
        let is_empty = begin == NO_BEGIN && log.is_empty() && log.next().0 == tid;
        if !is_empty && !log.resume(tid, begin) {
            self.lose_maps();
        }
    }
}

impl Marked {
    /// Writes everything, and the blocks of `window`.
    fn put(&self, window: &RoaringBitmap, bytes: &mut Vec<u8>) {
        let is_whole = self.is_known && !self.is_reading() && !self.tree.is_overfull;
        let state = match (is_whole, self.classes.has_any) {
            (false, false) => UNKNOWN,
            (false, true) => LOST,
            (true, false) => NONE,
            (true, true) => FOUND,
        };
        bytes.push(state);
        if is_whole {
            bytes.push(u8::from(self.knows_maps));
            put_sets([&self.freed, window], bytes);
            self.copies.put(bytes);
        }
        if state == FOUND {
            self.classes.put(bytes);
            self.tree.put(bytes);
        }
    }

    /// Takes what [`Marked::put`] wrote. Returns the blocks of the window.
    fn restore(&mut self, fields: &mut Fields<'_>, blocks: Block) -> Option<RoaringBitmap> {
        let [state] = fields.array()?;
        match state {
            UNKNOWN => return Some(RoaringBitmap::new()),
            LOST => {
                self.classes.has_any = true;
                return Some(RoaringBitmap::new());
            }
            NONE | FOUND => {}
            _ => return None,
        }
        let [knows_maps] = fields.array()?;
        let [freed, window] = take_sets(fields, blocks)?;
        let copies = Copies::restored(fields, blocks)?;
        if state == FOUND {
            self.classes.restore(fields)?;
            self.classes.has_any = true;
            self.tree = Committed::restored(fields, blocks)?;
        }
        self.resume(copies, freed, knows_maps != 0);
        Some(window)
    }
}
