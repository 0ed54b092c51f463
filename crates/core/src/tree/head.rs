//! The heads of an index: two places, written in turn, that name the roots of its trees. Each place has two copies of its
//! head, each in a sector, so that damage to one sector does not bring the head before back.

use super::{PageNo, Root};
use crate::base::fields::Fields;
use crate::base::mend::one_byte;
use crate::base::zeros::is_zeros;

/// Bytes of a copy of a head: a sector.
const COPY_BYTES: usize = 512;
/// Bytes of a head: two copies.
pub const HEAD_BYTES: usize = 2 * COPY_BYTES;
const MAGIC: &[u8; 8] = b"QUIETIDX";
const VERSION: u32 = 2;
/// The number that stands for no page.
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
    /// No copy of either head is whole.
    #[error(
        "the index has no valid head at byte 0 or 4096: run `quietus repair`, or restore index, stubs, root and data together \
         from a backup"
    )]
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

    /// Both copies.
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
        assert!(bytes.len() + 4 <= COPY_BYTES, "a copy is one sector");
        bytes.resize(COPY_BYTES - 4, 0);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        let read = Self::from_bytes(&bytes, disk);
        assert!(read.is_ok_and(|read| read == *self), "a head is read as it was written");
        bytes.repeat(HEAD_BYTES / COPY_BYTES)
    }

    /// The newer of two copies: a crash may have cut the write of both in two.
    fn of_copies(bytes: &[u8], disk: [u8; 16]) -> Result<Self, HeadError> {
        let copies = bytes.chunks_exact(COPY_BYTES).map(|copy| Self::from_bytes(copy, disk));
        copies.reduce(newer).unwrap_or(Err(HeadError::None))
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

/// The damage to the copies of a head, in words. Zeros are a head that was never written.
#[must_use]
pub fn head_fault(bytes: &[u8], disk: [u8; 16]) -> Option<String> {
    if bytes.chunks_exact(COPY_BYTES).all(is_zeros) {
        return None;
    }
    let fault = |copy| Head::from_bytes(copy, disk).err();
    match (bytes.chunks_exact(COPY_BYTES).find_map(fault)?, Head::of_copies(bytes, disk)) {
        (HeadError::None, Ok(_)) => Some(
            "a copy of a head of the index is damaged; the other one counts, and the next start writes both"
                .into(),
        ),
        (HeadError::None, Err(_)) => Some("both copies of a head of the index are damaged".into()),
        (fault, _) => Some(fault.to_string()),
    }
}

/// The copies of a head as they should be, if a byte is wrong in either.
#[must_use]
pub fn mended_head(bytes: &[u8], disk: [u8; 16]) -> Option<Vec<u8>> {
    let mend = |copy: &[u8]| {
        let (body, crc) = copy.split_last_chunk::<4>()?;
        let (body, crc) = one_byte(body, u32::from_le_bytes(*crc))?;
        Some([body, crc.to_le_bytes().to_vec()].concat())
    };
    let copies: Vec<Vec<u8>> =
        bytes.chunks_exact(COPY_BYTES).map(|copy| mend(copy).unwrap_or_else(|| copy.to_vec())).collect();
    let mended = Head::of_copies(&copies.concat(), disk).ok()?.to_bytes(disk);
    (mended != bytes).then_some(mended)
}

/// Whether a head was written there of which no copy is left.
#[must_use]
pub fn is_head_lost(bytes: &[u8], disk: [u8; 16]) -> bool {
    !is_zeros(bytes) && Head::of_copies(bytes, disk).is_err()
}

/// The newer of two heads, each as its two copies.
///
/// # Errors
/// [`HeadError`]: of both heads the reason that says more.
pub fn newest(heads: [&[u8]; 2], disk: [u8; 16]) -> Result<Head, HeadError> {
    let [one, other] = heads.map(|bytes| Head::of_copies(bytes, disk));
    newer(one, other)
}

fn newer(one: Result<Head, HeadError>, other: Result<Head, HeadError>) -> Result<Head, HeadError> {
    match (one, other) {
        (Ok(one), Ok(other)) => Ok(if one.generation > other.generation { one } else { other }),
        (Ok(one), Err(_)) | (Err(_), Ok(one)) => Ok(one),
        (Err(HeadError::None), Err(why)) | (Err(why), Err(_)) => Err(why),
    }
}
