//! The forensic oracle: what a laboratory would find on the media.
//!
//! What is promised, and so what it demands:
//!
//! 1. At a receipt for bytes that were *shredded* just now: of all content that was ever
//!    on the medium there, each byte has as many passes over it as the policy
//!    has, and none is in the medium's cache, from where it would come back.
//!    No exception is needed for newer writes: those wait for the receipt.
//! 2. At a receipt for bytes that were *scoured*: the same, except for the
//!    content that is there now.
//! 3. At either, no copy of content of these bytes is in the journal.
//! 4. When no obligation is left: content older than a death that was replied
//!    to, and content that lay below a conservative overwrite that was replied
//!    to, or was overwritten after it, has its passes; and there is no content
//!    in the journal at all.
//!
//! Content that was overwritten without any of these is no obligation, nor is
//! a request's that was not replied to.

use super::World;
use super::life::{ORIGIN, original};
use crate::content::{Tag, is_content, marks};
use crate::remanence::{SECTOR_BYTES, Trace};
use crate::violation::{Oracle, Violation};
use quietus_core::media::MediumId;
use quietus_core::medium::Medium;
use quietus_core::place::{Place, Places};
use quietus_core::request::Liveness;
use quietus_core::store::StoreStatus;
use quietus_core::store::overlay::{Mode, OverlayStatus};
use quietus_core::units::{Addr, BLOCK_BYTES, Extent, Pos};
use quietus_core::volume::{Done, Receipt};

impl World {
    /// Checks that the receipt is true; it `is_late` if its obligation was not met just now.
    pub(super) fn judge_receipt(&mut self, receipt: &Receipt, is_late: bool) -> Result<(), Violation> {
        let is_shred = receipt.act == Done::Shredded;
        let is_overwritten = receipt.act == Done::Overwritten;
        *(if is_shred { &mut self.figures.shredded } else { &mut self.figures.scoured }) += 1;
        let passes = if is_overwritten { 1 } else { self.policy.passes().len() };
        if usize::from(receipt.passes) != passes {
            return Err(found(format!("a receipt for {} passes", receipt.passes)));
        }
        if is_late || is_overwritten {
            // Newer content may be there.
            return self.judge_late(receipt);
        }
        let found = self.survivor(|trace| {
            self.lacking(trace, receipt.extent).find(|word| is_shred || !self.is_current(trace.tag, *word))
        });
        self.report(found, "a receipt")?;
        self.report(self.copy_in_journal(receipt.extent), "a receipt, a copy in the journal")?;
        if is_shred { self.judge_cache(receipt.extent) } else { Ok(()) }
    }

    /// What was to be destroyed of the receipt's bytes is, unless there was
    /// another death since.
    fn judge_late(&self, receipt: &Receipt) -> Result<(), Violation> {
        let dies_again = |part: &Extent<Addr>| self.volume.obligations().any(|(it, _)| it.overlaps(*part));
        let found =
            self.survivor(|trace| self.doomed_part(trace, receipt.extent).filter(|part| !dies_again(part)));
        self.report(found, "a receipt")
    }

    pub(super) fn judge_drained(&mut self) -> Result<(), Violation> {
        let whole = Extent::new(0, self.setup.disk_bytes);
        let doomed = self.survivor(|trace| self.doomed_part(trace, whole));
        self.report(doomed, "all obligations are met")?;
        self.report(self.copy_in_journal(whole), "all obligations are met, a copy in the journal")?;
        let journal = Extent::new(0, self.media.journal.size());
        let visible = self.media.journal.peek(journal, |bytes| marks(bytes).next());
        if let Some(mark) = visible {
            return Err(found(format!("{mark:?} can be read from the journal")));
        }
        match self.volume.status().store {
            StoreStatus::Overlay(overlay) => self.judge_space(&overlay),
            StoreStatus::InPlace => self.judge_dead(whole).and_then(|()| self.judge_taken()),
        }
    }

    /// A disk in place whose medium was searched has space where it holds data, or
    /// where something is in doubt, and nowhere else.
    fn judge_taken(&self) -> Result<(), Violation> {
        let (status, space) = (self.volume.status(), self.media.data.space());
        let in_doubt = status.suspicious_bytes + 2 * SECTOR_BYTES as u64 * status.ledger_entries as u64;
        let allowed = status.live_bytes + in_doubt;
        if self.is_space_known && self.setup.punch && space > allowed {
            return Err(found(format!("{allowed} bytes are live or in doubt, and {space} take up space")));
        }
        Ok(())
    }

