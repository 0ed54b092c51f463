//! The store of sealed disks against media in memory. What the jobs of a purge do, the bench does here.
#![allow(clippy::single_range_in_vec_init, reason = "the dead are a list of runs, of which there may be one")]

mod early;
mod opening;
mod purge;

use crate::base::blocks::BlockSet;
use crate::base::cell::Cells;
use crate::base::units::{Addr, BLOCK_BYTES, Epoch, Extent, Pos};
use crate::erase::policy::Policy;
use crate::media::medium::{Capabilities, Medium, MediumError, MediumErrorKind};
use crate::media::place::Place;
use crate::media::{MediaTable, MediumId};
use crate::owed::KeysPosition;
use crate::store::sealed::layout::ROOT_BYTES;
use crate::store::sealed::{Sealed, format, map_bytes};
use crate::store::{Job, JobEnd, Keyed, Kind, Mapped, Opening, Store, StoreError, Written, load};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::ops::Range;

const DISK: [u8; 16] = [9; 16];
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const MEMORY_BYTES: u64 = 4 << 20;

/// A large medium, most of which is holes.
#[derive(Default)]
struct Sparse {
    size: u64,
    pages: RefCell<BTreeMap<u64, Vec<u8>>>,
    /// Bytes that were written.
    written: Cell<u64>,
    syncs: Cell<u64>,
    /// Passes are refused.
    is_stubborn: Cell<bool>,
}

impl Sparse {
    fn new(size: u64) -> Self {
        Self { size, ..Self::default() }
    }

    /// Bytes that are not zeros, by their positions.
    fn content(&self) -> BTreeMap<u64, Vec<u8>> {
        self.pages.borrow().clone()
    }

    fn put_back(&self, content: &BTreeMap<u64, Vec<u8>>) {
        self.pages.borrow_mut().clone_from(content);
    }

    fn bytes(&self, extent: Extent<Pos>) -> Vec<u8> {
        let mut bytes = vec![0; extent.len as usize];
        self.read(extent.start, &mut bytes).expect("memory is read");
        bytes
    }

    fn flip(&self, pos: u64) {
        let byte = self.bytes(Extent::new(pos, 1))[0] ^ 1;
        self.write(Pos(pos), &[byte], false).expect("memory is written");
    }
}

impl Medium for Sparse {
    fn size(&self) -> u64 {
        self.size
    }
    fn read(&self, pos: Pos, into: &mut [u8]) -> Result<(), MediumError> {
        let extent = Extent::<Pos>::new(pos.0, into.len() as u64);
        assert!(extent.end() <= self.size, "{extent:?} lies on a medium of {} bytes", self.size);
        let first = pos.0 / BLOCK_BYTES;
        for number in first..extent.end().div_ceil(BLOCK_BYTES) {
            let whole = Extent::new(number * BLOCK_BYTES, BLOCK_BYTES);
            let part = whole.overlap(extent).expect("a page of the extent has a part of it");
            let (at, from) = ((part.start.0 - pos.0) as usize, (part.start.0 - whole.start.0) as usize);
            let into = &mut into[at..][..part.len as usize];
            match self.pages.borrow().get(&number) {
                Some(page) => into.copy_from_slice(&page[from..][..part.len as usize]),
                None => into.fill(0),
            }
        }
        Ok(())
    }
    fn write(&self, pos: Pos, from: &[u8], _: bool) -> Result<(), MediumError> {
        let extent = Extent::<Pos>::new(pos.0, from.len() as u64);
        assert!(extent.end() <= self.size, "{extent:?} lies on a medium of {} bytes", self.size);
        self.written.set(self.written.get() + extent.len);
        for number in pos.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES) {
            let whole = Extent::new(number * BLOCK_BYTES, BLOCK_BYTES);
            let part = whole.overlap(extent).expect("a page of the extent has a part of it");
            let (at, into) = ((part.start.0 - pos.0) as usize, (part.start.0 - whole.start.0) as usize);
            let mut pages = self.pages.borrow_mut();
            let page = pages.entry(number).or_insert_with(|| vec![0; BLOCK_BYTES as usize]);
            page[into..][..part.len as usize].copy_from_slice(&from[at..][..part.len as usize]);
        }
        Ok(())
    }
    fn overwrite(&self, pos: Pos, from: &[u8]) -> Result<(), MediumError> {
        if self.is_stubborn.get() {
            return Err(MediumError { kind: MediumErrorKind::Remains, message: "stubborn".into() });
        }
        self.write(pos, from, false)
    }
    fn sync(&self) -> Result<(), MediumError> {
        self.syncs.set(self.syncs.get() + 1);
        Ok(())
    }
    fn punch(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.zero(extent)
    }
    fn zero(&self, extent: Extent<Pos>) -> Result<(), MediumError> {
        self.write(extent.start, &vec![0; extent.len as usize], false)
    }
    fn capabilities(&self) -> Capabilities {
        Capabilities { punch: true, erases: false }
    }
}

