//! Purges, and what they leave.

use super::*;
use crate::store::sealed::layout::PAGE_BYTES;
use crate::store::{Backlog, StoreStatus};
use std::collections::BTreeSet;

/// The cells of chosen blocks as they have to be, and all that there ever were.
struct Model {
    cells: BTreeMap<u64, [u8; 32]>,
    seen: BTreeSet<[u8; 32]>,
}

impl Model {
    fn new(bench: &mut Bench, blocks: impl IntoIterator<Item = u64>) -> Self {
        let cells: BTreeMap<_, _> = blocks.into_iter().map(|block| (block, bench.cell(block))).collect();
        let seen: BTreeSet<_> = cells.values().copied().collect();
        assert_eq!(seen.len(), cells.len(), "each block has a cell of its own");
        Self { cells, seen }
    }

    /// The cells of blocks that are not `changed` are as before; those of others are new.
    fn check(&mut self, bench: &mut Bench, changed: &[Range<u64>]) {
        for (block, before) in &mut self.cells {
            let now = bench.cell(*block);
            if changed.iter().any(|run| run.contains(block)) {
                assert!(self.seen.insert(now), "block {block} has a fresh cell");
                *before = now;
            } else {
                assert_eq!(now, *before, "block {block} keeps its cell");
            }
        }
    }
}

fn random_runs(dice: &mut Dice, blocks: u64) -> Vec<Range<u64>> {
    let count = dice.below(6) + 1;
    (0..count)
        .map(|_| {
            let longest = [1, 3, 130, 3 * 112, 13_000, blocks][dice.below(6) as usize].min(blocks);
            let start = dice.below(blocks);
            start..(start + 1 + dice.below(longest)).min(blocks)
        })
        .collect()
}

/// Random purges, writes of dead blocks, checkpoints and restarts of a disk with so many blocks, of which the chosen ones are looked at.
fn cells_follow_the_model(blocks: u64, looked_at: Option<u64>, seed: u64) {
    let mut bench = Bench::new(blocks * BLOCK_BYTES - 100);
    let mut dice = Dice(seed);
    let chosen: BTreeSet<u64> = match looked_at {
        None => (0..blocks).collect(),
        Some(count) => (0..count).map(|_| dice.below(blocks)).collect(),
    };
    let mut model = Model::new(&mut bench, chosen.iter().copied());
    for _ in 0..12 {
        let mut dead = random_runs(&mut dice, blocks);
        if looked_at.is_some() {
            dead.extend(chosen.iter().filter(|_| dice.below(10) == 0).map(|block| *block..*block + 1));
        }
        bench.purge(&dead);
        model.check(&mut bench, &dead);
        let written: Vec<_> =
            dead.iter().filter(|run| run.end - run.start < 5000 && dice.below(2) == 0).cloned().collect();
        written.iter().for_each(|run| bench.write(run.clone()));
        model.check(&mut bench, &written);
        bench.checkpoint();
        if dice.below(3) == 0 {
            bench.restart();
        }
        model.check(&mut bench, &[]);
    }
}

#[test]
fn live_blocks_keep_their_cells_and_dead_ones_get_others_at_any_height() {
    for (blocks, seed) in [(1, 1), (50, 2), (112, 3), (113, 4), (3000, 5)] {
        cells_follow_the_model(blocks, None, seed);
    }
    for (blocks, seed) in [(12_544, 6), (12_545, 7), (30_000, 8)] {
        cells_follow_the_model(blocks, Some(400), seed);
    }
}

#[test]
fn live_blocks_of_a_large_disk_keep_their_cells() {
    cells_follow_the_model(200 * GIB / BLOCK_BYTES, Some(150), 9);
}

