//! The knowledge of each region, saved at a clean stop as bytes (`docs/formats/view.md`).

use quietus_core::base::fields::Fields;
use quietus_core::base::units::{Addr, Extent};

const MAGIC: &[u8] = b"QUIETPA1";

/// Joins the views of the regions into one.
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

/// The views that [`join`] combined; `None` if `bytes` are not from it.
pub(super) fn split(bytes: &[u8]) -> Option<Vec<(Extent<Addr>, Vec<u8>)>> {
    let mut fields = Fields(bytes.strip_prefix(MAGIC)?);
    let mut views = Vec::new();
    while !fields.is_empty() {
        let extent = Extent::within(fields.u64()?, fields.u64()?, u64::MAX)?;
        views.push((extent, fields.sized()?.to_vec()));
    }
    Some(views)
}
