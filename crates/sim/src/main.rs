//! The simulator from the command line.

use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use quietus_sim::Watchers::Both;
use quietus_sim::keylife::Fault;
use quietus_sim::keylife::graph::{self, Against, Limits};
use quietus_sim::marked::graph::Graph;
use quietus_sim::marked::lives::{self, Enumerated, Failure, enumerated};
use quietus_sim::rules::rule_e::trial::{Part, parts, searched, walked};
use quietus_sim::rules::rule_j::trial as journal;
#[cfg(debug_assertions)]
use quietus_sim::run::mutants::all_found;
use quietus_sim::run::pairs::{Guest, PAIRS, Pair};
use quietus_sim::silence_panics;
use quietus_sim::soak::{soak, split};
use quietus_sim::unitlife;
use quietus_sim::vault;
use std::cell::Cell;
use std::fmt::Debug;
use std::ops::AddAssign;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// Time between two reports of progress.
const PROGRESS_EVERY: Duration = Duration::from_secs(30);
/// States of a marked block with two files that are explored unless others are asked for.
const TWO_FILES_STATES: u64 = 100_000;

/// Play random histories on a disk with simulated media, and report which
/// promise was broken first. Exit code: 0 if every promise was kept, 1 if one was broken.
#[derive(Parser)]
#[command(version)]
struct Cli {
    /// Repeat the history of this seed; if it fails, shrink it.
    #[arg(long)]
    seed: Option<u64>,
    /// The pair, by its number in `soak --list`.
    #[arg(long, default_value_t = 0, requires = "seed")]
    pair: usize,
    /// Print the whole history too, of bare requests.
    #[arg(long, requires = "seed")]
    list: bool,
    /// Do not shrink the history if it fails.
    #[arg(long, requires = "seed")]
    whole: bool,
    #[command(subcommand)]
    command: Option<Job>,
}

