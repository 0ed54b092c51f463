use super::timing::SLC;
use super::*;
use std::collections::BTreeSet;

const GEOMETRY: Geometry =
    Geometry { page_bytes: 2048, spare_bytes: 64, block_pages: 4, blocks: 2, correctable_bits: 4 };

fn chip(nature: Nature, seed: u64) -> MemoryChip {
    MemoryChip::new(GEOMETRY, SLC, nature, seed)
}

fn filled(byte: u8) -> Vec<u8> {
    vec![byte; 2048]
}

#[test]
fn a_page_reads_as_programmed_until_its_block_is_erased() {
    let mut chip = chip(Nature::default(), 1);
    let mut into = filled(0);
    assert_eq!(chip.read(Page(0), &mut into), Ok(Reading::Blank));
    chip.program(Page(0), &filled(7)).unwrap();
    assert_eq!(chip.read(Page(0), &mut into), Ok(Reading::Good));
    assert_eq!(into, filled(7));
    chip.erase(EraseBlock(0)).unwrap();
    assert_eq!(chip.read(Page(0), &mut into), Ok(Reading::Blank));
    let micros = 3 * SLC.read_us + SLC.program_us + SLC.erase_us;
    assert_eq!(chip.counts(), Counts { reads: 3, programs: 1, erases: 1, micros });
}

#[test]
#[should_panic(expected = "in order")]
fn a_page_before_the_last_one_is_not_programmed() {
    let mut chip = chip(Nature::default(), 1);
    chip.program(Page(1), &filled(7)).unwrap();
}

#[test]
#[should_panic(expected = "once each")]
fn a_page_is_not_programmed_twice() {
    let mut chip = chip(Nature::default(), 1);
    chip.program(Page(0), &filled(7)).unwrap();
    chip.program(Page(0), &filled(7)).unwrap();
}

#[test]
#[should_panic(expected = "after a cut")]
fn a_block_that_a_cut_touched_is_erased_before_it_is_programmed() {
    let mut chip = chip(Nature::default(), 1);
    chip.cut_after(0);
    chip.program(Page(0), &filled(7)).unwrap_err();
    chip.restore();
    chip.program(Page(1), &filled(7)).unwrap();
}

/// What two reads of a page say after its program was cut, and whether its cells hold anything.
fn torn(seed: u64) -> (String, String, bool) {
    let mut chip = chip(Nature::default(), seed);
    chip.cut_after(0);
    assert!(matches!(chip.program(Page(0), &filled(7)), Err(NandError::Gone(_))));
    assert!(matches!(chip.read(Page(0), &mut filled(0)), Err(NandError::Gone(_))));
    chip.restore();
    let mut look = || format!("{:?}", chip.read(Page(0), &mut filled(0)));
    let (first, second) = (look(), look());
    (first, second, chip.cells(Page(0))[0] == 7)
}

#[test]
fn a_program_that_was_cut_leaves_every_kind_of_page() {
    let seen: BTreeSet<_> = (0..400).map(torn).collect();
    let has = |first: &str, second: &str, holds| seen.contains(&(first.into(), second.into(), holds));
    assert!(has("Ok(Good)", "Ok(Good)", true), "a whole page");
    assert!(has("Ok(Blank)", "Ok(Blank)", false), "no trace");
    assert!(has("Ok(Blank)", "Ok(Blank)", true), "remains that look blank");
    assert!(has("Err(Uncorrectable)", "Err(Uncorrectable)", true), "remains that look torn");
    assert!(has("Ok(Good)", "Err(Uncorrectable)", true), "a page that reads well once");
    assert!(has("Ok(Blank)", "Ok(Good)", true), "a page that reads well later");
}

#[test]
fn an_erase_that_was_cut_leaves_remains() {
    let remains = |seed| {
        let mut chip = chip(Nature::default(), seed);
        chip.program(Page(0), &filled(7)).unwrap();
        chip.cut_after(0);
        chip.erase(EraseBlock(0)).unwrap_err();
        chip.cells(Page(0))[0] == 7
    };
    let count = (0..100).filter(|seed| remains(*seed)).count();
    assert!((1..100).contains(&count), "{count} of 100");
}

#[test]
fn a_dead_block_fails_and_can_be_blackened_unless_it_is_stubborn() {
    for stubborn in [false, true] {
        let mut chip = chip(Nature::default(), 3);
        chip.program(Page(0), &filled(7)).unwrap();
        chip.kill(EraseBlock(0), stubborn);
        assert_eq!(chip.program(Page(1), &filled(8)), Err(NandError::Failed));
        assert_eq!(chip.erase(EraseBlock(0)), Err(NandError::Failed));
        chip.blacken(Page(0)).unwrap();
        assert_eq!(chip.cells(Page(0)) == filled(0), !stubborn);
    }
}

#[test]
fn a_weak_block_gets_wrong_bits_until_it_is_erased() {
    let mut chip = chip(Nature { weak_blocks: 1, ..Nature::default() }, 1);
    chip.program(Page(0), &filled(7)).unwrap();
    let mut into = filled(0);
    let corrected = (0..100_000).map_while(|_| chip.read(Page(0), &mut into).ok()).last();
    assert_eq!(corrected, Some(Reading::Corrected(GEOMETRY.correctable_bits)));
    chip.erase(EraseBlock(0)).unwrap();
    chip.program(Page(0), &filled(7)).unwrap();
    assert!(chip.read(Page(0), &mut into).is_ok());
}
