//! Chunks in the order of their parts: places that lie near each other are then needed one after the other, so that
//! a set of many megabytes does not cost a miss of the processor's table of pages for each of them.

use super::part::Key;

/// Groups of neighbouring parts that chunks are sorted into.
const GROUPS: usize = 1 << 9;

/// The number of a chunk's part, and the rest of its hash, which the part needs.
pub(super) type Hash = (u32, Key);

/// The memory to sort in; kept from batch to batch.
#[derive(Default, Debug)]
pub(super) struct Order {
    sorted: Vec<Hash>,
}

impl Order {
    /// The hashes of the chunks, group by group. `part` gives a chunk's part, of `parts`, or `None` to leave it out;
    /// `key` gives the rest of its hash.
    pub(super) fn sort<Chunk>(
        &mut self,
        chunks: &[Chunk],
        parts: usize,
        part: impl Fn(&Chunk) -> Option<u32>,
        key: impl Fn(&Chunk) -> Key,
    ) -> &mut [Hash] {
        let shift = parts.div_ceil(GROUPS).next_power_of_two().trailing_zeros();
        let group = |part: u32| (part >> shift) as usize % GROUPS;
        let mut next = [0u32; GROUPS];
        for part in chunks.iter().filter_map(&part) {
            next[group(part)] += 1;
        }
        let mut sum = 0;
        for next in &mut next {
            (*next, sum) = (sum, sum + *next);
        }
        self.sorted.resize(chunks.len().max(self.sorted.len()), Hash::default());
        for chunk in chunks {
            let Some(part) = part(chunk) else { continue };
            let next = &mut next[group(part)];
            self.sorted[*next as usize] = (part, key(chunk));
            *next += 1;
        }
        &mut self.sorted[..sum as usize]
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        self.sorted.capacity() * size_of::<Hash>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Noise, fingerprint};

    #[test]
    fn all_hashes_come_in_the_order_of_their_groups() {
        let (mut order, mut noise) = (Order::default(), Noise(1));
        for parts in [1, 7, GROUPS, GROUPS + 1, 100 * GROUPS - 1] {
            let hashes: Vec<Hash> = (0..3000)
                .map(|at| (at * 7919 % parts as u32, Key::new(&fingerprint(&mut noise), 0)))
                .collect();
            let sorted = order.sort(&hashes, parts, |hash| Some(hash.0), |hash| hash.1).to_vec();
            let parts_a_group = parts.div_ceil(GROUPS).next_power_of_two() as u32;
            assert!(sorted.is_sorted_by_key(|(part, _)| part / parts_a_group), "{parts} parts");
            assert_eq!(sorted.len(), hashes.len());
            assert!(hashes.iter().all(|hash| sorted.contains(hash)), "{parts} parts");
        }
        let none: &[Hash] = &[];
        assert!(order.sort(none, 9, |hash| Some(hash.0), |hash| hash.1).is_empty());
        let odd = |hash: &Hash| (hash.0 % 2 == 1).then_some(hash.0);
        let hashes: Vec<Hash> = (0..99).map(|at| (at, Key::default())).collect();
        let sorted = order.sort(&hashes, 99, odd, |hash| hash.1);
        assert!(
            sorted.iter().map(|hash| hash.0).eq((1..99).step_by(2)),
            "chunks without a part are left out"
        );
    }
}
