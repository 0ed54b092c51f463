//! The life of a key, enumerated: a page of rules ([`page`], `docs/decisions/0037-life-of-a-key.md`) beside a literal machine of media,
//! sectors and keys ([`literal`]), in each state that the page can reach.
//!
//! The world has three blocks of two sectors: blocks 0 and 1 in leaf A of the key tree, block 2 in leaf B. Purge n has its root in slot
//! n % 2 and its log in half n % 2; the first is number 1. At the beginning the three blocks are live, and hold the contents 1, 2 and 3,
//! durably. Each write and each rewrite draws the next number as its content. Frames of the journal are atomic and durable at once.
//!
//! # What happens, step by step
//!
//! *Write*: [`Step::Write`] chooses the cell: a dead block that has no early cell gets a fresh one, in memory; other blocks keep theirs.
//! Each [`Step::Sector`] puts the next sector to the cache of DATA; the second one ends the write.
//!
//! *Flush*: (1) names all blocks that have an early cell and no write under way, and puts one sector with their entries at the end of the log
//! (if any are named), of both logs while a purge has not yet destroyed the old root; (2) syncs MAP; (3) syncs DATA; (4) a frame: what
//! was named is not dead, and its old key is owed; the cell is an early one no more. The flush is answered.
//!
//! *Rewrite* of a live block under a fresh cell, with new content: (1) ciphertext to the two slot sectors of the journal, the entry *prepared* to
//! the log; (2) syncs JOURNAL and MAP; (3) the frame `stage`; (4) both sectors in place, the entry *active* to the log; (5) syncs DATA; (6) syncs MAP;
//! (7) the frame `release`: the old key is owed.
//!
//! *Purge*: (1) takes all that is dead (with an early cell or not) and owed by the ledger as its batch. Fresh cells: for dead
//! blocks, for the leaves that hold blocks of the batch or of the log, for the top page, and for the next log. Other blocks keep
//! the cell that tree and log give them; (2) puts the changed leaves and the top page to the sides that are not in use; (3) syncs MAP;
//! (4) puts the next root to the other slot; (5) syncs ROOT: the next root is the present one, and dead blocks that have no early cell are
//! under their fresh cells; (6) puts zeros to the old slot; (7) syncs ROOT; (8) puts zeros to both sectors of each block that was dead at (1)
//! and has had no early cell, neither then nor since: these blocks are closed now; (9) syncs DATA; (10) a frame: these blocks are not dead, the
//! owed blocks of the batch owe nothing, unless they came to owe anew since (1); receipts for what was dying at (1).
//!
//! *Busy* instead of (4): the purge ends, and nothing happened. *Doubt* instead of (4): the write of the root failed. If it
//! `reached` the cache, the slot reads as the next root and no later sync makes that durable, only a new write and a sync; a crash keeps or loses it. In both
//! cases the medium may hold the next root until the next synced write of the slot. Then *Settle*: (1) reads the slot back,
//! and writes the next root again if it is there, else zeros; (2) syncs ROOT; then the purge goes on with (6), or has ended as if `Busy`.
//!
//! *Crash* and *Kill* end all that is under way, and the server is down. *Start*: (1) syncs MAP, takes the newer whole slot whose cell opens the
//! top page, and writes that slot again; (2) syncs ROOT; (3) puts zeros to the other slot; (4) syncs ROOT, and replays the log up to the first sector that does not
//! open or does not follow on the one before. The server is up, unless a block is staged: (5) its slot sectors go to their place, under the prepared
//! cell, and the entry *active* to the log; (6) syncs DATA and MAP; (7) the frame `release`, and the server is up.
//!
//! # Contents
//!
//! A content is *of the present life* of its block from `Write` or rewrite (1) on. It is *dying* once its block is trimmed; for a rewrite, once `release`
//! was written: all contents of the block but that of the rewrite; after a crash or kill: all contents of the present life of a block that is dead by the ledger.
//! A purge that ends at (10) gives receipts for what was dying at its (1) of the blocks of its batch.

pub mod graph;
mod judge;
mod key;
mod literal;
mod page;
mod state;

use std::collections::BTreeSet;

/// Blocks of the world.
pub const BLOCKS: usize = 3;
/// Sectors of a block.
pub const SECTORS: usize = 2;

