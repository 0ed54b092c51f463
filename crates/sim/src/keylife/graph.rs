//! Every event in every state of the page, nearest to the first state first, the literal machine beside it.

use super::judge::Judge;
use super::key::{Key, key};
use super::literal::Literal;
use super::page::Page;
use super::{Answer, BLOCKS, Fault, Server, Step};
use crate::machine::rng::Rng;
use crate::rules::differential::agree;
use std::collections::{HashSet, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Blocks that the guest uses, in this order: with two, one in each leaf. The others are live and stay as they are.
const USED: [u8; BLOCKS] = [0, 2, 1];
/// Unsynced places of which a crash tries every subset. Of more, it keeps or loses at most two.
const SUBSETS_MAX: u32 = 8;
/// Steps of a start, at most.
const START_MAX: usize = 8;
/// Events of a walk.
const WALK: usize = 120;
/// Events that bring on what is under way.
const OFTEN: [Step; 6] =
    [Step::Purge, Step::Purge, Step::Purge, Step::Settle, Step::RewriteNext, Step::Flush];
/// Events of which a walk takes the first that can happen.
const TRIES: usize = 5;
/// Events of each block.
const OF_BLOCK: usize = 4;

/// What is driven, and what counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Against {
    /// The page alone; the judge looks at its answers.
    Nothing,
    /// Both versions; their first difference or broken promise ends the run.
    Literal,
    /// Both, the literal machine without one rule; only a promise that it breaks ends the run.
    Faulty(Fault),
}

/// How much is tried.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Blocks that the guest uses, 1 to 3.
    pub blocks: usize,
    /// States that are explored.
    pub states_max: u64,
    /// Two states are one only if the literal machines are, too.
    pub joint: bool,
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

/// All versions, after the same events.
#[derive(Clone)]
struct Life {
    against: Against,
    page: Page,
    judge: Judge,
    literal: Option<Literal>,
}

impl Life {
    fn new(against: Against) -> Self {
        let literal = match against {
            Against::Nothing => None,
            Against::Literal => Some(Literal::new(None)),
            Against::Faulty(fault) => Some(Literal::new(Some(fault))),
        };
        Self { against, page: Page::new(), judge: Judge::new(), literal }
    }

    /// What the version shows that the judge looks at.
    fn answer(&self) -> Answer {
        self.literal.as_ref().map_or_else(|| self.page.answer(), Literal::answer)
    }

    /// Two lives of one key are one from now on; `joint`: for the literal machine, too.
    fn key(&self, joint: bool) -> Key {
        let page = key(&self.page, &self.judge);
        let Some(literal) = self.literal.as_ref().filter(|_| joint) else { return page };
        let mut hasher = DefaultHasher::new();
        literal.canonical().hash(&mut hasher);
        page ^ Key::from(hasher.finish())
    }

    /// Whether `step` can happen, by both versions.
    fn allows(&self, step: Step) -> Result<bool, String> {
        let ours = self.page.allows(step);
        match (&self.literal, self.against) {
            (Some(literal), Against::Literal) => {
                agree("possible", &literal.allows(step), &ours).map(|()| ours)
            }
            (Some(literal), _) => Ok(ours && (matches!(step, Step::Crash(_)) || literal.allows(step))),
            (None, _) => Ok(ours),
        }
    }

    fn step(&mut self, step: Step, before: &Answer) -> Result<(), String> {
        self.page.step(match step {
            Step::Crash(kept) => Step::Crash(kept & self.page.unsynced()),
            _ => step,
        });
        if let Some(literal) = &mut self.literal {
            literal.step(step);
        }
        self.judge.notes(step, before);
        let now = self.answer();
        self.judge.judges(&now)?;
        if !matches!(self.against, Against::Faulty(_)) {
            self.compare(&now).map_err(|broken| format!("after {step:?}: {broken}"))?;
            self.page.owes_all()?;
        }
        if step == Step::Start && now.server == Server::Up {
            return self.clone().starts_again(&now);
        }
        Ok(())
    }

    fn compare(&self, now: &Answer) -> Result<(), String> {
        let page = self.page.answer();
        agree("server", &now.server, &page.server)?;
        agree("reads", &now.reads, &page.reads)?;
        agree("unsynced", &format!("{:#b}", now.unsynced), &format!("{:#b}", page.unsynced))?;
        agree("opens", &now.opens, &page.opens)?;
        agree("receipts", &now.receipts, &page.receipts)
    }

