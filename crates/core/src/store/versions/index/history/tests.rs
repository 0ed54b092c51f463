//! The history against the dullest model, on a medium with few pages in memory and crashes between heads.

use crate::base::blocks::BlockSet;
use crate::base::units::{Addr, BLOCK_BYTES, EpochRange, Extent};
use crate::request::Weighing;
use crate::store::versions::index::history::*;
use crate::store::versions::index::span::tombstone;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

const DISK: [u8; 16] = [3; 16];

/// The model: every version that was ever written, and which epochs are kept.
#[derive(Clone, Default)]
struct Dull {
    open: u64,
    kept: BTreeSet<u64>,
    /// By slot: the block, its birth, and the epoch that ended it.
    versions: BTreeMap<u64, (u64, u64, Option<u64>)>,
    now: BTreeMap<u64, u64>,
    owed: BTreeSet<u64>,
    /// By block: the last epoch that does not show it, because it was forgotten there.
    gaps: BTreeMap<u64, u64>,
    /// The versions that were forgotten alone: the slot, the block, its birth, and the epoch that ended it.
    stones: Vec<(u64, u64, u64, u64)>,
}

impl Dull {
    fn write(&mut self, block: u64, slot: Option<u64>) {
        if let Some(old) = self.now.remove(&block) {
            self.versions.get_mut(&old).expect("the version is known").2 = Some(self.open);
        }
        if let Some(slot) = slot {
            self.now.insert(block, slot);
            self.versions.insert(slot, (block, self.open, None));
        }
        self.sweep();
    }

    fn sweep(&mut self) {
        let is_shown = |(_, born, died): &(u64, u64, Option<u64>)| {
            died.is_none_or(|died| self.kept.range(*born..died).next().is_some())
        };
        self.owed = self.versions.iter().filter(|(_, it)| !is_shown(it)).map(|(slot, _)| *slot).collect();
    }

    /// Forgets some blocks in all epochs before the open one, but for what that shows.
    fn forget_blocks(&mut self, blocks: Range<u64>) {
        for (block, born, died) in self.versions.values_mut() {
            if blocks.contains(block) && died.is_some() && *born < self.open {
                *died = Some(*born);
            }
        }
        self.stones.retain(|(_, block, ..)| !blocks.contains(block));
        self.gaps.extend(blocks.map(|block| (block, self.open - 1)));
        self.sweep();
    }

    /// Forgets the versions of some blocks that only these epochs show.
    fn forget_shown(&mut self, blocks: Range<u64>, epochs: RangeInclusive<u64>) {
        for (slot, (block, born, died)) in &mut self.versions {
            let Some(ended) = died.filter(|_| blocks.contains(block)) else { continue };
            let mut shows = self.kept.range(*born..ended).peekable();
            if shows.peek().is_some() && shows.all(|epoch| epochs.contains(epoch)) {
                self.stones.push((*slot, *block, *born, ended));
                *died = Some(*born);
            }
        }
        self.sweep();
    }

    /// How many versions only `epoch` shows, which is kept.
    fn unique(&self, epoch: u64) -> u64 {
        let shows =
            |it: &(u64, u64, Option<u64>), epoch| it.1 <= epoch && it.2.is_some_and(|died| epoch < died);
        let mine = self.versions.values().filter(|it| shows(it, epoch));
        mine.filter(|it| self.kept.iter().filter(|kept| shows(it, **kept)).count() == 1).count() as u64
    }

    /// How many versions the kept epochs among these show, and the one before them, and no later one.
    fn stays(&self, from: u64, to: u64) -> u64 {
        let before = self.kept.range(..from).next_back();
        let (Some(before), Some(first)) = (before, self.kept.range(from..=to).next()) else { return 0 };
        let after = self.kept.range(to + 1..).next().unwrap_or(&self.open);
        let is_it = |(_, born, died): &&(u64, u64, Option<u64>)| {
            born <= before && died.is_some_and(|died| *first < died && died <= *after)
        };
        self.versions.values().filter(is_it).count() as u64
    }

