//! State of an overlay's files at its last clean stop: the file `stamp`.
//!
//! A sector of the map counts by itself (`docs/decisions/0013-overlay.md`), so that one of another time, or one that was
//! lost to zeros, is believable. While the disk is not open for writing, though, the map does
//! not change, and that can be checked.
//!
//! Invariant: the stamp is there only while the map and the length of `data` are as it says. The
//! stamp is written when all of them are durable, and removed before either changes.

use super::{DiskDir, DiskError, DiskErrorKind};
use crate::host::directory::DirectoryErrorKind;
use crate::host::media::DiskMedium;
use quietus_core::base::units::{Extent, Pos};
use quietus_core::base::zeros::is_zeros;
use quietus_core::media::MediumId;
use quietus_core::media::medium::{Medium, MediumError};
use quietus_core::store::overlay::{
    MAP_HEAD_BYTES, MapError, PAGE_BLOCKS, SECTOR_BYTES, entry_at, first_block, map_bytes,
};
use std::io;

const MAGIC: &[u8; 8] = b"QUIETSTP";
const VERSION: u32 = 1;
/// Bytes of the map that one checksum covers.
const PAGE_BYTES: u64 = 4096;
/// Bytes read at once.
const READ_BYTES: u64 = 1 << 20;
const RESTORE: &str = "run `quietus repair`, or restore `map` and `data` together, from one backup";
const BELIEVE: &str = "to trust the map as it is, remove the file `stamp`";

/// State of the files at a clean stop.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Stamp {
    data_bytes: u64,
    /// Number and CRC-32C of each page of the map that is not all zeros, in order.
    pages: Vec<(u64, u32)>,
}

impl DiskDir {
    /// Writes the stamp of an overlay that has just been stopped cleanly.
    ///
    /// # Errors
    /// [`DiskError`], which costs nothing but a check at the next start.
    pub fn stamp(&self) -> Result<(), DiskError> {
        // The pages of an index and of a key tree have checksums of their own.
        if self.toml().overlay.is_none() {
            return Ok(());
        }
        let media = (self.open_medium(MediumId::Data)?, self.open_medium(MediumId::Map)?);
        let (Some(data), Some(map)) = media else { return Ok(()) };
        let path = self.path().join("stamp");
        let failed = |error| DirectoryErrorKind::Io("write the file").of(&path, error);
        let stamp = Stamp::of(&data, &map).map_err(|error| failed(io::Error::other(error)))?;
        let bytes = stamp.to_bytes(*self.toml().uuid.as_bytes());
        Ok(self.directory.replace("stamp", &bytes).map_err(failed)?)
    }

    /// Whether there is a clean stop to compare with.
    #[must_use]
    pub fn is_stamped(&self) -> bool {
        self.path().join("stamp").exists()
    }

    /// Checks that the files of an overlay are as at the last clean stop, if they were not open for
    /// writing since.
    ///
    /// # Errors
    /// [`DiskErrorKind::Changed`]: the fault, and its place.
    pub(crate) fn check_stamp(&self, data: &DiskMedium, map: &DiskMedium) -> Result<(), DiskError> {
        // A torn stamp is no loss, and the core refuses a shorter map.
        let bytes = std::fs::read(self.path().join("stamp")).unwrap_or_default();
        let stamp = Stamp::from_bytes(&bytes, *self.toml().uuid.as_bytes());
        let Some(then) = stamp.filter(|_| map.size() >= map_bytes(self.toml().size_bytes)) else {
            return Ok(());
        };
        let at = self.path().join("map");
        let unreadable =
            |error| DirectoryErrorKind::Io("read the file").of(&at, io::Error::other::<MediumError>(error));
        let now = Stamp::of(data, map).map_err(unreadable)?;
        if now.data_bytes != then.data_bytes {
            let how = if now.data_bytes < then.data_bytes { "cut off" } else { "made longer" };
            let (now, then) = (now.data_bytes, then.data_bytes);
            let what = format!("{how} since the last clean stop, from {then} to {now} bytes; {RESTORE}");
            return Err(DiskErrorKind::Changed(what).at(&self.path().join("data")));
        }
        match then.differs(&now) {
            None => Ok(()),
            Some(page) => Err(DiskErrorKind::Changed(what_differs(page)).at(&at)),
        }
    }

    /// Removes the stamp, as the files change from now on.
    pub(crate) fn remove_stamp(&self) -> Result<(), DiskError> {
        let failed =
            |error| DirectoryErrorKind::Io("remove the file").of(&self.directory.file("stamp"), error);
        Ok(self.directory.remove("stamp").map_err(failed)?)
    }

    /// The fault of the map, with its place and file.
    #[must_use]
    pub(crate) fn map_error(&self, error: &MapError) -> Option<DiskError> {
        let what = match *error {
            MapError::Beyond { block, slot, slots } => {
                let entry = entry_names(block, slot);
                format!(
                    "{entry}, and `data` has {slots} slots: the entry was changed, or `data` was cut off; \
                     {RESTORE}"
                )
            }
            MapError::Twice { block, slot } => {
                let entry = entry_names(block, slot);
                format!("{entry}, which an earlier entry names too: one of the two was changed; {RESTORE}")
            }
            MapError::Sector { at } => {
                let (first, next) = (first_block(at), first_block(at + SECTOR_BYTES as u64));
                format!(
                    "the sector at byte {at}, with the entries of blocks {first} to {}, does not match its checksum; \
                     {RESTORE}",
                    next - 1
                )
            }
            _ => return None,
        };
        Some(DiskErrorKind::Changed(what).at(&self.path().join("map")))
    }
}

fn entry_names(block: u64, slot: u64) -> String {
    format!("the entry of block {block}, at byte {}, names slot {slot}", entry_at(block))
}

