//! Every event in every state, nearest to the first state first, the page and the literal machine beside each other.

use super::judge::Judge;
use super::key::{Key, key};
use super::literal::Literal;
use super::page::Page;
use super::{Answer, BLOCKS, Disk, Fault, Keep, Left, Step, UNITS};
use crate::machine::rng::Rng;
use crate::rules::differential::agree;
use std::collections::{HashSet, VecDeque};
use std::ops::Range;

/// Weak pages of which a start tries every subset. Of more, all read well, or badly, or all but one.
const SUBSETS_MAX: u32 = 3;
/// Changes of a start, at most.
const START_MAX: usize = 60;
/// Events of a walk.
const WALK: usize = 150;
/// Events of which a walk takes the first that can happen.
const TRIES: usize = 8;

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Units that the guest uses, 1 or 2.
    pub units: u8,
    /// A block may fail, and the chip has one block more.
    pub may_fail: bool,
    /// States that are explored.
    pub states_max: u64,
}

/// The first difference, or the first broken promise.
#[derive(Debug)]
pub struct Failure {
    /// The events from the first state on.
    pub path: Vec<Step>,
    /// What differs, or which promise is broken.
    pub broken: String,
}

/// What was tried.
#[derive(Debug, Default)]
pub struct Enumerated {
    /// Explored states.
    pub states: u64,
    /// States that were found and not explored.
    pub left: u64,
    /// Events that were tried, over all states,
    pub transitions: u64,
    /// and those of them that are illegal.
    pub illegal: u64,
    /// Events on the shortest way to the farthest explored state.
    pub depth: usize,
    /// What was found, if anything.
    pub failure: Option<Failure>,
}

/// Both versions and the judge, after the same events.
#[derive(Clone)]
struct Life {
    /// Only a broken promise counts, since the literal machine leaves out a rule.
    is_faulty: bool,
    page: Page,
    literal: Literal,
    judge: Judge,
}

impl Life {
    fn new(may_fail: bool, fault: Option<Fault>) -> Self {
        let (page, literal) = (Page::new(may_fail), Literal::new(may_fail, fault));
        Self { is_faulty: fault.is_some(), page, literal, judge: Judge::new() }
    }

    fn key(&self, now: &Answer) -> Key {
        key(&self.page, &self.literal, &self.judge, now)
    }

    /// Whether `step` can happen, by both versions.
    fn allows(&self, step: Step) -> Result<bool, String> {
        let literal = self.literal.allows(step);
        if !self.is_faulty {
            agree("possible", &literal, &self.page.allows(step))?;
        }
        Ok(literal)
    }

    fn step(&mut self, step: Step, before: &Answer) -> Result<Answer, String> {
        self.literal.step(step);
        self.judge.notes(step, before);
        let now = self.literal.answer();
        self.judge.judges(before, &now)?;
        if !self.is_faulty {
            self.page.step(step);
            compare(&now, &self.page.answer()).map_err(|broken| format!("after {step:?}: {broken}"))?;
        }
        if now.disk == Disk::Idle && before.disk != Disk::Idle && self.judge.request.is_none() {
            self.starts_again(&now)?;
        }
        Ok(now)
    }

    /// Two starts in a row are one, whatever weak pages read.
    fn starts_again(&self, first: &Answer) -> Result<(), String> {
        for is_well in [false, true] {
            let mut literal = self.literal.clone();
            literal.drop_pending();
            let reads = literal.answer().reads;
            literal.step(Step::Cut(Left::Untouched));
            let well = if is_well { first.weak() } else { 0 };
            literal.step(Step::Start(well));
            let mut changes = (0..START_MAX).map(|_| Step::Go);
            while let Some(step) = changes.next().filter(|step| literal.allows(*step)) {
                literal.step(step);
            }
            agree("two starts in a row are one: reads", &literal.answer().reads, &reads)?;
        }
        Ok(())
    }
}

fn compare(literal: &Answer, page: &Answer) -> Result<(), String> {
    agree("disk", &literal.disk, &page.disk)?;
    agree("outcome", &literal.outcome, &page.outcome)?;
    agree("reads", &literal.reads, &page.reads)?;
    agree("raw", &literal.raw, &page.raw)?;
    agree("bad", &literal.bad, &page.bad)?;
    agree("owed", &literal.owed, &page.owed)?;
    agree("receipts", &literal.receipts, &page.receipts)
}

/// Every event with so many units in use, but starts.
fn events(units: u8) -> Vec<Step> {
    let of_unit = |unit: u8| {
        let erases = [Keep::Nothing, Keep::Present].map(|keep| Step::Erase(unit, keep));
        [Step::Write(unit), Step::Trim(unit)].into_iter().chain(erases)
    };
    let mut all = vec![Step::Go, Step::Flush];
    all.extend((0..units).flat_map(of_unit));
    all.extend((0..BLOCKS as u8).map(Step::Move));
    all.extend(Left::ALL.map(Step::Cut));
    all.extend(Left::ALL.map(Step::Fail));
    all
}

