//! Sets of blocks as bytes (`docs/formats/view.md`).

use crate::format::Block;
use roaring::RoaringBitmap;
use std::io;

/// Writes `sets`, each with its length before it.
pub(crate) fn put_sets<const N: usize>(sets: [&RoaringBitmap; N], bytes: &mut Vec<u8>) {
    for set in sets {
        bytes.extend((set.serialized_size() as u64).to_le_bytes());
        set.serialize_into(&mut *bytes).expect("writing to memory does not fail");
    }
}

/// The sets that [`put_sets`] wrote, if they are of blocks below `blocks`.
pub(crate) fn take_sets<const N: usize>(bytes: &mut &[u8], blocks: Block) -> Option<[RoaringBitmap; N]> {
    let sets: Result<Vec<_>, _> = (0..N).map(|_| take_set(bytes, blocks)).collect();
    sets.ok()?.try_into().ok()
}

/// The next set in `bytes`, if it is one of blocks below `blocks`.
fn take_set(bytes: &mut &[u8], blocks: Block) -> io::Result<RoaringBitmap> {
    let (len, rest) = bytes.split_first_chunk::<8>().ok_or(io::ErrorKind::UnexpectedEof)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).unwrap_or(usize::MAX);
    let (set, rest) = rest.split_at_checked(len).ok_or(io::ErrorKind::UnexpectedEof)?;
    *bytes = rest;
    let set = RoaringBitmap::deserialize_from(set)?;
    let fits = set.max().is_none_or(|last| last < blocks);
    if fits { Ok(set) } else { Err(io::ErrorKind::InvalidData.into()) }
}
