//! What a store that keeps epochs hears of deaths: which ones are of content that is not plain.

use super::*;

fn blocks(first: u64, count: u64) -> Extent<Addr> {
    Extent::new(first * BLOCK, count * BLOCK)
}

/// A disk with eight blocks, of which the first four are plain, in the second epoch.
fn marked() -> (Bench, Book, Puppet) {
    let ((mut bench, book), puppet) = (versions(), Puppet::with_marks());
    bench.volume.watch(Box::new(puppet.clone()));
    bench.write(0, 7, 8 * BLOCK);
    puppet.is_plain(blocks(0, 4), true);
    bench.done(Op::CloseEpoch { when: 5, anew: false }, 0, 0).unwrap();
    (bench, book, puppet)
}

#[test]
fn what_a_guest_frees_is_told_unless_it_is_plain_and_all_of_it_dies() {
    let (mut bench, book, _) = marked();
    for (start, len) in [(2 * BLOCK, 3 * BLOCK), (5 * BLOCK + 10, 20)] {
        bench.done(Op::Trim, start, len).unwrap();
    }
    bench.write(7 * BLOCK, 8, BLOCK);
    bench.idle();
    assert_eq!(book.get().deaths, [(blocks(4, 1), Epoch(2)), (Extent::new(5 * BLOCK + 10, 20), Epoch(2))]);
    assert_eq!(bench.reads(2 * BLOCK, 3 * BLOCK), [0; 3 * 4096]);
    assert_eq!((bench.dead() + bench.owed(), bench.volume.status().counters.plain_bytes), (0, 0));
}

#[test]
fn what_is_found_dead_and_what_its_owner_purges_is_told() {
    let (mut bench, book, puppet) = marked();
    bench.done(Op::Purge, 0, BLOCK).unwrap();
    puppet.finds_dead(Extent::new(5 * BLOCK, BLOCK + 100));
    bench.idle();
    let told = |block: u64| book.get().deaths.iter().any(|(part, _)| part.overlaps(blocks(block, 1)));
    assert_eq!([0, 1, 4, 5, 6, 7].map(told), [true, false, false, true, true, false]);
    assert!(book.get().deaths.iter().all(|(_, epoch)| *epoch == Epoch(2)));
}