/// An event. What each does is in the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Step {
    /// A write of a whole block begins. Illegal while a write, a rewrite or a flush that names the block is under way, or while the block
    /// is closed.
    Write(u8),
    /// The write of the block puts its next sector. Illegal if there is no write of the block.
    Sector(u8),
    /// The guest frees a block: a frame. Illegal as a write is, and if the block is dead and has no early cell.
    Trim(u8),
    /// The next step of the flush, or the first of a new one. Always legal while the server is up.
    Flush,
    /// The first step of a rewrite of the block. Illegal if it is dead by the ledger, or a write of it, another rewrite or a purge is under
    /// way.
    Rewrite(u8),
    /// The next step of the rewrite. Illegal if there is none.
    RewriteNext,
    /// The next step of the purge, or the first of a new one. To begin is illegal while a flush or a rewrite is under way, and if
    /// nothing is dead or owed; to go on, while the root is in doubt.
    Purge,
    /// Instead of step 4 of a purge.
    Busy,
    /// Instead of step 4 of a purge.
    Doubt {
        /// The bytes reached the cache.
        reached: bool,
    },
    /// The next step after a doubt.
    Settle,
    /// The host loses its cache, but for the unsynced places of this mask (see [`Answer::unsynced`]), whose newest bytes became durable.
    /// Legal with a subset of what is unsynced, unless a start was refused.
    Crash(u32),
    /// The server dies; the host's cache stays. Illegal right after a crash or a kill, and if a start was refused.
    Kill,
    /// The next step of a start. Legal while the server is down and was not refused.
    Start,
}

/// Bits of the places in [`Answer::unsynced`] and [`Step::Crash`].
pub mod places {
    /// Sector `sector` of `block` in DATA.
    pub const fn data(block: usize, sector: usize) -> u32 {
        1 << (2 * block + sector)
    }
    /// The page of leaf A (0) or B (1), on whichever side was written last.
    pub const fn leaf(leaf: usize) -> u32 {
        1 << (6 + leaf)
    }
    /// The top page, on whichever side was written last.
    pub const TOP: u32 = 1 << 8;
    /// The first and the second unsynced sector of a half of the log.
    pub const fn log(half: usize, nth: usize) -> u32 {
        1 << (9 + 2 * half + nth)
    }
    /// A sector of the slot of staging, in the journal.
    pub const fn staged(sector: usize) -> u32 {
        1 << (13 + sector)
    }
    /// A slot of the root.
    pub const fn root(slot: usize) -> u32 {
        1 << (15 + slot)
    }
}

/// What a read of a sector shows.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Read {
    /// The server is down, or a write or rewrite of the block is under way.
    Waits,
    /// Zeros.
    Zeros,
    /// The content of a write or rewrite.
    Content(u32),
    /// Bytes under another cell.
    Garbage,
}

/// Whether the disk is open.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Server {
    /// After a crash or kill; how many steps the start has had.
    Down(u8),
    /// Requests are answered.
    Up,
    /// A start found no root that opens the top page, or a page or a prepared cell missing: the disk is lost.
    Refused,
}

/// What shows after a step.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Answer {
    /// Whether the disk is open.
    pub server: Server,
    /// What a read shows, sector by sector.
    pub reads: [[Read; SECTORS]; BLOCKS],
    /// The places whose newest bytes in the host's cache differ from the durable ones ([`places`]).
    pub unsynced: u32,
    /// Contents that an attacker can open who has every sector that DATA, MAP and JOURNAL ever had, in the cache or durably, and all
    /// that the slots of the root may hold: what is there, and what was written there since the last synced write of the slot, and
    /// before it was synced what was there before.
    pub opens: BTreeSet<u32>,
    /// Contents that have a receipt.
    pub receipts: BTreeSet<u32>,
}

/// A rule that the literal machine leaves out, to show that the enumeration notices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fault {
    /// A changed leaf is written under the cell of its old page.
    KeepPageCell,
    /// The next leaf says of a dead block that has an early cell what the old leaf says.
    SpareWritten,
    /// The pages are synced after the next root only: purge (3) syncs nothing, (5) syncs ROOT, and (7) MAP too.
    TopBeforePages,
    /// The old slot is not destroyed: purge (6) and (7) do nothing.
    SpareRoot,
    /// Purge (7) does not sync the zeros of the old slot; (10) does, after its frame.
    ReceiptBeforeRoot,
    /// A start syncs nothing in (1) to (4), and does not write its slot again.
    StartUnsynced,
    /// A root in doubt is taken for one that was never written: no `Settle` touches a medium, and the second one ends the purge.
    UnsettledRoot,
    /// Flush (3) syncs nothing: the frame comes before the data.
    FrameBeforeData,
    /// Flush (2) syncs nothing: the frame comes before the cells.
    ClearBeforeCell,
    /// A flush names blocks whose write has not ended.
    NameUnended,
    /// While a purge runs, entries go to the log of the old root only.
    OneHalf,
    /// A write to a live block takes a fresh early cell, in its place.
    FreshUnderLive,
    /// A rewrite logs its cell as active in (1) already.
    ActiveAtOnce,
    /// A rewrite never logs its cell as active.
    NeverActive,
}

impl Fault {
    /// All faults.
    pub const ALL: [Self; 14] = [
        Self::KeepPageCell,
        Self::SpareWritten,
        Self::TopBeforePages,
        Self::SpareRoot,
        Self::ReceiptBeforeRoot,
        Self::StartUnsynced,
        Self::UnsettledRoot,
        Self::FrameBeforeData,
        Self::ClearBeforeCell,
        Self::NameUnended,
        Self::OneHalf,
        Self::FreshUnderLive,
        Self::ActiveAtOnce,
        Self::NeverActive,
    ];
}
