//! Histories made from a seed.

use crate::machine::content::{CELL_BYTES, Tag};
use crate::machine::history::{Action, Ask, History, Origin, Setup, Step, Store};
use crate::machine::medium::FaultKind;
use crate::machine::remanence::SECTOR_BYTES;
use crate::machine::rng::Rng;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_core::media::MediumId;
use quietus_core::store::overlay::Mode;
use quietus_seal::Seal;

const SECTOR: u64 = SECTOR_BYTES as u64;
/// Chosen so that the seeds that found a defect before histories had epochs stay the same histories, without epochs.
const EPOCHS_SALT: u64 = 5490 << 32;
/// Blocks of disks with two leaves, or three, of which the last one is short.
const LEAVES_BLOCKS: [(u64, u64); 2] = [(113, 120), (225, 229)];
/// Numbers of requests for each step of a history of a sealed disk.
const TAGS: u32 = 8;
/// How often, of 100 times, a busy root holds up a purge at once.
const HELD_UP_PERCENT: u64 = 40;
/// Writes in a row that a busy root refuses: with a rest after each of them, from seconds to minutes.
pub const BUSY_TIMES: [u32; 5] = [1, 1, 2, 4, 10];
const POLICIES: [&str; 5] = ["clear", "purge-2", "purge-2", "4", "dod-3"];

impl History {
    pub fn from_seed(seed: u64) -> Self {
        Self::made(seed, 0, Setup::perhaps_overlay)
    }

    /// The history of `seed` of a disk that keeps versions.
    pub fn of_versions(seed: u64) -> Self {
        let epochs_weight = Rng::new(seed ^ EPOCHS_SALT).pick(&[0, 10, 30, 60]);
        Self::made(seed, epochs_weight, Setup::with_versions)
    }

    /// The history of `seed` of a disk on media of which some places will not be erased; in slots that are written once if `spends`.
    pub fn of_stubborn(seed: u64, spends: bool) -> Self {
        let stubborn = |setup: Setup, rng: &mut Rng| Setup { remains: true, ..setup.perhaps_overlay(rng) };
        let spent = |setup: Setup, _: &mut Rng| Setup {
            remains: true,
            store: Store::Spent,
            origin: Origin::Empty,
            ..setup
        };
        Self::made(seed, 0, if spends { spent } else { stubborn })
    }

    /// The history of `seed` of a disk whose content dies with its keys.
    pub fn of_sealed(seed: u64) -> Self {
        Self::made(seed, 0, Setup::sealed)
    }

    /// The same of a sealed disk, with its root on such a medium.
    pub fn of_sealed_erasing(seed: u64) -> Self {
        let stored = |setup: Setup, rng: &mut Rng| Setup { erases: true, punch: true, ..setup.sealed(rng) };
        Self::made(seed, 0, stored)
    }

    /// The same of a disk that keeps versions, with its root on such a medium.
    pub fn of_versions_erasing(seed: u64) -> Self {
        let epochs_weight = Rng::new(seed ^ EPOCHS_SALT).pick(&[0, 10, 30, 60]);
        let stored =
            |setup: Setup, rng: &mut Rng| Setup { erases: true, punch: true, ..setup.with_versions(rng) };
        Self::made(seed, epochs_weight, stored)
    }

    /// The history of `seed` of a disk whose medium leaves what is written over elsewhere, until it erases that.
    pub fn of_erasing(seed: u64) -> Self {
        Self::made(seed, 0, |setup, rng| Setup {
            erases: true,
            punch: true,
            remains: rng.chance(25),
            ..setup.perhaps_overlay(rng)
        })
    }

    fn made(seed: u64, epochs_weight: u64, stored: fn(Setup, &mut Rng) -> Setup) -> Self {
        let mut rng = Rng::new(seed);
        let setup = stored(Setup::roll(&mut rng), &mut Rng::new(!seed));
        let mut mood = Mood { epochs_weight, ..Mood::roll(&mut rng, &setup) };
        if !setup.is_in_place() {
            mood.full_weight = Rng::new(seed.reverse_bits()).pick(&[0, 0, 4, 12]);
        }
        if setup.remains {
            mood.remains_weight = Rng::new(seed.rotate_left(32)).pick(&[2, 6, 15]);
        }
        if setup.store == Store::Sealed {
            mood.busy_weight = Rng::new(seed.rotate_left(16)).pick(&[0, 0, 3, 8]);
        }
        let (count, blocks) = (rng.range(5, 70) as u32, setup.disk_bytes / BLOCK_BYTES);
        let steps = (1..=count).map(|n| mood.step(n, &mut rng));
        let steps = if setup.store == Store::Sealed {
            hurried(steps, blocks, seed.rotate_left(8))
        } else {
            steps.collect()
        };
        Self { seed, setup, steps }
    }
}

