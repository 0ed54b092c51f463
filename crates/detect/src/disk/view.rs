//! What is known of each region over a clean stop, as bytes
//! (`docs/formats/view.md`).

use quietus_core::units::{Addr, Extent};

/// What the views of a disk's regions begin with.
const MAGIC: &[u8] = b"QUIETPA1";

/// One view of many.
pub(super) fn join(views: &[(Extent<Addr>, Vec<u8>)]) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    for (extent, view) in views {
        for number in [extent.start.0, extent.len, view.len() as u64] {
            bytes.extend(number.to_le_bytes());
        }
        bytes.extend(view);
    }
    bytes
}

/// The views in one that [`join`] made; none if it did not.
pub(super) fn split(bytes: &[u8]) -> Option<Vec<(Extent<Addr>, Vec<u8>)>> {
    let mut rest = bytes.strip_prefix(MAGIC)?;
    let mut views = Vec::new();
    while !rest.is_empty() {
        let [start, len, view_len] = [number(&mut rest)?, number(&mut rest)?, number(&mut rest)?];
        let (view, behind) = rest.split_at_checked(usize::try_from(view_len).ok()?)?;
        views.push((Extent::within(start, len, u64::MAX)?, view.to_vec()));
        rest = behind;
    }
    Some(views)
}

fn number(bytes: &mut &[u8]) -> Option<u64> {
    let (number, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(u64::from_le_bytes(*number))
}
