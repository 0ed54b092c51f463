//! Chunks in the order of their parts: places that lie near each other are then needed one after the other, so that
//! a set of many megabytes does not cost a miss of the processor's table of pages for each of them.

use super::part::Key;

/// Groups of neighbouring parts that chunks are sorted into.
const GROUPS: usize = 1 << 9;

/// The number of a chunk's part, and what the part needs of it.
pub(super) type Hash = (u32, Key);

/// The memory to sort in; kept from batch to batch.
#[derive(Default, Debug)]
pub(super) struct Order {
    hashes: Vec<Hash>,
    sorted: Vec<Hash>,
}

impl Order {
    /// The hashes, group by group; each is of one of `parts` parts.
    pub(super) fn sort(&mut self, hashes: impl Iterator<Item = Hash>, parts: usize) -> &[Hash] {
        self.hashes.clear();
        self.hashes.extend(hashes);
        let Some(first) = self.hashes.first() else { return &[] };
        self.sorted.resize(self.hashes.len(), *first);
        let shift = parts.div_ceil(GROUPS).next_power_of_two().trailing_zeros();
        let group = |part: u32| (part >> shift) as usize % GROUPS;
        let mut next = [0; GROUPS];
        for (part, _) in &self.hashes {
            next[group(*part)] += 1;
        }
        let mut sum = 0;
        for next in &mut next {
            (*next, sum) = (sum, sum + *next);
        }
        for hash in &self.hashes {
            let next: &mut usize = &mut next[group(hash.0)];
            self.sorted[*next] = *hash;
            *next += 1;
        }
        &self.sorted
    }

    /// Bytes of memory.
    pub(super) fn bytes(&self) -> usize {
        (self.hashes.capacity() + self.sorted.capacity()) * size_of::<Hash>()
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
            let sorted = order.sort(hashes.iter().copied(), parts).to_vec();
            let parts_a_group = parts.div_ceil(GROUPS).next_power_of_two() as u32;
            assert!(sorted.is_sorted_by_key(|(part, _)| part / parts_a_group), "{parts} parts");
            assert_eq!(sorted.len(), hashes.len());
            assert!(hashes.iter().all(|hash| sorted.contains(hash)), "{parts} parts");
        }
        assert!(order.sort(std::iter::empty(), 9).is_empty());
    }
}
