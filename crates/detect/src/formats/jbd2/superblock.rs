//! The journal's superblock: the format of the log, and the place of its tail.

use crate::formats::features::{Word, unknown};
use crate::formats::format;
use crate::formats::format::Reason;
use crate::formats::jbd2::checksum::{Checksums, crc32c, with_hole};
use crate::formats::jbd2::record::Records;
use crate::formats::jbd2::{MAGIC, RawHeader, Tid};
use crate::input::bytes::head;
use std::fmt::Display;
use std::mem::offset_of;
use std::ops::Range;
use zerocopy::big_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

const SUPERBLOCK_V1: u32 = 3;
const SUPERBLOCK_V2: u32 = 4;
const CHECKSUM_CRC32C: u8 = 4;

const BIT_64: u32 = 0x2;
const CSUM_V2: u32 = 0x8;
const CSUM_V3: u32 = 0x10;

/// The feature words (compatible, incompatible, read-only compatible), and the bits of each that
/// are understood: checksums over a transaction in its commit block; revoke blocks, 64 bits,
/// asynchronous commits, and the two forms of checksums; no read-only compatible feature.
const WORDS: [Word; 3] = [
    ('C', 0x1, &[]),
    ('I', 0x1 | BIT_64 | 0x4 | CSUM_V2 | CSUM_V3, &[(FAST_COMMIT, "fast_commit")]),
    ('R', 0, &[]),
];
/// As [`WORDS`], with fast commits, of which a replay needs to know only where they lie.
const WORDS_OF_REPLAY: [Word; 3] = [WORDS[0], ('I', WORDS[1].1 | FAST_COMMIT, &[]), WORDS[2]];
const CHECKSUM: u32 = 0x1;
const FAST_COMMIT: u32 = 0x20;
/// Blocks of fast commits where the superblock has no number.
const FAST_COMMIT_BLOCKS: u32 = 256;
/// Fewest blocks of a log.
const JBD2_MIN_JOURNAL_BLOCKS: u32 = 1024;

/// A journal's superblock as it lies on the disk, whatever the size of a block.
#[derive(FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned)]
#[repr(C)]
struct RawSuperblock {
    header: RawHeader,
    s_blocksize: U32,
    s_maxlen: U32,
    s_first: U32,
    s_sequence: U32,
    s_start: U32,
    _s_errno: U32,
    s_features: [U32; 3],
    s_uuid: [u8; 16],
    s_nr_users: U32,
    _from_0x44: [u8; 12],
    s_checksum_type: u8,
    _from_0x51: [u8; 3],
    s_num_fc_blks: U32,
    _from_0x58: [u8; 164],
    s_checksum: U32,
    _s_users: [u8; 768],
}

const _: () = {
    assert!(offset_of!(RawSuperblock, s_features) == 0x24 && offset_of!(RawSuperblock, s_nr_users) == 0x40);
    assert!(
        offset_of!(RawSuperblock, s_checksum_type) == 0x50
            && offset_of!(RawSuperblock, s_num_fc_blks) == 0x54
    );
    assert!(offset_of!(RawSuperblock, s_checksum) == 0xFC && size_of::<RawSuperblock>() == 1024);
};

/// A journal's superblock, consistent in itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Superblock {
    /// Format of the blocks of the log.
    pub records: Records,
    /// The blocks of the log, numbered from the superblock.
    pub log: Range<u32>,
    /// The number of the oldest transaction that counts.
    pub s_sequence: Tid,
    /// The first block of the oldest transaction that counts, numbered in the same way; `None` if no
    /// transaction counts.
    pub s_start: Option<u32>,
}

const STRUCTURE: &str = "the journal's superblock";

fn ensure(holds: bool, field: &str, value: impl Display) -> Result<(), Reason> {
    format::ensure(holds, STRUCTURE, field, value)
}

impl Superblock {
    /// The superblock in `block`, of a journal with blocks of this size and these `numbers`, the
    /// first of which is the superblock's.
    ///
    /// # Errors
    /// A field is impossible, or a feature is not understood.
    pub fn from_bytes(block: &[u8], numbers: Range<u32>) -> Result<Self, Reason> {
        Self::with_features(block, numbers, &WORDS)
    }

