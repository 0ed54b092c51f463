//! A medium in memory, with everything that makes real ones hard: a volatile
//! cache, torn writes, failures, and remanence.
//!
//! - A write changes the cache. Sectors go from the cache to the medium at a
//!   sync, with a durable write, or at any time that the driver picks
//!   ([`SimMedium::destage`]), each on its own, so that a power cut finds any
//!   subset of them on the medium, and of several versions of a sector any.
//! - A power cut loses the cache, but for sectors that made it just in time.
//!   The kill of a process loses nothing.
//! - A medium that [erases](SimMedium::erasing) is a translation layer: what a write replaces stays elsewhere on it, out of reach of any pass,
//!   until an erase. Its cache is the server's memory, which a kill loses as well.
//! - A write that fails has changed any subset of its sectors. A sync that
//!   fails has brought any subset to the medium; the rest is read as before,
//!   counts as clean and is lost with the power, as Linux does it: a sync by a
//!   later life of the server will not help. In the same life all later syncs
//!   fail too. Without that, of two syncs that overlap the one that fails may be
//!   reported after the other that then succeeds, and no layer above could know.

mod erasing;
pub mod record;
mod remaining;

use crate::machine::content::indices;
use crate::machine::remanence::{Layers, Mask, Remains, SECTOR_BYTES};
use crate::machine::rng::Rng;
use quietus_core::base::units::{BLOCK_BYTES, Extent, Pos};
use quietus_core::media::medium::{Capabilities, Keep, Medium, MediumError, MediumErrorKind};
use record::Record;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// The kinds of act that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FaultKind {
    Read,
    /// A write, a hole or zeros.
    Write,
    /// A sync, or a durable write.
    Sync,
    /// A write, for want of space: it changes nothing.
    Space,
    /// An act that needs space, while the [`Host`] is full.
    Full,
    /// A pass or a hole, which finds a sector that will not be erased before [`SimMedium::mend`].
    Remains,
    /// A write or a pass, which is certainly not done.
    Busy,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Kind of the act,
    pub kind: FaultKind,
    /// and the number of acts of this kind before it.
    pub after: u32,
}

/// The file system that media lie on together, and whether it is full: then no medium gets new space.
#[derive(Clone, Debug, Default)]
pub struct Host(pub Rc<Cell<bool>>);

/// Power supply of some media. The supply can be made to fail after some changes.
#[derive(Clone, Debug, Default)]
pub struct Power(Rc<Cell<Option<u32>>>);

impl Power {
    /// Lets the power fail after `changes` more changes to any of the media: from then on every act
    /// fails, until [`Power::restore`].
    pub fn light_fuse(&self, changes: u32) {
        self.0.set(Some(changes));
    }

    /// Whether the fuse has burnt down.
    pub fn is_off(&self) -> bool {
        self.0.get() == Some(0)
    }

    /// Brings the power back, or puts the fuse out.
    pub fn restore(&self) {
        self.0.set(None);
    }
}

#[derive(Debug)]
pub struct SimMedium {
    inner: RefCell<Platter>,
}

#[derive(Debug, Default)]
struct Platter {
    /// Length, and length that a power cut leaves: all of it, unless the medium grows.
    len: u64,
    durable_len: u64,
    cache: Vec<u8>,
    /// Bytes that a power cut leaves.
    durable: Vec<u8>,
    sectors: Vec<Sector>,
    cuts: u64,
    /// Sectors that will not be erased.
    stubborn: BTreeSet<usize>,
    /// Dirty sectors, and some that are not any more.
    dirty: Vec<u32>,
    remains: Remains,
    /// The traces byte by byte, where content is hidden under keys, or is such keys.
    layers: Option<Layers>,
    /// All writes, of a medium of which copies are kept.
    record: Option<Record>,
    punch: bool,
    /// Only an erase destroys what was written.
    erases: bool,
    faults: Vec<Fault>,
    fired: Vec<FaultKind>,
    power: Power,
    host: Host,
    /// A sync has failed in this life of the server.
    is_unsure: bool,
    rng: Rng,
}

/// State of a sector besides its bytes.
#[derive(Clone, Copy, Default, Debug)]
struct Sector {
    is_dirty: bool,
    is_listed: bool,
    /// Bytes written in the cache since the sector was last on the medium.
    touched: Mask,
    /// The sector's space is given back before these bytes are written.
    is_given_back: bool,
    has_space: bool,
    had_space: bool,
}

