//! The findings of a laboratory on the media, for any guest.
//!
//! The promises, and so the demands of this oracle:
//!
//! 1. At a receipt for bytes that were *shredded* just now: of all content that was ever
//!    on the medium there, each byte has as many passes over it as the policy
//!    has, and no byte is in the medium's cache, from where it would come back.
//!    No exception is needed for newer writes: those wait for the receipt.
//! 2. At a receipt for bytes that were *rewritten*: the same, except for the
//!    content that is there now.
//! 3. At either, no copy of content of these bytes is in the journal.
//! 4. When no obligation is left there is no content in the journal at all, no more space
//!    is taken than is needed, and the base is what it was.

use super::Server;
use crate::machine::content::{Tag, is_content, marks};
use crate::machine::history::Store;
use crate::machine::medium::{FaultKind, SimMedium};
use crate::machine::remanence::{SECTOR_BYTES, Trace};
use crate::spent;
use crate::verdict::{Judged, found};
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::MediumId;
use quietus_core::media::medium::Medium;
use quietus_core::media::place::Place;
use quietus_core::media::places::Places;
use quietus_core::request::Liveness;
use quietus_core::store::StoreStatus;
use quietus_core::store::overlay::{Mode, OverlayStatus};
use quietus_core::volume::{Done, Receipt};

impl Server {
    /// Checks that the receipt for bytes that were destroyed just now is true.
    pub(crate) fn judge_receipt(&mut self, receipt: &Receipt) -> Judged {
        let is_shred = receipt.act == Done::Shredded;
        self.count(receipt)?;
        let found = self.survivor(|trace| {
            self.lacking(trace, receipt.extent).find(|word| is_shred || !self.is_current(trace.tag, *word))
        });
        self.report(found, "a receipt")?;
        if self.copies.is_empty() {
            self.report(self.copy_in_journal(receipt.extent), "a receipt, a copy in the journal")?;
        }
        if is_shred { self.judge_cache(receipt.extent) } else { Ok(()) }
    }

    pub(super) fn count(&mut self, receipt: &Receipt) -> Judged {
        let is_shred = matches!(receipt.act, Done::Shredded | Done::Rekeyed | Done::Erased);
        *(if is_shred { &mut self.figures.shredded } else { &mut self.figures.rewritten }) += 1;
        let passes = match receipt.act {
            Done::Overwritten => 1,
            _ if self.setup.erases => 0,
            _ => self.passes(),
        };
        if usize::from(receipt.passes) == passes {
            return Ok(());
        }
        Err(found(format!("a receipt for {} passes", receipt.passes)))
    }

    /// Judges a disk that is drained.
    pub fn judge_drained(&mut self) -> Judged {
        self.figures.examined += 1;
        let whole = Extent::new(0, self.setup.disk_bytes);
        self.report(self.copy_in_journal(whole), "all obligations are completed, a copy in the journal")?;
        let journal = Extent::new(0, self.media.journal.size());
        let visible = self.media.journal.peek(journal, |bytes| marks(bytes).next());
        if let Some(mark) = visible {
            return Err(found(format!("{mark:?} can be read from the journal")));
        }
        if self.setup.store == Store::Spent {
            let left = self
                .survivor(|trace| self.lacking(trace, whole).find(|word| !self.is_current(trace.tag, *word)));
            return self.report(left, "slots are spent although nothing is owed");
        }
        match self.volume.status().store {
            StoreStatus::Overlay(overlay) => self.judge_space(&overlay),
            StoreStatus::InPlace => self.judge_dead(whole).and_then(|()| self.judge_taken()),
            StoreStatus::Versions(_) => self.judge_sealed(),
            StoreStatus::Sealed(_) => self.judge_keyed(whole),
        }
    }

    /// Judges a disk that owes nothing but what its media will not erase: one place keeps no other from being destroyed.
    ///
    /// # Errors
    /// If more is owed, or if less was reported.
    pub fn judge_remaining(&self) -> Judged {
        // What the root will not erase keeps all that the disk owes.
        if self.is_latched || self.is_stuck() || self.is_keyed() {
            return Ok(());
        }
        let unit = if self.setup.store == Store::Spent { spent::UNIT_BYTES } else { BLOCK_BYTES };
        let stubborn: usize = self.media.all().map(SimMedium::stubborn).sum();
        let owed = self.volume.status().owed;
        let left = owed.queued_bytes + owed.conservative_bytes;
        // A sector may be at the end of one piece of a block's length, and at the start of another, and between them.
        if left > 3 * stubborn as u64 * unit || left > owed.remains_bytes {
            return Err(found(format!("{stubborn} sectors will not be erased, and {owed:?}")));
        }
        Ok(())
    }