/// Numbers that look random.
struct Dice(u64);

impl Dice {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ (mixed >> 31)) % end
    }
}

/// The media of a disk, and its store while that is open.
struct Bench {
    size: u64,
    data: Sparse,
    map: Sparse,
    root: Sparse,
    store: Sealed,
    opened: u8,
}

impl Bench {
    fn new(size: u64) -> Self {
        let (data, map, root) = (
            Sparse::new(size.next_multiple_of(BLOCK_BYTES)),
            Sparse::new(map_bytes(size)),
            Sparse::new(ROOT_BYTES),
        );
        format(&map, &root, DISK, size, Cells::new([7; 32])).expect("a disk is made");
        let store = open(size, [&data, &map, &root], None, &[], 1).expect("a new disk opens");
        Self { size, data, map, root, store, opened: 1 }
    }

    fn blocks(&self) -> u64 {
        self.size.div_ceil(BLOCK_BYTES)
    }

    /// What a start finds now.
    fn start(&self, keys: Option<KeysPosition>, staged: &[Extent<Addr>]) -> Result<Sealed, StoreError> {
        open(self.size, [&self.data, &self.map, &self.root], keys, staged, self.opened + 1)
    }

    /// The store is gone, and another start finds what is on the media.
    fn restart(&mut self) {
        let known = self.store.position();
        self.store = self.start(Some(known), &[]).expect("the disk opens");
        self.opened += 1;
    }

    fn load(&mut self, blocks: Range<u64>) {
        let media = MediaTable::<&dyn Medium>::new(&self.data, &self.data)
            .with(MediumId::Map, &self.map)
            .with(MediumId::Root, &self.root);
        load(&mut self.store, bytes_of(blocks), &media).expect("all pages are whole");
    }

    /// The cells of some blocks.
    fn cells(&mut self, blocks: Range<u64>) -> Vec<[u8; 32]> {
        self.load(blocks.clone());
        let mut cells = Vec::new();
        self.store.each_cell(blocks, |_, cell| cells.push(*cell.bytes()));
        cells
    }

    fn cell(&mut self, block: u64) -> [u8; 32] {
        self.cells(block..block + 1)[0]
    }

    fn medium(&self, id: MediumId) -> &Sparse {
        match id {
            MediumId::Map => &self.map,
            MediumId::Root => &self.root,
            _ => &self.data,
        }
    }

    fn put(&self, places: &[Place], mut bytes: &[u8]) {
        for place in places {
            let (own, rest) = bytes.split_at(place.extent.len as usize);
            self.medium(place.on).write(place.extent.start, own, false).expect("memory is written");
            bytes = rest;
        }
        assert!(bytes.is_empty(), "each byte has its place");
    }

