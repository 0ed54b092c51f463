//! Random histories: requests, failures of the chip, cuts of the power at any operation, also in starts.

use super::world::World;
use super::*;
use crate::mutant::{Mutant, activate};

/// Steps of a history.
const STEPS: u64 = 120;

fn nature(seed: u64) -> Nature {
    match seed % 4 {
        0 | 1 => Nature::default(),
        2 => Nature { weak_blocks: 3, ..Nature::default() },
        _ => Nature {
            bad_blocks: 30,
            weak_blocks: 6,
            deaths_in_program: 3_000,
            deaths_in_erase: 400,
            stubborn: 3,
        },
    }
}

fn world(seed: u64) -> World {
    let (page_bytes, block_pages) = GEOMETRIES[(seed / 4 % GEOMETRIES.len() as u64) as usize];
    let geometry = geometry(page_bytes, block_pages);
    let units = [60, 12, 1_000][(seed / 16 % 3) as usize];
    let mut world = World::new(geometry, nature(seed), units, seed);
    world.set_apart(seed / 48 % 2 * 3);
    world
}

/// One request.
fn step(world: &mut World) -> Result<(), FlashError> {
    let units = world.units();
    let is_apart = world.apart > 0 && world.rng.once_in(3);
    let first = world.rng.below(if is_apart { world.apart } else { units });
    let count = 1 + world.rng.below((units - first).min(6));
    match world.rng.below(20) {
        0..=9 => (first..first + count).try_for_each(|unit| world.write(unit)),
        10 | 11 => world.trim(first, count),
        12..=15 => world.sync(),
        16 => world.erase(first, count, Keep::Nothing),
        17 => world.erase(first, count, Keep::Present),
        18 => {
            world.flash().scrub(64)?;
            world.check_unit(first)
        }
        _ => world.restart(&[]),
    }
}

/// Plays a history in which the power is cut now and then. Whether the chip wore out before its end.
fn play(seed: u64) -> World {
    let mut world = world(seed);
    for _ in 0..STEPS {
        if world.rng.once_in(8) {
            let changes = world.rng.below(40);
            world.flash().chip.nand.cut_after(changes);
        }
        let result = step(&mut world);
        if world.flash.as_ref().is_some_and(|flash| flash.chip.nand.is_off()) {
            let cuts = world.rng.below(4);
            let cuts: Vec<u64> = (0..cuts).map(|_| world.rng.below(30)).collect();
            if let Err(error) = world.restart(&cuts) {
                assert!(world.may_wear_out, "{error}");
                return world;
            }
        } else if let Err(error) = result {
            assert!(world.may_wear_out, "{error}");
            return world;
        }
    }
    world.flash().chip.nand.restore();
    world.check_content().unwrap();
    world.check_tables();
    world
}

/// Runs `test`, and says which seed failed.
pub(super) fn seeded(seed: u64, test: impl FnOnce() + std::panic::UnwindSafe) {
    if let Err(panic) = std::panic::catch_unwind(test) {
        eprintln!("the history of seed {seed} fails");
        std::panic::resume_unwind(panic);
    }
}

/// The number of histories: `QUIETUS_FLASH_HISTORIES` at compile time, else a few.
pub(super) fn histories(few: u64) -> u64 {
    option_env!("QUIETUS_FLASH_HISTORIES").and_then(|count| count.parse().ok()).unwrap_or(few)
}

/// The first seed: `QUIETUS_FLASH_SEED` at compile time, else 0.
pub(super) fn first_seed() -> u64 {
    option_env!("QUIETUS_FLASH_SEED").and_then(|seed| seed.parse().ok()).unwrap_or(0)
}

#[test]
fn random_histories_lose_nothing_and_leave_nothing() {
    for seed in first_seed()..first_seed() + histories(300) {
        seeded(seed, || drop(play(seed)));
    }
}

/// A short history that does everything once. Ends at the first error.
fn script(world: &mut World) -> Result<(), FlashError> {
    for round in 0..6 {
        (0..9).try_for_each(|unit| world.write((unit * 5 + round) % world.units()))?;
        world.sync()?;
        world.trim(round * 3, 2)?;
        world.write(round)?;
        world.sync()?;
        world.erase(round * 4, 3, if round % 2 == 0 { Keep::Nothing } else { Keep::Present })?;
    }
    Ok(())
}

/// Plays the script, with so many units apart, and the power cut after so many changes, then starts with these cuts. Whether the first cut came before the end.
fn cut_script(seed: u64, apart: u64, changes: u64, cuts: &[u64]) -> bool {
    let mut world = World::new(geometry(2048, 8), Nature::default(), 24, seed);
    world.set_apart(apart);
    world.flash().chip.nand.cut_after(changes);
    let is_cut = script(&mut world).is_err();
    world.restart(cuts).unwrap();
    // The disk goes on as if nothing had happened.
    script(&mut world).unwrap();
    world.check_content().unwrap();
    is_cut
}

#[test]
fn the_power_may_be_cut_at_each_change_also_within_starts() {
    let mut changes = 0;
    let mut seed = 0;
    let mut play = |apart, changes, cuts: &[u64]| {
        seed += 1;
        let mut is_cut = false;
        seeded(seed, std::panic::AssertUnwindSafe(|| is_cut = cut_script(seed, apart, changes, cuts)));
        is_cut
    };
    while play(0, changes, &[]) | play(3, changes, &[]) {
        // Cuts at the first changes of a start, and at one change of the start after it.
        let first = changes % 7;
        for cut in (first..42).step_by(if histories(0) > 0 { 1 } else { 7 }) {
            // Units apart in one half of them.
            let apart = (changes + cut / 7) % 2 * 3;
            play(apart, changes, &[cut]);
            play(3 - apart, changes, &[cut, (cut * 5 + changes) % 40]);
        }
        changes += 1;
    }
    assert!(changes > 100, "the script has {changes} changes");
}

/// Seeds of histories that find rare defects.
const RARE: [(Mutant, u64); 6] = [
    (Mutant::BadSpared, 35),
    (Mutant::CountTrials, 304),
    (Mutant::CountGaps, 74),
    (Mutant::CountListed, 3_245),
    (Mutant::TrustWeakMarks, 187),
    (Mutant::KeepFailing, 303),
];
/// Number of histories, from the known seed or from 0 on, after which a defect is given up.
const HUNT_MAX: u64 = 60;

/// The history that finds `mutant`, of requests of any kind or of starts that are cut short.
fn hunt(mutant: Mutant) -> Option<u64> {
    let first = RARE.iter().find(|(rare, _)| *rare == mutant).map_or(0, |(_, seed)| *seed);
    activate(Some(mutant));
    let breaks = |play: fn(u64), seed| std::panic::catch_unwind(|| play(seed)).is_err();
    let is_found = |seed: &u64| breaks(|seed| drop(play(seed)), *seed) || breaks(super::starts::play, *seed);
    let found = (first..first + HUNT_MAX).find(is_found);
    activate(None);
    found
}

#[test]
fn each_deliberate_defect_is_found() {
    let found: Vec<_> = Mutant::EVERY.iter().map(|mutant| (mutant, hunt(*mutant))).collect();
    println!("{found:?}");
    let missed: Vec<_> = found.iter().filter(|(_, found)| found.is_none()).collect();
    assert!(missed.is_empty(), "{missed:?}");
}