    /// An overlay has no more space than its content needs, and nobody touches
    /// its base.
    fn judge_space(&self, overlay: &OverlayStatus) -> Result<(), Violation> {
        let (live, space) = (self.volume.status().live_bytes, self.media.data.space());
        let allowed = if overlay.mode == Mode::Punch { overlay.medium_bytes } else { live };
        if overlay.medium_bytes > allowed || space > live {
            return Err(found(format!("{live} bytes are live, {space} take up space, {overlay:?}")));
        }
        let base = self.media.on(MediumId::Base);
        let is_whole = base.peek(Extent::new(0, base.size()), |bytes| {
            let (content, rest) = bytes.split_at(original(&self.setup).len as usize);
            is_content(ORIGIN, 0, content) && rest.iter().all(|byte| *byte == 0)
        });
        if is_whole { Ok(()) } else { Err(found("the base was changed".into())) }
    }

    /// The first trace on the data medium that `is_owed` finds part of lacking.
    fn survivor(&self, is_owed: impl Fn(&Trace) -> Option<Extent<Addr>>) -> Option<(Trace, Extent<Addr>)> {
        self.media.data.inspect(|remains| {
            let mut traces = remains.iter().map(|(_, trace)| trace);
            traces.find_map(|trace| Some((trace.clone(), is_owed(trace)?)))
        })
    }

    fn copy_in_journal(&self, extent: Extent<Addr>) -> Option<(Trace, Extent<Addr>)> {
        self.media.journal.inspect(|remains| {
            let mut traces = remains.iter().map(|(_, trace)| trace);
            traces.find_map(|trace| Some((trace.clone(), self.lacking(trace, extent).next()?)))
        })
    }

    /// Words of `trace` that are content of `extent`, and lack passes.
    fn lacking(&self, trace: &Trace, extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
        trace.lacking(extent, self.policy.passes().len())
    }

    /// Whether `part` of the disk's medium is now what write `tag` wrote there.
    fn is_current(&self, tag: Tag, part: Extent<Addr>) -> bool {
        let Some(places) = self.volume.place(part).or_else(|| self.place_in_map(part)) else { return false };
        places.parts().all(|(place, range)| {
            let start = part.start.0 + range.start as u64;
            place.on == MediumId::Data
                && self.media.data.peek(place.extent, |bytes| is_content(tag, start, bytes))
        })
    }

    /// Where `part` of one block lies, as the map on its medium says.
    fn place_in_map(&self, part: Extent<Addr>) -> Option<Places> {
        let block = part.start.0 / BLOCK_BYTES;
        let entry = self.media.on(MediumId::Map).peek(Extent::new(4096 + 4 * block, 4), |bytes| {
            u64::from(u32::from_le_bytes(bytes.try_into().expect("an entry has four bytes")))
        });
        let at = entry.checked_sub(2)? * BLOCK_BYTES + part.start.0 % BLOCK_BYTES;
        Some(Place { on: MediumId::Data, extent: Extent::new(at, part.len) }.into())
    }

    fn doomed_part(&self, trace: &Trace, within: Extent<Addr>) -> Option<Extent<Addr>> {
        let mut runs = self.book.doomed(trace.cell.extent().overlap(within)?);
        runs.find_map(|(run, dead_before, scoured_before)| {
            let is_below = |tag: Option<Tag>| tag.is_some_and(|tag| trace.tag < tag);
            // What the base holds for ever can be overwritten without a pass.
            let is_base = self.setup.overlay.is_some() && trace.tag == ORIGIN;
            let (is_dead, is_below) = (is_below(dead_before), !is_base && is_below(scoured_before));
            if !is_dead && !is_below {
                return None;
            }
            self.lacking(trace, run).find(|word| is_dead || !self.is_current(trace.tag, *word))
        })
    }

    fn report(&self, survivor: Option<(Trace, Extent<Addr>)>, when: &str) -> Result<(), Violation> {
        let Some((trace, part)) = survivor else { return Ok(()) };
        let (has, due) = (trace.passes_within(part).unwrap_or(0), self.policy.passes().len());
        let (start, tag) = (part.start.0, trace.tag);
        Err(found(format!("{when}: {} bytes of {tag:?} at {start} have {has} of {due} passes", part.len)))
    }

    /// Nothing of `extent` can be read, or would be once the cache is written.
    fn judge_cache(&self, extent: Extent<Addr>) -> Result<(), Violation> {
        let place = Extent::<Pos>::new(extent.start.0, extent.len);
        match self.media.data.peek(place, |bytes| marks(bytes).next()) {
            Some(mark) => Err(found(format!("a receipt for {extent:?}, and {mark:?} can be read"))),
            None => Ok(()),
        }
    }

    /// What the disk calls dead is zeros.
    fn judge_dead(&self, whole: Extent<Addr>) -> Result<(), Violation> {
        let mut at = 0;
        for (len, liveness) in self.volume.liveness(whole, usize::MAX) {
            let place = Extent::<Pos>::new(at, len);
            let zeros = self.media.data.peek(place, |bytes| bytes.iter().all(|byte| *byte == 0));
            if liveness == Liveness::Dead && !zeros {
                return Err(found(format!("{len} bytes at {at} are called dead, and are not zeros")));
            }
            at += len;
        }
        Ok(())
    }
}

fn found(what: String) -> Violation {
    Violation { oracle: Oracle::Forensic, what }
}
