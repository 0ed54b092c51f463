//! The same machine with other numbers: two machines that will behave alike become equal.

use super::attacker::{closure, roots};
use super::media::{Cell, Name, Place, Sector, Slot};
use super::purge::Purge;
use super::{Flush, Life, Literal, Memory, Rewrite, Tree, Write};
use std::collections::{BTreeMap, BTreeSet};

/// A purge number that stands for the newest one or the one before, as their slots are the same.
const PURGE: u32 = 4;

/// The numbers of a machine that are left, and their new ones.
#[derive(Default)]
struct Names {
    cells: BTreeMap<Cell, Cell>,
    contents: BTreeMap<u32, u32>,
    tags: BTreeMap<u32, u32>,
    /// The newest purge.
    purge: u32,
}

impl Names {
    /// Gives a cell the next number, if it has none.
    fn add(&mut self, cell: Cell) {
        let next = Cell(self.cells.len() as u32 + 1);
        if cell != Cell::default() {
            self.cells.entry(cell).or_insert(next);
        }
    }

    /// Numbers contents and tags by their age.
    fn by_age(numbers: &mut BTreeMap<u32, u32>) {
        numbers.values_mut().zip(1..).for_each(|(to, n)| *to = n);
    }

    fn rename(&self, name: Name<'_>) {
        match name {
            Name::Cell(cell) => *cell = self.cells.get(cell).copied().unwrap_or_default(),
            Name::Content(it) => *it = self.contents.get(it).copied().unwrap_or_default(),
            Name::Tag(it) => *it = self.tags.get(it).copied().unwrap_or_default(),
            Name::Purge(0) => {}
            Name::Purge(it) => *it = (*it + PURGE + self.purge % 2).saturating_sub(self.purge),
        }
    }
}

impl Literal {
    /// The same machine with the numbers that it would have if only that had been drawn which is left. Forgets sectors that no root can
    /// open any more, and contents that open from nothing and have their receipt.
    #[must_use]
    pub fn canonical(&self) -> Self {
        let mut it = self.clone();
        it.forget();
        let names = it.names();
        it.each(&mut |name| names.rename(name));
        it.each_seen(&mut |name| names.rename(name));
        it.drawn.cells = names.cells.len() as u32;
        it.drawn.contents = names.contents.len() as u32;
        it.drawn.tags = names.tags.len() as u32;
        it
    }

    /// Forgets what can never be opened again, as no root that may come opens it.
    pub(super) fn forget(&mut self) {
        let mut held = Vec::new();
        self.memory.each(&mut |name| {
            if let Name::Cell(cell) = name {
                held.push(*cell);
            }
        });
        held.extend(roots(&self.media));
        let kept = closure(&self.media.seen, held);
        let is_lost = |it: &Sector| it.under().is_some_and(|under| !kept.contains(&under));
        self.media.seen.retain(|it| !is_lost(it));
        self.media.each_place(|place| {
            let Place { durable, cache } = place;
            [Some(durable), cache.as_mut()].into_iter().flatten().filter(|it| is_lost(it)).for_each(|it| {
                *it = Sector::Noise;
            });
        });
        // A log ends at lost bytes as it does at zeros.
        for log in &mut self.media.logs {
            for Place { durable, cache } in log.iter_mut() {
                let lost = [Some(durable), cache.as_mut()].into_iter().flatten();
                lost.filter(|it| **it == Sector::Noise).for_each(|it| *it = Sector::Zeros);
            }
            while log.last().is_some_and(|it| !it.is_unsynced() && it.durable == Sector::Zeros) {
                log.pop();
            }
        }
    }

