//! Sets of blocks as bytes (`docs/formats/view.md`).

use crate::formats::format::Block;
use crate::input::bytes::all;
use quietus_core::base::fields::Fields;
use roaring::RoaringBitmap;
use std::collections::BTreeMap;
use std::io;
use zerocopy::little_endian::U32;

/// Writes `sets`, each preceded by its length in bytes.
pub(crate) fn put_sets<const N: usize>(sets: [&RoaringBitmap; N], bytes: &mut Vec<u8>) {
    for set in sets {
        bytes.extend((set.serialized_size() as u64).to_le_bytes());
        set.serialize_into(&mut *bytes).expect("writing to memory does not fail");
    }
}

/// The sets that [`put_sets`] wrote, if all their blocks are below `blocks`.
pub(crate) fn take_sets<const N: usize>(
    fields: &mut Fields<'_>,
    blocks: Block,
) -> Option<[RoaringBitmap; N]> {
    let sets: Result<Vec<_>, _> = (0..N).map(|_| take_set(fields, blocks)).collect();
    sets.ok()?.try_into().ok()
}

/// The next set, if all its blocks are below `blocks`.
fn take_set(fields: &mut Fields<'_>, blocks: Block) -> io::Result<RoaringBitmap> {
    let set = fields.sized().ok_or(io::ErrorKind::UnexpectedEof)?;
    let set = RoaringBitmap::deserialize_from(set)?;
    let fits = set.max().is_none_or(|last| last < blocks);
    if fits { Ok(set) } else { Err(io::ErrorKind::InvalidData.into()) }
}

/// Writes pairs of a block and a number, preceded by their count.
pub(crate) fn put_pairs(pairs: impl ExactSizeIterator<Item = (Block, u32)>, bytes: &mut Vec<u8>) {
    bytes.extend((pairs.len() as u64).to_le_bytes());
    for (block, number) in pairs {
        bytes.extend(block.to_le_bytes());
        bytes.extend(number.to_le_bytes());
    }
}

/// The pairs that [`put_pairs`] wrote, if all their blocks are below `blocks`.
pub(crate) fn take_pairs(fields: &mut Fields<'_>, blocks: Block) -> Option<BTreeMap<Block, u32>> {
    let count = fields.u64()?;
    let pairs = all::<[U32; 2]>(fields.bytes(count.checked_mul(8)?)?);
    let map: BTreeMap<_, _> = pairs.iter().map(|[block, number]| (block.get(), number.get())).collect();
    map.keys().next_back().is_none_or(|last| *last < blocks).then_some(map)
}
