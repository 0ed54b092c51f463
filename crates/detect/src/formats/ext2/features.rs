//! Features with which a file system can be understood.
//!
//! Unknown compatible features are refused too: a kernel without such a feature may write, but a
//! kernel with it may write in another order, as `has_journal` shows.

use crate::formats::ext2::raw::RawSuperblock;
use crate::formats::format::Reason;

/// The feature words, in the order of [`RawSuperblock::features`].
const WORDS: [char; 3] = ['C', 'I', 'R'];

/// Features by word and bit: the name that mke2fs gives, and whether this crate understands a file
/// system with the feature.
const KNOWN: [(char, u32, &str, bool); 44] = [
    ('C', 0x1, "dir_prealloc", true),
    ('C', 0x2, "imagic_inodes", true),
    ('C', HAS_JOURNAL, "has_journal", true),
    ('C', 0x8, "ext_attr", true),
    ('C', 0x10, "resize_inode", true),
    ('C', 0x20, "dir_index", true),
    ('C', LAZY_BG, "lazy_bg", true),
    ('C', 0x100, "snapshot_bitmap", false),
    ('C', SPARSE_SUPER2, "sparse_super2", true),
    ('C', 0x400, "fast_commit", false),
    ('C', 0x800, "stable_inodes", true),
    ('C', 0x1000, "orphan_file", true),
    ('I', 0x1, "compression", false),
    ('I', 0x2, "filetype", true),
    ('I', 0x4, "needs_recovery", true),
    ('I', JOURNAL_DEV, "journal_dev", false),
    ('I', META_BG, "meta_bg", true),
    ('I', EXTENTS, "extents", true),
    ('I', WIDE, "64bit", true),
    ('I', MMP, "mmp", true),
    ('I', 0x200, "flex_bg", true),
    ('I', EA_INODE, "ea_inode", true),
    ('I', 0x1000, "dirdata", false),
    ('I', 0x2000, "metadata_csum_seed", true),
    ('I', 0x4000, "large_dir", true),
    ('I', INLINE_DATA, "inline_data", true),
    ('I', 0x10000, "encrypt", true),
    ('I', 0x20000, "casefold", true),
    ('R', SPARSE_SUPER, "sparse_super", true),
    ('R', 0x2, "large_file", true),
    ('R', 0x4, "btree_dir", true),
    ('R', 0x8, "huge_file", true),
    ('R', UNINIT_BG, "uninit_bg", true),
    ('R', 0x20, "dir_nlink", true),
    ('R', 0x40, "extra_isize", true),
    ('R', 0x100, "quota", true),
    ('R', BIGALLOC, "bigalloc", true),
    ('R', METADATA_CSUM, "metadata_csum", true),
    ('R', 0x800, "replica", false),
    ('R', 0x1000, "read-only", true),
    ('R', 0x2000, "project", true),
    ('R', 0x4000, "shared_blocks", false),
    ('R', 0x8000, "verity", true),
    ('R', 0x10000, "orphan_present", true),
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
    ///
    /// # Errors
    /// Names every feature that is not understood.
    pub(super) fn of(superblock: &RawSuperblock) -> Result<Self, Reason> {
        check(superblock, |_| true)?;
        let [compat, incompat, ro_compat] = superblock.features();
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
///
/// # Errors
/// Names every feature that is not understood.
pub(super) fn check_journal(superblock: &RawSuperblock) -> Result<(), Reason> {
    check(superblock, |name| name != "journal_dev")
}

fn check(superblock: &RawSuperblock, counts: impl Fn(&str) -> bool) -> Result<(), Reason> {
    let unknown = WORDS.into_iter().zip(superblock.features()).flat_map(unknown_in);
    let unknown: Vec<String> = unknown.filter(|name| counts(name)).collect();
    if unknown.is_empty() { Ok(()) } else { Err(not_understood(&unknown)) }
}

/// Name of a file system with the features of this superblock.
pub(super) fn name(superblock: &RawSuperblock) -> &'static str {
    let [compat, incompat, ro_compat] = superblock.features();
    match (incompat & !OF_EXT3.0, ro_compat & !OF_EXT3.1) {
        (0, 0) if compat & HAS_JOURNAL != 0 => "ext3",
        (0, 0) => "ext2",
        _ => "ext4",
    }
}

/// The reason for refusing the features `names`.
pub(super) fn not_understood(names: &[String]) -> Reason {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Reason(match names.as_slice() {
        [name] => format!("the feature {name} is not understood"),
        names => format!("the features {} are not understood", names.join(", ")),
    })
}

fn unknown_in((word, bits): (char, u32)) -> impl Iterator<Item = String> {
    (0..u32::BITS).filter(move |bit| bits >> bit & 1 == 1).filter_map(move |bit| unknown(word, bit))
}

/// The name of a feature that is not understood; made up as e2fsprogs does where there is none.
fn unknown(word: char, bit: u32) -> Option<String> {
    match KNOWN.iter().find(|known| (known.0, known.1) == (word, 1 << bit)) {
        Some((_, _, _, true)) => None,
        Some((_, _, name, false)) => Some((*name).to_string()),
        None => Some(format!("FEATURE_{word}{bit}")),
    }
}

#[cfg(test)]
mod tests;
