//! Requests that cannot begin yet, each in the table of the one obstacle that it waits for. An event
//! looks only at the requests whose obstacle has gone.

use crate::base::extents::{ExtentMap, Value};
use crate::base::numbers::Numbered;
use crate::base::units::{Addr, Extent};
use crate::request::{Op, Request};
use crate::volume::obstacle::Obstacle;
use crate::volume::origin::Origin;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A request that cannot begin yet.
#[derive(Debug)]
pub(in crate::volume) struct Waiting {
    pub(in crate::volume) id: Origin,
    pub(in crate::volume) request: Request,
    /// Bytes of the request that may be dead, and for which the ledger has no room yet.
    pub(in crate::volume) reused: Vec<Extent<Addr>>,
    /// The content that the watcher has yet to see before the request begins.
    pub(in crate::volume) unseen: Unseen,
    pub(in crate::volume) obstacle: Obstacle,
}

/// Content that a watcher has yet to see before a request replaces it.
#[derive(Debug)]
pub(in crate::volume) enum Unseen {
    /// The watcher has not been asked, or nothing that it asked for has been read yet.
    ToAsk,
    /// These extents, the next one last. The watcher has seen all others that it asked for.
    Left(Vec<Extent<Addr>>),
}

impl Unseen {
    pub(in crate::volume) const NOTHING: Self = Self::Left(Vec::new());
}

/// Counts requests in order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(in crate::volume) struct Turn(u64);

