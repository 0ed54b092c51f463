//! What the states of a disk say of who has which blocks, from epoch to epoch: what was read once is read again only where a block has
//! changed that it was read from.
//!
//! A *page* is what was found from some blocks: who has what by one roll of the file system, or what one file has. Content may lie in the
//! log of the file system instead of its place. So a page is stale when a block that was read has changed, or when what belongs there has come
//! to lie elsewhere.

use crate::disk::Step;
use crate::files::disk::Disk;
use crate::files::past::Past;
use crate::files::state::{Seen, State};
use crate::files::{Error, Target, blocks};
use quietus_core::base::extents::ExtentMap;
use quietus_core::base::units::{Addr, BLOCK_BYTES, Extent};
use quietus_files::{FileId, Found, Moved, Owner, Roll};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, HashMap, HashSet};
use std::ops::Range;
use std::rc::Rc;

/// Most extents of one page: a guest that names one block again and again is not understood.
const EXTENTS_MAX: usize = 1 << 20;

/// What a page is of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) enum Key {
    /// The list of the rolls.
    Rolls,
    /// A roll.
    Roll(Roll),
    /// A file.
    File(FileId),
}

/// What was found for a key: rolls, or extents of the disk that are wanted, and their owners.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Content {
    Rolls(HashSet<Roll>),
    Has(Vec<(Owner, Extent<Addr>)>),
    /// It is not understood, for this reason.
    Unknown(String),
}

struct Page {
    content: Content,
    /// The blocks that were read, where they lie.
    parts: Vec<Extent<Addr>>,
    /// The numbers of the blocks that were read, where they belong.
    homes: Vec<u64>,
}

/// What an epoch says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Said {
    /// The same as the epoch before.
    Same,
    /// Something else, perhaps.
    Changed,
    /// The file system, or a part of it, is not understood, for this reason.
    Unknown(String),
}

/// See the module's documentation.
pub(super) struct Census<'a> {
    disk: &'a Rc<Disk>,
    target: &'a Target,
    size_bytes: u64,
    past: Rc<RefCell<Past>>,
    /// What is asked in each epoch, beside the rolls that are found on the way.
    keys: Vec<Key>,
    /// Only what lies here counts.
    wanted: Option<ExtentMap<Addr, ()>>,
    pages: BTreeMap<Key, Page>,
    /// The pages that have something, or are not understood: few of many.
    telling: HashSet<Key>,
    /// Pages by the epoch that makes them stale.
    stale: BinaryHeap<Reverse<(u64, Key)>>,
    /// Pages by the number of a block where something belongs that they were read from.
    by_home: HashMap<u64, Vec<Key>>,
    elsewhere: Elsewhere,
    last: Option<Last>,
}

/// What the epoch said that was looked at last.
struct Last {
    said: Said,
    /// The first epoch that changes a block from which the file system was opened.
    reopens: u64,
}

/// What does not lie where it belongs, in the epoch that was looked at last; places are those of the disk.
#[derive(Default)]
struct Elsewhere {
    /// By the number of the block where it belongs.
    of_home: HashMap<u64, Vec<Moved>>,
    /// The numbers of these, by that of the block where it lies.
    homes: HashMap<u64, Vec<u64>>,
}

impl Elsewhere {
    fn of(opened: &mut Found) -> Self {
        let (start, mut all) = (opened.place.start.0, Self::default());
        let moved = opened.owners().map(|(owners, _)| owners.moved()).unwrap_or_default();
        for Moved { home, to, bytes } in moved {
            let moved = Moved { home: Addr(start + home.0), to: Addr(start + to.0), bytes };
            for home in numbers(Extent::new(moved.home.0, bytes)) {
                all.of_home.entry(home).or_default().push(moved);
                for to in numbers(Extent::new(moved.to.0, bytes)) {
                    all.homes.entry(to).or_default().push(home);
                }
            }
        }
        all
    }
}

/// The numbers of the blocks of `extent`.
pub(super) fn numbers(extent: Extent<Addr>) -> Range<u64> {
    extent.start.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES)
}

impl<'a> Census<'a> {
    /// A census of what `files` have.
    pub(super) fn of_files(
        disk: &'a Rc<Disk>,
        target: &'a Target,
        size_bytes: u64,
        files: impl IntoIterator<Item = FileId>,
    ) -> Self {
        Self::new(disk, target, size_bytes, files.into_iter().map(Key::File).collect(), None)
    }

