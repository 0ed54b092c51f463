//! What deletions cost where blocks are full of other live units.

use super::*;
use crate::chip::rng::Rng;

/// Number of deletions of each kind.
const ROUNDS: u64 = 16;
/// Number of blocks of the chip. With 1024, fewer blocks hold several of 64 units.
const BLOCKS: u32 = 256;

/// A chip that is 78 % full, with units overwritten at random, twice as many as there are.
fn aged() -> Flash<MemoryChip> {
    let geometry = Geometry { blocks: BLOCKS, ..geometry(2048, 64) };
    let units = u64::from(BLOCKS) * 32 * 78 / 100;
    let chip = MemoryChip::new(geometry, SLC, Nature::default(), 1);
    let mut flash = Flash::format(chip, DISK, units * UNIT).unwrap();
    for unit in 0..units {
        flash.write(Pos(unit * UNIT), &[1; UNIT_BYTES]).unwrap();
    }
    overwrite(&mut flash, &mut Rng::new(1), 2 * units);
    flash
}

fn overwrite(flash: &mut Flash<MemoryChip>, rng: &mut Rng, count: u64) {
    let units = flash.size() / UNIT;
    for _ in 0..count {
        flash.write(Pos(rng.below(units) * UNIT), &[2; UNIT_BYTES]).unwrap();
    }
    flash.sync().unwrap();
}

/// The programs and erases of deletions of `count` units each, their microseconds, and the programs that copies alone need.
#[derive(Default, Debug)]
struct Cost {
    programs: u64,
    erases: u64,
    micros: u64,
    needed: u64,
}

fn cost(flash: &mut Flash<MemoryChip>, rng: &mut Rng, count: u64) -> Cost {
    let (units, mut cost) = (flash.size() / UNIT, Cost::default());
    for _ in 0..ROUNDS {
        overwrite(flash, rng, 200);
        let extents: Vec<Extent<Pos>> =
            (0..count).map(|_| Extent::new(rng.below(units) * UNIT, UNIT)).collect();
        for extent in &extents {
            flash.trim(*extent).unwrap();
        }
        flash.sync().unwrap();
        let set: std::collections::BTreeSet<u64> =
            extents.iter().map(|extent| extent.start.0 / UNIT).collect();
        let holders: std::collections::BTreeSet<_> = flash
            .map
            .stale()
            .filter(|(unit, _)| set.contains(&u64::from(unit.0)))
            .map(|(_, block)| block)
            .collect();
        let live: u64 = holders.iter().map(|block| u64::from(flash.space.blocks[*block].live)).sum();
        cost.needed += 2 * live;
        let before = flash.chip.nand.counts();
        flash.erase(&extents, Keep::Nothing).unwrap();
        let after = flash.chip.nand.counts();
        cost.programs += after.programs - before.programs;
        cost.erases += after.erases - before.erases;
        cost.micros += after.micros - before.micros;
        assert!(after.erases - before.erases >= holders.len() as u64);
    }
    cost
}

#[test]
fn deletions_copy_each_live_unit_once() {
    let (mut flash, mut rng) = (aged(), Rng::new(2));
    // The rest is headers, marks, records, and the list of what is erased.
    for (count, percent_max) in [(1, 110), (8, 108), (64, 105)] {
        let cost = cost(&mut flash, &mut rng, count);
        let per = |total: u64| total as f64 / (ROUNDS * count) as f64;
        println!(
            "{count} units at once: {:.1} programs (copies: {:.1}), {:.2} erases, {:.0} us a unit",
            per(cost.programs),
            per(cost.needed),
            per(cost.erases),
            per(cost.micros)
        );
        assert!(cost.programs * 100 <= cost.needed * percent_max, "{count} units at once: {cost:?}");
    }
}