    fn shown(&self, block: u64, epoch: u64) -> Option<u64> {
        let is_it = |(of, born, died): &(u64, u64, Option<u64>)| {
            *of == block && *born <= epoch && died.is_none_or(|died| epoch < died)
        };
        let stone = |(_, of, born, died): &&(u64, u64, u64, u64)| is_it(&(*of, *born, Some(*died)));
        let stone = self.stones.iter().find(stone).map(|(slot, ..)| tombstone(Slot(*slot)).0);
        stone.or_else(|| self.versions.iter().find(|(_, it)| is_it(it)).map(|(slot, _)| *slot))
    }
}

struct Disk {
    history: History,
    medium: BTreeMap<u64, Vec<u8>>,
    head: Head,
    memory_max: usize,
    model: Dull,
    durable: (Dull, u64, Counts),
    slots: u64,
}

impl Disk {
    fn new(memory_max: usize) -> Self {
        let head = Head { generation: 0, roots: vec![], note: vec![] };
        let model = Dull { open: 1, ..Dull::default() };
        Self {
            history: History::open(DISK, &head, Epoch(1), Counts::default()),
            medium: BTreeMap::new(),
            head,
            memory_max,
            durable: (model.clone(), 1, Counts::default()),
            model,
            slots: 0,
        }
    }

    fn ask<T>(&mut self, mut ask: impl FnMut(&mut History) -> Result<T, Absent>) -> T {
        loop {
            match ask(&mut self.history) {
                Ok(answer) => return answer,
                Err(Absent(page)) => {
                    let bytes = &self.medium[&page.position()];
                    self.history.pages.loaded(page, bytes).expect("the page is whole");
                }
            }
        }
    }

    fn write(&mut self, block: u64, is_free: bool) {
        self.slots += 1;
        let slot = Some(self.slots).filter(|_| !is_free);
        let epoch = Epoch(self.model.open);
        let owed = self.ask(|it| it.write(Block(block), slot.map(Slot), epoch, |_| false));
        let before = self.model.owed.clone();
        self.model.write(block, slot);
        let news: Vec<u64> = self.model.owed.difference(&before).copied().collect();
        assert_eq!(owed.map(|dead| dead.slot.0).into_iter().collect::<Vec<_>>(), news);
    }

    /// How many entries of the index were born in `epoch`.
    fn born_in(&mut self, epoch: u64) -> u64 {
        let (mut count, mut from) = (0, [0; 2 * NUMBER]);
        while let Some((key, _)) = self.ask(|it| it.versions.at_or_after(&it.pages, &from)) {
            count += u64::from(number(&key, 1) == epoch);
            from = pack(&[number(&key, 0), number(&key, 1) + 1]);
        }
        count
    }

    fn close(&mut self) {
        let changed = self.born_in(self.model.open);
        let open = Epoch(self.model.open);
        self.close_open();
        let (epoch, end) = self.ask(|it| it.kept_at_or_after(open)).expect("it is kept");
        assert_eq!((epoch, end.changed, end.when), (open, changed, WallTime(7)));
    }

    fn close_open(&mut self) {
        let closed = self.ask(|it| it.close(WallTime(7)));
        assert_eq!(closed.0, self.model.open);
        self.model.kept.insert(self.model.open);
        self.model.open += 1;
    }

    /// How many versions would die with some epochs, and how many only the epoch before them would show.
    fn weigh(&mut self, from: u64, to: u64) -> (u64, u64) {
        let mut weighing = Weighing::new(EpochRange { from: Epoch(from), to: Epoch(to) });
        while weighing.at.is_some() {
            weighing = self.ask(|it| it.weigh(weighing, 3));
            self.history.pages.evict(self.memory_max);
        }
        (weighing.dies, weighing.stays)
    }

    fn forget(&mut self, from: u64, to: u64) -> usize {
        let weighed = self.weigh(from, to);
        let mut forget = Forget::new(Epoch(from), Epoch(to));
        let dead = self.all_dead(|it| it.forget_step(&mut forget));
        assert_eq!(weighed, (dead.len() as u64, self.model.stays(from, to)), "{from} to {to}");
        let before = self.model.owed.clone();
        self.model.kept.retain(|epoch| !(from..=to).contains(epoch));
        self.model.sweep();
        assert_eq!(dead, self.model.owed.difference(&before).copied().collect());
        dead.len()
    }

