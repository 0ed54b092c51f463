//! Features with which a file system can be understood.
//!
//! Unknown compatible features are refused too: a kernel without such a feature may write, but a
//! kernel with it may write in another order, as `has_journal` shows.

use crate::formats::ext2::raw::RawSuperblock;
use crate::formats::features::{Word, unknown};
use crate::formats::format::Reason;

/// The feature words in the order of [`RawSuperblock::features`]. `docs/formats/ext.md` names what is understood, and
/// why.
const WORDS: [Word; 3] = [
    ('C', 0x1A7F, &[(0x100, "snapshot_bitmap"), (0x400, "fast_commit")]),
    ('I', 0x3_E7D6, &[(0x1, "compression"), (JOURNAL_DEV, "journal_dev"), (0x1000, "dirdata")]),
    ('R', 0x1_B77F, &[(0x800, "replica"), (0x4000, "shared_blocks")]),
];

const HAS_JOURNAL: u32 = 0x4;
const JOURNAL_DEV: u32 = 0x8;
const LAZY_BG: u32 = 0x40;
const SPARSE_SUPER2: u32 = 0x200;
const META_BG: u32 = 0x10;
const EXTENTS: u32 = 0x40;
const WIDE: u32 = 0x80;
const MMP: u32 = 0x100;
const EA_INODE: u32 = 0x400;
const INLINE_DATA: u32 = 0x8000;
const SPARSE_SUPER: u32 = 0x1;
const UNINIT_BG: u32 = 0x10;
const BIGALLOC: u32 = 0x200;
const METADATA_CSUM: u32 = 0x400;

/// Bits of the incompatible and the read-only compatible features that the
/// drivers of ext2 and ext3 know.
const OF_EXT3: (u32, u32) = (0x16, 0x7);

/// Features that decide where structures lie, or what they mean.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Features {
    pub has_journal: bool,
    pub lazy_bg: bool,
    pub sparse_super2: bool,
    pub meta_bg: bool,
    /// `64bit`: descriptors may be larger, and have upper halves of block numbers.
    pub wide: bool,
    pub mmp: bool,
    pub ea_inode: bool,
    pub extents: bool,
    pub inline_data: bool,
    pub sparse_super: bool,
    /// A bit of a map stands for a cluster of blocks.
    pub bigalloc: bool,
    /// Descriptors have checksums, so that their flags mean something.
    pub group_csum: bool,
}

impl Features {
    /// The features of a superblock.
    pub(super) fn of(superblock: &RawSuperblock) -> Result<Self, Reason> {
        let [compat, incompat, ro_compat] = superblock.features();
        check([compat, incompat, ro_compat])?;
        Ok(Self {
            has_journal: compat & HAS_JOURNAL != 0,
            lazy_bg: compat & LAZY_BG != 0,
            sparse_super2: compat & SPARSE_SUPER2 != 0,
            meta_bg: incompat & META_BG != 0,
            wide: incompat & WIDE != 0,
            mmp: incompat & MMP != 0,
            ea_inode: incompat & EA_INODE != 0,
            extents: incompat & EXTENTS != 0,
            inline_data: incompat & INLINE_DATA != 0,
            sparse_super: ro_compat & SPARSE_SUPER != 0,
            bigalloc: ro_compat & BIGALLOC != 0,
            group_csum: ro_compat & (UNINIT_BG | METADATA_CSUM) != 0,
        })
    }
}

/// Whether the superblock belongs to an external journal, not to a file system.
pub(super) fn is_journal(superblock: &RawSuperblock) -> bool {
    superblock.s_feature_incompat.get() & JOURNAL_DEV != 0
}

/// Checks the features of an external journal's device: the ones understood change nothing there.
pub(super) fn check_journal(superblock: &RawSuperblock) -> Result<(), Reason> {
    let [compat, incompat, ro_compat] = superblock.features();
    check([compat, incompat & !JOURNAL_DEV, ro_compat])
}

fn check(features: [u32; 3]) -> Result<(), Reason> {
    match unknown(&WORDS, features).as_slice() {
        [] => Ok(()),
        names => Err(not_understood(names)),
    }
}

/// Name of a file system with the features of this superblock.
#[must_use]
pub fn name(superblock: &RawSuperblock) -> &'static str {
    let [compat, incompat, ro_compat] = superblock.features();
    match (incompat & !OF_EXT3.0, ro_compat & !OF_EXT3.1) {
        (0, 0) if compat & HAS_JOURNAL != 0 => "ext3",
        (0, 0) => "ext2",
        _ => "ext4",
    }
}

/// The reason for refusing the features `names`, which are in back quotes.
pub(super) fn not_understood(names: &[String]) -> Reason {
    Reason(match names {
        [name] => format!("the feature {name} is not understood"),
        names => format!("the features {} are not understood", names.join(", ")),
    })
}

#[cfg(test)]
mod tests;
