//! All trials of rule E, but for guests above a volume ([`crate::run::pairs`]).

use crate::rules::differential::Watchers;
use crate::rules::rule_e::fat;
use crate::rules::rule_e::fuzz;
use crate::rules::rule_e::fuzz::{Fuzz, Theme, options, themes};
use crate::rules::rule_e::known::Known;
pub use crate::rules::rule_e::search::Part;
use crate::rules::rule_e::search::{happen, search, walked_through};
use quietus_detect::rules::options::Grade;

/// How many parts [`searched`] has.
pub fn parts() -> usize {
    all_themes().len()
}

fn all_themes() -> Vec<Theme> {
    [themes(), fat::fuzz::themes()].concat()
}

/// Searches part `n`, up to `transitions_max`.
pub fn searched(n: usize, transitions_max: u64) -> Part {
    let theme = &all_themes()[n];
    search(theme.name, || Fuzz::new(theme), transitions_max)
}

/// The walk of `seed`: its name, its steps, and why it failed. Half of the walks are of FATs.
pub fn walked(seed: u64) -> Part {
    let (n, is_fat) = (seed / 2, seed % 2 == 1);
    let grade = [Grade::Generation, Grade::Generation, Grade::Content, Grade::Block][n as usize / 2 % 4];
    let (options, was_clean) = (options(grade, n % 16 == 2), n.is_multiple_of(3));
    let theme = if is_fat {
        fat::fuzz::everything(options, was_clean, n % 5 < 3, n % 7 < 5)
    } else {
        fuzz::everything(options, was_clean, n % 5 < 3)
    };
    walked_through(theme.name, n, || Fuzz::new(&theme))
}

/// Lets the history happen to an empty file system, and compares the fate of its block. Untold, the
/// rules do not hear of a cache.
///
/// # Errors
/// If the versions disagree, or the fate is another.
pub fn retold(known: &Known, is_told: bool, watchers: Watchers) -> Result<(), String> {
    let is_heard = |it: &&fuzz::Step| is_told || !matches!(it, fuzz::Step::Cached(_));
    let steps: Vec<_> = known.steps.iter().filter(is_heard).copied().collect();
    let mut fuzz = Fuzz::watched_by(&fuzz::empty(), watchers);
    happen(&mut fuzz, &steps)?;
    match fuzz.differential.verdicts(true)?.get(&known.block) {
        found if found == known.verdict.as_ref() => Ok(()),
        found => {
            Err(format!("safety: the fate of block {} is {found:?}, not {:?}", known.block, known.verdict))
        }
    }
}
