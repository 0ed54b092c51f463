//! Exhaustive search of short histories, and random walks through long ones.
//!
//! A [`Space`] says what can happen next. [`search`] tries everything, shortest
//! histories first, and goes on only from states that it has not reached;
//! [`walk`] takes one long way through, by chance.

use crate::machine::rng::Rng;
use crate::verdict::caught;
use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::{DefaultHasher, Hasher};

const WALK_STEPS_MAX: usize = 160;

/// A system under test, to which steps happen.
pub trait Space {
    type Step: Copy + PartialEq + Debug;

    /// All that can happen next; in an order that follows from the state.
    fn steps(&self) -> Vec<Self::Step>;

    /// Lets `step` happen; one that cannot happen (any more) does nothing.
    fn step(&mut self, step: Self::Step) -> Result<(), String>;

    /// Adds what tells two states apart to `hasher`; a space that is not searched adds nothing.
    fn digest(&self, _hasher: &mut dyn Hasher) {}

    /// Whether nothing is to be learned from here on.
    fn is_over(&self) -> bool {
        false
    }

    /// Ends the history and judges what is left. The space cannot be used after that.
    fn finish(&mut self) -> Result<(), String> {
        Ok(())
    }
}

/// Result of a search, or of a walk.
#[derive(Clone, Debug, Default)]
pub struct Part {
    /// Name of the part.
    pub name: String,
    /// Number of distinct states; 0 if they were not counted.
    pub states: u64,
    /// Steps that were tried.
    pub transitions: u64,
    /// Steps of the longest history.
    pub depth: usize,
    /// The shortest history that broke a promise, a step a line, and that promise.
    pub failure: Option<(String, String)>,
}

impl Part {
    /// The result of one history of this many steps.
    pub fn of(name: String, steps: usize, failure: Option<(String, String)>) -> Self {
        Self { name, states: 0, transitions: steps as u64, depth: steps, failure }
    }

    /// Whether every promise was kept; prints the one that was broken.
    pub fn is_kept(&self) -> bool {
        if let Some((history, broken)) = &self.failure {
            println!("{}: {broken}\n{history}", self.name);
        }
        self.failure.is_none()
    }
}

/// `steps`, one a line.
pub fn listing<S: Debug>(steps: &[S]) -> String {
    steps.iter().map(|it| format!("    {it:?}\n")).collect()
}

/// Lets `steps` happen to `space`, and brings it to an end.
pub fn happen_and_finish<P: Space>(space: &mut P, steps: &[P::Step]) -> Result<(), String> {
    happen(space, steps)?;
    caught(|| space.finish())
}

/// Lets `steps` happen to `space`; a panic is a broken promise.
pub fn happen<P: Space>(space: &mut P, steps: &[P::Step]) -> Result<(), String> {
    caught(|| steps.iter().try_for_each(|it| space.step(*it)))
}

/// Tries everything that can happen to what `start` makes, up to `transitions_max` steps in all.
pub fn search<P: Space>(name: &str, start: impl Fn() -> P, transitions_max: u64) -> Part {
    let mut part = Part { name: name.into(), ..Part::default() };
    let (mut seen, mut level) = (HashSet::new(), vec![Vec::new()]);
    while !level.is_empty() {
        part.depth += 1;
        let mut longer = Vec::new();
        for history in &level {
            if part.failure.is_some() || part.transitions >= transitions_max {
                longer.clear();
                break;
            }
            longer.extend(extended(history, &start, &mut seen, &mut part));
        }
        level = longer;
    }
    part.states = seen.len() as u64;
    part
}

