//! Where pages of the key tree and halves of the log lie.
//!
//! The format: `docs/formats/keytree.md`. Every page has a place of its own from the start, so that no page says where another one lies.

use crate::base::units::{BLOCK_BYTES, Extent, Pos};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::store::label;
use crate::store::label::{LABEL_BYTES, Wrong};
use std::ops::Range;

const MAGIC: [u8; 8] = *b"QKEYTREE";
/// Bytes of the head, which begins with the label.
const HEAD_BYTES: u64 = 4096;
/// Bytes that a medium writes as a whole.
pub(super) const SECTOR_BYTES: u64 = 512;
/// Bytes of a page.
pub(super) const PAGE_BYTES: u64 = 4096;
/// Bytes of both places of a page.
pub(super) const PAIR_BYTES: u64 = 2 * PAGE_BYTES;
/// Number of entries of a page: blocks of a leaf, children of any other page.
pub(super) const ENTRIES: usize = 112;
/// Bytes of the disk whose cells are in one leaf.
pub const LEAF_BYTES: u64 = ENTRIES as u64 * BLOCK_BYTES;
/// Number of sectors in a half of the log.
pub(super) const LOG_SECTORS: u32 = 5464;
/// Bytes of a half of the log.
pub(super) const LOG_BYTES: u64 = LOG_SECTORS as u64 * SECTOR_BYTES;
/// Where the pages begin.
const PAGES_AT: u64 = HEAD_BYTES + 2 * LOG_BYTES;
/// Bytes of the medium of the top cell.
pub const ROOT_BYTES: u64 = 12_288;
/// Bytes of the largest disk: an entry of the log has five bytes for the number of a block.
pub(super) const SIZE_MAX: u64 = BLOCK_BYTES << 40;

/// The shape of one disk's key tree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Layout {
    disk: [u8; 16],
    /// Number of blocks, the last of which may be shorter.
    blocks: u64,
    /// Number of levels.
    height: u8,
}

/// A page of the key tree.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct PageId {
    /// 0 for a leaf, else one more than the level of its children.
    pub(super) level: u8,
    /// The number of the page within its level.
    pub(super) index: u64,
}

impl Layout {
    /// The tree of a disk of `size` bytes.
    ///
    /// # Panics
    /// If `size` exceeds [`SIZE_MAX`].
    pub(super) fn new(disk: [u8; 16], size: u64) -> Self {
        assert!(size <= SIZE_MAX, "a disk of {size} bytes has blocks without numbers");
        let blocks = size.div_ceil(BLOCK_BYTES);
        let height =
            (1..).find(|height| span(height - 1) >= blocks).expect("112^6 blocks are more than 2^40");
        Self { disk, blocks, height }
    }

    /// The uuid of the disk.
    pub(super) fn disk(&self) -> [u8; 16] {
        self.disk
    }

    /// Number of blocks of the disk.
    pub(super) fn blocks(&self) -> u64 {
        self.blocks
    }

    /// Number of levels, at least one.
    #[cfg(test)]
    pub(super) fn height(&self) -> u8 {
        self.height
    }

    /// The one page of the highest level.
    pub(super) fn top(&self) -> PageId {
        PageId { level: self.height - 1, index: 0 }
    }

    /// Number of pages of a level.
    pub(super) fn pages(&self, level: u8) -> u64 {
        self.blocks.div_ceil(span(level)).max(1)
    }

    /// Both places of a page, side by side.
    ///
    /// # Panics
    /// If the tree has no such page.
    pub(super) fn pair(&self, id: PageId) -> Place {
        assert!(id.level < self.height && id.index < self.pages(id.level), "{id:?} is no page of {self:?}");
        let before = self.pages_above(id.level) + id.index;
        Place { on: MediumId::Map, extent: Extent::new(PAGES_AT + before * PAIR_BYTES, PAIR_BYTES) }
    }

    /// One place of a page: side 0 or 1.
    ///
    /// # Panics
    /// As [`Layout::pair`], or for another side.
    pub(super) fn side(&self, id: PageId, side: u8) -> Place {
        assert!(side < 2, "a page has two places");
        let pair = self.pair(id);
        let at = pair.extent.start.0 + u64::from(side) * PAGE_BYTES;
        Place { on: pair.on, extent: Extent::new(at, PAGE_BYTES) }
    }

    /// The page in one of whose places the byte at `pos` lies; `None` before the first page and behind the last.
    pub(super) fn page_at(&self, pos: Pos) -> Option<PageId> {
        let number = pos.0.checked_sub(PAGES_AT)? / PAIR_BYTES;
        let level =
            (0..self.height).rev().find(|level| number < self.pages_above(*level) + self.pages(*level))?;
        Some(PageId { level, index: number - self.pages_above(level) })
    }

