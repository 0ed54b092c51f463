//! The slots against a set, through heads and restarts.

use crate::base::units::Epoch;
use crate::store::versions::index::span::Dead;
use crate::store::versions::space::slots::*;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::HashMap;

const PER_CLUSTER: u64 = 48;
const BLOCKS: u64 = 1 << 20;

fn slots() -> Slots {
    Slots::new(PER_CLUSTER, BLOCKS, (0, Root::default()))
}

fn pages() -> Pages {
    let mut pages = Pages::new([1; 16], 0);
    pages.found(&RoaringBitmap::new());
    pages
}

fn tell(slots: &mut Slots, pages: &mut Pages) {
    while slots.tell(pages).expect("all pages are in memory") {}
}

fn make_head(slots: &mut Slots, pages: &mut Pages) {
    tell(slots, pages);
    slots.begin_head();
    slots.end_head();
}

fn reopened(slots: &Slots, pages: &Pages) -> Slots {
    let mut anew = Slots::new(PER_CLUSTER, BLOCKS, (0, slots.table.root()));
    while anew.find(pages).expect("all pages are in memory") {}
    anew
}

fn span(slot: Slot, block: Block, len: u64) -> Span {
    Span { first: Dead { born: Epoch(1), block, slot }, len }
}

#[test]
fn slots_of_several_clusters_are_freed_at_once_with_the_next_head() {
    let (mut slots, mut pages) = (slots(), pages());
    for block in (0..200).map(Block) {
        let slot = slots.take(block);
        assert_eq!(slot.0, block.0);
        slots.written(slot, block);
    }
    slots.free_later(span(Slot(47), Block(47), 100));
    assert_eq!(slots.used(), 200);
    make_head(&mut slots, &mut pages);
    assert_eq!(slots.free_runs(200), [(47, 147)]);
    assert_eq!((slots.used(), reopened(&slots, &pages).used()), (100, 100));
}

#[test]
fn a_head_does_not_say_that_a_slot_is_used_whose_content_is_not_there_yet() {
    let (mut slots, mut pages) = (slots(), pages());
    let [there, under_way, given_up] = [1, 2, 3].map(|block| (slots.take(Block(block)), Block(block)));
    slots.written(there.0, there.1);
    make_head(&mut slots, &mut pages);
    let mut crashed = reopened(&slots, &pages);
    assert_eq!(crashed.used(), 1);
    crashed.taken(under_way.0, under_way.1);
    slots.written(under_way.0, under_way.1);
    slots.free(given_up.0, given_up.1);
    make_head(&mut slots, &mut pages);
    assert_eq!(reopened(&slots, &pages).used(), 2);
}

#[test]
fn no_slot_is_taken_twice_and_none_before_the_index_forgets_it() {
    for seed in 0..21 {
        let (mut rng, mut pages) = (ChaCha8Rng::seed_from_u64(seed), pages());
        let mut slots = slots();
        let mut used: HashMap<Slot, Block> = HashMap::new();
        let mut durable: HashMap<Slot, Block> = HashMap::new();
        let mut flying: HashMap<Slot, Block> = HashMap::new();
        let mut held: Vec<Slot> = Vec::new();
        let range = [60, 3000, BLOCKS][seed as usize % 3];
        for _ in 0..6000 {
            let any = used
                .iter()
                .map(|(slot, block)| (*slot, *block))
                .min_by_key(|(slot, _)| slot.0 ^ (rng.next_u64() % 512));
            match rng.next_u32() % 100 {
                0..60 => {
                    let block = Block(u64::from(rng.next_u32()) % range);
                    let end = slots.end_after(block, block);
                    let slot = slots.take(block);
                    assert!(!used.contains_key(&slot) && !durable.contains_key(&slot) && slot < end);
                    assert!(!held.contains(&slot), "what is held is not taken");
                    assert!(flying.insert(slot, block).is_none());
                    // Most writes have ended when the next head is made.
                    for slot in flying.keys().copied().filter(|slot| slot.0 % 7 > 0).collect::<Vec<_>>() {
                        slots.written(slot, flying[&slot]);
                        used.extend(flying.remove_entry(&slot));
                    }
                }
                60..64 => {
                    let slot = Slot(rng.next_u64() % slots.len().max(1));
                    let is_in_use = used.contains_key(&slot) || flying.contains_key(&slot);
                    let is_held = slot.0 < slots.len() && slots.hold(slot);
                    assert!(!(is_held && is_in_use), "{slot:?} is in use");
                    held.extend(Some(slot).filter(|_| is_held));
                }
                64..68 => held.drain(..).for_each(|slot| slots.release(slot)),
                68..95 => {
                    let Some((slot, block)) = any else { continue };
                    used.remove(&slot);
                    if durable.contains_key(&slot) {
                        slots.free_later(span(slot, block, 1));
                    } else {
                        slots.free(slot, block);
                    }
                }
                _ => {
                    tell(&mut slots, &mut pages);
                    slots.begin_head();
                    if rng.next_u32() % 4 == 0 {
                        slots.abort_head();
                        continue;
                    }
                    slots.end_head();
                    durable.clone_from(&used);
                    assert_eq!(slots.used(), (used.len() + flying.len()) as u64);
                    if rng.next_u32() % 3 == 0 {
                        tell(&mut slots, &mut pages);
                        slots = reopened(&slots, &pages);
                        flying.clear();
                        held.clear();
                        assert_eq!(slots.used(), used.len() as u64);
                    }
                }
            }
        }
    }
}

