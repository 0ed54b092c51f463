//! The store against the dullest model, on media that lose what was not synced, and a look at every byte of
//! the stub medium.

use super::super::{RebuildMedia, Setup, VersionsError, format_stubs, rebuild};
use super::*;
use crate::base::units::Session;
use crate::base::zeros::is_zeros;
use crate::media::medium::{Capabilities, Medium, MediumError};
use crate::media::sealing::{SealingAt, parse_home};
use crate::store::Rekey;
use crate::store::versions::index::history::Forget;
use crate::store::versions::index::span::slots_of;
use crate::store::versions::stubs::root;
use crate::tree::newest;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{RngCore, SeedableRng};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

const DISK: [u8; 16] = [5; 16];
const BLOCKS: u64 = 2000;
const LAYOUT: Layout = Layout { stub_bytes: 64, half_bytes: 64 * 512 };
/// Most sectors of a half that are used before a checkpoint is due.
const DUE: u64 = 40;

/// A medium whose unsynced writes a crash may undo, sector by sector.
#[derive(Default)]
struct Disk {
    durable: BTreeMap<u64, [u8; 512]>,
    cached: BTreeMap<u64, [u8; 512]>,
}

impl Disk {
    fn read(&self, at: u64, len: u64) -> Vec<u8> {
        let sector =
            |n: &u64| self.cached.get(n).or_else(|| self.durable.get(n)).copied().unwrap_or([0; 512]);
        let all: Vec<u8> = (at / 512..(at + len).div_ceil(512)).flat_map(|n| sector(&n)).collect();
        all[(at % 512) as usize..][..len as usize].to_vec()
    }

    fn write(&mut self, at: u64, bytes: &[u8]) {
        for (n, byte) in bytes.iter().enumerate() {
            let (sector, offset) = ((at + n as u64) / 512, (at + n as u64) % 512);
            let old = self.durable.get(&sector).copied().unwrap_or([0; 512]);
            self.cached.entry(sector).or_insert(old)[offset as usize] = *byte;
        }
    }

    fn sync(&mut self) {
        self.durable.append(&mut self.cached);
    }

    fn crash(&mut self, rng: &mut ChaCha8Rng) {
        let cached = std::mem::take(&mut self.cached);
        self.durable.extend(cached.into_iter().filter(|_| rng.next_u32().is_multiple_of(2)));
    }
}

/// A disk, as a start reads and mends it.
struct Mended<'a>(RefCell<&'a mut Disk>);

impl Medium for Mended<'_> {
    fn size(&self) -> u64 {
        let disk = self.0.borrow();
        let last = [&disk.durable, &disk.cached].map(|it| it.keys().next_back().map_or(0, |last| last + 1));
        (512 * last[0].max(last[1])).next_multiple_of(4096)
    }

    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        into.copy_from_slice(&self.0.borrow().read(pos.0, into.len() as u64));
        Ok(())
    }

    fn write(&self, pos: Pos, from: &[u8], durable: bool) -> Result<(), MediumError> {
        self.0.borrow_mut().write(pos.0, from);
        if durable {
            self.sync()?;
        }
        Ok(())
    }

    fn sync(&self) -> Result<(), MediumError> {
        self.0.borrow_mut().sync();
        Ok(())
    }

    fn punch(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("a start punches nothing")
    }

    fn zero(&self, _: Extent<Pos>) -> Result<(), MediumError> {
        unreachable!("a start keeps no space")
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: false, erases: false }
    }
}

/// The cells of the halves of the log, as the root has them.
fn halves(root: &Disk) -> [Cell; 2] {
    root::halves(&root.read(0, root::ROOT_BYTES))
}

/// The root for a start, with a source of cells that follows from `seed`.
fn cells(root: &Disk, seed: u64) -> ([Cell; 2], Cells) {
    let mut entropy = [0; 32];
    entropy[..8].copy_from_slice(&seed.to_le_bytes());
    (halves(root), Cells::new(entropy))
}

/// A version in the model: its block, its birth, and the epoch that ended it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Known {
    block: u64,
    born: u64,
    died: Option<u64>,
}