    fn forget_blocks(&mut self, blocks: Range<u64>) {
        let extent = outline(&blocks);
        let mut forget = ForgetBlocks::new(extent, Epoch(self.model.open - 1));
        self.history.gaps.note(extent, Epoch(self.model.open - 1));
        let dead = self.all_dead(|it| it.forget_blocks_step(&mut forget));
        let before = self.model.owed.clone();
        self.model.forget_blocks(blocks);
        assert_eq!(dead, self.model.owed.difference(&before).copied().collect());
    }

    /// Forgets what some epochs show of some blocks; the steps of a first try are taken up to this one.
    fn forget_shown(&mut self, blocks: Range<u64>, epochs: RangeInclusive<u64>, first: u64) {
        let range = EpochRange { from: Epoch(*epochs.start()), to: Epoch(*epochs.end()) };
        let begun = ForgetShown::new(outline(&blocks), range);
        let (mut forget, mut dead) = (begun, BTreeSet::new());
        for _ in 0..first {
            if let Forgotten::Versions(all) = self.ask(|it| it.forget_shown_step(&mut forget)) {
                dead.extend(all.into_iter().flat_map(Span::each).map(|dead| dead.slot.0));
            }
        }
        let mut forget = begun;
        dead.extend(self.all_dead(|it| it.forget_shown_step(&mut forget)));
        let before = self.model.owed.clone();
        self.model.forget_shown(blocks, epochs);
        assert_eq!(dead, self.model.owed.difference(&before).copied().collect());
    }

    /// The first block of which an epoch shows a tombstone.
    fn first_stone(&mut self, blocks: u64, epoch: u64) -> Option<u64> {
        let mut at = 0;
        loop {
            let (found, end) = self.ask(|it| it.find_tombstone(at..blocks, Epoch(epoch), 3));
            if found.is_some() || end == blocks {
                return found;
            }
            assert!(end > at, "no step forward");
            at = end;
            self.history.pages.evict(self.memory_max);
        }
    }

    /// Takes all steps of a forget: the slots of what dies.
    fn all_dead(&mut self, mut step: impl FnMut(&mut History) -> Result<Forgotten, Absent>) -> BTreeSet<u64> {
        let mut dead = BTreeSet::new();
        loop {
            match self.ask(&mut step) {
                Forgotten::Versions(all) => {
                    let all = all.into_iter().flat_map(Span::each);
                    all.for_each(|it| assert!(dead.insert(it.slot.0), "{it:?} dies once"));
                }
                Forgotten::More => {}
                Forgotten::All => return dead,
            }
            self.history.pages.evict(self.memory_max);
        }
    }

    /// Destroys what is owed in some slots.
    fn complete(&mut self, from: u64, most: u64) {
        let Some(span) = self.ask(|it| it.owed_from(Slot(from))) else { return };
        let some = Span { len: span.len.min(most), ..span };
        for dead in some.each() {
            assert!(self.model.owed.remove(&dead.slot.0));
            let (block, born, _) = self.model.versions.remove(&dead.slot.0).expect("the version is known");
            assert_eq!((block, born), (dead.block.0, dead.born.0));
        }
        assert_eq!(self.ask(|it| it.completed(&some.slots())), Some(some));
    }

    fn make_durable(&mut self) {
        self.medium.extend(self.history.pages.take_writes(usize::MAX));
        let generation = self.history.pages.begin_head();
        self.head = Head { generation, roots: self.history.roots(Root::default()), note: vec![] };
        self.history.pages.end_head();
        self.durable = (self.model.clone(), self.model.open, self.history.counts());
    }

    fn crash(&mut self) {
        let (model, open, counts) = self.durable.clone();
        self.model = model;
        self.history = History::open(DISK, &self.head, Epoch(open), counts);
        self.ask(|it| it.reach(|_, _| Ok(())));
    }

