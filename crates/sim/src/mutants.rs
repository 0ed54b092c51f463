//! The simulator's own test: deliberate defects of the core and of the rules that it must find.

use crate::differential::Watchers::{self, Both, Product};
use crate::files::FileSystem::{Ext2, Fat};
use crate::pairs::{Guest, PAIRS, Pair, Store};
use crate::rule_e::known::{self, Known};
use crate::rule_e::trial::{Part, parts, retold, searched, walked};
use crate::rule_j::guest::Mode;
use crate::rule_j::known::histories;
use crate::rule_j::play::{Setup, Step};
use crate::rule_j::reference::RULE;
use crate::rule_j::trial as journal;
use crate::soak::{Tally, soak, threads};
use quietus_core::mutant::{Mutant, activate};
use quietus_detect::mutant::{self as detect, Mutant as Defect};

/// The history that found a defect, and the number of histories until then.
pub type Caught = Option<(u64, Part)>;

/// Steps that are tried in each part of the search for a defect of the rules.
const TRANSITIONS: u64 = 5_000;
/// Walks after which a defect of the rules is given up.
const WALKS_MAX: u64 = 8_000;

/// Histories of a guest above a volume after which its judge gives a defect of the rules up.
const LIVES_MAX: u64 = 2_000;

/// Switches `mutant` on and lets at most `seeds_max` histories happen to each pair that may show
/// it.
pub fn hunt(mutant: Mutant, seeds_max: u64) -> Caught {
    let is_watched = Mutant::WATCHED.contains(&mutant);
    let needs_versions = Mutant::OF_VERSIONS.contains(&mutant);
    let may_show = |it: &&Pair| {
        (it.guest != Guest::Bare) == is_watched && (!needs_versions || it.store == Store::Versions)
    };
    let mut pairs = PAIRS.iter().filter(may_show);
    pairs.find_map(|pair| play(pair, seeds_max, || activate(Some(mutant))))
}

/// Switches `mutant` of the rules on below `pair`.
pub fn hunt_pair(mutant: detect::Mutant, pair: &Pair) -> Caught {
    play(pair, WALKS_MAX, || detect::activate(Some(mutant)))
}

fn play(pair: &Pair, seeds_max: u64, prepare: impl Fn() + Sync) -> Caught {
    let Tally { histories, failure, .. } = soak(pair, 0..seeds_max, threads(), prepare, |_| {});
    failure.map(|(_, part)| (histories, part))
}

/// What guests live through above rules with a defect.
pub struct Trial {
    /// Where the guests live.
    pub name: &'static str,
    /// The defects that must be found.
    pub defects: &'static [Defect],
    /// The judge alone, without the second version of the rules.
    judge: fn() -> Option<String>,
    /// Both versions of the rules.
    differential: fn() -> Caught,
    /// Whether it is enough that the judge, and that both versions, found a defect.
    is_enough: fn(bool, bool) -> bool,
}

/// All trials of the rules.
pub const TRIALS: [Trial; 4] = [
    Trial {
        name: "below no journal",
        defects: &Defect::ALL,
        judge: || kept(&known::histories(), Product).or_else(|| lived(&[EXT2, FAT])),
        differential: || rules(&known::histories()),
        is_enough: |judge, differential| judge || differential,
    },
    Trial {
        name: "below a cache",
        defects: &Defect::CACHED,
        judge: || lived(&[Guest::Cached(Ext2), Guest::Cached(Fat)]),
        differential: || rules(&known::cached()),
        is_enough: |judge, differential| judge && differential,
    },
    Trial {
        name: "below a journal",
        defects: &Defect::RULE_J,
        judge: || {
            let setup = Setup::large(Mode::Ordered);
            told(histories(), |it| retold_journal(&setup, it), |seed| journal::lived(seed, Product))
        },
        differential: || walk(journal::walked).or_else(|| search(journal::parts(), journal::searched)),
        is_enough: |judge, differential| judge || differential,
    },
    Trial {
        name: "above an external journal",
        defects: &Defect::EXTERNAL_JOURNAL,
        judge: || {
            let setup = Setup::large(Mode::Ordered).external_journal();
            told(
                histories(),
                |it| retold_journal(&setup, it),
                |seed| journal::external_journal(seed, Product),
            )
        },
        differential: || walk(|seed| journal::external_journal(seed, Both)),
        is_enough: |judge, differential| judge || differential,
    },
];

impl Trial {
    /// Switches `defect` on. Returns what the judge objects to, what both versions found, and
    /// whether that is enough.
    pub fn hunt(&self, defect: Defect) -> (Option<String>, Caught, bool) {
        detect::activate(Some(defect));
        let (judge, differential) = ((self.judge)(), (self.differential)());
        detect::activate(None);
        let is_enough = (self.is_enough)(judge.is_some(), differential.is_some());
        (judge, differential, is_enough)
    }
}

const EXT2: Guest = Guest::Files(&[Ext2]);
const FAT: Guest = Guest::Files(&[Fat]);

/// The objection to a history that is kept.
fn kept(known: &[Known], watchers: Watchers) -> Option<String> {
    known.iter().find_map(|it| Some(format!("{}, {}", it.name, retold(it, true, watchers).err()?)))
}

/// The objection to the life of one of these guests above a volume in place, while a defect is on.
fn lived(guests: &[Guest]) -> Option<String> {
    let mut pairs = PAIRS.iter().filter(|it| guests.contains(&it.guest) && it.store == Store::InPlace);
    pairs.find_map(|pair| {
        let mut lives = (0..LIVES_MAX).map(|seed| pair.played(seed).0);
        lives.find_map(|it| Some(format!("{}, {}", it.name, it.failure?.1)))
    })
}

/// What both versions of rule E find.
fn rules(known: &[Known]) -> Caught {
    let kept = kept(known, Both).map(|broken| {
        let failure = Some((String::new(), broken));
        (0, Part { name: String::new(), states: 0, transitions: 0, depth: 0, failure })
    });
    kept.or_else(|| walk(walked)).or_else(|| search(parts(), searched))
}

fn retold_journal(setup: &Setup, steps: &[Step]) -> Result<(), String> {
    journal::retold(setup, steps, Product, RULE)
}

/// The first walk that fails.
fn walk(walked: impl Fn(u64) -> Part) -> Caught {
    let mut walks = (0..WALKS_MAX).map(|seed| (seed + 1, walked(seed)));
    walks.find(|(_, part)| part.failure.is_some())
}

fn search(parts: usize, searched: impl Fn(usize, u64) -> Part) -> Caught {
    let mut search = (0..parts).map(|n| (WALKS_MAX, searched(n, TRANSITIONS)));
    search.find(|(_, part)| part.failure.is_some())
}

/// The objection of the judge, and its place: in the histories that are kept, or in walks.
fn told<S>(
    known: Vec<(&'static str, Vec<S>)>,
    retold: impl Fn(&[S]) -> Result<(), String>,
    walked: impl Fn(u64) -> Part,
) -> Option<String> {
    let mut known =
        known.into_iter().filter_map(|(name, it)| Some(format!("{name}, {}", retold(&it).err()?)));
    known.next().or_else(|| walk(walked).and_then(|(_, it)| Some(format!("{}, {}", it.name, it.failure?.1))))
}
