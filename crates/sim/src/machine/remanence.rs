//! The findings of a laboratory: every past layer of every sector, by its content, with the passes
//! that came over it.
//!
//! Rules:
//! 1. A layer is made when a sector is brought from the cache to the medium.
//!    Two writes that a cache folds are one layer.
//! 2. A layer without recognisable content is a pass over what lies below;
//!    one with content is no pass, even though it covers. Where one pass is enough,
//!    any other content is one too (docs/decisions/0007-one-pass.md).
//! 3. Zeros that are made without being written (as a file system or a thin pool does) change what
//!    is read and no layer: no pass.
//! 4. Space that was given back is out of reach: content there can never be passed over again.
//!    Later writes go elsewhere.
//! 5. Passes are counted a byte, and judged a word: that a pattern looks like a
//!    word of content has a chance of 2^-64.

mod layers;

use crate::machine::content::{CELL_BYTES, Cell, HEAD_BYTES, Mark, Tag, marks};
pub use layers::Layers;
use quietus_core::base::units::{Addr, Extent};

/// Bytes that a medium writes whole or not at all.
pub const SECTOR_BYTES: usize = 512;

/// Bytes in the unit in which content is compared: a part of a trace that is
/// shorter could be what it is by chance, and is not judged.
const WORD_BYTES: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Mask([u64; 8]);

impl Mask {
    pub const ALL: Self = Self([u64::MAX; 8]);

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

    pub fn add(&mut self, other: Self) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }

    fn has(self, at: usize) -> bool {
        self.0[at / 64] & (1 << (at % 64)) != 0
    }

    /// Whether all bytes of word `n` are among these.
    fn has_word(self, n: usize) -> bool {
        (self.0[n / 8] >> (n % 8 * WORD_BYTES)) as u8 == u8::MAX
    }
}

/// Content that was on the medium once.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    pub at: usize,
    pub tag: Tag,
    /// The cell of the disk whose content it is.
    pub cell: Cell,
    /// Bytes of the trace, if the sector does not end before.
    bytes: usize,
    passes: [u8; CELL_BYTES as usize],
}

impl Trace {
    /// The trace of `mark`, which was found in the layer `bytes`. Words that are not of the mark
    /// never were there.
    fn new(mark: Mark, bytes: &[u8], most: usize) -> Self {
        let Mark { at, tag, cell } = mark;
        let mut trace = Self { at, tag, cell, bytes: most, passes: [0; CELL_BYTES as usize] };
        let (own, len) = (trace.cell.bytes(trace.tag), trace.len());
        let there = &bytes[trace.at..trace.at + len];
        if there != &own[..len] {
            trace.passes.fill(u8::MAX);
            for from in (0..len / WORD_BYTES * WORD_BYTES).step_by(WORD_BYTES) {
                let word = from..from + WORD_BYTES;
                if own[word.clone()] == there[word.clone()] {
                    trace.passes[word].fill(0);
                }
            }
        }
        trace
    }

    /// The fewest passes over the words that are content of `extent`, whole; `None` if there are no
    /// such words.
    pub fn passes_within(&self, extent: Extent<Addr>) -> Option<u8> {
        let (from, to) = self.words(extent);
        self.passes.get(from..to)?.iter().min().copied()
    }

    /// Words that are content of `extent`, whole, and have fewer than `passes` passes over them.
    pub fn lacking(&self, extent: Extent<Addr>, passes: usize) -> impl Iterator<Item = Extent<Addr>> {
        let (from, to) = self.words(extent);
        let base = self.cell.extent().start.0;
        let words =
            (from..to).step_by(WORD_BYTES).map(move |n| Extent::new(base + n as u64, WORD_BYTES as u64));
        words.filter(move |word| self.passes_within(*word).is_some_and(|has| usize::from(has) < passes))
    }

    /// Begin and end, in the trace, of the words that are content of `extent`, whole.
    fn words(&self, extent: Extent<Addr>) -> (usize, usize) {
        let Some(part) = self.cell.extent().overlap(extent) else { return (0, 0) };
        let base = self.cell.extent().start.0;
        let (from, to) = ((part.start.0 - base) as usize, (part.end() - base) as usize);
        (from.next_multiple_of(WORD_BYTES), to.min(self.len()) / WORD_BYTES * WORD_BYTES)
    }

    fn fewest(&self) -> u8 {
        self.passes[..self.len()].iter().min().copied().unwrap_or(0)
    }

    /// Length of the trace in its sector, bytes.
    fn len(&self) -> usize {
        self.bytes.min(SECTOR_BYTES - self.at)
    }

