//! The media of the literal machine, sector by sector, and what the host's cache has of them.

use super::super::{BLOCKS, SECTORS, places};
use std::collections::BTreeSet;

/// Leaves of the key tree.
pub(super) const LEAVES: usize = 2;
/// Blocks that a leaf has room for.
pub(super) const LEAF_BLOCKS: usize = 2;

/// A key, by the order of drawing. Zero stands where a leaf has room for a block that the disk does not have.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub(super) struct Cell(pub u32);

/// What an entry of the log says of its cell.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Kind {
    /// The cell counts if the block is staged.
    Prepared,
    /// The block lies under the cell.
    Active,
}

/// An entry of the log.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Entry {
    pub block: usize,
    pub kind: Kind,
    pub cell: Cell,
}

/// The bytes of a sector of DATA or JOURNAL, of a page, or of a sector of the log.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) enum Sector {
    Zeros,
    /// Bytes whose cell is lost.
    Noise,
    /// Content of a block.
    Content {
        under: Cell,
        content: u32,
    },
    /// The top page.
    Top {
        under: Cell,
        log: Cell,
        leaves: [Cell; LEAVES],
    },
    Leaf {
        under: Cell,
        leaf: usize,
        cells: [Cell; LEAF_BLOCKS],
    },
    /// A sector of the log, its number in its half, its tag, and the tag of the sector before (zero for the first).
    Log {
        under: Cell,
        nth: usize,
        tag: u32,
        before: u32,
        entries: Vec<Entry>,
    },
}

/// A number of the machine that says nothing by itself.
pub(super) enum Name<'a> {
    Cell(&'a mut Cell),
    Content(&'a mut u32),
    /// A sector of the log.
    Tag(&'a mut u32),
    /// A purge.
    Purge(&'a mut u32),
}

impl Sector {
    /// The cell that opens the sector.
    pub fn under(&self) -> Option<Cell> {
        match self {
            Self::Zeros | Self::Noise => None,
            Self::Content { under, .. }
            | Self::Top { under, .. }
            | Self::Leaf { under, .. }
            | Self::Log { under, .. } => Some(*under),
        }
    }

    /// The cells that an attacker who opens the sector finds there.
    pub fn cells(&self) -> Vec<Cell> {
        match self {
            Self::Zeros | Self::Noise | Self::Content { .. } => Vec::new(),
            Self::Top { log, leaves, .. } => [&[*log][..], leaves].concat(),
            Self::Leaf { cells, .. } => cells.to_vec(),
            Self::Log { entries, .. } => entries.iter().map(|it| it.cell).collect(),
        }
    }

    /// Shows all numbers of the sector to `f`.
    pub fn each(&mut self, f: &mut impl FnMut(Name<'_>)) {
        match self {
            Self::Zeros | Self::Noise => {}
            Self::Content { under, content } => {
                f(Name::Cell(under));
                f(Name::Content(content));
            }
            Self::Top { under, log, leaves } => {
                [under, log].into_iter().chain(leaves).for_each(|it| f(Name::Cell(it)));
            }
            Self::Leaf { under, cells, .. } => {
                [under].into_iter().chain(cells).for_each(|it| f(Name::Cell(it)));
            }
            Self::Log { under, tag, before, entries, .. } => {
                f(Name::Cell(under));
                [tag, before].into_iter().for_each(|it| f(Name::Tag(it)));
                entries.iter_mut().for_each(|it| f(Name::Cell(&mut it.cell)));
            }
        }
    }
}

/// A place on a medium.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Place<T> {
    pub durable: T,
    /// The newest bytes, while they differ from the durable ones.
    pub cache: Option<T>,
}

impl<T: PartialEq> Place<T> {
    pub fn new(durable: T) -> Self {
        Self { durable, cache: None }
    }

    /// What a read shows.
    pub fn newest(&self) -> &T {
        self.cache.as_ref().unwrap_or(&self.durable)
    }

    pub fn is_unsynced(&self) -> bool {
        self.cache.is_some()
    }

    fn put(&mut self, bytes: T) {
        self.cache = (bytes != self.durable).then_some(bytes);
    }

    /// The cache is lost, and its bytes become durable or not.
    fn end(&mut self, is_kept: bool) {
        if let Some(bytes) = self.cache.take().filter(|_| is_kept) {
            self.durable = bytes;
        }
    }

    fn sync(&mut self) {
        self.end(true);
    }
}

/// What a whole slot of the root says.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct Root {
    /// The number of its purge.
    pub number: u32,
    /// The cell of the top page.
    pub top: Cell,
}

/// A slot of the root: a root, or zeros.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Slot {
    pub place: Place<Option<Root>>,
    /// All that the medium may hold there.
    pub may_hold: BTreeSet<Option<Root>>,
    /// The next sync makes the newest bytes durable: they were written since the last one, by a write that did not fail.
    is_written: bool,
}

impl Slot {
    fn new(root: Option<Root>) -> Self {
        Self { place: Place::new(root), may_hold: BTreeSet::from([root]), is_written: false }
    }

    pub fn put(&mut self, root: Option<Root>) {
        self.place.put(root);
        self.may_hold.insert(root);
        self.is_written = true;
    }

    /// A write fails. It may have reached the medium, and did reach the cache if `is_in_cache`.
    pub fn fail(&mut self, root: Option<Root>, is_in_cache: bool) {
        self.may_hold.insert(root);
        if is_in_cache {
            self.place.put(root);
        }
        self.is_written = false;
    }

    fn sync(&mut self) {
        if self.is_written {
            self.place.sync();
            self.may_hold = BTreeSet::from([self.place.durable]);
            self.is_written = false;
        }
    }

    fn end(&mut self, is_kept: bool) {
        self.place.end(is_kept);
        self.is_written = false;
    }

    /// Shows all numbers of the slot to `f`.
    pub fn each(&mut self, f: &mut impl FnMut(Name<'_>)) {
        let mut root = |it: &mut Option<Root>| {
            if let Some(it) = it {
                f(Name::Purge(&mut it.number));
                f(Name::Cell(&mut it.top));
            }
        };
        [Some(&mut self.place.durable), self.place.cache.as_mut()].into_iter().flatten().for_each(&mut root);
        let renamed = std::mem::take(&mut self.may_hold).into_iter().map(|mut it| {
            root(&mut it);
            it
        });
        self.may_hold = renamed.collect();
    }
}

/// What is synced as a whole.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Medium {
    Data,
    Map,
    Journal,
    Root,
}

/// Where a sector or a page lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum At {
    /// A sector of a block.
    Data(usize, usize),
    /// A side of a leaf.
    Leaf(usize, usize),
    /// A side of the top page.
    Top(usize),
    /// A sector of a half of the log.
    Log(usize, usize),
    /// A sector of the slot of staging.
    Staged(usize),
}