    /// New numbers for all that is left; drops the receipts of what is not.
    fn names(&mut self) -> Names {
        let mut names = Names::default();
        let mut contents = BTreeSet::new();
        self.each_seen(&mut |name| match name {
            Name::Content(it) => drop(contents.insert(*it)),
            Name::Tag(it) => drop(names.tags.insert(*it, 0)),
            Name::Cell(_) | Name::Purge(_) => {}
        });
        self.receipts.retain(|it| contents.contains(it));
        names.contents.extend(contents.into_iter().map(|it| (it, 0)));
        self.each(&mut |name| match name {
            Name::Cell(it) => names.add(*it),
            Name::Content(it) => drop(names.contents.insert(*it, 0)),
            Name::Tag(it) => drop(names.tags.insert(*it, 0)),
            Name::Purge(it) => names.purge = names.purge.max(*it),
        });
        names.contents.remove(&0);
        names.tags.remove(&0);
        Names::by_age(&mut names.contents);
        Names::by_age(&mut names.tags);
        // The rest of the cells, from the roots downwards.
        let mut sealed: Vec<&Sector> = self.media.seen.iter().collect();
        while !sealed.is_empty() {
            let (mut open, rest): (Vec<_>, Vec<_>) =
                sealed.into_iter().partition(|it| it.under().is_some_and(|it| names.cells.contains_key(&it)));
            assert!(!open.is_empty(), "what is left opens from a root or from memory");
            open.sort_by_key(|it| it.under().and_then(|it| names.cells.get(&it).copied()));
            open.iter().flat_map(|it| it.cells()).for_each(|it| names.add(it));
            sealed = rest;
        }
        names
    }

    /// Shows all numbers to `f` but those of [`Literal::each_seen`].
    fn each(&mut self, f: &mut impl FnMut(Name<'_>)) {
        self.media.roots.iter_mut().for_each(|it| Slot::each(it, f));
        self.memory.each(f);
        self.media.each_place(|place| {
            let Place { durable, cache } = place;
            [Some(durable), cache.as_mut()].into_iter().flatten().for_each(|it| it.each(f));
        });
        for Life { present, dying } in &mut self.lives {
            each_content(present, f);
            each_content(dying, f);
        }
        each_content(&mut self.receipts, f);
        f(Name::Purge(&mut self.journal.position.0));
    }

    /// Shows the numbers of all that was ever on the media to `f`.
    fn each_seen(&mut self, f: &mut impl FnMut(Name<'_>)) {
        let seen = std::mem::take(&mut self.media.seen).into_iter().map(|mut it| {
            it.each(f);
            it
        });
        self.media.seen = seen.collect();
    }
}

impl Memory {
    fn each(&mut self, f: &mut impl FnMut(Name<'_>)) {
        let Self { tree, logs, early, writes, flush, rewrite, purge, prepared, .. } = self;
        tree.each(f);
        logs.iter_mut().for_each(|it| f(Name::Tag(&mut it.tag)));
        early.iter_mut().flatten().chain(prepared).for_each(|it| f(Name::Cell(it)));
        for Write { cell, content, .. } in writes.iter_mut().flatten() {
            f(Name::Cell(cell));
            f(Name::Content(content));
        }
        if let Some(Flush { named, .. }) = flush {
            named.iter_mut().flatten().for_each(|it| f(Name::Cell(it)));
        }
        if let Some(Rewrite { cell, content, .. }) = rewrite {
            f(Name::Cell(cell));
            f(Name::Content(content));
        }
        if let Some(purge) = purge {
            purge.each(f);
        }
    }
}

impl Tree {
    fn each(&mut self, f: &mut impl FnMut(Name<'_>)) {
        f(Name::Purge(&mut self.number));
        let Self { top, log, leaves, cells, .. } = self;
        [top, log].into_iter().chain(leaves).chain(cells).for_each(|it| f(Name::Cell(it)));
    }
}

impl Purge {
    fn each(&mut self, f: &mut impl FnMut(Name<'_>)) {
        self.other.each(f);
        self.leaves_say.iter_mut().for_each(|it| f(Name::Cell(it)));
        each_content(&mut self.pays, f);
    }
}

fn each_content(contents: &mut BTreeSet<u32>, f: &mut impl FnMut(Name<'_>)) {
    let renamed = std::mem::take(contents).into_iter().map(|mut it| {
        f(Name::Content(&mut it));
        it
    });
    *contents = renamed.collect();
}