impl SimMedium {
    /// An empty medium of `size` bytes, whole sectors. Content on it counts as destroyed after
    /// `passes_min` passes.
    pub fn new(size: u64, passes_min: usize, punch: bool, power: Power) -> Self {
        assert_eq!(size % SECTOR_BYTES as u64, 0, "a medium has whole sectors");
        let count = size as usize / SECTOR_BYTES;
        let inner = Platter {
            len: size,
            durable_len: size,
            cache: vec![0; size as usize],
            durable: vec![0; size as usize],
            sectors: vec![Sector::default(); count],
            remains: Remains::new(count, passes_min),
            punch,
            power,
            rng: Rng::new(size),
            ..Platter::default()
        };
        Self { inner: RefCell::new(inner) }
    }

    /// The same medium as one of which only an erase destroys anything.
    pub fn erasing(mut self) -> Self {
        let inner = self.inner.get_mut();
        inner.erases = true;
        inner.remains = Remains::new(inner.sectors.len(), usize::MAX);
        self
    }

    /// A medium without a byte, that grows to `size_max` bytes with what is written.
    pub fn growing(size_max: u64, passes_min: usize, punch: bool, power: Power) -> Self {
        let mut medium = Self::new(size_max, passes_min, punch, power);
        let inner = medium.inner.get_mut();
        (inner.len, inner.durable_len) = (0, 0);
        medium
    }

    pub fn on_host(self, host: &Host) -> Self {
        self.inner.borrow_mut().host = host.clone();
        self
    }

    /// A medium of stubs, each of this many bytes, which begin like cells.
    pub fn of_stubs(mut self, bytes: usize) -> Self {
        if bytes > 0 {
            self.inner.get_mut().remains.take_heads(bytes);
        }
        self
    }

    /// The medium of content that only shows under keys, or of such keys: bytes count as destroyed after `passes_min`
    /// passes.
    pub fn with_layers(mut self, passes_min: usize) -> Self {
        let inner = self.inner.get_mut();
        inner.layers = Some(Layers::new(inner.sectors.len(), passes_min));
        self
    }

    pub fn reseed(&self, seed: u64) {
        self.inner.borrow_mut().rng = Rng::new(seed);
    }

    pub fn plan(&self, fault: Fault) {
        self.inner.borrow_mut().faults.push(fault);
    }

    /// Forgets planned failures that did not come, and lets one that came not come again, as the
    /// server starts anew. A medium that is busy stays so.
    pub fn heal(&self) {
        let mut inner = self.inner.borrow_mut();
        inner.faults.retain(|fault| fault.kind == FaultKind::Busy);
        inner.is_unsure = false;
    }

    /// Failures since this was last called.
    pub fn take_fired(&self) -> Vec<FaultKind> {
        std::mem::take(&mut self.inner.borrow_mut().fired)
    }

    /// Brings at most `sectors_max` dirty sectors, by chance, to the medium.
    pub fn destage(&self, sectors_max: u64) {
        let mut inner = self.inner.borrow_mut();
        inner.durable_len = inner.durable_len.max(inner.len);
        for _ in 0..sectors_max.min(inner.dirty.len() as u64) {
            let dirty = inner.dirty.len();
            let index = inner.rng.index(dirty);
            let sector = inner.dirty.swap_remove(index) as usize;
            inner.sectors[sector].is_listed = false;
            inner.settle(sector);
        }
    }

    /// Cuts the power, which comes back: the content of the cache is gone, except for sectors that
    /// made it just in time.
    pub fn cut_power(&self) {
        self.inner.borrow_mut().cut_power();
    }

    /// Session of the medium's host: another one after each power cut.
    pub fn session(&self) -> u64 {
        self.inner.borrow().cuts
    }

    /// Leaves a write of `from` at `pos` torn, as the power or the process went: any subset of its
    /// sectors has changed.
    pub fn tear(&self, pos: Pos, from: &[u8]) {
        let mut inner = self.inner.borrow_mut();
        inner.note(pos, from);
        inner.write_some(pos, from);
    }

    /// Changes a bit, as a failing medium does: no write tells of it.
    pub fn flip(&self, at: Pos) {
        let Platter { cache, durable, .. } = &mut *self.inner.borrow_mut();
        [cache, durable].into_iter().for_each(|bytes| bytes[at.0 as usize] ^= 1);
    }

