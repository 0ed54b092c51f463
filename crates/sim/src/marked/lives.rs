//! Lives: long ways through the graph of the page that take every transition of it. The product is driven along them.

use super::graph::{Graph, State};
use super::{ILLEGAL, Life, Step};
use crate::rules::rule_e::search::{cut_down, kind, listing};
use crate::soak::split;
use crate::verdict::caught;

/// Most events of a life.
const STEPS_MAX: usize = 500;
/// Lives that are played between two reports of progress.
const BATCH: usize = 512;

/// The lives of a graph, one after the other: which transition is in which life follows from the graph alone.
struct Lives<'a> {
    graph: &'a Graph,
    /// The events of each state that are in no life yet, a bit for each.
    untried: Vec<u32>,
    /// No state before this one has such events.
    nearest: State,
}

impl<'a> Lives<'a> {
    fn new(graph: &'a Graph) -> Self {
        let untried = (0..graph.states()).map(|state| graph.legal_in(state as State)).collect();
        Self { graph, untried, nearest: 0 }
    }

    /// Takes an event of `state` that is in no life yet: the one that leads to where most such events are left.
    fn take(&mut self, state: State) -> Option<u8> {
        let untried = *self.untried.get(state as usize)?;
        let events = (0..self.graph.steps.len() as u8).filter(|step| untried & 1 << step != 0);
        let step = events.max_by_key(|step| self.left(self.graph.after(state, *step)))?;
        self.untried[state as usize] &= !(1 << step);
        Some(step)
    }

    /// Number of events of `state` that are in no life yet.
    fn left(&self, state: State) -> u32 {
        self.untried.get(state as usize).map_or(0, |it| it.count_ones())
    }
}

impl Iterator for Lives<'_> {
    type Item = Vec<u8>;

    /// The shortest way to the nearest state with an event that is in no life yet; from there on, such events only.
    fn next(&mut self) -> Option<Vec<u8>> {
        let behind = &self.untried[self.nearest as usize..];
        self.nearest += behind.iter().position(|it| *it != 0)? as State;
        let (mut state, mut life) = (self.nearest, self.graph.way_to(self.nearest));
        while life.len() < STEPS_MAX
            && let Some(step) = self.take(state)
        {
            life.push(step);
            state = self.graph.after(state, step);
        }
        Some(life)
    }
}

/// Result of an enumeration.
#[derive(Clone, Debug, Default)]
pub struct Enumerated {
    /// Lives that were played.
    pub lives: u64,
    /// Events in them.
    pub steps: u64,
    /// States that were reached, and in which every event was tried.
    pub states: u64,
    /// Events that were tried, each once in a state: those that happened, and those that cannot.
    pub transitions: u64,
    /// Events that cannot happen in their state, by both versions.
    pub illegal: u64,
    /// Events of the longest of the shortest ways to a state that was reached.
    pub depth: usize,
    /// The first life that tells the two versions apart.
    pub failure: Option<Failure>,
}

/// A life in which the product and the page differ.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Number of the life.
    pub life: u64,
    /// The shortened life, an event a line.
    pub history: String,
    /// The difference.
    pub broken: String,
}

/// The states and events of lives that were played, each counted once.
struct Reached<'a> {
    graph: &'a Graph,
    /// Whether each state was reached.
    states: Vec<bool>,
    /// The events that happened in each state, a bit for each.
    happened: Vec<u32>,
}

impl<'a> Reached<'a> {
    fn new(graph: &'a Graph) -> Self {
        Self { graph, states: vec![false; graph.states()], happened: vec![0; graph.states()] }
    }

    /// Counts what `life` adds to `all`.
    fn add(&mut self, life: &[u8], all: &mut Enumerated) {
        (all.lives, all.steps) = (all.lives + 1, all.steps + life.len() as u64);
        let mut state = 0;
        self.reach(state, all);
        for step in life {
            let (happened, step_bit) = (&mut self.happened[state as usize], 1 << step);
            all.transitions += u64::from(*happened & step_bit == 0);
            *happened |= step_bit;
            state = self.graph.after(state, *step);
            self.reach(state, all);
        }
    }

