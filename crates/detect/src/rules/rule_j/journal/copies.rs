//! Where the copies lie that received commits have left in the log, from its tail on.
//!
//! The content of a block of metadata as of a commit is its newest copy up to that commit, or what lies in its
//! place, once the log keeps no copy of it any more.

use crate::formats::format::Block;
use crate::formats::jbd2::Tid;
use crate::formats::jbd2::record::Tag;
use quietus_core::base::fields::Fields;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;

/// A copy in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in super::super) struct Copy {
    /// The block of the log in which the copy lies.
    pub(in super::super) index: u32,
    pub(in super::super) tid: Tid,
    pub(in super::super) tag: Tag,
}

impl Copy {
    /// The block of which this is a copy.
    pub(in super::super) fn block(&self) -> Block {
        self.tag.block as Block
    }
}

/// The copies of one or more commits.
#[derive(Debug, Default)]
pub(in super::super) struct Copies {
    by_index: BTreeMap<u32, Copy>,
    newest: BTreeMap<Block, u32>,
}

impl Copies {
    /// Adds a copy that is newer than all others of its block.
    pub(in super::super) fn add(&mut self, copy: Copy) {
        self.by_index.insert(copy.index, copy);
        self.newest.insert(copy.block(), copy.index);
    }

    pub(in super::super) fn newest(&self, block: Block) -> Option<Copy> {
        self.by_index.get(self.newest.get(&block)?).copied()
    }

    pub(in super::super) fn lies_in(&self, index: u32) -> bool {
        self.by_index.contains_key(&index)
    }

    /// Drops the copies in the log's blocks `indices`, whose originals are in their place by now.
    pub(in super::super) fn forget(&mut self, indices: &RoaringBitmap) {
        let gone: Vec<u32> = self.by_index.keys().copied().filter(|index| indices.contains(*index)).collect();
        for index in gone {
            if let Some(copy) = self.by_index.remove(&index)
                && self.newest.get(&copy.block()) == Some(&index)
            {
                self.newest.remove(&copy.block());
            }
        }
    }

    /// Writes the copies for a view, in the order of the log's blocks.
    pub(in super::super) fn put(&self, bytes: &mut Vec<u8>) {
        bytes.extend((self.by_index.len() as u64).to_le_bytes());
        for copy in self.by_index.values() {
            let is_newest = self.newest.get(&copy.block()) == Some(&copy.index);
            let words = [copy.index, copy.tid.0, copy.block(), copy.tag.checksum];
            words.into_iter().for_each(|word| bytes.extend(word.to_le_bytes()));
            bytes.push(u8::from(copy.tag.is_escaped) | u8::from(is_newest) << 1);
        }
    }

    /// The copies that [`Copies::put`] wrote, of blocks below `blocks`.
    pub(in super::super) fn restored(fields: &mut Fields<'_>, blocks: Block) -> Option<Self> {
        let mut copies = Self::default();
        for _ in 0..fields.u64()? {
            let (index, tid, block, checksum) = (fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?);
            let [flags] = fields.array()?;
            let tag = Tag { block: block.into(), is_escaped: flags & 1 != 0, checksum };
            copies.by_index.insert(index, Copy { index, tid: Tid(tid), tag });
            if flags & 2 != 0 {
                copies.newest.insert(block, index);
            }
            if block >= blocks {
                return None;
            }
        }
        Some(copies)
    }
}

#[cfg(test)]
mod tests {
    use crate::rules::rule_j::journal::copies::*;

    fn copy(index: u32, block: Block) -> Copy {
        let tag = Tag { block: block.into(), is_escaped: index % 2 == 1, checksum: index * 3 };
        Copy { index, tid: Tid(7), tag }
    }

    #[test]
    fn the_newest_copy_counts_until_its_block_of_the_log_is_forgotten() {
        let mut copies = Copies::default();
        [copy(1, 40), copy(2, 41), copy(5, 40)].into_iter().for_each(|it| copies.add(it));
        assert_eq!([40, 41, 42].map(|it| copies.newest(it)), [Some(copy(5, 40)), Some(copy(2, 41)), None]);
        let mut bytes = Vec::new();
        copies.put(&mut bytes);
        assert!(Copies::restored(&mut Fields(&bytes), 41).is_none());
        let mut kept = Copies::restored(&mut Fields(&bytes), 42).unwrap();
        assert_eq!([40, 41, 42].map(|it| kept.newest(it)), [40, 41, 42].map(|it| copies.newest(it)));
        kept.forget(&RoaringBitmap::from([1, 2]));
        assert_eq!([40, 41].map(|it| kept.newest(it)), [Some(copy(5, 40)), None]);
        assert_eq!([1, 2, 5].map(|it| kept.lies_in(it)), [false, false, true]);
    }
}
