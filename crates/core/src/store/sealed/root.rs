//! The root: the medium of the top cell, which opens the top page of the key tree.
//!
//! The format: `docs/formats/topcell.md`. A purge writes the new top cell to the slot that is not in use, and destroys the old slot. So one
//! slot has a cell, or, between these two steps, both have.

use crate::base::cell::{CELL_BYTES, Cell};
use crate::base::fields::Fields;
use crate::base::memory::wipe;
use crate::base::units::{Extent, Pos};
use crate::base::zeros::is_zeros;
use crate::media::MediumId;
use crate::media::medium::{Keep, Medium, MediumError};
use crate::media::place::Place;
use crate::store::label;
use crate::store::label::{LABEL_BYTES, Wrong};
use crate::store::sealed::layout::{ROOT_BYTES, SECTOR_BYTES};
use crate::store::sealed::page::BIRTH_MAX;

/// The first bytes of a root.
pub const MAGIC: [u8; 8] = *b"QUIETTOP";
/// Bytes that a slot has for itself: passes cover all of them, so that no other slot shares a unit of the medium.
const AREA_BYTES: u64 = 4096;
/// Bytes of a slot before its checksum.
const BODY_BYTES: usize = 4 + CELL_BYTES;
/// Bytes of a slot with its checksum; zeros follow.
const SLOT_BYTES: usize = BODY_BYTES + 4;

/// What a slot of the root has.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Slot {
    /// Zeros.
    Empty,
    /// The top cell that `purge` left.
    Top { purge: u32, cell: Cell },
    /// Bytes that passes over a cell, or damage, have left.
    Remains,
}

/// Why the root cannot be used.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RootError {
    /// The medium failed.
    #[error(transparent)]
    Medium(#[from] MediumError),
    /// The medium is shorter than a root.
    #[error(
        "the root has {bytes} bytes, and needs {ROOT_BYTES}; without the root nothing on this disk can be read: restore \
         the medium of the root"
    )]
    Short {
        /// Bytes of the medium.
        bytes: u64,
    },
    /// The head is no head, or damaged.
    #[error(
        "the root has no valid head at offset 0; `quietus repair` writes it anew if a cell of this root opens the key tree. If not, \
         restore the medium of the root: without it nothing on this disk can be read"
    )]
    Head,
    /// The root belongs to another disk.
    #[error("the root is that of another disk, {found:032x}; use the root that was made with this one")]
    OtherDisk {
        /// The uuid of that disk.
        found: u128,
    },
}

/// Makes `root` the root of a new disk, durably: `top` is the cell that purge 1 left.
pub(super) fn format(root: &dyn Medium, disk: [u8; 16], top: &Cell) -> Result<(), MediumError> {
    let purge = 1;
    let mut bytes = head(disk);
    bytes.resize(ROOT_BYTES as usize, 0);
    let at = slot_place(slot_of(purge)).extent;
    bytes[at.start.0 as usize..at.end() as usize].copy_from_slice(&slot_bytes(disk, purge, top));
    let written = root.write(Pos(0), &bytes, false).and_then(|()| root.sync());
    wipe(&mut bytes);
    written
}

/// What a root holds.
pub(super) struct Found {
    /// Whether the label is valid and this disk's.
    pub(super) label: Result<(), Wrong>,
    pub(super) slots: [Slot; 2],
    /// Whether the head has nothing but the label.
    pub(super) is_head_clear: bool,
}

/// The slots of the root of `disk`, and whether its head has nothing but the label.
pub(super) fn read(root: &dyn Medium, disk: [u8; 16]) -> Result<([Slot; 2], bool), RootError> {
    let Found { label, slots, is_head_clear } = look(root, disk)?;
    label?;
    Ok((slots, is_head_clear))
}