impl Setup {
    /// A disk in place.
    pub fn roll(rng: &mut Rng) -> Self {
        let blocks = rng.range(4, 40);
        let odd_end = if rng.chance(20) { rng.range(1, 7) * SECTOR } else { 0 };
        Self {
            disk_bytes: blocks * BLOCK_BYTES + odd_end,
            policy: rng.pick(&POLICIES),
            punch: rng.chance(50),
            run_bytes_max: rng.pick(&[4096, 8192, 65536]),
            batch_bytes_max: rng.pick(&[4096, 32768, 1 << 20]),
            deadline_ms: rng.pick(&[1_000, 600_000]),
            detect_zeroes: rng.chance(30),
            half_bytes: rng.pick(&[8192, 8192, 16384]),
            slots: rng.pick(&[1, 2, 4, 8]),
            in_flight_max: rng.range(1, 6) as usize,
            destage_percent: rng.pick(&[0, 5, 30]),
            tells_holes: rng.chance(50),
            origin: rng.pick(&[Origin::Empty, Origin::Empty, Origin::Adopted, Origin::Foreign]),
            ..Self::plain(0)
        }
    }

    fn with_versions(self, rng: &mut Rng) -> Self {
        let seal = rng.pick(&[Seal::RandomKey, Seal::RandomKey, Seal::RandomKey, Seal::Aon, Seal::None]);
        let store = Store::Versions { seal, log_bytes: rng.pick(&[16_384, 16_384, 32_768, 65_536]) };
        Self { store, origin: Origin::Empty, ..self }
    }

    /// The same disk, sealed; perhaps larger, and with a root of which some places will not be erased.
    fn sealed(self, rng: &mut Rng) -> Self {
        let (least, most) = rng.pick(&LEAVES_BLOCKS);
        let bytes = rng.range(least, most) * BLOCK_BYTES + self.disk_bytes % BLOCK_BYTES;
        let origin = if self.origin == Origin::Foreign { Origin::Empty } else { self.origin };
        let disk_bytes = if rng.chance(30) { bytes } else { self.disk_bytes };
        Self { store: Store::Sealed, disk_bytes, origin, remains: rng.chance(15), ..self }
    }

    /// The same disk as an overlay, more often than not.
    fn perhaps_overlay(self, rng: &mut Rng) -> Self {
        let [packed, lazy, punch] = [Mode::Packed, Mode::Lazy, Mode::Punch].map(Store::Overlay);
        let stores = [Store::InPlace, Store::InPlace, packed, lazy, lazy, punch];
        let base_bytes =
            if rng.chance(50) { self.disk_bytes } else { rng.range(1, self.disk_bytes / SECTOR) * SECTOR };
        let store = rng.pick(&stores);
        let policy = if store != Store::InPlace && rng.chance(15) { "none" } else { self.policy };
        Self { store, policy, base_bytes, ..self }
    }
}

/// Kind of a history: the same choices all along give the rare combinations a chance.
#[derive(Default)]
struct Mood {
    disk_bytes: u64,
    /// Places where most things happen, so that they meet.
    hot: Vec<u64>,
    hot_percent: u64,
    odd_percent: u64,
    rewrite_weight: u64,
    crash_weight: u64,
    fault_weight: u64,
    /// Weight of a full host, and of space on it again.
    full_weight: u64,
    epochs_weight: u64,
    /// Weight of a place that will not be erased.
    remains_weight: u64,
    /// Weight of a root that is busy.
    busy_weight: u64,
    is_sealed: bool,
    turns_max: u64,
    targets: &'static [MediumId],
}

impl Mood {
    fn roll(rng: &mut Rng, setup: &Setup) -> Self {
        let blocks = setup.disk_bytes / BLOCK_BYTES;
        Self {
            disk_bytes: setup.disk_bytes,
            hot: (0..rng.range(1, 3)).map(|_| rng.below(blocks) * BLOCK_BYTES).collect(),
            hot_percent: rng.pick(&[0, 50, 90]),
            odd_percent: rng.pick(&[0, 0, 10]),
            rewrite_weight: rng.pick(&[0, 1, 12]),
            crash_weight: rng.pick(&[0, 1, 5]),
            fault_weight: rng.pick(&[0, 0, 0, 2]),
            turns_max: rng.pick(&[2, 8, 40]),
            is_sealed: setup.store == Store::Sealed,
            targets: match setup.store {
                Store::InPlace => &[MediumId::Data, MediumId::Journal],
                Store::Overlay(_) => &[MediumId::Data, MediumId::Journal, MediumId::Map, MediumId::Base],
                Store::Spent => &[MediumId::Data, MediumId::Journal, MediumId::Map],
                Store::Sealed => &[MediumId::Data, MediumId::Journal, MediumId::Map, MediumId::Root],
                Store::Versions { .. } => {
                    &[MediumId::Data, MediumId::Journal, MediumId::Map, MediumId::Stubs, MediumId::Root]
                }
            },
            ..Self::default()
        }
    }

