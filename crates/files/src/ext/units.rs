//! Numbers of ext, each with its own type, and the errors that name them.

use crate::Error;

/// The number of a block of the file system.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FsBlock(pub u64);

/// The number of a block of a file, from 0 on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct FileBlock(pub u64);

/// The number of an inode, from 1 on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Ino(pub u32);

impl Ino {
    /// The error of a file whose inode, or what belongs to it, contradicts itself.
    pub fn damaged(self, what: &str) -> Error {
        Error::Damaged(format!("inode {}: {what}", self.0))
    }

    /// The error of a file that uses what is not read.
    pub fn unsupported(self, what: &str) -> Error {
        Error::Unsupported(format!("inode {}: {what}", self.0))
    }
}

/// Blocks of a file that lie in one piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Piece {
    /// The first block of the file.
    pub at: FileBlock,
    /// Where that block lies.
    pub first: FsBlock,
    /// The number of blocks.
    pub blocks: u64,
}

impl Piece {
    /// Whether `next` continues this piece in the file and on the disk.
    pub fn is_continued_by(self, next: Self) -> bool {
        let follows = |from: u64, to: u64| from.checked_add(self.blocks) == Some(to);
        follows(self.at.0, next.at.0) && follows(self.first.0, next.first.0)
    }

    /// The part within blocks `from..end` of the file.
    pub fn within(self, from: u64, end: u64) -> Option<Self> {
        let start = self.at.0.max(from);
        let stop = self.at.0.saturating_add(self.blocks).min(end);
        let skipped = start - self.at.0;
        (start < stop).then(|| Self {
            at: FileBlock(start),
            first: FsBlock(self.first.0.saturating_add(skipped)),
            blocks: stop - start,
        })
    }
}