/// The clusters that have slots in use, and how many of their slots are.
fn fill(slots: &[(Slot, u64)]) -> HashMap<u64, Vec<u64>> {
    let mut clusters: HashMap<u64, Vec<u64>> = HashMap::new();
    slots.iter().for_each(|(slot, block)| clusters.entry(slot.0 / PER_CLUSTER).or_default().push(*block));
    clusters
}

#[test]
fn ascending_and_descending_writes_fill_their_clusters_in_order() {
    for descends in [false, true] {
        let mut slots = slots();
        let block = |n| if descends { BLOCKS - 1 - n } else { n };
        let taken: Vec<_> = (0..10_000).map(|n| (slots.take(Block(block(n))), block(n))).collect();
        assert!(slots.len() < 10_000 + 2 * PER_CLUSTER, "{} slots", slots.len());
        for blocks in fill(&taken).values() {
            let span = blocks.iter().max().zip(blocks.iter().min()).map(|(high, low)| high - low + 1);
            assert_eq!(span, Some(blocks.len() as u64));
        }
    }
}

#[test]
fn scattered_writes_fill_most_of_their_clusters_and_come_to_lie_by_address() {
    let (mut rng, mut slots) = (ChaCha8Rng::seed_from_u64(9), slots());
    let taken: Vec<_> = (0..100_000)
        .map(|_| u64::from(rng.next_u32()) % BLOCKS)
        .map(|block| (slots.take(Block(block)), block))
        .collect();
    assert!(slots.len() < 130_000, "{} slots for 100,000 versions", slots.len());
    let late = fill(&taken[90_000..]);
    let mean =
        |blocks: &Vec<u64>| blocks.iter().max().zip(blocks.iter().min()).map_or(0, |(high, low)| high - low);
    let spans: u64 = late.values().map(mean).sum::<u64>() / late.len() as u64;
    assert!(spans < BLOCKS / 500, "versions of one cluster lie {spans} blocks apart");
}

#[test]
fn versions_of_few_blocks_stay_together_however_often_they_are_written() {
    let mut slots = slots();
    (0..200_000).step_by(50).for_each(|block| _ = slots.take(Block(block)));
    let often: Vec<_> = (0..480).map(|n| (slots.take(Block(1000 + n % 8)), 1000)).collect();
    assert!(fill(&often).len() <= 12, "{} clusters", fill(&often).len());
}

#[test]
fn blocks_side_by_side_get_slots_before_the_end_that_was_foretold() {
    for seed in 0..20 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut slots = slots();
        for _ in 0..300 {
            let (first, more) = (u64::from(rng.next_u32()) % (BLOCKS - 600), u64::from(rng.next_u32()) % 600);
            let end = slots.end_after(Block(first), Block(first + more));
            let taken: Vec<_> =
                (first..=first + more).map(|block| (slots.take(Block(block)), Block(block))).collect();
            assert!(taken.iter().all(|(slot, _)| *slot < end), "{end:?} for {more} blocks from {first}");
            for (slot, block) in taken.into_iter().filter(|_| rng.next_u32() % 3 == 0) {
                slots.free(slot, block);
            }
        }
    }
}
