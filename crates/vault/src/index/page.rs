//! A page of a sorted part: 97 entries of 42 bytes, and a checksum.

use zerocopy::little_endian::{U16, U32};
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{IndexEntry, Location};
use crate::{ContainerSequence, Fingerprint, Ordinal};

/// Bytes of a page.
pub const PAGE_BYTES: usize = 4096;
/// Entries that a page holds.
pub const PAGE_ENTRIES: usize = (PAGE_BYTES - HEAD_BYTES) / size_of::<RawEntry>();
/// Bytes of a number: a million million.
const NUMBER_BYTES: usize = 5;
/// Count, reserved, checksum.
const HEAD_BYTES: usize = 8;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawEntry {
    fingerprint: [u8; 32],
    ordinal: [u8; NUMBER_BYTES],
    container: [u8; NUMBER_BYTES],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
struct RawPage {
    /// Checksum of all that follows.
    checksum: U32,
    count: U16,
    reserved: U16,
    entries: [RawEntry; PAGE_ENTRIES],
    rest: [u8; PAGE_BYTES - HEAD_BYTES - PAGE_ENTRIES * size_of::<RawEntry>()],
}

const _: () = assert!(size_of::<RawPage>() == PAGE_BYTES && PAGE_ENTRIES == 97);

/// Why bytes are not a page of the index. A start rebuilds the index from the containers' directories.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum PageError {
    /// Bytes have changed, or are of something else.
    #[error(
        "index page: checksum {found:#010x}, computed {computed:#010x}; open the vault again, which makes the index anew"
    )]
    Checksum {
        /// The checksum in the page.
        found: u32,
        /// The checksum of its bytes.
        computed: u32,
    },
    /// A page with a right checksum has invalid entries.
    #[error(
        "index page: {0} entries, expected 1 to {PAGE_ENTRIES}, in order; open the vault again, which makes the index anew"
    )]
    Entries(usize),
}

/// The entries of one page, by fingerprint.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Page(Vec<IndexEntry>);

impl Page {
    /// Reads a page.
    ///
    /// # Errors
    ///
    /// [`PageError`]. Then nothing of the page can be trusted.
    pub fn from_bytes(bytes: &[u8; PAGE_BYTES]) -> Result<Page, PageError> {
        let computed = crc32c::crc32c(&bytes[4..]);
        let raw: &RawPage = zerocopy::transmute_ref!(bytes);
        if raw.checksum != computed {
            return Err(PageError::Checksum { found: raw.checksum.get(), computed });
        }
        let count = usize::from(raw.count.get());
        let entries: Vec<_> = raw.entries.iter().take(count).map(RawEntry::entry).collect();
        let is_sorted = entries.is_sorted_by(|one, next| one.fingerprint < next.fingerprint);
        if entries.is_empty() || entries.len() != count || !is_sorted {
            return Err(PageError::Entries(count));
        }
        Ok(Page(entries))
    }

    /// The bytes of a page of `entries`, which are sorted, at least one and at most [`PAGE_ENTRIES`].
    pub(super) fn to_bytes(entries: &[IndexEntry]) -> [u8; PAGE_BYTES] {
        assert!((1..=PAGE_ENTRIES).contains(&entries.len()), "{} entries in a page", entries.len());
        let mut raw = RawPage::new_zeroed();
        raw.count = U16::new(entries.len() as u16);
        for (raw, entry) in raw.entries.iter_mut().zip(entries) {
            *raw = RawEntry::new(entry);
        }
        raw.checksum = crc32c::crc32c(&raw.as_bytes()[4..]).into();
        zerocopy::transmute!(raw)
    }

    /// Where the chunk is, if this page has it.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<Location> {
        let at = self.0.binary_search_by_key(fingerprint, |entry| entry.fingerprint).ok()?;
        Some(self.0[at].location)
    }

    /// All entries, in order.
    pub fn entries(&self) -> &[IndexEntry] {
        &self.0
    }
}

impl RawEntry {
    fn new(entry: &IndexEntry) -> RawEntry {
        RawEntry {
            fingerprint: entry.fingerprint.0,
            ordinal: packed(entry.location.ordinal.0),
            container: packed(entry.location.container.0),
        }
    }

    fn entry(&self) -> IndexEntry {
        IndexEntry {
            fingerprint: Fingerprint(self.fingerprint),
            location: Location {
                ordinal: Ordinal(number(self.ordinal)),
                container: ContainerSequence(number(self.container)),
            },
        }
    }
}

/// # Panics
///
/// If the number has more than 40 bits: a vault gives fewer.
fn packed(number: u64) -> [u8; NUMBER_BYTES] {
    assert!(number >> (8 * NUMBER_BYTES) == 0, "number {number} of a chunk or container has over 40 bits");
    let [a, b, c, d, e, ..] = number.to_le_bytes();
    [a, b, c, d, e]
}

fn number([a, b, c, d, e]: [u8; NUMBER_BYTES]) -> u64 {
    u64::from_le_bytes([a, b, c, d, e, 0, 0, 0])
}