    fn step(&self, tag: u32, rng: &mut Rng) -> Step {
        let action = self.action(rng);
        let turns = rng.below(self.turns_max + 1) as u8;
        Step { tag: Tag(tag), turns, salt: rng.roll(), action }
    }

    fn action(&self, rng: &mut Rng) -> Action {
        let [crash, full] = [self.crash_weight, self.full_weight];
        let [epochs, remains] = [self.epochs_weight, self.remains_weight];
        let (busy, halt) = (self.busy_weight, u64::from(self.is_sealed));
        let weights =
            [70, 4, 4, 2, 1, crash, crash, self.fault_weight, full, full, epochs, remains, busy, halt];
        match weighted(rng, &weights) {
            0 => self.request(rng),
            1 => Action::Wait { ms: rng.pick(&[1, 100, 300, 2_000, 700_000]) },
            2 => Action::ShredNow,
            3 => Action::Drain,
            4 => Action::Restart,
            5 => Action::Kill,
            6 => Action::PowerCut { again_after: rng.chance(30).then(|| rng.below(25) as u32) },
            7 => self.fault(rng),
            8 => Action::Full,
            9 => Action::Room,
            10 => self.epoch_request(rng),
            11 => {
                let target = if self.is_sealed { MediumId::Root } else { MediumId::Data };
                Action::Fault { target, kind: FaultKind::Remains, after: rng.below(8) as u32 }
            }
            12 => Action::Busy { after: rng.below(4) as u32, times: rng.pick(&BUSY_TIMES) },
            _ => Action::Halt,
        }
    }

    fn request(&self, rng: &mut Rng) -> Action {
        let (ask, fua) = self.ask(rng);
        let extent = if ask == Ask::Flush { Extent::default() } else { self.extent(rng) };
        Action::Send { ask, extent, fua }
    }

    fn epoch_request(&self, rng: &mut Rng) -> Action {
        // Few are near the newest, where most happens; some never closed.
        let back = rng.pick(&[0, 1, 1, 1, 2, 2, 3, 4, 6]);
        let ask = match weighted(rng, &[10, 7, 1, 5, 4]) {
            0 => Ask::CloseEpoch,
            1 => Ask::ReadPast { back },
            2 => Ask::ListEpochs { back },
            3 => Ask::Forget { back, count: rng.pick(&[1, 1, 2, 4]) },
            // What is drawn stays the same: histories that are worth keeping are kept by their seeds.
            _ => match back {
                0 | 1 => Ask::ForgetBlocks,
                2 => Ask::ForgetShown { back: 1, count: 2 },
                3 => Ask::ForgetShown { back: 2, count: 1 },
                4 => Ask::ForgetSet { back: 2, count: 4 },
                _ => Ask::ForgetSet { back: 3, count: 8 },
            },
        };
        let extent = match ask {
            Ask::ReadPast { .. } => self.extent(rng),
            // The more blocks, the more surely the current state shows one of them, too.
            _ if ask.forgets_blocks() => {
                let start = self.extent(rng).start;
                Extent::between(start.0, (start.0 + rng.pick(&[1, 4097, 12_289])).min(self.disk_bytes))
            }
            _ => Extent::default(),
        };
        Action::Send { ask, extent, fua: false }
    }

    fn ask(&self, rng: &mut Rng) -> (Ask, bool) {
        let weights = [14, 34, 3, 18, 6, 3, self.rewrite_weight, 1, 8];
        let ask = match weighted(rng, &weights) {
            0 => Ask::Read,
            1 => Ask::Write,
            2 => Ask::WriteZeros,
            3 => Ask::Trim,
            4 => Ask::Zero { no_hole: rng.chance(50), fast: rng.chance(20) },
            5 => Ask::Purge,
            6 => Ask::ConservativeOverwrite,
            7 => Ask::Cache,
            _ => Ask::Flush,
        };
        (ask, rng.chance(15))
    }

