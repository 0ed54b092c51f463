//! The simulator's own test: deliberate defects of the core and of the rules that it must find.

use crate::guests::files::FileSystem::{Ext2, Ext4Reserving, Ext4Unjournaled, Fat};
use crate::marked::graph::Graph;
use crate::marked::lives::{Enumerated, enumerated_here};
use crate::rules::differential::Watchers;
use crate::rules::differential::Watchers::{Both, Product};
use crate::rules::rule_e::known;
use crate::rules::rule_e::known::Known;
use crate::rules::rule_e::marks;
use crate::rules::rule_e::trial::{Part, parts, retold, searched, walked};
use crate::rules::rule_j::guest::Mode;
use crate::rules::rule_j::known::histories;
use crate::rules::rule_j::play::Step;
use crate::rules::rule_j::reference::Reading;
use crate::rules::rule_j::setup::Setup;
use crate::rules::rule_j::trial as journal;
use crate::run::pairs::{Guest, PAIRS, Pair, Store};
use crate::soak::{Tally, soak};
use crate::vault;
use quietus_core::mutant::{Mutant, activate};
use quietus_detect::mutant::{self as detect, Mutant as Defect};
use quietus_vault::mutant as vault_mutant;
use std::fmt::Debug;
use std::ops::AddAssign;

/// The history that found a defect, and the number of histories until then.
type Caught = Option<(u64, Part)>;

/// Steps that are tried in each part of the search for a defect of the rules.
const TRANSITIONS: u64 = 5_000;
/// Walks after which a defect of the rules is given up.
const WALKS_MAX: u64 = 8_000;
/// Histories after which a defect of the vault is given up.
const VAULTS_MAX: u64 = 20_000;
/// Histories of a guest above a volume after which its judge gives a defect of the rules up.
const LIVES_MAX: u64 = 2_000;
/// Lives with marked files after which a defect of marks is given up.
const MARKED_LIVES_MAX: u64 = 5_000;
/// States of a marked block, of two files, in which a defect is looked for.
const MARKED_STATES_MAX: u64 = 20_000;

/// Whether each defect whose name contains `name` is found; one of the core or a vault within `seeds_max` histories.
pub fn all_found(seeds_max: u64, name: &str) -> bool {
    let of_stores = Mutant::OF_VERSIONS.into_iter().chain(Mutant::OF_REMAINS).chain(Mutant::OF_SEALED);
    let core = Mutant::ALL.into_iter().chain(Mutant::WATCHED).chain(of_stores);
    hunt_all(vault_mutant::Mutant::EVERY.iter().copied(), name, |it| hunt_vault(it, seeds_max))
        & hunt_rules(name)
        & hunt_pairs(name)
        & hunt_all(OF_MARKED_BLOCK, name, hunt_marked_block)
        & hunt_all(core, name, |it| hunt(it, seeds_max))
}

/// Seeds at which the search for a rare defect begins: from 0 it would take minutes.
const RARE: [(Mutant, u64); 3] = [
    (Mutant::CheckpointBeforeOwed, 123_700),
    (Mutant::FlushBeforeCompletion, 12_000),
    (Mutant::DieDuringOverwrite, 7_900),
];

/// Switches `mutant` on and lets at most `seeds_max` histories happen to each pair that may show
/// it.
fn hunt(mutant: Mutant, seeds_max: u64) -> Caught {
    let is_watched = Mutant::WATCHED.contains(&mutant);
    let needs: &[Store] = match mutant {
        it if Mutant::OF_VERSIONS.contains(&it) => &[Store::Versions],
        it if Mutant::OF_REMAINS.contains(&it) => &[Store::Stubborn, Store::Spent],
        it if Mutant::OF_SEALED.contains(&it) => &[Store::Sealed],
        it if Mutant::OF_ERASING.contains(&it) => &[Store::Erasing],
        _ => &[],
    };
    let may_show = |it: &&Pair| {
        (it.guest != Guest::Bare) == is_watched && (needs.is_empty() || needs.contains(&it.store))
    };
    let first = RARE.iter().find(|(it, _)| *it == mutant).map_or(0, |(_, seed)| *seed);
    let mut pairs = PAIRS.iter().filter(may_show);
    pairs.find_map(|pair| play(|seed| pair.judged(first + seed), seeds_max, || activate(Some(mutant))))
}

