//! The frame that all pages of a key file have.

use super::PAGE_BYTES;
use crate::units::DiskId;
use zerocopy::little_endian::U32;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// A page as it lies in the file.
pub(super) type Page = [u8; PAGE_BYTES];

/// The version of the format.
const VERSION: u32 = 1;
/// Where the checksum of a page stands.
const SUM_AT: usize = PAGE_BYTES - 4;

/// The content of a page, as its magic says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PageKind {
    Header,
    Slot,
    Master,
}

/// Why a page is not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Fault {
    /// All zeros: there is nothing.
    Empty,
    /// The checksum is another.
    Checksum,
    /// The page has another magic, version, number or disk.
    Foreign(&'static str),
}

/// The first 32 bytes of a page.
#[derive(Clone, Copy, FromBytes, IntoBytes, Immutable, KnownLayout, Unaligned)]
#[repr(C)]
pub(super) struct Head {
    magic: [u8; 8],
    version: U32,
    number: U32,
    pub(super) disk: [u8; 16],
}

const _: () = assert!(size_of::<Head>() == 32);

impl PageKind {
    fn magic(self) -> [u8; 8] {
        *match self {
            PageKind::Header => b"QUIETKEY",
            PageKind::Slot => b"QUIETKSL",
            PageKind::Master => b"QUIETKMK",
        }
    }
}

impl Head {
    pub(super) fn new(kind: PageKind, number: u32, disk: DiskId) -> Head {
        Head { magic: kind.magic(), version: VERSION.into(), number: number.into(), disk: disk.0 }
    }
}

/// A page that begins with `content`.
pub(super) fn build(content: &(impl IntoBytes + Immutable)) -> Box<Page> {
    let content = content.as_bytes();
    assert!(content.len() <= SUM_AT, "the content leaves room for the checksum");
    let mut page = Box::new([0; PAGE_BYTES]);
    page[..content.len()].copy_from_slice(content);
    let sum = crc32c::crc32c(&page[..SUM_AT]);
    page[SUM_AT..].copy_from_slice(&sum.to_le_bytes());
    page
}

/// Checks the frame of a page. `disk` is `None` for the header, which names the disk.
pub(super) fn check(page: &Page, kind: PageKind, number: u32, disk: Option<DiskId>) -> Result<DiskId, Fault> {
    if page.iter().all(|byte| *byte == 0) {
        return Err(Fault::Empty);
    }
    if crc32c::crc32c(&page[..SUM_AT]).to_le_bytes() != page[SUM_AT..] {
        return Err(Fault::Checksum);
    }
    let (head, _) = Head::ref_from_prefix(page).expect("a page is longer than its head");
    let foreign = |field, is_right: bool| if is_right { Ok(()) } else { Err(Fault::Foreign(field)) };
    foreign("magic", head.magic == kind.magic())?;
    foreign("version", head.version.get() == VERSION)?;
    foreign("number", head.number.get() == number)?;
    foreign("disk", disk.is_none_or(|disk| disk.0 == head.disk))?;
    Ok(DiskId(head.disk))
}

impl Fault {
    /// The field that is wrong, for messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Fault::Empty => "magic",
            Fault::Checksum => "checksum",
            Fault::Foreign(field) => field,
        }
    }
}