/// What a start finds after so many jobs, of which only some steps of the last one came about.
#[test]
fn a_crash_between_any_two_jobs_leaves_the_old_keys_or_the_new_ones() {
    let mut bench = Bench::new(13_000 * BLOCK_BYTES);
    bench.purge(&[5..6, 600..900, 12_000..12_100]);
    bench.write(600..700);
    bench.checkpoint();
    let scattered = (0..60).map(|n| n * 120 + 7..n * 120 + 8);
    let dead: Vec<_> =
        [0..3, 200..500, 890..900, 7000..9000, 12_999..13_000].into_iter().chain(scattered).collect();
    let looked_at: Vec<u64> = (0..1000).chain(6990..7010).chain(8990..9010).chain(12_990..13_000).collect();
    let old: Vec<_> = looked_at.iter().map(|block| bench.cell(*block)).collect();
    let is_dead = |block: &u64| dead.iter().any(|run| run.contains(block));
    let mut is_turned = false;
    bench.begin_purge(&dead);
    let mut crashes = 0;
    while let Some(job) = bench.store.background(false) {
        let last = if matches!(job, Job::Turn(_)) { 3 } else { 1 };
        for steps in 0..=last {
            let read = if steps > 0 { bench.perform(&job, steps) } else { Vec::new() };
            let media = (bench.map.content(), bench.root.content());
            is_turned |= steps == 2;
            let (before, known) = (bench.store.position(), bench.start(Some(bench.store.position()), &[]));
            let found = std::mem::replace(&mut bench.store, known.expect("the disk opens"));
            assert_eq!(bench.store.position().purge, before.purge + u32::from(is_turned));
            let now: Vec<_> = looked_at.iter().map(|block| bench.cell(*block)).collect();
            for ((block, old), now) in looked_at.iter().zip(&old).zip(&now) {
                assert_eq!(
                    old != now,
                    is_turned && is_dead(block),
                    "block {block} after {steps} steps of {job:?}"
                );
            }
            assert!(
                is_turned || bench.store.early.cell(650).is_some(),
                "before the turn the log has early cells"
            );
            assert!(
                !is_turned || bench.store.early.cell(650).is_none(),
                "the next log does not have those that are in leaves"
            );
            bench.store = found;
            bench.map.put_back(&media.0);
            bench.root.put_back(&media.1);
            if steps == last {
                bench.store.background_done(JobEnd::Done(&read));
            }
            crashes += 1;
        }
    }
    assert!(is_turned && crashes > 10, "{crashes} crashes");
}

#[test]
fn after_a_purge_the_media_do_not_open_what_they_opened_before() {
    let mut bench = Bench::new(13_000 * BLOCK_BYTES);
    bench.purge(&[1..2]);
    let map = bench.map.content();
    let before = bench.cell(500);
    bench.purge(&[500..501]);
    assert_ne!(bench.cell(500), before);
    // The old pages come back, and the old root does not.
    bench.map.put_back(&map);
    assert!(bench.start(None, &[]).is_err());
    let place = crate::store::sealed::root::area(crate::store::sealed::root::slot_of(2)).extent;
    assert_eq!(bench.root.bytes(place), vec![0; 4096], "the old slot is zeros");
}

#[test]
fn ten_thousand_random_blocks_of_a_terabyte_take_two_pages_each_at_most_and_little_memory() {
    let mut bench = Bench::new(1000 * 1000 * MIB);
    let (mut dice, blocks) = (Dice(3), bench.blocks());
    let mut held = Vec::new();
    for (count, pages_max) in [(1, 6), (10_000, 20_000), (300, 1200)] {
        let dead: Vec<_> = (0..count).map(|_| dice.below(blocks)).map(|block| block..block + 1).collect();
        bench.begin_purge(&dead);
        let (mut pages, mut most) = (0, 0);
        while let Some(job) = bench.step() {
            pages += match job {
                Job::Put(places, _) => places.len(),
                Job::Turn(turn) => turn.keys.0.len(),
                _ => 0,
            };
            most = most.max(bench.store.purge.as_ref().map_or(0, |it| it.pages_held()));
        }
        assert!(pages <= pages_max, "{pages} pages for {count} blocks");
        held.push(most);
    }
    // A path of five, sixteen that wait to be written, and what was read ahead on each level.
    assert!(held.iter().all(|most| *most <= 5 + 16 + 4 * 15), "{held:?} pages in memory");
    assert!(held[2] >= 20, "the second purge reads pages: {held:?}");
}