/// The fault of a page of the map, in words.
fn what_differs(page: u64) -> String {
    let at = page * PAGE_BYTES;
    let first = first_block(at);
    format!(
        "changed since the last clean stop: the entries of blocks {first} to {}, at bytes {at} to {}, have changed; \
         {RESTORE}; {BELIEVE}",
        first + PAGE_BLOCKS - 1,
        at + PAGE_BYTES - 1
    )
}

impl Stamp {
    fn of(data: &DiskMedium, map: &DiskMedium) -> Result<Self, MediumError> {
        let mut pages = Vec::new();
        let mut bytes = vec![0; READ_BYTES as usize];
        let entries = Extent::<Pos>::between(MAP_HEAD_BYTES.min(map.size()), map.size());
        for run in map.data_within(entries) {
            // Data may begin and end within a page where the host's pages are smaller.
            let from = run.start.0 / PAGE_BYTES * PAGE_BYTES;
            let to = run.end().next_multiple_of(PAGE_BYTES).min(map.size());
            for part in Extent::<Pos>::between(from, to).pieces(READ_BYTES) {
                let bytes = &mut bytes[..part.len as usize];
                map.read(part.start, bytes)?;
                let numbers = part.start.0 / PAGE_BYTES..;
                let found =
                    numbers.zip(bytes.chunks(PAGE_BYTES as usize)).filter(|(_, page)| !is_zeros(page));
                pages.extend(found.map(|(number, page)| (number, crc32c::crc32c(page))));
            }
        }
        pages.dedup();
        Ok(Self { data_bytes: data.size(), pages })
    }

    /// The first page that differs in `now`.
    fn differs(&self, now: &Self) -> Option<u64> {
        let pairs = self.pages.iter().zip(&now.pages);
        let changed = pairs.clone().find(|(then, now)| then != now).map(|(then, now)| then.0.min(now.0));
        let further = || self.pages.get(pairs.len()).or(now.pages.get(pairs.len())).map(|page| page.0);
        changed.or_else(further)
    }

    fn to_bytes(&self, disk: [u8; 16]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend(disk);
        bytes.extend(self.data_bytes.to_le_bytes());
        for (page, crc) in &self.pages {
            bytes.extend(page.to_le_bytes());
            bytes.extend(crc.to_le_bytes());
        }
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        bytes
    }

    fn from_bytes(bytes: &[u8], disk: [u8; 16]) -> Option<Self> {
        let (body, crc) = bytes.split_last_chunk::<4>()?;
        if crc32c::crc32c(body) != u32::from_le_bytes(*crc) {
            return None;
        }
        let body = body.strip_prefix(MAGIC)?.strip_prefix(&VERSION.to_le_bytes())?.strip_prefix(&disk)?;
        let (data_bytes, pages) = body.split_first_chunk()?;
        let (pages, []) = pages.as_chunks::<12>() else { return None };
        let page = |page: &[u8; 12]| {
            let (number, crc) = page.split_first_chunk::<8>()?;
            Some((u64::from_le_bytes(*number), u32::from_le_bytes(crc.try_into().ok()?)))
        };
        let pages = pages.iter().map(page).collect::<Option<_>>()?;
        Some(Self { data_bytes: u64::from_le_bytes(*data_bytes), pages })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: [u8; 16] = [7; 16];

    fn stamp() -> Stamp {
        Stamp { data_bytes: 8192, pages: vec![(1, 0x1234_5678), (9, 1)] }
    }

    /// The stamp after `change`, with a checksum that is right again.
    fn changed(change: impl Fn(&mut Vec<u8>)) -> Option<Stamp> {
        let mut bytes = stamp().to_bytes(DISK);
        bytes.truncate(bytes.len() - 4);
        change(&mut bytes);
        bytes.extend(crc32c::crc32c(&bytes).to_le_bytes());
        Stamp::from_bytes(&bytes, DISK)
    }

    #[test]
    fn a_stamp_that_is_not_whole_or_not_of_this_disk_says_nothing() {
        let bytes = stamp().to_bytes(DISK);
        assert_eq!(Stamp::from_bytes(&bytes, DISK), Some(stamp()));
        assert_eq!(Stamp::from_bytes(&bytes, [8; 16]), None);
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Stamp::from_bytes(&flipped, DISK), None, "bit {bit}");
        }
        assert!((0..bytes.len()).all(|len| Stamp::from_bytes(&bytes[..len], DISK).is_none()));
        assert_eq!(changed(|bytes| bytes[0] = b'X'), None, "magic");
        assert_eq!(changed(|bytes| bytes[8] = 2), None, "version");
        assert_eq!(changed(|bytes| bytes[12] = 8), None, "disk");
        assert_eq!(changed(|bytes| bytes.truncate(bytes.len() - 1)), None, "a part of a page");
        assert_eq!(changed(|bytes| bytes.truncate(30)), None, "a part of the length");
    }

    #[test]
    fn the_first_page_that_differs_is_found() {
        let with = |pages: &[(u64, u32)]| Stamp { data_bytes: 0, pages: pages.to_vec() };
        let then = with(&[(1, 5), (4, 6)]);
        for (now, page) in [
            (with(&[(1, 5), (4, 6)]), None),
            (with(&[(1, 7), (4, 6)]), Some(1)),
            (with(&[(4, 6)]), Some(1)),
            (with(&[(1, 5)]), Some(4)),
            (with(&[(1, 5), (3, 6), (4, 6)]), Some(3)),
            (with(&[(1, 5), (4, 6), (8, 1)]), Some(8)),
        ] {
            assert_eq!(then.differs(&now), page, "{now:?}");
        }
    }
}
