//! Against the dullest possible model: one value a byte.

use crate::base::extents::*;
use crate::base::units::Addr;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};

impl Value for u8 {
    fn merged(&self, next: &Self) -> Option<Self> {
        (self == next).then_some(*self)
    }
}

const SPACE: u64 = 64;

fn assert_same(map: &ExtentMap<Addr, u8>, model: &[Option<u8>], seed: u64) {
    let mut seen = vec![None; model.len()];
    let mut last: Option<(u64, u8)> = None;
    for (extent, value) in map.iter() {
        assert!(!extent.is_empty(), "seed {seed}: empty extent");
        assert_ne!(last, Some((extent.start.0, *value)), "seed {seed}: neighbours not merged");
        for at in extent.start.0..extent.end() {
            assert_eq!(seen[at as usize].replace(*value), None, "seed {seed}: overlap");
        }
        last = Some((extent.end(), *value));
    }
    assert_eq!(seen, model, "seed {seed}");
    assert_eq!(map.bytes(), model.iter().flatten().count() as u64, "seed {seed}");
}

#[test]
fn behaves_like_an_array_of_values() {
    for seed in 0..300 {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let mut map = ExtentMap::<Addr, u8>::default();
        let mut model = vec![None; SPACE as usize];
        for _ in 0..60 {
            let start = u64::from(random.next_u32()) % SPACE;
            let extent =
                Extent::<Addr>::between(start, start + u64::from(random.next_u32()) % (SPACE - start + 1));
            let value = (random.next_u32() % 4) as u8;
            let slots = &mut model[extent.start.0 as usize..extent.end() as usize];
            if value == 3 {
                map.remove(extent);
                slots.fill(None);
            } else {
                map.insert(extent, value);
                slots.fill(Some(value));
            }
            assert_same(&map, &model, seed);
            let gaps: u64 = map.gaps(Extent::new(0, SPACE)).iter().map(|gap| gap.len).sum();
            assert_eq!(gaps + map.bytes(), SPACE, "seed {seed}");
        }
    }
}

#[test]
fn within_cuts_to_what_was_asked() {
    let mut map = ExtentMap::<Addr, u8>::default();
    map.insert(Extent::new(10, 10), 1);
    map.insert(Extent::new(30, 10), 2);
    let found: Vec<_> = map.within(Extent::new(15, 20)).map(|(e, v)| (e, *v)).collect();
    assert_eq!(found, [(Extent::new(15, 5), 1), (Extent::new(30, 5), 2)]);
    assert_eq!(map.gaps(Extent::new(0, 35)), [Extent::new(0, 10), Extent::new(20, 10)]);
}
