//! A set of blocks, whose memory grows with its irregularity.

use crate::base::fields::Fields;
use crate::base::units::{Addr, Address, BLOCK_BYTES, Extent};
use roaring::RoaringBitmap;
use std::io;
use std::marker::PhantomData;
use std::ops::RangeInclusive;

/// Blocks in one bitmap of the set: as many as its 32-bit index can name.
const SHARD_BLOCKS: u64 = 1 << 32;

/// A set of blocks of [`BLOCK_BYTES`] each. At most about one bit a block
/// (compressed bitmaps), and next to nothing where the set has all blocks or none.
#[derive(Clone, Debug, PartialEq)]
pub struct BlockSet<A = Addr> {
    shards: Vec<RoaringBitmap>,
    /// The number of blocks in the set.
    len: u64,
    space: PhantomData<A>,
}

impl<A> Default for BlockSet<A> {
    fn default() -> Self {
        Self { shards: Vec::new(), len: 0, space: PhantomData }
    }
}

impl<A: Address> BlockSet<A> {
    /// Adds every block that `extent` touches.
    pub fn insert(&mut self, extent: Extent<A>) {
        let (first, end) = (extent.start.get() / BLOCK_BYTES, extent.end().div_ceil(BLOCK_BYTES));
        for (shard, from, to) in shards(first, end) {
            if self.shards.len() <= shard {
                self.shards.resize_with(shard + 1, RoaringBitmap::new);
            }
            self.len += self.shards[shard].insert_range(from..=to);
        }
    }

    /// The set of these blocks, whose numbers ascend.
    pub fn of_ascending(blocks: impl IntoIterator<Item = u64>) -> Self {
        let (mut set, mut run, mut count) = (Self::default(), 0..0, 0);
        for block in blocks {
            count += 1;
            assert!(block >= run.end, "the numbers of the blocks ascend");
            if block != run.end {
                set.insert(Extent::between(run.start * BLOCK_BYTES, run.end * BLOCK_BYTES));
                run.start = block;
            }
            run.end = block + 1;
        }
        set.insert(Extent::between(run.start * BLOCK_BYTES, run.end * BLOCK_BYTES));
        assert!(set.len == count, "the set has each of the blocks, and no other");
        set
    }

    /// Removes every block that lies wholly within `extent`.
    pub fn remove(&mut self, extent: Extent<A>) {
        let (first, end) = (extent.start.get().div_ceil(BLOCK_BYTES), extent.end() / BLOCK_BYTES);
        for (shard, from, to) in shards(first, end.max(first)) {
            if let Some(bits) = self.shards.get_mut(shard) {
                let gone = bits.remove_range(from..=to);
                assert!(gone <= self.len, "no more blocks go than there are");
                self.len -= gone;
            }
        }
    }

    /// The first run of bytes within `extent` whose blocks are in the set.
    #[must_use]
    pub fn first_run(&self, extent: Extent<A>) -> Option<Extent<A>> {
        let (first, end) = (extent.start.get() / BLOCK_BYTES, extent.end().div_ceil(BLOCK_BYTES));
        shards(first, end).find_map(|(shard, from, to)| {
            bytes_of(shard, self.shards.get(shard)?.range(from..=to).next_range()?).overlap(extent)
        })
    }

    /// Whether block number `block` is in the set.
    #[must_use]
    pub fn contains(&self, block: u64) -> bool {
        let bits = self.shards.get((block / SHARD_BLOCKS) as usize);
        bits.is_some_and(|bits| bits.contains((block % SHARD_BLOCKS) as u32))
    }

    /// Adds all blocks of `other`.
    pub fn union(&mut self, other: &Self) {
        let before = self.len;
        if self.shards.len() < other.shards.len() {
            self.shards.resize_with(other.shards.len(), RoaringBitmap::new);
        }
        self.shards.iter_mut().zip(&other.shards).for_each(|(bits, more)| *bits |= more);
        self.recount();
        assert!(
            self.len >= before.max(other.len) && self.len - before <= other.len,
            "a union has the blocks of both sets"
        );
    }

