//! Many extents in one line of a log, whatever they are extents of.

use serde::{Deserialize, Serialize};

/// Extents that one line names.
pub const RUNS_MAX: usize = 1024;
/// Largest unit that the places of a line are counted in.
const UNIT_BYTES_MAX: u64 = 4096;

/// Extents, each with an instant and a kind.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Batch<K> {
    /// The first instant, in milliseconds since 1970.
    pub from_ms: u64,
    /// All bytes of the extents.
    pub bytes: u64,
    /// Bytes in a unit of `runs`.
    pub unit: u64,
    /// The kinds that occur.
    pub kinds: Vec<K>,
    /// A list for each instant and kind: milliseconds since
    /// `from_ms`; the number of the kind in `kinds`; then, for each extent, the units
    /// between it and the end of the one before (at first byte 0), and its units.
    pub runs: Vec<Vec<i64>>,
}

/// An extent of a batch.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run<'a, K> {
    /// Milliseconds since 1970.
    pub time_ms: u64,
    /// How the extent died, or was destroyed.
    pub kind: &'a K,
    /// The first byte.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

impl<K> Batch<K> {
    /// All extents, in order; empty if the fields make no sense.
    pub fn all(&self) -> impl Iterator<Item = Run<'_, K>> {
        self.runs.iter().filter_map(|run| self.decoded(run)).flatten()
    }

    fn decoded(&self, run: &[i64]) -> Option<Vec<Run<'_, K>>> {
        let (&[after, kind], pairs) = run.split_first_chunk()?;
        let time_ms = self.from_ms.saturating_add_signed(after);
        let kind = self.kinds.get(usize::try_from(kind).ok()?)?;
        let (pairs, _) = pairs.as_chunks::<2>();
        let mut end = 0_u64;
        let runs = pairs.iter().map(|[gap, len]| {
            let start = end.checked_add_signed(*gap)?;
            end = start.checked_add_signed(*len)?;
            let bytes = |units: u64| units.checked_mul(self.unit);
            Some(Run { time_ms, kind, start: bytes(start)?, len: bytes(end - start)? })
        });
        runs.collect()
    }
}

/// Collects extents for a [`Batch`].
#[derive(Debug)]
pub struct Collector<K> {
    kinds: Vec<K>,
    /// Milliseconds since 1970, number of the kind, first byte and length of each extent.
    runs: Vec<(u64, usize, u64, u64)>,
}

impl<K> Default for Collector<K> {
    fn default() -> Self {
        Self { kinds: Vec::new(), runs: Vec::new() }
    }
}

impl<K: PartialEq> Collector<K> {
    /// Adds the extent of `len` bytes from `start` on. An extent that follows the last one, at the
    /// same instant and of the same kind, becomes a part of it.
    pub fn push(&mut self, time_ms: u64, kind: K, start: u64, len: u64) {
        let number = self.kinds.iter().position(|it| *it == kind).unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        match self.runs.last_mut() {
            Some((at, of, from, last)) if (*at, *of, *from + *last) == (time_ms, number, start) => {
                *last += len;
            }
            _ => self.runs.push((time_ms, number, start, len)),
        }
    }

    /// How many extents were collected.
    #[must_use]
    pub fn count(&self) -> usize {
        self.runs.len()
    }

    /// The extents collected so far, if there are any.
    pub fn take(&mut self) -> Option<Batch<K>> {
        let (kinds, runs) = (std::mem::take(&mut self.kinds), std::mem::take(&mut self.runs));
        let (from_ms, ..) = *runs.first()?;
        let mixed = runs.iter().fold(UNIT_BYTES_MAX, |mixed, (.., start, len)| mixed | start | len);
        let unit = 1 << mixed.trailing_zeros();
        let (mut groups, mut last): (Vec<Vec<i64>>, _) = (Vec::new(), None);
        let mut end = 0;
        for (time_ms, kind, start, len) in &runs {
            if last.replace((*time_ms, *kind)) != Some((*time_ms, *kind)) {
                groups.push(vec![time_ms.wrapping_sub(from_ms) as i64, *kind as i64]);
                end = 0;
            }
            let (start, len) = ((start / unit) as i64, (len / unit) as i64);
            if let Some(group) = groups.last_mut() {
                group.extend([start - end, len]);
            }
            end = start + len;
        }
        let bytes = runs.iter().map(|(.., len)| len).sum();
        Some(Batch { from_ms, bytes, unit, kinds, runs: groups })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_tells_what_was_collected() {
        let told = [
            (5000, "a", 4096, 8192),
            (5000, "a", 65536, 512),
            (5000, "a", 0, 512),
            (5000, "b", 512, 512),
            (5003, "a", 4096, 8192),
            (4990, "a", 1 << 62, 1 << 61),
        ];
        let mut collector = Collector::default();
        told.iter().for_each(|(at, kind, start, len)| collector.push(*at, *kind, *start, *len));
        assert_eq!(collector.count(), told.len());
        let batch = collector.take().expect("something was collected");
        let all: Vec<_> = batch.all().map(|it| (it.time_ms, *it.kind, it.start, it.len)).collect();
        assert_eq!(all, told);
        assert_eq!((batch.from_ms, batch.unit), (5000, 512));
        assert_eq!(batch.runs[0], [0, 0, 8, 16, 104, 1, -129, 1]);
        assert_eq!(collector.take(), None);
    }

    #[test]
    fn neighbours_that_come_together_are_one_run() {
        let mut collector = Collector::default();
        for n in 0..100 {
            collector.push(1, (), n * 4096, 4096);
        }
        let batch = collector.take().expect("something was collected");
        assert_eq!((batch.unit, batch.runs), (4096, vec![vec![0, 0, 0, 100]]));
    }

    #[test]
    fn what_makes_no_sense_is_left_out() {
        let runs =
            vec![vec![], vec![0], vec![0, 7, 1, 1], vec![0, 0, -1, 1], vec![0, 0, 1, -9], vec![0, 0, 1]];
        let batch = Batch { from_ms: 0, bytes: 0, unit: 4096, kinds: vec![()], runs };
        assert_eq!(batch.all().count(), 0);
    }
}
