//! Which features a file system may have for us to read it.
//!
//! Unknown compatible features are refused too: a kernel that does not know
//! them may write, but one that knows may do it in another order, as
//! `has_journal` shows.

use super::bytes::u32_at;
use crate::format::Reason;

/// Where `s_feature_compat`, `s_feature_incompat` and `s_feature_ro_compat` are.
const WORDS: [(usize, char); 3] = [(0x5C, 'C'), (0x60, 'I'), (0x64, 'R')];

/// Features by word and bit: the name that mke2fs gives them, and whether what
/// is read here means the same with it.
const KNOWN: [(char, u32, &str, bool); 44] = [
    ('C', 0x1, "dir_prealloc", true),
    ('C', 0x2, "imagic_inodes", true),
    ('C', 0x4, "has_journal", false),
    ('C', 0x8, "ext_attr", true),
    ('C', 0x10, "resize_inode", true),
    ('C', 0x20, "dir_index", true),
    ('C', LAZY_BG, "lazy_bg", true),
    ('C', 0x100, "snapshot_bitmap", false),
    ('C', SPARSE_SUPER2, "sparse_super2", true),
    ('C', 0x400, "fast_commit", false),
    ('C', 0x800, "stable_inodes", true),
    ('C', 0x1000, "orphan_file", false),
    ('I', 0x1, "compression", false),
    ('I', 0x2, "filetype", true),
    ('I', 0x4, "needs_recovery", false),
    ('I', 0x8, "journal_dev", false),
    ('I', META_BG, "meta_bg", true),
    ('I', 0x40, "extents", false),
    ('I', 0x80, "64bit", false),
    ('I', 0x100, "mmp", false),
    ('I', 0x200, "flex_bg", true),
    ('I', 0x400, "ea_inode", false),
    ('I', 0x1000, "dirdata", false),
    ('I', 0x2000, "metadata_csum_seed", false),
    ('I', 0x4000, "large_dir", true),
    ('I', 0x8000, "inline_data", false),
    ('I', 0x10000, "encrypt", true),
    ('I', 0x20000, "casefold", true),
    ('R', SPARSE_SUPER, "sparse_super", true),
    ('R', 0x2, "large_file", true),
    ('R', 0x4, "btree_dir", true),
    ('R', 0x8, "huge_file", true),
    ('R', 0x10, "uninit_bg", false),
    ('R', 0x20, "dir_nlink", true),
    ('R', 0x40, "extra_isize", true),
    ('R', 0x100, "quota", true),
    ('R', 0x200, "bigalloc", false),
    ('R', 0x400, "metadata_csum", false),
    ('R', 0x800, "replica", false),
    ('R', 0x1000, "read-only", true),
    ('R', 0x2000, "project", true),
    ('R', 0x4000, "shared_blocks", false),
    ('R', 0x8000, "verity", true),
    ('R', 0x10000, "orphan_present", false),
];

const LAZY_BG: u32 = 0x40;
const SPARSE_SUPER2: u32 = 0x200;
const META_BG: u32 = 0x10;
const SPARSE_SUPER: u32 = 0x1;

/// Those that decide where something is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Features {
    pub lazy_bg: bool,
    pub sparse_super2: bool,
    pub meta_bg: bool,
    pub sparse_super: bool,
}

impl Features {
    /// Those of a superblock.
    ///
    /// # Errors
    /// Names all that are not understood.
    pub(super) fn from_bytes(superblock: &[u8]) -> Result<Self, Reason> {
        let unknown: Vec<String> = WORDS.iter().flat_map(|word| unknown_in(superblock, *word)).collect();
        if !unknown.is_empty() {
            return Err(not_understood(&unknown));
        }
        let [compat, incompat, ro_compat] = WORDS.map(|(at, _)| u32_at(superblock, at));
        Ok(Self {
            lazy_bg: compat & LAZY_BG != 0,
            sparse_super2: compat & SPARSE_SUPER2 != 0,
            meta_bg: incompat & META_BG != 0,
            sparse_super: ro_compat & SPARSE_SUPER != 0,
        })
    }
}

/// Says that these features are not understood.
pub(super) fn not_understood(names: &[String]) -> Reason {
    let names: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    Reason(match names.as_slice() {
        [name] => format!("the feature {name} is not understood"),
        names => format!("the features {} are not understood", names.join(", ")),
    })
}

fn unknown_in(superblock: &[u8], (at, word): (usize, char)) -> impl Iterator<Item = String> {
    let bits = u32_at(superblock, at);
    (0..u32::BITS).filter(move |bit| bits >> bit & 1 == 1).filter_map(move |bit| unknown(word, bit))
}

/// The name of a feature that is not understood; as e2fsprogs makes one up
/// where it has none itself.
fn unknown(word: char, bit: u32) -> Option<String> {
    match KNOWN.iter().find(|known| (known.0, known.1) == (word, 1 << bit)) {
        Some((_, _, _, true)) => None,
        Some((_, _, name, false)) => Some((*name).to_string()),
        None => Some(format!("FEATURE_{word}{bit}")),
    }
}

#[cfg(test)]
mod tests;
