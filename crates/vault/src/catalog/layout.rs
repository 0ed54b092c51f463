//! The head of the catalog: the id of the vault, and where the parts of the catalog lie.

use quietus_core::base::fields::Fields;
use quietus_core::base::units::Pos;
use quietus_core::media::medium::Medium;
use serde::{Deserialize, Serialize};

use super::CatalogError;
use crate::VaultId;
use crate::container::{HEAD_BYTES, SLOT_BYTES};

const MAGIC: &[u8; 8] = b"QUIETVLT";
const VERSION: u32 = 2;
/// Bytes of the head, and of a page of the table.
pub(super) const PAGE_BYTES: usize = 4096;
/// Bytes of a page of the table before its entries: checksum, number of the page, generation, zeros.
pub(super) const TABLE_HEAD_BYTES: usize = 32;
/// Bytes of the entry of a slot.
pub(super) const ENTRY_BYTES: usize = 16;
/// Slots of a page.
pub(super) const PAGE_SLOTS: usize = (PAGE_BYTES - TABLE_HEAD_BYTES) / ENTRY_BYTES;
/// Bytes that a medium writes whole or not at all.
pub(super) const SECTOR_BYTES: usize = 512;
/// Bytes of the head that its checksum covers.
const CHECKED_BYTES: usize = 48;
/// The smallest half: a snapshot and some frames.
const HALF_BYTES_MIN: u64 = 16 << 10;
/// Most slots of a vault: 18 TiB.
pub const SLOTS_MAX: u32 = 1 << 22;

/// The sizes of a vault, which never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Layout {
    /// The vault.
    pub vault: VaultId,
    /// Slots of its pool.
    pub slots: u32,
    /// Bytes of a slot, a multiple of 4096, and at most [`SLOT_BYTES`].
    pub slot_bytes: u32,
    /// Bytes of half of the log, a multiple of 4096.
    pub half_bytes: u64,
}

/// Why bytes are not the head of a catalog.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeadError {
    /// The magic number differs: the medium holds something else.
    #[error("vault catalog: bad magic in the head at offset 0; name the file of a vault's catalog")]
    Magic,
    /// Bytes have changed.
    #[error("vault catalog: bad checksum in the head at offset 0; run `quietus vault repair`")]
    Checksum,
    /// A program with another version of the format wrote the head.
    #[error("vault catalog: format version {0}, expected {VERSION}; use the quietus that wrote it")]
    Version(u32),
    /// A size is out of range.
    #[error("vault catalog: the head's field `{field}` is {value}, out of range; choose another size")]
    Field {
        /// The name of the field.
        field: &'static str,
        /// The value found.
        value: u64,
    },
}

impl Layout {
    /// Bytes of the catalog's medium.
    pub fn bytes(&self) -> u64 {
        self.page(self.pages(), 0).0
    }

    /// Bytes of the pool.
    pub fn pool_bytes(&self) -> u64 {
        u64::from(self.slots) * u64::from(self.slot_bytes)
    }

    pub(super) fn head(&self) -> Pos {
        Pos(0)
    }

    pub(super) fn half(&self, half: usize) -> Pos {
        Pos(PAGE_BYTES as u64 + half as u64 * self.half_bytes)
    }

    /// Where a page of the table lies: each has two places.
    pub(super) fn page(&self, page: usize, place: u8) -> Pos {
        Pos(self.half(2).0 + (2 * page as u64 + u64::from(place)) * PAGE_BYTES as u64)
    }

    pub(super) fn pages(&self) -> usize {
        (self.slots as usize).div_ceil(PAGE_SLOTS)
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(self.slots.to_le_bytes());
        bytes.extend(self.slot_bytes.to_le_bytes());
        bytes.extend([0; 4]);
        bytes.extend(self.half_bytes.to_le_bytes());
        bytes.extend(self.vault.0);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes.resize(PAGE_BYTES, 0);
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Layout, HeadError> {
        let mut fields = Fields(bytes);
        let checksum = crc32c::crc32c(bytes.get(..CHECKED_BYTES).ok_or(HeadError::Magic)?);
        if fields.array().as_ref() != Some(MAGIC) {
            return Err(HeadError::Magic);
        }
        let version = fields.u32().ok_or(HeadError::Magic)?;
        let read = |fields: &mut Fields<'_>| {
            let (slots, slot_bytes, _) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let (half_bytes, vault) = (fields.u64()?, VaultId(fields.array()?));
            Some((Layout { vault, slots, slot_bytes, half_bytes }, fields.u32()?))
        };
        match read(&mut fields) {
            Some((_, found)) if found != checksum => Err(HeadError::Checksum),
            _ if version != VERSION => Err(HeadError::Version(version)),
            Some((layout, _)) => layout.check().map(|()| layout),
            None => Err(HeadError::Checksum),
        }
    }

    /// Checks that these sizes are in range.
    ///
    /// # Errors
    ///
    /// [`HeadError::Field`].
    pub fn check(&self) -> Result<(), HeadError> {
        let refuse = |field, value| Err(HeadError::Field { field, value });
        let slot_bytes = self.slot_bytes as usize;
        if !(1..=SLOTS_MAX).contains(&self.slots) {
            return refuse("slots", u64::from(self.slots));
        }
        if !(2 * HEAD_BYTES..=SLOT_BYTES).contains(&slot_bytes) || !slot_bytes.is_multiple_of(HEAD_BYTES) {
            return refuse("slot bytes", slot_bytes as u64);
        }
        let is_whole = self.half_bytes.is_multiple_of(PAGE_BYTES as u64);
        if !is_whole || !(HALF_BYTES_MIN..=1 << 30).contains(&self.half_bytes) {
            return refuse("half bytes", self.half_bytes);
        }
        Ok(())
    }
}

/// Checks the head on `medium` against the expected one; false if it was damaged. Nothing is lost by that: the owner of the vault
/// knows the sizes, too.
pub(super) fn check(medium: &dyn Medium, layout: Layout) -> Result<bool, CatalogError> {
    layout.check()?;
    if medium.size() < layout.bytes() {
        return Err(CatalogError::Damaged("the file is too short"));
    }
    let mut bytes = vec![0; PAGE_BYTES];
    medium.read(layout.head(), &mut bytes)?;
    match Layout::from_bytes(&bytes) {
        Ok(found) if found == layout => Ok(true),
        Ok(found) => Err(CatalogError::Other { found, expected: layout }),
        Err(HeadError::Magic | HeadError::Checksum) => Ok(false),
        Err(error) => Err(error.into()),
    }
}