    /// Parts of the medium that have no space allocated, ascending.
    pub fn holes(&self) -> Vec<Extent<Pos>> {
        let inner = self.inner.borrow();
        let mut holes: Vec<Extent<Pos>> = Vec::new();
        for (n, _) in inner.sectors.iter().enumerate().filter(|(_, it)| !it.has_space) {
            let start = (n * SECTOR_BYTES) as u64;
            match holes.last_mut().filter(|hole| hole.end() == start) {
                Some(hole) => hole.len += SECTOR_BYTES as u64,
                None => holes.push(Extent::new(start, SECTOR_BYTES as u64)),
            }
        }
        holes
    }

    /// Hands `look` the findings of a laboratory.
    pub fn inspect<T>(&self, look: impl FnOnce(&Remains) -> T) -> T {
        look(&self.inner.borrow().remains)
    }

    /// The contents of the sector at `start`, now, below the cache, and before, each with bytes of `from..to` that have fewer than `passes`
    /// passes.
    pub fn layers(&self, start: Pos, from: usize, to: usize, passes: usize) -> Vec<[u8; SECTOR_BYTES]> {
        let inner = self.inner.borrow();
        let range = indices(Extent::<Pos>::new(start.0, SECTOR_BYTES as u64), 0);
        let now =
            [&inner.cache, &inner.durable].map(|bytes| bytes[range.clone()].try_into().expect("a sector"));
        let sector = start.0 as usize / SECTOR_BYTES;
        let past = inner.layers.iter().flat_map(|it| it.with(sector, from, to, passes)).map(|it| it.bytes);
        now.into_iter().chain(past).collect()
    }

    /// Bytes of space that the medium takes.
    pub fn space(&self) -> u64 {
        let inner = self.inner.borrow();
        let within = inner.sectors.iter().take((inner.len as usize).div_ceil(SECTOR_BYTES));
        within.filter(|sector| sector.has_space).count() as u64 * SECTOR_BYTES as u64
    }

    /// Hands `look` the bytes of `extent` as they are read now.
    pub fn peek<T>(&self, extent: Extent<Pos>, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.inner.borrow().cache[indices(extent, 0)])
    }

    /// Hands `look` the bytes of `extent` as a power cut leaves them if the whole cache is lost.
    pub fn peek_durable<T>(&self, extent: Extent<Pos>, look: impl FnOnce(&[u8]) -> T) -> T {
        look(&self.inner.borrow().durable[indices(extent, 0)])
    }
}

impl Platter {
    /// Counts an act of `kind`, and fails if that was planned.
    fn admit(&mut self, kind: FaultKind) -> Result<(), MediumError> {
        if self.power.is_off() {
            return Err(error(MediumErrorKind::Io, "the power is off"));
        }
        if kind != FaultKind::Read {
            self.power.0.set(self.power.0.get().map(|left| left - 1));
        }
        let hit = self.comes(kind) || self.is_unsure && kind == FaultKind::Sync;
        if !hit {
            return Ok(());
        }
        self.fired.push(kind);
        self.is_unsure |= kind == FaultKind::Sync;
        Err(match kind {
            FaultKind::Space => error(MediumErrorKind::NoSpace, "planned: no space"),
            _ => error(MediumErrorKind::Io, "planned: it failed"),
        })
    }

    /// Counts an act of `kind`: whether a failure of it was planned.
    fn comes(&mut self, kind: FaultKind) -> bool {
        let mut hit = false;
        for fault in self.faults.iter_mut().filter(|fault| fault.kind == kind) {
            hit |= fault.after == 0;
            fault.after = fault.after.wrapping_sub(1);
        }
        self.faults.retain(|fault| fault.after != u32::MAX);
        hit
    }

    /// Refuses an act that needs space in `extent`, if the host is full.
    fn find_space(&mut self, extent: Extent<Pos>) -> Result<(), MediumError> {
        // A host gives space by blocks.
        let sectors = BLOCK_BYTES as usize / SECTOR_BYTES;
        let has_space = |sector: usize| {
            let first = sector / sectors * sectors;
            self.sectors[first..self.sectors.len().min(first + sectors)].iter().any(|it| it.has_space)
        };
        let mut parts = Self::parts(extent.start, extent.len as usize);
        if !self.host.0.get() || parts.all(|(sector, _)| has_space(sector)) {
            return Ok(());
        }
        self.fired.push(FaultKind::Full);
        Err(error(MediumErrorKind::NoSpace, "the host is full"))
    }

