//! Requests that cannot begin yet, each in the table of the one thing that it
//! waits for. An event looks at those alone whose obstacle has gone.

use crate::extents::{ExtentMap, Value};
use crate::place::Place;
use crate::request::{Op, Request, RequestId};
use crate::units::{Addr, Extent};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// A request that cannot begin yet.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) id: RequestId,
    pub(super) request: Request,
    /// What may be dead there, while the ledger has no room for it.
    pub(super) reused: Vec<Extent<Addr>>,
    /// The watcher has seen what it replaces.
    pub(super) seen: bool,
    pub(super) obstacle: Obstacle,
}

/// Why a request cannot begin.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Obstacle {
    /// An earlier request changes the same bytes.
    Order,
    /// An act is going on there.
    Act,
    /// There is an obligation to be met first.
    Ledger,
    /// The ledger has no room for the obligation that is to be met first.
    Room,
    /// This part of the map is not in memory.
    Page(Place),
    /// This part of the map has no space on the host yet.
    Space(Place),
    /// The medium is being cut off: nothing gets a place meanwhile.
    Closed,
}

impl Obstacle {
    /// Whether an act has to be done first.
    pub(super) fn is_act(self) -> bool {
        matches!(self, Self::Act | Self::Ledger | Self::Room)
    }
}

/// Counts requests in order of arrival.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub(super) struct Turn(u64);

impl Value for Turn {
    fn merged(&self, _: &Self) -> Option<Self> {
        None
    }
}

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Queue {
    next: Turn,
    all: BTreeMap<Turn, Waiting>,
    turns: HashMap<RequestId, Turn>,
    /// To be tried again: what they waited for is gone, or may be.
    tries: BTreeSet<Turn>,
    /// The act under way keeps them from beginning.
    behind_act: BTreeSet<Turn>,
    /// Writes that an act has to be done for.
    demands: BTreeSet<Turn>,
    /// Those of them that wait for an obligation to be met, by where they write:
    /// each its own bytes, as those that wait for others of them come later.
    owed: ExtentMap<Addr, Turn>,
    roomless: BTreeSet<Turn>,
    /// Those that wait for something to be done with the map, by that.
    pages: HashMap<Obstacle, Vec<Turn>>,
}

impl Queue {
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// A request comes, or comes again after it had begun.
    pub(super) fn join(&mut self, waiting: Waiting) {
        self.next.0 += 1;
        self.put_back(self.next, waiting);
    }

    /// A request that was tried cannot begin.
    pub(super) fn put_back(&mut self, turn: Turn, waiting: Waiting) {
        let is_write = matches!(waiting.request.op, Op::Write(_));
        match waiting.obstacle {
            Obstacle::Order => {}
            Obstacle::Act | Obstacle::Closed => {
                self.behind_act.insert(turn);
            }
            Obstacle::Ledger => self.owed.insert(waiting.request.extent, turn),
            Obstacle::Room => {
                self.roomless.insert(turn);
            }
            page @ (Obstacle::Page(_) | Obstacle::Space(_)) => self.pages.entry(page).or_default().push(turn),
        }
        if is_write && matches!(waiting.obstacle, Obstacle::Act | Obstacle::Ledger) {
            self.demands.insert(turn);
        }
        self.turns.insert(waiting.id, turn);
        self.all.insert(turn, waiting);
    }

    /// Takes out the next request that is to be tried again; with `has_room` one
    /// of those that wait for that.
    pub(super) fn next_try(&mut self, has_room: bool) -> Option<(Turn, Waiting)> {
        let roomless = || self.roomless.first().copied().filter(|_| has_room);
        let turn = self.tries.first().copied().or_else(roomless)?;
        self.take(turn)
    }

    /// Takes out the first of all.
    pub(super) fn take_first(&mut self) -> Option<Waiting> {
        let turn = *self.all.keys().next()?;
        self.take(turn).map(|(_, waiting)| waiting)
    }

    fn take(&mut self, turn: Turn) -> Option<(Turn, Waiting)> {
        let waiting = self.all.remove(&turn)?;
        self.turns.remove(&waiting.id);
        if waiting.obstacle == Obstacle::Ledger {
            self.owed.remove(waiting.request.extent);
        }
        for turns in [&mut self.tries, &mut self.behind_act, &mut self.demands, &mut self.roomless] {
            turns.remove(&turn);
        }
        Some((turn, waiting))
    }

    /// `id` is tried again, if it waits: what came before it has ended, or the
    /// watcher has to see something first.
    pub(super) fn retry(&mut self, id: RequestId) {
        self.tries.extend(self.turns.get(&id));
    }

    /// The act under way has ended, or was given up; it met the obligations of
    /// `runs`, or did not.
    pub(super) fn act_ended(&mut self, runs: &[Extent<Addr>]) {
        self.tries.append(&mut self.behind_act);
        for run in runs {
            self.tries.extend(self.owed.within(*run).map(|(_, turn)| *turn));
        }
    }

    /// A part of the map is in memory, or has its space.
    pub(super) fn page_ready(&mut self, page: Obstacle) {
        self.tries.extend(self.pages.remove(&page).into_iter().flatten());
    }

    /// Takes out those that wait for a part of the map, which does not become ready.
    pub(super) fn take_behind(&mut self, page: Obstacle) -> Vec<Waiting> {
        let turns = self.pages.remove(&page).unwrap_or_default();
        turns.into_iter().filter_map(|turn| self.take(turn)).map(|(_, waiting)| waiting).collect()
    }

    /// Takes out the writes that an act has to be done for.
    pub(super) fn take_demands(&mut self) -> Vec<Waiting> {
        let turns: Vec<_> = self.demands.iter().copied().collect();
        turns.into_iter().filter_map(|turn| self.take(turn)).map(|(_, waiting)| waiting).collect()
    }

    /// The writes that an act has to be done for, in order of arrival.
    pub(super) fn demands(&self) -> impl Iterator<Item = &Waiting> {
        self.demands.iter().filter_map(|turn| {
            crate::steps::step();
            self.all.get(turn)
        })
    }

    /// Whether a request waits for the ledger to have room.
    pub(super) fn wants_room(&self) -> bool {
        !self.roomless.is_empty()
    }
}
