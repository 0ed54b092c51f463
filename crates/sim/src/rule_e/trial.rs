//! Everything that rule E is put through.

use crate::dice::Dice;
use crate::rule_e::guest::deeds::Deed;
use crate::rule_e::guest::system::Ext2;
use crate::rule_e::play::{self, Play, Setup};
use crate::rule_e::search::{Limits, Report, Space, cut_down, happen_and_finish, search, walk};
use crate::rule_e::wild::{self, Wild, options, themes};
use quietus_detect::options::Grade;
use std::fmt::Debug;

/// Steps of one walk.
const WALK_STEPS_MAX: usize = 160;

/// What came of one part.
#[derive(Clone, Debug)]
pub struct Part {
    /// What was tried.
    pub name: String,
    /// States that differ; 0 where nobody counted.
    pub states: u64,
    /// Steps that were tried.
    pub transitions: u64,
    /// Steps of the longest history.
    pub depth: usize,
    /// The shortest history that broke a promise, a step a line, and which.
    pub failure: Option<(String, String)>,
}

impl Part {
    pub(crate) fn of<S: Debug>(name: &str, report: Report<S>) -> Self {
        let failure = report.failure.map(|(steps, broken)| (listing(&steps), broken));
        let Report { states, transitions, depth, .. } = report;
        Self { name: name.into(), states, transitions, depth, failure }
    }
}

fn listing<S: Debug>(steps: &[S]) -> String {
    steps.iter().map(|it| format!("    {it:?}\n")).collect()
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
    Part::of(name, search(|| Play::<Ext2>::new(setup), limits))
}

/// Small file systems, of which all is searched.
fn setups() -> Vec<(&'static str, Setup)> {
    let small = Setup::small(options(Grade::Generation, false));
    vec![
        ("a guest, two blocks", Setup { slots: vec![0], ..small.clone() }),
        ("a guest, pointers", Setup { data: 3, ..small.clone() }),
        ("a guest that crashes", Setup { crashes: true, unmounts: true, slots: vec![0], ..small.clone() }),
        ("a server that is killed", Setup { restarts: true, slots: vec![0], ..small.clone() }),
        ("writes that overtake", Setup { reorders: true, slots: vec![0], passes_ms: vec![5, 2000], ..small }),
    ]
}

/// The walk of `seed`: what it is called, its steps, and why it failed.
#[must_use]
pub fn walked(seed: u64) -> Part {
    if seed.is_multiple_of(2) { walked_wild(seed) } else { walked_play(seed) }
}

fn walked_wild(seed: u64) -> Part {
    let grade = [Grade::Generation, Grade::Generation, Grade::Content, Grade::Block][seed as usize / 2 % 4];
    let theme = wild::everything(options(grade, seed % 16 == 2), seed.is_multiple_of(3), seed % 5 < 3);
    walked_through("whatever a guest may write", seed, || Wild::new(&theme))
}

/// The walk of `seed` through a guest's life, which only the judge watches.
#[must_use]
pub fn judged(seed: u64) -> Part {
    let setup = Setup { compares: false, ..setup_of(seed) };
    walked_through("a guest with a file system", seed, || Play::<Ext2>::new(&setup))
}

fn walked_play(seed: u64) -> Part {
    let setup = setup_of(seed);
    walked_through("a guest with a file system", seed, || Play::<Ext2>::new(&setup))
}

fn setup_of(seed: u64) -> Setup {
    let grade = if seed % 8 == 5 { Grade::Content } else { Grade::Generation };
    let mut setup = Setup::large(grade, false);
    setup.data = 2 + (seed / 2 % 6) as u32;
    setup.reorders = !seed.is_multiple_of(3);
    setup.crashes = seed % 5 < 3;
    setup.restarts = seed % 7 < 4;
    setup
}

/// The walk of `seed` through what `start` makes; cut down if it fails.
pub(crate) fn walked_through<P: Space>(name: &str, seed: u64, start: impl Fn() -> P) -> Part {
    taken(name, seed, start, |_| {})
}

/// The same; `look` at what it has come to.
pub(crate) fn taken<P: Space>(name: &str, seed: u64, start: impl Fn() -> P, look: impl FnOnce(&P)) -> Part {
    let mut dice = Dice::new(seed);
    let steps_max = dice.range(10, WALK_STEPS_MAX as u64) as usize;
    let mut space = start();
    let (depth, failure) = match walk(&mut space, &mut dice, steps_max) {
        Ok(steps) => (steps, None),
        Err((steps, broken)) => (steps.len(), Some(shortest(steps, broken, start))),
    };
    look(&space);
    Part { name: format!("{name}, seed {seed}"), states: 0, transitions: depth as u64, depth, failure }
}

/// Cuts a history down that broke a promise.
fn shortest<P: Space>(steps: Vec<P::Step>, broken: String, start: impl Fn() -> P) -> (String, String) {
    let fails =
        |it: &[P::Step]| happen_and_finish(&mut start(), it).is_err_and(|it| kind(&it) == kind(&broken));
    let steps = cut_down(steps, fails);
    let broken = happen_and_finish(&mut start(), &steps).err().unwrap_or(broken);
    (listing(&steps), broken)
}

/// What sort of promise it was: `safety`, `forensic`, what the versions differ in.
fn kind(broken: &str) -> &str {
    broken.split(':').next().unwrap_or(broken)
}

/// Lets `steps` happen to a guest with everything. `compares`: the literal
/// version of the rules watches too.
///
/// # Errors
/// The first broken promise.
pub fn retold(steps: &[play::Step<Deed>], compares: bool) -> Result<(), String> {
    let setup = Setup { compares, ..Setup::large(Grade::Generation, false) };
    happen_and_finish(&mut Play::<Ext2>::new(&setup), steps).map(drop)
}
