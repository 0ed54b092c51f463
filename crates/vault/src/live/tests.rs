use std::collections::BTreeSet;

use super::*;
use crate::testing::{Noise, fingerprint};
use crate::{Fingerprint, Ordinal};

/// `count` chunks in the order of their fingerprints, with ordinals in another.
fn chunks(count: u64, seed: u64) -> Vec<Reference> {
    let mut noise = Noise(seed);
    let fingerprints: BTreeSet<Fingerprint> = (0..count).map(|_| fingerprint(&mut noise)).collect();
    assert_eq!(fingerprints.len() as u64, count);
    let ordinal = |at: usize| Ordinal((at as u64 * 7919 + seed) % count);
    fingerprints
        .into_iter()
        .enumerate()
        .map(|(at, fingerprint)| Reference { fingerprint, ordinal: ordinal(at) })
        .collect()
}

fn perfect(chunks: &[Reference], cover: Cover, seed: u64) -> Perfect {
    let mut builder = Builder::new(cover, seed);
    for chunk in chunks {
        builder.push(&chunk.fingerprint).unwrap();
    }
    builder.finish().unwrap()
}

/// Marks every third of the covered chunks, in pieces, and compares all with the dullest set.
fn check(set: &mut dyn LiveSet, chunks: &[Reference], covered: impl Fn(&Reference) -> bool) {
    let marked: Vec<Reference> = chunks.iter().step_by(3).copied().collect();
    for piece in marked.chunks(1000) {
        set.mark(piece);
    }
    let model: BTreeSet<Fingerprint> = marked.iter().map(|chunk| chunk.fingerprint).collect();
    let mut found = Vec::new();
    set.look_up(chunks, &mut found);
    assert_eq!(found.len(), chunks.len());
    for (chunk, live) in chunks.iter().zip(found) {
        assert_eq!(live, !covered(chunk) || model.contains(&chunk.fingerprint), "{chunk:?}");
    }
}

#[test]
fn a_chunk_is_live_if_and_only_if_it_was_marked() {
    for (count, seed) in [(1, 1), (2, 2), (3, 3), (17, 4), (1_000, 5), (16_384, 6), (100_003, 7)] {
        let chunks = chunks(count, seed);
        check(&mut Ordinals::new(Ordinal(count)), &chunks, |_| true);
        check(&mut perfect(&chunks, Cover::all(count), seed), &chunks, |_| true);
    }
}

#[test]
fn thousands_of_small_sets_are_exact() {
    for seed in 0..3_000 {
        let chunks = chunks(1 + seed % 97, seed);
        check(&mut perfect(&chunks, Cover::all(chunks.len() as u64), seed), &chunks, |_| true);
    }
}

#[test]
fn what_is_outside_of_the_turn_counts_as_live_and_takes_no_mark() {
    let chunks = chunks(100_000, 8);
    let all = Cover::all(100_000);
    let mut covered = 0;
    for turn in 0..3 {
        let cover = all.share(turn, 3);
        check(&mut perfect(&chunks, cover, 9), &chunks, |chunk| cover.has(&chunk.fingerprint));
        covered += chunks.iter().filter(|chunk| cover.has(&chunk.fingerprint)).count();
    }
    assert_eq!(covered, chunks.len(), "each chunk has one turn");
}

#[test]
fn newer_ordinals_count_as_live_and_take_no_mark() {
    let chunks = chunks(1_000, 10);
    check(&mut Ordinals::new(Ordinal(900)), &chunks, |chunk| chunk.ordinal < Ordinal(900));
}

#[test]
fn a_fingerprint_of_no_chunk_does_no_harm_but_to_the_dead() {
    let chunks = chunks(50_000, 11);
    let mut set = perfect(&chunks, Cover::all(50_000), 12);
    set.mark(&chunks);
    let mut noise = Noise(13);
    let strangers: Vec<Reference> = (0..10_000)
        .map(|_| Reference { fingerprint: fingerprint(&mut noise), ordinal: Ordinal(u64::MAX) })
        .collect();
    set.mark(&strangers);
    let mut found = Vec::new();
    set.look_up(&strangers, &mut found);
    set.look_up(&chunks, &mut found);
    assert!(found[strangers.len()..].iter().all(|&live| live));
}

#[test]
fn memory_is_at_most_2_45_bits_a_fingerprint() {
    let chunks = chunks(1_000_000, 14);
    let set = perfect(&chunks, Cover::all(1_000_000), 15);
    assert!(set.bits_per_fingerprint() <= 2.45, "{} bits", set.bits_per_fingerprint());
}

#[test]
fn fingerprints_out_of_order_are_refused() {
    let chunks = chunks(10, 16);
    let mut builder = Builder::new(Cover::all(10), 17);
    builder.push(&chunks[1].fingerprint).unwrap();
    assert_eq!(builder.push(&chunks[1].fingerprint), Err(BuildError::Unsorted));
    assert_eq!(builder.push(&chunks[0].fingerprint), Err(BuildError::Unsorted));
}

#[test]
fn fingerprints_that_are_no_hashes_are_refused() {
    let alike = |last: u8| {
        let mut bytes = [7; 32];
        bytes[31] = last;
        Fingerprint(bytes)
    };
    let mut builder = Builder::new(Cover::all(2), 18);
    builder.push(&alike(1)).unwrap();
    builder.push(&alike(2)).unwrap();
    assert_eq!(builder.finish().unwrap_err(), BuildError::Clash);

    let mut builder = Builder::new(Cover::all(2), 19);
    let mut numbered = (0..=u32::from(u16::MAX)).map(|number| {
        let mut bytes = [0; 32];
        bytes[8..12].copy_from_slice(&number.to_be_bytes());
        Fingerprint(bytes)
    });
    assert_eq!(numbered.find_map(|it| builder.push(&it).err()), Some(BuildError::Crowded(1 << 16)));
}

#[test]
fn a_set_of_nothing_takes_strangers() {
    let strangers = chunks(1_000, 20);
    let mut set = perfect(&[], Cover::all(0), 21);
    set.mark(&strangers);
    let mut found = Vec::new();
    set.look_up(&strangers, &mut found);
    assert_eq!(found.len(), strangers.len());
    assert_eq!(set.marked(0), 0, "no chunk is marked");
}

#[test]
fn many_at_once_are_marked_like_one_after_the_other() {
    let chunks = chunks(200_000, 22);
    let (mut at_once, mut one_by_one) =
        (perfect(&chunks, Cover::all(200_000), 23), perfect(&chunks, Cover::all(200_000), 23));
    let some: Vec<Reference> = chunks.iter().rev().step_by(2).copied().collect();
    at_once.mark(&some);
    some.iter().for_each(|chunk| one_by_one.mark(std::slice::from_ref(chunk)));
    let (mut of_one, mut of_the_other) = (Vec::new(), Vec::new());
    at_once.look_up(&chunks, &mut of_one);
    chunks.iter().for_each(|chunk| one_by_one.look_up(std::slice::from_ref(chunk), &mut of_the_other));
    assert_eq!(of_one, of_the_other);
    assert_eq!(of_one.iter().filter(|&&is_live| is_live).count(), some.len());
    let marked = |set: &Perfect| (0..set.parts()).map(|part| set.marked(part)).sum::<u64>();
    assert_eq!((marked(&at_once), marked(&one_by_one)), (100_000, 100_000));
}