/// All media.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Media {
    pub data: [[Place<Sector>; SECTORS]; BLOCKS],
    /// The leaves, two sides each.
    pub leaves: [[Place<Sector>; 2]; LEAVES],
    /// The two sides of the top page.
    pub top: [Place<Sector>; 2],
    /// The halves of the log.
    pub logs: [Vec<Place<Sector>>; 2],
    /// The slot of staging in the journal.
    pub staged: [Place<Sector>; SECTORS],
    pub roots: [Slot; 2],
    /// All that DATA, MAP and JOURNAL ever had, in the cache or durably.
    pub seen: BTreeSet<Sector>,
}

impl Media {
    /// Zeros everywhere.
    pub fn new() -> Self {
        let zeros = || Place::new(Sector::Zeros);
        Self {
            data: std::array::from_fn(|_| std::array::from_fn(|_| zeros())),
            leaves: std::array::from_fn(|_| std::array::from_fn(|_| zeros())),
            top: std::array::from_fn(|_| zeros()),
            logs: [Vec::new(), Vec::new()],
            staged: std::array::from_fn(|_| zeros()),
            roots: std::array::from_fn(|_| Slot::new(None)),
            seen: BTreeSet::new(),
        }
    }

    pub fn put(&mut self, at: At, bytes: Sector) {
        if bytes.under().is_some() && !self.seen.contains(&bytes) {
            self.seen.insert(bytes.clone());
        }
        let place = match at {
            At::Data(block, sector) => &mut self.data[block][sector],
            At::Leaf(leaf, side) => &mut self.leaves[leaf][side],
            At::Top(side) => &mut self.top[side],
            At::Log(half, nth) => {
                let log = &mut self.logs[half];
                log.resize(log.len().max(nth + 1), Place::new(Sector::Zeros));
                &mut log[nth]
            }
            At::Staged(sector) => &mut self.staged[sector],
        };
        place.put(bytes);
    }

