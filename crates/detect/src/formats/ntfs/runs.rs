//! Mapping pairs: the places of an attribute's clusters.
//!
//! The first byte of a pair has two lengths: the lower half for the number of clusters, the upper
//! half for the distance from the place before. Both numbers follow. A run without a distance is a
//! hole, as sparse and compressed attributes have. `21 18 34 56 00` is 0x18 clusters at 0x5634.

use crate::formats::ntfs::lie::Lie;
use quietus_core::base::units::{Addr, Extent};

/// Contiguous clusters of an attribute.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Run {
    /// Number of the first cluster in the attribute.
    pub vcn: u64,
    /// Number of the first cluster on the disk.
    pub lcn: u64,
    /// Number of clusters.
    pub len: u64,
}

/// The runs in `pairs` from `vcn` on, without holes, and the `vcn` after them, on a disk of
/// `clusters`.
///
/// # Errors
/// If they are cut off, or a run is impossible.
pub fn runs(pairs: &[u8], mut vcn: u64, clusters: u64) -> Result<(Vec<Run>, u64), Lie> {
    let (mut rest, mut lcn, mut found) = (pairs, 0_i64, Vec::new());
    while let Some((head, behind)) = rest.split_first().filter(|(head, _)| **head != 0) {
        let (len_bytes, distance_bytes) = (usize::from(head & 0xF), usize::from(head >> 4));
        let (len, behind) = signed(behind, len_bytes)?;
        let (distance, behind) = signed(behind, distance_bytes)?;
        let len = u64::try_from(len).ok().filter(|len| (1..=i64::MAX as u64).contains(len));
        let len = len.ok_or(Lie::of("a run has an impossible length"))?;
        let end = vcn.checked_add(len).ok_or(Lie::of("a run has an impossible length"))?;
        if distance_bytes > 0 {
            lcn = lcn.checked_add(distance).ok_or(Lie::of("a run lies outside of the volume"))?;
            let first = u64::try_from(lcn).ok().filter(|it| is_within(*it, len, clusters));
            found.push(Run { vcn, lcn: first.ok_or(Lie::of("a run lies outside of the volume"))?, len });
        }
        (vcn, rest) = (end, behind);
    }
    Ok((found, vcn))
}

fn is_within(lcn: u64, len: u64, clusters: u64) -> bool {
    lcn.checked_add(len).is_some_and(|end| end <= clusters)
}

/// A signed number of `count` bytes, and the bytes after it; 0 if `count` is 0.
fn signed(bytes: &[u8], count: usize) -> Result<(i64, &[u8]), Lie> {
    let (number, rest) = bytes
        .split_at_checked(count)
        .filter(|_| count <= 8)
        .ok_or(Lie::of("its mapping pairs are cut off"))?;
    let is_negative = number.last().is_some_and(|it| it & 0x80 != 0);
    let mut all = if is_negative { [0xFF; 8] } else { [0; 8] };
    all[..count].copy_from_slice(number);
    Ok((i64::from_le_bytes(all), rest))
}

/// Runs of one attribute from its first cluster on, in order, without holes.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Pieces {
    /// The runs.
    pub runs: Vec<Run>,
    cluster_bytes: u64,
}

impl Pieces {
    /// `None` if the runs have a hole.
    #[must_use]
    pub fn new(runs: Vec<Run>, cluster_bytes: u64) -> Option<Self> {
        let mut vcn = 0;
        for run in &runs {
            if run.vcn != vcn {
                return None;
            }
            vcn += run.len;
        }
        Some(Self { runs, cluster_bytes })
    }

    /// The cluster after the last one.
    #[must_use]
    pub fn end_vcn(&self) -> u64 {
        self.runs.last().map_or(0, |run| run.vcn + run.len)
    }

    /// Bytes of all runs.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end_vcn().saturating_mul(self.cluster_bytes)
    }

    /// Adds the runs that follow; `None`, and no runs are left, if there is a hole.
    pub fn extend(&mut self, runs: Vec<Run>) -> Option<()> {
        let next = Self::new([std::mem::take(&mut self.runs), runs].concat(), self.cluster_bytes)?;
        *self = next;
        Some(())
    }

    /// The place of `len` bytes at `at` of the attribute, if they lie in one piece.
    #[must_use]
    pub fn place(&self, at: u64, len: u64) -> Option<Extent<Addr>> {
        let first = self.extents(at, len).next()?;
        (first.len == len).then_some(first)
    }

    /// The places of `len` bytes at `at`, piece by piece, as far as they are known.
    pub fn extents(&self, at: u64, len: u64) -> impl Iterator<Item = Extent<Addr>> {
        let end = at.saturating_add(len);
        self.runs.iter().filter_map(move |run| {
            let first = run.vcn * self.cluster_bytes;
            let (from, to) = (at.max(first), end.min(first + run.len * self.cluster_bytes));
            let start = run.lcn * self.cluster_bytes + from.saturating_sub(first);
            (from < to).then(|| Extent::new(start, to - from))
        })
    }

    /// The byte of the attribute at byte `at` of the disk, and the end of its piece.
    #[must_use]
    pub fn at(&self, at: u64) -> Option<(u64, u64)> {
        self.runs.iter().find_map(|run| {
            let start = run.lcn * self.cluster_bytes;
            let end = start + run.len * self.cluster_bytes;
            (start..end).contains(&at).then(|| (run.vcn * self.cluster_bytes + (at - start), end))
        })
    }
}

#[cfg(test)]
mod tests;