    /// The life has come to `state`, in which all events that cannot happen are tried.
    fn reach(&mut self, state: State, all: &mut Enumerated) {
        let Some(is_reached @ false) = self.states.get_mut(state as usize) else { return };
        *is_reached = true;
        let illegal = self.graph.steps.len() as u64 - u64::from(self.graph.legal_in(state).count_ones());
        all.states += 1;
        all.illegal += illegal;
        all.transitions += illegal;
        all.depth = all.depth.max(self.graph.way_to(state).len());
    }
}

/// Plays every `every`th life of `graph`, from life `from` on, over all processors. `progress` gets the figures so
/// far, from time to time.
pub fn enumerated(graph: &Graph, from: u64, every: u64, progress: impl Fn(&Enumerated)) -> Enumerated {
    let lives =
        numbered(graph).filter(|(number, _)| *number >= from && (number - from).is_multiple_of(every));
    let play = |lives: &[(u64, Vec<u8>)]| {
        split(lives.len() as u64, |n| played(graph, &steps_of(graph, &lives[n as usize].1)).err())
    };
    enumerate(graph, lives, (BATCH, play), progress)
}

/// Plays all lives of `graph` on this thread, for which a defect may be switched on.
#[cfg(debug_assertions)]
pub fn enumerated_here(graph: &Graph) -> Enumerated {
    let play = |lives: &[(u64, Vec<u8>)]| {
        lives.iter().map(|(_, life)| played(graph, &steps_of(graph, life)).err()).collect::<Vec<_>>()
    };
    enumerate(graph, numbered(graph), (1, play), |_| {})
}

/// Plays life `number` of `graph`. Returns its events, an event a line, and the difference if there is one; `None` if
/// there are fewer lives.
pub fn life(graph: &Graph, number: u64) -> Option<(String, Option<Failure>)> {
    let (_, life) = numbered(graph).find(|it| it.0 == number)?;
    let steps = steps_of(graph, &life);
    let failure = played(graph, &steps).err().map(|broken| shortened(graph, number, steps.clone(), broken));
    Some((listing(&steps), failure))
}

/// Number of lives of `graph`.
pub fn count(graph: &Graph) -> usize {
    Lives::new(graph).count()
}

fn numbered(graph: &Graph) -> impl Iterator<Item = (u64, Vec<u8>)> {
    (0..).zip(Lives::new(graph))
}

fn steps_of(graph: &Graph, life: &[u8]) -> Vec<Step> {
    life.iter().map(|step| graph.steps[usize::from(*step)]).collect()
}

/// Drives the product and the page through `steps`.
///
/// # Errors
/// The first difference, or the promise that was broken.
fn played(graph: &Graph, steps: &[Step]) -> Result<(), String> {
    caught(|| {
        let mut life = Life::new(&graph.steps)?;
        steps.iter().try_for_each(|step| life.step(*step))
    })
}

fn enumerate(
    graph: &Graph,
    mut lives: impl Iterator<Item = (u64, Vec<u8>)>,
    (batch, play): (usize, impl Fn(&[(u64, Vec<u8>)]) -> Vec<Option<String>>),
    progress: impl Fn(&Enumerated),
) -> Enumerated {
    let (mut all, mut reached) = (Enumerated::default(), Reached::new(graph));
    loop {
        let lives: Vec<_> = lives.by_ref().take(batch).collect();
        if lives.is_empty() {
            return all;
        }
        for ((number, life), broken) in lives.iter().zip(play(&lives)) {
            reached.add(life, &mut all);
            if let Some(broken) = broken {
                let failure = shortened(graph, *number, steps_of(graph, life), broken);
                all.failure = Some(failure);
                return all;
            }
        }
        progress(&all);
    }
}

/// Leaves out of life `number` all events that are not needed for a difference of the same kind.
fn shortened(graph: &Graph, number: u64, steps: Vec<Step>, broken: String) -> Failure {
    let is_same = |it: String| !it.starts_with(ILLEGAL) && kind(&it) == kind(&broken);
    let steps = cut_down(steps, |steps| played(graph, steps).is_err_and(is_same));
    let broken = played(graph, &steps).err().unwrap_or(broken);
    Failure { life: number, history: listing(&steps), broken }
}