    /// A census of who has what in `wanted`.
    pub(super) fn of_all(
        disk: &'a Rc<Disk>,
        target: &'a Target,
        size_bytes: u64,
        wanted: ExtentMap<Addr, ()>,
    ) -> Self {
        Self::new(disk, target, size_bytes, vec![Key::Rolls], Some(wanted))
    }

    fn new(
        disk: &'a Rc<Disk>,
        target: &'a Target,
        size_bytes: u64,
        keys: Vec<Key>,
        wanted: Option<ExtentMap<Addr, ()>>,
    ) -> Self {
        Self {
            disk,
            target,
            size_bytes,
            past: Rc::default(),
            keys,
            wanted,
            pages: BTreeMap::new(),
            telling: HashSet::new(),
            stale: BinaryHeap::new(),
            by_home: HashMap::new(),
            elsewhere: Elsewhere::default(),
            last: None,
        }
    }

    /// Looks at `epoch`, which follows those that were looked at.
    pub(super) fn look(&mut self, epoch: u64, step: Step<'_>) -> Result<Said, Error> {
        let is_stale = self.stale.peek().is_some_and(|Reverse((at, _))| *at <= epoch);
        if let Some(last) = self.last.as_ref().filter(|last| !is_stale && epoch < last.reopens) {
            return Ok(match &last.said {
                Said::Unknown(why) => Said::Unknown(why.clone()),
                Said::Same | Said::Changed => Said::Same,
            });
        }
        let state = State::of_many(self.disk, epoch, self.size_bytes, &self.past);
        let seen = state.seen();
        let opened = quietus_files::open(Box::new(state), self.target.partition);
        let reopens = self.learn(epoch, &seen)?;
        let said = match opened {
            Ok(opened) => self.look_into(epoch, opened, &seen, step)?,
            Err(error) => Said::Unknown(error.to_string()),
        };
        self.last = Some(Last { said: said.clone(), reopens });
        Ok(said)
    }

    /// Looks at the file system of `epoch`.
    fn look_into(
        &mut self,
        epoch: u64,
        mut opened: Found,
        seen: &Seen,
        step: Step<'_>,
    ) -> Result<Said, Error> {
        if opened.owners().is_none() {
            let name = opened.volume.name();
            let why = format!("{name}: which file has which block is not known to this program");
            return Err(Error::Refused(why.into()));
        }
        let mut due = self.due(epoch, &mut opened);
        let is_same = due.is_empty();
        let mut looked = Vec::new();
        while let Some(key) = due.pop() {
            if !step(epoch, epoch) {
                return Err(Error::Interrupted);
            }
            self.put(key, &mut opened, seen, &mut due);
            looked.push(key);
        }
        self.schedule(epoch, &looked)?;
        let unknown = self.telling.iter().filter_map(|key| match &self.pages.get(key)?.content {
            Content::Unknown(why) => Some(why.clone()),
            Content::Rolls(_) | Content::Has(_) => None,
        });
        Ok(match (unknown.min(), is_same) {
            (Some(why), _) => Said::Unknown(why),
            (None, true) => Said::Same,
            (None, false) => Said::Changed,
        })
    }

    /// Asks when the blocks change that were read, so that their content is known to later epochs. Returns the first epoch that changes one
    /// of them.
    fn learn(&self, epoch: u64, seen: &Seen) -> Result<u64, Error> {
        let parts = blocks(&std::mem::take(&mut *seen.borrow_mut()), self.size_bytes);
        let mut past = self.past.borrow_mut();
        past.learn(self.disk, &parts, epoch)?;
        Ok(past.next_change(&parts, epoch).map_or(u64::MAX, |it| it.epoch))
    }

    /// The pages that are not known, or stale.
    fn due(&mut self, epoch: u64, opened: &mut Found) -> Vec<Key> {
        let mut due: HashSet<Key> =
            self.keys.iter().copied().filter(|key| !self.pages.contains_key(key)).collect();
        while let Some(Reverse((_, key))) = self.stale.peek().copied().filter(|Reverse((at, _))| *at <= epoch)
        {
            self.stale.pop();
            due.extend(self.pages.contains_key(&key).then_some(key));
        }
        let now = Elsewhere::of(opened);
        let before = std::mem::replace(&mut self.elsewhere, now);
        let (before, now) = (&before.of_home, &self.elsewhere.of_home);
        for home in before.keys().chain(now.keys()).filter(|home| before.get(home) != now.get(home)) {
            due.extend(self.by_home.get(home).into_iter().flatten());
        }
        due.into_iter().collect()
    }