/// What the root of `disk` holds, whatever its label says: a slot has the uuid of the disk in its checksum.
pub(super) fn look(root: &dyn Medium, disk: [u8; 16]) -> Result<Found, RootError> {
    if root.size() < ROOT_BYTES {
        return Err(RootError::Short { bytes: root.size() });
    }
    let mut bytes = vec![0; ROOT_BYTES as usize];
    root.read(Pos(0), &mut bytes)?;
    let label = label::check(&bytes[..LABEL_BYTES], MAGIC, disk);
    let slots = [0, 1].map(|n| {
        let at = area(n).extent;
        Slot::of(&bytes[at.start.0 as usize..at.end() as usize], disk, n)
    });
    let is_head_clear = is_zeros(&bytes[LABEL_BYTES..AREA_BYTES as usize]);
    wipe(&mut bytes);
    Ok(Found { label, slots, is_head_clear })
}

/// Writes the head of the root of `disk` anew, durably: its label, and zeros over what lay behind, which may have been the copy of a cell.
pub(super) fn renew_head(root: &dyn Medium, disk: [u8; 16]) -> Result<(), MediumError> {
    root.overwrite(Pos(0), &head(disk))?;
    root.sync()?;
    let head = Extent::new(0, AREA_BYTES);
    if root.capabilities().erases { root.erase(&[head], Keep::Present) } else { Ok(()) }
}

/// The label of the root of `disk`, and zeros up to the first slot.
fn head(disk: [u8; 16]) -> Vec<u8> {
    let mut bytes = label::to_bytes(MAGIC, disk);
    bytes.resize(AREA_BYTES as usize, 0);
    bytes
}

/// The slot of the top cell that `purge` leaves.
pub(super) fn slot_of(purge: u32) -> u8 {
    (purge % 2) as u8
}

/// Where slot `n`, 0 or 1, is written.
pub(super) fn slot_place(n: u8) -> Place {
    Place { on: MediumId::Root, extent: Extent::new(area(n).extent.start.0, SECTOR_BYTES) }
}

/// What passes overwrite to destroy slot `n`.
pub(super) fn area(n: u8) -> Place {
    assert!(n < 2, "the root has two slots");
    Place { on: MediumId::Root, extent: Extent::new((u64::from(n) + 1) * AREA_BYTES, AREA_BYTES) }
}

/// The bytes of the slot that `purge` writes.
pub(super) fn slot_bytes(disk: [u8; 16], purge: u32, cell: &Cell) -> Vec<u8> {
    assert!(purge <= BIRTH_MAX, "the number of a purge has 31 bits");
    let mut bytes = Vec::with_capacity(SECTOR_BYTES as usize);
    bytes.extend(purge.to_le_bytes());
    bytes.extend(cell.bytes());
    bytes.extend(checksum(disk, &bytes).to_le_bytes());
    bytes.resize(SECTOR_BYTES as usize, 0);
    assert!(
        matches!(Slot::of(&bytes, disk, slot_of(purge)), Slot::Top { .. }),
        "a slot is read as it was written"
    );
    bytes
}

fn checksum(disk: [u8; 16], body: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&disk), body)
}

impl Slot {
    /// Slot `n` in its bytes.
    fn of(bytes: &[u8], disk: [u8; 16], n: u8) -> Self {
        match Self::top_of(bytes, disk, n) {
            Some(top) => top,
            None if is_zeros(bytes) => Self::Empty,
            None => Self::Remains,
        }
    }

