//! Histories made from a seed.

use super::{Ask, Deed, History, Origin, Setup, Step};
use crate::content::{CELL_BYTES, Tag};
use crate::dice::Dice;
use crate::medium::FaultKind;
use crate::remanence::SECTOR_BYTES;
use quietus_core::media::MediumId;
use quietus_core::store::overlay::Mode;
use quietus_core::units::{Addr, BLOCK_BYTES, Extent};

const SECTOR: u64 = SECTOR_BYTES as u64;
const POLICIES: [&str; 5] = ["clear", "purge-2", "purge-2", "4", "dod-3"];

impl History {
    /// The history of `seed`.
    #[must_use]
    pub fn from_seed(seed: u64) -> Self {
        let mut dice = Dice::new(seed);
        let setup = Setup::roll(&mut dice).perhaps_overlay(&mut Dice::new(!seed));
        let mut mood = Mood::roll(&mut dice, &setup);
        if setup.overlay.is_some() {
            mood.full_weight = Dice::new(seed.reverse_bits()).pick(&[0, 0, 4, 12]);
        }
        let count = dice.range(5, 70) as u32;
        let steps = (1..=count).map(|n| mood.step(n, &mut dice)).collect();
        Self { seed, setup, steps }
    }
}

impl Setup {
    /// A disk in place, as `seed` has it.
    #[must_use]
    pub fn of_seed(seed: u64) -> Self {
        Self::roll(&mut Dice::new(seed))
    }

    fn roll(dice: &mut Dice) -> Self {
        let blocks = dice.range(4, 40);
        let odd_end = if dice.chance(20) { dice.range(1, 7) * SECTOR } else { 0 };
        Self {
            disk_bytes: blocks * BLOCK_BYTES + odd_end,
            policy: dice.pick(&POLICIES),
            punch: dice.chance(50),
            run_bytes_max: dice.pick(&[4096, 8192, 65536]),
            batch_bytes_max: dice.pick(&[4096, 32768, 1 << 20]),
            idle_after_ms: 250,
            deadline_ms: dice.pick(&[1_000, 600_000]),
            detect_zeroes: dice.chance(30),
            half_bytes: dice.pick(&[8192, 8192, 16384]),
            slots: dice.pick(&[1, 2, 4, 8]),
            in_flight_max: dice.range(1, 6) as usize,
            destage_percent: dice.pick(&[0, 5, 30]),
            tells_holes: dice.chance(50),
            origin: dice.pick(&[Origin::Empty, Origin::Empty, Origin::Adopted, Origin::Foreign]),
            overlay: None,
            base_bytes: 0,
        }
    }

    /// The same disk as an overlay, more often than not.
    fn perhaps_overlay(self, dice: &mut Dice) -> Self {
        let modes = [None, None, Some(Mode::Packed), Some(Mode::Lazy), Some(Mode::Lazy), Some(Mode::Punch)];
        let base_bytes =
            if dice.chance(50) { self.disk_bytes } else { dice.range(1, self.disk_bytes / SECTOR) * SECTOR };
        let overlay = dice.pick(&modes);
        let policy = if overlay.is_some() && dice.chance(15) { "none" } else { self.policy };
        Self { overlay, policy, base_bytes, ..self }
    }
}

/// Kind of a history: the same choices all along give the rare combinations a chance.
struct Mood {
    disk_bytes: u64,
    /// Places where most things happen, so that they meet.
    hot: Vec<u64>,
    hot_percent: u64,
    odd_percent: u64,
    scour_weight: u64,
    crash_weight: u64,
    fault_weight: u64,
    /// Weight of a full host, and of space on it again.
    full_weight: u64,
    turns_max: u64,
    /// Media that can fail.
    targets: &'static [MediumId],
}