    fn with_features(block: &[u8], numbers: Range<u32>, words: &[Word; 3]) -> Result<Self, Reason> {
        let block_bytes = block.len() as u32;
        let raw = head::<RawSuperblock>(block);
        let raw = raw.ok_or_else(|| Reason(format!("{STRUCTURE} is cut off")))?;
        ensure(raw.header.h_magic == MAGIC, "h_magic", raw.header.h_magic)?;
        let version = raw.header.h_blocktype.get();
        ensure([SUPERBLOCK_V1, SUPERBLOCK_V2].contains(&version), "h_blocktype", version)?;
        let [_, incompat, _] = features(raw, version, words)?;
        check_users(raw, version)?;
        ensure(raw.s_blocksize == block_bytes, "s_blocksize", raw.s_blocksize)?;
        let (s_maxlen, s_first) = (raw.s_maxlen.get(), raw.s_first.get());
        ensure(s_maxlen <= numbers.end, "s_maxlen", s_maxlen)?;
        ensure(numbers.start < s_first && s_first < s_maxlen, "s_first", s_first)?;
        let s_start = Some(raw.s_start.get()).filter(|start| *start != 0);
        ensure(s_start.is_none_or(|start| (s_first..s_maxlen).contains(&start)), "s_start", raw.s_start)?;
        let log = s_first - numbers.start..s_maxlen - numbers.start;
        let s_start = s_start.map(|start| start - numbers.start);
        let checksums = checksums(raw, incompat)?;
        let records = Records { block_bytes, is_64bit: incompat & BIT_64 != 0, checksums };
        Ok(Self { records, log, s_sequence: Tid(raw.s_sequence.get()), s_start })
    }
}

/// The fields of a journal's superblock that a replay needs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReplayStart {
    /// The superblock. Its log ends ahead of the fast commits.
    pub superblock: Superblock,
    /// The blocks of fast commits, numbered as the log; empty without the feature `fast_commit`.
    pub fast_commits: Range<u32>,
    /// Commit blocks hold a CRC-32 of the transaction (`checksum`, the first form of checksums).
    pub has_transaction_checksums: bool,
}

impl ReplayStart {
    /// As [`Superblock::from_bytes`], for a journal whose superblock is block 0 of `blocks`, also with fast commits.
    ///
    /// # Errors
    /// A field is impossible, or a feature is not understood.
    pub fn from_bytes(block: &[u8], blocks: u32) -> Result<Self, Reason> {
        let mut superblock = Superblock::with_features(block, 0..blocks, &WORDS_OF_REPLAY)?;
        let raw = head::<RawSuperblock>(block).ok_or_else(|| Reason(format!("{STRUCTURE} is cut off")))?;
        let [compat, incompat, _] = features(raw, raw.header.h_blocktype.get(), &WORDS_OF_REPLAY)?;
        let (end, has_fast) = (superblock.log.end, incompat & FAST_COMMIT != 0);
        let count = if raw.s_num_fc_blks == 0 { FAST_COMMIT_BLOCKS } else { raw.s_num_fc_blks.get() };
        let log_end = end.checked_sub(count).filter(|it| has_fast && *it >= JBD2_MIN_JOURNAL_BLOCKS);
        superblock.log.end = log_end.unwrap_or(end);
        let is_within = superblock.s_start.is_none_or(|start| start < superblock.log.end);
        ensure(is_within, "s_start", raw.s_start)?;
        let fast_commits = superblock.log.end..end;
        let has_transaction_checksums =
            compat & CHECKSUM != 0 && superblock.records.checksums == Checksums::No;
        Ok(Self { superblock, fast_commits, has_transaction_checksums })
    }
}

/// The first version does not count users.
fn check_users(raw: &RawSuperblock, version: u32) -> Result<(), Reason> {
    let s_nr_users = if version == SUPERBLOCK_V1 { 0 } else { raw.s_nr_users.get() };
    if s_nr_users <= 1 {
        return Ok(());
    }
    Err(Reason(format!(
        "the journal serves {s_nr_users} file systems (`s_nr_users`), of which one is supported"
    )))
}

/// The feature words; the first version has none.
fn features(raw: &RawSuperblock, version: u32, words: &[Word; 3]) -> Result<[u32; 3], Reason> {
    if version == SUPERBLOCK_V1 {
        return Ok([0; 3]);
    }
    let features = raw.s_features.map(U32::get);
    match unknown(words, features).as_slice() {
        [] => Ok(features),
        names => {
            let names = names.join(", ");
            Err(Reason(format!("the journal has features that are not understood: {names}")))
        }
    }
}

fn checksums(raw: &RawSuperblock, incompat: u32) -> Result<Checksums, Reason> {
    let on = incompat & (CSUM_V2 | CSUM_V3);
    if on == 0 {
        return Ok(Checksums::No);
    }
    ensure(on != CSUM_V2 | CSUM_V3, "s_feature_incompat", format_args!("{incompat:#x}"))?;
    ensure(raw.s_checksum_type == CHECKSUM_CRC32C, "s_checksum_type", raw.s_checksum_type)?;
    let expected = with_hole(!0, raw.as_bytes(), offset_of!(RawSuperblock, s_checksum));
    ensure(raw.s_checksum == expected, "s_checksum", raw.s_checksum)?;
    let seed = crc32c(!0, &raw.s_uuid);
    Ok(if on == CSUM_V2 { Checksums::V2 { seed } } else { Checksums::V3 { seed } })
}

#[cfg(test)]
mod tests;
