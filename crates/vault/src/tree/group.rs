//! Cutting a list of entries into chunks.

/// A chunk is not cut before this many bytes,
const BYTES_MIN: usize = 2 << 10;
/// and before this many it is cut at one entry of 2⁷ on average,
const ENTRY_MASK: u32 = (1 << 7) - 1;
/// but an entry never makes it longer than this, since its role takes a byte.
pub(super) const BYTES_MAX: usize = crate::chunk::CHUNK_BYTES_MAX - 1;

/// The chunk that is being filled.
#[derive(Default, Debug)]
pub(super) struct Group {
    bytes: Vec<u8>,
}

impl Group {
    /// Adds an encoded entry of at most [`BYTES_MAX`]; returns the chunks that are complete now, up to two,
    /// without their first byte.
    pub(super) fn push(&mut self, entry: &[u8]) -> impl Iterator<Item = Vec<u8>> {
        assert!(entry.len() <= BYTES_MAX, "an entry of {} bytes", entry.len());
        let full = if self.bytes.len() + entry.len() > BYTES_MAX { self.take() } else { None };
        self.bytes.extend(entry);
        let is_cut = self.bytes.len() >= BYTES_MIN && crc32c::crc32c(entry) & ENTRY_MASK == 0;
        let cut = if is_cut { self.take() } else { None };
        full.into_iter().chain(cut)
    }

    /// Remaining bytes.
    pub(super) fn take(&mut self) -> Option<Vec<u8>> {
        (!self.bytes.is_empty()).then(|| std::mem::take(&mut self.bytes))
    }
}
