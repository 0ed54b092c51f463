use super::*;
use crate::machine::medium::Power;
use quietus_core::base::cell::Cells;
use quietus_core::media::medium::Medium;
use quietus_core::store::sealed;

const PASSES: usize = 2;

/// The media of a new disk of some blocks.
fn disk(blocks: u64) -> (SimMedium, SimMedium) {
    let size = blocks * BLOCK_BYTES;
    let medium = |bytes| SimMedium::new(bytes, PASSES, false, Power::default());
    let (map, root) =
        (medium(sealed::map_bytes(size)).recorded(), medium(sealed::ROOT_BYTES).with_layers(PASSES));
    sealed::format(&map, &root, DISK, size, Cells::new([1; 32])).expect("a new disk");
    (map, root)
}

fn cells(attacker: &mut Attacker, (map, root): &(SimMedium, SimMedium), blocks: u64) -> BTreeSet<CellBytes> {
    attacker.cells((map, root), PASSES, &(0..blocks).collect())
}

#[test]
fn an_attacker_has_a_cell_for_each_block_until_the_top_cell_has_its_passes() {
    for blocks in [1, 112, 113, 12_545] {
        let media = disk(blocks);
        let mut attacker = Attacker::new(blocks * BLOCK_BYTES);
        assert_eq!(cells(&mut attacker, &media, blocks).len() as u64, blocks);
        for pass in 1..=PASSES {
            media.1.overwrite(Pos(8192), &[pass as u8; 4096]).expect("a pass");
            media.1.sync().expect("a sync");
            let left = cells(&mut attacker, &media, blocks).len() as u64;
            assert_eq!(left, if pass < PASSES { blocks } else { 0 }, "after {pass} passes");
        }
    }
}

#[test]
fn the_cells_of_some_blocks_are_those_that_they_have_among_all() {
    let (media, mut attacker) = (disk(300), Attacker::new(300 * BLOCK_BYTES));
    let all = cells(&mut attacker, &media, 300);
    let some = attacker.cells((&media.0, &media.1), PASSES, &BTreeSet::from([7, 299]));
    assert_eq!(some.len(), 2);
    assert!(some.is_subset(&all));
}

#[test]
fn a_page_that_two_versions_lie_under_one_cell_of_is_found() {
    let (media, mut attacker) = (disk(1), Attacker::new(BLOCK_BYTES));
    let top = tops(&media.1, Pos(8192), PASSES).pop_first().expect("a top cell");
    let aead = ChaCha20Poly1305::new((&top).into());
    for n in 0..2 {
        let mut secret = vec![n; PAGE_BYTES as usize - PAGE_SECRET];
        let associated = [&b"QKEYPAGE"[..], &DISK, &[0], &[0; 8]].concat();
        let tag = aead.encrypt_in_place_detached(&[0; 12].into(), &associated, &mut secret).expect("a tag");
        let page = [&b"QKEYPAGE"[..], &tag, &[0; 8], &secret].concat();
        media.0.write(Pos(PAGES_AT + PAGE_BYTES), &page, false).expect("a write");
    }
    cells(&mut attacker, &media, 1);
    assert!(attacker.fault().expect("a fault").contains("versions"));
}

#[test]
fn a_nonce_that_serves_twice_is_found() {
    let (media, mut attacker) = (disk(1), Attacker::new(BLOCK_BYTES));
    let sector = |n| [vec![9; 12], vec![n; 500]].concat();
    media.0.write(Pos(HALVES_AT), &sector(1), false).expect("a write");
    media.0.write(Pos(HALVES_AT), &sector(1), false).expect("a write");
    cells(&mut attacker, &media, 1);
    assert!(attacker.fault().is_none(), "the same sector may be written again");
    media.0.write(Pos(HALVES_AT + LOG_BYTES), &sector(2), false).expect("a write");
    cells(&mut attacker, &media, 1);
    assert!(attacker.fault().expect("a fault").contains("nonce"));
}
