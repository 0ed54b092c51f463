//! Clusters and their chains, as FAT and exFAT have them: a table with an entry a cluster, which names the next cluster of the file.
//!
//! 1. A step of a chain leads to a cluster that exists, or is an error that names the entry and its value.
//! 2. A chain that comes back to itself is an error, after at most three times as many steps as the chain has clusters, in constant memory.
//! 3. The table is read piece by piece, and no more than one piece of it is held.

use crate::{Error, Source};
use quietus_core::base::units::{Addr, Extent};
use quietus_detect::formats::fat::table::Width;
use std::ops::Range;

pub(crate) mod owners;
pub(crate) mod slots;
pub(crate) mod time;
pub(crate) mod walk;

/// The number of the first cluster, in both formats.
const FIRST_CLUSTER: u32 = 2;
/// Bytes of the table that are read at once.
const PIECE_BYTES: u64 = 4096;

/// How the entries of a table are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entries {
    /// Those of FAT.
    Fat(Width),
    /// Those of exFAT, of 32 bits, all of which count.
    ExFat,
}

impl Entries {
    /// The bytes of the table that hold entry `n`.
    fn bytes(self, n: u32) -> Range<u64> {
        let bits = match self {
            Self::Fat(width) => width.bits(),
            Self::ExFat => 32,
        };
        let start = u64::from(n) * bits;
        start / 8..(start + bits).div_ceil(8)
    }

    /// Entry `n`, in `bytes` from byte `from` of the table on.
    fn value(self, bytes: &[u8], from: u64, n: u32) -> Option<u32> {
        match self {
            Self::Fat(width) => Some(width.entry(bytes, from, n)).filter(|it| it.is_whole).map(|it| it.value),
            Self::ExFat => {
                let at = usize::try_from(self.bytes(n).start.checked_sub(from)?).ok()?;
                bytes.get(at..)?.first_chunk().map(|it| u32::from_le_bytes(*it))
            }
        }
    }

    /// The least value that ends a chain.
    fn end(self) -> u32 {
        match self {
            Self::Fat(Width::Fat12) => 0xFF8,
            Self::Fat(Width::Fat16) => 0xFFF8,
            Self::Fat(Width::Fat32) => 0x0FFF_FFF8,
            Self::ExFat => 0xFFFF_FFF8,
        }
    }
}

/// Where the table and the clusters of a volume lie.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    /// Writing of the table's entries.
    pub entries: Entries,
    /// Bytes of the table.
    pub table: Range<u64>,
    /// First byte of the first cluster.
    pub heap: u64,
    /// Bytes in a cluster.
    pub cluster_bytes: u64,
    /// Number of clusters.
    pub clusters: u32,
}

impl Layout {
    /// Whether there is a cluster of this number.
    pub(crate) fn is_cluster(&self, cluster: u32) -> bool {
        cluster >= FIRST_CLUSTER && cluster - FIRST_CLUSTER < self.clusters
    }

    /// The first byte of `cluster`, which exists.
    pub(crate) fn at(&self, cluster: u32) -> u64 {
        assert!(self.is_cluster(cluster), "cluster {cluster} was not checked");
        self.heap + u64::from(cluster - FIRST_CLUSTER) * self.cluster_bytes
    }

    /// The cluster in which byte `at` of the source lies, if it lies in one.
    pub(crate) fn cluster_of(&self, at: u64) -> Option<u32> {
        let n = at.checked_sub(self.heap)? / self.cluster_bytes;
        let cluster = u32::try_from(n).ok()?.checked_add(FIRST_CLUSTER)?;
        self.is_cluster(cluster).then_some(cluster)
    }

    /// Bytes of all clusters.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.clusters) * self.cluster_bytes
    }

    /// `bytes`, rounded up to whole clusters.
    pub(crate) fn allocated(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.cluster_bytes).saturating_mul(self.cluster_bytes)
    }
}