/// By number of the version: all that were ever written; and which epochs are kept.
#[derive(Clone, Default)]
struct Model {
    open: u64,
    kept: BTreeSet<u64>,
    versions: BTreeMap<u32, Known>,
    now: BTreeMap<u64, u32>,
}

impl Model {
    fn write(&mut self, block: u64, version: Option<u32>) {
        if let Some(old) = self.now.remove(&block) {
            self.versions.get_mut(&old).expect("the version is known").died = Some(self.open);
        }
        if let Some(version) = version {
            self.now.insert(block, version);
            self.versions.insert(version, Known { block, born: self.open, died: None });
        }
    }

    fn at(&self, epoch: u64) -> BTreeMap<u64, u32> {
        let shows = |it: &Known| it.born <= epoch && it.died.is_none_or(|died| epoch < died);
        self.versions.iter().filter(|(_, it)| shows(it)).map(|(version, it)| (it.block, *version)).collect()
    }

    fn is_shown(&self, version: u32) -> bool {
        let Some(it) = self.versions.get(&version) else { return false };
        it.died.is_none_or(|died| self.kept.range(it.born..died).next().is_some())
    }
}

struct Rig {
    store: Catalog,
    map: Disk,
    stubs: Disk,
    root: Disk,
    model: Model,
    /// The model as of the last commit.
    durable: Model,
    /// The version that the content of each slot is.
    content: BTreeMap<Slot, u32>,
    /// Forgets that the index may not have durably. The intents themselves are durable.
    intents: Vec<(u64, u64)>,
    last: u32,
    rng: ChaCha8Rng,
    pages_max: usize,
    damage: Damage,
}

/// How many pages of the index are damaged at each crash, at most; how many indexes were rebuilt, and how many were not.
#[derive(Default)]
struct Damage {
    pages: u32,
    rebuilt: u64,
    undecided: u64,
}

/// A stub that is found by its bytes.
fn stub_of(version: u32) -> Vec<u8> {
    [b"STUB".as_slice(), &version.to_be_bytes(), &(!version).to_be_bytes(), b"KEEP"].concat().repeat(4)
}

impl Rig {
    fn new(seed: u64) -> Self {
        let head = Head { generation: 0, roots: vec![], note: vec![] };
        let mut root = Disk::default();
        root.write(0, &root::format_root(DISK, Cells::new([1; 32])));
        root.sync();
        let mut stubs = Disk::default();
        stubs.write(0, &format_stubs(DISK));
        stubs.sync();
        let opened = (Session(1).into(), cells(&root, seed));
        let mut store = Catalog::open(DISK, BLOCKS, LAYOUT, &head, opened).expect("a new store");
        store.homes.pages.keep_at_most(0);
        store.reach().expect("a new store has no page");
        let model = Model { open: 1, ..Model::default() };
        Self {
            store,
            map: Disk::default(),
            stubs,
            root,
            durable: model.clone(),
            model,
            content: BTreeMap::new(),
            intents: Vec::new(),
            last: 0,
            rng: ChaCha8Rng::seed_from_u64(seed),
            pages_max: 8 + seed as usize % 40,
            damage: Damage::default(),
        }
    }

    fn ask<T, E: Into<Missing>>(&mut self, mut ask: impl FnMut(&mut Catalog) -> Result<T, E>) -> T {
        loop {
            let Missing(Place { on, extent }) = match ask(&mut self.store) {
                Ok(answer) => return answer,
                Err(missing) => missing.into(),
            };
            let medium = if on == MediumId::Root { &self.root } else { &self.map };
            let bytes = medium.read(extent.start.0, extent.len);
            let by = if self.rng.next_u32().is_multiple_of(2) { Reader::Request } else { Reader::Job };
            if (on, by) == (MediumId::Root, Reader::Job) {
                self.store.homes.pages.job_reads(Place { on, extent });
            }
            self.store.loaded(Place { on, extent }, &bytes, by).expect("what was read is whole");
        }
    }