    /// The blocks that two states show in different versions: by the index, a few at a time, and by the model.
    fn check_compared(&mut self, blocks: u64, states: [u64; 2]) {
        let (mut differing, mut at) = (BlockSet::default(), 0);
        while at < blocks {
            let compared = self.ask(|it| it.compare(at..blocks, states.map(Epoch), 3));
            assert!(compared.1 > at, "no step forward");
            differing.union(&compared.0);
            at = compared.1;
            self.history.pages.evict(self.memory_max);
        }
        for block in 0..blocks {
            let [one, other] = states.map(|state| self.model.shown(block, state));
            let is_unknown = [one, other].into_iter().flatten().any(|slot| is_tombstone(Slot(slot)));
            let differs = one != other || is_unknown && states[0] != states[1];
            assert_eq!(differing.contains(block), differs, "{block} at {states:?}");
        }
        assert!(differing.runs().all(|run| run.end() <= blocks * crate::base::units::BLOCK_BYTES));
    }

    /// The births of the versions of `block` after an epoch, a leaf at a time.
    fn births(&mut self, block: u64, since: u64) -> BTreeSet<u64> {
        let (mut all, mut next) = (BTreeSet::new(), Some((Block(block), Epoch(0))));
        while let Some(at) = next {
            let (births, behind) = self.ask(|it| it.births(at, Block(block + 1), Epoch(since)));
            all.extend(births.into_iter().map(|born| born.0));
            next = behind;
            self.history.pages.evict(self.memory_max);
        }
        assert!(all.iter().all(|born| *born > since), "{all:?} after {since}");
        all
    }

    /// Whether a block has a birth between two states exactly where they show it in different versions.
    fn check_births(&mut self, blocks: u64, states: &[u64]) {
        for block in 0..blocks {
            let births = self.births(block, 0);
            for pair in states.windows(2) {
                let later: BTreeSet<u64> = births.range(pair[0] + 1..).copied().collect();
                assert_eq!(self.births(block, pair[0]), later, "{block} after {}", pair[0]);
                let differs = self.model.shown(block, pair[0]) != self.model.shown(block, pair[1]);
                let is_born = births.range(pair[0] + 1..=pair[1]).next().is_some();
                assert_eq!(is_born, differs, "{block} in {pair:?}");
            }
        }
    }

    /// The blocks with content, page by page.
    fn shown_now(&mut self) -> Vec<u64> {
        let (mut all, mut from) = (Vec::new(), Some([0, 0]));
        while let Some(next) = from {
            let (shown, behind) = self.ask(|it| it.shown_from(next));
            all.extend(shown.into_iter().map(|block| block.0));
            assert!(behind.is_none_or(|behind| behind > next), "no step forward");
            from = behind;
        }
        all
    }

    fn check(&mut self, blocks: u64) {
        assert_eq!(
            self.ask(|it| it.versions.check(&it.pages).map_err(|_| Absent(crate::tree::PageNo(0)))),
            ()
        );
        let kept_and_open: Vec<u64> = self.model.kept.iter().copied().chain([self.model.open]).collect();
        for epoch in kept_and_open.iter().copied() {
            let is_stone =
                |block: &u64| self.model.shown(*block, epoch).is_some_and(|slot| is_tombstone(Slot(slot)));
            let first = (0..blocks).find(is_stone);
            assert_eq!(self.first_stone(blocks, epoch), first, "at {epoch}");
            for block in 0..blocks {
                let is_gap =
                    self.history.gaps.of(Epoch(epoch), outline(&(block..block + 1))).next().is_some();
                let forgotten = self.model.gaps.get(&block);
                assert_eq!(is_gap, forgotten.is_some_and(|last| epoch <= *last), "{block} at {epoch}");
                let shown = self.ask(|it| it.shown(Block(block), Epoch(epoch)));
                assert_eq!(shown.map(|it| it.slot.0), self.model.shown(block, epoch), "{block} at {epoch}");
            }
        }
        let states: Vec<u64> = self.model.kept.iter().copied().chain([0, self.model.open]).collect();
        for pair in states.windows(2).chain(states.rchunks(2).filter(|it| it.len() == 2)) {
            self.check_compared(blocks, [pair[0], pair[1]]);
            self.check_compared(blocks, [pair[1], self.model.open]);
        }
        let in_order: Vec<u64> = [0].into_iter().chain(kept_and_open).collect();
        self.check_births(blocks, &in_order);
        for epoch in self.model.kept.clone() {
            assert_eq!(self.weigh(epoch, epoch).0, self.model.unique(epoch), "of epoch {epoch}");
        }
        assert_eq!(self.shown_now(), self.model.now.keys().copied().collect::<Vec<_>>());
        assert_eq!(self.history.kept(), self.model.kept.len() as u64);
        let (mut owed, mut from) = (BTreeSet::new(), Slot(0));
        while let Some(span) = self.ask(|it| it.owed_from(from)) {
            owed.extend(span.each().map(|dead| dead.slot.0));
            from = span.slots().end;
        }
        assert_eq!(owed, self.model.owed);
        assert_eq!(self.history.owed(), owed.len() as u64);
        let retired = |(_, born, died): &&(u64, u64, Option<u64>)| {
            died.is_some_and(|died| self.model.kept.range(*born..died).next().is_some())
        };
        assert_eq!(self.history.retired(), self.model.versions.values().filter(retired).count() as u64);
    }
}