    /// Carries out a job, as far as its first `steps` steps. Returns what it read.
    fn perform(&self, job: &Job, steps: usize) -> Vec<u8> {
        let wipe = |places: &[Place]| {
            for place in places {
                let bytes = vec![0; place.extent.len as usize];
                self.medium(place.on).overwrite(place.extent.start, &bytes).expect("memory is written");
            }
        };
        match job {
            Job::Read(places) => {
                return places.iter().flat_map(|place| self.medium(place.on).bytes(place.extent)).collect();
            }
            Job::Put(places, bytes) => self.put(places, bytes),
            Job::Turn(turn) => {
                for (places, bytes) in [&turn.keys, &turn.content].into_iter().take(steps) {
                    self.put(places, bytes);
                }
                if steps > 2 {
                    wipe(&turn.old);
                }
            }
            Job::Destroy(places) => wipe(places),
            other => panic!("{other:?} is no job of a purge"),
        }
        Vec::new()
    }

    /// Carries out the next job of the purge under way, if there is one.
    fn step(&mut self) -> Option<Job> {
        let job = self.store.background(false)?;
        let read = self.perform(&job, 3);
        self.store.background_done(JobEnd::Done(&read));
        Some(job)
    }

    fn begin_purge(&mut self, dead: &[Range<u64>]) {
        let mut blocks = BlockSet::default();
        dead.iter().for_each(|run| blocks.insert(bytes_of(run.clone())));
        self.store.begin_purge(blocks);
    }

    /// A whole purge. Returns the number of pages that it wrote.
    fn purge(&mut self, dead: &[Range<u64>]) -> usize {
        self.begin_purge(dead);
        let mut pages = 0;
        while let Some(job) = self.step() {
            pages += match job {
                Job::Put(places, _) => places.len(),
                Job::Turn(turn) => turn.keys.0.len(),
                _ => 0,
            };
        }
        assert!(!self.store.is_purging(), "a purge is over when it has no job");
        pages
    }

    /// Writes dead blocks anew, as a whole.
    fn write(&mut self, blocks: Range<u64>) {
        let extent = bytes_of(blocks);
        assert!(self.store.has_room(extent));
        self.store.renew(extent);
        let extent = Extent::between(extent.start.0, extent.end().min(self.size));
        self.store.begin_write(extent, Epoch(0));
        self.store.end_write(extent, Written::There(Vec::new()));
    }

    /// A checkpoint, of which only the first writes come about.
    fn checkpoint_writes(&mut self) {
        self.store.begin_checkpoint(false);
        while let Some(batch) = self.store.next_batch() {
            for (places, bytes) in batch.writes {
                self.put(&places.iter().collect::<Vec<_>>(), &bytes);
            }
        }
    }

    fn checkpoint(&mut self) {
        self.checkpoint_writes();
        self.store.end_checkpoint();
    }

    fn log(&mut self) {
        let (places, bytes) = self.store.log().expect("the log lacks entries");
        self.put(&places.iter().collect::<Vec<_>>(), &bytes);
    }
}

fn open(
    size: u64,
    media: [&dyn Medium; 3],
    keys: Option<KeysPosition>,
    staged: &[Extent<Addr>],
    number: u8,
) -> Result<Sealed, StoreError> {
    open_as(false, size, media, keys, staged, number)
}

fn open_as(
    read_only: bool,
    size: u64,
    media: [&dyn Medium; 3],
    keys: Option<KeysPosition>,
    staged: &[Extent<Addr>],
    number: u8,
) -> Result<Sealed, StoreError> {
    let mut opening = Opening {
        kind: &Kind::Sealed,
        disk: DISK,
        size,
        kept: None,
        policy: &"random,ff".parse::<Policy>().expect("a policy"),
        read_only,
        memory_bytes: MEMORY_BYTES,
        entropy: &mut [number; 32],
        keys,
        staged,
        owed: &mut Default::default(),
    };
    Sealed::open(&mut opening, media).map(|(store, _)| store)
}

fn bytes_of(blocks: Range<u64>) -> Extent<Addr> {
    Extent::between(blocks.start * BLOCK_BYTES, blocks.end * BLOCK_BYTES)
}