fn hunt_vault(mutant: vault_mutant::Mutant, seeds_max: u64) -> Caught {
    play(vault::played, seeds_max.min(VAULTS_MAX), || vault_mutant::activate(Some(mutant)))
}

/// Switches `mutant` of the rules on below `pair`.
fn hunt_pair(mutant: detect::Mutant, pair: &Pair) -> Caught {
    play(|seed| pair.played(seed), WALKS_MAX, || detect::activate(Some(mutant)))
}

/// The defects of the core that the enumeration of a marked block finds.
const OF_MARKED_BLOCK: [Mutant; 3] =
    [Mutant::ReceiptBeforeSync, Mutant::ForgetSensitive, Mutant::AskClassLate];

/// Switches `mutant` on below a marked block.
fn hunt_marked_block(mutant: Mutant) -> Caught {
    activate(Some(mutant));
    let caught = marked_block();
    activate(None);
    caught
}

/// The life that tells the product from the page of a marked block.
fn marked_block() -> Caught {
    let graph = Graph::explored(2, MARKED_STATES_MAX);
    let Enumerated { lives, states, transitions, depth, failure, .. } = enumerated_here(&graph);
    let failure = Some(failure.map(|it| (it.history, it.broken))?);
    Some((lives, Part { name: "a marked block".into(), states, transitions, depth, failure }))
}

fn play<F: AddAssign + Default + Send>(
    played: impl Fn(u64) -> (Part, F) + Sync,
    seeds_max: u64,
    prepare: impl Fn() + Sync,
) -> Caught {
    let Tally { histories, failure, .. } = soak(played, 0..seeds_max, prepare, |_| {});
    failure.map(|(_, part)| (histories, part))
}

/// The lives of guests above rules with a defect.
struct Trial {
    /// Where the guests live.
    name: &'static str,
    /// The defects that must be found.
    defects: &'static [Defect],
    /// The judge alone, without the second version of the rules.
    judge: fn() -> Option<String>,
    /// Both versions of the rules.
    differential: fn() -> Caught,
    /// Both the judge and the two versions must find a defect; else one of them is enough.
    needs_both: bool,
}

const TRIALS: [Trial; 8] = [
    Trial {
        name: "below no journal",
        defects: &Defect::ALL,
        judge: || kept(&known::histories(), Product).or_else(|| lived(&[EXT2, FAT])),
        differential: || rules(&known::histories()),
        needs_both: false,
    },
    Trial {
        name: "of reserved space, below no journal",
        defects: &Defect::UNWRITTEN,
        judge: || lived(&[Guest::Files(&[Ext4Unjournaled])]),
        differential: || rules(&known::histories()),
        needs_both: false,
    },
    Trial {
        name: "of reserved space, below a journal",
        defects: &Defect::UNWRITTEN_J,
        judge: || {
            let walk = walk(|seed| journal::reserving(seed, Product));
            walk.and_then(|it| objection(it.1)).or_else(|| lived(&[Guest::Files(&[Ext4Reserving])]))
        },
        differential: || walk(|seed| journal::reserving(seed, Both)),
        needs_both: false,
    },
    Trial {
        name: "with marks",
        defects: &Defect::MARKS,
        judge: || (0..MARKED_LIVES_MAX).find_map(|seed| marks::lived(seed).err()),
        differential: || None,
        needs_both: false,
    },
    Trial {
        name: "of a marked block",
        defects: &Defect::MARKED_BLOCK,
        judge: || None,
        differential: marked_block,
        needs_both: false,
    },
    Trial {
        name: "below a cache",
        defects: &Defect::CACHED,
        judge: || lived(&[Guest::Cached(Ext2), Guest::Cached(Fat)]),
        differential: || rules(&known::cached()),
        needs_both: true,
    },
    Trial {
        name: "below a journal",
        defects: &Defect::RULE_J,
        judge: || told(&Setup::large(Mode::Ordered), |seed| journal::lived(seed, Product)),
        differential: || walk(journal::walked).or_else(|| search(journal::parts(), journal::searched)),
        needs_both: false,
    },
    Trial {
        name: "above an external journal",
        defects: &Defect::EXTERNAL_JOURNAL,
        judge: || {
            let setup = Setup::large(Mode::Ordered).external_journal();
            told(&setup, |seed| journal::external_journal(seed, Product))
        },
        differential: || walk(|seed| journal::external_journal(seed, Both)),
        needs_both: false,
    },
];

