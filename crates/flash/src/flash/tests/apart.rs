//! Units apart: what their deletion costs, and what it wears.

use super::*;
use crate::chip::rng::Rng;
use crate::chip::timing::Counts;

/// Units 0 to 2 are apart, and as many others have content.
fn with_apart(geometry: Geometry, others: u64) -> Flash<MemoryChip> {
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let mut flash = Flash::format(chip, DISK, (3 + others) * UNIT).unwrap();
    flash.set_apart(Extent::new(0, 3 * UNIT));
    flash.write(Pos(0), &vec![1; (3 + others) as usize * UNIT_BYTES]).unwrap();
    flash.sync().unwrap();
    flash
}

fn counted(flash: &mut Flash<MemoryChip>, act: impl FnOnce(&mut Flash<MemoryChip>)) -> (u64, u64) {
    let before = flash.chip.nand.counts();
    act(flash);
    let Counts { programs, erases, .. } = flash.chip.nand.counts();
    (programs - before.programs, erases - before.erases)
}

/// Writes one unit, and destroys what another held, or what the same one held before.
fn purge(flash: &mut Flash<MemoryChip>, written: u64, dead: u64) {
    flash.write(Pos(written * UNIT), &[2; UNIT_BYTES]).unwrap();
    flash.sync().unwrap();
    let keep = if written == dead { Keep::Present } else { Keep::Nothing };
    flash.erase(&[Extent::new(dead * UNIT, UNIT)], keep).unwrap();
}

/// The blocks with live units apart, and the number of others that live there.
fn blocks_apart(flash: &Flash<MemoryChip>) -> (usize, usize) {
    let holds = |block: &EraseBlock| flash.map.live(*block).any(|(unit, _)| unit.0 < 3);
    let blocks: Vec<_> = flash.space.blocks.filter(|info| info.live > 0).into_iter().filter(holds).collect();
    let others = blocks.iter().flat_map(|block| flash.map.live(*block)).filter(|(unit, _)| unit.0 >= 3);
    (blocks.len(), others.count())
}

#[test]
fn a_unit_apart_dies_by_one_erase_and_nothing_is_copied() {
    let mut flash = with_apart(geometry(2048, 64), 200);
    assert_eq!(blocks_apart(&flash), (1, 0));
    // Each of the three gets a block of its own.
    (0..3).for_each(|unit| purge(&mut flash, unit, unit));
    assert_eq!(blocks_apart(&flash), (3, 0));
    // As the root of a sealed disk: the new key goes to the other place.
    flash.erase(&[Extent::new(UNIT, UNIT)], Keep::Nothing).unwrap();
    for (written, dead) in [(0, 0), (1, 0), (0, 1), (1, 0), (2, 2), (0, 1)] {
        let (programs, erases) = counted(&mut flash, |flash| purge(flash, written, dead));
        assert!(programs <= 8 && erases <= 1, "{programs} programs, {erases} erases");
        let audit = flash.audit(&[], &[Extent::new(dead * UNIT, UNIT)]).unwrap();
        assert_eq!(audit.remains, []);
    }
}

#[test]
fn units_apart_stay_alone_while_others_are_collected() {
    for (page_bytes, block_pages) in GEOMETRIES {
        let geometry = geometry(page_bytes, block_pages);
        let others = Flash::<MemoryChip>::size_max(geometry, 40) / UNIT - 3;
        let mut flash = with_apart(geometry, others);
        (0..3).for_each(|unit| purge(&mut flash, unit, unit));
        let mut rng = Rng::new(4);
        for round in 0..300 {
            let unit = 3 + rng.below(others);
            flash.write(Pos(unit * UNIT), &[3; UNIT_BYTES]).unwrap();
            flash.sync().unwrap();
            purge(&mut flash, round % 3, (round + 1) % 3);
            let (blocks, beside) = blocks_apart(&flash);
            assert!(blocks <= 3 && beside == 0, "round {round}: {blocks} blocks, {beside} other units");
        }
        assert!(flash.wear().erases_mean > 0);
    }
}

#[test]
fn after_a_start_the_first_deletion_copies_and_the_second_does_not() {
    let mut flash = with_apart(geometry(2048, 64), 200);
    let mut flash = Flash::open(std::mem::replace(&mut flash, new(geometry(2048, 64))).into_nand()).unwrap();
    flash.set_apart(Extent::new(0, 3 * UNIT));
    purge(&mut flash, 0, 0);
    assert_eq!(blocks_apart(&flash).1, 0);
    let (programs, erases) = counted(&mut flash, |flash| purge(flash, 0, 0));
    assert!(programs <= 8 && erases <= 1, "{programs} programs, {erases} erases");
}

#[test]
fn deletions_of_units_apart_wear_all_blocks() {
    let mut flash = with_apart(geometry(2048, 16), 100);
    let (programs, erases) =
        counted(&mut flash, |flash| (0..20_000).for_each(|round| purge(flash, round % 2, 1 - round % 2)));
    // A block has 16 pages here, so that records alone fill one often.
    assert!(programs <= 20_000 * 8 && erases <= 20_000 * 3 / 2, "{programs} programs, {erases} erases");
    let wear = flash.wear();
    assert!(wear.erases_min + wear.erases_mean / 10 >= wear.erases_mean, "{wear:?}");
    assert!(wear.erases_max <= wear.erases_mean + wear.erases_mean / 5, "{wear:?}");
}

#[test]
#[should_panic(expected = "5 units are set apart; at most 4 can be")]
fn more_units_apart_than_the_reserve_has_blocks_for_are_refused() {
    new(geometry(2048, 16)).set_apart(Extent::new(UNIT - 1, 4 * UNIT));
}