/// The histories that are a step longer, and lead somewhere that was not `seen`.
fn extended<P: Space>(
    history: &[P::Step],
    start: impl Fn() -> P,
    seen: &mut HashSet<u64>,
    part: &mut Part,
) -> Vec<Vec<P::Step>> {
    let (mut space, mut longer) = (start(), Vec::new());
    assert_eq!(happen(&mut space, history), Ok(()), "a history has one end only");
    for step in once_each(space.steps()) {
        let (mut space, history) = (start(), [history, &[step]].concat());
        part.transitions += 1;
        let mut happened = happen(&mut space, &history);
        if happened.is_ok() {
            let mut hasher = DefaultHasher::new();
            space.digest(&mut hasher);
            if space.is_over() || !seen.insert(hasher.finish()) {
                continue;
            }
            happened = happen_and_finish(&mut space, &[]);
        }
        if let Err(broken) = happened {
            part.failure = Some((listing(&history), broken));
            break;
        }
        longer.push(history);
    }
    longer
}

/// `steps`, without those that are there for the sake of chance.
fn once_each<S: Copy + PartialEq>(steps: Vec<S>) -> Vec<S> {
    let is_first = |(n, step): (usize, &S)| (!steps[..n].contains(step)).then_some(*step);
    steps.iter().enumerate().filter_map(is_first).collect()
}

/// Lets up to `steps_max` steps happen, which `rng` chooses.
///
/// # Errors
/// The history that broke a promise, and that promise.
fn walk<P: Space>(space: &mut P, rng: &mut Rng, steps_max: usize) -> Result<usize, (Vec<P::Step>, String)> {
    let mut history = Vec::new();
    while history.len() < steps_max && !space.is_over() {
        let step = rng.pick(&space.steps());
        history.push(step);
        happen(space, &[step]).map_err(|broken| (history.clone(), broken))?;
    }
    happen_and_finish(space, &[]).map_err(|broken| (history.clone(), broken))?;
    Ok(history.len())
}

/// Leaves out of `history` all steps without which it still `fails`.
pub fn cut_down<S: Clone>(mut history: Vec<S>, mut fails: impl FnMut(&[S]) -> bool) -> Vec<S> {
    let mut len = history.len().div_ceil(2);
    while len > 0 {
        let before = history.len();
        let mut end = history.len();
        while end > 0 {
            let start = end.saturating_sub(len);
            let mut candidate = history.clone();
            candidate.drain(start..end.min(candidate.len()));
            if fails(&candidate) {
                history = candidate;
            }
            end = start;
        }
        len = if history.len() < before { len.min(history.len()) } else { len / 2 };
    }
    history
}

/// The walk of `seed` through what `start` makes; cut down if it fails.
pub fn walked_through<P: Space>(name: &str, seed: u64, start: impl Fn() -> P) -> Part {
    taken(name, seed, start, |_| {})
}

/// The walk of `seed`, with a `look` at the space that it ends with.
pub fn taken<P: Space>(name: &str, seed: u64, start: impl Fn() -> P, look: impl FnOnce(&P)) -> Part {
    let mut rng = Rng::new(seed);
    let steps_max = rng.range(10, WALK_STEPS_MAX as u64) as usize;
    let mut space = start();
    let (depth, failure) = match walk(&mut space, &mut rng, steps_max) {
        Ok(steps) => (steps, None),
        Err((steps, broken)) => (steps.len(), Some(shortest(steps, broken, start))),
    };
    look(&space);
    Part::of(format!("{name}, seed {seed}"), depth, failure)
}

/// Cuts a history down that broke a promise.
fn shortest<P: Space>(steps: Vec<P::Step>, broken: String, start: impl Fn() -> P) -> (String, String) {
    let fails =
        |it: &[P::Step]| happen_and_finish(&mut start(), it).is_err_and(|it| kind(&it) == kind(&broken));
    let steps = cut_down(steps, fails);
    let broken = happen_and_finish(&mut start(), &steps).err().unwrap_or(broken);
    (listing(&steps), broken)
}

/// Kind of the broken promise: `safety`, `forensic`, or the difference between the versions.
pub fn kind(broken: &str) -> &str {
    broken.split(':').next().unwrap_or(broken)
}
