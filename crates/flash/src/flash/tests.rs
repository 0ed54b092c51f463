mod apart;
mod audit;
mod cost;
mod history;
mod present;
mod starts;
mod wear;
mod world;

use super::*;
use crate::chip::timing::SLC;
use crate::chip::{MemoryChip, Nature};
use crate::nand::Geometry;
use quietus_core::media::medium::Keep;

/// A chip of pages of this size, in blocks of this many.
fn geometry(page_bytes: u32, block_pages: u32) -> Geometry {
    Geometry { page_bytes, spare_bytes: 64, block_pages, blocks: 40, correctable_bits: 8 }
}

const GEOMETRIES: [(u32, u32); 4] = [(2048, 16), (4096, 8), (16_384, 5), (2048, 64)];
const DISK: DiskId = DiskId([7; 16]);
const UNIT: u64 = UNIT_BYTES as u64;

fn new(geometry: Geometry) -> Flash<MemoryChip> {
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    Flash::format(chip, DISK, 40 * UNIT).unwrap()
}

fn read(flash: &mut Flash<MemoryChip>, unit: u64) -> Result<Vec<u8>, FlashErrorKind> {
    let mut bytes = vec![0; UNIT_BYTES];
    flash.read(Pos(unit * UNIT), &mut bytes).map(|()| bytes).map_err(|error| error.kind)
}

#[test]
fn the_disk_on_a_chip_is_known_before_it_is_opened() {
    let geometry = geometry(2048, 16);
    let mut blank = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    assert_eq!(Flash::peek(&mut blank), Ok(None));
    let flash = new(geometry);
    assert_eq!(flash.disk(), DISK);
    let mut chip = flash.into_nand();
    let before = chip.counts();
    assert_eq!(Flash::peek(&mut chip), Ok(Some(DISK)));
    assert_eq!((chip.counts().programs, chip.counts().erases), (before.programs, before.erases));
}

#[test]
fn content_survives_a_start_if_it_was_synced() {
    for (page_bytes, block_pages) in GEOMETRIES {
        let mut flash = new(geometry(page_bytes, block_pages));
        for unit in 0..40 {
            flash.write(Pos(unit * UNIT), &[unit as u8 + 1; UNIT_BYTES]).unwrap();
        }
        flash.trim(Extent::new(3 * UNIT, 2 * UNIT)).unwrap();
        flash.sync().unwrap();
        let mut flash = Flash::open(flash.into_nand()).unwrap();
        for unit in 0..40 {
            let byte = if (3..5).contains(&unit) { 0 } else { unit as u8 + 1 };
            assert_eq!(read(&mut flash, unit), Ok(vec![byte; UNIT_BYTES]), "unit {unit}");
        }
    }
}

#[test]
fn parts_of_units_are_written_trimmed_and_read() {
    let mut flash = new(geometry(2048, 16));
    flash.write(Pos(0), &[1; 3 * UNIT_BYTES]).unwrap();
    flash.write(Pos(100), &[2; UNIT_BYTES]).unwrap();
    flash.trim(Extent::new(UNIT - 50, UNIT + 100)).unwrap();
    let mut bytes = vec![0; 3 * UNIT_BYTES];
    flash.read(Pos(0), &mut bytes).unwrap();
    let expected = [vec![1; 100], vec![2; 3946], vec![0; 4196], vec![1; 4046]].concat();
    assert_eq!(bytes, expected);
}

#[test]
fn a_size_that_does_not_suit_is_refused() {
    let chip = || MemoryChip::new(geometry(2048, 16), SLC, Nature::default(), 1);
    let size_max = Flash::<MemoryChip>::size_max(geometry(2048, 16), 40);
    for size in [0, 100, size_max + UNIT] {
        assert_eq!(Flash::format(chip(), DISK, size).unwrap_err().kind, FlashErrorKind::Format);
    }
    let odd = MemoryChip::new(geometry(512, 16), SLC, Nature::default(), 1);
    assert_eq!(Flash::format(odd, DISK, UNIT).unwrap_err().kind, FlashErrorKind::Format);
    assert_eq!(Flash::open(chip()).unwrap_err().kind, FlashErrorKind::Format);
}