#[test]
fn every_kept_epoch_shows_what_it_was_and_the_rest_is_owed() {
    let mut shown_forgets = 0;
    for seed in 0..400 {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mut disk = Disk::new(5 + seed as usize % 20);
        let blocks = 1 + u64::from(rng.next_u32() % 12);
        for _ in 0..20 + rng.next_u32() % 300 {
            let kept: Vec<u64> = disk.model.kept.iter().copied().collect();
            let any = |rng: &mut ChaCha8Rng| kept.get(rng.next_u32() as usize % kept.len().max(1)).copied();
            match rng.next_u32() % 100 {
                0..44 => disk.write(u64::from(rng.next_u32()) % blocks, false),
                44..52 => disk.write(u64::from(rng.next_u32()) % blocks, true),
                52..60 => {
                    let (from, is_free) = (u64::from(rng.next_u32()) % blocks, rng.next_u32() % 2 == 0);
                    (from..blocks.min(from + 6)).for_each(|block| disk.write(block, is_free));
                }
                60..78 => disk.close(),
                78..84 => disk.complete(u64::from(rng.next_u32()) % (disk.slots + 1), 1 + seed % 4),
                84..87 => {
                    let from = u64::from(rng.next_u32()) % blocks;
                    disk.forget_blocks(from..(from + 1 + u64::from(rng.next_u32()) % 4).min(blocks));
                }
                87..90 => {
                    if let (Some(one), Some(other)) = (any(&mut rng), any(&mut rng)) {
                        let from = u64::from(rng.next_u32()) % blocks;
                        let some = from..(from + 1 + u64::from(rng.next_u32()) % 6).min(blocks);
                        disk.forget_shown(some, one.min(other)..=one.max(other), seed % 3);
                        shown_forgets += disk.model.stones.len();
                    }
                }
                90..95 => {
                    if let (Some(one), Some(other)) = (any(&mut rng), any(&mut rng)) {
                        let to = if rng.next_u32() % 2 == 0 { one } else { other.max(one) };
                        disk.forget(one, to);
                    }
                }
                95..98 => disk.make_durable(),
                _ => disk.crash(),
            }
            disk.history.pages.evict(disk.memory_max);
        }
        disk.check(blocks);
        disk.make_durable();
        disk.crash();
        disk.check(blocks);
        // With all epochs forgotten, only what the open one shows is left.
        disk.forget(0, disk.model.open - 1);
        disk.check(blocks);
        while disk.history.owed() > 0 {
            disk.complete(0, u64::MAX);
        }
        let shown = (0..blocks).filter(|block| disk.model.now.contains_key(block)).count();
        assert_eq!((disk.history.retired(), disk.model.versions.len()), (0, shown));
        assert_eq!(disk.history.versions.len(), shown as u64, "ends that say nothing are gone");
        assert!(disk.history.gaps.is_empty(), "gaps that no epoch has are gone");
    }
    assert!(shown_forgets > 1000, "{shown_forgets} versions were forgotten alone");
}

#[test]
fn the_last_version_of_a_block_counts_on_whatever_page_it_lies() {
    let mut disk = Disk::new(5);
    for epoch in 0..700 {
        (0..3).for_each(|block| disk.write(block, false));
        disk.write(3, epoch % 2 == 1);
        disk.close();
        disk.history.pages.evict(disk.memory_max);
    }
    assert_eq!(disk.shown_now(), [0, 1, 2]);
    disk.write(3, false);
    disk.write(1, true);
    assert_eq!(disk.shown_now(), [0, 2, 3]);
}

