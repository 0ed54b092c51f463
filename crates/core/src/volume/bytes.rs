//! Parts of content, by where they lie on the disk.

use crate::base::buf::Buf;
use crate::base::units::{Addr, BLOCK_BYTES, Extent};
use crate::base::zeros::is_zeros;

/// The whole blocks of `extent` that `data` fills with zeros, as runs.
pub(super) fn zero_blocks(extent: Extent<Addr>, data: &[u8]) -> Vec<Extent<Addr>> {
    let first = extent.start.0.next_multiple_of(BLOCK_BYTES);
    let Some(body) = data.get((first - extent.start.0) as usize..) else { return Vec::new() };
    let mut runs: Vec<Extent<Addr>> = Vec::new();
    for (n, block) in body.chunks_exact(BLOCK_BYTES as usize).enumerate() {
        if !is_zeros(block) {
            continue;
        }
        let start = first + n as u64 * BLOCK_BYTES;
        match runs.last_mut().filter(|run| run.end() == start) {
            Some(run) => run.len += BLOCK_BYTES,
            None => runs.push(Extent::new(start, BLOCK_BYTES)),
        }
    }
    assert!(runs.last().is_none_or(|run| run.end() <= extent.end()), "zeros lie within what is written");
    runs
}

/// The part of `data`, the content of `whole`, that is the content of `part`.
pub(super) fn slice(data: &[u8], whole: Extent<Addr>, part: Extent<Addr>) -> &[u8] {
    assert!(data.len() as u64 == whole.len, "content has as many bytes as its extent");
    assert!(whole.start <= part.start && part.end() <= whole.end(), "a part lies within the whole");
    let from = (part.start.0 - whole.start.0) as usize;
    &data[from..from + part.len as usize]
}

/// Whether `data`, written to `extent`, is nothing but whole blocks of zeros.
pub(super) fn all_zeros(extent: Extent<Addr>, data: &[u8]) -> bool {
    is_all(&zero_blocks(extent, data), extent)
}

/// `data` with zeros behind it, as long as its places: the last block of a disk may be written as a whole.
pub(super) fn padded(data: Buf, bytes: u64) -> Buf {
    if data.len() as u64 == bytes {
        return data;
    }
    let zeros = bytes.checked_sub(data.len() as u64);
    assert!(zeros.is_some_and(|zeros| zeros < BLOCK_BYTES), "zeros fill a block up, and nothing is cut off");
    let mut data = data.into_vec();
    data.resize(bytes as usize, 0);
    data.into()
}

/// `data`, the content of `part`, with zeros around it, as that of `whole`.
pub(super) fn surrounded(data: Buf, part: Extent<Addr>, whole: Extent<Addr>) -> Buf {
    assert!(whole.start <= part.start && part.end() <= whole.end(), "a part lies within the whole");
    if part == whole {
        return data;
    }
    let mut content = vec![0; whole.len as usize];
    content[(part.start.0 - whole.start.0) as usize..][..data.len()].copy_from_slice(&data);
    content.into()
}

pub(super) fn is_all(runs: &[Extent<Addr>], extent: Extent<Addr>) -> bool {
    let bytes = runs.iter().map(|run| run.len).sum::<u64>();
    assert!(bytes <= extent.len, "runs of an extent are no longer than that");
    bytes == extent.len
}
