//! The simulator's own test: deliberate defects of the core and of the rules that it must find.

use crate::pairs::{Guest, PAIRS, Pair};
use crate::rule_e::known;
use crate::rule_e::trial::{Part, cached, judged, parts, retold, retold_cached, searched, walked};
use crate::rule_j::guest::Mode;
use crate::rule_j::play::Setup;
use crate::rule_j::trial as journal;
use crate::rule_j::{self, literal::RULE};
use crate::soak::{Tally, soak, threads};
use crate::twin::Watchers::{Both, Product};
use quietus_core::mutant::{Mutant, activate};
use quietus_detect::mutant as detect;

/// The history that found a defect, and the number of histories until then.
pub type Caught = Option<(u64, Part)>;

/// Steps that are tried in each part of the search for a defect of the rules.
const TRANSITIONS: u64 = 5_000;

/// Switches `mutant` on and lets at most `seeds_max` histories happen to each pair that may show
/// it.
#[must_use]
pub fn hunt(mutant: Mutant, seeds_max: u64) -> Caught {
    let is_watched = Mutant::WATCHED.contains(&mutant);
    let mut pairs = PAIRS.iter().filter(|it| (it.guest != Guest::Bare) == is_watched);
    pairs.find_map(|pair| play(pair, seeds_max, || activate(Some(mutant))))
}

/// Switches `mutant` of the rules on below `pair`, for at most `seeds_max` histories.
#[must_use]
pub fn hunt_pair(mutant: detect::Mutant, pair: &Pair, seeds_max: u64) -> Caught {
    play(pair, seeds_max, || detect::activate(Some(mutant)))
}

fn play(pair: &Pair, seeds_max: u64, prepare: impl Fn() + Sync) -> Caught {
    let Tally { histories, failure, .. } = soak(pair, 0..seeds_max, threads(), prepare, |_| {});
    failure.map(|(_, part)| (histories, part))
}

fn with<T>(mutant: detect::Mutant, hunt: impl FnOnce() -> T) -> T {
    detect::activate(Some(mutant));
    let caught = hunt();
    detect::activate(None);
    caught
}

/// The first of `walks_max` walks that fails.
fn walk(walks_max: u64, walked: impl Fn(u64) -> Part) -> Caught {
    let mut walks = (0..walks_max).map(|seed| (seed + 1, walked(seed)));
    walks.find(|(_, part)| part.failure.is_some())
}

fn search(walks: u64, parts: usize, searched: impl Fn(usize, u64) -> Part) -> Caught {
    let mut search = (0..parts).map(|n| (walks, searched(n, TRANSITIONS)));
    search.find(|(_, part)| part.failure.is_some())
}

/// The objection of the judge, and its place: in the histories that are kept, or in walks.
fn told<S>(
    known: Vec<(&'static str, Vec<S>)>,
    retold: impl Fn(&[S]) -> Result<(), String>,
    walks: impl FnOnce() -> Caught,
) -> Option<String> {
    let mut known =
        known.into_iter().filter_map(|(name, it)| Some(format!("{name}, {}", retold(&it).err()?)));
    known.next().or_else(|| walks().and_then(|(_, it)| Some(format!("{}, {}", it.name, it.failure?.1))))
}

/// Switches `mutant` of the rules on and lets `walks_max` guests live below
/// them, and then enumerates; returns what found it and after how many walks,
/// or none: the defect was not found.
#[must_use]
pub fn hunt_rule_e(mutant: detect::Mutant, walks_max: u64) -> Caught {
    with(mutant, || walk(walks_max, walked).or_else(|| search(walks_max, parts(), searched)))
}

/// As [`hunt_rule_e`], with the judge alone, without the second version of the rules. Returns the
/// objection and its place: first the histories that are kept, then walks.
#[must_use]
pub fn judge_rule_e(mutant: detect::Mutant, walks_max: u64) -> Option<String> {
    with(mutant, || told(known::histories(), |it| retold(it, Product), || walk(walks_max, judged)))
}

/// As [`judge_rule_e`], below a cache; and both versions on the same walks, up to the one
/// that fails.
#[must_use]
pub fn hunt_cached(mutant: detect::Mutant, walks_max: u64) -> (Option<String>, Caught) {
    with(mutant, || {
        let walks = |watchers| walk(walks_max, |seed| cached(seed, true, watchers));
        (told(known::cached(), |it| retold_cached(it, true), || walks(Product)), walks(Both))
    })
}

/// As [`hunt_rule_e`], below a journal.
#[must_use]
pub fn hunt_rule_j(mutant: detect::Mutant, walks_max: u64) -> Caught {
    with(mutant, || {
        let search = || search(walks_max, journal::parts(), journal::searched);
        walk(walks_max, journal::walked).or_else(search)
    })
}

/// As [`judge_rule_e`], below a journal.
#[must_use]
pub fn judge_rule_j(mutant: detect::Mutant, walks_max: u64) -> Option<String> {
    let setup = Setup::large(Mode::Ordered);
    let retold = |it: &[_]| journal::retold(&setup, it, Product, RULE);
    let walks = || walk(walks_max, |seed| journal::lived(seed, Product));
    with(mutant, || told(rule_j::known::histories(), retold, walks))
}

/// As [`judge_rule_e`], above an external journal; and both versions on the same
/// walks, up to the one that fails.
#[must_use]
pub fn hunt_elsewhere(mutant: detect::Mutant, walks_max: u64) -> (Option<String>, Caught) {
    let setup = Setup::large(Mode::Ordered).elsewhere();
    let retold = |it: &[_]| journal::retold(&setup, it, Product, RULE);
    with(mutant, || {
        let walks = |watchers| walk(walks_max, |seed| journal::elsewhere(seed, watchers));
        (told(rule_j::known::histories(), retold, || walks(Product)), walks(Both))
    })
}
