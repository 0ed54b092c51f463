//! What an audit finds on a chip.

use super::*;
use crate::flash::audit::{Audit, REMAINS_MAX, Remain};
use crate::record::{Entry, Record, Run, RunKind};

/// A disk with versions 1 and 2 of units 0 to 3, and nothing else.
fn with_two_versions(geometry: Geometry) -> Flash<MemoryChip> {
    let mut flash = new(geometry);
    for version in 1..=2 {
        flash.write(Pos(0), &[version; 4 * UNIT_BYTES]).unwrap();
        flash.sync().unwrap();
    }
    flash
}

fn units_of(audit: &Audit) -> Vec<Option<u64>> {
    audit.remains.iter().map(|remain| remain.unit.map(|pos| pos.0 / UNIT)).collect()
}

#[test]
fn an_audit_names_the_versions_that_must_not_be_there() {
    for (page_bytes, block_pages) in GEOMETRIES {
        let mut flash = with_two_versions(geometry(page_bytes, block_pages));
        let pages = u64::from(40 * block_pages);
        let expected = Audit { pages_read: pages, stale_units: 4, ..Audit::default() };
        assert_eq!(flash.audit(&[], &[]), Ok(expected));
        let older = flash.audit(&[], &[Extent::new(UNIT, 2 * UNIT)]).unwrap();
        assert_eq!((units_of(&older), older.remains_count), (vec![Some(1), Some(2)], 2));
        let dead = flash.audit(&[Extent::new(UNIT, UNIT)], &[]).unwrap();
        assert_eq!(units_of(&dead), [Some(1); 2]);
        // The part of a unit that is dead may be zeros in its present version.
        let part = flash.audit(&[Extent::new(UNIT + 1, 100)], &[]).unwrap();
        assert_eq!(units_of(&part), [Some(1)]);
        flash.erase(&[Extent::new(UNIT, UNIT)], Keep::Nothing).unwrap();
        assert_eq!(flash.audit(&[Extent::new(UNIT, UNIT)], &[]).unwrap().remains, []);
    }
}

#[test]
fn an_audit_counts_more_than_it_lists() {
    let geometry = geometry(2048, 64);
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let mut flash = Flash::format(chip, DISK, 100 * UNIT).unwrap();
    flash.write(Pos(0), &vec![1; 100 * UNIT_BYTES]).unwrap();
    let audit = flash.audit(&[Extent::new(0, 100 * UNIT)], &[]).unwrap();
    assert_eq!((audit.remains.len(), audit.remains_count), (REMAINS_MAX, 100));
}

#[test]
fn an_audit_reports_pages_that_no_record_explains() {
    let mut flash = with_two_versions(geometry(2048, 16));
    let free = flash.space.blocks.filter(|info| info.state == State::Blank)[0];
    let bytes = vec![0x5a; 2048];
    for page in 1..3 {
        flash.chip.nand.program(flash.layout.geometry.page(free, page), &bytes).unwrap();
    }
    let remain = |page| Remain { block: free, page, unit: None };
    assert_eq!(flash.audit(&[], &[]).unwrap().remains, [remain(1), remain(2)]);
    // Also in a block that is marked bad.
    flash.chip.nand.mark_bad(free).unwrap();
    let audit = flash.audit(&[], &[]).unwrap();
    assert_eq!((audit.remains, audit.blocks_bad), (vec![remain(1), remain(2)], 1));
}

#[test]
fn content_that_looks_like_a_record_explains_nothing() {
    let mut flash = new(geometry(2048, 16));
    let write = |flash: &mut Flash<MemoryChip>, unit: u64, bytes: &[u8]| {
        flash.write(Pos(unit * UNIT), bytes).unwrap();
        flash.sync().unwrap();
    };
    write(&mut flash, 0, &[1; UNIT_BYTES]);
    let open = flash.space.open(Stream::Guest).unwrap();
    let (block, next) = (open.block, open.next);
    assert_eq!(next, 4, "unit 0 has pages 1 and 2, and the record page 3");
    // The guest knows the disk, and the place of its write: the second page of the unit says that pages 1 to 4 hold units 31 and 32.
    let entry = |unit| Entry { unit: Unit(unit), checksum: 0 };
    let entries = vec![entry(31), entry(32)];
    let run = Run { sequence: u64::MAX, kind: RunKind::Plain, first: 1, entries, marks: Vec::new() };
    let record = Record { erases: 1, rest: 0, listed: Vec::new(), gaps: Vec::new(), runs: vec![run] };
    let page = flash.layout.geometry.page(block, 5);
    let mut unit_bytes = vec![9; 2048];
    unit_bytes.extend(record.to_bytes(DISK, 2048, page, |_| 0));
    assert!(Record::from_bytes(&unit_bytes[2048..], DISK, page).is_some());
    write(&mut flash, 1, &unit_bytes);
    write(&mut flash, 0, &[2; UNIT_BYTES]);
    let audit = flash.audit(&[], &[Extent::new(0, 40 * UNIT)]).unwrap();
    assert_eq!(audit.remains, [Remain { block, page: 1, unit: Some(Pos(0)) }]);
    assert_eq!(audit.stale_units, 1);
}

#[test]
fn a_record_with_wrong_bits_is_corrected_before_its_block_counts_as_unexplained() {
    let nature = Nature { weak_blocks: 1, ..Nature::default() };
    let chip = MemoryChip::new(geometry(2048, 16), SLC, nature, 1);
    let mut flash = Flash::format(chip, DISK, 40 * UNIT).unwrap();
    flash.write(Pos(0), &[1; UNIT_BYTES]).unwrap();
    flash.sync().unwrap();
    let block = flash.space.open(Stream::Guest).unwrap().block;
    let page = flash.layout.geometry.page(block, 3);
    let (mut raw, mut bytes, mut spare) = (vec![0; 2048], vec![0; 2048], vec![0; 64]);
    while flash.chip.nand.read(page, &mut bytes) == Ok(Reading::Good) {}
    flash.chip.nand.raw(page, &mut raw, &mut spare).unwrap();
    assert!(
        Record::from_bytes(&raw, DISK, page).is_none() && Record::from_bytes(&bytes, DISK, page).is_some()
    );
    let audit = flash.audit(&[Extent::new(0, UNIT)], &[]).unwrap();
    assert_eq!(audit.remains, [Remain { block, page: 1, unit: Some(Pos(0)) }]);
}
