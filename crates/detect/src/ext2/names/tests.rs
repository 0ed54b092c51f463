use super::*;
use crate::ext2::tests::Dice;
use std::collections::BTreeMap;

type Counts = BTreeMap<(Block, Kind), i64>;

fn count(pointers: &[Pointer], by: i64, counts: &mut Counts) {
    pointers.iter().for_each(|it| *counts.entry((it.block, it.kind())).or_default() += by);
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

fn lot(dice: &mut Dice) -> Vec<Pointer> {
    (0..dice.below(12)).map(|_| Pointer { block: dice.below(9), level: dice.below(3) as u8 }).collect()
}

#[test]
fn a_difference_is_that_of_multisets() {
    let mut dice = Dice(1);
    for _ in 0..20_000 {
        let (old, new) = (lot(&mut dice), lot(&mut dice));
        let mut expected = Counts::new();
        count(&old, -1, &mut expected);
        count(&new, 1, &mut expected);
        let mut difference = Difference::default();
        difference.same_owner(old, new);
        let (unlinked, linked) = counts(&difference.changes());
        let of = |sign: i64| {
            let some = expected.iter().filter(|(_, count)| **count * sign > 0);
            some.map(|(key, count)| (*key, count.abs())).collect::<Counts>()
        };
        assert_eq!((unlinked, linked), (of(-1), of(1)));
    }
}

#[test]
fn another_owner_keeps_nothing() {
    let lot = vec![Pointer { block: 5, level: 0 }, Pointer { block: 4, level: 0 }];
    let link = Link { blocks: 4..6, kind: Kind::Data };
    let mut difference = Difference::default();
    difference.another_owner(lot.clone(), lot);
    assert_eq!(difference.changes(), [Change::Unlinked(link.clone()), Change::Linked(link)]);
}

#[test]
fn only_data_of_one_owner_is_joined() {
    let mut difference = Difference::default();
    let pointer = |block, level| Pointer { block, level };
    difference
        .same_owner(vec![], vec![pointer(4, 0), pointer(5, 0), pointer(5, 0), pointer(6, 1), pointer(7, 1)]);
    difference.same_owner(vec![], vec![pointer(8, 0)]);
    difference.same_owner(vec![], vec![pointer(9, 0)]);
    let ranges: Vec<_> = difference.linked.iter().map(|link| link.blocks.clone()).collect();
    assert_eq!(ranges, [4..6, 5..6, 6..7, 7..8, 8..9, 9..10]);
}