#[derive(Subcommand)]
enum Job {
    /// Play many histories of each pair of a guest and a store, on all processors.
    Soak {
        /// List the pairs, and what `make check` plays of each.
        #[arg(long)]
        list: bool,
        /// Only the pair with this number.
        #[arg(long)]
        only: Option<usize>,
        /// Histories of each pair [default: as many as `make check` plays].
        #[arg(long)]
        seeds: Option<u64>,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Test the rules of inference: two versions of them, and a guest
    /// that knows what it owns, over all states of small disks and over long
    /// walks.
    Differential {
        /// Steps to try in each part of the search.
        #[arg(long, default_value_t = 300_000)]
        transitions: u64,
        /// Walks.
        #[arg(long, default_value_t = 100_000)]
        walks: u64,
    },
    /// Play histories of a vault: concurrent puts, forgets, restores and sanitizations, and power cuts.
    Vault {
        /// Histories.
        #[arg(long, default_value_t = 2_000)]
        seeds: u64,
        /// The first seed.
        #[arg(long, default_value_t = 0)]
        from: u64,
    },
    /// Enumerate the life of a marked block (docs/decisions/0028-life-of-a-marked-block.md): every event in every
    /// state, the product beside the page, in lives that together take every transition. All lives of one file take half
    /// an hour on two processors; `--every 200` takes half a minute.
    MarkedBlock(MarkedBlock),
    /// Enumerate the life of a key of a sealed disk (docs/decisions/0037-life-of-a-key.md): every event in every state of
    /// the page, a literal machine of media, sectors and keys beside it.
    KeyLife(KeyLife),
    /// Enumerate the life of a unit of a disk on raw flash (docs/decisions/0039-life-of-a-unit.md): every event in every
    /// state of the page, a literal machine of a raw chip beside it.
    UnitLife(UnitLife),
    /// Check that each deliberate defect of the core and of the rules is found.
    #[cfg(debug_assertions)]
    Mutants {
        /// Give a defect up after this many histories.
        #[arg(long, default_value_t = 200_000)]
        seeds_max: u64,
        /// Only the defects whose names contain this.
        #[arg(long, default_value = "")]
        only: String,
    },
}

#[derive(Args)]
struct MarkedBlock {
    /// Files: 1 or 2.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    files: u8,
    /// Explore this many states, nearest to the first state first [default: all for one file, 100000 for two].
    #[arg(long)]
    states: Option<u64>,
    /// Play only every n-th life.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Begin with this life, to resume a run that was stopped.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Play only this life; print its events and the difference, if there is one.
    #[arg(long, conflicts_with_all = ["every", "from"])]
    life: Option<u64>,
}

#[derive(Args)]
struct KeyLife {
    /// Blocks that the guest uses, 1 to 3; the others are live and stay so.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=3))]
    blocks: u8,
    /// Explore this many states, nearest to the first state first [default: all].
    #[arg(long)]
    states: Option<u64>,
    /// Play this many random walks instead, with three blocks in use.
    #[arg(long, conflicts_with_all = ["blocks", "states"])]
    walks: Option<u64>,
    /// Begin with the walk of this seed.
    #[arg(long, default_value_t = 0, requires = "walks")]
    from: u64,
    /// Tell states apart by the literal machine too, of which there are more.
    #[arg(long, conflicts_with_all = ["walks", "page"])]
    joint: bool,
    /// Explore the page alone.
    #[arg(long)]
    page: bool,
    /// Leave a rule out of the literal machine, and look for a promise that it breaks: KeepPageCell, for example.
    #[arg(long, conflicts_with = "page")]
    fault: Option<String>,
}

#[derive(Args)]
struct UnitLife {
    /// Units that the guest uses, 1 or 2.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=2))]
    units: u8,
    /// Let one block fail, on a chip of five blocks instead of four.
    #[arg(long)]
    failures: bool,
    /// Explore this many states, nearest to the first state first [default: all].
    #[arg(long)]
    states: Option<u64>,
    /// Play this many random walks instead, with two units in use; in half of them a block may fail.
    #[arg(long, conflicts_with_all = ["units", "failures", "states"])]
    walks: Option<u64>,
    /// Begin with the walk of this seed.
    #[arg(long, default_value_t = 0, requires = "walks")]
    from: u64,
    /// Leave a rule out of the literal machine, and look for a promise that it breaks: ForgetStale, for example.
    #[arg(long)]
    fault: Option<String>,
}

fn main() -> ExitCode {
    silence_panics();
    let cli = Cli::parse();
    let is_well = match (cli.command, cli.seed) {
        (Some(Job::Soak { list: true, .. }), _) => list_pairs(),
        (Some(Job::Soak { only, seeds, from, .. }), _) => soak_pairs(only, from, seeds),
        (Some(Job::Differential { transitions, walks }), _) => trial(transitions, walks),
        (Some(Job::Vault { seeds, from }), _) => soak_vault(from, seeds),
        (Some(Job::MarkedBlock(args)), _) => marked_block(&args),
        (Some(Job::KeyLife(args)), _) => key_life(&args),
        (Some(Job::UnitLife(args)), _) => unit_life(&args),
        #[cfg(debug_assertions)]
        (Some(Job::Mutants { seeds_max, only }), _) => all_found(seeds_max, &only),
        (None, Some(seed)) => repeat(seed, (cli.pair, cli.list, cli.whole)),
        (None, None) => soak_pairs(None, 0, None),
    };
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn key_life(args: &KeyLife) -> bool {
    let fault = |name: &String| Fault::ALL.into_iter().find(|it| format!("{it:?}") == *name);
    let against = match args.fault.as_ref().map(fault) {
        Some(Some(fault)) => Against::Faulty(fault),
        Some(None) => {
            println!("unknown fault; expected one of {:?}", Fault::ALL);
            return false;
        }
        None if args.page => Against::Nothing,
        None => Against::Literal,
    };
    let (start, told) = (Instant::now(), Cell::new(Instant::now()));
    let all = if let Some(walks) = args.walks {
        graph::walks(args.from..args.from.saturating_add(walks), against)
    } else {
        let (blocks, states_max) = (args.blocks.into(), args.states.unwrap_or(u64::MAX));
        let joint = args.joint || args.fault.is_some();
        graph::enumerated(Limits { blocks, states_max, joint }, against, |it| {
            if told.get().elapsed() >= PROGRESS_EVERY {
                told.set(Instant::now());
                println!("{} states, {} transitions, {} events deep", it.states, it.transitions, it.depth);
            }
        })
    };
    let (seconds, end) = (start.elapsed().as_secs_f64(), if all.left == 0 { "no more" } else { "more" });
    let (transitions, illegal, depth) = (all.transitions, all.illegal, all.depth);
    println!("{} states, and {end} to explore, in {seconds:.0} s", all.states);
    println!("{transitions} transitions, {illegal} of them illegal; {depth} events deep");
    ends_well(all.failure.map(|it| (it.broken, it.path)))
}

fn unit_life(args: &UnitLife) -> bool {
    let named = |name: &String| unitlife::Fault::ALL.into_iter().find(|it| format!("{it:?}") == *name);
    let fault = args.fault.as_ref().map(named);
    if fault == Some(None) {
        println!("unknown fault; expected one of {:?}", unitlife::Fault::ALL);
        return false;
    }
    let (start, told) = (Instant::now(), Cell::new(Instant::now()));
    let all = if let Some(walks) = args.walks {
        unitlife::graph::walks(args.from..args.from.saturating_add(walks), fault.flatten())
    } else {
        let (units, may_fail) = (args.units, args.failures);
        let limits = unitlife::graph::Limits { units, may_fail, states_max: args.states.unwrap_or(u64::MAX) };
        unitlife::graph::enumerated(limits, fault.flatten(), |it| {
            if told.get().elapsed() >= PROGRESS_EVERY {
                told.set(Instant::now());
                println!("{} states, {} transitions, {} events deep", it.states, it.transitions, it.depth);
            }
        })
    };
    let (seconds, end) = (start.elapsed().as_secs_f64(), if all.left == 0 { "no more" } else { "more" });
    println!("{} states, and {end} to explore, in {seconds:.0} s", all.states);
    println!("{} transitions, {} of them illegal; {} events deep", all.transitions, all.illegal, all.depth);
    ends_well(all.failure.map(|it| (it.broken, it.path)))
}

/// Prints what was found, if anything, and the way there.
fn ends_well<S: Debug>(failure: Option<(String, Vec<S>)>) -> bool {
    let Some((broken, path)) = failure else {
        println!("0 differences");
        return true;
    };
    println!("{broken}; after");
    path.iter().for_each(|step| println!("    {step:?}"));
    false
}

fn marked_block(args: &MarkedBlock) -> bool {
    let states_max = if args.files == 1 { u64::MAX } else { TWO_FILES_STATES };
    let graph = Graph::explored(args.files.into(), args.states.unwrap_or(states_max));
    let (states, legal, end) = (graph.states(), graph.legal(), graph.is_complete());
    let end = if end { "these are all states" } else { "there are more states" };
    println!("the page: {states} states, {legal} legal transitions; {end}");
    let Some(number) = args.life else { return play_lives(args, &graph) };
    let Some((history, failure)) = lives::life(&graph, number) else {
        println!("there is no life {number}");
        return false;
    };
    println!("{history}");
    is_one(failure.as_ref())
}

/// Plays the lives that were asked for, and tells twice a minute how far it is: a run that was stopped can go on there.
fn play_lives(args: &MarkedBlock, graph: &Graph) -> bool {
    let (count, start) = (lives::count(graph) as u64, Instant::now());
    let (to_play, told) = (count.saturating_sub(args.from).div_ceil(args.every), Cell::new(start));
    println!("{count} lives, of which {to_play} are played");
    let all = enumerated(graph, args.from, args.every, |it| {
        if told.get().elapsed() < PROGRESS_EVERY {
            return;
        }
        told.set(Instant::now());
        let (next, elapsed) = (args.from + it.lives * args.every, start.elapsed().as_secs_f64());
        let left = elapsed * (to_play as f64 / it.lives as f64 - 1.0);
        println!(
            "next: life {next} of {count}; {} states; {elapsed:.0} s, about {left:.0} s left",
            it.states
        );
    });
    let seconds = start.elapsed().as_secs_f64();
    let Enumerated { lives, steps, states, transitions, illegal, depth, failure } = all;
    println!("{lives} lives of {steps} events, in {seconds:.0} s");
    println!("{states} states, {depth} events deep; {transitions} transitions, {illegal} of them illegal");
    is_one(failure.as_ref())
}

/// Whether the product does what the page says; prints the difference.
fn is_one(failure: Option<&Failure>) -> bool {
    let Some(Failure { life, history, broken }) = failure else {
        println!("no difference");
        return true;
    };
    println!("life {life}: {broken}; shortened:\n{history}");
    false
}

fn repeat(seed: u64, (pair, list, whole): (usize, bool, bool)) -> bool {
    let pair = &PAIRS[pair.min(PAIRS.len() - 1)];
    if list && pair.guest == Guest::Bare {
        println!("{}", pair.history(seed));
    } else if list {
        println!("{pair}: only histories of bare requests are listed");
    }
    let (part, figures) = if whole { pair.judged(seed) } else { pair.played(seed) };
    if part.failure.is_none() {
        println!("{}: every promise was kept; {figures:?}", part.name);
    }
    part.is_kept()
}

fn list_pairs() -> bool {
    for (n, pair) in PAIRS.iter().enumerate() {
        println!("{n}  {:<35} {:>6} histories", pair.to_string(), pair.histories);
    }
    true
}

fn soak_pairs(only: Option<usize>, from: u64, seeds: Option<u64>) -> bool {
    let pairs = PAIRS.iter().enumerate().filter(|(n, _)| only.is_none_or(|it| it == *n));
    pairs.filter(|pair| !soak_pair(*pair, from, seeds)).count() == 0
}

/// Plays the histories of some seeds and reports the outcome; `again` is the command that repeats one.
fn soak_with_bar<F: AddAssign + Debug + Default + Send>(
    name: &str,
    (from, seeds): (u64, u64),
    played: impl Fn(u64) -> (Part, F) + Sync,
    again: impl Fn(u64) -> String,
) -> bool {
    let (bar, start) = (bar(seeds), Instant::now());
    let tally = soak(played, from..from.saturating_add(seeds), || {}, |done| bar.set_position(done));
    bar.finish_and_clear();
    let seconds = start.elapsed().as_secs_f64();
    println!("{name}: {} histories, {} steps, in {seconds:.1} s", tally.histories, tally.steps);
    println!("{:?}", tally.figures);
    if let Some((seed, part)) = &tally.failure {
        part.is_kept();
        println!("again: cargo run -p quietus-sim --release -- {}", again(*seed));
    }
    tally.failure.is_none()
}

fn soak_pair((n, pair): (usize, &Pair), from: u64, seeds: Option<u64>) -> bool {
    let seeds = (from, seeds.unwrap_or(pair.histories));
    soak_with_bar(&pair.to_string(), seeds, |it| pair.played(it), |it| format!("--pair {n} --seed {it}"))
}

fn soak_vault(from: u64, seeds: u64) -> bool {
    soak_with_bar("a vault", (from, seeds), vault::played, |it| format!("vault --from {it} --seeds 1"))
}

/// ext2's rules, what FAT makes of them, and the rules below a journal.
fn trial(transitions: u64, walks: u64) -> bool {
    let mut is_well = trial_of(parts(), |n| searched(n, transitions), walks, walked);
    println!("below a journal:");
    let searched = |n| journal::searched(n, transitions);
    is_well &= trial_of(journal::parts(), searched, walks, journal::walked);
    println!("below a journal, with marked files:");
    is_well &= trial_of(0, searched, walks, |seed| journal::marked(seed).0);
    println!("below a journal and a cache:");
    is_well &= trial_of(0, searched, walks, |seed| journal::cached(seed, true, Both));
    println!("above an external journal:");
    trial_of(0, searched, walks, |seed| journal::external_journal(seed, Both)) && is_well
}

/// Runs all parts of a search, and then walks, and prints their figures.
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
        is_well &= part.is_kept();
    }
    println!("{total} transitions, enumerated");
    let walked = split(walks, walked);
    println!("{walks} walks of {} steps", walked.iter().map(|it| it.transitions).sum::<u64>());
    walked.iter().filter(|it| !it.is_kept()).take(1).count() == 0 && is_well
}

fn bar(len: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:40} {pos}/{len} histories, {per_sec}, {eta} left");
    ProgressBar::new(len).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
