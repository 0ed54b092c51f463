//! Everything that FAT is put through.

use super::system::Fat;
use super::wild::{Wild, everything, themes};
use crate::rule_e::play::{Play, Setup};
use crate::rule_e::search::{Limits, search};
use crate::rule_e::trial::{Part, walked_through};
use crate::rule_e::wild::options;
use quietus_detect::options::Grade;

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
    Part::of(name, search(|| Play::<Fat>::new(setup), limits))
}

/// Small file systems, of which all is searched.
fn setups() -> Vec<(&'static str, Setup)> {
    let options = options(Grade::Generation, false);
    let small = Setup { unmounts: true, ..Setup::small(options) };
    let crashes = Setup { crashes: true, restarts: true, ..small.clone() };
    vec![
        ("fat: a guest, two blocks", small.clone()),
        ("fat: a guest that crashes", crashes.clone()),
        ("fat: writes that overtake", Setup { reorders: true, passes_ms: vec![5, 2000], ..small }),
        ("fat: a guest whose table needs rest", Setup { is_final: false, ..crashes }),
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
        reorders: !seed.is_multiple_of(3),
        crashes: seed % 5 < 3,
        restarts: seed % 5 < 3,
        is_final: seed % 7 < 5,
        compares,
        ..Setup::large(grade, false)
    };
    walked_through("a guest with a FAT", seed, || Play::<Fat>::new(&setup))
}