    /// Covers the trace with a layer: `bytes`, of which `touched` were written. `content`: whether
    /// that is a pass.
    fn cover(&mut self, bytes: &[u8], touched: Mask, found: &[Mark], content: bool) {
        let mut near = found.iter().filter(|mark| mark.at.abs_diff(self.at) < self.bytes);
        let hit = (self.at..self.at + self.len()).filter(|at| touched.has(*at)).count();
        match near.next() {
            _ if hit == 0 => {}
            Some(_) if content => self.pass_some(bytes, touched, None),
            None if hit == self.len() => self.passes.iter_mut().for_each(|it| *it = it.saturating_add(1)),
            None => self.pass_some(bytes, touched, None),
            Some(mark) if mark.at == self.at => self.pass_some(bytes, touched, Some(*mark)),
            // Content that lies across it: no pass, to be on the safe side.
            Some(_) => {}
        }
    }

    /// Counts a pass word by word, where only some of the bytes were written, or some of the
    /// written ones are content: the trace's own, or that of `mark`, which is no pass.
    fn pass_some(&mut self, bytes: &[u8], touched: Mask, mark: Option<Mark>) {
        let (own, at, len) = (self.cell.bytes(self.tag), self.at, self.len());
        let other = mark.map_or(own, |mark| mark.cell.bytes(mark.tag));
        for from in (0..len).step_by(WORD_BYTES) {
            let word = from..len.min(from + WORD_BYTES);
            let written = || word.clone().filter(|n| touched.has(at + n));
            let there = &bytes[at + word.start..at + word.end];
            let is_whole = written().count() == WORD_BYTES;
            let is = |content: &[u8]| is_whole && &content[word.clone()] == there;
            for n in written().filter(|_| is(&own) || !is(&other)) {
                self.passes[n] = if is(&own) { 0 } else { self.passes[n].saturating_add(1) };
            }
        }
    }
}

/// The traces of all content that can be recognised in a sector.
pub fn traces(sector: &[u8]) -> Vec<Trace> {
    marks(sector).map(|mark| Trace::new(mark, sector, CELL_BYTES as usize)).collect()
}

#[derive(Clone, Debug, Default)]
pub struct Remains {
    passes_min: u8,
    /// Bytes of each trace, at most.
    trace_bytes: usize,
    sectors: Vec<Vec<Trace>>,
    adrift: Vec<Trace>,
}

impl Remains {
    /// The traces of an empty medium of `sectors` sectors, on which content counts as destroyed
    /// after `passes_min` passes.
    pub fn new(sectors: usize, passes_min: usize) -> Self {
        let passes_min = u8::try_from(passes_min).unwrap_or(u8::MAX);
        let trace_bytes = CELL_BYTES as usize;
        Self { passes_min, trace_bytes, sectors: vec![Vec::new(); sectors], adrift: Vec::new() }
    }

    /// Recognises content that has only the first bytes of each cell.
    pub fn take_heads(&mut self, trace_bytes: usize) {
        assert!((HEAD_BYTES..=CELL_BYTES as usize).contains(&trace_bytes), "a head is recognised as a whole");
        self.trace_bytes = trace_bytes;
    }

    /// Adds a layer of `sector`, which is `bytes` now, `touched` of them written.
    pub fn layer(&mut self, sector: usize, bytes: &[u8], touched: Mask) {
        if touched == Mask::default() {
            return;
        }
        let traces = &mut self.sectors[sector];
        let mut buffer = [Mark { at: 0, tag: Tag(0), cell: Cell(0) }; SECTOR_BYTES / HEAD_BYTES];
        let mut count = 0;
        for mark in marks(bytes) {
            buffer[count] = mark;
            count += 1;
        }
        let found = &buffer[..count];
        for trace in traces.iter_mut() {
            trace.cover(bytes, touched, found, self.passes_min <= 1);
        }
        traces.retain(|trace| trace.fewest() < self.passes_min);
        for mark in found {
            if !traces.iter().any(|it| (it.at, it.tag, it.cell) == (mark.at, mark.tag, mark.cell)) {
                traces.push(Trace::new(*mark, bytes, self.trace_bytes));
            }
        }
    }

    /// Notes that all that ever was in `sector` is destroyed.
    pub fn erase(&mut self, sector: usize) {
        self.sectors[sector].clear();
    }

    /// Notes that the space of `sector` was given back.
    pub fn give_back(&mut self, sector: usize) {
        self.adrift.append(&mut self.sectors[sector]);
    }

    /// Content that was not destroyed, with its sector; `None` if its space was
    /// given back.
    pub fn iter(&self) -> impl Iterator<Item = (Option<usize>, &Trace)> {
        let placed = self.sectors.iter().enumerate();
        let placed = placed.flat_map(|(sector, traces)| traces.iter().map(move |it| (Some(sector), it)));
        placed.chain(self.adrift.iter().map(|it| (None, it)))
    }
}

#[cfg(test)]
mod tests;