    /// The blocks of the disk below a page.
    pub(super) fn blocks_of(&self, id: PageId) -> Range<u64> {
        let at = |index: u64| index.saturating_mul(span(id.level)).min(self.blocks);
        at(id.index)..at(id.index.saturating_add(1))
    }

    /// Number of entries of a page below which the disk has blocks: the first ones.
    #[cfg(test)]
    pub(super) fn entries_of(&self, id: PageId) -> usize {
        let blocks = self.blocks_of(id);
        (blocks.end - blocks.start).div_ceil(entry_span(id.level)) as usize
    }

    /// The page below entry `n` of a page, whether the disk has blocks there or not.
    ///
    /// # Panics
    /// If the page is a leaf, or has no such entry.
    pub(super) fn child(&self, id: PageId, n: usize) -> PageId {
        assert!(0 < id.level && id.level < self.height && n < ENTRIES, "{id:?} has no child {n}");
        PageId { level: id.level - 1, index: id.index * ENTRIES as u64 + n as u64 }
    }

    /// The page of a level above `block`, and its entry there.
    pub(super) fn slot_of(&self, block: u64, level: u8) -> (PageId, usize) {
        assert!(block < self.blocks && level < self.height, "block {block} at level {level} of {self:?}");
        let entry = block % span(level) / entry_span(level);
        (PageId { level, index: block / span(level) }, entry as usize)
    }

    /// The pages of a level above `blocks`, in order.
    ///
    /// # Panics
    /// If the disk has not all of the blocks.
    pub(super) fn above(&self, blocks: Range<u64>, level: u8) -> impl Iterator<Item = PageId> + use<> {
        assert!(blocks.end <= self.blocks && level < self.height, "{blocks:?} at level {level} of {self:?}");
        (blocks.start / span(level)..blocks.end.div_ceil(span(level)))
            .map(move |index| PageId { level, index })
    }

    /// Where a half of the log lies in the map medium: half 0 or 1.
    pub(super) fn log_half(&self, half: u8) -> Extent<Pos> {
        assert!(half < 2, "the log has two halves");
        Extent::new(HEAD_BYTES + u64::from(half) * LOG_BYTES, LOG_BYTES)
    }

    /// Bytes of the map medium.
    pub(super) fn map_bytes(&self) -> u64 {
        PAGES_AT + (self.pages_above(0) + self.pages(0)) * PAIR_BYTES
    }

    /// The first bytes of the map medium.
    pub(super) fn head(&self) -> Vec<u8> {
        let mut bytes = label::to_bytes(MAGIC, self.disk);
        bytes.resize(HEAD_BYTES as usize, 0);
        bytes
    }

    /// Checks the bytes that a map medium begins with, of which there may be fewer than the head has.
    pub(super) fn check_head(&self, bytes: &[u8]) -> Result<(), Wrong> {
        label::check(bytes.get(..LABEL_BYTES).ok_or(Wrong::Label)?, MAGIC, self.disk)
    }

    /// Number of pages of the levels above this one.
    fn pages_above(&self, level: u8) -> u64 {
        (level + 1..self.height).map(|level| self.pages(level)).sum()
    }
}

/// Both halves of the log.
pub(super) fn log() -> Extent<Pos> {
    Extent::new(HEAD_BYTES, 2 * LOG_BYTES)
}

/// Number of blocks below a page of a level.
fn span(level: u8) -> u64 {
    entry_span(level) * ENTRIES as u64
}

/// Number of blocks below an entry of such a page.
fn entry_span(level: u8) -> u64 {
    (ENTRIES as u64).pow(u32::from(level))
}

#[cfg(test)]
mod tests {
    use crate::store::sealed::layout::*;

    /// Sizes around those where a level is added, and others.
    const SIZES: [u64; 8] = [
        0,
        512,
        LEAF_BYTES,
        LEAF_BYTES + 512,
        112 * LEAF_BYTES - 4096,
        112 * LEAF_BYTES,
        112 * LEAF_BYTES + 1,
        1 << 30,
    ];

    fn layout(size: u64) -> Layout {
        Layout::new([5; 16], size)
    }

    fn pages(layout: &Layout) -> impl Iterator<Item = PageId> {
        let levels = (0..layout.height()).rev();
        levels.flat_map(|level| (0..layout.pages(level)).map(move |index| PageId { level, index }))
    }