    pub fn sync(&mut self, medium: Medium) {
        match medium {
            Medium::Data => self.data.as_flattened_mut().iter_mut().for_each(Place::sync),
            Medium::Map => {
                let pages = self.leaves.as_flattened_mut().iter_mut().chain(&mut self.top);
                pages.chain(self.logs.iter_mut().flatten()).for_each(Place::sync);
            }
            Medium::Journal => self.staged.iter_mut().for_each(Place::sync),
            Medium::Root => self.roots.iter_mut().for_each(Slot::sync),
        }
    }

    /// The bits in an answer of all places but those of the root, in the order of [`Media::each_place`]. Zero stands for a place whose
    /// newest bytes are durable, or that has no bit.
    fn bits(&self) -> Vec<u32> {
        let mut all = Vec::new();
        let mut add = |bit, place: &Place<Sector>| all.push(if place.is_unsynced() { bit } else { 0 });
        for (block, sectors) in self.data.iter().enumerate() {
            sectors.iter().enumerate().for_each(|(n, it)| add(places::data(block, n), it));
        }
        for (leaf, sides) in self.leaves.iter().enumerate() {
            sides.iter().for_each(|it| add(places::leaf(leaf), it));
        }
        self.top.iter().for_each(|it| add(places::TOP, it));
        for (half, log) in self.logs.iter().enumerate() {
            let mut unsynced = 0;
            for it in log {
                add(if unsynced < 2 { places::log(half, unsynced) } else { 0 }, it);
                unsynced += usize::from(it.is_unsynced());
            }
        }
        self.staged.iter().enumerate().for_each(|(n, it)| add(places::staged(n), it));
        all
    }

    /// The bits of all places whose newest bytes differ from the durable ones.
    pub fn unsynced(&self) -> u32 {
        let roots = (0..2).filter(|slot| self.roots[*slot].place.is_unsynced()).map(places::root);
        self.bits().into_iter().chain(roots).fold(0, |all, bit| all | bit)
    }

    /// The host loses its cache, but for the places of `mask`.
    pub fn crash(&mut self, mask: u32) {
        let mut bits = self.bits().into_iter();
        self.each_place(|it| it.end(bits.next().is_some_and(|bit| mask & bit != 0)));
        for (slot, root) in self.roots.iter_mut().enumerate() {
            root.end(mask & places::root(slot) != 0);
        }
    }

    /// The side of the top page that opens under `cell`, and the cells of the log and of the leaves.
    pub fn open_top(&self, cell: Cell) -> Option<(usize, Cell, [Cell; LEAVES])> {
        self.top.iter().enumerate().find_map(|(side, it)| match it.newest() {
            Sector::Top { under, log, leaves } if *under == cell => Some((side, *log, *leaves)),
            _ => None,
        })
    }

    /// The side of a leaf that opens under `cell`, and the cells of its blocks.
    pub fn open_leaf(&self, leaf: usize, cell: Cell) -> Option<(usize, [Cell; LEAF_BLOCKS])> {
        self.leaves[leaf].iter().enumerate().find_map(|(side, it)| match it.newest() {
            Sector::Leaf { under, cells, .. } if *under == cell => Some((side, *cells)),
            _ => None,
        })
    }

    /// The sectors of a half of the log that open under `cell` and follow on each other: tags and entries.
    pub fn open_log(&self, half: usize, cell: Cell) -> Vec<(u32, &[Entry])> {
        let (mut read, mut last) = (Vec::new(), 0);
        for (place, at) in self.logs[half].iter().zip(0..) {
            match place.newest() {
                Sector::Log { under, nth, tag, before, entries }
                    if *under == cell && *nth == at && *before == last =>
                {
                    read.push((*tag, &entries[..]));
                    last = *tag;
                }
                _ => break,
            }
        }
        read
    }

    /// Shows all places but those of the root to `f`.
    pub fn each_place(&mut self, f: impl FnMut(&mut Place<Sector>)) {
        let pages = self.leaves.as_flattened_mut().iter_mut().chain(&mut self.top);
        let map = pages.chain(self.logs.iter_mut().flatten());
        self.data.as_flattened_mut().iter_mut().chain(map).chain(&mut self.staged).for_each(f);
    }
}
