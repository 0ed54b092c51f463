use crate::formats::difference::*;
use crate::formats::testing::{Counts, Dice};
use std::collections::BTreeMap;

type Named = (Range<Block>, u8);

/// Counts the blocks in `lot`, by shift.
fn count(lot: &[(u64, Named)], by: i64, counts: &mut BTreeMap<(Block, Kind, u64), i64>) {
    for (shift, (blocks, level)) in lot {
        let kind = if *level == 0 { Kind::Data } else { Kind::Pointers(*level) };
        blocks.clone().for_each(|block| *counts.entry((block, kind, *shift)).or_default() += by);
    }
}

fn counts(changes: &[Change]) -> (Counts, Counts) {
    let (mut unlinked, mut linked) = (Counts::new(), Counts::new());
    for change in changes {
        let (link, counts) = match change {
            Change::Unlinked(link) => (link, &mut unlinked),
            Change::Linked(link) => (link, &mut linked),
        };
        link.blocks.clone().for_each(|block| *counts.entry((block, link.kind)).or_default() += 1);
    }
    (unlinked, linked)
}

fn lot(dice: &mut Dice) -> Vec<(u64, Named)> {
    let mut one = || {
        let start = dice.below(9);
        let named = (start..start + 1 + dice.below(4), dice.below(3) as u8);
        (dice.below(2).into(), named)
    };
    (0..12).map(|_| one()).collect()
}

fn hand_in(difference: &mut Difference, old: &[Named], new: &[Named]) {
    old.iter().for_each(|(blocks, level)| difference.lose(blocks.clone(), *level, 0));
    new.iter().for_each(|(blocks, level)| difference.gain(blocks.clone(), *level, 0));
}

#[test]
fn a_difference_is_that_of_multisets() {
    let mut dice = Dice(1);
    for _ in 0..20_000 {
        let [old, new] = [0, 1].map(|_| {
            let len = dice.below(12) as usize;
            lot(&mut dice)[..len].to_vec()
        });
        let mut expected = BTreeMap::new();
        count(&old, -1, &mut expected);
        count(&new, 1, &mut expected);
        let mut difference = Difference::default();
        for (shift, (blocks, level)) in &old {
            difference.lose(blocks.clone(), *level, *shift);
        }
        for (shift, (blocks, level)) in &new {
            difference.gain(blocks.clone(), *level, *shift);
        }
        difference.settle();
        let changes = difference.changes();
        assert!(changes.len() <= old.len() + new.len(), "{changes:?}");
        let (unlinked, linked) = counts(&changes);
        let of = |sign: i64| {
            let mut some = Counts::new();
            for ((block, kind, _), count) in expected.iter().filter(|(_, count)| **count * sign > 0) {
                *some.entry((*block, *kind)).or_default() += count.abs();
            }
            some
        };
        assert_eq!((unlinked, linked), (of(-1), of(1)));
    }
}

#[test]
fn another_owner_keeps_nothing() {
    let lot = [(5..6, 0), (4..5, 0)];
    let link = Link { blocks: 4..6, kind: Kind::Data };
    let mut difference = Difference::default();
    hand_in(&mut difference, &lot, &[]);
    difference.settle();
    hand_in(&mut difference, &[], &lot);
    difference.settle();
    assert_eq!(difference.changes(), [Change::Unlinked(link.clone()), Change::Linked(link)]);
}

#[test]
fn only_what_one_owner_has_of_one_level_is_joined() {
    let mut difference = Difference::default();
    hand_in(&mut difference, &[], &[(4..5, 0), (5..6, 0), (5..6, 0), (6..7, 1), (7..8, 1)]);
    difference.settle();
    hand_in(&mut difference, &[], &[(8..9, 0)]);
    difference.settle();
    let ranges: Vec<_> = difference.linked.iter().map(|link| link.blocks.clone()).collect();
    assert_eq!(ranges, [4..6, 5..6, 6..8, 8..9]);
}
