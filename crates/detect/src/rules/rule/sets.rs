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

/// Writes rows of numbers, preceded by their count.
pub(crate) fn put_rows<const N: usize>(rows: impl ExactSizeIterator<Item = [u32; N]>, bytes: &mut Vec<u8>) {
    bytes.extend((rows.len() as u64).to_le_bytes());
    rows.flatten().for_each(|number| bytes.extend(number.to_le_bytes()));
}

/// The rows that [`put_rows`] wrote, if each begins with a block below `blocks`.
pub(crate) fn take_rows<const N: usize>(fields: &mut Fields<'_>, blocks: Block) -> Option<Vec<[u32; N]>> {
    let count = fields.u64()?;
    let rows = all::<[U32; N]>(fields.bytes(count.checked_mul(4 * N as u64)?)?);
    let rows: Vec<_> = rows.iter().map(|row| row.map(U32::get)).collect();
    rows.iter().all(|row| row[0] < blocks).then_some(rows)
}

/// Writes the numbers of blocks.
pub(crate) fn put_map(map: &BTreeMap<Block, u32>, bytes: &mut Vec<u8>) {
    put_rows(map.iter().map(|(block, number)| [*block, *number]), bytes);
}

/// The map that [`put_map`] wrote, if all its blocks are below `blocks`.
pub(crate) fn take_map(fields: &mut Fields<'_>, blocks: Block) -> Option<BTreeMap<Block, u32>> {
    Some(take_rows::<2>(fields, blocks)?.into_iter().map(|[block, number]| (block, number)).collect())
}
