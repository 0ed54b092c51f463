//! The state of each block.

use crate::nand::EraseBlock;
use std::ops::{Index, IndexMut};

/// The use of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    /// Erased, with a header.
    Blank,
    /// Runs are appended to it.
    Open,
    /// Nothing more is programmed there before it is erased.
    Closed,
    /// Marked bad: it holds nothing of the disk.
    Bad,
    /// Failed to erase, and may hold versions. It is listed in each record, and never used.
    Stuck,
}

/// The state of a block, and what it holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Info {
    pub(crate) state: State,
    /// Number of erases.
    pub(crate) erases: u32,
    /// Number of live units.
    pub(crate) live: u32,
    /// The sequence of its newest run.
    pub(crate) sequence: u64,
    /// The page of its newest record; 0 before the first.
    pub(crate) record: u32,
    /// Whether its records may have marks that still matter.
    pub(crate) has_marks: bool,
    /// Whether it may hold versions that the map does not name.
    pub(crate) is_murky: bool,
    /// Whether it must be retired.
    pub(crate) is_failing: bool,
    /// Whether half of the correctable bits were wrong in a page.
    pub(crate) is_weary: bool,
}

/// All blocks, by number.
#[derive(Clone, Debug)]
pub(crate) struct Blocks(Vec<Info>);

impl Blocks {
    pub(crate) fn new(count: u32) -> Self {
        let info = Info {
            state: State::Closed,
            erases: 0,
            live: 0,
            sequence: 0,
            record: 0,
            has_marks: false,
            is_murky: true,
            is_failing: false,
            is_weary: false,
        };
        Self(vec![info; count as usize])
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (EraseBlock, &Info)> {
        (0..).map(EraseBlock).zip(&self.0)
    }

    /// The blocks of which `filter` is true.
    pub(crate) fn filter(&self, filter: impl Fn(&Info) -> bool) -> Vec<EraseBlock> {
        self.iter().filter(|(_, info)| filter(info)).map(|(block, _)| block).collect()
    }

    /// Mean number of erases of the blocks that are not bad.
    pub(crate) fn mean_erases(&self) -> u32 {
        let good =
            || self.0.iter().filter(|info| info.state != State::Bad).map(|info| u64::from(info.erases));
        (good().sum::<u64>() / (good().count() as u64).max(1)) as u32
    }
}

impl Info {
    /// Whether the block holds nothing that counts, and can be listed.
    pub(crate) fn is_free(&self) -> bool {
        match self.state {
            State::Blank => true,
            State::Closed => self.live == 0 && !self.has_marks && !self.is_failing,
            State::Open | State::Bad | State::Stuck => false,
        }
    }
}

impl Index<EraseBlock> for Blocks {
    type Output = Info;
    fn index(&self, block: EraseBlock) -> &Info {
        &self.0[block.0 as usize]
    }
}

impl IndexMut<EraseBlock> for Blocks {
    fn index_mut(&mut self, block: EraseBlock) -> &mut Info {
        &mut self.0[block.0 as usize]
    }
}