    /// Removes all blocks of `other`.
    pub fn subtract(&mut self, other: &Self) {
        let before = self.len;
        self.shards.iter_mut().zip(&other.shards).for_each(|(bits, less)| *bits -= less);
        self.recount();
        assert!(self.len <= before && before - self.len <= other.len, "only blocks of the other set go");
    }

    /// The last run of bytes within `extent` whose blocks are in the set.
    #[must_use]
    pub fn last_run(&self, extent: Extent<A>) -> Option<Extent<A>> {
        let (first, end) = (extent.start.get() / BLOCK_BYTES, extent.end().div_ceil(BLOCK_BYTES));
        let shards: Vec<_> = shards(first, end).collect();
        shards.into_iter().rev().find_map(|(shard, from, to)| {
            bytes_of(shard, self.shards.get(shard)?.range(from..=to).next_range_back()?).overlap(extent)
        })
    }

    /// The runs of bytes within `extent` whose blocks are in the set, in order.
    pub fn runs_within(&self, extent: Extent<A>) -> impl Iterator<Item = Extent<A>> + '_ {
        extent.runs(move |rest| self.first_run(rest))
    }

    /// All runs of blocks in the set, in order, as bytes.
    pub fn runs(&self) -> impl Iterator<Item = Extent<A>> + '_ {
        self.runs_within(Extent::between(0, self.shards.len() as u64 * SHARD_BLOCKS * BLOCK_BYTES))
    }

    /// The number of blocks in the set.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    fn recount(&mut self) {
        self.len = self.shards.iter().map(RoaringBitmap::len).sum();
    }

    /// Whether no block is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The set as bytes: for each 16 TiB a bitmap in the portable
    /// Roaring format, with its length in bytes (64 bits, little-endian) before it.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        for bits in &self.shards {
            let size = bits.serialized_size();
            bytes.extend((size as u64).to_le_bytes());
            let start = bytes.len();
            bits.serialize_into(&mut bytes).expect("writing to memory does not fail");
            assert_eq!(bytes.len() - start, size, "a bitmap has the length that stands before it");
        }
        bytes
    }

    /// The set that [`BlockSet::to_bytes`] wrote.
    ///
    /// # Errors
    /// If the bytes are of no such set.
    pub fn from_bytes(bytes: &[u8]) -> io::Result<Self> {
        let (mut fields, mut shards) = (Fields(bytes), Vec::new());
        while !fields.is_empty() {
            let bits = fields.sized().ok_or(io::ErrorKind::UnexpectedEof)?;
            shards.push(RoaringBitmap::deserialize_from(bits)?);
        }
        let len = shards.iter().map(RoaringBitmap::len).sum();
        Ok(Self { shards, len, space: PhantomData })
    }
}

/// The bytes of a run of blocks of a shard.
fn bytes_of<A: Address>(shard: usize, run: RangeInclusive<u32>) -> Extent<A> {
    let base = shard as u64 * SHARD_BLOCKS;
    let (start, last) = (base + u64::from(*run.start()), base + u64::from(*run.end()));
    Extent::between(start * BLOCK_BYTES, (last + 1) * BLOCK_BYTES)
}

/// Blocks `first..end`, as shards with their first and last index.
fn shards(first: u64, end: u64) -> impl Iterator<Item = (usize, u32, u32)> {
    assert!(first <= end, "blocks {first}..{end} are backwards");
    let mut next = first;
    std::iter::from_fn(move || {
        let shard = next / SHARD_BLOCKS;
        let to = end.min((shard + 1) * SHARD_BLOCKS);
        let from = next;
        next = to.max(from);
        (from < to)
            .then(|| (shard as usize, (from % SHARD_BLOCKS) as u32, (to - 1 - shard * SHARD_BLOCKS) as u32))
    })
}

#[cfg(test)]
mod tests;
