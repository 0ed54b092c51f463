//! Which blocks are open, which come next, and which are listed.

use crate::blocks::{Blocks, Info, State};
use crate::nand::EraseBlock;
use crate::record::{GAPS_MAX, Gap, Run};
use std::collections::BTreeSet;

/// Number of blocks that are listed for the streams to take.
pub(super) const AHEAD: usize = 6;
/// Number of listed blocks that consecutive records share, at least: a start uses two.
pub(super) const SHARED_MIN: usize = 3;
/// Number of free blocks below which blocks are collected. With the open ones, these are the reserve: deletion always has room.
pub(super) const FREE_MIN: usize = AHEAD + 2;
/// Number of free blocks below which blocks are collected before others are cleared.
pub(super) const FREE_TO_CLEAR: usize = AHEAD;

/// Who writes. Content that stays and content that changes lie in different blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stream {
    /// Writes of the guest.
    Guest,
    /// Copies that the layer makes.
    Copies,
    /// Units that are kept apart, of the guest and as copies. Closed after each flush.
    Apart,
}

impl Stream {
    pub(super) const EVERY: [Self; 3] = [Self::Guest, Self::Copies, Self::Apart];
}

/// A block to which runs are appended.
#[derive(Debug)]
pub(super) struct Open {
    pub(super) block: EraseBlock,
    /// The page in which the next run begins. A unit and a record have room from there on.
    pub(super) next: u32,
    /// The runs that the block has, the newest first.
    pub(super) runs: Vec<Run>,
}

/// The blocks, and what they are used for next.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) blocks: Blocks,
    pub(super) streams: [Option<Open>; 3],
    /// Free blocks that the next record lists, for the streams to take.
    pub(super) ahead: Vec<EraseBlock>,
    /// The stream that took a block last.
    pub(super) last_taker: Stream,
    /// Blocks without live content that the next record lists, since they are about to be erased.
    pub(super) doomed: Vec<EraseBlock>,
    /// The blocks that the last record lists.
    pub(super) listed: BTreeSet<EraseBlock>,
    /// The gaps that each record has, until a start has erased all blocks that may have runs of them.
    pub(super) gaps: Vec<Gap>,
    /// The sequences of the tries that failed since the last record.
    pub(super) failed: Option<Gap>,
}

impl Space {
    pub(super) fn new(blocks: Blocks) -> Self {
        let (ahead, doomed, listed, gaps) = (Vec::new(), Vec::new(), BTreeSet::new(), Vec::new());
        let (streams, last_taker) = ([None, None, None], Stream::Guest);
        Self { blocks, streams, ahead, last_taker, doomed, listed, gaps, failed: None }
    }

    pub(super) fn open(&self, stream: Stream) -> Option<&Open> {
        self.streams[stream as usize].as_ref()
    }

    /// The blocks that hold nothing that counts.
    pub(super) fn free(&self) -> Vec<EraseBlock> {
        self.blocks.filter(Info::is_free)
    }

    /// Whether a record may list `block`: no stream writes to it.
    fn is_idle(&self, block: EraseBlock) -> bool {
        matches!(self.blocks[block].state, State::Blank | State::Closed)
    }

    /// Number of blocks that streams could take whether the last record can be read or not, if that lists `listed`.
    pub(super) fn shared(&self, listed: &BTreeSet<EraseBlock>) -> usize {
        let is_usable = |block: EraseBlock| self.is_idle(block) && !self.blocks[block].is_failing;
        self.listed.intersection(listed).filter(|block| is_usable(**block)).count()
    }

    /// Takes free blocks as those to use next: the least worn for writes of the guest and the most worn for copies, in turn, and first in place
    /// of the one that was taken last.
    pub(super) fn refill(&mut self) {
        let mut ahead = std::mem::take(&mut self.ahead);
        let mut free = self.free();
        free.retain(|block| !ahead.contains(block));
        free.sort_by_key(|block| (self.blocks[*block].erases, *block));
        let mut stream = self.last_taker;
        while ahead.len() < AHEAD && !free.is_empty() {
            let (next, index) = match stream {
                Stream::Guest | Stream::Apart => (Stream::Copies, 0),
                Stream::Copies => (Stream::Guest, free.len() - 1),
            };
            ahead.push(free.remove(index));
            stream = next;
        }
        self.ahead = ahead;
    }

    /// What the next record lists. A block of which the first run failed may look blank: no start must take it for a blank one.
    pub(super) fn list(&self) -> BTreeSet<EraseBlock> {
        let has_failed = |info: &Info| info.state == State::Closed && info.is_failing && info.record == 0;
        let stuck = self.blocks.filter(|info| info.state == State::Stuck || has_failed(info));
        let idle = self.ahead.iter().chain(&self.doomed).copied().filter(|block| self.is_idle(*block));
        idle.chain(stuck).collect()
    }

    /// The gaps of the next record. A try that failed is in one: it may list blocks of which it has the content, as its second try does. If both
    /// read well at a start and badly at the next one, the first start must not have touched these blocks.
    pub(super) fn gaps(&self) -> Vec<Gap> {
        let mut gaps: Vec<_> = self.gaps.iter().copied().chain(self.failed).collect();
        gaps.drain(..gaps.len().saturating_sub(GAPS_MAX));
        gaps
    }

    /// The block that `stream` takes next: the guest's writes and units apart the least worn, copies of what stays the most worn.
    pub(super) fn choose(&self, stream: Stream) -> Option<EraseBlock> {
        let key = |block: &EraseBlock| (self.blocks[*block].erases, *block);
        let listed = self.ahead.iter().copied().filter(|block| self.listed.contains(block));
        match stream {
            Stream::Guest | Stream::Apart => listed.min_by_key(key),
            Stream::Copies => listed.max_by_key(key),
        }
    }

    /// Ends the runs of `stream` in its block.
    pub(super) fn close(&mut self, stream: Stream) {
        if let Some(open) = self.streams[stream as usize].take() {
            self.blocks[open.block].state = State::Closed;
        }
    }
}
