//! The sets of classes against the dullest model: some facts of each block.

use crate::formats::testing::Dice;
use crate::rules::marks::classes::*;

const BLOCKS: Block = 1000;

/// The facts of a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Facts {
    is_sensitive: bool,
    is_buried: bool,
    is_unsettled: bool,
    is_handed_out: bool,
}

/// A source of choices.
struct Choices(Dice);

impl Choices {
    /// Some neighbours.
    fn run(&mut self) -> RangeInclusive<Block> {
        let most = [1, 8, 300][self.0.below(3) as usize];
        let (first, more) = (self.0.below(BLOCKS), self.0.below(most));
        first..=(first + more).min(BLOCKS - 1)
    }

    fn set(&mut self) -> RoaringBitmap {
        set_of((0..10).map(|_| self.run()))
    }
}

/// What a write of `block` does, as the rules say; whether it is `whole`.
fn write(facts: &mut Facts, whole: bool, has_layers: bool, is_live: bool, is_named: bool) {
    if whole && (!has_layers || !is_live || facts.is_handed_out) {
        facts.is_sensitive = false;
    }
    (facts.is_handed_out, facts.is_buried) = (false, whole && facts.is_sensitive && !is_named);
    facts.is_sensitive |= is_named;
    facts.is_unsettled |= !facts.is_sensitive;
}

fn facts(classes: &Classes, block: Block) -> Facts {
    Facts {
        is_sensitive: classes.sensitive.contains(block),
        is_buried: classes.buried.contains(block),
        is_unsettled: classes.unsettled.contains(block),
        is_handed_out: classes.handed_out.contains(block),
    }
}

#[test]
fn each_write_changes_what_the_rules_say_and_nothing_else() {
    let mut choices = Choices(Dice(1));
    let fixed = choices.set();
    let mut classes = Classes::new(BLOCKS, fixed.clone());
    classes.has_any = true;
    for step in 0..3000 {
        match choices.0.below(6) {
            0 => classes.named(choices.set()),
            1 => classes.handed_out(choices.run()),
            2 => classes.settled(&choices.set()),
            _ => {
                classes.has_layers = choices.0.below(2) == 0;
                let (blocks, live, named) = (choices.run(), choices.set(), choices.set());
                // Its ends may be parts of blocks.
                let (first, last) = (
                    blocks.start() + choices.0.below(2),
                    *blocks.end() - (*blocks.end()).min(choices.0.below(2)),
                );
                let whole = Some(first..=last).filter(|it| !it.is_empty());
                let before: Vec<Facts> = (0..BLOCKS).map(|block| facts(&classes, block)).collect();
                classes.written(blocks.clone(), whole.clone(), &live, &named);
                for (block, mut expected) in (0..).zip(before) {
                    if blocks.contains(&block) && !fixed.contains(block) {
                        let is_whole = whole.as_ref().is_some_and(|it| it.contains(&block));
                        let (is_live, is_named) = (live.contains(block), named.contains(block));
                        write(&mut expected, is_whole, classes.has_layers, is_live, is_named);
                    }
                    assert_eq!(facts(&classes, block), expected, "step {step}, block {block}");
                }
            }
        }
        for few_or_many in [choices.run().collect(), choices.set(), classes.all()] {
            let plain: RoaringBitmap =
                few_or_many.iter().filter(|block| classes.class(*block) == Class::Plain).collect();
            assert_eq!(classes.plain(&few_or_many), plain, "step {step}");
        }
    }
}
