//! The writes of a checkpoint.

#[cfg(test)]
use super::Mapped;
use crate::media::place::Place;
use crate::media::places::Places;

/// Most bytes of the index, or of homes of stubs, that are written with one operation.
const WRITE_BYTES_MAX: usize = 64 << 10;

/// Writes of a checkpoint that may be carried out together. A checkpoint has phases, each of which has to be durable before
/// the next begins, and a phase comes in batches: only one of these is in memory at a time.
#[derive(Clone, PartialEq, Debug)]
pub struct Batch {
    /// The places of each write, and its bytes.
    pub writes: Vec<(Places, Vec<u8>)>,
    /// Whether the batch is the last one of its phase.
    pub ends_phase: bool,
}

impl Batch {
    /// A phase in one batch.
    ///
    /// # Panics
    /// If the places of a write have more bytes, or fewer, than are written.
    #[must_use]
    pub fn phase(writes: Vec<(Places, Vec<u8>)>) -> Self {
        let fits = |(places, bytes): &(Places, Vec<u8>)| places.bytes() == bytes.len() as u64;
        assert!(writes.iter().all(fits), "each byte of a write has its place");
        Self { writes, ends_phase: true }
    }

    /// All batches of a checkpoint that begins now.
    #[cfg(test)]
    pub(crate) fn all_of(store: &mut impl Mapped) -> Vec<Self> {
        store.begin_checkpoint(false);
        std::iter::from_fn(|| store.next_batch()).collect()
    }

    /// All writes of a checkpoint that begins now, in their order.
    #[cfg(test)]
    pub(crate) fn all_writes(store: &mut impl Mapped) -> Vec<(Places, Vec<u8>)> {
        Self::all_of(store).into_iter().flat_map(|batch| batch.writes).collect()
    }
}

/// The writes as few operations: each is an event, and homes of stubs come by the ten thousand.
pub(super) fn joined(writes: Vec<(Place, Vec<u8>)>) -> Vec<(Places, Vec<u8>)> {
    let mut few: Vec<(Places, Vec<u8>)> = Vec::new();
    for (place, bytes) in writes {
        assert_eq!(place.extent.len, bytes.len() as u64, "each byte of a write has its place");
        assert!(bytes.len() <= WRITE_BYTES_MAX, "one operation has at most 64 KiB");
        match few.last_mut() {
            Some((places, content))
                if places.first().on == place.on && content.len() + bytes.len() <= WRITE_BYTES_MAX =>
            {
                places.push(place);
                content.extend(bytes);
            }
            _ => few.push((place.into(), bytes)),
        }
    }
    few
}
