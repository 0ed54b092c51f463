//! Signatures of containers and file systems that cannot be understood here.
//!
//! A foreign container may lie where a file system was, and leave its superblock in place: an md
//! array of metadata 1.2 begins behind it. The blocks that the old superblock calls free are the
//! array's data then. So a foreign signature always wins.

use crate::disk::partition::{Missing, SECTOR_BYTES};
use crate::formats::format::Contents;
use quietus_core::base::units::{Addr, Extent};

/// Bytes read at once from the start of a place.
const HEAD_BYTES: u64 = 4608;
const KIB: u64 = 1 << 10;

/// Bytes that mark a container, at an offset from the start of a place.
struct Signature {
    at: u64,
    magic: &'static [u8],
    name: &'static str,
}

const fn signature(at: u64, magic: &'static [u8], name: &'static str) -> Signature {
    Signature { at, magic, name }
}

const MD: &[u8] = &[0xFC, 0x4E, 0x2B, 0xA9];
const MD_NAME: &str = "a member of an md array";
const LVM_NAME: &str = "a physical volume of LVM";
const SWAP_NAME: &str = "swap space";
const BCACHE: &[u8] = b"\xC6\x85\x73\xF6\x4E\x1A\x45\xCA\x82\x65\xF5\x7F\x48\xBA\x6D\x81";

/// Signatures near the start.
const AT_START: &[Signature] = &[
    signature(0, b"LUKS\xBA\xBE", "a LUKS container"),
    signature(0, b"XFSB", "xfs"),
    signature(0, b"bluestore block device", "a BlueStore device"),
    signature(3, b"-FVE-FS-", "a BitLocker volume"),
    signature(0, MD, MD_NAME),
    signature(4 * KIB, MD, MD_NAME),
    signature(0, b"LABELONE", LVM_NAME),
    signature(512, b"LABELONE", LVM_NAME),
    signature(1024, b"LABELONE", LVM_NAME),
    signature(1536, b"LABELONE", LVM_NAME),
    signature(4 * KIB - 10, b"SWAPSPACE2", SWAP_NAME),
    signature(4 * KIB - 10, b"SWAP-SPACE", SWAP_NAME),
    signature(4 * KIB + 24, BCACHE, "a bcache device"),
    signature(16 * KIB + 20, b"\0\0\0\x07version", "a member of a ZFS pool"),
    signature(64 * KIB + 64, b"_BHRfS_M", "btrfs"),
];

/// Signatures near the end of `len` bytes.
fn at_end(len: u64) -> Vec<Signature> {
    let md_1_0 = (len / 512).checked_sub(16).map(|sectors| (sectors & !7) * 512);
    let md_0_90 = (len & !(64 * KIB - 1)).checked_sub(64 * KIB);
    let md = [md_1_0, md_0_90].into_iter().flatten().map(|at| signature(at, MD, MD_NAME));
    let imsm = len.checked_sub(1024).map(|at| signature(at, b"Intel Raid ISM Cfg Sig. ", MD_NAME));
    let ddf = len.checked_sub(512).map(|at| signature(at, b"\xDE\x11\xDE\x11", MD_NAME));
    md.chain(imsm).chain(ddf).collect()
}

/// The parts of `place` that [`find`] needs.
pub(crate) fn pieces(place: Extent<Addr>) -> Vec<Extent<Addr>> {
    let mut pieces = vec![Extent::new(place.start.0, HEAD_BYTES.min(place.len))];
    for it in AT_START.iter().chain(&at_end(place.len)) {
        let piece = piece(place, it);
        if piece.end() <= place.end() && !pieces.iter().any(|known| holds(*known, piece)) {
            pieces.push(piece);
        }
    }
    pieces.retain(|it| !it.is_empty());
    pieces
}

/// The sector of `place` in which the signature lies.
fn piece(place: Extent<Addr>, it: &Signature) -> Extent<Addr> {
    Extent::new(place.start.0 + it.at / SECTOR_BYTES * SECTOR_BYTES, SECTOR_BYTES)
}

fn holds(whole: Extent<Addr>, part: Extent<Addr>) -> bool {
    whole.overlap(part) == Some(part)
}

/// The owner of `place`, by its signature, if there is one. Signatures within `others` do not
/// count.
///
/// # Errors
/// The extents that `contents` lacks.
pub fn find(
    place: Extent<Addr>,
    others: &[Extent<Addr>],
    contents: &Contents,
) -> Result<Option<&'static str>, Missing> {
    let missing: Vec<_> = pieces(place).into_iter().filter(|it| contents.get(*it).is_none()).collect();
    if !missing.is_empty() {
        return Err(Missing(missing));
    }
    let known: Vec<_> = pieces(place).into_iter().filter_map(|it| Some((it, contents.get(it)?))).collect();
    let at_end = at_end(place.len);
    let found = AT_START.iter().chain(&at_end).find(|it| {
        let at = it.extent(place);
        at.is_some_and(|at| !others.iter().any(|other| other.overlaps(at)) && it.is_at(at, &known))
    });
    Ok(found.map(|it| it.name))
}

impl Signature {
    /// The place of the signature in `place`, if that is long enough.
    fn extent(&self, place: Extent<Addr>) -> Option<Extent<Addr>> {
        let at = Extent::<Addr>::within(self.at, self.magic.len() as u64, place.len)?;
        Some(Extent::new(place.start.0 + at.start.0, at.len))
    }

    /// Whether the signature lies at `at`, within one of the `known` pieces.
    fn is_at(&self, at: Extent<Addr>, known: &[(Extent<Addr>, &[u8])]) -> bool {
        let whole = known.iter().find(|(piece, _)| holds(*piece, at));
        whole.is_some_and(|(piece, bytes)| {
            bytes[(at.start.0 - piece.start.0) as usize..].starts_with(self.magic)
        })
    }
}

#[cfg(test)]
mod tests;
