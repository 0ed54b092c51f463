//! The journal's superblock: how the log is written, and where its tail is.

use super::checksum::{Checksums, crc32c, with_hole};
use super::record::Records;
use super::{MAGIC, Tid, be32_at};
use crate::format::Reason;
use std::ops::Range;

/// Its bytes, whatever the size of a block.
const SUPERBLOCK_BYTES: usize = 1024;
const SUPERBLOCK_V1: u32 = 3;
const SUPERBLOCK_V2: u32 = 4;
const CHECKSUM_CRC32C: u8 = 4;

const BIT_64: u32 = 0x2;
const CSUM_V2: u32 = 0x8;
const CSUM_V3: u32 = 0x10;

/// Where `s_feature_compat`, `s_feature_incompat` and `s_feature_ro_compat` are,
/// and which bits of them are understood: checksums over a transaction in its
/// commit block; revoke blocks, 64 bits, commits that are not waited for, and
/// the two sorts of checksums; none.
const WORDS: [(usize, char, u32); 3] =
    [(0x24, 'C', 0x1), (0x28, 'I', 0x1 | BIT_64 | 0x4 | CSUM_V2 | CSUM_V3), (0x2C, 'R', 0)];
/// The only one beyond those that has a name.
const FAST_COMMIT: (char, u32) = ('I', 0x20);

/// A journal's superblock, consistent in itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    /// How the blocks of the log are written.
    pub(crate) records: Records,
    /// The blocks that the log goes round in, by how far behind this one they are.
    pub(crate) log: Range<u32>,
    pub(crate) s_sequence: Tid,
    /// The first block of the oldest transaction that counts, counted in the same way;
    /// none: nothing does.
    pub(crate) s_start: Option<u32>,
}

fn ensure(holds: bool, field: &str) -> Result<(), Reason> {
    let lies = || Reason(format!("the journal's superblock makes no sense: `{field}`"));
    if holds { Ok(()) } else { Err(lies()) }
}

impl Superblock {
    /// The superblock in `block`, of a journal whose blocks have its size and these
    /// `numbers`, the first of which is its own.
    ///
    /// # Errors
    /// Names a feature that is not understood, or a field that cannot be true.
    pub(crate) fn from_bytes(block: &[u8], numbers: Range<u32>) -> Result<Self, Reason> {
        let block_bytes = block.len() as u32;
        ensure(be32_at(block, 0x0) == MAGIC, "h_magic")?;
        let version = be32_at(block, 0x4);
        ensure([SUPERBLOCK_V1, SUPERBLOCK_V2].contains(&version), "h_blocktype")?;
        let [_, incompat, _] = features(block, version)?;
        check_users(block, version)?;
        ensure(be32_at(block, 0xC) == block_bytes, "s_blocksize")?;
        let (s_maxlen, s_first) = (be32_at(block, 0x10), be32_at(block, 0x14));
        ensure(s_maxlen <= numbers.end, "s_maxlen")?;
        ensure(numbers.start < s_first && s_first < s_maxlen, "s_first")?;
        let s_start = Some(be32_at(block, 0x1C)).filter(|start| *start != 0);
        ensure(s_start.is_none_or(|start| (s_first..s_maxlen).contains(&start)), "s_start")?;
        let log = s_first - numbers.start..s_maxlen - numbers.start;
        let s_start = s_start.map(|start| start - numbers.start);
        let checksums = checksums(block, incompat)?;
        let records = Records { block_bytes, is_64bit: incompat & BIT_64 != 0, checksums };
        Ok(Self { records, log, s_sequence: Tid(be32_at(block, 0x18)), s_start })
    }
}

/// The first version does not count them.
fn check_users(block: &[u8], version: u32) -> Result<(), Reason> {
    let s_nr_users = if version == SUPERBLOCK_V1 { 0 } else { be32_at(block, 0x40) };
    if s_nr_users <= 1 {
        return Ok(());
    }
    Err(Reason(format!(
        "the journal is that of {s_nr_users} file systems (`s_nr_users`), which is not understood"
    )))
}

/// The feature words, of which the first version has none.
fn features(block: &[u8], version: u32) -> Result<[u32; 3], Reason> {
    if version == SUPERBLOCK_V1 {
        return Ok([0; 3]);
    }
    let unknown = WORDS.iter().flat_map(|(at, word, known)| {
        let bits = be32_at(block, *at) & !known;
        (0..u32::BITS).filter(move |bit| bits >> bit & 1 == 1).map(|bit| name(*word, bit))
    });
    match unknown.collect::<Vec<_>>().as_slice() {
        [] => Ok(WORDS.map(|(at, _, _)| be32_at(block, at))),
        names => {
            let names = names.join(", ");
            Err(Reason(format!("the journal has features that are not understood: {names}")))
        }
    }
}

fn name(word: char, bit: u32) -> String {
    if (word, 1 << bit) == FAST_COMMIT { "`fast_commit`".into() } else { format!("`FEATURE_{word}{bit}`") }
}

fn checksums(block: &[u8], incompat: u32) -> Result<Checksums, Reason> {
    let on = incompat & (CSUM_V2 | CSUM_V3);
    if on == 0 {
        return Ok(Checksums::No);
    }
    ensure(on != CSUM_V2 | CSUM_V3, "s_feature_incompat")?;
    ensure(block.get(0x50) == Some(&CHECKSUM_CRC32C), "s_checksum_type")?;
    let bytes = block.get(..SUPERBLOCK_BYTES).unwrap_or_default();
    ensure(be32_at(bytes, 0xFC) == with_hole(!0, bytes, 0xFC), "s_checksum")?;
    let seed = crc32c(!0, block.get(0x30..0x40).unwrap_or_default());
    Ok(if on == CSUM_V2 { Checksums::V2 { seed } } else { Checksums::V3 { seed } })
}

#[cfg(test)]
mod tests;
