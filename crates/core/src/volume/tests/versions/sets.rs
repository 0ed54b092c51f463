//! Forgets of sets: what is refused, what is noted, and what comes back.

use super::*;
use crate::base::parts::{Forget, PARTS_MAX, Parts};
use crate::base::units::{EpochRange, Part, Scope, SetId};
use std::sync::Arc;

fn part(start: u64, len: u64, from: u64, to: u64) -> Part {
    Part { epochs: EpochRange { from: Epoch(from), to: Epoch(to) }, blocks: Extent::new(start, len) }
}

fn parts(all: &[Part]) -> Arc<Parts> {
    Arc::new(Parts::new(SetId([7; 8]), all.to_vec()))
}

/// A disk with three epochs.
fn three_epochs(size: u64, half_bytes: u64) -> (Bench, Book) {
    let (mut bench, book) = of_size(size, half_bytes);
    for byte in 1..4 {
        bench.write(0, byte, 8 * BLOCK);
        bench.done(Op::CloseEpoch { when: 1, anew: false }, 0, 0).unwrap();
    }
    (bench, book)
}

impl Bench {
    fn forget(&mut self, all: &[Part]) -> Result<(), Refusal> {
        self.done(Op::ForgetSet(parts(all)), 0, 0).map(drop)
    }

    fn forgets(&self) -> &[Forget] {
        &self.volume.disk.state.forgets
    }
}

#[test]
fn a_set_is_noted_with_all_its_parts_and_completed_as_one() {
    let (mut bench, book) = three_epochs(ODD_SIZE, 64 << 10);
    let all = [part(0, BLOCK, 1, 1), part(0, BLOCK, 2, 2), part(2 * BLOCK, 3 * BLOCK, 2, 3)];
    assert!(bench.forget(&all).is_ok());
    let noted = [Forget::set(parts(&all)).unwrap()];
    assert_eq!(bench.forgets(), noted);
    assert_eq!(book.get().now.forgets.0, noted);
    let scope = noted[0].scope();
    assert_eq!(scope.epochs(), EpochRange { from: Epoch(1), to: Epoch(3) });
    assert_eq!(bench.volume.status().owed.forgets, [scope]);
    assert!(bench.volume.is_forgetting(&scope));
    // A start gives the store the same.
    let (mut bench, book) = open(book.crashed(), bench.data, bench.journal, None);
    assert_eq!(bench.forgets(), noted);
    book.get().now.forgets = (noted.into(), true);
    bench.write(0, 9, BLOCK);
    bench.idle();
    assert!(bench.forgets().is_empty() && !bench.volume.is_forgetting(&scope));
    assert_eq!(bench.volume.disk.state.counters.destroyed_bytes % (3 * BLOCK), 0);
}

#[test]
fn a_part_that_another_epoch_shows_refuses_the_whole_set() {
    let (mut bench, book) = three_epochs(ODD_SIZE, 64 << 10);
    book.get().now.shared.insert(6, Epoch(3));
    let all = [part(0, BLOCK, 1, 2), part(2 * BLOCK, 2 * BLOCK, 1, 1), part(5 * BLOCK, 2 * BLOCK, 1, 2)];
    let by = Refusal::Shared(Epoch(2), Epoch(3), Extent::new(6 * BLOCK, BLOCK));
    assert_eq!(bench.forget(&all), Err(by));
    assert!(bench.forgets().is_empty() && book.get().now.forgets.0.is_empty());
    assert!(!bench.volume.erasing.has_forgets(&bench.volume.disk), "nothing is being looked at");
    assert!(bench.forget(&all[..2]).is_ok());
    assert!(bench.forget(&[part(5 * BLOCK, 2 * BLOCK, 1, 3)]).is_ok(), "that epoch is named, too");
}

#[test]
fn a_set_that_is_not_in_order_or_not_of_whole_blocks_and_closed_epochs_is_refused() {
    let (mut bench, _) = three_epochs(ODD_SIZE, 64 << 10);
    let (one, two) = (part(0, BLOCK, 1, 1), part(BLOCK, BLOCK, 1, 1));
    let many: Vec<Part> = (0..=PARTS_MAX as u64).map(|n| part(n * BLOCK, BLOCK, 1, 1)).collect();
    let wrong = [
        vec![],
        vec![two, one],
        vec![one, one],
        vec![part(0, BLOCK, 2, 2), one],
        vec![one, part(BLOCK, 100, 1, 1)],
        vec![one, part(BLOCK + 512, BLOCK, 1, 1)],
        vec![one, part(BLOCK, 0, 1, 1)],
        vec![one, part(SIZE, BLOCK, 1, 1)],
        vec![one, part(BLOCK, BLOCK, 2, 1)],
        vec![one, part(BLOCK, BLOCK, 1, 4)],
        many,
    ];
    for all in wrong {
        assert!(matches!(bench.forget(&all), Err(Refusal::Invalid(_))), "{:?}", all.get(..2));
    }
    let set = Scope::Set(parts(&[one]).set().unwrap());
    assert!(matches!(bench.done(Op::Forget(set), 0, 0), Err(Refusal::Invalid(_))), "it has no parts");
    assert!(bench.forgets().is_empty());
}

#[test]
fn sets_have_a_quarter_of_the_journal_and_their_parts_take_its_room() {
    let (mut bench, book) = three_epochs(ODD_SIZE, 64 << 10);
    let most = bench.volume.status().owed.entries_max / 4;
    let all = |count: usize| {
        let all = (0..count as u64).map(|n| part(n % 8 * BLOCK, BLOCK, 1 + n / 8 % 3, 1 + n / 8 % 3));
        let mut all: Vec<Part> = all.collect();
        all.sort_by_key(|it| (it.blocks.start, it.epochs.from));
        all.dedup();
        all
    };
    let of_each = all(24).len();
    let mut noted = 0;
    while noted + of_each <= most {
        let entries = bench.volume.disk.entries();
        assert!(bench.forget(&all(24)).is_ok());
        noted += of_each;
        assert_eq!(bench.volume.disk.entries(), entries + of_each);
    }
    assert!(matches!(bench.forget(&all(24)), Err(Refusal::NoSpace(_))), "{noted} parts of {most}");
    book.get().now.forgets.1 = true;
    bench.write(0, 9, BLOCK);
    bench.idle();
    assert!(bench.forget(&all(24)).is_ok());
}
