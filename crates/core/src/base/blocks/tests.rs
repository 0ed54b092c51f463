use crate::base::blocks::*;

const TIB: u64 = 1 << 40;

#[test]
fn touched_blocks_are_in_and_only_whole_ones_go_out() {
    let mut set = BlockSet::<Addr>::default();
    set.insert(Extent::new(100, 9000));
    assert_eq!(set.len(), 3);
    set.remove(Extent::new(1, 8191));
    assert_eq!(set.len(), 2, "the first block was not wholly removed");
    assert_eq!(
        set.runs_within(Extent::new(50, 20_000)).collect::<Vec<_>>(),
        [Extent::new(50, 4046), Extent::new(8192, 4096)]
    );
}

#[test]
fn a_run_across_the_sixteen_tebibyte_seam_is_found_on_both_sides() {
    let mut set = BlockSet::<Addr>::default();
    set.insert(Extent::between(16 * TIB - 8192, 16 * TIB + 4096));
    assert_eq!(set.len(), 3);
    assert_eq!(set.runs_within(Extent::new(0, 40 * TIB)).map(|run| run.len).sum::<u64>(), 12288);
    set.remove(Extent::new(0, 40 * TIB));
    assert!(set.is_empty());
}

#[test]
fn sixteen_full_tebibytes_stay_small() {
    let mut set = BlockSet::<Addr>::default();
    set.insert(Extent::new(0, 16 * TIB));
    assert_eq!(set.len(), 1 << 32);
    assert!(set.to_bytes().len() < 1 << 20);
}

#[test]
fn survives_its_checkpoint_and_refuses_half_of_it() {
    let mut set = BlockSet::<Addr>::default();
    set.insert(Extent::new(0, 70_000));
    set.insert(Extent::new(17 * TIB, 1));
    let bytes = set.to_bytes();
    assert_eq!(BlockSet::from_bytes(&bytes).expect("a whole checkpoint"), set);
    for len in 1..bytes.len() {
        if let Ok(part) = BlockSet::<Addr>::from_bytes(&bytes[..len]) {
            assert!(part.len() < set.len(), "half a checkpoint passed for the whole");
        }
    }
}

#[test]
fn ascending_blocks_are_the_set_that_they_are_one_by_one() {
    for blocks in
        [&[][..], &[0], &[7], &[0, 1, 2, 5, 6, 9], &[3, SHARD_BLOCKS - 1, SHARD_BLOCKS, SHARD_BLOCKS + 1]]
    {
        let mut expected = BlockSet::<Addr>::default();
        blocks.iter().for_each(|block| expected.insert(Extent::new(block * BLOCK_BYTES, BLOCK_BYTES)));
        let set = BlockSet::of_ascending(blocks.iter().copied());
        assert_eq!((&set, set.len()), (&expected, blocks.len() as u64));
    }
}
