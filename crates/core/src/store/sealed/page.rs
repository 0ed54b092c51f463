//! Pages of the key tree: cells of blocks, and cells under which other pages lie.
//!
//! The format: `docs/formats/keytree.md`. A cell seals one page once. So the nonce is zeros, and of the two places of a page that one counts
//! which opens under the cell that the page above has, never the newer one.

use crate::base::cell::{CELL_BYTES, Cell};
use crate::base::fields::Fields;
use crate::base::memory;
use crate::base::memory::wipe;
use crate::store::sealed::aead::{NONCE_BYTES, Seal, TAG_BYTES};
use crate::store::sealed::layout::{ENTRIES, Layout, PAGE_BYTES, PageId};
use std::fmt;

const MAGIC: [u8; 8] = *b"QKEYPAGE";
/// Bytes of a page before its ciphertext.
const HEAD_BYTES: usize = 32;
/// Bytes of an entry.
const ENTRY_BYTES: usize = CELL_BYTES + 4;
/// Bytes of a page that are secret.
const SECRET_BYTES: usize = CELL_BYTES + ENTRIES * ENTRY_BYTES;
/// The bit of a birth that says that the cell seals a page.
const STORED: u32 = 1 << 31;
/// The last number of a purge that an entry has room for.
pub(super) const BIRTH_MAX: u32 = STORED - 1;

const _: () = assert!(HEAD_BYTES + SECRET_BYTES == PAGE_BYTES as usize);

/// An entry of a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    /// In a leaf the cell of a block. Elsewhere the cell that the child lies under, or the seed of all that is below.
    pub(super) cell: Cell,
    /// The number of the purge that made the cell, at most [`BIRTH_MAX`].
    pub(super) birth: u32,
    /// Whether the cell seals the child. If not, the cell is a seed, and the child is [`Page::derived`]. Never set in a leaf.
    pub(super) is_stored: bool,
}

/// The secret bytes of a page, kept from being swapped out, and wiped with the last use.
pub(super) struct Page(Box<Secret>);

struct Secret([u8; SECRET_BYTES]);

impl Drop for Secret {
    fn drop(&mut self) {
        wipe(&mut self.0);
    }
}

impl Page {
    /// The page below the entry with this `seed` and `birth`: its entries are derived, too.
    pub(super) fn derived(seed: &Cell, birth: u32) -> Self {
        let mut page = Self::empty();
        seed.children(0..ENTRIES as u64, |n, cell| {
            page.set(n as usize, &Entry { cell, birth, is_stored: false })
        });
        page
    }

    /// Entry `n`, below [`ENTRIES`].
    pub(super) fn entry(&self, n: usize) -> Entry {
        let mut fields = Fields(&self.0.0[entry_at(n)..][..ENTRY_BYTES]);
        let cell = fields.bytes(CELL_BYTES as u64).and_then(Cell::from_bytes);
        let (cell, birth) = cell.zip(fields.u32()).expect("an entry has its length");
        Entry { cell, birth: birth & BIRTH_MAX, is_stored: birth & STORED != 0 }
    }

    /// Replaces entry `n`.
    ///
    /// # Panics
    /// If its birth exceeds [`BIRTH_MAX`].
    pub(super) fn set(&mut self, n: usize, entry: &Entry) {
        assert!(entry.birth <= BIRTH_MAX, "a birth has 31 bits");
        let birth = entry.birth | if entry.is_stored { STORED } else { 0 };
        let (cell, number) = self.0.0[entry_at(n)..][..ENTRY_BYTES].split_at_mut(CELL_BYTES);
        cell.copy_from_slice(entry.cell.bytes());
        number.copy_from_slice(&birth.to_le_bytes());
    }

    /// The cell that the log lies under; zeros in all pages but the top one.
    pub(super) fn log_cell(&self) -> Cell {
        Cell::from_bytes(&self.0.0[..CELL_BYTES]).expect("a cell has its length")
    }

    /// Replaces the cell that the log lies under; of the top page alone.
    pub(super) fn set_log_cell(&mut self, cell: &Cell) {
        self.0.0[..CELL_BYTES].copy_from_slice(cell.bytes());
    }

    /// The bytes of either place of page `id`. `under` never seals anything else, and no cell is derived from it.
    ///
    /// # Panics
    /// If the page is no top page and has a cell of the log, or is a leaf and has a stored entry.
    pub(super) fn seal(&self, under: &Cell, layout: &Layout, id: PageId) -> Vec<u8> {
        let has_log = self.0.0[..CELL_BYTES] != [0; CELL_BYTES];
        assert!(!has_log || id == layout.top(), "{id:?} has a cell of the log, and is not the top page");
        let is_stored = |n| self.0.0[entry_at(n) + ENTRY_BYTES - 1] & 0x80 != 0;
        assert!(id.level > 0 || !(0..ENTRIES).any(is_stored), "{id:?} is a leaf, and has children");
        let mut bytes = vec![0; PAGE_BYTES as usize];
        let (head, content) = bytes.split_at_mut(HEAD_BYTES);
        content.copy_from_slice(&self.0.0);
        let tag = Seal { cell: under, nonce: NONCE, associated: &associated(layout, id) }.seal(content);
        head[..MAGIC.len()].copy_from_slice(&MAGIC);
        head[MAGIC.len()..][..TAG_BYTES].copy_from_slice(&tag);
        bytes
    }