#[test]
fn one_piece_of_64_mib_takes_few_pages_and_little_of_the_root() {
    let mut bench = Bench::new(100 * GIB);
    for first in [0, 12_345, 1_404_900] {
        let written = [&bench.map, &bench.root].map(|medium| medium.written.replace(0));
        assert!(written[0] > 0);
        bench.purge(&[first..first + 16_384]);
        let written = bench.map.written.get() + bench.root.written.get();
        assert!(written <= 40 << 10, "{written} bytes for blocks from {first} on");
    }
}

#[test]
fn a_subtree_that_is_dead_as_a_whole_becomes_a_seed_also_where_the_disk_ends() {
    // Two leaves and the part of a third.
    let mut bench = Bench::new(250 * BLOCK_BYTES);
    assert_eq!(bench.purge(&[0..1]), 2);
    assert_eq!(bench.purge(&[0..112]), 1, "the leaf is not written any more");
    assert_eq!(bench.purge(&[224..250]), 1);
    assert_eq!(bench.purge(&[0..250]), 1);
    assert_eq!(bench.purge(&[230..250]), 2);
    assert_eq!(bench.purge(&[]), 1, "the log begins anew");
}

#[test]
fn a_page_goes_to_its_other_place_and_the_one_in_use_stays() {
    let mut bench = Bench::new(13_000 * BLOCK_BYTES);
    let mut last = BTreeMap::new();
    for purge in 0..4 {
        bench.begin_purge(&[700..701]);
        while let Some(job) = bench.step() {
            let places = match &job {
                Job::Put(places, _) => places.clone(),
                Job::Turn(turn) => turn.keys.0.clone(),
                _ => Vec::new(),
            };
            for place in places {
                assert_eq!(place.extent.len, PAGE_BYTES);
                let pair = bench.store.tree.layout.page_at(place.extent.start).expect("a page");
                let before = last.insert(pair, place);
                assert!(before.is_none_or(|before| before != place), "{pair:?} in purge {purge}");
            }
        }
    }
    assert_eq!(last.len(), 3, "the path to one block");
}

#[test]
fn a_job_that_was_given_up_comes_again_and_so_does_the_old_top_cell_until_it_is_destroyed() {
    let mut bench = Bench::new(13_000 * BLOCK_BYTES);
    bench.begin_purge(&[3..4]);
    let mut turned = None;
    while turned.is_none() {
        let job = bench.store.background(false).expect("the purge goes on");
        bench.store.background_done(JobEnd::GivenUp);
        assert_eq!(bench.store.background(false).as_ref(), Some(&job));
        let is_turn = matches!(job, Job::Turn(_));
        let read = bench.perform(&job, if is_turn { 2 } else { 1 });
        let end = if is_turn { JobEnd::Remains(&[]) } else { JobEnd::Done(&read) };
        bench.store.background_done(end);
        turned = if let Job::Turn(turn) = job { Some(turn) } else { None };
    }
    assert_eq!((bench.store.position().purge, bench.store.is_purging()), (2, true));
    let job = Job::Destroy(turned.map(|turn| turn.old).unwrap_or_default());
    for _ in 0..2 {
        assert_eq!(bench.store.backlog(false), Backlog::Remains);
        assert_eq!(bench.store.background(false).as_ref(), Some(&job));
        bench.store.background_done(JobEnd::Remains(&[]));
    }
    assert!(bench.step().is_some() && !bench.store.is_purging());
    assert_eq!(bench.store.backlog(false), Backlog::Nothing);
    bench.restart();
    assert_eq!(bench.store.position().purge, 2);
}