    /// Looks at the page of `key`. What that calls for is due, too.
    fn put(&mut self, key: Key, opened: &mut Found, seen: &Seen, due: &mut Vec<Key>) {
        self.remove(key);
        seen.borrow_mut().remove(Extent::new(0, u64::MAX));
        let content = self.content(key, opened).unwrap_or_else(|error| Content::Unknown(error.to_string()));
        let parts = blocks(&seen.borrow(), self.size_bytes);
        if let Content::Rolls(rolls) = &content {
            let is_gone = |key: &Key| matches!(key, Key::Roll(roll) if !rolls.contains(roll));
            let gone: Vec<_> = self.pages.keys().copied().filter(is_gone).collect();
            gone.into_iter().for_each(|key| self.remove(key));
            due.retain(|key| !is_gone(key));
            let new = rolls.iter().map(|roll| Key::Roll(*roll)).filter(|key| !self.pages.contains_key(key));
            let new: Vec<_> = new.filter(|key| !due.contains(key)).collect();
            due.extend(new);
        }
        let homes = self.homes(&parts);
        homes.iter().for_each(|home| self.by_home.entry(*home).or_default().push(key));
        if !matches!(&content, Content::Rolls(_)) && content != Content::Has(Vec::new()) {
            self.telling.insert(key);
        }
        self.pages.insert(key, Page { content, parts, homes });
    }

    fn remove(&mut self, key: Key) {
        let Some(page) = self.pages.remove(&key) else { return };
        self.telling.remove(&key);
        for home in page.homes {
            if let Some(keys) = self.by_home.get_mut(&home) {
                keys.retain(|it| *it != key);
            }
        }
    }

    /// The numbers of the blocks where what lies in `parts` belongs.
    fn homes(&self, parts: &[Extent<Addr>]) -> Vec<u64> {
        let mut homes: Vec<u64> = parts.iter().flat_map(|part| numbers(*part)).collect();
        let elsewhere = homes.iter().filter_map(|block| self.elsewhere.homes.get(block)).flatten();
        let elsewhere: Vec<u64> = elsewhere.copied().collect();
        homes.extend(elsewhere);
        homes.sort_unstable();
        homes.dedup();
        homes
    }

    fn content(&self, key: Key, opened: &mut Found) -> Result<Content, quietus_files::Error> {
        let start = opened.place.start.0;
        let Some((owners, source)) = opened.owners() else { return Ok(Content::Has(Vec::new())) };
        let mut has = Vec::new();
        let mut note = |owner, extent: Extent<Addr>| {
            let extent = Extent::new(start + extent.start.0, extent.len);
            if has.len() > EXTENTS_MAX {
                return;
            }
            match &self.wanted {
                None => has.push((owner, extent)),
                Some(wanted) => has.extend(wanted.within(extent).map(|(part, ())| (owner, part))),
            }
        };
        match key {
            Key::Rolls => return Ok(Content::Rolls(owners.rolls(source)?.into_iter().collect())),
            Key::Roll(roll) => owners.roll(source, roll, &mut note)?,
            Key::File(file) => owners.owned(source, file, &mut |extent| note(Owner::File(file), extent))?,
        }
        if has.len() > EXTENTS_MAX {
            return Ok(Content::Unknown(format!(
                "inodes side by side have more than {EXTENTS_MAX} extents there"
            )));
        }
        Ok(Content::Has(has))
    }

    /// Notes when the pages that were looked at become stale.
    fn schedule(&mut self, epoch: u64, looked: &[Key]) -> Result<(), Error> {
        let pages = || looked.iter().filter_map(|key| Some((*key, self.pages.get(key)?)));
        let parts: HashSet<Extent<Addr>> = pages().flat_map(|(_, page)| page.parts.iter().copied()).collect();
        let mut past = self.past.borrow_mut();
        past.learn(self.disk, &parts.into_iter().collect::<Vec<_>>(), epoch)?;
        let next = |page: &Page| past.next_change(&page.parts, epoch).map(|it| it.epoch);
        let changes: Vec<_> = pages().filter_map(|(key, page)| Some(Reverse((next(page)?, key)))).collect();
        drop(past);
        self.stale.extend(changes);
        Ok(())
    }

    /// Who has what of what is wanted, in the epoch that was looked at last.
    pub(super) fn owners(&self) -> impl Iterator<Item = (Owner, Extent<Addr>)> {
        let pages = self.telling.iter().filter_map(|key| self.pages.get(key));
        pages
            .flat_map(|page| match &page.content {
                Content::Has(all) => &all[..],
                Content::Rolls(_) | Content::Unknown(_) => &[],
            })
            .copied()
    }
}