    /// Sectors of `len` bytes from `pos`, each with its part of them.
    fn parts(pos: Pos, len: usize) -> impl Iterator<Item = (usize, Extent<Pos>)> {
        let whole = Extent::<Pos>::new(pos.0, len as u64);
        let sector = SECTOR_BYTES as u64;
        (pos.0 / sector..whole.end().div_ceil(sector))
            .filter_map(move |n| Some((n as usize, Extent::new(n * sector, sector).overlap(whole)?)))
    }

    fn put(&mut self, sector: usize, part: Extent<Pos>, bytes: &[u8]) {
        self.len = self.len.max(part.end());
        self.cache[indices(part, 0)].copy_from_slice(bytes);
        let from = part.start.0 as usize % SECTOR_BYTES;
        let state = self.soil(sector);
        state.touched.add(Mask::of(from, from + part.len as usize));
        state.has_space = true;
    }

    fn write(&mut self, pos: Pos, from: &[u8]) {
        for (sector, part) in Self::parts(pos, from.len()) {
            self.put(sector, part, &from[indices(part, pos.0)]);
        }
    }

    fn write_some(&mut self, pos: Pos, from: &[u8]) {
        let percent = self.rng.pick(&[10, 50, 90]);
        for (sector, part) in Self::parts(pos, from.len()) {
            if self.rng.chance(percent) {
                self.put(sector, part, &from[indices(part, pos.0)]);
            }
        }
    }

    /// Makes zeros that are not written: the file system remembers them. A part of a sector has to
    /// be written.
    fn zero(&mut self, extent: Extent<Pos>, give_back: bool) {
        for (sector, part) in Self::parts(extent.start, extent.len as usize) {
            if part.len < SECTOR_BYTES as u64 {
                self.put(sector, part, &[0; SECTOR_BYTES][..part.len as usize]);
                continue;
            }
            self.cache[indices(part, 0)].fill(0);
            let state = self.soil(sector);
            state.touched = Mask::default();
            state.is_given_back |= give_back;
            state.has_space = !give_back;
        }
    }

    fn soil(&mut self, sector: usize) -> &mut Sector {
        let state = &mut self.sectors[sector];
        state.is_dirty = true;
        if !std::mem::replace(&mut state.is_listed, true) {
            self.dirty.push(sector as u32);
        }
        state
    }

    /// Brings `sector` from the cache to the medium, if it is dirty.
    fn settle(&mut self, sector: usize) {
        let Sector { is_dirty: true, touched, is_given_back, has_space, is_listed, .. } =
            self.sectors[sector]
        else {
            return;
        };
        let range = sector * SECTOR_BYTES..(sector + 1) * SECTOR_BYTES;
        if is_given_back && !self.erases {
            self.remains.give_back(sector);
        }
        self.durable[range.clone()].copy_from_slice(&self.cache[range.clone()]);
        self.note_settled(sector);
        self.remains.layer(sector, &self.durable[range.clone()], touched);
        if let Some(layers) = &mut self.layers {
            layers.layer(sector, &self.durable[range], touched);
        }
        self.sectors[sector] = Sector { is_listed, has_space, had_space: has_space, ..Sector::default() };
    }

    /// Fails a sync of `sectors`: any subset made it, the rest counts as clean.
    fn sync_some(&mut self, sectors: impl Iterator<Item = usize>) {
        let percent = self.rng.pick(&[0, 50, 90]);
        self.durable_len = self.durable_len.max(self.len);
        for sector in sectors {
            if self.rng.chance(percent) {
                self.settle(sector);
            }
            let state = &mut self.sectors[sector];
            (state.is_dirty, state.touched, state.is_given_back) = (false, Mask::default(), false);
        }
    }

    /// Clears the durable medium beyond its end, and gives the space there back.
    fn cut_off(&mut self) {
        let first = (self.len as usize).div_ceil(SECTOR_BYTES);
        for sector in first..self.sectors.len() {
            if self.sectors[sector].had_space {
                if !self.erases {
                    self.remains.give_back(sector);
                }
                self.sectors[sector].had_space = false;
            }
        }
        self.durable[first * SECTOR_BYTES..].fill(0);
    }