    fn top_of(bytes: &[u8], disk: [u8; 16], n: u8) -> Option<Self> {
        let (body, crc) = bytes.get(..SLOT_BYTES)?.split_at(BODY_BYTES);
        let mut fields = Fields(body);
        let purge = fields.u32().filter(|purge| *purge <= BIRTH_MAX && slot_of(*purge) == n)?;
        let cell = Cell::from_bytes(fields.0)?;
        (Fields(crc).u32() == Some(checksum(disk, body))).then_some(Self::Top { purge, cell })
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

#[cfg(test)]
mod tests {
    use crate::base::cell::Cells;
    use crate::media::memory::Memory;
    use crate::store::sealed::root::*;

    const DISK: [u8; 16] = [5; 16];

    fn cell() -> Cell {
        Cells::new([3; 32]).draw_key()
    }

    fn new_root() -> Memory {
        let root = Memory::new(ROOT_BYTES);
        format(&root, DISK, &cell()).expect("it is written");
        root
    }

    /// Puts bytes over a root, and reads its slots.
    fn slots(root: &Memory, at: u64, bytes: &[u8]) -> [Slot; 2] {
        root.put(Pos(at), bytes).expect("it is written");
        read(root, DISK).expect("it is a root").0
    }

    #[test]
    fn a_new_root_has_the_cell_of_purge_1_durably() {
        let root = new_root();
        assert_eq!(root.syncs.get(), 1);
        assert_eq!(read(&root, DISK), Ok(([Slot::Empty, Slot::Top { purge: 1, cell: cell() }], true)));
        assert_eq!([0, 1].map(|n| area(n).extent), [Extent::new(4096, 4096), Extent::new(8192, 4096)]);
        assert_eq!([0, 1].map(|n| slot_place(n).extent), [Extent::new(4096, 512), Extent::new(8192, 512)]);
        assert!([0, 1].map(area).iter().all(|place| place.on == MediumId::Root));
    }

    #[test]
    fn a_slot_is_read_as_it_was_written_beside_the_other() {
        let root = new_root();
        let next = slot_bytes(DISK, 2, &cell().child(1));
        assert_eq!(next.len(), 512);
        let found = slots(&root, 4096, &next);
        let top = |purge, cell| Slot::Top { purge, cell };
        assert_eq!(found, [top(2, cell().child(1)), top(1, cell())]);
        assert_eq!(slots(&root, 8192, &[0; 4096]), [top(2, cell().child(1)), Slot::Empty]);
        let last = slot_bytes(DISK, BIRTH_MAX, &cell());
        assert_eq!(slots(&root, 8192, &last)[1], top(BIRTH_MAX, cell()));
    }

    #[test]
    fn each_flipped_bit_of_a_slot_is_told() {
        let (root, bytes) = (new_root(), slot_bytes(DISK, 2, &cell()));
        for at in 0..8 * SLOT_BYTES {
            let mut flipped = bytes.clone();
            flipped[at / 8] ^= 1 << (at % 8);
            assert_eq!(slots(&root, 4096, &flipped)[0], Slot::Remains, "bit {at}");
        }
        assert!(matches!(slots(&root, 4096, &bytes)[0], Slot::Top { .. }));
    }

    #[test]
    fn what_passes_have_left_anywhere_in_a_slot_is_no_empty_slot() {
        for at in (4096..8192).step_by(7) {
            assert_eq!(slots(&new_root(), at, &[1])[0], Slot::Remains, "byte {at}");
        }
        assert_eq!(slots(&new_root(), 4096, &[0xff; 4096])[0], Slot::Remains);
    }

    #[test]
    fn a_cell_counts_in_the_slot_of_its_purge_for_its_disk_alone() {
        let root = new_root();
        assert_eq!(slots(&root, 4096, &slot_bytes(DISK, 3, &cell()))[0], Slot::Remains);
        assert_eq!(slots(&root, 4096, &slot_bytes([6; 16], 2, &cell()))[0], Slot::Remains);
        let mut late = (1_u32 << 31).to_le_bytes().to_vec();
        late.extend(cell().bytes());
        late.extend(checksum(DISK, &late).to_le_bytes());
        assert_eq!(slots(&root, 4096, &late)[0], Slot::Remains, "a number of 32 bits");
    }

    #[test]
    fn a_root_that_cannot_be_used_says_why() {
        let root = new_root();
        assert_eq!(read(&root, [6; 16]), Err(RootError::OtherDisk { found: u128::from_be_bytes(DISK) }));
        for at in 0..8 * LABEL_BYTES {
            let damaged = new_root();
            damaged.bytes.borrow_mut()[at / 8] ^= 1 << (at % 8);
            assert_eq!(read(&damaged, DISK), Err(RootError::Head), "bit {at}");
        }
        for bytes in [0, 31, 4096, ROOT_BYTES - 1] {
            assert_eq!(read(&Memory::new(bytes), DISK), Err(RootError::Short { bytes }));
        }
        root.blind.set(true);
        assert!(matches!(read(&root, DISK), Err(RootError::Medium(_))));
        root.broken.set(true);
        assert!(format(&root, DISK, &cell()).is_err());
    }
}
