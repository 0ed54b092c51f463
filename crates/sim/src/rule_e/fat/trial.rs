//! Everything that FAT is put through.

use super::life::{Life, Setup};
use super::wild::{Wild, everything, themes};
use crate::rule_e::search::{Limits, search};
use crate::rule_e::trial::{Part, walked_through};
use crate::rule_e::wild::options;
use quietus_detect::options::{Grade, Options};

/// How many parts [`searched`] has.
#[must_use]
pub fn parts() -> usize {
    themes().len() + setups().len()
}

/// Searches part `n`, up to `transitions_max`.
#[must_use]
pub fn searched(n: usize, transitions_max: u64) -> Part {
    let limits = Limits { steps_max: usize::MAX, transitions_max };
    let themes = themes();
    if let Some(theme) = themes.get(n) {
        return Part::of(theme.name, search(|| Wild::new(theme), limits));
    }
    let (name, setup) = &setups()[n - themes.len()];
    Part::of(name, search(|| Life::new(setup), limits))
}

/// Small file systems, of which all is searched.
fn setups() -> Vec<(&'static str, Setup)> {
    let options = options(Grade::Generation, false);
    let small = Setup {
        data: 2,
        options,
        passes_ms: vec![2000],
        reorders: false,
        crashes: false,
        is_final: true,
        compares: true,
    };
    vec![
        ("fat: a guest, two blocks", small.clone()),
        ("fat: a guest that crashes", Setup { crashes: true, ..small.clone() }),
        ("fat: writes that overtake", Setup { reorders: true, passes_ms: vec![5, 2000], ..small.clone() }),
        ("fat: a guest whose table needs rest", Setup { crashes: true, is_final: false, ..small }),
    ]
}

/// The walk of `seed`: what it is called, its steps, and why it failed.
#[must_use]
pub fn walked(seed: u64) -> Part {
    if seed.is_multiple_of(2) { walked_wild(seed) } else { walked_life(seed, true) }
}

/// The walk of `seed` through a guest's life, without the literal version.
#[must_use]
pub fn judged(seed: u64) -> Part {
    walked_life(seed, false)
}

fn walked_wild(seed: u64) -> Part {
    let grade = [Grade::Generation, Grade::Generation, Grade::Content, Grade::Block][seed as usize / 2 % 4];
    let theme =
        everything(options(grade, seed % 16 == 2), seed.is_multiple_of(3), seed % 5 < 3, seed % 7 < 5);
    walked_through("whatever a guest may write to a FAT", seed, || Wild::new(&theme))
}

fn walked_life(seed: u64, compares: bool) -> Part {
    let grade = if seed % 8 == 5 { Grade::Block } else { Grade::Generation };
    let setup = Setup {
        data: 2 + (seed / 2 % 3) as u32,
        options: Options { grade, eager: false, reorder_window_ms: 1000, settle_ms: 8000 },
        passes_ms: vec![100, 1500, 2500],
        reorders: !seed.is_multiple_of(3),
        crashes: seed % 5 < 3,
        is_final: seed % 7 < 5,
        compares,
    };
    walked_through("a guest with a FAT", seed, || Life::new(&setup))
}
