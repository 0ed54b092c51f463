//! What a laboratory could still find: every past layer of every sector, by
//! its content, with the passes that came over it.
//!
//! Rules:
//! 1. A layer is made when a sector is brought from the cache to the medium.
//!    Two writes that a cache folds are one layer.
//! 2. A layer without recognisable content is a pass over what lies below;
//!    one with content is none, even though it covers.
//! 3. Making zeros without writing them (as a file system or a thin pool does)
//!    changes what is read and no layer: no pass.
//! 4. Space that was given back is out of reach: what lay there can never be
//!    passed over again. Later writes go elsewhere.
//! 5. Passes are counted a byte; those of a trace are the fewest of its bytes.

use crate::content::{CELL_BYTES, Cell, HEAD_BYTES, Mark, Tag, marks};
use quietus_core::units::{Addr, Extent};

/// Bytes that a medium writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Bytes of one sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mask([u64; 8]);

impl Mask {
    /// All bytes.
    pub const ALL: Self = Self([u64::MAX; 8]);

    /// Bytes `from..to`.
    #[must_use]
    pub fn of(from: usize, to: usize) -> Self {
        let mut mask = Self::default();
        if to - from == SECTOR_BYTES {
            return Self::ALL;
        }
        for at in from..to {
            mask.0[at / 64] |= 1 << (at % 64);
        }
        mask
    }

    /// Adds `other`.
    pub fn add(&mut self, other: Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(word, more)| *word |= more);
    }

    /// Takes `other` out.
    pub fn remove(&mut self, other: Self) {
        self.0
            .iter_mut()
            .zip(other.0)
            .for_each(|(word, less)| *word &= !less);
    }

    fn has(self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    fn is_none(self) -> bool {
        self.0 == [0; 8]
    }

    fn is_all(self) -> bool {
        self == Self::ALL
    }
}

/// Content that was on the medium once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    /// Where in its sector it begins.
    pub at: usize,
    /// The write that it is of.
    pub tag: Tag,
    /// The cell of the disk that it is the content of.
    pub cell: Cell,
    passes: Passes,
}

/// Passes over the bytes of a trace.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Passes {
    All(u8),
    Each(Box<[u8; CELL_BYTES as usize]>),
}

impl Trace {
    fn new(mark: Mark) -> Self {
        Self {
            at: mark.at,
            tag: mark.tag,
            cell: mark.cell,
            passes: Passes::All(0),
        }
    }

    /// Passes over those of its bytes that are content of `extent`; none if
    /// there are no such bytes.
    #[must_use]
    pub fn passes_within(&self, extent: Extent<Addr>) -> Option<u8> {
        let part = self.cell.extent().overlap(extent)?;
        let from = (part.start.0 - self.cell.extent().start.0) as usize;
        let to = (from + part.len as usize).min(self.len());
        match &self.passes {
            _ if from >= to => None,
            Passes::All(passes) => Some(*passes),
            Passes::Each(each) => each[from..to].iter().min().copied(),
        }
    }

    fn fewest(&self) -> u8 {
        match &self.passes {
            Passes::All(passes) => *passes,
            Passes::Each(each) => each[..self.len()].iter().min().copied().unwrap_or(0),
        }
    }

    /// Its bytes in its sector.
    fn len(&self) -> usize {
        (CELL_BYTES as usize).min(SECTOR_BYTES - self.at)
    }

    fn is_of(&self, mark: &Mark) -> bool {
        (self.at, self.tag, self.cell) == (mark.at, mark.tag, mark.cell)
    }

    /// A layer covers it: `bytes`, of which `touched` were written.
    fn cover(&mut self, bytes: &[u8], touched: Mask, found: &[Mark]) {
        if found.iter().any(|mark| self.is_of(mark)) {
            self.passes = Passes::All(0);
        } else if found
            .iter()
            .all(|mark| mark.at.abs_diff(self.at) >= CELL_BYTES as usize)
        {
            self.pass(bytes, touched);
        }
    }

    fn pass(&mut self, bytes: &[u8], touched: Mask) {
        let (from, to) = (self.at, self.at + self.len());
        let hit = (from..to).filter(|at| touched.has(*at)).count();
        if touched.is_all() || hit == to - from {
            self.pass_all();
        } else if hit > 0 {
            self.pass_some(bytes, touched, hit);
        }
    }

    fn pass_all(&mut self) {
        match &mut self.passes {
            Passes::All(passes) => *passes = passes.saturating_add(1),
            Passes::Each(each) => each.iter_mut().for_each(|it| *it = it.saturating_add(1)),
        }
    }

    /// Only some of its bytes were written. They may be its own again (part of
    /// it was kept): fewer than eight could be so by chance, and count as a pass.
    fn pass_some(&mut self, bytes: &[u8], touched: Mask, hit: usize) {
        let own = self.cell.bytes(self.tag);
        let (at, len) = (self.at, self.len());
        let written = (0..len).filter(|n| touched.has(at + n));
        let restored = hit >= 8 && written.clone().all(|n| own[n] == bytes[at + n]);
        let mut each = match &self.passes {
            Passes::All(passes) => Box::new([*passes; CELL_BYTES as usize]),
            Passes::Each(each) => each.clone(),
        };
        for n in written {
            each[n] = if restored {
                0
            } else {
                each[n].saturating_add(1)
            };
        }
        self.passes = Passes::Each(each);
    }
}

/// All traces of a medium.
#[derive(Clone, Debug)]
pub struct Remains {
    passes_min: u8,
    sectors: Vec<Vec<Trace>>,
    adrift: Vec<Trace>,
}

impl Remains {
    /// Those of an empty medium of `sectors` sectors, on which content counts
    /// as destroyed after `passes_min` passes.
    #[must_use]
    pub fn new(sectors: usize, passes_min: usize) -> Self {
        let passes_min = u8::try_from(passes_min).unwrap_or(u8::MAX);
        Self {
            passes_min,
            sectors: vec![Vec::new(); sectors],
            adrift: Vec::new(),
        }
    }

    /// A layer was made of `sector`: it is `bytes` now, `touched` of them
    /// written.
    pub fn layer(&mut self, sector: usize, bytes: &[u8], touched: Mask) {
        if touched.is_none() {
            return;
        }
        let traces = &mut self.sectors[sector];
        let mut buffer = [Mark {
            at: 0,
            tag: Tag(0),
            cell: Cell(0),
        }; SECTOR_BYTES / HEAD_BYTES];
        let mut count = 0;
        for mark in marks(bytes) {
            buffer[count] = mark;
            count += 1;
        }
        let found = &buffer[..count];
        for trace in traces.iter_mut() {
            trace.cover(bytes, touched, found);
        }
        traces.retain(|trace| trace.fewest() < self.passes_min);
        for mark in found {
            if !traces.iter().any(|trace| trace.is_of(mark)) {
                traces.push(Trace::new(*mark));
            }
        }
    }

    /// The space of `sector` was given back.
    pub fn give_back(&mut self, sector: usize) {
        self.adrift.append(&mut self.sectors[sector]);
    }

    /// Content that was not destroyed, with its sector; none if its space was
    /// given back.
    pub fn iter(&self) -> impl Iterator<Item = (Option<usize>, &Trace)> {
        let placed = self.sectors.iter().enumerate();
        let placed =
            placed.flat_map(|(sector, traces)| traces.iter().map(move |it| (Some(sector), it)));
        placed.chain(self.adrift.iter().map(|it| (None, it)))
    }
}

#[cfg(test)]
mod tests;
