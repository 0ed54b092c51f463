//! The safety oracle: the model of what each byte of the disk may hold.
//!
//! The oracle is told of requests and replies, and knows nothing of how the disk works. For each
//! run of bytes it keeps the *versions* that they may have, in the order of the requests that made
//! them. The promises, and so the demands of the oracle:
//!
//! 1. A read shows one version in each sector: the newest that was replied to
//!    when the read was sent, or one of a later request.
//! 2. A kill of the process keeps (1): versions that were replied to stand.
//!    A request that was under way may or may not have had its effect, for
//!    each sector; the first read that shows it decides it for good.
//!    Where the process alone knew where content is, as with an overlay, a kill
//!    may undo versions like a power cut; and so it may where dead bytes were written
//!    over, if the medium had failed.
//! 3. A power cut may undo versions, back to the newest one that is durable:
//!    replied to before a flush was sent that was replied to, or of a write
//!    with FUA, or of a death (trim, zeros, purge): a death is durable at its
//!    reply, and so everything older is impossible for ever.
//! 4. Destroying makes no version: bytes that are under a conservative
//!    overwrite, or whose new content has to wait, show a version that was
//!    written, or the zeros of a death; no pattern, and no third thing.
//! 5. After a sync of the medium has failed, earlier writes may be lost with the power even if a
//!    later flush succeeds: the host's cache counts them as clean. The failure of the medium was
//!    reported.
//!
//! Requests on the same bytes have their effect in order of arrival, so the
//! newest version is that of the latest request.
//!
//! Why by sectors: a medium changes sectors whole, and a run of the model begins and ends with
//! requests. So the part of a run in a sector is of one version, while all requests are of whole
//! sectors. After a partial one, acts may end within a sector, and each byte may be of another
//! version.

mod piece;

use crate::machine::content::{Tag, indices, is_content};
use crate::machine::remanence::SECTOR_BYTES;
use crate::server::Moment;
use crate::verdict::{Judged, broken};
use piece::Piece;
use quietus_core::base::units::{Addr, Extent};
use quietus_core::base::zeros::is_zeros;
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Value {
    Zeros,
    Content(Tag),
}

impl Value {
    fn is(self, start: u64, bytes: &[u8]) -> bool {
        match self {
            Self::Zeros => is_zeros(bytes),
            Self::Content(tag) => is_content(tag, start, bytes),
        }
    }
}

/// A read that is under way.
#[derive(Clone, Debug)]
pub struct Reading {
    extent: Extent<Addr>,
    since: Moment,
    /// The latest request when the read was sent.
    newest: Tag,
}

#[derive(Clone, Debug)]
pub struct Model {
    size: u64,
    /// Pieces by their start; each ends where the next begins.
    pieces: BTreeMap<u64, Piece>,
    life: u32,
    reads_open: usize,
    /// All requests were of whole sectors.
    is_even: bool,
}

impl Model {
    /// The model of a disk of `size` bytes that holds `value`.
    pub fn new(size: u64, value: Value) -> Self {
        Self { size, pieces: BTreeMap::from([(0, Piece::new(value))]), life: 0, reads_open: 0, is_even: true }
    }

    /// Notes that a request other than a read was sent for `extent`.
    pub fn arrived(&mut self, extent: Extent<Addr>) {
        let is_whole = |at: u64| at.is_multiple_of(SECTOR_BYTES as u64);
        self.is_even &= is_whole(extent.start.0) && is_whole(extent.len);
    }

    /// Notes that request `tag` was sent, and will make `extent` hold `value`.
    pub fn begin(&mut self, tag: Tag, extent: Extent<Addr>, value: Value) {
        let life = self.life;
        self.change(extent, |piece| piece.begin(tag, value, life));
    }

    /// Notes that request `tag` was replied to at `moment`.
    pub fn settle(&mut self, tag: Tag, extent: Extent<Addr>, moment: Moment, durable: bool) {
        self.change(extent, |piece| piece.settle(tag, moment, durable));
    }

    /// Notes that request `tag` was refused without any effect.
    pub fn withdraw(&mut self, tag: Tag, extent: Extent<Addr>) {
        self.change(extent, |piece| piece.withdraw(tag));
    }

    /// Notes the reply to a death of `extent`, by request `tag`.
    pub fn died(&mut self, tag: Tag, extent: Extent<Addr>) {
        self.change(extent, |piece| piece.dead_before = Some(tag));
    }

