//! The simulator from the command line.

use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use quietus_sim::history::History;
use quietus_sim::rule_e::cache;
use quietus_sim::rule_e::fat::trial as fat;
use quietus_sim::rule_e::trial::{Part, parts, searched, walked, walked_whole};
use quietus_sim::rule_j::{elsewhere, lockstep};
use quietus_sim::shrink::shrink;
use quietus_sim::soak::{Tally, soak, threads};
use quietus_sim::verdict::{silence_panics, verdict};
use quietus_sim::violation::Violation;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// Lets made-up histories happen to a disk on simulated media, and says which
/// promise was broken first. Exit code 0: none; 1: one was.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Repeat the history of this seed, and cut it down if it fails.
    #[arg(long)]
    seed: Option<u64>,
    /// Print the whole history too.
    #[arg(long, requires = "seed")]
    list: bool,
    #[command(subcommand)]
    command: Option<Job>,
}

#[derive(Subcommand)]
enum Job {
    /// Let many histories happen, over all processors.
    Soak {
        /// How many.
        #[arg(long, default_value_t = 1_000_000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Put the rules of inference on trial: two versions of them, and a guest
    /// that knows what it owns, over all states of small disks and over long
    /// walks.
    Twin {
        /// Steps to try in each part of the search.
        #[arg(long, default_value_t = 300_000)]
        transitions: u64,
        /// Walks.
        #[arg(long, default_value_t = 100_000)]
        walks: u64,
    },
    /// Put a guest with a file system above a whole volume that watches it.
    Whole {
        /// How many lives of a guest.
        #[arg(long, default_value_t = 10_000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Check that each deliberate defect of the core and of the rules is found.
    #[cfg(feature = "mutants")]
    Mutants {
        /// Give one up after so many histories.
        #[arg(long, default_value_t = 200_000)]
        seeds_max: u64,
    },
}

fn main() -> ExitCode {
    silence_panics();
    let cli = Cli::parse();
    let is_well = match (cli.command, cli.seed) {
        (Some(Job::Soak { seeds, from }), _) => soak_with_bar(from, seeds),
        (Some(Job::Twin { transitions, walks }), _) => trial(transitions, walks),
        (Some(Job::Whole { seeds, from }), _) => wholes(from, seeds),
        #[cfg(feature = "mutants")]
        (Some(Job::Mutants { seeds_max }), _) => {
            let rules = hunt_rules();
            let watched = hunt_watched();
            hunt_all(seeds_max) && rules && watched
        }
        (None, Some(seed)) => repeat(seed, cli.list),
        (None, None) => soak_with_bar(0, 10_000),
    };
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn repeat(seed: u64, list: bool) -> bool {
    let history = History::from_seed(seed);
    if list {
        println!("{history}");
    }
    match verdict(&history) {
        Ok(figures) => println!("seed {seed}: every promise was kept; {figures:?}"),
        Err(violation) => {
            explain(seed, &violation);
            return false;
        }
    }
    true
}

/// Prints the shortest history found that fails as that of `seed` does.
fn explain(seed: u64, violation: &Violation) {
    println!("seed {seed}: {violation}");
    println!("cutting it down…");
    let short = shrink(&History::from_seed(seed), violation.oracle);
    println!("{short}");
    if let Err(violation) = verdict(&short) {
        println!("{violation}");
    }
    println!("again: cargo run -p quietus-sim --release -- --seed {seed}");
}

fn soak_with_bar(from: u64, seeds: u64) -> bool {
    let (bar, start) = (bar(seeds), Instant::now());
    let tally = soak(from..from.saturating_add(seeds), threads(), || {}, |done| bar.set_position(done));
    bar.finish_and_clear();
    println!("{} histories in {:.1} s", tally.histories, start.elapsed().as_secs_f64());
    report(&tally)
}

fn report(tally: &Tally) -> bool {
    println!("{:#?}", tally.figures);
    if let Some((seed, violation)) = &tally.failure {
        explain(*seed, violation);
    }
    tally.failure.is_none()
}

/// ext2's rules, what FAT makes of them, and the rules below a journal.
fn trial(transitions: u64, walks: u64) -> bool {
    let mut is_well = trial_of(parts(), |n| searched(n, transitions), walks, walked);
    is_well &= trial_of(fat::parts(), |n| fat::searched(n, transitions), walks, fat::walked);
    println!("below a cache:");
    is_well &= trial_of(0, |n| cache::walked(n as u64), walks, cache::walked);
    println!("below a journal:");
    let searched = |n| lockstep::searched(n, transitions);
    is_well &= trial_of(lockstep::parts(), searched, walks, lockstep::walked);
    println!("below a journal elsewhere:");
    trial_of(0, |n| elsewhere::walked(n as u64), walks, elsewhere::walked) && is_well
}

/// All parts of a search, and then walks; with their figures.
fn trial_of(
    parts: usize,
    searched: impl Fn(usize) -> Part + Sync,
    walks: u64,
    walked: impl Fn(u64) -> Part + Sync,
) -> bool {
    let (mut total, mut is_well) = (0, true);
    for part in split(parts as u64, |n| searched(n as usize)) {
        let Part { name, transitions, states, depth, .. } = &part;
        println!("{name}: {transitions} transitions, {states} states, {depth} steps deep");
        total += part.transitions;
        is_well &= told(&part);
    }
    println!("{total} transitions, enumerated");
    let walked = split(walks, walked);
    println!("{walks} walks of {} steps", walked.iter().map(|it| it.transitions).sum::<u64>());
    walked.iter().filter(|it| !told(it)).take(1).count() == 0 && is_well
}

/// The lives of `seeds` guests above whole volumes.
fn wholes(from: u64, seeds: u64) -> bool {
    let walks = split(seeds, |n| walked_whole(from.saturating_add(n)));
    println!("{seeds} guests, {} steps", walks.iter().map(|it| it.transitions).sum::<u64>());
    walks.iter().filter(|it| !told(it)).take(1).count() == 0
}

/// `work` on the numbers below `end`, over all processors.
fn split(end: u64, work: impl Fn(u64) -> Part + Sync) -> Vec<Part> {
    let next = AtomicU64::new(0);
    let work = || -> Vec<_> {
        std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|n| *n < end))
            .map(|n| (n, work(n)))
            .collect()
    };
    let mut parts = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads()).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|it| it.join().expect("parts catch panics")).collect::<Vec<_>>()
    });
    parts.sort_by_key(|(n, _)| *n);
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Whether `part` kept every promise; tells of the one that it broke.
fn told(part: &Part) -> bool {
    if let Some((history, broken)) = &part.failure {
        println!("{}: {broken}\n{history}", part.name);
    }
    part.failure.is_none()
}