/// A position in a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Chain {
    first: u32,
    /// The cluster reached.
    cluster: u32,
    /// Clusters of the chain before it.
    index: u64,
    /// The cluster at the last power of two of `index`: a chain that meets it again is a loop (Brent 1980).
    mark: u32,
}

/// The clusters of a volume, and what was read of the table last.
#[derive(Debug)]
pub(crate) struct Clusters {
    pub layout: Layout,
    piece_at: u64,
    piece: Vec<u8>,
    /// The position that the last walk along a chain reached: reads of a file in its order do not begin at its first cluster each time.
    reached: Option<Chain>,
}

impl Clusters {
    pub(crate) fn new(layout: Layout) -> Self {
        Self { layout, piece_at: 0, piece: Vec::new(), reached: None }
    }

    /// Entry `n` of the table.
    fn entry(&mut self, source: &mut dyn Source, n: u32) -> Result<u32, Error> {
        let Layout { entries, table, .. } = &self.layout;
        if let Some(value) = entries.value(&self.piece, self.piece_at, n) {
            return Ok(value);
        }
        let (bytes, table_bytes) = (entries.bytes(n), table.end - table.start);
        if bytes.end > table_bytes {
            return Err(Error::Damaged(format!("cluster {n} has no entry in the file allocation table")));
        }
        let at = Extent::new(table.start + bytes.start, PIECE_BYTES.min(table_bytes - bytes.start));
        self.piece = read(source, at)?;
        self.piece_at = bytes.start;
        Ok(entries.value(&self.piece, bytes.start, n).expect("the piece begins with the entry"))
    }

    /// The chain that begins with cluster `first`.
    pub(crate) fn chain(&self, first: u32) -> Result<Chain, Error> {
        if !self.layout.is_cluster(first) {
            return Err(Error::Damaged(format!("the first cluster is {first}")));
        }
        Ok(Chain { first, cluster: first, index: 0, mark: first })
    }

    /// Whether the entry of the cluster that `chain` has reached names a cluster.
    fn is_link(&mut self, source: &mut dyn Source, chain: Chain) -> bool {
        self.entry(source, chain.cluster).is_ok_and(|next| self.layout.is_cluster(next))
    }

    /// Moves `chain` on by a cluster; `false` if there is none. An error leaves `chain` as it is.
    fn step(&mut self, source: &mut dyn Source, chain: &mut Chain) -> Result<bool, Error> {
        let next = self.entry(source, chain.cluster)?;
        if next >= self.layout.entries.end() {
            return Ok(false);
        }
        if !self.layout.is_cluster(next) {
            return Err(Error::Damaged(format!(
                "entry {} of the file allocation table is {next:#x}",
                chain.cluster
            )));
        }
        let mark = if chain.index.is_power_of_two() { chain.cluster } else { chain.mark };
        if next == mark || next == chain.first {
            return Err(Error::Damaged(format!(
                "the chain of cluster {} comes back to cluster {next}",
                chain.first
            )));
        }
        *chain = Chain { first: chain.first, cluster: next, index: chain.index + 1, mark };
        Ok(true)
    }

    /// The error for a chain that has ended, and does not hold `bytes`.
    fn too_short(&self, chain: &Chain, bytes: u64) -> Error {
        let Chain { first, index, .. } = chain;
        let has = (index + 1) * self.layout.cluster_bytes;
        Error::Damaged(format!(
            "the chain of cluster {first} ends after {has} bytes, and the file has {bytes}"
        ))
    }

    /// Moves `chain` to its cluster number `index`, counted from 0; `false` if it ends before.
    fn seek(&mut self, source: &mut dyn Source, chain: &mut Chain, index: u64) -> Result<bool, Error> {
        while chain.index < index {
            if !self.step(source, chain)? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The content of `at`, which lies within the source.
pub(crate) fn read(source: &mut dyn Source, at: Extent<Addr>) -> Result<Vec<u8>, Error> {
    let bytes = source.read(at)?;
    assert_eq!(bytes.len() as u64, at.len, "a source gives what was asked for");
    Ok(bytes)
}

#[cfg(test)]
mod tests;