fn outline(blocks: &Range<u64>) -> Extent<Addr> {
    Extent::between(blocks.start * BLOCK_BYTES, blocks.end * BLOCK_BYTES)
}

/// Forgets epochs one by one in this order; returns the most entries that one forget looked at beyond twice
/// what it destroyed, and how often an entry was moved by merges.
fn cost(disk: &mut Disk, order: &[u64]) -> (u64, u64) {
    let (mut most, mut dead) = (0, 0);
    for epoch in order {
        let before = disk.history.work().0;
        let died = disk.forget_quietly(*epoch);
        dead += died;
        most = most.max((disk.history.work().0 - before).saturating_sub(2 * died));
    }
    (most, disk.history.work().1 / (dead + disk.history.retired()).max(1))
}

impl Disk {
    /// As [`Disk::forget`], without the model.
    fn forget_quietly(&mut self, epoch: u64) -> u64 {
        let mut forget = Forget::new(Epoch(epoch), Epoch(epoch));
        self.all_dead(|it| it.forget_step(&mut forget)).len() as u64
    }

    fn fill(epochs: u64, blocks: u64, writes: u64) -> Self {
        let (mut disk, mut rng) = (Self::new(usize::MAX), ChaCha8Rng::seed_from_u64(5));
        let mut slot = 0;
        let mut put = |disk: &mut Self, block: u64| {
            slot += 1;
            let epoch = disk.history.open_epoch();
            disk.ask(|it| it.write(Block(block), Some(Slot(slot)), epoch, |_| false));
        };
        (0..blocks).for_each(|block| put(&mut disk, block));
        for _ in 0..epochs {
            disk.ask(|it| it.close(WallTime(0)));
            (0..writes).for_each(|_| put(&mut disk, u64::from(rng.next_u32()) % blocks));
        }
        disk
    }
}

#[test]
fn a_forget_looks_at_hardly_more_than_what_dies() {
    const EPOCHS: u64 = 2000;
    let all: Vec<u64> = (1..EPOCHS).collect();
    let thinned: Vec<u64> = all.iter().copied().filter(|epoch| epoch % 60 != 0).collect();
    let orders = [
        ("oldest first", all),
        ("thinned, ascending", thinned.clone()),
        ("thinned, descending", thinned.into_iter().rev().collect()),
    ];
    for (name, order) in orders {
        let mut disk = Disk::fill(EPOCHS, 5000, 20);
        let (most, merged) = cost(&mut disk, &order);
        assert!(most <= 100, "{name}: one forget looked at {most} more");
        assert!(merged <= 12, "{name}: an entry was moved {merged} times");
    }
}

#[test]
fn what_was_written_at_once_dies_as_a_few_entries_and_in_bounded_steps() {
    const BLOCKS: u64 = 3 * DEAD_MAX + 7;
    let mut disk = Disk::new(5);
    (0..BLOCKS).for_each(|block| disk.write(block, false));
    disk.close();
    (0..BLOCKS).filter(|block| *block != BLOCKS / 2).for_each(|block| disk.write(block, true));
    disk.close();
    disk.make_durable();
    disk.crash();
    let before = disk.history.work().0;
    assert_eq!(disk.forget(1, 1) as u64, BLOCKS - 1);
    assert!(disk.history.work().0 - before < 60, "two entries, part by part, and again for each absent page");
    assert_eq!(disk.history.versions.len(), 1, "ends that say nothing are gone");
    disk.complete(BLOCKS / 3, 1);
    disk.check(BLOCKS);
}

#[test]
fn where_all_is_written_on_both_sides_nothing_dies_and_nothing_is_looked_at() {
    let mut disk = Disk::fill(0, 20_000, 0);
    let mut slot = 20_000;
    for half in [0..0, 0..10_000, 10_000..20_000] {
        for block in half {
            slot += 1;
            let epoch = disk.history.open_epoch();
            disk.ask(|it| it.write(Block(block), Some(Slot(slot)), epoch, |_| false));
        }
        disk.ask(|it| it.close(WallTime(0)));
    }
    let before = disk.history.work().0;
    assert_eq!(disk.forget_quietly(2), 0);
    assert!(disk.history.work().0 - before < 10);
}