#[test]
fn a_unit_that_the_chip_loses_is_an_error_until_it_is_written_anew() {
    let mut flash = new(geometry(4096, 8));
    flash.write(Pos(0), &[1; 2 * UNIT_BYTES]).unwrap();
    flash.sync().unwrap();
    let Where::At(slot) = flash.map.find(Unit(0)) else { panic!("unit 0 has a slot") };
    let (page, _) = flash.layout.page(slot);
    let mut chip = flash.into_nand();
    chip.spoil(page);
    let mut flash = Flash::open(chip).unwrap();
    assert_eq!(read(&mut flash, 0), Err(FlashErrorKind::Unreadable));
    // The block goes, and the loss is known nevertheless.
    flash.erase(&[Extent::new(5 * UNIT, UNIT)], Keep::Nothing).unwrap();
    flash.clear(&[flash.layout.block(slot)]).unwrap();
    let mut flash = Flash::open(flash.into_nand()).unwrap();
    assert_eq!(read(&mut flash, 0), Err(FlashErrorKind::Unreadable));
    assert_eq!(read(&mut flash, 1), Ok(vec![1; UNIT_BYTES]));
    flash.write(Pos(0), &[2; UNIT_BYTES]).unwrap();
    flash.sync().unwrap();
    assert_eq!(read(&mut Flash::open(flash.into_nand()).unwrap(), 0), Ok(vec![2; UNIT_BYTES]));
}

#[test]
fn a_block_that_keeps_its_content_is_an_error_of_deletion_and_one_that_blackens_is_not() {
    for is_stubborn in [false, true] {
        let mut flash = new(geometry(2048, 16));
        flash.write(Pos(0), &[1; 2 * UNIT_BYTES]).unwrap();
        flash.sync().unwrap();
        let Where::At(slot) = flash.map.find(Unit(0)) else { panic!("unit 0 has a slot") };
        let block = flash.layout.block(slot);
        flash.chip.nand.kill(block, is_stubborn);
        let result = flash.erase(&[Extent::new(0, UNIT)], Keep::Nothing).map_err(|error| error.kind);
        assert_eq!(result, if is_stubborn { Err(FlashErrorKind::Remains) } else { Ok(()) });
        assert_eq!(read(&mut flash, 0), Ok(vec![0; UNIT_BYTES]));
        assert_eq!(read(&mut flash, 1), Ok(vec![1; UNIT_BYTES]));
        // A start tries again, and what it cannot destroy is still an error.
        let mut flash = Flash::open(flash.into_nand()).unwrap();
        let result = flash.erase(&[Extent::new(0, UNIT)], Keep::Nothing).map_err(|error| error.kind);
        assert_eq!(result, if is_stubborn { Err(FlashErrorKind::Remains) } else { Ok(()) });
        assert_eq!(read(&mut flash, 0), Ok(vec![0; UNIT_BYTES]));
        assert_eq!(flash.chip.nand.is_bad(block), Ok(!is_stubborn));
    }
}

#[test]
fn more_marks_than_a_run_can_have_last_over_a_start_and_a_collection() {
    let geometry = geometry(2048, 64);
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let mut flash = Flash::format(chip, DISK, 600 * UNIT).unwrap();
    flash.write(Pos(0), &vec![1; 600 * UNIT_BYTES]).unwrap();
    for unit in (0..600).step_by(2) {
        flash.trim(Extent::new(unit * UNIT, UNIT)).unwrap();
    }
    flash.sync().unwrap();
    for round in 0..100 {
        flash.write(Pos((1 + round % 3 * 2) * UNIT), &[1; UNIT_BYTES]).unwrap();
        flash.sync().unwrap();
    }
    let mut flash = Flash::open(flash.into_nand()).unwrap();
    for unit in 0..600 {
        assert_eq!(read(&mut flash, unit), Ok(vec![(unit % 2) as u8; UNIT_BYTES]), "unit {unit}");
    }
}