fn bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} histories, {per_sec}, {eta} left");
    ProgressBar::new(len).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

#[cfg(feature = "mutants")]
fn hunt_all(seeds_max: u64) -> bool {
    let survivors =
        quietus_core::mutant::Mutant::ALL.into_iter().filter(|mutant| !is_found(*mutant, seeds_max));
    let survivors: Vec<_> = survivors.collect();
    if !survivors.is_empty() {
        println!("not found: {survivors:?}");
    }
    survivors.is_empty()
}

#[cfg(feature = "mutants")]
fn is_found(mutant: quietus_core::mutant::Mutant, seeds_max: u64) -> bool {
    let Some(caught) = quietus_sim::mutants::hunt(mutant, seeds_max, threads()) else {
        println!("{mutant:?}: not found in {seeds_max} histories");
        return false;
    };
    let steps = caught.history.steps.len();
    println!("{mutant:?}: found after {} histories; {steps} steps show it", caught.histories);
    for step in &caught.history.steps {
        println!("    {step}");
    }
    println!("    {}", caught.violation);
    true
}

/// Defects of the core that a guest with a file system above it shows.
#[cfg(feature = "mutants")]
fn hunt_watched() -> bool {
    println!("above a whole volume:");
    let all = quietus_core::mutant::Mutant::WATCHED.into_iter();
    let found = all.map(|mutant| {
        let caught = quietus_sim::mutants::hunt_whole(mutant, RULE_WALKS_MAX);
        let (walks, (history, broken)) = match caught {
            Some((walks, part)) => (walks, part.failure.unwrap_or_default()),
            None => {
                println!("{mutant:?}: NOT FOUND");
                return false;
            }
        };
        println!("{mutant:?}: found after {walks} guests\n{history}    {broken}");
        true
    });
    found.fold(true, |all, one| all && one)
}

/// Walks after which a defect of the rules is given up.
#[cfg(feature = "mutants")]
const RULE_WALKS_MAX: u64 = 4_000;

#[cfg(feature = "mutants")]
fn hunt_rules() -> bool {
    use quietus_detect::mutant::Mutant;
    use quietus_sim::mutants::{
        hunt_cached, hunt_elsewhere, hunt_rule_e, hunt_rule_j, judge_rule_e, judge_rule_j,
    };
    let mut is_well = true;
    for mutant in Mutant::ALL {
        let twin = hunt_rule_e(mutant, RULE_WALKS_MAX);
        is_well &= twin.is_some();
        tell(mutant, judge_rule_e(mutant, RULE_WALKS_MAX), twin);
    }
    println!("below a cache:");
    for mutant in Mutant::CACHED {
        let (judge, twin) = hunt_cached(mutant, RULE_WALKS_MAX);
        is_well &= judge.is_some() && twin.is_some();
        tell(mutant, judge, twin);
    }
    println!("below a journal:");
    for mutant in Mutant::RULE_J {
        let (judge, twin) = (judge_rule_j(mutant, RULE_WALKS_MAX), hunt_rule_j(mutant, RULE_WALKS_MAX));
        is_well &= judge.is_some() || twin.is_some();
        tell(mutant, judge, twin);
    }
    println!("below a journal elsewhere:");
    for mutant in Mutant::JOURNAL_ELSEWHERE {
        let (judge, twin) = hunt_elsewhere(mutant, RULE_WALKS_MAX);
        is_well &= judge.is_some() || twin.is_some();
        tell(mutant, judge, twin);
    }
    is_well
}

/// Says what found `mutant`.
#[cfg(feature = "mutants")]
fn tell(mutant: quietus_detect::mutant::Mutant, judge: Option<String>, twin: Option<(u64, Part)>) {
    println!("{mutant:?}\n    the judge: {}", judge.unwrap_or_else(|| "nothing".into()));
    let twin = twin.map(|(walks, part)| format!("walk {walks}, {}", part.failure.unwrap_or_default().1));
    println!("    both versions: {}", twin.unwrap_or_else(|| "NOT FOUND".into()));
}