    fn write(&mut self, block: u64) {
        let slot = self.store.slots.take(Block(block));
        self.last += 1;
        let (version, epoch) = (self.last, self.store.history.open_epoch());
        if self.rng.next_u32().is_multiple_of(30) {
            return self.store.slots.free(slot, Block(block));
        }
        self.store.slots.written(slot, Block(block));
        self.content.insert(slot, version);
        let stub = stub_of(version);
        let (block, number) = (Block(block), version);
        self.store.log.push(epoch, Entry::Version { block, slot, number, stub });
        self.ask(|store| store.note(block, Some(slot), epoch, |_| false));
        let block = block.0;
        self.model.write(block, Some(version));
    }

    fn free(&mut self, block: u64) {
        let epoch = self.store.history.open_epoch();
        self.store.log.push(epoch, Entry::Freed { block: Block(block), blocks: 1 });
        self.ask(|store| store.note(Block(block), None, epoch, |_| false));
        self.model.write(block, None);
    }

    fn close(&mut self) {
        let when = WallTime(1000 * self.model.open);
        let closed = self.store.history.open_epoch();
        self.store.log.push(closed, Entry::Closed { when: when.0 });
        self.ask(|store| store.close(closed, when));
        assert_eq!(closed.0, self.model.open);
        self.model.kept.insert(self.model.open);
        self.model.open += 1;
    }

    /// Whether no crash came.
    fn commit(&mut self) -> bool {
        let Some((place, bytes)) = self.store.log.commit() else { return true };
        self.stubs.write(place.extent.start.0, &bytes);
        if self.rng.next_u32().is_multiple_of(8) {
            self.crash();
            return false;
        }
        self.stubs.sync();
        self.durable.clone_from(&self.model);
        true
    }

    /// Forgets epochs whose end is durable.
    fn forget(&mut self) {
        if !self.commit() {
            return;
        }
        let kept: Vec<u64> = self.model.kept.iter().copied().collect();
        let Some(from) = kept.get(self.rng.next_u32() as usize % kept.len().max(1)).copied() else { return };
        let to = (from + u64::from(self.rng.next_u32() % 3)).min(self.model.open - 1);
        self.intents.push((from, to));
        self.carry_out(from, to);
    }

    fn carry_out(&mut self, from: u64, to: u64) {
        let mut forget = Forget::new(Epoch(from), Epoch(to));
        let mut step = |store: &mut Catalog| store.forget_step(|it| it.forget_step(&mut forget));
        while self.ask(&mut step) != Forgotten::All {
            self.store.history.pages.evict(self.pages_max);
        }
        self.model.kept.retain(|epoch| !(from..=to).contains(epoch));
        self.durable.kept.retain(|epoch| !(from..=to).contains(epoch));
    }

    /// Destroys some of the stubs that are owed and at home, with the cells of their pages. Whether no crash came.
    fn destroy(&mut self, most: usize) -> bool {
        if !self.commit() || !self.clean() {
            return false;
        }
        let (mut from, mut dying) = (Slot(0), BTreeSet::new());
        while dying.len() < most
            && let Some(slot) = self.ask(|store| store.history.owed_from(from)).map(|span| span.first.slot)
        {
            from = Slot(slot.0 + 1);
            if !self.store.log.has(slot) {
                let version = self.content[&slot];
                assert!(!self.model.is_shown(version), "version {version} is shown");
                dying.insert(slot);
            }
        }
        let doomed = self.store.doomed(&dying, |_| false);
        doomed.keys().for_each(|page| self.ask(|store| store.homes.pages.hold(*page)));
        if self.store.homes.begin(doomed) && !self.rekey() {
            return false;
        }
        dying.into_iter().for_each(|slot| self.ask(|store| store.destroyed(&(slot..Slot(slot.0 + 1)))));
        true
    }

    /// Gives the pages that are to get other cells these. Whether no crash came.
    fn rekey(&mut self) -> bool {
        let unread = self.store.homes.unread();
        let read: Vec<u8> =
            unread.iter().flat_map(|it| self.stubs.read(it.extent.start.0, it.extent.len)).collect();
        if !unread.is_empty() {
            self.store.prepare_homes(&read).expect("they are under their cells");
            self.check();
        }
        let Rekey { keys, content, old } = self.store.homes.rekey().expect("all was read");
        let zeros = vec![0; 32 * old.len()];
        let writes = [(keys, true), (content, false), ((old, zeros), true)];
        for ((places, bytes), is_root) in writes {
            if !self.write_places(&places, &bytes, is_root) {
                return false;
            }
        }
        self.store.homes.rekeyed();
        true
    }