    /// Two starts in a row are one.
    fn starts_again(mut self, first: &Answer) -> Result<(), String> {
        let mut starts = std::iter::once(Step::Kill).chain([Step::Start; START_MAX]);
        while let Some(step) = starts.next()
            && (step == Step::Kill || self.answer().server != Server::Up)
        {
            match &mut self.literal {
                Some(literal) if literal.allows(step) => literal.step(step),
                Some(_) => return Err("a second start ends otherwise than the first".into()),
                None => self.page.step(step),
            }
        }
        let second = self.answer();
        agree("two starts in a row are one: the server", &second.server, &first.server)?;
        agree("two starts in a row are one: reads", &second.reads, &first.reads)?;
        agree("two starts in a row are one: opens", &second.opens, &first.opens)
    }
}

/// Every event of the guest, the store and the world with `blocks` blocks in use, but crashes.
fn events(blocks: usize) -> Vec<Step> {
    let of_block = |block: u8| -> [Step; OF_BLOCK] {
        [Step::Write(block), Step::Sector(block), Step::Trim(block), Step::Rewrite(block)]
    };
    let mut all: Vec<_> = USED.into_iter().take(blocks).flat_map(of_block).collect();
    all.extend([
        Step::Flush,
        Step::RewriteNext,
        Step::Purge,
        Step::Busy,
        Step::Settle,
        Step::Kill,
        Step::Start,
    ]);
    all.extend([Step::Doubt { reached: false }, Step::Doubt { reached: true }]);
    all
}

/// Crashes that keep some of the `unsynced` places.
fn crashes(unsynced: u32) -> impl Iterator<Item = Step> {
    let is_all = unsynced.count_ones() <= SUBSETS_MAX;
    let is_tried = move |kept: &u32| {
        let few = 2;
        is_all || kept.count_ones() <= few || (unsynced & !kept).count_ones() <= few
    };
    // The subsets of a mask, the whole one first.
    let next = move |kept: &u32| (*kept != 0).then(|| (kept - 1) & unsynced);
    std::iter::successors(Some(unsynced), next).filter(is_tried).map(Step::Crash)
}

/// The states that were found, and the ways to them.
struct Search {
    joint: bool,
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
        let before = life.answer();
        let failure = |search: &Self, step, broken| Failure { path: search.path(here, step), broken };
        for n in 0..self.all.len() {
            let step = self.all[n];
            self.tried.transitions += 1;
            if life.allows(step).map_err(|broken| failure(self, step, broken))? {
                self.happens(here, depth, life, step, &before)?;
            } else {
                self.tried.illegal += 1;
            }
        }
        for step in crashes(before.unsynced) {
            self.tried.transitions += 1;
            self.happens(here, depth, life, step, &before)?;
        }
        Ok(())
    }

    fn happens(
        &mut self,
        here: u32,
        depth: usize,
        life: &Life,
        step: Step,
        before: &Answer,
    ) -> Result<(), Failure> {
        let mut life = life.clone();
        life.step(step, before).map_err(|broken| Failure { path: self.path(here, step), broken })?;
        if self.known.insert(life.key(self.joint)) {
            self.next.push_back((self.found_by.len() as u32, depth + 1, life));
            self.found_by.push((here, step));
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

/// Tries every event in every state within the limits. `told` hears from time to time how much was tried.
pub fn enumerated(limits: Limits, against: Against, told: impl Fn(&Enumerated)) -> Enumerated {
    let first = Life::new(against);
    let mut search = Search {
        joint: limits.joint,
        all: events(limits.blocks),
        known: HashSet::from([first.key(limits.joint)]),
        found_by: vec![(0, Step::Start)],
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

/// A walk of random events that can happen, with three blocks in use, which `seed` decides.
fn walked(seed: u64, against: Against) -> Enumerated {
    let (mut rng, mut life, mut path) = (Rng::new(seed), Life::new(against), Vec::new());
    let (all, mut tried) = (events(BLOCKS), Enumerated::default());
    // Each walk uses some blocks more than others, so that some come far.
    let blocks = rng.range(1, BLOCKS as u64) as usize;
    let (used, haste) = (&all[(BLOCKS - blocks) * OF_BLOCK..], rng.range(2, 50));
    while path.len() < WALK {
        let before = life.answer();
        let step = match rng.below(100) {
            0 => Step::Crash(rng.roll() as u32 & rng.roll() as u32 & before.unsynced),
            1 => Step::Kill,
            _ if life.page.is_down() => Step::Start,
            n if n < haste => rng.pick(&OFTEN),
            // What can happen is more likely than what cannot.
            _ => (0..TRIES).map(|_| rng.pick(used)).find(|it| life.page.allows(*it)).unwrap_or(Step::Flush),
        };
        tried.transitions += 1;
        let outcome = match life.allows(step) {
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
        if let Err(broken) = outcome {
            tried.failure = Some(Failure { path, broken });
            return tried;
        }
    }
    tried.depth = path.len();
    tried
}

/// The walks of the `seeds`, together; they end with the first failure.
pub fn walks(seeds: Range<u64>, against: Against) -> Enumerated {
    let mut all = Enumerated::default();
    for seed in seeds {
        let one = walked(seed, against);
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