    fn fault(&self, rng: &mut Rng) -> Action {
        let target = rng.pick(self.targets);
        let kinds = [FaultKind::Read, FaultKind::Write, FaultKind::Sync, FaultKind::Sync, FaultKind::Space];
        let (kind, after) = (rng.pick(&kinds), rng.below(8) as u32);
        let is_busy = self.is_sealed && target == MediumId::Root && kind == FaultKind::Space;
        Action::Fault { target, kind: if is_busy { FaultKind::Busy } else { kind }, after }
    }

    fn extent(&self, rng: &mut Rng) -> Extent<Addr> {
        let grain = match rng.below(100) {
            n if n < self.odd_percent => rng.pick(&[1, CELL_BYTES]),
            n if n < 35 => SECTOR,
            _ => BLOCK_BYTES,
        };
        let longest = rng.pick(&[1, 2, 4, 4, 10]) * grain.max(SECTOR);
        let at = if rng.chance(self.hot_percent) {
            rng.pick(&self.hot) + rng.below(4) * grain
        } else {
            rng.below(self.disk_bytes)
        };
        let start = (at / grain * grain).min(self.disk_bytes - 1);
        let len = (rng.range(1, longest).div_ceil(grain) * grain).min(self.disk_bytes - start);
        Extent::new(start, len)
    }
}

/// The same steps, with crashes soon after what makes keys durable, or destroys them: the moments that matter there are a few acts
/// long. And what is written is trimmed before at times, so that writes go over dead blocks. A busy root at times holds up a purge.
fn hurried(steps: impl Iterator<Item = Step>, blocks: u64, seed: u64) -> Vec<Step> {
    let mut rng = Rng::new(seed);
    let (crash_percent, trim_percent) = (rng.pick(&[0, 0, 10, 40]), rng.pick(&[0, 20, 60]));
    let mut all = Vec::new();
    for step in steps {
        let Step { tag, action, .. } = step;
        let trims = matches!(action, Action::Send { ask: Ask::Write, .. }) && rng.chance(trim_percent);
        // All other numbers are free.
        let own = Step { tag: Tag(TAGS * tag.0), ..step };
        if let (true, Action::Send { extent, .. }) = (trims, action) {
            let whole = Extent::between(extent.start.0 / BLOCK_BYTES * BLOCK_BYTES, extent.end());
            let trim = Action::Send { ask: Ask::Trim, extent: whole, fua: false };
            all.push(Step { tag: Tag(TAGS * tag.0 - 1), turns: 0, salt: rng.roll(), action: trim });
        }
        all.push(own);
        if matches!(action, Action::Busy { .. }) && rng.chance(HELD_UP_PERCENT) {
            all.extend(held_up(TAGS * tag.0, blocks, &mut rng));
        }
        let is_near = match action {
            Action::Send { ask, fua, .. } => fua || matches!(ask, Ask::Flush | Ask::ConservativeOverwrite),
            Action::ShredNow | Action::Kill | Action::Wait { .. } => true,
            _ => false,
        };
        if is_near && rng.chance(crash_percent) {
            let crash = if rng.chance(50) { Action::Kill } else { Action::PowerCut { again_after: None } };
            let turns = rng.below(20) as u8;
            all.push(Step { tag: Tag(TAGS * tag.0), turns, salt: rng.roll(), action: crash });
        }
    }
    all
}

/// Steps behind the one with this tag: a purge that a busy root holds up, then a write that waits for a fresh key, over a part of a block.
fn held_up(tag: u32, blocks: u64, rng: &mut Rng) -> Vec<Step> {
    let block = |at: u64| Extent::<Addr>::new(at * BLOCK_BYTES, BLOCK_BYTES);
    let (dies, parted) = (block(rng.below(blocks)), block(rng.below(blocks)));
    let sector = Extent::new(parted.start.0 + rng.below(8) * SECTOR, SECTOR);
    let send = |ask, extent| Action::Send { ask, extent, fua: false };
    let actions = [
        send(Ask::Write, dies),
        send(Ask::Trim, dies),
        send(Ask::Write, parted),
        Action::ShredNow,
        send(Ask::Trim, sector),
        send(Ask::Write, sector),
    ];
    let steps = (1..).zip(actions).map(|(n, action)| {
        let turns = if n == 5 { rng.range(10, 60) } else { rng.below(8) };
        Step { tag: Tag(tag + n), turns: turns as u8, salt: rng.roll(), action }
    });
    steps.collect()
}

/// An index, as often as its weight says.
fn weighted(rng: &mut Rng, weights: &[u64]) -> usize {
    let mut left = rng.below(weights.iter().sum());
    let mut index = 0;
    while left >= weights[index] {
        left -= weights[index];
        index += 1;
    }
    index
}