    #[test]
    fn the_tree_has_the_least_height_that_covers_the_disk() {
        assert_eq!(SIZES.map(|size| layout(size).height()), [1, 1, 1, 2, 2, 2, 3, 3]);
        let of = |blocks: u64| layout(blocks * BLOCK_BYTES).height();
        for height in 1..6 {
            let blocks = 112_u64.pow(height);
            assert_eq!((of(blocks), of(blocks + 1)), (height as u8, height as u8 + 1));
        }
        assert_eq!(layout(SIZE_MAX).height(), 6);
    }

    #[test]
    #[should_panic(expected = "blocks without numbers")]
    fn no_disk_has_blocks_without_numbers() {
        let _ = layout(SIZE_MAX + 1);
    }

    #[test]
    fn the_medium_is_the_head_two_halves_and_pairs_of_pages_from_the_top_down() {
        for size in SIZES {
            let layout = layout(size);
            let (first, second) = (layout.log_half(0), layout.log_half(1));
            assert_eq!((first.start.0, first.len, second.len), (4096, 2_797_568, 2_797_568));
            assert_eq!(second.start.0, first.end());
            assert_eq!(log(), Extent::new(4096, first.len + second.len));
            let mut at = second.end();
            for id in pages(&layout) {
                let pair = layout.pair(id);
                assert_eq!((pair.on, pair.extent), (MediumId::Map, Extent::new(at, 8192)), "{id:?}");
                for (side, at) in [(0, at), (1, at + 4096)] {
                    assert_eq!(layout.side(id, side).extent, Extent::new(at, 4096));
                    assert_eq!(layout.page_at(Pos(at)), Some(id));
                    assert_eq!(layout.page_at(Pos(at + 4095)), Some(id));
                }
                at += 8192;
            }
            assert_eq!(layout.map_bytes(), at, "of {size} bytes");
            assert_eq!(layout.page_at(Pos(at)), None);
            assert_eq!(layout.page_at(Pos(second.end() - 1)), None);
            assert_eq!(layout.page_at(Pos(u64::MAX)), None);
        }
    }

    #[test]
    #[should_panic(expected = "is no page of")]
    fn what_is_no_page_has_no_place() {
        let _ = layout(LEAF_BYTES + 1).pair(PageId { level: 0, index: 2 });
    }

    #[test]
    fn each_block_has_one_entry_on_each_level_and_that_leads_to_the_next() {
        for size in SIZES.into_iter().chain([SIZE_MAX]).filter(|size| *size > 0) {
            let layout = layout(size);
            let last = layout.blocks() - 1;
            for block in [0, 1, 111, 112, 113, 112 * 112 - 1, 112 * 112, last / 2, last] {
                let block = block.min(last);
                let mut above = None;
                for level in (0..layout.height()).rev() {
                    let (id, n) = layout.slot_of(block, level);
                    assert_eq!(id, above.unwrap_or(layout.top()), "block {block}");
                    assert!(layout.blocks_of(id).contains(&block) && n < layout.entries_of(id));
                    assert_eq!(layout.page_at(layout.pair(id).extent.start), Some(id));
                    above = (level > 0).then(|| layout.child(id, n));
                }
                let (leaf, n) = layout.slot_of(block, 0);
                assert_eq!(layout.blocks_of(leaf).start + n as u64, block);
            }
        }
    }

    #[test]
    fn the_entries_of_a_page_share_its_blocks_in_order_and_the_others_have_no_block() {
        for size in SIZES {
            let layout = layout(size);
            for id in pages(&layout).filter(|id| id.level > 0) {
                let (mut at, used) = (layout.blocks_of(id).start, layout.entries_of(id));
                for n in 0..ENTRIES {
                    let below = layout.blocks_of(layout.child(id, n));
                    assert_eq!(below.is_empty(), n >= used, "entry {n} of {id:?}, of {size} bytes");
                    assert_eq!(below.start, at);
                    at = below.end;
                }
                assert_eq!(at, layout.blocks_of(id).end);
            }
            assert_eq!(layout.blocks_of(layout.top()), 0..size.div_ceil(4096));
        }
        let nowhere = PageId { level: 5, index: u64::MAX };
        assert!(layout(SIZE_MAX).blocks_of(nowhere).is_empty());
    }

    #[test]
    fn a_head_is_that_of_its_disk_alone() {
        let head = layout(512).head();
        assert_eq!((head.len(), layout(4096).check_head(&head)), (4096, Ok(())));
        assert_eq!(
            Layout::new([6; 16], 512).check_head(&head),
            Err(Wrong::OtherDisk(u128::from_be_bytes([5; 16])))
        );
        for len in 0..LABEL_BYTES {
            assert_eq!(layout(512).check_head(&head[..len]), Err(Wrong::Label));
        }
    }
}
