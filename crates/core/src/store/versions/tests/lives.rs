//! Which epochs change some blocks.

use super::*;
use crate::base::units::Scope;
use crate::request::Lives;
use std::collections::BTreeSet;
use std::ops::Range;

/// The epochs that change some blocks after one, each with the kept epoch before it; and in how many replies.
fn changes(store: &Versions, blocks: Range<u64>, since: u64) -> (Vec<(u64, u64)>, usize) {
    let (mut all, mut replies, mut at) = (BTreeSet::new(), 0, (Block(blocks.start), Epoch(0)));
    loop {
        let lives = Lives { at, end: Block(blocks.end), since: Epoch(since) };
        let reply = store.answer(&Question::Lives(lives));
        let Ok(Reply::Changes(changes)) = reply else { panic!("{reply:?}") };
        assert!(changes.epochs.is_sorted() && changes.epochs.iter().all(|it| it.closed_ms == 5));
        all.extend(changes.epochs.iter().map(|it| (it.epoch.0, it.before.0)));
        replies += 1;
        match changes.next {
            Some(next) => at = next,
            None => return (all.into_iter().collect(), replies),
        }
    }
}

/// Six epochs: block 0 is written in the odd ones, block 2 in the first and freed in the fourth, block 9 in the first.
fn six_epochs() -> Versions {
    let mut store = store();
    for epoch in 1..=6 {
        if epoch % 2 == 1 {
            store.write(0, 1);
        }
        match epoch {
            1 => drop((store.write(2, 1), store.write(9, 1))),
            4 => drop(store.leave(extent(2, 1), store.open)),
            _ => {}
        }
        store.close(5);
        store.commit();
    }
    store
}

#[test]
fn an_epoch_changes_the_blocks_that_were_written_or_freed_since_the_kept_one_before() {
    let mut store = six_epochs();
    assert_eq!(changes(&store, 0..1, 0).0, [(1, 0), (3, 2), (5, 4)]);
    assert_eq!(changes(&store, 0..1, 3).0, [(5, 4)]);
    assert_eq!(changes(&store, 0..1, u64::MAX).0, []);
    assert_eq!(changes(&store, 1..9, 0).0, [(1, 0), (4, 3)]);
    assert_eq!(changes(&store, 0..10, 1).0, [(3, 2), (4, 3), (5, 4)]);
    Epochs::forget(&mut store, Scope::Epochs(EpochRange { from: Epoch(3), to: Epoch(4) }).into());
    assert_eq!(changes(&store, 0..10, 1).0, [(5, 2)], "the two are shown no more");
    store.write(9, 1);
    store.close(5);
    assert_eq!(changes(&store, 9..10, 1).0, [], "the end of the last epoch is not durable");
    store.commit();
    assert_eq!(changes(&store, 9..10, 1).0, [(7, 6)]);
}

#[test]
fn the_first_epoch_behind_a_gap_changes_its_blocks() {
    let mut store = six_epochs();
    let epochs = EpochRange { from: Epoch(1), to: Epoch(2) };
    Epochs::forget(&mut store, Scope::chain(epochs, extent(9, 1)).into());
    assert_eq!(changes(&store, 5..12, 1).0, [(3, 2)]);
    assert_eq!(changes(&store, 5..12, 3).0, []);
    assert_eq!(changes(&store, 0..9, 3).0, [(4, 3), (5, 4)], "the gap is elsewhere");
}

#[test]
fn a_reply_looks_at_a_few_leaves_and_the_next_goes_on() {
    const EPOCHS: u64 = 12;
    let mut store = store();
    for _ in 0..EPOCHS {
        store.write(0, LONG);
        store.close(5);
        store.commit();
    }
    let (all, replies) = changes(&store, 0..LONG, 2);
    assert_eq!(all, (3..=EPOCHS).map(|epoch| (epoch, epoch - 1)).collect::<Vec<_>>());
    assert!(replies > 1, "one reply had all of {} versions", EPOCHS * LONG);
}