    /// Checks a disk in place whose medium was searched: space is taken where it holds data, or
    /// where something is in doubt, and nowhere else.
    fn judge_taken(&self) -> Judged {
        let (status, space) = (self.volume.status(), self.media.data.space());
        let in_doubt = status.owed.suspicious_bytes + 2 * SECTOR_BYTES as u64 * status.owed.entries as u64;
        let allowed = status.live_bytes + in_doubt;
        let gives_back = self.setup.punch && !self.trouble.contains(&FaultKind::Remains);
        if self.is_space_known && gives_back && space > allowed {
            return Err(found(format!("{allowed} bytes are live or in doubt, and {space} take up space")));
        }
        Ok(())
    }

    /// Checks that an overlay has no more space than its content needs, and that its base is
    /// unchanged.
    fn judge_space(&self, overlay: &OverlayStatus) -> Judged {
        let (live, space) = (self.volume.status().live_bytes, self.media.data.space());
        let allowed = if overlay.mode == Mode::Punch { overlay.medium_bytes } else { live };
        let gives_back = !self.trouble.contains(&FaultKind::Remains);
        if overlay.medium_bytes > allowed || gives_back && space > live {
            return Err(found(format!("{live} bytes are live, {space} take up space, {overlay:?}")));
        }
        let base = self.media.on(MediumId::Base);
        let is_whole = base.peek(Extent::new(0, base.size()), |bytes| {
            let (content, rest) = bytes.split_at(self.origin.len());
            content == self.origin && is_zeros(rest)
        });
        if is_whole { Ok(()) } else { Err(found("the base was changed".into())) }
    }

    /// The first trace on the data medium, or that an attacker can open, that `is_owed` finds part of lacking.
    pub fn survivor(
        &self,
        is_owed: impl Fn(&Trace) -> Option<Extent<Addr>>,
    ) -> Option<(Trace, Extent<Addr>)> {
        self.left(|traces| {
            let mut traces = traces.filter(|(sector, _)| !self.is_copy(*sector)).map(|it| it.1);
            traces.find_map(|trace| Some((trace.clone(), is_owed(trace)?)))
        })
    }

    /// Hands `look` all traces on the data medium, or that an attacker can open, each with its sector; `None` if its space was given back.
    pub fn left<T>(&self, look: impl FnOnce(&mut dyn Iterator<Item = (Option<usize>, &Trace)>) -> T) -> T {
        if self.is_keyed() {
            let open = self.openable_content();
            return look(&mut open.iter().map(|(sector, trace)| (Some(*sector), trace)));
        }
        self.media.data.inspect(|remains| look(&mut remains.iter()))
    }

    /// Whether `sector`, of a disk whose byte n lies at n, is one where the guest keeps copies.
    pub(super) fn is_copy(&self, sector: Option<usize>) -> bool {
        let there = |it: usize| Extent::new((it * SECTOR_BYTES) as u64, SECTOR_BYTES as u64);
        let there = sector.filter(|_| self.setup.is_in_place() || self.is_keyed()).map(there);
        there.is_some_and(|there| self.copies.iter().any(|it| it.overlaps(there)))
    }

    fn copy_in_journal(&self, extent: Extent<Addr>) -> Option<(Trace, Extent<Addr>)> {
        self.media.journal.inspect(|remains| {
            let mut traces = remains.iter().map(|(_, trace)| trace);
            traces.find_map(|trace| Some((trace.clone(), self.lacking(trace, extent).next()?)))
        })
    }

    /// Words of `trace` that are content of `extent`, and lack passes.
    pub fn lacking(&self, trace: &Trace, extent: Extent<Addr>) -> impl Iterator<Item = Extent<Addr>> {
        trace.lacking(extent, self.passes())
    }

    /// Whether no content of `extent` that was ever there is left; with `but_present`, only the present content is.
    pub fn is_bare(&self, extent: Extent<Addr>, but_present: bool) -> bool {
        let counts = |tag, word: &Extent<Addr>| !but_present || !self.is_current(tag, *word);
        let left = self.survivor(|trace| self.lacking(trace, extent).find(|word| counts(trace.tag, word)));
        left.is_none() && (but_present || self.visible_tags(extent).is_empty())
    }

