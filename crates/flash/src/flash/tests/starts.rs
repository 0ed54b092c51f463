//! Starts that are cut short again and again, while pages that a cut left weak read well at one start and badly at the next.

use super::world::World;
use super::*;
use crate::nand::Page;

#[test]
fn a_start_takes_no_block_that_was_marked_bad_after_it_was_listed() {
    let geometry = geometry(2048, 16);
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let size = Flash::<MemoryChip>::size_max(geometry, 40);
    let mut flash = Flash::format(chip, DISK, size).unwrap();
    for round in 1..4 {
        flash.write(Pos(0), &vec![round; size as usize]).unwrap();
        flash.sync().unwrap();
    }
    flash.write(Pos(0), &[3; UNIT_BYTES]).unwrap();
    flash.sync().unwrap();
    assert_eq!(flash.space.blocks.filter(|info| info.state == State::Blank), []);
    let mut listed: Vec<_> = flash.space.listed.iter().copied().collect();
    listed.sort_by_key(|block| flash.space.blocks[*block].erases);
    let mut chip = flash.into_nand();
    // A start has one block that it may take, and needs another.
    listed[1..].iter().for_each(|block| chip.mark_bad(*block).unwrap());
    let mut flash = Flash::open(chip).unwrap();
    for unit in 0..size / UNIT {
        assert_eq!(read(&mut flash, unit), Ok(vec![3; UNIT_BYTES]), "unit {unit}");
    }
    assert_eq!(flash.wear().bad_blocks as usize, listed.len() - 1);
}

/// A disk of which a full block has units 0 to 5 and stale versions, and that block.
fn with_stale(seed: u64) -> (Flash<MemoryChip>, EraseBlock) {
    let chip = MemoryChip::new(geometry(4096, 16), SLC, Nature::default(), seed);
    let mut flash = Flash::format(chip, DISK, 40 * UNIT).unwrap();
    // All blocks were used before, and the full one more often than those that look blank at a start.
    (0..40).for_each(|block| flash.space.blocks[EraseBlock(block)].erases = 9);
    let units = u64::from(flash.layout.block_units());
    for first in [0, 6] {
        (first..units).for_each(|unit| flash.write(Pos(unit * UNIT), &[1; UNIT_BYTES]).unwrap());
        flash.sync().unwrap();
    }
    let Where::At(slot) = flash.map.find(Unit(0)) else { panic!("unit 0 has a slot") };
    let block = flash.layout.block(slot);
    assert_eq!(flash.space.blocks[block].live, 6);
    (flash, block)
}

/// The pages that read well in `chip`, and hold a record with a sequence above `sequence`.
fn records_above(chip: &MemoryChip, sequence: u64) -> Vec<Page> {
    let (mut chip, geometry) = (chip.clone(), chip.geometry());
    let mut bytes = vec![0; geometry.page_bytes as usize];
    let mut is_newer = |page: &Page| {
        let is_read = matches!(chip.read(*page, &mut bytes), Ok(Reading::Good));
        let record = crate::record::Record::from_bytes(&bytes, DISK, *page).filter(|_| is_read);
        record.is_some_and(|record| record.runs[0].sequence > sequence)
    };
    (0..geometry.blocks * geometry.block_pages).map(Page).filter(|page| is_newer(page)).collect()
}

/// Clears a block. The record of the first run of copies fails, and the power is cut within that of the second try. Both records read well at
/// a start that is cut short after so many changes, and not at the next one. Whether the first start ended.
fn fail_then_cut(seed: u64, changes: u64) -> Option<bool> {
    let (mut flash, block) = with_stale(seed);
    let sequence = flash.sequence;
    // Six copies and a record, and the same in a block that is blank.
    flash.chip.nand.kill_after(6);
    flash.chip.nand.cut_after(13);
    assert!(flash.clear(&[block]).is_err());
    let mut chip = flash.into_nand();
    assert!(chip.is_off());
    chip.restore();
    let weak = records_above(&chip, sequence);
    if weak.len() != 2 {
        return None;
    }
    chip.cut_after(changes);
    let is_whole = Flash::open(&mut chip).is_ok();
    chip.restore();
    if !is_whole {
        weak.iter().for_each(|page| chip.spoil(*page));
    }
    let mut flash = Flash::open(chip).unwrap();
    for unit in 0..14 {
        assert_eq!(
            read(&mut flash, unit),
            Ok(vec![1; UNIT_BYTES]),
            "unit {unit}, seed {seed}, cut after {changes}"
        );
    }
    Some(is_whole)
}

#[test]
fn a_failed_run_and_its_second_try_do_not_free_a_block_together() {
    let is_tried = |seed: &u64| {
        for changes in 0.. {
            match fail_then_cut(*seed, changes) {
                None => return false,
                Some(true) => return true,
                Some(false) => {}
            }
        }
        false
    };
    assert!((0..400).filter(is_tried).count() >= 20);
}

