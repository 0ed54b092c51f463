//! Events in the lines of a disk's audit log. Format: `docs/formats/audit.md`.

use quietus_core::ledger::Cause;
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::volume::Done;
use serde::{Deserialize, Serialize};

/// Extents that one line names.
pub(super) const RUNS_MAX: usize = 1024;

/// Something worth keeping on record.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "event")]
pub enum Entry {
    /// The disk was opened.
    Opened,
    /// Bytes that were owed when the disk was opened, after it had not been stopped: a
    /// crash may have lost the lines that say when they died.
    Owed(Batch<Death>),
    /// Bytes died.
    Died(Batch<Death>),
    /// Dead content is gone, and the last sync of the medium came after that.
    Receipt {
        /// Where.
        #[serde(flatten)]
        batch: Batch<Met>,
        /// The number of the first receipt that is not in the log yet.
        through: u64,
    },
    /// The medium failed.
    Latched {
        /// How.
        reason: String,
    },
    /// Deaths that no line names, because the log could not be written for long. Their
    /// receipts are not among what was dropped.
    Dropped {
        /// How many.
        deaths: u64,
        /// Bytes that died.
        bytes: u64,
    },
    /// A proof was made.
    Proved {
        /// SHA-256 of the receipt's body.
        digest: String,
    },
    /// The disk was stopped.
    Stopped,
}

/// How bytes died.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Death {
    /// Who said so.
    pub cause: Cause,
}

/// How an obligation was met.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Met {
    /// How the bytes were destroyed.
    pub act: Done,
    /// Who had said that the bytes were dead.
    pub cause: Cause,
    /// Passes over each byte.
    pub passes: u16,
}

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
    /// How many.
    pub len: u64,
}

impl<K> Batch<K> {
    /// All extents, in order; none of what makes no sense.
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

/// Makes batches.
#[derive(Debug)]
pub(super) struct Collector<K> {
    kinds: Vec<K>,
    /// When, the number of the kind, and where.
    runs: Vec<(u64, usize, Extent<Addr>)>,
}

impl<K> Default for Collector<K> {
    fn default() -> Self {
        Self { kinds: Vec::new(), runs: Vec::new() }
    }
}

impl<K: PartialEq> Collector<K> {
    pub(super) fn push(&mut self, time_ms: u64, kind: K, extent: Extent<Addr>) {
        let number = self.kinds.iter().position(|it| *it == kind).unwrap_or_else(|| {
            self.kinds.push(kind);
            self.kinds.len() - 1
        });
        match self.runs.last_mut() {
            Some((at, of, last)) if (*at, *of, last.end()) == (time_ms, number, extent.start.0) => {
                last.len += extent.len;
            }
            _ => self.runs.push((time_ms, number, extent)),
        }
    }

    pub(super) fn len(&self) -> usize {
        self.runs.len()
    }

    /// The events collected so far, if there are any.
    pub(super) fn take(&mut self) -> Option<Batch<K>> {
        let (kinds, runs) = (std::mem::take(&mut self.kinds), std::mem::take(&mut self.runs));
        let (from_ms, ..) = *runs.first()?;
        let mixed = runs.iter().fold(BLOCK_BYTES, |mixed, (.., it)| mixed | it.start.0 | it.len);
        let unit = 1 << mixed.trailing_zeros();
        let (mut groups, mut last): (Vec<Vec<i64>>, _) = (Vec::new(), None);
        let mut end = 0;
        for (time_ms, kind, extent) in &runs {
            if last.replace((*time_ms, *kind)) != Some((*time_ms, *kind)) {
                groups.push(vec![time_ms.wrapping_sub(from_ms) as i64, *kind as i64]);
                end = 0;
            }
            let (start, len) = ((extent.start.0 / unit) as i64, (extent.len / unit) as i64);
            if let Some(group) = groups.last_mut() {
                group.extend([start - end, len]);
            }
            end = start + len;
        }
        let bytes = runs.iter().map(|(.., extent)| extent.len).sum();
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
        told.iter().for_each(|(at, kind, start, len)| collector.push(*at, *kind, Extent::new(*start, *len)));
        assert_eq!(collector.len(), told.len());
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
            collector.push(1, (), Extent::new(n * 4096, 4096));
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
