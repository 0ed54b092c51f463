//! The head of a chip file, and the count of its operations.

use super::super::kinds::{ChipKind, check_geometry};
use quietus_core::base::fields::Fields;
use quietus_flash::Geometry;
use quietus_flash::chip::timing::Counts;

const MAGIC: [u8; 8] = *b"QNANDCHP";
const VERSION: u32 = 1;
/// Bytes of the head with its checksum.
pub(super) const HEAD_BYTES: usize = 64;
/// Where the counts stand.
pub(super) const COUNTS_AT: u64 = 512;
/// Bytes of the counts with their checksum.
pub(super) const COUNTS_BYTES: usize = 36;
/// Where the table of blocks stands.
pub(super) const TABLE_AT: u64 = 4096;
/// Bytes of an entry of the table.
pub(super) const ENTRY_BYTES: usize = 16;

/// What a chip file says of itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) kind: ChipKind,
    pub(super) blocks: u32,
}

impl Head {
    pub(super) fn geometry(&self) -> Geometry {
        self.kind.geometry(self.blocks)
    }

    /// Checks that there can be such a chip.
    pub(super) fn check(&self) -> Result<(), String> {
        self.kind.check()?;
        check_geometry(self.geometry())
    }

    /// Where the entry of `block` stands.
    pub(super) fn entry_at(block: usize) -> u64 {
        TABLE_AT + (block * ENTRY_BYTES) as u64
    }

    /// Bytes of a page with its spare area, which lies behind it.
    pub(super) fn stride(&self) -> u64 {
        u64::from(self.kind.page_bytes) + u64::from(self.kind.spare_bytes)
    }

    /// Where the page with that number stands; behind the last page, where the file ends.
    pub(super) fn page_at(&self, page: u64) -> u64 {
        Self::entry_at(self.blocks as usize).next_multiple_of(4096) + page * self.stride()
    }

    /// Bytes of the whole file.
    pub(super) fn file_bytes(&self) -> u64 {
        self.page_at(u64::from(self.blocks) * u64::from(self.kind.block_pages))
    }

    pub(super) fn to_bytes(self) -> Vec<u8> {
        let kind = self.kind;
        let mut bytes = MAGIC.to_vec();
        for number in [
            VERSION,
            kind.page_bytes,
            kind.spare_bytes,
            kind.block_pages,
            self.blocks,
            kind.correctable_bits,
            kind.endurance,
        ] {
            bytes.extend(number.to_le_bytes());
        }
        [kind.read_us, kind.program_us, kind.erase_us].iter().for_each(|it| bytes.extend(it.to_le_bytes()));
        sealed(bytes)
    }

    /// The head in `bytes`, which may be anything.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let cut = || "the file is shorter than the head of a chip".to_string();
        let mut fields = Fields(bytes);
        let magic: [u8; 8] = fields.array().ok_or_else(cut)?;
        if magic != MAGIC {
            return Err("the file is no chip: its first bytes are not QNANDCHP".into());
        }
        let version = fields.u32().ok_or_else(cut)?;
        if version != VERSION {
            return Err(format!(
                "the file has version {version} of the format; this program knows {VERSION}"
            ));
        }
        let bytes = bytes.get(..HEAD_BYTES).ok_or_else(cut)?;
        if !is_whole(bytes) {
            return Err("the file is damaged: the checksum of its head, at byte 0, is wrong".into());
        }
        let head = Self::read(&mut fields).ok_or_else(cut)?;
        head.check().map_err(|what| format!("the file is damaged: {what}"))?;
        Ok(head)
    }

    fn read(fields: &mut Fields<'_>) -> Option<Self> {
        let (page_bytes, spare_bytes, block_pages) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (blocks, correctable_bits, endurance) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (read_us, program_us, erase_us) = (fields.u64()?, fields.u64()?, fields.u64()?);
        let kind = ChipKind {
            page_bytes,
            spare_bytes,
            block_pages,
            correctable_bits,
            read_us,
            program_us,
            erase_us,
            endurance,
        };
        Some(Self { kind, blocks })
    }
}

pub(super) fn counts_to_bytes(counts: Counts) -> Vec<u8> {
    let numbers = [counts.reads, counts.programs, counts.erases, counts.micros];
    sealed(numbers.map(u64::to_le_bytes).concat())
}

pub(super) fn counts_from_bytes(bytes: &[u8]) -> Result<Counts, String> {
    let mut fields = Fields(bytes);
    let mut next = || fields.u64();
    let counts = (|| Some(Counts { reads: next()?, programs: next()?, erases: next()?, micros: next()? }))();
    counts.filter(|_| is_whole(bytes)).ok_or_else(|| {
        format!("the file is damaged: the checksum of its counts, at byte {COUNTS_AT}, is wrong")
    })
}

/// `bytes` with their checksum behind them.
pub(super) fn sealed(mut bytes: Vec<u8>) -> Vec<u8> {
    let checksum = crc32c::crc32c(&bytes);
    bytes.extend(checksum.to_le_bytes());
    bytes
}

/// Whether the last four bytes are the checksum of the others.
pub(super) fn is_whole(bytes: &[u8]) -> bool {
    bytes.split_last_chunk::<4>().is_some_and(|(content, sum)| crc32c::crc32c(content).to_le_bytes() == *sum)
}
