//! The blocks of the log's own: descriptors, revoke blocks, commit blocks.

use crate::formats::jbd2::{Checksums, MAGIC, RawHeader, Tid};
use crate::input::bytes::head;
use crate::mutant::{self, Mutant};
use zerocopy::big_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

const DESCRIPTOR: u32 = 1;
const COMMIT: u32 = 2;
const REVOKE: u32 = 5;

const HEADER_BYTES: usize = size_of::<RawHeader>();
const TAIL_BYTES: usize = 4;
const UUID_BYTES: usize = 16;
const COMMIT_CHECKSUM_AT: usize = 0x10;

const TAG_ESCAPE: u32 = 0x1;
const TAG_SAME_UUID: u32 = 0x2;
const TAG_LAST: u32 = 0x8;

/// A tag as it lies on the disk, without `csum_v3`. The upper half of the block number follows,
/// where it has 64 bits.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTag {
    t_blocknr: U32,
    t_checksum: U16,
    t_flags: U16,
}

/// A tag with `csum_v3`.
#[derive(FromBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawTag3 {
    t_blocknr: U32,
    t_flags: U32,
    t_blocknr_high: U32,
    t_checksum: U32,
}

/// Format of the blocks of a log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Records {
    /// Bytes of a block of the log.
    pub block_bytes: u32,
    /// Tags have block numbers of 64 bits.
    pub is_64bit: bool,
    /// Form of the checksums of blocks and tags.
    pub checksums: Checksums,
}

/// A block of the log's own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Record {
    /// The transaction of the block.
    pub tid: Tid,
    /// Kind and content of the block.
    pub kind: RecordKind,
}

/// The kind and content of a record.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RecordKind {
    /// The blocks after the descriptor hold copies for these tags.
    Descriptor(Vec<Tag>),
    /// Older copies of some blocks no longer count.
    Revoke,
    /// The transaction ends here, and counts.
    Commit,
}

/// The tag of a copy in the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag {
    /// Number of the block in the file system.
    pub block: u64,
    /// The copy has zeros in place of the log's magic number.
    pub is_escaped: bool,
    /// Content of the tag's field for the checksum.
    pub checksum: u32,
}

impl Records {
    /// The record in `block`, if it is one of the log's own, and whole.
    #[must_use]
    pub fn read(&self, block: &[u8]) -> Option<Record> {
        let header = RawHeader::from_bytes(block).filter(|_| block.len() == self.block_bytes as usize)?;
        let kind = match header.h_blocktype.get() {
            DESCRIPTOR => RecordKind::Descriptor(self.tags(self.within_tail(block)?)?),
            REVOKE => revokes(self.within_tail(block)?)?,
            COMMIT if self.checksums.hold(block, COMMIT_CHECKSUM_AT) => RecordKind::Commit,
            _ => return None,
        };
        Some(Record { tid: Tid(header.h_sequence.get()), kind })
    }

    /// The numbers of the blocks that the revoke block `block` lists, if [`Self::read`] says that it is one.
    pub fn revoked<'a>(&self, block: &'a [u8]) -> impl Iterator<Item = u64> + use<'a> {
        let used = block.get(HEADER_BYTES..).and_then(head::<U32>).map_or(0, |it| it.get() as usize);
        let numbers = block.get(HEADER_BYTES + TAIL_BYTES..used.min(block.len())).unwrap_or_default();
        let number = |bytes: &[u8]| bytes.iter().fold(0, |number, byte| number << 8 | u64::from(*byte));
        numbers.chunks_exact(if self.is_64bit { 8 } else { 4 }).map(number)
    }

    /// The bytes between a block's header and its checksum, if that is right.
    fn within_tail<'a>(&self, block: &'a [u8]) -> Option<&'a [u8]> {
        let tail = if self.checksums.are_on() { TAIL_BYTES } else { 0 };
        let end = block.len().checked_sub(tail)?;
        self.checksums.hold(block, end).then_some(block.get(HEADER_BYTES..end)?)
    }

    /// All tags, up to the one with the last flag, or to the end.
    fn tags(&self, mut body: &[u8]) -> Option<Vec<Tag>> {
        let mut tags = Vec::new();
        while body.len() >= self.tag_bytes() {
            let (tag, flags) = self.tag(body)?;
            tags.push(tag);
            let uuid = if flags & TAG_SAME_UUID == 0 { UUID_BYTES } else { 0 };
            if flags & TAG_LAST != 0 {
                return Some(tags);
            }
            body = body.get(self.tag_bytes() + uuid..)?;
        }
        (!tags.is_empty()).then_some(tags)
    }

    fn tag_bytes(&self) -> usize {
        let high = if self.is_64bit { 4 } else { 0 };
        match self.checksums {
            Checksums::No => 8 + high,
            Checksums::V2 { .. } => 10 + high,
            Checksums::V3 { .. } => 16,
        }
    }

    /// The first tag in `bytes`, and its flags.
    fn tag(&self, bytes: &[u8]) -> Option<(Tag, u32)> {
        let (low, high, flags, checksum) = if matches!(self.checksums, Checksums::V3 { .. }) {
            let tag: &RawTag3 = head(bytes)?;
            (tag.t_blocknr, Some(&tag.t_blocknr_high), tag.t_flags.get(), tag.t_checksum.get())
        } else {
            let tag: &RawTag = head(bytes)?;
            let high = bytes.get(size_of::<RawTag>()..).and_then(head::<U32>);
            (tag.t_blocknr, high, tag.t_flags.into(), tag.t_checksum.into())
        };
        let high = high.filter(|_| self.is_64bit).map_or(0, |it| it.get());
        let block = u64::from(high) << 32 | u64::from(low);
        Some((Tag { block, is_escaped: flags & TAG_ESCAPE != 0, checksum }, flags))
    }

    /// The original of `copy`, if it matches the checksum of its `tag`, in transaction `tid`.
    #[must_use]
    pub fn restored(&self, tid: Tid, tag: &Tag, copy: &[u8]) -> Option<Vec<u8>> {
        if !self.checksums.holds_tagged(tid, copy, tag.checksum) {
            return None;
        }
        let mut block = copy.to_vec();
        let is_escaped = tag.is_escaped && !mutant::is(Mutant::EscapeKept);
        if let Some(start) = block.first_chunk_mut().filter(|_| is_escaped) {
            *start = MAGIC.to_be_bytes();
        }
        Some(block)
    }
}

/// A revoke record, if its length fits the block. The length includes its own header.
fn revokes(body: &[u8]) -> Option<RecordKind> {
    let used = HEADER_BYTES + TAIL_BYTES..=HEADER_BYTES + body.len();
    used.contains(&(head::<U32>(body)?.get() as usize)).then_some(RecordKind::Revoke)
}

#[cfg(test)]
mod tests;
