//! The simulator's own test: deliberate defects of the core that it must find.

use crate::history::History;
use crate::rule_e::cache;
use crate::rule_e::fat::trial as fat;
use crate::rule_e::known::histories;
use crate::rule_e::trial::{Part, judged, parts, retold, searched, walked, walked_whole};
use crate::rule_j::guest::Mode;
use crate::rule_j::play::Setup;
use crate::rule_j::{elsewhere, known, lockstep};
use crate::shrink::shrink;
use crate::soak::soak;
use crate::violation::Violation;
use quietus_core::mutant::{Mutant, activate};
use quietus_detect::mutant as detect;

/// How a defect was found.
#[derive(Clone, Debug)]
pub struct Caught {
    /// Histories that happened until then, about.
    pub histories: u64,
    /// A history that shows the defect, cut down.
    pub history: History,
    /// What the oracle says of it.
    pub violation: Violation,
}

/// Switches `mutant` on and lets histories happen until one fails; at most
/// `seeds_max`. None: the defect was not found.
#[must_use]
pub fn hunt(mutant: Mutant, seeds_max: u64, threads: usize) -> Option<Caught> {
    let tally = soak(0..seeds_max, threads, || activate(Some(mutant)), |_| {});
    let (seed, violation) = tally.failure?;
    activate(Some(mutant));
    let history = shrink(&History::from_seed(seed), violation.oracle);
    let violation = crate::verdict::verdict(&history).err().unwrap_or(violation);
    activate(None);
    Some(Caught { histories: tally.histories, history, violation })
}

/// Switches `mutant` of the core on below guests with a file system, at most
/// `walks_max` of them; what found it and after how many, or none.
#[must_use]
pub fn hunt_whole(mutant: Mutant, walks_max: u64) -> Option<(u64, Part)> {
    activate(Some(mutant));
    let mut walks = (0..walks_max).map(|seed| (seed + 1, walked_whole(seed)));
    let caught = walks.find(|(_, part)| part.failure.is_some());
    activate(None);
    caught
}

/// Steps that are tried in each part of the search for a defect of the rules.
const TRANSITIONS: u64 = 5_000;

/// Switches `mutant` of the rules on and lets `walks_max` guests live below
/// them, and then enumerates; returns what found it and after how many walks,
/// or none: the defect was not found.
#[must_use]
pub fn hunt_rule_e(mutant: detect::Mutant, walks_max: u64) -> Option<(u64, Part)> {
    detect::activate(Some(mutant));
    let mut walks = (0..walks_max).map(|seed| (seed + 1, walked(seed)));
    let caught = walks.find(|(_, part)| part.failure.is_some());
    let mut search = (0..parts()).map(|n| (walks_max, searched(n, TRANSITIONS)));
    let caught = caught.or_else(|| search.find(|(_, part)| part.failure.is_some()));
    let mut walks = (0..walks_max).map(|seed| (seed + 1, fat::walked(seed)));
    let caught = caught.or_else(|| walks.find(|(_, part)| part.failure.is_some()));
    detect::activate(None);
    caught
}

/// The same with the judge alone, without the second version of the rules: what
/// it says, and where. First the histories that are kept, then walks.
#[must_use]
pub fn judge_rule_e(mutant: detect::Mutant, walks_max: u64) -> Option<String> {
    detect::activate(Some(mutant));
    let known = histories().into_iter();
    let mut known = known.filter_map(|(name, it)| Some(format!("{name}, {}", retold(&it, false).err()?)));
    let walks = (0..walks_max).map(judged);
    let mut walks = walks.filter_map(|it| Some(format!("{}, {}", it.name, it.failure?.1)));
    let fat = (0..walks_max).map(fat::judged);
    let mut fat = fat.filter_map(|it| Some(format!("{}, {}", it.name, it.failure?.1)));
    let caught = known.next().or_else(|| walks.next()).or_else(|| fat.next());
    detect::activate(None);
    caught
}

/// As [`judge_rule_e`], below a cache; and both versions on the same walks, up to the one
/// that fails.
#[must_use]
pub fn hunt_cached(mutant: detect::Mutant, walks_max: u64) -> (Option<String>, Option<(u64, Part)>) {
    detect::activate(Some(mutant));
    let known = cache::histories().into_iter();
    let mut known =
        known.filter_map(|(name, it)| Some(format!("{name}, {}", cache::retold(&it, true).err()?)));
    let mut judged = (0..walks_max).map(cache::judged);
    let judge =
        known.next().or_else(|| judged.find_map(|it| Some(format!("{}, {}", it.name, it.failure?.1))));
    let mut walks = (0..walks_max).map(|seed| (seed + 1, cache::walked(seed)));
    let twin = walks.find(|(_, part)| part.failure.is_some());
    detect::activate(None);
    (judge, twin)
}

/// As [`hunt_rule_e`], below a journal.
#[must_use]
pub fn hunt_rule_j(mutant: detect::Mutant, walks_max: u64) -> Option<(u64, Part)> {
    detect::activate(Some(mutant));
    let mut walks = (0..walks_max).map(|seed| (seed + 1, lockstep::walked(seed)));
    let caught = walks.find(|(_, part)| part.failure.is_some());
    let mut search = (0..lockstep::parts()).map(|n| (walks_max, lockstep::searched(n, TRANSITIONS)));
    let caught = caught.or_else(|| search.find(|(_, part)| part.failure.is_some()));
    detect::activate(None);
    caught
}

/// As [`judge_rule_e`], below a journal.
#[must_use]
pub fn judge_rule_j(mutant: detect::Mutant, walks_max: u64) -> Option<String> {
    detect::activate(Some(mutant));
    let ordered = Setup::large(Mode::Ordered);
    let known = known::histories().into_iter();
    let mut known = known
        .filter_map(|(name, it)| Some(format!("{name}, {}", lockstep::retold(&ordered, &it, false).err()?)));
    let mut walks = (0..walks_max).map(lockstep::judged);
    let caught =
        known.next().or_else(|| walks.find_map(|it| Some(format!("{}, {}", it.name, it.failure?.1))));
    detect::activate(None);
    caught
}

/// As [`judge_rule_e`], below a journal elsewhere; and both versions on the same
/// walks, up to the one that fails.
#[must_use]
pub fn hunt_elsewhere(mutant: detect::Mutant, walks_max: u64) -> (Option<String>, Option<(u64, Part)>) {
    detect::activate(Some(mutant));
    let setup = elsewhere::setup_large(Mode::Ordered);
    let known = known::histories().into_iter();
    let mut known = known
        .filter_map(|(name, it)| Some(format!("{name}, {}", elsewhere::retold(&setup, &it, false).err()?)));
    let mut judged = (0..walks_max).map(elsewhere::judged);
    let judge =
        known.next().or_else(|| judged.find_map(|it| Some(format!("{}, {}", it.name, it.failure?.1))));
    let mut walks = (0..walks_max).map(|seed| (seed + 1, elsewhere::walked(seed)));
    let twin = walks.find(|(_, part)| part.failure.is_some());
    detect::activate(None);
    (judge, twin)
}