    /// Drops, with its end, the length that the medium grew by: the bytes there are not of the host's
    /// file any more, and no disk has to destroy them.
    fn cut_power(&mut self) {
        let percent = self.rng.pick(&[0, 0, 20, 50, 80, 100]);
        let (short, long) = (self.len.min(self.durable_len), self.len.max(self.durable_len));
        let has_shrunk = self.len < self.durable_len;
        self.len = if self.rng.chance(50) { short } else { long };
        self.durable_len = self.len;
        for sector in std::mem::take(&mut self.dirty) {
            let is_beyond = sector as usize * SECTOR_BYTES >= self.len as usize;
            if self.rng.chance(percent) && (has_shrunk || !is_beyond) {
                self.settle(sector as usize);
            }
        }
        self.cut_off();
        self.cache.copy_from_slice(&self.durable);
        for state in &mut self.sectors {
            *state = Sector { has_space: state.had_space, had_space: state.had_space, ..Sector::default() };
        }
        self.faults.retain(|fault| fault.kind == FaultKind::Busy);
        self.is_unsure = false;
        self.cuts += 1;
    }
}

fn error(kind: MediumErrorKind, message: &str) -> MediumError {
    MediumError { kind, message: message.into() }
}

impl Medium for SimMedium {
    fn size(&self) -> u64 {
        self.inner.borrow().len
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        inner.admit(FaultKind::Read)?;
        assert!(
            pos.0 + into.len() as u64 <= inner.len,
            "a read beyond the end, {} bytes at {pos:?}",
            into.len()
        );
        into.copy_from_slice(&inner.cache[indices(Extent::<Pos>::new(pos.0, into.len() as u64), 0)]);
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        inner.admit(FaultKind::Space)?;
        inner.find_space(Extent::new(pos.0, from.len() as u64))?;
        inner.be_ready()?;
        inner.note(pos, from);
        inner.admit(FaultKind::Write).inspect_err(|_| inner.write_some(pos, from))?;
        inner.write(pos, from);
        if !durable {
            return Ok(());
        }
        let sectors = Platter::parts(pos, from.len()).map(|(sector, _)| sector);
        if let Err(error) = inner.admit(FaultKind::Sync) {
            inner.sync_some(sectors);
            return Err(error);
        }
        sectors.for_each(|sector| inner.settle(sector));
        inner.durable_len = inner.durable_len.max(pos.0 + from.len() as u64);
        Ok(())
    }

    fn overwrite(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        self.inner.borrow_mut().erase(Extent::new(pos.0, from.len() as u64), Some(from))?;
        self.write(pos, from, false)
    }

    fn sync(&self) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        if let Err(error) = inner.admit(FaultKind::Sync) {
            let dirty = inner.dirty.clone();
            inner.sync_some(dirty.into_iter().map(|sector| sector as usize));
            return Err(error);
        }
        inner.durable_len = inner.len;
        for sector in std::mem::take(&mut inner.dirty) {
            inner.sectors[sector as usize].is_listed = false;
            inner.settle(sector as usize);
        }
        Ok(())
    }

    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        assert!(inner.punch, "a hole was asked of a medium that cannot make holes");
        inner.erase(extent, None)?;
        inner.admit(FaultKind::Write)?;
        inner.zero(extent, true);
        Ok(())
    }

    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        inner.find_space(extent)?;
        inner.admit(FaultKind::Write)?;
        inner.zero(extent, false);
        Ok(())
    }

    fn reserve(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        inner.find_space(extent)?;
        inner.admit(FaultKind::Write)?;
        for (sector, _) in Platter::parts(extent.start, extent.len as usize) {
            if !inner.sectors[sector].has_space {
                inner.soil(sector).has_space = true;
            }
        }
        Ok(())
    }

    fn shrink(&self, bytes: u64) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        inner.admit(FaultKind::Write)?;
        let cut = Extent::<Pos>::between(bytes.min(inner.len), inner.len);
        inner.zero(cut, true);
        inner.len = cut.start.0;
        Ok(())
    }

    fn next_data(&self, pos: Pos) -> Pos {
        let inner = self.inner.borrow();
        let first = pos.0 as usize / SECTOR_BYTES;
        let has_data = |it: &Sector| it.has_space || it.is_dirty;
        let found = inner.sectors.iter().skip(first).position(has_data);
        let at = found.map_or(inner.len, |more| ((first + more) * SECTOR_BYTES) as u64);
        Pos(at.max(pos.0))
    }

    fn erase(&self, extents: &[Extent<Pos>], keep: Keep) -> Result<(), MediumError> {
        let mut inner = self.inner.borrow_mut();
        assert!(inner.erases, "an erase was asked of a medium that cannot");
        inner.destroy(extents, keep)
    }

    fn capabilities(&self) -> Capabilities {
        let inner = self.inner.borrow();
        Capabilities { punch: inner.punch, erases: inner.erases }
    }
}

#[cfg(test)]
mod tests;
