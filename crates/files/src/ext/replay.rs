//! The log of a file system that was not unmounted: which copy of each block counts.
//!
//! A replay writes nothing. Its result is a map from a block to its newest committed copy in the log.
//!
//! 1. A transaction counts as a whole, with its commit block, in the order of the sequence numbers; the first gap, and the first wrong
//!    checksum of a block of the log's own, end the replay.
//! 2. A block that a transaction revokes has no copy of that transaction or an earlier one.
//! 3. A copy with a wrong checksum does not count, and an older one does, as in Linux.
//! 4. Each block of the log is looked at once. Positions are kept, not contents.
//! 5. A block of the log's own that cannot be read ends the replay, as content that was forgotten there: no transaction that counts needs
//!    it. A copy that cannot be read counts, so that the error belongs to the files that need it.

use crate::ext::blocks::{count, pieces};
use crate::ext::bytes::at;
use crate::ext::crc::crc32_be;
use crate::ext::disk::{Copies, Copy, Disk};
use crate::ext::inode::{Content, Inode};
use crate::ext::units::{FsBlock, Ino, Piece};
use crate::{Error, Kind};
use quietus_detect::formats::jbd2::Tid;
use quietus_detect::formats::jbd2::record::{Record, RecordKind, Tag};
use quietus_detect::formats::jbd2::superblock::ReplayStart;
use zerocopy::big_endian;
use zerocopy::little_endian::{U16, U32};

/// Most pieces of a log: a log of the largest size in the smallest pieces that a file system leaves.
const PIECES_MAX: usize = 1 << 20;
/// Where a commit block has the type, the size and the value of the CRC-32 of its transaction.
const H_CHKSUM_TYPE: usize = 12;
const H_CHKSUM_SIZE: usize = 13;
const H_CHKSUM: usize = 16;
const JBD2_CRC32_CHKSUM: u8 = 1;
const JBD2_CRC32_CHKSUM_SIZE: u8 = 4;
/// The tag at the head of the blocks of fast commits.
const EXT4_FC_TAG_HEAD: u16 = 9;
/// Where the head of the fast commits has its transaction: behind the tag, its length, and the features.
const FC_TID_AT: usize = 8;

/// The copies that count; no copy, if the file system needs no recovery.
///
/// # Errors
/// If the journal cannot be read, or has what is not understood.
pub(super) fn copies(disk: &mut Disk) -> Result<Copies, Error> {
    let superblock = disk.superblock;
    if !superblock.features.has_journal || !superblock.features.needs_recovery {
        return Ok(Copies::new());
    }
    if superblock.s_journal_inum == 0 {
        let what = "the file system needs its journal, which lies on another disk: mount it there once";
        return Err(Error::Unsupported(what.into()));
    }
    let log = Log::open(disk, Ino(superblock.s_journal_inum))?;
    let block = disk.in_place(log.place(0)?)?;
    let start = ReplayStart::from_bytes(&block, log.blocks).map_err(|reason| Error::Damaged(reason.0))?;
    let Some(s_start) = start.superblock.s_start else { return Ok(Copies::new()) };
    let mut replay = Replay::new(disk, &log, &start, s_start);
    let end = replay.run()?;
    let copies = replay.copies;
    check_fast_commits(disk, &log, &start, end)?;
    Ok(copies)
}

/// Where the blocks of a journal lie.
struct Log {
    /// The number of blocks.
    blocks: u32,
    /// The blocks of the file system, in the order of the log.
    pieces: Vec<Piece>,
}

impl Log {
    fn open(disk: &mut Disk, ino: Ino) -> Result<Self, Error> {
        let inode = Inode::read(disk, ino)?;
        if inode.kind != Kind::Regular || !matches!(inode.content, Content::Extents | Content::Indirect) {
            return Err(ino.damaged("the journal is no regular file with blocks"));
        }
        let (asked, mut found) = (count(disk, &inode)?, Vec::new());
        let blocks =
            u32::try_from(asked).map_err(|_| ino.damaged(&format!("{asked} blocks of a journal")))?;
        pieces(disk, &inode, 0..asked, &mut |_, piece| {
            found.push(piece);
            Ok(found.len() <= PIECES_MAX)
        })?;
        if found.len() > PIECES_MAX {
            return Err(ino.damaged("the journal lies in more than 2^20 pieces"));
        }
        Ok(Self { blocks, pieces: found })
    }

    /// Where block `n` of the log lies.
    fn place(&self, n: u32) -> Result<FsBlock, Error> {
        let after = self.pieces.partition_point(|piece| piece.at.0 <= n.into());
        let piece = after.checked_sub(1).and_then(|it| self.pieces.get(it));
        let found = piece.and_then(|piece| piece.within(n.into(), u64::from(n) + 1));
        found.map(|it| it.first).ok_or_else(|| Error::Damaged(format!("block {n} of the journal is a hole")))
    }
}

/// Changes of a transaction, until its commit block says that they count.
struct Transaction {
    copies: Vec<(FsBlock, Copy)>,
    /// Where the revoke blocks lie.
    revokes: Vec<FsBlock>,
    /// The CRC-32 of the descriptors and the copies, where commit blocks hold one.
    crc: u32,
}

