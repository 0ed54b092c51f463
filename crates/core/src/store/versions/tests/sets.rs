//! Forgets of sets: the parts one after the other, and one end for all.

use super::*;
use crate::base::parts::{Forget, Parts};
use crate::base::units::{Part, SetId};
use crate::mutant::{Mutant, activate};
use crate::store::Gone;
use std::sync::Arc;

/// Most steps of a forget, with what it waits for.
const STEPS_MAX: usize = 1000;

fn part(block: u64, blocks: u64, from: u64, to: u64) -> Part {
    Part { epochs: EpochRange { from: Epoch(from), to: Epoch(to) }, blocks: extent(block, blocks) }
}

/// Six epochs, in each of which blocks 0 to 3 get another version, and block 9 in the first.
fn six_epochs() -> Versions {
    let mut store = store();
    for epoch in 1..=6 {
        store.write(0, 4);
        if epoch == 1 {
            store.write(9, 1);
        }
        store.close(5);
        store.commit();
    }
    store.write(0, 4);
    store.commit();
    store
}

/// Three versions of block 0, two of which the second part has, one of block 2, and two of block 3.
fn set() -> Forget {
    let all = vec![part(0, 1, 1, 1), part(0, 1, 3, 4), part(2, 2, 2, 2), part(3, 1, 5, 5)];
    Forget::set(Arc::new(Parts::new(SetId([3; 8]), all))).expect("a set has a part")
}

/// What no epoch of a set shows any more.
const DOOMED: [(u64, u64); 6] = [(1, 0), (3, 0), (4, 0), (2, 2), (2, 3), (5, 3)];

/// The blocks that epochs do not show, each with the epoch.
fn gone(store: &Versions) -> Vec<(u64, u64)> {
    let all = (1..=6).flat_map(|epoch| [0, 1, 2, 3, 9].map(|block| (epoch, block)));
    let is_gone = |(epoch, block): &(u64, u64)| match Epochs::locate(store, extent(*block, 1), Epoch(*epoch))
    {
        Ok(places) => {
            assert!(places.iter().all(|place| place.on == MediumId::Data), "block {block} has content");
            false
        }
        Err(gone) => {
            assert_eq!(gone, Gone::Blocks(extent(*block, 1)));
            true
        }
    };
    all.filter(is_gone).collect()
}

/// Takes all steps of the first forget, with what they wait for; returns its end.
fn forgotten(store: &mut Versions) -> ForgetStep {
    for _ in 0..STEPS_MAX {
        match store.forget_step() {
            ForgetStep::More => {}
            ForgetStep::Waits => {
                store.committing.wants_index = true;
                store.commit();
                while store.background(true).is_some() {
                    store.background_done(JobEnd::Done(&[]));
                }
            }
            end => return end,
        }
    }
    panic!("the forget does not end")
}

fn sorted(mut all: Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    all.sort_unstable();
    all
}

#[test]
fn the_versions_of_all_parts_of_a_set_die_and_its_epochs_stay() {
    let mut store = six_epochs();
    let set = set();
    Epochs::forget(&mut store, set.clone());
    assert_eq!(gone(&store), sorted(DOOMED.to_vec()), "at once");
    let Ok(Reply::Epochs(kept)) = store.answer(&Question::Epochs(Epoch(0))) else { panic!() };
    assert_eq!(kept.len(), 6, "a set forgets no epoch");
    let heads = store.catalog.heads;
    assert_eq!(forgotten(&mut store), ForgetStep::Done(set.scope(), DOOMED.len() as u64));
    assert!(store.catalog.heads - heads <= 2, "one index for all parts, and one without the slots");
    assert_eq!(gone(&store), sorted(DOOMED.to_vec()), "in the end");
    assert_eq!(store.forget_step(), ForgetStep::Idle);
    // Again, as after a crash before the end was noted: nothing is left to die.
    Epochs::forget(&mut store, set.clone());
    assert_eq!(forgotten(&mut store), ForgetStep::Done(set.scope(), 0));
    assert_eq!(gone(&store), sorted(DOOMED.to_vec()));
}

#[test]
fn a_set_whose_last_part_is_left_out_is_caught() {
    let mut store = six_epochs();
    activate(Some(Mutant::SkipPart));
    Epochs::forget(&mut store, set());
    forgotten(&mut store);
    activate(None);
    assert_eq!(gone(&store).len(), DOOMED.len() - 1, "the version of the last part can be found");
}