#[test]
fn a_block_that_failed_in_its_first_page_and_looks_blank_is_known_to_the_next_start() {
    for seed in 0..60 {
        let (mut flash, _) = with_stale(seed);
        flash.space.close(Stream::Guest);
        flash.chip.nand.kill_after(0);
        flash.write(Pos(0), &[2; 14 * UNIT_BYTES]).unwrap();
        let failing = flash.space.blocks.filter(|info| info.is_failing);
        let [block] = failing[..] else { panic!("one block failed") };
        let flash = Flash::open(flash.into_nand()).unwrap();
        let page = flash.layout.geometry.page(block, 1);
        let is_empty = flash.chip.nand.cells(page).iter().all(|byte| [0, 0xff].contains(byte));
        assert!(is_empty, "seed {seed}: page 1 of block {} holds what was written", block.0);
    }
}

/// The sequences of runs in the cells of the chip that lie in two blocks.
fn shared_sequences(chip: &MemoryChip) -> Vec<u64> {
    let geometry = chip.geometry();
    let mut found = std::collections::BTreeMap::new();
    let mut shared = Vec::new();
    for page in (0..geometry.blocks * geometry.block_pages).map(Page) {
        let record = crate::record::Record::from_bytes(&chip.cells(page), DISK, page);
        let block = geometry.place(page).0;
        for run in record.into_iter().flat_map(|record| record.runs) {
            if *found.entry(run.sequence).or_insert(block) != block {
                shared.push(run.sequence);
            }
        }
    }
    shared
}

/// The power is cut within the record of a write, then within that of the trial of the first start, then in the second start. The first start
/// reads the write, the second one neither this nor the trial, and the third one the trial. Whether it came to that.
fn hide_trial(seed: u64, changes: u64) -> bool {
    let (mut flash, _) = with_stale(seed);
    for round in 0..6 {
        flash.write(Pos(0), &[1; 14 * UNIT_BYTES]).unwrap();
        flash.erase(&[Extent::new(round * UNIT, UNIT)], Keep::Present).unwrap();
    }
    let before = flash.sequence;
    flash.write(Pos(0), &[2; UNIT_BYTES]).unwrap();
    flash.chip.nand.cut_after(1);
    assert!(flash.sync().is_err());
    let mut chip = flash.into_nand();
    chip.restore();
    let [last] = records_above(&chip, before)[..] else { return false };
    // An erase of the most worn block, its header, a unit and the record.
    chip.cut_after(3);
    assert!(Flash::open(&mut chip).is_err());
    chip.restore();
    let mut weak = records_above(&chip, before);
    weak.retain(|page| *page != last);
    let [trial] = weak[..] else { return false };
    chip.spoil(last);
    chip.spoil(trial);
    chip.cut_after(changes);
    let is_cut = Flash::open(&mut chip).is_err();
    chip.restore();
    assert_eq!(shared_sequences(&chip), Vec::<u64>::new(), "seed {seed}, cut after {changes}");
    chip.heal(trial);
    let mut flash = Flash::open(chip).unwrap();
    for byte in 1..6 {
        for unit in 0..14 {
            let bytes = read(&mut flash, unit).map(|bytes| bytes[0]);
            assert_eq!(bytes, Ok(byte), "unit {unit}, seed {seed}, cut after {changes}");
        }
        flash.write(Pos(0), &[byte + 1; 14 * UNIT_BYTES]).unwrap();
        flash.sync().unwrap();
    }
    is_cut
}

#[test]
fn a_trial_that_reads_well_only_at_a_later_start_does_not_count() {
    let count: usize = (0..150).map(|seed| (0..24).filter(|cut| hide_trial(seed, *cut)).count()).sum();
    assert!(count >= 100, "{count} of them");
}

/// Plays a script, in which the power is cut once, and starts that are cut short one after the other, with pages that read well or badly.
pub(super) fn play(seed: u64) {
    let mut rng = crate::chip::rng::Rng::new(seed);
    let (page_bytes, block_pages) = GEOMETRIES[(seed / 2 % 3) as usize];
    // In one history of four, blocks die in programs.
    let nature = Nature { deaths_in_program: [0, 0, 0, 200][(seed / 6 % 4) as usize], ..Nature::default() };
    let mut world = World::new(geometry(page_bytes, block_pages), nature, 24, seed);
    world.flash().chip.nand.leave_weak(1 + seed % 2);
    for _ in 0..12 {
        world.flash().chip.nand.cut_after(rng.below(30));
        let (first, count) = (rng.below(18), 1 + rng.below(6));
        let mut script = || {
            for round in 0.. {
                (first..first + count).try_for_each(|unit| world.write(unit))?;
                world.sync()?;
                world.trim(rng.below(20), 2)?;
                world.sync()?;
                world.erase(rng.below(20), 3, if round % 2 == 0 { Keep::Nothing } else { Keep::Present })?;
            }
            Ok::<_, FlashError>(())
        };
        script().unwrap_err();
        let cuts: Vec<u64> = (0..rng.below(4)).map(|_| rng.below(14)).collect();
        if let Err(error) = world.restart(&cuts) {
            assert!(world.may_wear_out, "{error}");
            return;
        }
    }
    world.flash().chip.nand.restore();
    world.check_content().unwrap();
}

#[test]
fn starts_that_are_cut_short_lose_nothing_whatever_weak_pages_read() {
    let first = super::history::first_seed();
    for seed in first..first + super::history::histories(200) {
        super::history::seeded(seed, || play(seed));
    }
}