    /// Notes the reply to a wish to destroy what lies below `extent`, by request `tag`.
    pub fn rewritten(&mut self, tag: Tag, extent: Extent<Addr>) {
        self.change(extent, |piece| piece.rewritten_before = Some(tag));
    }

    /// Notes the reply to a flush that was sent at `since`.
    pub fn flushed(&mut self, since: Moment) {
        self.pieces.values_mut().for_each(|piece| piece.flushed(since));
    }

    pub fn sync_failed(&mut self) {
        self.pieces.values_mut().for_each(Piece::shake);
    }

    /// Notes that the process was killed, or has stopped.
    pub fn restarted(&mut self) {
        self.life += 1;
        self.reads_open = 0;
        self.pieces.values_mut().for_each(Piece::restarted);
    }

    /// Notes that the process was killed, and only it knew what was not durable, where that `is_so`
    /// for bytes that have ever died, or may have, or have not.
    pub fn forgotten(&mut self, is_so: impl Fn(bool) -> bool) {
        self.restarted();
        let has_died = |piece: &Piece| piece.dead_before.is_some() || piece.may_be_dead;
        let pieces = self.pieces.values_mut().filter(|piece| is_so(has_died(piece)));
        pieces.for_each(Piece::unsettle);
    }

    pub fn power_cut(&mut self) {
        self.restarted();
        self.pieces.values_mut().for_each(Piece::power_cut);
    }

    /// Begins a read that was sent at `since`, when `newest` was the latest request.
    pub fn begin_read(&mut self, extent: Extent<Addr>, since: Moment, newest: Tag) -> Reading {
        if self.reads_open == 0 {
            self.pieces.values_mut().for_each(Piece::tidy);
        }
        self.reads_open += 1;
        Reading { extent, since, newest }
    }

    /// The model of content that changes no more: a closed epoch's. The first read settles what is not certain yet.
    pub fn kept(&self) -> Self {
        let mut kept = self.clone();
        (kept.life, kept.reads_open) = (u32::MAX / 2, 0);
        kept.pieces.values_mut().for_each(Piece::tidy);
        kept
    }

    /// Takes the bytes that a read of such content has shown.
    ///
    /// # Errors
    /// If a promise, or an earlier read, excludes these bytes.
    pub fn read_kept(&mut self, extent: Extent<Addr>, bytes: &[u8]) -> Judged {
        let reading = self.begin_read(extent, Moment::MAX, Tag(u32::MAX));
        self.end_read(&reading, bytes, Moment::MAX)?;
        self.pieces.values_mut().for_each(Piece::tidy);
        Ok(())
    }

    /// Whether `extent` may hold these bytes.
    pub fn allows(&self, extent: Extent<Addr>, bytes: &[u8]) -> bool {
        self.parts(extent).into_iter().all(|part| {
            let (values, own) = (self.values(part), &bytes[indices(part, extent.start.0)]);
            values.iter().any(|it| it.is(part.start.0, own))
                || !self.is_even && is_mixed(&values, part.start.0, own)
        })
    }

    /// Whether `extent` holds these bytes, and nothing else.
    pub fn has_only(&self, extent: Extent<Addr>, bytes: &[u8]) -> bool {
        self.parts(extent).into_iter().all(|part| {
            let (values, own) = (self.values(part), &bytes[indices(part, extent.start.0)]);
            values.iter().all(|it| it.is(part.start.0, own))
        })
    }

    /// Whether some bytes are surely not what they are in `other`.
    pub fn surely_differs(&self, other: &Self) -> bool {
        let whole = Extent::new(0, self.size);
        self.parts(whole).into_iter().flat_map(|part| other.parts(part)).any(|part| {
            let others = other.values(part);
            !self.values(part).iter().any(|it| others.contains(it))
        })
    }

    /// Contents that `part` of a piece may hold by now.
    fn values(&self, part: Extent<Addr>) -> Vec<Value> {
        self.piece(part.start.0).visible(Moment::MAX).collect()
    }

    pub fn abandon_read(&mut self) {
        self.reads_open -= 1;
    }

    /// Ends a read at `moment` with `bytes`.
    ///
    /// # Errors
    /// If a promise excludes these bytes.
    pub fn end_read(&mut self, reading: &Reading, bytes: &[u8], moment: Moment) -> Judged {
        self.reads_open -= 1;
        let extent = reading.extent;
        if bytes.len() as u64 != extent.len {
            return Err(broken(format!("a read of {} bytes was given {}", extent.len, bytes.len())));
        }
        for part in self.parts(extent) {
            self.check(reading, part, &bytes[indices(part, extent.start.0)], moment)?;
        }
        Ok(())
    }

