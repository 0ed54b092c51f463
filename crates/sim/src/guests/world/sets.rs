//! Sets: several parts that together mean what one forget of the same blocks and epochs does. So the promises are the same
//! ([`crate::guests::world::lost`]).

use quietus_core::base::parts::Parts;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Epoch, EpochRange, Extent, Part, Scope, SetId};

/// The parts: one for each block, or two, each with half of the epochs. The number of the set says which blocks they have.
pub(super) fn parts_of(blocks: Extent<Addr>, epochs: EpochRange) -> Parts {
    let (first, count) = (blocks.start.0 / BLOCK_BYTES, blocks.len / BLOCK_BYTES);
    let all = blocks.pieces(BLOCK_BYTES).flat_map(|block: Extent<Addr>| {
        let half = Epoch(epochs.from.0.midpoint(epochs.to.0));
        let is_split = block.start.0 / BLOCK_BYTES % 3 == 2 && half < epochs.to;
        let halves = [
            EpochRange { from: epochs.from, to: half },
            EpochRange { from: Epoch(half.0 + 1), to: epochs.to },
        ];
        let ranges = if is_split { halves.to_vec() } else { vec![epochs] };
        ranges.into_iter().map(move |epochs| Part { epochs, blocks: block })
    });
    Parts::new(SetId((first << 32 | count).to_be_bytes()), all.collect())
}

/// What the scope in a receipt means: of a set, that of all its parts.
pub(super) fn meaning(scope: Scope) -> Scope {
    let Scope::Set(set) = scope else { return scope };
    let number = u64::from_be_bytes(set.id.0);
    let (first, count) = (number >> 32, number & u64::from(u32::MAX));
    Scope::shown(set.epochs, Extent::new(first * BLOCK_BYTES, count * BLOCK_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_means_what_its_parts_do_together() {
        for (first, count) in [(0, 1), (1, 4), (7, 3)] {
            let blocks = Extent::new(first * BLOCK_BYTES, count * BLOCK_BYTES);
            for (from, to) in [(0, 0), (1, 1), (2, 3), (1, 8)] {
                let epochs = EpochRange { from: Epoch(from), to: Epoch(to) };
                let parts = parts_of(blocks, epochs);
                let set = parts.set().expect("there are blocks");
                assert_eq!(meaning(Scope::Set(set)), Scope::shown(epochs, blocks));
                assert!(parts.are_sorted());
                let pairs =
                    |part: &Part| part.blocks.len / BLOCK_BYTES * (part.epochs.to.0 - part.epochs.from.0 + 1);
                assert_eq!(parts.all().iter().map(pairs).sum::<u64>(), count * (to - from + 1));
            }
        }
    }
}
