//! The root: the medium of the [cells](crate::base::cell), without which stubs cannot be read.
//!
//! The format: `docs/formats/root.md`. Each half of the log of stubs has a
//! cell, which is drawn and durable before the first commit goes there. Each page of homes has places for two, of which one is
//! in use ([`crate::store::versions::stubs::homes`]).

use crate::base::cell::{CELL_BYTES, Cell, Cells};
use crate::base::units::{Extent, Pos};
use crate::base::zeros::is_zeros;
use crate::media::MediumId;
use crate::media::medium::{Medium, MediumError};
use crate::media::place::Place;
use crate::store::label;
use crate::store::label::{LABEL_BYTES, Wrong};
use crate::store::versions::stubs::{Entry, HomePage, Sector, bytes_at};

/// The first bytes of a root.
pub const MAGIC: [u8; 8] = *b"QUIETROT";
/// Where the cells of the halves lie, each in a sector of its own: a write of one that is cut off must not harm the other.
const HALVES_AT: u64 = 4096;
const SECTOR_BYTES: u64 = 512;
/// Bytes of the root before the cells of the pages of homes.
pub const ROOT_BYTES: u64 = 8192;
/// Bytes of the cells of one page.
const PAIR_BYTES: u64 = 2 * CELL_BYTES as u64;
/// Bytes of the root that a start reads at once.
const READ_BYTES: u64 = 1 << 20;

/// A place for a cell of a page of homes: the first or the second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(in super::super) struct CellOf(pub(in super::super) HomePage, pub(in super::super) u8);

/// The content of a place for a cell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(in super::super) enum Found {
    /// Zeros.
    Nothing,
    Cell(Cell),
    /// Bytes that passes over a cell, or damage, have left.
    Remains,
}

/// Why the root cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RootError {
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The head is no head, or damaged.
    #[error(
        "the root has no valid head at offset 0; without the root nothing on this disk can be read: restore the \
         medium of the root"
    )]
    Head,
    /// The root belongs to another disk.
    #[error("the root is that of another disk, {found:032x}; use the root that was made with this one")]
    OtherDisk {
        /// The uuid of that disk.
        found: u128,
    },
    /// The current cell is not the one that the log was written with.
    #[error(
        "the root does not fit sector {sequence} of the log of stubs: root and stubs are not of one time, or the root \
         is damaged; what was written since the last checkpoint of the index cannot be read. Restore the root, or restore \
         index, stubs, root and data together"
    )]
    OtherTime {
        /// The number of the first sector that cannot be read.
        sequence: u64,
    },
    /// A page of homes was written under neither of its cells.
    #[error(
        "the root does not fit the page of homes at byte {at} of the stub medium: root and stubs are not of one time, or \
         either is damaged. Restore the root, or restore index, stubs, root and data together"
    )]
    OtherHomes {
        /// Where the page lies.
        at: u64,
    },
    /// A page of homes has stubs, and no cell.
    #[error(
        "the root has no whole cell at byte {at}, where a page of homes has its one: root and stubs are not of one time, or \
         the root is damaged. Restore the root, or restore index, stubs, root and data together"
    )]
    NoCell {
        /// Where the cells of the page lie.
        at: u64,
    },
}

/// The bytes of a new root.
#[must_use]
pub fn format_root(disk: [u8; 16], mut cells: Cells) -> Vec<u8> {
    let mut bytes = label::to_bytes(MAGIC, disk);
    bytes.resize(ROOT_BYTES as usize, 0);
    for half in 0..2 {
        let at = place_of(half).extent;
        bytes[at.start.0 as usize..at.end() as usize].copy_from_slice(&cells.draw().to_bytes());
    }
    assert!(halves(&bytes).iter().all(Cell::is_whole), "a new root has the cells of the halves");
    bytes
}

/// The cells of the halves of the log.
pub(in super::super) fn open(root: &dyn Medium, disk: [u8; 16]) -> Result<[Cell; 2], RootError> {
    let bytes = bytes_at(root, Pos(0), ROOT_BYTES as usize)?;
    label::check(&bytes[..LABEL_BYTES], MAGIC, disk)?;
    Ok(halves(&bytes))
}

/// The cells of the halves in the bytes of a root.
///
/// # Panics
/// If there are fewer than [`ROOT_BYTES`].
#[must_use]
pub fn halves(root: &[u8]) -> [Cell; 2] {
    [0, 1].map(|half| {
        let at = place_of(half).extent;
        Cell::from_bytes(&root[at.start.0 as usize..at.end() as usize]).expect("a cell has its length")
    })
}

/// Reads the cells of the first `pages` pages of homes, and tells `see` of each place that does not hold zeros.
pub(in super::super) fn read_cells(
    root: &dyn Medium,
    pages: u64,
    mut see: impl FnMut(CellOf, Found),
) -> Result<(), MediumError> {
    let end = cells_end(HomePage(pages)).0.min(root.size() / CELL_BYTES as u64 * CELL_BYTES as u64);
    for part in Extent::<Pos>::between(ROOT_BYTES, end.max(ROOT_BYTES)).pieces(READ_BYTES) {
        let bytes = bytes_at(root, part.start, part.len as usize)?;
        let first = (part.start.0 - ROOT_BYTES) / CELL_BYTES as u64;
        for (n, bytes) in (first..).zip(bytes.chunks_exact(CELL_BYTES)) {
            match Found::of(bytes) {
                Found::Nothing => {}
                found => see(CellOf(HomePage(n / 2), (n % 2) as u8), found),
            }
        }
    }
    Ok(())
}

