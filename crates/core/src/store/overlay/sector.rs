//! A sector of the map: entries, and their checksum.
//!
//! A medium writes a sector as a whole, so the checksum is durable together with what it is of. It covers the disk
//! and the number of the sector too: a sector of another disk, or of another place, does not match.

use crate::base::mend::one_byte;
use crate::base::zeros::is_zeros;

/// Bytes of a sector.
pub const SECTOR_BYTES: usize = 512;
/// Blocks that a sector maps.
pub(super) const SECTOR_BLOCKS: u64 = ENTRIES_BYTES as u64 / 4;
/// Bytes of the entries. The checksum follows.
const ENTRIES_BYTES: usize = SECTOR_BYTES - 4;
/// Bytes that the checksum covers before the entries: the disk and the number of the sector.
const OWNER_BYTES: usize = 24;

/// What the checksum of sector `number` covers.
fn covered(disk: [u8; 16], number: u64, entries: &[u8]) -> Vec<u8> {
    [&disk, &number.to_le_bytes()[..], entries].concat()
}

/// Appends sector `number` of the map of `disk`. A sector without entries is all zeros, like one that was never written.
pub(super) fn append(disk: [u8; 16], number: u64, entries: &[u32], to: &mut Vec<u8>) {
    let entries: Vec<u8> = entries.iter().flat_map(|entry| entry.to_le_bytes()).collect();
    assert!(entries.len() == ENTRIES_BYTES, "a sector is full");
    let is_empty = is_zeros(&entries);
    let crc = if is_empty { 0 } else { crc32c::crc32c(&covered(disk, number, &entries)) };
    to.extend(entries);
    to.extend(crc.to_le_bytes());
}

/// The entries of sector `number` of the map of `disk`; `None` if the checksum does not match.
pub(super) fn entries(
    disk: [u8; 16],
    number: u64,
    sector: &[u8],
) -> Option<impl Iterator<Item = u32> + use<'_>> {
    let (entries, crc) = sector.split_last_chunk::<4>()?;
    let is_whole =
        is_zeros(sector) || crc32c::crc32c(&covered(disk, number, entries)) == u32::from_le_bytes(*crc);
    is_whole.then(|| entries.as_chunks::<4>().0.iter().map(|entry| u32::from_le_bytes(*entry)))
}

/// The sector as it was before one byte of it was changed; `None` if it is whole, or if more is wrong.
pub(super) fn mended(disk: [u8; 16], number: u64, sector: &[u8]) -> Option<Vec<u8>> {
    if entries(disk, number, sector).is_some() {
        return None;
    }
    let was_empty = sector.iter().filter(|byte| **byte != 0).count() == 1;
    let (entries, crc) = sector.split_last_chunk::<4>()?;
    let covered = covered(disk, number, entries);
    let (mended, crc) = match one_byte(&covered, u32::from_le_bytes(*crc)) {
        Some(_) if was_empty => return None,
        None => return was_empty.then(|| vec![0; SECTOR_BYTES]),
        Some(found) => found,
    };
    let is_ours = mended[..OWNER_BYTES] == covered[..OWNER_BYTES];
    let whole = is_ours.then(|| [&mended[OWNER_BYTES..], &crc.to_le_bytes()].concat());
    let is_whole = |it: &Vec<u8>| self::entries(disk, number, it).is_some();
    assert!(whole.as_ref().is_none_or(is_whole), "a mended sector fits its checksum");
    whole
}

#[cfg(test)]
mod tests {
    use super::*;

    const DISK: [u8; 16] = [4; 16];

    fn sector(number: u64) -> Vec<u8> {
        let entries: Vec<u32> = (0..SECTOR_BLOCKS as u32).map(|n| n % 5 * 1000).collect();
        let mut bytes = Vec::new();
        append(DISK, number, &entries, &mut bytes);
        bytes
    }

    #[test]
    fn a_sector_is_believed_only_as_it_was_written_in_its_place_for_its_disk() {
        let bytes = sector(7);
        assert_eq!(bytes.len(), SECTOR_BYTES);
        let found: Vec<u32> = entries(DISK, 7, &bytes).expect("it is whole").collect();
        assert_eq!((found.len() as u64, found[6]), (SECTOR_BLOCKS, 1000));
        assert!(entries(DISK, 8, &bytes).is_none(), "another place");
        assert!(entries([5; 16], 7, &bytes).is_none(), "another disk");
        for bit in 0..8 * SECTOR_BYTES {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(entries(DISK, 7, &flipped).is_none(), "bit {bit}");
            assert_eq!(mended(DISK, 7, &flipped), Some(bytes.clone()), "bit {bit}");
        }
        let mut exchanged = bytes.clone();
        (0..4).for_each(|n| exchanged.swap(4 + n, 8 + n));
        assert!(entries(DISK, 7, &exchanged).is_none());
        assert_eq!(mended(DISK, 7, &exchanged), None, "more than one byte is wrong");
    }

    #[test]
    fn a_sector_without_entries_is_all_zeros_and_any_wrong_byte_of_it_is_mended() {
        let mut bytes = Vec::new();
        append(DISK, 7, &[0; SECTOR_BLOCKS as usize], &mut bytes);
        assert_eq!(bytes, [0; SECTOR_BYTES]);
        assert!(entries(DISK, 7, &bytes).is_some_and(|mut it| it.all(|entry| entry == 0)));
        for at in 0..SECTOR_BYTES {
            let mut flipped = bytes.clone();
            flipped[at] = 0x40;
            assert!(entries(DISK, 7, &flipped).is_none(), "byte {at}");
            assert_eq!(mended(DISK, 7, &flipped), Some(bytes.clone()), "byte {at}");
        }
    }
}