/// Starts in which some of the `weak` pages read well.
fn starts(weak: u16) -> impl Iterator<Item = Step> {
    let is_all = weak.count_ones() <= SUBSETS_MAX;
    let is_tried = move |well: &u16| is_all || well.count_ones() <= 1 || (weak & !well).count_ones() <= 1;
    let next = move |well: &u16| (*well != 0).then(|| (well - 1) & weak);
    std::iter::successors(Some(weak), next).filter(is_tried).map(Step::Start)
}

/// The states that were found, and the ways to them.
struct Search {
    all: Vec<Step>,
    known: HashSet<Key>,
    /// The state and the event that each state was found by.
    found_by: Vec<(u32, Step)>,
    next: VecDeque<(u32, usize, Life)>,
    tried: Enumerated,
}

impl Search {
    /// Tries every event in the state number `here`.
    fn explore(&mut self, here: u32, depth: usize, life: &Life) -> Result<(), Failure> {
        self.tried.states += 1;
        self.tried.depth = depth;
        let before = life.literal.answer();
        let starts = starts(before.weak()).collect::<Vec<_>>();
        for step in self.all.clone().into_iter().chain(starts) {
            let failure = |search: &Self, broken| Failure { path: search.path(here, step), broken };
            self.tried.transitions += 1;
            if !life.allows(step).map_err(|broken| failure(self, broken))? {
                self.tried.illegal += 1;
                continue;
            }
            let mut life = life.clone();
            let now = life.step(step, &before).map_err(|broken| failure(self, broken))?;
            if self.known.insert(life.key(&now)) {
                self.next.push_back((self.found_by.len() as u32, depth + 1, life));
                self.found_by.push((here, step));
            }
        }
        Ok(())
    }

    /// The shortest way to a state, and an event there.
    fn path(&self, to: u32, step: Step) -> Vec<Step> {
        let (mut path, mut at) = (vec![step], to);
        while at != 0 {
            let (before, step) = self.found_by[at as usize];
            path.push(step);
            at = before;
        }
        path.reverse();
        path
    }
}

/// Tries every event in every state within the limits; with a fault, only a promise that it breaks ends the search early. `told` hears from
/// time to time how much was tried.
pub fn enumerated(limits: Limits, fault: Option<Fault>, told: impl Fn(&Enumerated)) -> Enumerated {
    let first = Life::new(limits.may_fail, fault);
    let mut search = Search {
        all: events(limits.units),
        known: HashSet::from([first.key(&first.literal.answer())]),
        found_by: vec![(0, Step::Flush)],
        next: VecDeque::from([(0, 0, first)]),
        tried: Enumerated::default(),
    };
    while search.tried.states < limits.states_max
        && let Some((here, depth, life)) = search.next.pop_front()
    {
        if let Err(failure) = search.explore(here, depth, &life) {
            search.tried.failure = Some(failure);
            break;
        }
        told(&search.tried);
    }
    search.tried.left = search.next.len() as u64;
    search.tried
}

/// A walk of random events that can happen, which `seed` decides.
fn walked(seed: u64, fault: Option<Fault>) -> Enumerated {
    let mut rng = Rng::new(seed);
    let mut life = Life::new(rng.chance(50), fault);
    // Each walk goes without some events, so that some come far.
    let (mut used, mut tried, mut path) = (events(UNITS as u8), Enumerated::default(), Vec::new());
    let is_whole = rng.chance(50);
    used.retain(|_| is_whole || rng.chance(60));
    used.push(Step::Flush);
    let (cuts, fails) = (rng.range(5, 60), rng.range(3, 30));
    let mut before = life.literal.answer();
    while path.len() < WALK {
        let step = match before.disk {
            Disk::Down => Step::Start(rng.roll() as u16 & before.weak()),
            _ if rng.below(cuts) == 0 => Step::Cut(rng.pick(&Left::ALL)),
            Disk::Busy(..) if rng.below(fails) == 0 => Step::Fail(rng.pick(&Left::ALL)),
            Disk::Busy(..) => Step::Go,
            // What can happen is more likely than what cannot.
            Disk::Idle | Disk::Refused => {
                let is_possible = |step: &Step| !matches!(step, Step::Cut(_)) && life.literal.allows(*step);
                (0..TRIES).map(|_| rng.pick(&used)).find(is_possible).unwrap_or(Step::Flush)
            }
        };
        tried.transitions += 1;
        let result = match life.allows(step) {
            Ok(false) => {
                tried.illegal += 1;
                continue;
            }
            Ok(true) => {
                path.push(step);
                life.step(step, &before)
            }
            Err(broken) => Err(broken),
        };
        match result {
            Ok(now) => before = now,
            Err(broken) => {
                tried.failure = Some(Failure { path, broken });
                return tried;
            }
        }
    }
    tried.depth = path.len();
    tried
}

/// The walks of the `seeds`, together; they end with the first failure.
pub fn walks(seeds: Range<u64>, fault: Option<Fault>) -> Enumerated {
    let mut all = Enumerated::default();
    for seed in seeds {
        let one = walked(seed, fault);
        all.transitions += one.transitions;
        all.illegal += one.illegal;
        all.depth = all.depth.max(one.depth);
        if one.failure.is_some() {
            all.failure = one.failure;
            break;
        }
    }
    all
}