/// How many pages of homes have places for their cells.
pub(in super::super) fn pages_of(root: &dyn Medium) -> u64 {
    root.size().saturating_sub(ROOT_BYTES) / PAIR_BYTES
}

/// Where the cells of the pages before this one end.
pub(in super::super) fn cells_end(page: HomePage) -> Pos {
    Pos(ROOT_BYTES + page.0 * PAIR_BYTES)
}

/// Where both cells of a page lie.
pub(in super::super) fn pair_place(page: HomePage) -> Place {
    Place { on: MediumId::Root, extent: Extent::new(cells_end(page).0, PAIR_BYTES) }
}

impl CellOf {
    pub(in super::super) fn place(self) -> Place {
        let Self(page, side) = self;
        assert!(side < 2, "a page has two places for cells");
        let at = cells_end(page).0 + u64::from(side) * CELL_BYTES as u64;
        Place { on: MediumId::Root, extent: Extent::new(at, CELL_BYTES as u64) }
    }

    /// The place at these bytes of the root; `None` if no cell of a page lies there.
    pub(in super::super) fn at(at: Pos) -> Option<Self> {
        let n = at.0.checked_sub(ROOT_BYTES)? / CELL_BYTES as u64;
        Some(Self(HomePage(n / 2), (n % 2) as u8))
    }

    /// The other place of the same page.
    pub(in super::super) fn other(self) -> Self {
        assert!(self.1 < 2, "a page has two places for cells");
        Self(self.0, 1 - self.1)
    }
}

impl Found {
    fn of(bytes: &[u8]) -> Self {
        match Cell::from_bytes(bytes).filter(Cell::is_whole) {
            Some(cell) => Self::Cell(cell),
            None if is_zeros(bytes) => Self::Nothing,
            None => Self::Remains,
        }
    }
}

impl From<Wrong> for RootError {
    fn from(wrong: Wrong) -> Self {
        match wrong {
            Wrong::Label => Self::Head,
            Wrong::OtherDisk(found) => Self::OtherDisk { found },
        }
    }
}

/// Where the cell of a half lies.
pub(in super::super) fn place_of(half: u8) -> Place {
    assert!(half < 2, "the log has two halves");
    let at = HALVES_AT + u64::from(half) * SECTOR_BYTES;
    Place { on: MediumId::Root, extent: Extent::new(at, CELL_BYTES as u64) }
}

impl Sector {
    /// Hides the stubs under `cell`.
    pub(in super::super) fn hide(&mut self, cell: &Cell) {
        self.check = cell.check(self.sequence);
        self.mask(cell);
    }

    /// Whether the stubs are hidden under `cell`.
    pub(in super::super) fn is_under(&self, cell: &Cell) -> bool {
        self.check == cell.check(self.sequence)
    }

    /// Reveals the stubs; whether they were hidden under `cell`.
    pub(in super::super) fn reveal(&mut self, cell: &Cell) -> bool {
        let fits = self.is_under(cell);
        if fits {
            self.mask(cell);
        }
        fits
    }

    fn mask(&mut self, cell: &Cell) {
        for entry in &mut self.entries {
            if let Entry::Version { number, stub, .. } = entry {
                cell.mask(self.session, *number, stub);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::store::versions::stubs::root::*;

    const DISK: [u8; 16] = [5; 16];

    fn root() -> Vec<u8> {
        format_root(DISK, Cells::new([1; 32]))
    }

    #[test]
    fn a_new_root_has_a_cell_for_each_half_of_the_log() {
        let [first, second] = halves(&root());
        assert!(first.is_whole() && second.is_whole() && first != second);
    }

    #[test]
    fn a_start_finds_cells_and_what_passes_have_left_of_them_by_page_and_side() {
        let cell = Cells::new([3; 32]).draw();
        let mut bytes = root();
        bytes.resize(ROOT_BYTES as usize + 10 * 64, 0);
        let places = [CellOf(HomePage(2), 1), CellOf(HomePage(9), 0), CellOf(HomePage(5), 0)];
        for (place, content) in places.into_iter().zip([cell.to_bytes(), cell.to_bytes(), vec![0xff; 32]]) {
            bytes[place.place().extent.start.0 as usize..][..CELL_BYTES].copy_from_slice(&content);
            assert_eq!(CellOf::at(place.place().extent.start), Some(place));
        }
        assert_eq!(CellOf::at(Pos(ROOT_BYTES - 1)), None);
        let mut found = Vec::new();
        let medium = crate::store::versions::tests::memory_of(bytes);
        read_cells(&medium, 9, |place, it| found.push((place, it))).expect("it is read");
        assert_eq!(
            found,
            [(places[0], Found::Cell(cell.clone())), (places[2], Found::Remains)],
            "of nine pages"
        );
        for at in 0..8 * CELL_BYTES {
            let mut flipped = cell.to_bytes();
            flipped[at / 8] ^= 1 << (at % 8);
            assert_eq!(Found::of(&flipped), Found::Remains, "bit {at}");
        }
    }
}
