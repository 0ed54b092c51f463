//! The heads of an index: two sectors, written in turn, that name the roots of its trees.

use super::{PageNo, Root};
use crate::fields::Fields;

/// Bytes of a head.
pub const HEAD_BYTES: usize = 512;
const MAGIC: &[u8; 8] = b"QUIETIDX";
const VERSION: u32 = 2;
/// The number of a page that is none.
const NO_PAGE: u32 = 0;

/// The state of an index at one instant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Head {
    /// One more than that of the head before.
    pub generation: u64,
    /// The roots of all trees, in the order of their numbers.
    pub roots: Vec<Root>,
    /// The bytes that the owner of the index keeps with it.
    pub note: Vec<u8>,
}

/// Why there is no head to begin with.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum HeadError {
    /// Neither head is whole.
    #[error("the index has no valid head: restore it together with the data")]
    None,
    /// The index is another disk's.
    #[error("the index belongs to another disk: restore the index of this disk")]
    Foreign,
    /// The format is another one.
    #[error(
        "the index has format version {0}, and this program knows version {VERSION}: use the program that made or last served the disk"
    )]
    Version(u32),
}

impl Head {
    /// The position of the head of this generation.
    #[must_use]
    pub fn position(&self) -> u64 {
        PageNo((self.generation % 2) as u32).position()
    }

    /// The sector.
    ///
    /// # Panics
    /// If roots and note do not fit into a sector.
    #[must_use]
    pub fn to_bytes(&self, disk: [u8; 16]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(disk);
        bytes.extend(self.generation.to_le_bytes());
        bytes.extend((self.roots.len() as u64).to_le_bytes());
        for root in &self.roots {
            bytes.extend(root.page.map_or(NO_PAGE, |page| page.0).to_le_bytes());
            bytes.extend(root.len.to_le_bytes());
        }
        bytes.extend((self.note.len() as u64).to_le_bytes());
        bytes.extend(&self.note);
        assert!(bytes.len() + 4 <= HEAD_BYTES, "a head is one sector");
        bytes.resize(HEAD_BYTES - 4, 0);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8], disk: [u8; 16]) -> Result<Self, HeadError> {
        let (body, crc) = bytes.split_last_chunk::<4>().ok_or(HeadError::None)?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return Err(HeadError::None);
        }
        let mut fields = Fields(body);
        if fields.array() != Some(*MAGIC) {
            return Err(HeadError::None);
        }
        let version = fields.u32().ok_or(HeadError::None)?;
        if version != VERSION {
            return Err(HeadError::Version(version));
        }
        if fields.array() != Some(disk) {
            return Err(HeadError::Foreign);
        }
        Self::rest(&mut fields).ok_or(HeadError::None)
    }

    fn rest(fields: &mut Fields<'_>) -> Option<Self> {
        let generation = fields.u64()?;
        let trees = fields.u64()?;
        let mut roots = Vec::new();
        for _ in 0..trees {
            let page = Some(fields.u32()?).filter(|page| *page != NO_PAGE).map(PageNo);
            roots.push(Root { page, len: fields.u64()? });
        }
        let note = fields.sized()?.to_vec();
        Some(Self { generation, roots, note })
    }
}

/// Why the bytes of one of the two heads are none; nothing if they are one, or were never written.
#[must_use]
pub fn head_fault(bytes: &[u8], disk: [u8; 16]) -> Option<String> {
    match Head::from_bytes(bytes, disk) {
        Ok(_) => None,
        Err(HeadError::None) if bytes.iter().all(|byte| *byte == 0) => None,
        Err(HeadError::None) => Some(
            "a head of the index is damaged, or was torn by a crash; the next checkpoint but one replaces it"
                .into(),
        ),
        Err(fault) => Some(fault.to_string()),
    }
}

/// The newer of two heads, of which a crash may have torn one.
///
/// # Errors
/// [`HeadError`]: of both heads the reason that says more.
pub fn newest(heads: [&[u8]; 2], disk: [u8; 16]) -> Result<Head, HeadError> {
    match heads.map(|bytes| Head::from_bytes(bytes, disk)) {
        [Ok(one), Ok(other)] => Ok(if one.generation > other.generation { one } else { other }),
        [Ok(one), Err(_)] | [Err(_), Ok(one)] => Ok(one),
        [Err(HeadError::None), Err(why)] | [Err(why), Err(_)] => Err(why),
    }
}