impl Mood {
    fn roll(dice: &mut Dice, setup: &Setup) -> Self {
        let blocks = setup.disk_bytes / BLOCK_BYTES;
        Self {
            disk_bytes: setup.disk_bytes,
            hot: (0..dice.range(1, 3)).map(|_| dice.below(blocks) * BLOCK_BYTES).collect(),
            hot_percent: dice.pick(&[0, 50, 90]),
            odd_percent: dice.pick(&[0, 0, 10]),
            scour_weight: dice.pick(&[0, 1, 12]),
            crash_weight: dice.pick(&[0, 1, 5]),
            fault_weight: dice.pick(&[0, 0, 0, 2]),
            full_weight: 0,
            turns_max: dice.pick(&[2, 8, 40]),
            targets: if setup.overlay.is_some() {
                &[MediumId::Data, MediumId::Journal, MediumId::Map, MediumId::Base]
            } else {
                &[MediumId::Data, MediumId::Journal]
            },
        }
    }

    fn step(&self, tag: u32, dice: &mut Dice) -> Step {
        let deed = self.deed(dice);
        let turns = dice.below(self.turns_max + 1) as u8;
        Step { tag: Tag(tag), turns, salt: dice.roll(), deed }
    }

    fn deed(&self, dice: &mut Dice) -> Deed {
        let [crash, full] = [self.crash_weight, self.full_weight];
        let weights = [70, 4, 4, 2, 1, crash, crash, self.fault_weight, full, full];
        match weighted(dice, &weights) {
            0 => self.request(dice),
            1 => Deed::Wait { ms: dice.pick(&[1, 100, 300, 2_000, 700_000]) },
            2 => Deed::ShredNow,
            3 => Deed::Drain,
            4 => Deed::Restart,
            5 => Deed::Kill,
            6 => Deed::PowerCut { again_after: dice.chance(30).then(|| dice.below(25) as u32) },
            7 => self.fault(dice),
            8 => Deed::Full,
            _ => Deed::Room,
        }
    }

    fn request(&self, dice: &mut Dice) -> Deed {
        let (ask, fua) = self.ask(dice);
        let extent = if ask == Ask::Flush { Extent::default() } else { self.extent(dice) };
        Deed::Send { ask, extent, fua }
    }

    fn ask(&self, dice: &mut Dice) -> (Ask, bool) {
        let weights = [14, 34, 3, 18, 6, 3, self.scour_weight, 1, 8];
        let ask = match weighted(dice, &weights) {
            0 => Ask::Read,
            1 => Ask::Write,
            2 => Ask::WriteZeros,
            3 => Ask::Trim,
            4 => Ask::Zero { no_hole: dice.chance(50), fast: dice.chance(20) },
            5 => Ask::Purge,
            6 => Ask::Scour,
            7 => Ask::Cache,
            _ => Ask::Flush,
        };
        (ask, dice.chance(15))
    }

    fn fault(&self, dice: &mut Dice) -> Deed {
        let target = dice.pick(self.targets);
        let kinds = [FaultKind::Read, FaultKind::Write, FaultKind::Sync, FaultKind::Sync, FaultKind::Space];
        Deed::Fault { target, kind: dice.pick(&kinds), after: dice.below(8) as u32 }
    }

    fn extent(&self, dice: &mut Dice) -> Extent<Addr> {
        let grain = match dice.below(100) {
            n if n < self.odd_percent => dice.pick(&[1, CELL_BYTES]),
            n if n < 35 => SECTOR,
            _ => BLOCK_BYTES,
        };
        let longest = dice.pick(&[1, 2, 4, 4, 10]) * grain.max(SECTOR);
        let at = if dice.chance(self.hot_percent) {
            dice.pick(&self.hot) + dice.below(4) * grain
        } else {
            dice.below(self.disk_bytes)
        };
        let start = (at / grain * grain).min(self.disk_bytes - 1);
        let len = (dice.range(1, longest).div_ceil(grain) * grain).min(self.disk_bytes - start);
        Extent::new(start, len)
    }
}

/// An index, as often as its weight says.
fn weighted(dice: &mut Dice, weights: &[u64]) -> usize {
    let mut left = dice.below(weights.iter().sum());
    let mut index = 0;
    while left >= weights[index] {
        left -= weights[index];
        index += 1;
    }
    index
}
