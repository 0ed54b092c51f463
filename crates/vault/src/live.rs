//! Which chunks are live: one mark for each chunk that was stored when a sanitization began.
//!
//! A set is exact for the chunks that it was made of: one of them is live if and only if it was
//! marked. A chunk that the set does not cover counts as live, and marking it has no effect. (The paper's
//! section 4 compares the ways; a Bloom filter, its 4.4, would leave dead chunks.)

mod ordinals;
mod perfect;

#[cfg(test)]
mod tests;

pub use ordinals::Ordinals;
pub use perfect::{BuildError, Builder, Cover, Perfect};

use crate::Reference;

/// A set of marks. Batches let it wait for several places of memory at once.
pub trait LiveSet {
    /// Marks chunks as live. A chunk that the set does not cover must not be passed to a set by
    /// fingerprint, unless it is outside of what the set [covers](Perfect): it would mark another one.
    fn mark(&mut self, chunks: &[Reference]);

    /// Appends to `out`, for each of the chunks, whether it is live.
    fn look_up(&self, chunks: &[Reference], out: &mut Vec<bool>);

    /// The number of parts in which marks are counted.
    fn parts(&self) -> usize;

    /// The part that a chunk is in; `None` if the set does not cover it.
    fn part(&self, chunk: &Reference) -> Option<usize>;

    /// The number of marked chunks of a part.
    fn marked(&self, part: usize) -> u64;

    /// Bytes of memory.
    fn bytes(&self) -> usize;
}
