use crate::machine::content::fill;
use crate::machine::remanence::*;

fn content(tag: u32) -> [u8; SECTOR_BYTES] {
    let mut bytes = [0; SECTOR_BYTES];
    fill(Tag(tag), 0, &mut bytes);
    bytes
}

/// The remains of one sector with `bytes`, where content is gone after `passes` passes.
fn laid(bytes: &[u8; SECTOR_BYTES], passes: usize) -> Remains {
    let mut remains = Remains::new(1, passes);
    remains.layer(0, bytes, Mask::ALL);
    remains
}

fn passes(remains: &Remains, tag: u32) -> Option<u8> {
    remains.iter().filter(|(_, it)| it.tag == Tag(tag)).map(|(_, it)| it.fewest()).min()
}

const PATTERN: [u8; SECTOR_BYTES] = [0xaa; SECTOR_BYTES];

#[test]
fn content_is_gone_after_its_passes_and_not_before() {
    let mut remains = laid(&content(1), 3);
    for n in 0..3 {
        assert_eq!(passes(&remains, 1), Some(n));
        remains.layer(0, &PATTERN, Mask::ALL);
    }
    assert_eq!(passes(&remains, 1), None);
}

#[test]
fn other_content_covers_and_is_a_pass_only_where_one_is_enough() {
    for (due, left) in [(1, None), (2, Some(0))] {
        let mut remains = laid(&content(1), due);
        remains.layer(0, &content(2), Mask::ALL);
        assert_eq!((passes(&remains, 1), passes(&remains, 2)), (left, Some(0)), "{due} passes are due");
    }
}

#[test]
fn content_that_comes_back_needs_its_passes_anew() {
    let mut remains = laid(&content(1), 2);
    remains.layer(0, &PATTERN, Mask::ALL);
    remains.layer(0, &content(1), Mask::ALL);
    assert_eq!(passes(&remains, 1), Some(0));
}

#[test]
fn a_pass_over_a_part_leaves_the_rest() {
    let mut bytes = content(1);
    let mut remains = laid(&bytes, 1);
    bytes[..100].fill(0);
    remains.layer(0, &bytes, Mask::of(0, 100));
    let left: Vec<_> = remains.iter().map(|(_, it)| it.cell.0).collect();
    assert_eq!(left, [1, 2, 3, 4, 5, 6, 7]);
    let second = remains.iter().next().expect("seven are left").1;
    assert_eq!(second.passes_within(Extent::new(64, 36)), Some(1));
    assert_eq!(second.passes_within(Extent::new(64, 40)), Some(0));
    assert_eq!(second.passes_within(Extent::new(0, 64)), None);
    let lacking: Vec<_> = second.lacking(Extent::new(90, 30), 1).map(|word| word.start.0).collect();
    assert_eq!(lacking, [96, 104, 112]);
}

#[test]
fn passes_of_two_halves_at_different_times_add_up() {
    let mut remains = laid(&content(1), 2);
    for (from, to) in [(0, 40), (0, 40), (40, 512), (40, 512)] {
        assert!(passes(&remains, 1).is_some());
        remains.layer(0, &PATTERN, Mask::of(from, to));
    }
    assert_eq!(passes(&remains, 1), None);
}

#[test]
fn space_given_back_can_not_be_passed_over() {
    let mut remains = laid(&content(1), 1);
    remains.give_back(0);
    remains.layer(0, &PATTERN, Mask::ALL);
    assert_eq!(passes(&remains, 1), Some(0));
}

#[test]
fn a_part_of_a_word_is_not_judged() {
    let remains = laid(&content(1), 1);
    let trace = remains.iter().next().expect("all cells are left").1;
    assert_eq!(trace.passes_within(Extent::new(1, 14)), None);
    assert_eq!(trace.passes_within(Extent::new(1, 15)), Some(0));
}

#[test]
fn what_a_cache_folded_away_never_was_there() {
    let mut bytes = content(1);
    bytes[32..64].fill(0);
    let remains = laid(&bytes, 2);
    let first = remains.iter().next().expect("half of it is there").1;
    assert_eq!(first.passes_within(Extent::new(0, 32)), Some(0));
    assert_eq!(first.passes_within(Extent::new(32, 32)), Some(u8::MAX));
}

#[test]
fn a_part_that_was_kept_is_no_pass() {
    let mut bytes = content(1);
    let mut remains = laid(&bytes, 1);
    bytes[32..64].fill(0);
    remains.layer(0, &bytes, Mask::ALL);
    let first = remains.iter().next().expect("half of it is left").1;
    assert_eq!(first.passes_within(Extent::new(0, 32)), Some(0));
    assert_eq!(first.passes_within(Extent::new(32, 32)), Some(1));
}