    /// Page `id` in these bytes of one of its places; `None` if `under` did not seal exactly that.
    pub(super) fn open(under: &Cell, layout: &Layout, id: PageId, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let magic = fields.array()?;
        let tag = fields.array()?;
        let zeros = fields.u64()?;
        let content = fields.bytes(SECRET_BYTES as u64)?;
        if magic != MAGIC || zeros != 0 || !fields.is_empty() {
            return None;
        }
        let mut page = Self::empty();
        page.0.0.copy_from_slice(content);
        let seal = Seal { cell: under, nonce: NONCE, associated: &associated(layout, id) };
        seal.open(tag, &mut page.0.0).then_some(page)
    }

    /// Page `id` in the bytes of both its places, and the side that `under` sealed.
    pub(super) fn open_either(under: &Cell, layout: &Layout, id: PageId, pair: &[u8]) -> Option<(Self, u8)> {
        let sides = (0..2).zip(pair.chunks(PAGE_BYTES as usize));
        sides.filter_map(|(side, bytes)| Some((Self::open(under, layout, id, bytes)?, side))).next()
    }

    /// A page of zeros.
    pub(super) fn empty() -> Self {
        let secret = Box::new(Secret([0; SECRET_BYTES]));
        memory::keep(&*secret);
        Self(secret)
    }
}

/// A cell seals one page once.
const NONCE: [u8; NONCE_BYTES] = [0; NONCE_BYTES];

/// What the tag of a page covers beside its content.
fn associated(layout: &Layout, id: PageId) -> [u8; 33] {
    let mut bytes = [0; 33];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..24].copy_from_slice(&layout.disk());
    bytes[24] = id.level;
    bytes[25..].copy_from_slice(&id.index.to_le_bytes());
    bytes
}

/// Where an entry lies in the secret bytes.
fn entry_at(n: usize) -> usize {
    assert!(n < ENTRIES, "a page has {ENTRIES} entries, and no number {n}");
    CELL_BYTES + n * ENTRY_BYTES
}

impl Clone for Page {
    fn clone(&self) -> Self {
        let mut page = Self::empty();
        page.0.0.copy_from_slice(&self.0.0);
        page
    }
}

impl fmt::Debug for Page {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Page")
    }
}

#[cfg(test)]
mod tests {
    use crate::base::cell::Cells;
    use crate::store::sealed::page::*;

    const DISK: [u8; 16] = [5; 16];
    /// Of a tree of three levels.
    const SIZE: u64 = 1 << 30;
    const LEAF: PageId = PageId { level: 0, index: 3 };

    fn layout() -> Layout {
        Layout::new(DISK, SIZE)
    }

    fn cells<const N: usize>() -> [Cell; N] {
        let mut cells = Cells::new([3; 32]);
        std::array::from_fn(|_| cells.draw_key())
    }

    fn entries(page: &Page) -> Vec<Entry> {
        (0..ENTRIES).map(|n| page.entry(n)).collect()
    }

    #[test]
    fn a_page_is_opened_as_it_was_sealed() {
        let mut cells = Cells::new([4; 32]);
        let (under, log, mut page) = (cells.draw_key(), cells.draw_key(), Page::empty());
        let births = [0, 1, 2, 77, BIRTH_MAX];
        for n in 0..ENTRIES {
            let birth = births[n % births.len()];
            page.set(n, &Entry { cell: cells.draw_key(), birth, is_stored: n % 3 == 1 });
        }
        page.set_log_cell(&log);
        let bytes = page.seal(&under, &layout(), layout().top());
        let found = Page::open(&under, &layout(), layout().top(), &bytes).expect("it opens");
        assert_eq!(entries(&found), entries(&page));
        assert_eq!(found.log_cell(), log);
        assert!(found.entry(1).is_stored && !found.entry(0).is_stored && found.entry(4).birth == BIRTH_MAX);
        let all: std::collections::BTreeSet<_> = entries(&found).iter().map(|it| *it.cell.bytes()).collect();
        assert_eq!(all.len(), ENTRIES, "no entry covers another one");
    }