impl Transaction {
    const EMPTY: Self = Self { copies: Vec::new(), revokes: Vec::new(), crc: !0 };
}

struct Replay<'r, 'd> {
    disk: &'r mut Disk<'d>,
    log: &'r Log,
    start: &'r ReplayStart,
    copies: Copies,
    transaction: Transaction,
    /// The next block of the log.
    next: u32,
    /// Blocks of the log that have not been looked at.
    left: u32,
}

impl<'r, 'd> Replay<'r, 'd> {
    fn new(disk: &'r mut Disk<'d>, log: &'r Log, start: &'r ReplayStart, s_start: u32) -> Self {
        let left = start.superblock.log.len() as u32;
        let (copies, transaction) = (Copies::new(), Transaction::EMPTY);
        Self { disk, log, start, copies, transaction, next: s_start, left }
    }

    /// Looks at all transactions that count. Returns the number of the first one that does not.
    fn run(&mut self) -> Result<Tid, Error> {
        let mut tid = self.start.superblock.s_sequence;
        while let Some(place) = self.take()? {
            let Some(block) = readable(self.disk.in_place(place))? else { break };
            let record = self.start.superblock.records.read(&block);
            let Some(Record { kind, .. }) = record.filter(|it| it.tid == tid) else { break };
            match kind {
                RecordKind::Descriptor(tags) => self.descriptor(tid, &block, &tags)?,
                RecordKind::Revoke => self.transaction.revokes.push(place),
                RecordKind::Commit if self.is_whole(&block) => {
                    self.commit()?;
                    tid = tid.next();
                }
                RecordKind::Commit => break,
            }
        }
        Ok(tid)
    }

    /// The place of the next block of the log, behind the last one the first one; `None` if all were looked at.
    fn take(&mut self) -> Result<Option<FsBlock>, Error> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        let place = self.log.place(self.next)?;
        let log = &self.start.superblock.log;
        self.left = left;
        self.next = if self.next + 1 < log.end { self.next + 1 } else { log.start };
        Ok(Some(place))
    }

    /// Takes note of the copies that follow the descriptor `block`.
    fn descriptor(&mut self, tid: Tid, block: &[u8], tags: &[Tag]) -> Result<(), Error> {
        self.sum(block);
        for tag in tags {
            let Some(place) = self.take()? else { break };
            let copy = readable(self.disk.in_place(place))?;
            self.sum(copy.as_deref().unwrap_or_default());
            let records = self.start.superblock.records;
            if copy.is_none_or(|copy| records.restored(tid, tag, &copy).is_some()) {
                let copy = Copy { block: place, is_escaped: tag.is_escaped };
                self.transaction.copies.push((FsBlock(tag.block), copy));
            }
        }
        Ok(())
    }

    fn sum(&mut self, block: &[u8]) {
        if self.start.has_transaction_checksums {
            self.transaction.crc = crc32_be(self.transaction.crc, block);
        }
    }

    /// Whether the transaction has the CRC-32 that the commit block `block` gives, if it gives one.
    fn is_whole(&self, block: &[u8]) -> bool {
        let [kind, size] = [H_CHKSUM_TYPE, H_CHKSUM_SIZE].map(|it| block.get(it).copied().unwrap_or(0));
        let crc = at::<big_endian::U32>(block, H_CHKSUM).map_or(0, |it| it.get());
        let is_right = (kind, size, crc) == (JBD2_CRC32_CHKSUM, JBD2_CRC32_CHKSUM_SIZE, self.transaction.crc);
        !self.start.has_transaction_checksums || is_right || (kind, size, crc) == (0, 0, 0)
    }

    /// Lets the transaction count.
    fn commit(&mut self) -> Result<(), Error> {
        let Transaction { copies, revokes, .. } =
            std::mem::replace(&mut self.transaction, Transaction::EMPTY);
        self.copies.extend(copies);
        for place in revokes {
            let block = self.disk.in_place(place)?;
            for revoked in self.start.superblock.records.revoked(&block) {
                self.copies.remove(&FsBlock(revoked));
            }
        }
        Ok(())
    }
}

/// The content of a block; `None` if the source does not have it.
fn readable(content: Result<Vec<u8>, Error>) -> Result<Option<Vec<u8>>, Error> {
    match content {
        Ok(content) => Ok(Some(content)),
        Err(Error::Unread(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Checks that no fast commit follows the transactions before `end`.
fn check_fast_commits(disk: &mut Disk, log: &Log, start: &ReplayStart, end: Tid) -> Result<(), Error> {
    if start.fast_commits.is_empty() {
        return Ok(());
    }
    let block = disk.in_place(log.place(start.fast_commits.start)?)?;
    let fc_tag = at::<U16>(&block, 0).map_or(0, |it| it.get());
    let fc_tid = at::<U32>(&block, FC_TID_AT).map_or(0, |it| it.get());
    if fc_tag != EXT4_FC_TAG_HEAD || fc_tid != end.0 {
        return Ok(());
    }
    let what = "the journal has fast commits (feature fast_commit), which are not read: mount the disk once";
    Err(Error::Unsupported(what.into()))
}