    fn check(&mut self, reading: &Reading, part: Extent<Addr>, bytes: &[u8], moment: Moment) -> Judged {
        let (piece, start) = (self.piece(part.start.0), part.start.0);
        let visible: Vec<Value> = piece.visible(reading.since).collect();
        let mut fits = visible.iter().filter(|it| it.is(start, bytes));
        let Some(value) = fits.next().copied() else {
            if !self.is_even && is_mixed(&visible, start, bytes) {
                return Ok(());
            }
            let (len, seen) = (part.len, describe(start, bytes));
            return Err(broken(format!("{len} bytes at {start} read as {seen}; allowed: {visible:?}")));
        };
        // A few bytes may be those of several versions.
        let is_sure = fits.all(|it| *it == value);
        if is_sure && visible.len() > 1 && piece.may_decide(self.life, reading.since, reading.newest) {
            self.change(part, |piece| piece.decide(value, moment));
        }
        Ok(())
    }

    /// Runs within `extent` with what is to be destroyed in each: content older
    /// than the first request, and, unless it is what is there now, content
    /// older than the second.
    pub fn doomed(
        &self,
        extent: Extent<Addr>,
    ) -> impl Iterator<Item = (Extent<Addr>, Option<Tag>, Option<Tag>)> {
        self.runs(extent).map(|(run, piece)| (run, piece.dead_before, piece.rewritten_before))
    }

    fn piece(&self, at: u64) -> &Piece {
        self.pieces.range(..=at).next_back().expect("a piece begins at 0").1
    }

    /// The pieces within `extent`, cut to it.
    fn runs(&self, extent: Extent<Addr>) -> impl Iterator<Item = (Extent<Addr>, &Piece)> {
        let first = self.pieces.range(..=extent.start.0).next_back().map_or(0, |(start, _)| *start);
        let starts = self.pieces.range(first..extent.end().max(first));
        let ends = self.pieces.range(first + 1..).map(|(start, _)| *start).chain([self.size]);
        starts.zip(ends).filter_map(move |((start, piece), end)| {
            Some((Extent::between(*start, end).overlap(extent)?, piece))
        })
    }

    /// The parts of `extent` that lie in one piece and one sector.
    fn parts(&self, extent: Extent<Addr>) -> Vec<Extent<Addr>> {
        let sector = SECTOR_BYTES as u64;
        let cut = |run: Extent<Addr>| {
            (run.start.0 / sector..run.end().div_ceil(sector))
                .filter_map(move |n| Extent::new(n * sector, sector).overlap(run))
        };
        self.runs(extent).flat_map(|(run, _)| cut(run)).collect()
    }

    fn change(&mut self, extent: Extent<Addr>, mut change: impl FnMut(&mut Piece)) {
        if extent.is_empty() {
            return;
        }
        self.split(extent.start.0);
        self.split(extent.end());
        self.pieces.range_mut(extent.start.0..extent.end()).for_each(|(_, piece)| change(piece));
    }

    fn split(&mut self, at: u64) {
        if at < self.size && !self.pieces.contains_key(&at) {
            let piece = self.piece(at).clone();
            self.pieces.insert(at, piece);
        }
    }
}

/// Whether each of `bytes`, from `start` on, is of one of `values`.
fn is_mixed(values: &[Value], start: u64, bytes: &[u8]) -> bool {
    let one = |(n, byte)| values.iter().any(|value| value.is(start + n as u64, std::slice::from_ref(byte)));
    bytes.iter().enumerate().all(one)
}

/// A description of `bytes` of the disk, in words.
fn describe(start: u64, bytes: &[u8]) -> String {
    let tags: Vec<String> = crate::machine::content::marks(bytes)
        .map(|mark| {
            let home = mark.cell.extent().start.0 == start + mark.at as u64;
            format!("{:?}{}", mark.tag, if home { "" } else { " of elsewhere" })
        })
        .collect();
    match bytes.first() {
        _ if !tags.is_empty() => tags.join(", "),
        Some(first) if bytes.iter().all(|byte| byte == first) => format!("{first:#04x} repeated"),
        _ => format!("something else ({:02x?}…)", &bytes[..bytes.len().min(8)]),
    }
}

#[cfg(test)]
mod tests;
