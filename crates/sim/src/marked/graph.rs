//! The graph of the page alone: its states, and where each event leads from each of them.

use super::Step;
use super::page::Page;
use std::collections::{HashMap, VecDeque};

/// Number of a state, in the order in which states are found: nearest to the first one first.
pub type State = u32;

/// Where an illegal event leads.
const NOWHERE: State = State::MAX;

/// The states of the page that were explored, and the states that follow from them.
#[derive(Debug)]
pub struct Graph {
    /// All events, by their numbers.
    pub steps: Vec<Step>,
    /// The state that each event leads to, one row for each explored state.
    next: Vec<State>,
    /// The state and the event that each state but the first was found by.
    found_by: Vec<(State, u8)>,
}

impl Graph {
    /// Tries every event of one or two `files` in every state that can be reached, up to `states_max` states.
    pub fn explored(files: usize, states_max: u64) -> Self {
        let (steps, first) = (Step::all(files), Page::new());
        let mut graph = Self { steps, next: Vec::new(), found_by: vec![(0, 0)] };
        let mut numbers = HashMap::from([(first.clone(), 0)]);
        let mut pages = VecDeque::from([first]);
        while (graph.states() as u64) < states_max
            && let Some(page) = pages.pop_front()
        {
            graph.explore(&page, |next| {
                let new = numbers.len() as State;
                let number = *numbers.entry(next).or_insert_with_key(|it| {
                    pages.push_back(it.clone());
                    new
                });
                (number, number == new)
            });
        }
        graph
    }

    /// Tries every event in `page`. `number` gives the number of a state, and says whether the state is new.
    fn explore(&mut self, page: &Page, mut number: impl FnMut(Page) -> (State, bool)) {
        let here = self.states() as State;
        for (n, step) in self.steps.iter().enumerate() {
            if !page.allows(*step) {
                self.next.push(NOWHERE);
                continue;
            }
            let mut next = page.clone();
            next.step(*step);
            let (there, is_new) = number(next);
            self.next.push(there);
            if is_new {
                self.found_by.push((here, n as u8));
            }
        }
    }

    /// Number of states that were explored.
    pub fn states(&self) -> usize {
        self.next.len() / self.steps.len()
    }

    /// Whether these are all states.
    pub fn is_complete(&self) -> bool {
        self.states() == self.found_by.len()
    }

    /// Number of events that can happen, over all explored states.
    pub fn legal(&self) -> usize {
        self.next.iter().filter(|it| **it != NOWHERE).count()
    }

    /// The state that event number `step` leads to from `state`, which was explored.
    pub fn after(&self, state: State, step: u8) -> State {
        self.next[state as usize * self.steps.len() + usize::from(step)]
    }

    /// The events that can happen in `state`, a bit for each; `None` if the state was not explored.
    pub fn legal_in(&self, state: State) -> u32 {
        let (from, to) = (state as usize * self.steps.len(), (state as usize + 1) * self.steps.len());
        let row = self.next.get(from..to).unwrap_or_default();
        row.iter().enumerate().fold(0, |all, (n, there)| all | u32::from(*there != NOWHERE) << n)
    }

    /// The shortest way to `state`.
    pub fn way_to(&self, state: State) -> Vec<u8> {
        let (mut way, mut at) = (Vec::new(), state);
        while at != 0 {
            let (before, step) = self.found_by[at as usize];
            way.push(step);
            at = before;
        }
        way.reverse();
        way
    }
}
