//! Both versions of rule J on trial: below the model of jbd2 and its judge, and
//! below whatever may be written.

use super::both::Both;
use super::play::{Play, Setup, Step};
use super::rules::Rules;
use super::trial::{setup_of, setups};
use super::wild::{Wild, everything, themes};
use crate::rule_e::search::{Limits, happen_and_finish, search};
use crate::rule_e::trial::{Part, walked_through};

fn both(compares: bool) -> impl Fn(&Setup, Vec<Vec<u8>>) -> Box<dyn Rules> {
    move |setup, disk| Box::new(Both::attach(setup, &disk, compares))
}

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
    Part::of(name, search(|| Play::new(setup, both(true)), limits))
}

/// The walk of `seed`: a third of them write whatever may be written, a third are
/// a guest's life above both versions, and a third its life above the product
/// alone, which reads when chance will have it.
#[must_use]
pub fn walked(seed: u64) -> Part {
    match seed % 3 {
        0 => {
            let theme = everything(seed / 3);
            walked_through("whatever may be written to a journal", seed, || Wild::new(&theme))
        }
        1 => lived(seed / 3, true),
        _ => lived(seed / 3, false),
    }
}

/// The walk of `seed` through a guest's life, above the product alone.
#[must_use]
pub fn judged(seed: u64) -> Part {
    lived(seed, false)
}

fn lived(seed: u64, compares: bool) -> Part {
    let setup = Setup { splits: seed % 11 < 5, ..setup_of(seed) };
    walked_through("a guest that journals, above the product", seed, || Play::new(&setup, both(compares)))
}

/// Lets `steps` happen to a guest of `setup`, above the product; and above the
/// page's version, if it `compares`.
///
/// # Errors
/// The first broken promise.
pub fn retold(setup: &Setup, steps: &[Step], compares: bool) -> Result<(), String> {
    happen_and_finish(&mut Play::new(setup, both(compares)), steps).map(drop)
}