    /// Whether `part` of the disk's medium now has the content of write `tag`.
    pub fn is_current(&self, tag: Tag, part: Extent<Addr>) -> bool {
        if self.is_keyed() {
            return is_content(tag, part.start.0, &self.decrypted(part, false));
        }
        let Some(places) = self.place(part) else { return false };
        places.parts().all(|(place, range)| {
            let start = part.start.0 + range.start as u64;
            place.on == MediumId::Data
                && self.media.data.peek(place.extent, |bytes| is_content(tag, start, bytes))
        })
    }

    /// The writes whose content can be read in `block`.
    pub fn visible_tags(&self, block: Extent<Addr>) -> Vec<Tag> {
        let read = || self.place(block).map_or_else(Vec::new, |it| self.read(&it, false));
        let bytes = if self.is_keyed() { self.shown(block) } else { read() };
        marks(&bytes).map(|it| it.tag).collect()
    }

    /// All contents that `block`, one of the store's, may have after a crash: at its place, or by
    /// any map that may be read then.
    pub fn possible_contents(&self, block: Extent<Addr>) -> Vec<Vec<u8>> {
        if self.is_keyed() {
            return vec![self.decrypted(block, false), self.decrypted(block, true), self.shown(block)];
        }
        let in_map = [false, true].map(|durable| self.place_in_map(block, durable));
        let places = self.volume.place(block).into_iter().chain(in_map.into_iter().flatten());
        places.flat_map(|it| [self.read(&it, false), self.read(&it, true)]).collect()
    }

    /// The bytes at `places`, in the medium's cache or below it.
    fn read(&self, places: &Places, durable: bool) -> Vec<u8> {
        let mut bytes = vec![0; places.bytes() as usize];
        for (place, part) in places.parts().filter(|(place, _)| place.on != MediumId::Nowhere) {
            let (medium, copy) = (self.media.on(place.on), |from: &[u8]| bytes[part].copy_from_slice(from));
            if durable { medium.peek_durable(place.extent, copy) } else { medium.peek(place.extent, copy) }
        }
        bytes
    }

    /// Places of `part` of one block.
    fn place(&self, part: Extent<Addr>) -> Option<Places> {
        self.volume.place(part).or_else(|| self.place_in_map(part, false))
    }

    /// Places of `part` of one block, as the map on its medium says, in its cache or below it.
    fn place_in_map(&self, part: Extent<Addr>, durable: bool) -> Option<Places> {
        let Store::Overlay(_) = self.setup.store else { return None };
        let map = self.media.on(MediumId::Map);
        let at = Extent::new(4096 + 4 * (part.start.0 / BLOCK_BYTES), 4);
        let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().expect("an entry has four bytes"));
        let entry = if durable { map.peek_durable(at, number) } else { map.peek(at, number) };
        let (on, start) = match u64::from(entry) {
            0 => (MediumId::Base, part.start.0),
            1 => (MediumId::Nowhere, 0),
            slot => (MediumId::Data, (slot - 2) * BLOCK_BYTES + part.start.0 % BLOCK_BYTES),
        };
        Some(Place { on, extent: Extent::new(start, part.len) }.into())
    }

    /// Objects to a survivor.
    pub fn report(&self, survivor: Option<(Trace, Extent<Addr>)>, when: &str) -> Judged {
        let Some((trace, part)) = survivor else { return Ok(()) };
        let (has, due) = (trace.passes_within(part).unwrap_or(0), self.passes());
        let (start, tag) = (part.start.0, trace.tag);
        Err(found(format!("{when}: {} bytes of {tag:?} at {start} have {has} of {due} passes", part.len)))
    }

    /// Checks that nothing of `extent` can be read, or would be once the cache is written.
    fn judge_cache(&self, extent: Extent<Addr>) -> Judged {
        let place = Extent::<Pos>::new(extent.start.0, extent.len);
        let left = self.media.data.peek(place, |bytes| marks(bytes).next());
        let wrong = |it| Err(found(format!("a receipt for {extent:?}, but {it:?} can be read")));
        left.map_or(Ok(()), wrong)
    }

    /// Checks that bytes that the disk calls dead are zeros.
    pub(super) fn judge_dead(&self, whole: Extent<Addr>) -> Judged {
        let mut at = 0;
        for (len, liveness) in self.volume.liveness(whole, usize::MAX) {
            let place = Extent::<Pos>::new(at, len);
            // In a block that is alive the rest may be ciphertext of zeros.
            let shown = || is_zeros(&self.decrypted(Extent::new(at, len), false));
            let zeros = self.media.data.peek(place, is_zeros) || self.is_keyed() && shown();
            if liveness == Liveness::Dead && !zeros {
                return Err(found(format!("{len} bytes at {at} are called dead, but are not zeros")));
            }
            at += len;
        }
        Ok(())
    }
}