impl Value for Turn {
    fn merged(&self, _: &Self) -> Option<Self> {
        None
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(in crate::volume) struct Queue {
    next: Turn,
    all: BTreeMap<Turn, Waiting>,
    turns: Numbered<Origin, Turn>,
    /// Requests to try again: their obstacle is gone, or may be.
    tries: BTreeSet<Turn>,
    /// Requests that the erase task under way excludes.
    behind_task: BTreeSet<Turn>,
    /// Writes that need an erase task first.
    demands: BTreeSet<Turn>,
    /// The demands that wait for an obligation, by the bytes that they write. No two share bytes: a later
    /// write to the same bytes waits for its order.
    owed: ExtentMap<Addr, Turn>,
    roomless: BTreeSet<Turn>,
    /// Requests that wait for a part of the map, by what they wait for.
    pages: HashMap<Obstacle, Vec<Turn>>,
}

impl Queue {
    pub(in crate::volume) fn len(&self) -> usize {
        self.all.len()
    }

    pub(in crate::volume) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Adds a request that is new, or that had begun and has to wait again.
    pub(in crate::volume) fn join(&mut self, waiting: Waiting) {
        self.next.0 += 1;
        self.put_back(self.next, waiting);
    }

    /// Puts back a request that was tried and cannot begin.
    pub(in crate::volume) fn put_back(&mut self, turn: Turn, waiting: Waiting) {
        let is_write = matches!(waiting.request.op, Op::Write(_));
        match waiting.obstacle {
            Obstacle::Order => {}
            Obstacle::Task | Obstacle::Closed => {
                self.behind_task.insert(turn);
            }
            Obstacle::Ledger => {
                assert!(is_write, "only a write waits for an obligation");
                let before = self.owed.bytes();
                self.owed.insert(waiting.request.extent, turn);
                let after = self.owed.bytes();
                assert!(
                    after == before + waiting.request.extent.len,
                    "one write at a time waits for the same bytes"
                );
            }
            Obstacle::Room => {
                self.roomless.insert(turn);
            }
            page @ (Obstacle::Page(_) | Obstacle::Space(_)) => self.pages.entry(page).or_default().push(turn),
        }
        if is_write && matches!(waiting.obstacle, Obstacle::Task | Obstacle::Ledger) {
            self.demands.insert(turn);
        }
        assert!(self.turns.insert(waiting.id, turn).is_none(), "a request waits once");
        assert!(self.all.insert(turn, waiting).is_none(), "a turn is one request's");
        assert!(self.turns.len() == self.all.len(), "each request that waits has one turn");
    }

    pub(in crate::volume) fn get(&self, id: Origin) -> Option<&Waiting> {
        self.all.get(self.turns.get(&id)?)
    }

    /// Takes out the next request to try again. With `has_room`, the requests that wait for room in the
    /// ledger count too.
    pub(in crate::volume) fn next_try(&mut self, has_room: bool) -> Option<(Turn, Waiting)> {
        let roomless = || self.roomless.first().copied().filter(|_| has_room);
        let turn = self.tries.first().copied().or_else(roomless)?;
        let taken = self.take(turn);
        assert!(taken.is_some(), "only requests that wait are tried again");
        taken
    }

    /// Takes out the first request.
    pub(in crate::volume) fn take_first(&mut self) -> Option<Waiting> {
        let turn = *self.all.keys().next()?;
        self.take(turn).map(|(_, waiting)| waiting)
    }

    fn take(&mut self, turn: Turn) -> Option<(Turn, Waiting)> {
        let waiting = self.all.remove(&turn)?;
        assert!(self.turns.remove(&waiting.id) == Some(turn), "a request that waits has its turn");
        if waiting.obstacle == Obstacle::Ledger {
            self.owed.remove(waiting.request.extent);
        }
        for turns in [&mut self.tries, &mut self.behind_task, &mut self.demands, &mut self.roomless] {
            turns.remove(&turn);
        }
        assert!(self.turns.len() == self.all.len(), "each request that waits has one turn");
        Some((turn, waiting))
    }

    /// Has `id` tried again, if it waits: the change before it has ended, or the watcher has to see
    /// something first.
    pub(in crate::volume) fn retry(&mut self, id: Origin) {
        self.tries.extend(self.turns.get(&id));
    }

    /// Has the requests tried again that waited for the task under way, or for obligations of its `runs`.
    pub(in crate::volume) fn task_ended(&mut self, runs: &[Extent<Addr>]) {
        self.tries.append(&mut self.behind_task);
        runs.iter().for_each(|run| self.obligations_ended(*run));
    }

    /// Has the requests tried again that waited for obligations of `run`.
    pub(in crate::volume) fn obligations_ended(&mut self, run: Extent<Addr>) {
        self.tries.extend(self.owed.within(run).map(|(_, turn)| *turn));
    }

    /// Has all writes tried again that need an erase task first: they may go on without one.
    pub(in crate::volume) fn retry_demands(&mut self) {
        self.tries.extend(&self.demands);
    }

    /// Has the requests tried again that waited for `page`, which is in memory or has its space.
    pub(in crate::volume) fn page_ready(&mut self, page: Obstacle) {
        self.tries.extend(self.pages.remove(&page).into_iter().flatten());
    }

    /// Takes out the requests that wait for `page`, which does not become ready.
    pub(in crate::volume) fn take_behind(&mut self, page: Obstacle) -> Vec<Waiting> {
        let turns = self.pages.remove(&page).unwrap_or_default();
        self.take_all(turns)
    }

    /// Takes out the requests that get no place for now.
    pub(in crate::volume) fn take_closed(&mut self) -> Vec<Waiting> {
        let is_closed = |turn: &Turn| self.all.get(turn).is_some_and(|it| it.obstacle == Obstacle::Closed);
        let turns: Vec<_> = self.behind_task.iter().copied().filter(is_closed).collect();
        self.take_all(turns)
    }

    /// Takes out the writes that need an erase task first.
    pub(in crate::volume) fn take_demands(&mut self) -> Vec<Waiting> {
        let turns: Vec<_> = self.demands.iter().copied().collect();
        self.take_all(turns)
    }

    /// Takes out the writes that wait for an obligation, and whose bytes `are_above` what will not be erased.
    pub(in crate::volume) fn take_above(&mut self, are_above: impl Fn(Extent<Addr>) -> bool) -> Vec<Waiting> {
        let is_above = |turn: &Turn| {
            let is_it = |it: &Waiting| it.obstacle == Obstacle::Ledger && are_above(it.request.extent);
            self.all.get(turn).is_some_and(is_it)
        };
        let turns: Vec<_> = self.demands.iter().copied().filter(is_above).collect();
        self.take_all(turns)
    }

    /// Takes out the requests that wait for the ledger to have room.
    pub(in crate::volume) fn take_roomless(&mut self) -> Vec<Waiting> {
        let turns: Vec<_> = self.roomless.iter().copied().collect();
        self.take_all(turns)
    }

    fn take_all(&mut self, turns: Vec<Turn>) -> Vec<Waiting> {
        turns.into_iter().filter_map(|turn| self.take(turn)).map(|(_, waiting)| waiting).collect()
    }

    /// The writes that need an erase task first, in order of arrival.
    pub(in crate::volume) fn demands(&self) -> impl Iterator<Item = &Waiting> {
        self.demands.iter().filter_map(|turn| {
            crate::base::steps::step();
            self.all.get(turn)
        })
    }

    /// Whether a request waits for the ledger to have room.
    pub(in crate::volume) fn wants_room(&self) -> bool {
        !self.roomless.is_empty()
    }
}
