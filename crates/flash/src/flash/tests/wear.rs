//! How often blocks are erased, and how much is copied.

use super::*;
use crate::chip::rng::Rng;

/// Writes `count` random units below `units`, a sync after every `sync` of them.
fn write(flash: &mut Flash<MemoryChip>, rng: &mut Rng, units: u64, count: u64, sync: u64) {
    for n in 1..=count {
        flash.write(Pos(rng.below(units) * UNIT), &[n as u8; UNIT_BYTES]).unwrap();
        if n.is_multiple_of(sync) {
            flash.sync().unwrap();
        }
    }
    flash.sync().unwrap();
}

#[test]
fn content_that_stays_takes_its_share_of_the_wear() {
    let geometry = geometry(4096, 8);
    let size = Flash::<MemoryChip>::size_max(geometry, 40);
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let mut flash = Flash::format(chip, DISK, size).unwrap();
    flash.write(Pos(0), &vec![1; size as usize]).unwrap();
    // One unit of eight changes.
    write(&mut flash, &mut Rng::new(1), size / UNIT / 8, 120_000, 64);
    let wear = flash.wear();
    assert!(wear.erases_mean >= 400, "{wear:?}");
    let tenth = wear.erases_mean / 10;
    assert!(wear.erases_min + tenth >= wear.erases_mean, "{wear:?}");
    assert!(wear.erases_max <= wear.erases_mean + tenth, "{wear:?}");
}

#[test]
fn random_writes_copy_little_where_the_chip_has_a_third_more_than_the_disk() {
    let geometry = Geometry { blocks: 768, ..geometry(2048, 64) };
    let units = 768 * 32 * 10 / 13;
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let mut flash = Flash::format(chip, DISK, units * UNIT).unwrap();
    for unit in 0..units {
        flash.write(Pos(unit * UNIT), &[1; UNIT_BYTES]).unwrap();
    }
    let mut rng = Rng::new(2);
    write(&mut flash, &mut rng, units, 2 * units, u64::MAX);
    let before = flash.chip.nand.counts().programs;
    write(&mut flash, &mut rng, units, 2 * units, u64::MAX);
    let programs = flash.chip.nand.counts().programs - before;
    // Two pages hold a unit.
    let hundredths = programs * 100 / (2 * units * 2);
    println!("write amplification: {hundredths} hundredths");
    assert!(hundredths <= 265, "{hundredths} hundredths");
}

#[test]
fn a_block_that_loses_bits_is_moved_before_it_loses_content() {
    let nature = Nature { weak_blocks: 1, ..Nature::default() };
    let chip = MemoryChip::new(geometry(2048, 16), SLC, nature, 1);
    let mut flash = Flash::format(chip, DISK, 40 * UNIT).unwrap();
    flash.write(Pos(0), &[1; 40 * UNIT_BYTES]).unwrap();
    flash.sync().unwrap();
    for _ in 0..2_000 {
        flash.scrub(100).unwrap();
    }
    assert!(flash.wear().erases_max > 1, "blocks were moved");
    for unit in 0..40 {
        assert_eq!(read(&mut flash, unit), Ok(vec![1; UNIT_BYTES]), "unit {unit}");
    }
}

#[test]
fn a_full_disk_has_room_for_deletions() {
    let geometry = geometry(2048, 16);
    let size = Flash::<MemoryChip>::size_max(geometry, 40);
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let mut flash = Flash::format(chip, DISK, size).unwrap();
    let (units, mut rng) = (size / UNIT, Rng::new(3));
    flash.write(Pos(0), &vec![1; size as usize]).unwrap();
    // Each sync ends a run, which wastes room.
    write(&mut flash, &mut rng, units, 4 * units, 1);
    for _ in 0..200 {
        flash.erase(&[Extent::new(rng.below(units) * UNIT, UNIT)], Keep::Present).unwrap();
    }
    flash.erase(&[Extent::new(0, size)], Keep::Nothing).unwrap();
    assert!((0..units).all(|unit| read(&mut flash, unit) == Ok(vec![0; UNIT_BYTES])));
}

#[test]
fn both_maps_take_at_most_ten_bytes_a_unit() {
    for (page_bytes, block_pages) in [(2048, 64), (4096, 64), (16_384, 512)] {
        let geometry = Geometry { blocks: 1024, ..geometry(page_bytes, block_pages) };
        let layout = Layout::new(geometry).unwrap();
        // With 28 % more on the chip than on the disk.
        let units = layout.indices() as u64 * 100 / 128;
        assert!(4 * units + 4 * layout.indices() as u64 <= 10 * units);
    }
}