impl Trial {
    /// Switches `defect` on. Returns what the judge objects to, what both versions found, and
    /// whether that is enough.
    fn hunt(&self, defect: Defect) -> (Option<String>, Caught, bool) {
        detect::activate(Some(defect));
        let (judge, differential) = ((self.judge)(), (self.differential)());
        detect::activate(None);
        let found = [judge.is_some(), differential.is_some()];
        let is_enough = if self.needs_both { found == [true; 2] } else { found.contains(&true) };
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
    pairs.find_map(|pair| (0..LIVES_MAX).find_map(|seed| objection(pair.played(seed).0)))
}

/// The finding of both versions of rule E.
fn rules(known: &[Known]) -> Caught {
    let kept = kept(known, Both).map(|broken| {
        let failure = Some((String::new(), broken));
        (0, Part { failure, ..Part::default() })
    });
    kept.or_else(|| walk(walked)).or_else(|| search(parts(), searched))
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

/// The objection of rule J's judge, and its place: in the histories that are kept, of a guest of `setup`, or in walks.
fn told(setup: &Setup, walked: impl Fn(u64) -> Part) -> Option<String> {
    let retold = |(name, steps): (_, Vec<Step>)| {
        Some(format!("{name}, {}", journal::retold(setup, &steps, Product, Reading::Page).err()?))
    };
    histories().into_iter().find_map(retold).or_else(|| objection(walk(walked)?.1))
}

/// The objection to `part`, and its place.
fn objection(part: Part) -> Option<String> {
    Some(format!("{}, {}", part.name, part.failure?.1))
}

/// Whether all of the defects `all` whose names contain `name` are found, each by its `hunt`; tells how.
fn hunt_all<M: Copy + Debug>(
    all: impl IntoIterator<Item = M>,
    name: &str,
    hunt: impl Fn(M) -> Caught,
) -> bool {
    let mut is_well = true;
    for it in all.into_iter().filter(|it| format!("{it:?}").contains(name)) {
        let Some((histories, part)) = hunt(it) else {
            println!("{it:?}: NOT FOUND");
            is_well = false;
            continue;
        };
        println!("{it:?}: found after {histories} histories");
        part.is_kept();
    }
    is_well
}

/// Defects of the rules whose names contain `name`.
fn hunt_rules(name: &str) -> bool {
    let mut is_well = true;
    for trial in TRIALS {
        println!("{}:", trial.name);
        for defect in trial.defects.iter().filter(|it| format!("{it:?}").contains(name)) {
            let (judge, differential, is_enough) = trial.hunt(*defect);
            is_well &= is_enough;
            println!("{defect:?}\n    the judge: {}", judge.unwrap_or_else(|| "nothing".into()));
            let differential = differential
                .map(|(walks, part)| format!("walk {walks}, {}", part.failure.unwrap_or_default().1));
            println!("    both versions: {}", differential.unwrap_or_else(|| "NOT FOUND".into()));
        }
    }
    is_well
}

/// Defects that every guest with a file system finds above a whole volume.
fn hunt_pairs(name: &str) -> bool {
    let pairs = || PAIRS.iter().filter(|it| it.guest != Guest::Bare);
    let in_any = hunt_all(Defect::ANY_PAIR, name, |it| pairs().find_map(|pair| hunt_pair(it, pair)));
    let in_all = pairs().map(|pair| {
        println!("{pair}:");
        hunt_all(Defect::VOLUME, name, |it| hunt_pair(it, pair))
    });
    in_all.fold(in_any, |is_well, it| it && is_well)
}
