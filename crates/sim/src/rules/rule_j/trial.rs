//! All trials of rule J: both versions of it, below the model of jbd2 and its judge, and below
//! arbitrary writes.

use crate::rules::differential::Watchers;
use crate::rules::rule_e::guest::Converts;
use crate::rules::rule_e::search::{Part, happen_and_finish, search, taken, walked_through};
use crate::rules::rule_j::fuzz::{Fuzz, everything, themes};
use crate::rules::rule_j::guest::Mode;
use crate::rules::rule_j::log::Flavour;
use crate::rules::rule_j::play::{Play, Step};
use crate::rules::rule_j::reference::Reading;
use crate::rules::rule_j::setup::{ExternalJournal, Setup};

/// How the data of ext3 and ext4 goes to the disk.
pub const MODES: [Mode; 3] = [Mode::Journal, Mode::Ordered, Mode::Writeback];

/// The guest of `seed`.
pub fn setup_of(seed: u64) -> Setup {
    let n = seed / 3;
    Setup {
        data: 2 + (n % 6) as u32,
        journal: 16 + (n / 2 % 3) as u32 * 4,
        flavour: if n.is_multiple_of(2) { Flavour::Plain } else { Flavour::Summed },
        is_async: n % 4 == 1,
        skips: u32::from(n % 5 < 4),
        crashes: n % 7 < 4,
        restarts: n % 3 < 2,
        ..Setup::large(MODES[seed as usize % 3])
    }
}

/// How many parts [`searched`] has.
pub fn parts() -> usize {
    themes().len() + 2 * setups().len()
}

/// Searches part `n`, up to `transitions_max`: of what may be written, of guests above both
/// versions, and of the same above the reference alone.
pub fn searched(n: usize, transitions_max: u64) -> Part {
    let (themes, setups) = (themes(), setups());
    if let Some(theme) = themes.get(n) {
        return search(theme.name, || Fuzz::new(theme), transitions_max);
    }
    let n = n - themes.len();
    let watchers = if n < setups.len() { Watchers::Both } else { Watchers::Reference };
    let (name, setup) = &setups[n % setups.len()];
    search(&format!("{name}, {watchers:?}"), || Play::new(setup, (watchers, Reading::Page)), transitions_max)
}

/// Small file systems, of which all is searched.
fn setups() -> Vec<(String, Setup)> {
    let mut setups = Vec::new();
    for mode in MODES {
        let small = Setup::small(mode);
        setups.push((format!("{mode:?}"), small.clone()));
        setups.push((format!("{mode:?}, crashes"), Setup { crashes: true, ..small.clone() }));
        setups.push((format!("{mode:?}, restarts"), Setup { restarts: true, ..small }));
    }
    setups
}

/// The walk of `seed`: a third of the walks write anything that may be written, a third are
/// a guest's life above both versions, and a third its life above the product
/// alone, which reads when chance will have it.
pub fn walked(seed: u64) -> Part {
    match seed % 3 {
        0 => {
            let theme = everything(seed / 3);
            walked_through("arbitrary writes to a journal", seed, || Fuzz::new(&theme))
        }
        1 => lived(seed / 3, Watchers::Both),
        _ => lived(seed / 3, Watchers::Product),
    }
}

/// The walk of `seed` through a guest's life.
pub fn lived(seed: u64, watchers: Watchers) -> Part {
    let setup = Setup { splits: seed % 11 < 5, ..setup_of(seed) };
    walked_through("a guest that journals", seed, || Play::new(&setup, (watchers, Reading::Page)))
}

/// The walk of `seed` through the life of a guest with an external journal.
pub fn external_journal(seed: u64, watchers: Watchers) -> Part {
    let external_journal = ExternalJournal { reorders: seed % 5 < 2, hides_reads: seed % 7 < 2 };
    let setup = Setup { external_journal: Some(external_journal), splits: seed % 11 < 5, ..setup_of(seed) };
    walked_through("a guest with an external journal", seed, || Play::new(&setup, (watchers, Reading::Page)))
}

/// The walk of `seed` through the life of a guest above a cache, of which the rules are told or not.
pub fn cached(seed: u64, is_told: bool, watchers: Watchers) -> Part {
    let setup = Setup { is_cached: true, is_told, ..setup_of(seed) };
    walked_through("a guest that journals above a cache", seed, || {
        Play::new(&setup, (watchers, Reading::Page))
    })
}

/// The walk of `seed` through the life of a guest with marked files. Returns how many blocks of unmarked files were
/// plain in the end, and of how many, too.
pub fn marked(seed: u64) -> (Part, (u64, u64)) {
    let setup = Setup {
        has_marks: true,
        splits: seed % 11 < 2,
        restarts: seed.is_multiple_of(5),
        crashes: seed % 4 == 1,
        ..setup_of(seed)
    };
    let mut plain = (0, 0);
    let start = || Play::new(&setup, (Watchers::Product, Reading::Page));
    let part = taken("a guest with marked files", seed, start, |play| plain = play.plain);
    (part, plain)
}

/// When the pointers to reserved space change in the guest of `seed`.
pub fn converts(seed: u64) -> Converts {
    match MODES[seed as usize % 3] {
        Mode::Journal => Converts::Logged,
        Mode::Ordered | Mode::Writeback if (seed / 3).is_multiple_of(4) => Converts::Sent,
        Mode::Ordered | Mode::Writeback => Converts::Complete,
    }
}

/// The walk of `seed` through the life of a guest that reserves space.
pub fn reserving(seed: u64, watchers: Watchers) -> Part {
    let setup = Setup { reserves: Some(converts(seed)), splits: seed % 11 < 2, ..setup_of(seed) };
    walked_through("a guest that reserves space", seed, || Play::new(&setup, (watchers, Reading::Page)))
}

/// The walk of `seed` above the reference alone, as `reading` has it.
pub fn read(reading: Reading, seed: u64) -> Part {
    let setup = setup_of(seed);
    walked_through("a guest that journals", seed, || Play::new(&setup, (Watchers::Reference, reading)))
}

/// Lets `steps` happen to a guest of `setup`, above the reference as `reading` has it, or the
/// product, or both.
pub fn retold(setup: &Setup, steps: &[Step], watchers: Watchers, reading: Reading) -> Result<(), String> {
    happen_and_finish(&mut Play::new(setup, (watchers, reading)), steps)
}