    /// Destroys the cells that are not in use. Whether no crash came.
    fn clean(&mut self) -> bool {
        let stale = self.store.homes.stale(usize::MAX);
        let is_done = self.write_places(&stale, &vec![0; 32 * stale.len()], true);
        if is_done {
            self.store.homes.cleaned(&stale);
        }
        is_done
    }

    /// Writes places of the root, or of the stub medium, durably. Whether no crash came.
    fn write_places(&mut self, places: &[Place], bytes: &[u8], is_root: bool) -> bool {
        let mut rest = bytes;
        let disk = if is_root { &mut self.root } else { &mut self.stubs };
        for place in places {
            let (own, others) = rest.split_at(place.extent.len as usize);
            disk.write(place.extent.start.0, own);
            rest = others;
        }
        if !places.is_empty() && self.rng.next_u32().is_multiple_of(8) {
            self.crash();
            return false;
        }
        if is_root {
            self.root.sync()
        } else {
            self.stubs.sync()
        }
        true
    }

    /// Destroys the cell of the old half, and gives the half another one. Whether no crash came.
    fn renew(&mut self) -> bool {
        let Some(half) = self.store.old_half() else { return true };
        let (at, cell) = (root::place_of(half).extent.start.0, self.store.cells.draw());
        for bytes in [vec![0xff; 32], cell.to_bytes()] {
            self.root.write(at, &bytes);
            if self.rng.next_u32().is_multiple_of(16) {
                self.crash();
                return false;
            }
            self.root.sync();
        }
        for run in self.store.old_half_renewed(cell).runs() {
            self.ask(|store| store.destroyed(&slots_of(run)));
        }
        true
    }

    fn checkpoint(&mut self) {
        if !self.renew() || !self.clean() {
            return;
        }
        self.ask(Catalog::prepare_checkpoint);
        let mut checkpoint = self.store.begin_checkpoint();
        let cut = self.rng.next_u32() % 12;
        if let Some((place, bytes)) = &checkpoint.log {
            self.stubs.write(place.extent.start.0, bytes);
        }
        if cut == 0 {
            return self.crash();
        }
        self.stubs.sync();
        self.durable.clone_from(&self.model);
        let mut ends_phase = false;
        while !ends_phase {
            let pages_max = 1 + self.rng.next_u32() as usize % 4;
            let Some(batch) = self.store.next_batch(&mut checkpoint, pages_max) else { break };
            if self.is_head(&batch) {
                self.carry_out_batch(&batch);
                break;
            }
            self.carry_out_batch(&batch);
            ends_phase = batch.ends_phase;
            if cut == 1 && self.rng.next_u32().is_multiple_of(2) {
                return self.crash();
            }
            // A write during the checkpoint is not part of it, and neither is a page of the index that it changes.
            let block = u64::from(self.rng.next_u32()) % BLOCKS;
            self.write(block);
        }
        if ends_phase {
            self.map.sync();
            self.stubs.sync();
            self.root.sync();
            let head = self.store.next_batch(&mut checkpoint, 1).expect("the head comes last");
            assert!(self.is_head(&head));
            self.carry_out_batch(&head);
        }
        assert_eq!(self.store.next_batch(&mut checkpoint, 1), None);
        if cut == 2 {
            return self.crash();
        }
        self.map.sync();
        self.intents.clear();
        if cut == 3 {
            return self.crash();
        }
        self.store.end_checkpoint(&checkpoint);
    }

    fn is_head(&self, batch: &Batch) -> bool {
        batch
            .writes
            .iter()
            .any(|(places, bytes)| places.first().on == MediumId::Map && bytes.len() == HEAD_BYTES)
    }

    fn carry_out_batch(&mut self, batch: &Batch) {
        for (places, bytes) in &batch.writes {
            for (place, part) in places.parts() {
                let medium = match place.on {
                    MediumId::Map => &mut self.map,
                    MediumId::Root => &mut self.root,
                    _ => &mut self.stubs,
                };
                medium.write(place.extent.start.0, &bytes[part]);
            }
        }
    }