#[test]
fn a_damaged_page_stops_all_purges_and_is_named() {
    let mut bench = Bench::new(13_000 * BLOCK_BYTES);
    bench.purge(&[700..701]);
    bench.restart();
    let pair =
        bench.store.tree.layout.pair(crate::store::sealed::layout::PageId { level: 1, index: 0 }).extent;
    bench.map.flip(pair.start.0 + 100);
    bench.map.flip(pair.start.0 + 100 + PAGE_BYTES);
    let bytes = bench.map.bytes(pair);
    let place = bench.store.missing(bytes_of(700..701)).expect("the page is not in memory");
    assert_eq!(place.extent, pair);
    assert_eq!(
        bench.store.loaded(place, &bytes),
        Ok(()),
        "a purge may have ended since the page was asked for"
    );
    let error = bench.store.loaded(place, &bytes).expect_err("the page is damaged");
    assert!(error.contains("page 0 of level 1") && error.contains("is damaged: bytes 0 to"), "{error}");
    bench.begin_purge(&[701..702]);
    while bench.step().is_some() {}
    let StoreStatus::Sealed(status) = bench.store.status() else { panic!("another store") };
    let stopped = status.stopped.expect("the purge has stopped");
    assert!(stopped.contains("page 0 of level 1") && stopped.contains("restore a backup"), "{stopped}");
    assert_eq!(bench.store.status().trouble(), Some(stopped));
    assert!(status.is_purging && !bench.store.has_room(bytes_of(0..1)));
    assert_eq!(bench.store.backlog(true), Backlog::Nothing);
}

#[test]
fn pages_of_the_old_tree_leave_the_memory_and_those_of_the_new_one_stay() {
    let mut bench = Bench::new(13_000 * BLOCK_BYTES);
    bench.purge(&[700..701, 5000..5001]);
    bench.load(700..701);
    bench.load(5000..5001);
    assert_eq!(bench.store.tree.cache.len(), 3);
    bench.purge(&[701..702]);
    assert_eq!(bench.store.tree.cache.len(), 3);
    assert_eq!(bench.store.missing(bytes_of(701..702)), None, "what was in memory is there in its new form");
    bench.purge(&[0..12_544]);
    assert_eq!(bench.store.tree.cache.len(), 0, "the pages of a subtree that died are gone");
}

#[test]
fn a_purge_writes_only_pages_for_which_the_writes_of_its_blocks_have_taken_space() {
    for (size, seed) in [(100, 1), (3000, 2), (200_000, 3), (100 * GIB / BLOCK_BYTES, 4)] {
        let (mut bench, mut dice) = (Bench::new(size * BLOCK_BYTES), Dice(seed));
        let runs: Vec<_> = (0..20).map(|_| random_runs(&mut dice, size)).map(|it| it[0].clone()).collect();
        let short = runs.iter().filter(|run| run.end - run.start < 5000);
        for run in short.clone() {
            let extent = Extent::between(run.start * BLOCK_BYTES, run.end * BLOCK_BYTES);
            while let Some(place) = bench.store.lacks_space(extent, false) {
                bench.store.reserved(place);
            }
        }
        let spacious = bench.store.spacious.clone();
        bench.begin_purge(&short.cloned().collect::<Vec<_>>());
        let mut pages = 0;
        while let Some(job) = bench.store.background(false) {
            let places = match &job {
                Job::Put(places, _) => places.clone(),
                Job::Turn(it) => it.keys.0.clone(),
                _ => Vec::new(),
            };
            for place in &places {
                assert_eq!(spacious.first_run(place.extent), Some(place.extent), "{size} blocks");
            }
            pages += places.len();
            let read = bench.perform(&job, usize::MAX);
            bench.store.background_done(JobEnd::Done(&read));
        }
        assert!(pages > 0);
    }
}