    #[test]
    fn a_page_opens_under_its_cell_for_its_disk_and_as_itself_alone() {
        let [under, other, seed] = cells();
        let bytes = Page::derived(&seed, 1).seal(&under, &layout(), LEAF);
        let opens = |cell, disk, level, index, bytes: &[u8]| {
            Page::open(cell, &Layout::new(disk, SIZE), PageId { level, index }, bytes).is_some()
        };
        assert!(opens(&under, DISK, 0, 3, &bytes));
        assert!(!opens(&other, DISK, 0, 3, &bytes), "another cell");
        assert!(!opens(&under, [6; 16], 0, 3, &bytes), "another disk");
        assert!(!opens(&under, DISK, 1, 3, &bytes), "another level");
        assert!(!opens(&under, DISK, 0, 4, &bytes), "another page of the level");
        assert!(!opens(&under, DISK, 0, 3 + (1 << 32), &bytes), "a page with the same low bits");
        for len in (0..4096).chain(4097..4200) {
            let cut: Vec<u8> = bytes.iter().copied().chain([0; 200]).take(len).collect();
            assert!(!opens(&under, DISK, 0, 3, &cut), "{len} bytes");
        }
        for fill in [0, 0xff] {
            assert!(!opens(&under, DISK, 0, 3, &[fill; 4096]));
        }
    }

    #[test]
    fn each_flipped_bit_of_a_page_is_told() {
        let [under, seed] = cells();
        let mut bytes = Page::derived(&seed, 1).seal(&under, &layout(), LEAF);
        for at in 0..8 * bytes.len() {
            bytes[at / 8] ^= 1 << (at % 8);
            assert!(Page::open(&under, &layout(), LEAF, &bytes).is_none(), "bit {at}");
            bytes[at / 8] ^= 1 << (at % 8);
        }
        assert!(Page::open(&under, &layout(), LEAF, &bytes).is_some());
    }

    #[test]
    fn the_place_counts_that_opens_whichever_was_written_last() {
        let [old, new, other, seed] = cells();
        let sealed = |cell: &Cell, birth| Page::derived(&seed, birth).seal(cell, &layout(), LEAF);
        let pairs = [
            [sealed(&old, 1), sealed(&new, 2)].concat(),
            [sealed(&new, 2), sealed(&old, 1)].concat(),
            [sealed(&new, 2), vec![0; 4096]].concat(),
            [vec![0xaa; 4096], sealed(&old, 1)].concat(),
        ];
        let found = |cell, n: usize| {
            let open = Page::open_either(cell, &layout(), LEAF, &pairs[n]);
            open.map(|(page, side)| (page.entry(0).birth, side))
        };
        assert_eq!([0, 1, 2, 3].map(|n| found(&old, n)), [Some((1, 0)), Some((1, 1)), None, Some((1, 1))]);
        assert_eq!([0, 1, 2, 3].map(|n| found(&new, n)), [Some((2, 1)), Some((2, 0)), Some((2, 0)), None]);
        assert_eq!(found(&other, 0), None);
        let long = [&[0; 8192][..], &sealed(&old, 1)].concat();
        for pair in [&[][..], &pairs[0][..4095], &pairs[3][..8191], &long] {
            assert!(Page::open_either(&old, &layout(), LEAF, pair).is_none(), "{} bytes", pair.len());
        }
    }

    #[test]
    fn the_entries_below_a_seed_are_derived_from_it_in_turn() {
        let [seed, other] = cells();
        let page = Page::derived(&seed, 9);
        for (n, entry) in entries(&page).into_iter().enumerate() {
            assert_eq!(entry, Entry { cell: seed.child(n as u64), birth: 9, is_stored: false });
        }
        assert_eq!(page.log_cell().bytes(), &[0; 32]);
        assert_ne!(entries(&page), entries(&Page::derived(&other, 9)));
    }

    #[test]
    #[should_panic(expected = "is a leaf, and has children")]
    fn a_leaf_has_no_stored_entry() {
        let [under, seed] = cells();
        let mut page = Page::derived(&seed, 1);
        page.set(111, &Entry { is_stored: true, ..page.entry(111) });
        let _ = page.seal(&under, &layout(), LEAF);
    }

    #[test]
    #[should_panic(expected = "is not the top page")]
    fn the_top_page_alone_has_the_cell_of_the_log() {
        let [under, seed] = cells();
        let mut page = Page::derived(&seed, 1);
        page.set_log_cell(&seed);
        let _ = page.seal(&under, &layout(), LEAF);
    }

    #[test]
    #[should_panic(expected = "a birth has 31 bits")]
    fn a_birth_never_becomes_the_mark_of_a_stored_entry() {
        let [seed] = cells();
        Page::derived(&seed, 1).set(0, &Entry { cell: seed, birth: BIRTH_MAX + 1, is_stored: false });
    }

    #[test]
    fn a_page_never_prints_its_cells() {
        let [seed] = cells();
        let page = Page::derived(&seed, 1);
        assert_eq!(
            format!("{page:?} {:?}", page.entry(0)),
            "Page Entry { cell: Cell, birth: 1, is_stored: false }"
        );
    }
}