    fn crash(&mut self) {
        self.map.crash(&mut self.rng);
        self.stubs.crash(&mut self.rng);
        self.root.crash(&mut self.rng);
        self.damage();
        let heads = [0, PAGE_BYTES as u64].map(|at| self.map.read(at, HEAD_BYTES as u64));
        let none = Head { generation: 0, roots: vec![], note: vec![] };
        let head = newest([&heads[0], &heads[1]], DISK).unwrap_or(none);
        let opened = (Session(self.rng.next_u32() as u16).into(), cells(&self.root, self.rng.next_u64()));
        self.store = Catalog::open(DISK, BLOCKS, LAYOUT, &head, opened).expect("a note that makes sense");
        self.ask(Catalog::reach);
        while let Some(place) = self.store.next_sector() {
            let (at, mut done) = (place.extent.start, 0);
            let found = self.store.sector_to_read(&self.stubs.read(at.0, 512));
            let Some((sector, is_open)) = found else { break };
            assert!(is_open, "sector {} is under another cell", sector.sequence);
            self.ask(|store| store.replay(at, &sector, &mut done));
        }
        self.find_homes();
        self.destroy_torn();
        self.adopt();
    }

    /// Damages some pages of the index, and rebuilds it. What cannot be decided is as it was before.
    fn damage(&mut self) {
        let before = self.map.durable.clone();
        for _ in 0..self.damage.pages {
            let pages: BTreeSet<u64> =
                self.map.durable.keys().map(|sector| sector / 8).filter(|it| *it > 1).collect();
            let picked = pages.iter().nth(self.rng.next_u32() as usize % pages.len().max(1)).copied();
            let Some(page) = picked else { return };
            self.map.durable.insert(8 * page + u64::from(self.rng.next_u32() % 8), [0x5a; 512]);
        }
        let heads = [0, PAGE_BYTES as u64].map(|at| self.map.read(at, HEAD_BYTES as u64));
        if self.damage.pages == 0 || newest([&heads[0], &heads[1]], DISK).is_err() {
            return;
        }
        let setup = Setup { layout: LAYOUT, sessions: Session(0).into() };
        let [map, stubs, root] =
            [&mut self.map, &mut self.stubs, &mut self.root].map(|disk| Mended(RefCell::new(disk)));
        let media = RebuildMedia { map: &map, stubs: &stubs, root: &root };
        let rebuilt = rebuild((&setup, DISK, BLOCKS * 4096), media, &mut |_, _| true);
        match rebuilt {
            Ok(rebuilt) => self.damage.rebuilt += u64::from(!rebuilt.damage.is_empty()),
            Err(VersionsError::Undecided(why)) => {
                assert!(self.damage.pages > 1, "one page was damaged: {why}");
                self.map.durable = before;
                self.damage.undecided += 1;
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// Finds the homes and their cells, as a start does.
    fn find_homes(&mut self) {
        let pages = LAYOUT.page_of(Slot(self.store.slots.len())).0;
        let media = [&mut self.stubs, &mut self.root].map(|disk| Mended(RefCell::new(disk)));
        let started = self.store.homes.start(pages, [&media[0], &media[1]], false);
        assert_eq!(started, Ok(()), "every sector is under a cell of its page");
        let replayed: BTreeSet<_> = self.store.log.homeless(..).map(|slot| LAYOUT.page_of(slot)).collect();
        for page in replayed {
            if !self.ask(|store| store.has_home_of_its_own(page, &BTreeSet::new())) {
                self.store.homes.is_perhaps_torn(page);
            }
        }
    }

    /// Wipes what a commit left that was not durable as a whole, behind the last whole sector. Its stubs die with the cell.
    fn destroy_torn(&mut self) {
        let Some(place) = self.store.next_sector() else { return };
        let (half, _) = self.store.log.position();
        let len = LAYOUT.half(half).end() - place.extent.start.0;
        let bytes = self.stubs.read(place.extent.start.0, len);
        if bytes.chunks(512).any(|sector| self.store.is_torn(sector)) {
            self.stubs.write(place.extent.start.0, &vec![0; len as usize]);
            self.stubs.sync();
            self.store.log.stain();
        }
    }

    /// Checks what a start found against the last commit, and goes on from there.
    fn adopt(&mut self) {
        let (mut durable, newer) = (self.durable.clone(), self.model.clone());
        for (from, to) in self.intents.clone() {
            self.carry_out(from, to);
        }
        durable.kept.clone_from(&self.durable.kept);
        let open = self.store.history.open_epoch().0;
        assert!((durable.open..=newer.open).contains(&open), "{open}");
        for epoch in durable.kept.clone() {
            assert_eq!(self.found(epoch), durable.at(epoch), "epoch {epoch}");
        }
        // Some of what came after the last commit may have become durable, in order; which, is found out.
        for epoch in durable.open..open {
            durable.kept.insert(epoch);
        }
        for epoch in durable.open..=open {
            durable.open = epoch;
            let found = self.found(epoch);
            let now = durable.now.clone();
            for block in 0..BLOCKS {
                let (was, is) = (now.get(&block), found.get(&block));
                if was != is {
                    let was_newer = |version: &u32| newer.versions[version].block == block;
                    assert!(is.is_none_or(was_newer), "block {block} shows {is:?}");
                    durable.write(block, is.copied());
                }
            }
        }
        (self.model, self.durable) = (durable.clone(), durable);
    }

    /// The versions that an epoch shows, by block, found through the slots. Each must have its own stub.
    fn found(&mut self, epoch: u64) -> BTreeMap<u64, u32> {
        let mut found = BTreeMap::new();
        for block in 0..BLOCKS {
            let shown = self.ask(|store| store.history.shown(Block(block), Epoch(epoch)));
            let Some(version) = shown else { continue };
            let number = self.content[&version.slot];
            assert_eq!(self.stub(version.slot), stub_of(number), "the stub of block {block} at {epoch}");
            found.insert(block, number);
        }
        found
    }

    fn stub(&mut self, slot: Slot) -> Vec<u8> {
        match self.store.log.stub(slot) {
            Some((.., Entry::Version { stub, .. })) => stub.clone(),
            _ => match self.ask(|store| store.homes.sealing(slot)) {
                SealingAt::Home(home, cell) => {
                    let bytes = self.stubs.read(home.extent.start.0, home.extent.len);
                    let (.., sealing) = parse_home(&bytes).expect("a home");
                    sealing.masked(&cell.expect("the page has a cell")).stub.to_vec()
                }
                SealingAt::Known(sealing) => sealing.stub.to_vec(),
                SealingAt::ToCome => unreachable!("it was written"),
            },
        }
    }

    /// All that is owed is destroyed, and the log is empty: no stub is left but those of versions that are
    /// shown.
    fn check_medium(&mut self) {
        for _ in 0..40 {
            self.checkpoint();
            _ = self.destroy(usize::MAX);
            if self.store.history.owed() == 0 && self.store.log.pending() == 0 {
                break;
            }
        }
        while !self.renew() {}
        let cells = halves(&self.root);
        let sectors: Vec<u64> = self.stubs.durable.keys().copied().filter(|sector| *sector > 0).collect();
        for at in sectors.into_iter().map(|sector| sector * 512) {
            let bytes = self.stubs.read(at, 512);
            let half =
                (0..2).find(|half| (LAYOUT.half(*half).start.0..LAYOUT.half(*half).end()).contains(&at));
            assert!(!bytes.windows(4).any(|bytes| bytes == b"STUB"), "a stub is not hidden");
            let Some(half) = half else {
                let Some(cell) = self.ask(|store| store.homes.cell_of(Pos(at), &bytes)) else { continue };
                let homes =
                    LAYOUT.homes_in(Pos(at)).map(|(_, home)| &bytes[(home.start.0 - at) as usize..][..80]);
                for (.., sealing) in homes.filter(|it| !is_zeros(it)).filter_map(parse_home) {
                    self.check_bytes(&sealing.masked(&cell).stub);
                }
                continue;
            };
            let Some(mut sector) = LAYOUT.parse_sector(&bytes) else { continue };
            if sector.reveal(&cells[usize::from(half)]) {
                let stubs = sector.entries.iter().filter_map(|it| match it {
                    Entry::Version { stub, .. } => Some(stub),
                    _ => None,
                });
                stubs.for_each(|stub| self.check_bytes(stub));
            }
        }
    }

    /// Checks that every stub in these bytes is that of a version that is shown.
    fn check_bytes(&self, bytes: &[u8]) {
        for stub in bytes.windows(12).filter(|bytes| bytes.starts_with(b"STUB")) {
            let version = u32::from_be_bytes(stub[4..8].try_into().expect("four bytes"));
            assert!(self.model.is_shown(version), "version {version} is dead, and its stub is there");
        }
    }

    fn check(&mut self) {
        let kept: Vec<u64> = self.model.kept.iter().copied().chain([self.model.open]).collect();
        for epoch in kept {
            assert_eq!(self.found(epoch), self.model.at(epoch), "epoch {epoch}");
        }
    }
}

#[test]
fn what_was_committed_is_kept_and_what_is_owed_leaves_no_stub() {
    (0..60).for_each(|seed| _ = live(seed, 0));
}

#[test]
fn an_index_is_rebuilt_as_it_was_whichever_page_is_damaged() {
    let rigs: Vec<Rig> = (0..6).map(|seed| live(seed, 1)).collect();
    let rebuilt: u64 = rigs.iter().map(|rig| rig.damage.rebuilt).sum();
    assert!(rebuilt > 30, "{rebuilt} were rebuilt");
}

#[test]
fn an_index_with_several_damaged_pages_is_rebuilt_as_it_was_or_stays_as_it_is() {
    let rigs: Vec<Rig> = (6..9).map(|seed| live(seed, 3)).collect();
    let [rebuilt, undecided] = [|rig: &Rig| rig.damage.rebuilt, |rig: &Rig| rig.damage.undecided]
        .map(|it| rigs.iter().map(it).sum::<u64>());
    assert!(rebuilt > 20 && undecided > 0, "{rebuilt} were rebuilt, {undecided} were not");
}

/// A life of the store, with so many damaged pages of the index at each crash.
fn live(seed: u64, damages: u32) -> Rig {
    let mut rig = Rig::new(seed);
    rig.damage.pages = damages;
    let range = [3, 60, BLOCKS][seed as usize % 3];
    for _ in 0..400 {
        let block = u64::from(rig.rng.next_u32()) % range;
        match rig.rng.next_u32() % 100 {
            0..55 => rig.write(block),
            55..62 => rig.free(block),
            62..74 => _ = rig.commit(),
            74..84 => rig.close(),
            84..88 => rig.forget(),
            88..92 => _ = rig.destroy(5),
            92..96 => rig.checkpoint(),
            96..98 => rig.crash(),
            _ => rig.store.history.pages.evict(rig.pages_max),
        }
        if rig.store.log.sectors() > DUE {
            rig.checkpoint();
        }
    }
    rig.check();
    rig.check_medium();
    rig.check();
    rig
}

/// An index of a million epochs with a few versions each, of a disk of 100 GiB.
struct Large {
    store: Catalog,
    index: BTreeMap<u64, Vec<u8>>,
    head: Head,
}

const LARGE_BLOCKS: u64 = 100 << 18;
const LARGE: Layout = Layout { stub_bytes: 64, half_bytes: 64 << 20 };

impl Large {
    /// Writes so many blocks of each epoch, within `spread` of each other.
    fn fill(writes: u64, spread: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let head = Head { generation: 0, roots: vec![], note: vec![] };
        let opened = (Session(1).into(), cells(&Disk::default(), 1));
        let mut store = Catalog::open(DISK, LARGE_BLOCKS, LARGE, &head, opened).expect("a new store");
        store.reach().expect("a new store has no page");
        let mut it = Self { store, index: BTreeMap::new(), head };
        for epoch in 0..1_000_000 {
            let near = rng.next_u64() % (LARGE_BLOCKS - spread + 1);
            for _ in 0..writes {
                let block = Block(near + rng.next_u64() % spread);
                let (slot, open) = (it.store.slots.take(block), it.store.history.open_epoch());
                it.store.slots.written(slot, block);
                it.store.log.push(open, Entry::Version { block, slot, number: epoch, stub: vec![1; 64] });
                it.store.note(block, Some(slot), open, |_| false).expect("all is in memory");
            }
            let open = it.store.history.open_epoch();
            it.store.close(open, WallTime(u64::from(epoch))).expect("all is in memory");
            it.store.log.commit();
            if it.store.log.sectors() > it.store.log.sectors_max() / 2 || epoch == 999_999 {
                it.checkpoint();
            }
        }
        it
    }

    fn checkpoint(&mut self) {
        for run in self.store.old_half_renewed(Cells::new([0; 32]).draw()).runs() {
            self.store.destroyed(&slots_of(run)).expect("all is in memory");
        }
        self.store.prepare_checkpoint().expect("all is in memory");
        let mut checkpoint = self.store.begin_checkpoint();
        while let Some(batch) = self.store.next_batch(&mut checkpoint, 1000) {
            for (places, bytes) in
                batch.writes.iter().filter(|(places, _)| places.first().on == MediumId::Map)
            {
                let parts = places.parts().filter(|(place, _)| place.extent.len == PAGE_BYTES as u64);
                self.index.extend(parts.map(|(place, part)| (place.extent.start.0, bytes[part].to_vec())));
                if bytes.len() == HEAD_BYTES {
                    self.head = newest([bytes, &[]], DISK).expect("a head");
                }
            }
        }
        self.store.end_checkpoint(&checkpoint);
    }

    /// Calls `ask` until no page is absent; returns how many were.
    fn ask<T>(&mut self, mut ask: impl FnMut(&mut Catalog) -> Result<T, Absent>) -> (T, u64) {
        let mut absent = 0;
        loop {
            match ask(&mut self.store) {
                Ok(answer) => return (answer, absent),
                Err(Absent(page)) => {
                    absent += 1;
                    let bytes = &self.index[&page.position()];
                    self.store.history.pages.loaded(page, bytes).expect("the page is whole");
                }
            }
        }
    }

    /// Opens the index again: how many pages a start reads.
    fn reopen(&mut self) -> u64 {
        let opened = (Session(2).into(), cells(&Disk::default(), 2));
        self.store = Catalog::open(DISK, LARGE_BLOCKS, LARGE, &self.head, opened).expect("the store");
        self.ask(Catalog::reach).1
    }

    /// Forgets an epoch: how many pages that reads.
    fn forget(&mut self, epoch: u64) -> u64 {
        let (mut forget, mut pages) = (Forget::new(Epoch(epoch), Epoch(epoch)), 0);
        loop {
            let (step, read) = self.ask(|store| store.forget_step(|it| it.forget_step(&mut forget)));
            pages += read;
            if step == Forgotten::All {
                return pages;
            }
        }
    }
}

#[test]
#[ignore = "takes minutes: part of `make soak`"]
fn a_million_epochs_take_four_percent_and_are_opened_with_a_thousand_pages() {
    for (writes, spread) in [(2, LARGE_BLOCKS), (4, LARGE_BLOCKS), (4, 4000)] {
        let mut large = Large::fill(writes, spread);
        let stored = large.store.slots.used() * 4096;
        let homes = large.store.slots.len() / LARGE.per_page() * 4096;
        let index = large.store.history.pages.bytes();
        println!("{writes} versions an epoch: index {index}, homes {homes} bytes for {stored}");
        assert!((index + homes) * 100 <= 4 * stored, "{index} and {homes} bytes for {stored}");
        let read = large.reopen();
        assert!(read <= 1200, "{read} pages");
        for epoch in [1, 500_000, 999_999].into_iter().chain(400_000..410_000) {
            let read = large.forget(epoch);
            assert!(read <= 20, "{read} pages for epoch {epoch}");
            large.store.history.pages.evict(4096);
        }
        assert!(large.store.history.pages.in_memory() <= 4096);
        assert_eq!(large.store.history.kept(), 1_000_000 - 10_003);
    }
}
