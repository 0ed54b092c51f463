//! Against the dullest model: a bit for each sector.

use super::*;

const BLOCKS: u64 = 6;
const SECTORS: u64 = BLOCKS * BLOCK_BYTES / SECTOR_BYTES;

fn bytes(first: u64, end: u64) -> Extent<Addr> {
    Extent::between(first * SECTOR_BYTES, end * SECTOR_BYTES)
}

fn empty() -> Allocated {
    Allocated::new(SECTORS * SECTOR_BYTES, BlockSet::default())
}

/// The sectors that hold data, as `first` tells them run by run.
fn told(allocated: &Allocated, extent: Extent<Addr>) -> Vec<bool> {
    let mut sectors = vec![false; SECTORS as usize];
    let mut rest = extent;
    while let Some(run) = allocated.first(rest) {
        assert!(!run.is_empty() && run.start >= rest.start && run.end() <= rest.end(), "{run:?} in {rest:?}");
        sectors[(run.start.0 / SECTOR_BYTES) as usize..(run.end() / SECTOR_BYTES) as usize].fill(true);
        rest = Extent::between(run.end(), rest.end());
    }
    sectors
}

#[test]
fn what_holds_data_is_known_to_the_sector() {
    let mut dice = 1u64;
    let mut roll = |below: u64| {
        dice = dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (dice >> 33) % below
    };
    let (mut allocated, mut model) = (empty(), vec![false; SECTORS as usize]);
    for _ in 0..20_000 {
        let first = roll(SECTORS);
        let end = first + 1 + roll((SECTORS - first).min(20));
        let holds = roll(2) == 0;
        model[first as usize..end as usize].fill(holds);
        if holds {
            allocated.allocate(bytes(first, end))
        } else {
            allocated.unmap(bytes(first, end))
        }
        assert_eq!(told(&allocated, bytes(0, SECTORS)), model);
        let blocks = model.chunks((BLOCK_BYTES / SECTOR_BYTES) as usize).filter(|it| it.contains(&true));
        assert_eq!(
            allocated.bytes(),
            blocks.count() as u64 * BLOCK_BYTES,
            "a block of gaps is not allocated"
        );
    }
}

#[test]
fn a_part_of_a_sector_counts_as_all_of_it() {
    let mut allocated = empty();
    allocated.allocate(Extent::new(700, 10));
    assert_eq!(allocated.first(bytes(0, SECTORS)), Some(bytes(1, 2)));
    allocated.unmap(Extent::new(600, 300));
    assert_eq!(allocated.first(bytes(0, SECTORS)), Some(bytes(1, 2)), "the rest of it may hold data");
}

#[test]
fn what_may_hold_data_from_the_start_has_no_gaps() {
    let mut blocks = BlockSet::default();
    blocks.insert(bytes(0, 8));
    let mut allocated = Allocated::new(SECTORS * SECTOR_BYTES, blocks);
    allocated.allocate(bytes(2, 4));
    assert_eq!(allocated.first(bytes(0, SECTORS)), Some(bytes(0, 8)));
}

#[test]
fn gaps_that_are_too_many_are_taken_for_data() {
    let blocks = GAPS_MAX as u64 + 2;
    let mut allocated = Allocated::new(blocks * BLOCK_BYTES, BlockSet::default());
    for block in 0..blocks {
        allocated.allocate(Extent::new(block * BLOCK_BYTES + SECTOR_BYTES, SECTOR_BYTES));
    }
    assert!(allocated.gaps.len() <= GAPS_MAX + 1);
    let last = Extent::<Addr>::new((blocks - 1) * BLOCK_BYTES, BLOCK_BYTES);
    assert_eq!(allocated.first(last), Some(last));
}

#[test]
fn the_last_block_may_be_cut_off() {
    let mut allocated = Allocated::new(BLOCK_BYTES + 1024, BlockSet::default());
    allocated.allocate(Extent::new(BLOCK_BYTES, 512));
    assert_eq!(allocated.first(Extent::new(0, BLOCK_BYTES + 1024)), Some(Extent::new(BLOCK_BYTES, 512)));
    allocated.unmap(Extent::new(BLOCK_BYTES, 1024));
    assert!(allocated.first(Extent::new(0, BLOCK_BYTES + 1024)).is_none() && allocated.blocks().is_empty());
}

#[test]
fn nothing_is_void_in_an_empty_extent() {
    let mut allocated = empty();
    allocated.allocate(bytes(0, 8));
    allocated.unmap(Extent::new(700, 0));
    allocated.allocate(Extent::new(700, 0));
    assert_eq!(allocated.first(bytes(0, SECTORS)), Some(bytes(0, 8)));
}
