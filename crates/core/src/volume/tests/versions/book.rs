//! The dullest store that keeps versions: a list of them for each block, and nothing is sealed.

#![expect(clippy::disallowed_types, reason = "a test looks into the store that its volume owns")]

use crate::base::blocks::BlockSet;
use crate::base::parts::Forget;
use crate::base::units::{Addr, BLOCK_BYTES, Epoch, Extent, Pos, Scope};
use crate::media::MediumId;
use crate::media::place::Place;
use crate::media::places::Places;
use crate::request::{AsOf, Question, Reply};
use crate::store::{
    Backlog, Batch, Content, Destruction, Epochs, ForgetStep, Geometry, Gone, Incomparable, Job, JobEnd,
    MapState, Mapped, Residue, Shared, Store, StoreStatus, WritePlan, Written,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

/// A version of a block: the epoch that it was born in, and its slot; `None` if the block was freed.
type Version = (Epoch, Option<u64>);

/// The state that a checkpoint makes durable.
#[derive(Clone, Debug, Default)]
pub(super) struct State {
    /// How many epochs were closed, at which times.
    pub(super) closed: Vec<u64>,
    pub(super) forgotten: BTreeSet<Epoch>,
    pub(super) reuses: Option<u64>,
    /// What is being forgotten, and whether its end comes.
    pub(super) forgets: (VecDeque<Forget>, bool),
    /// Blocks of which an epoch shows what others do, too.
    pub(super) shared: BTreeMap<u64, Epoch>,
    versions: BTreeMap<u64, Vec<Version>>,
}

impl State {
    /// The slot of what `block` shows at `epoch`.
    pub(super) fn shown(&self, block: u64, epoch: Epoch) -> Option<u64> {
        let versions = self.versions.get(&block)?;
        versions.iter().rfind(|(born, _)| *born <= epoch).and_then(|(_, slot)| *slot)
    }

    fn open(&self) -> Epoch {
        Epoch(self.closed.len() as u64 + 1)
    }

    fn is_kept(&self, epoch: Epoch) -> bool {
        epoch.0 > 0 && epoch < self.open() && !self.forgotten.contains(&epoch)
    }

    fn is_kept_since(&self, born: Epoch) -> bool {
        (born.0..self.open().0).any(|epoch| self.is_kept(Epoch(epoch)))
    }
}

#[derive(Debug, Default)]
pub(super) struct Inner {
    size: u64,
    pub(super) now: State,
    pub(super) durable: State,
    /// The state that a checkpoint under way makes durable.
    taken: Option<State>,
    is_changed: bool,
    writing: BTreeMap<u64, (Epoch, u64)>,
    next_slot: u64,
    /// Deaths of content that is not plain, as they came.
    pub(super) deaths: Vec<(Extent<Addr>, Epoch)>,
    free: Vec<u64>,
    /// Blocks whose page of the map is not in memory.
    pub(super) absent: BTreeSet<u64>,
    /// Whether the next checkpoint that is not short has a second phase, which goes to the data medium.
    pub(super) wants_index: bool,
    /// Whether the checkpoint under way has that, and its writes that are left.
    writes: (bool, VecDeque<Batch>),
}

/// See the module's documentation. Clones are handles to the same store.
#[derive(Clone, Debug)]
pub(super) struct Book(Arc<Mutex<Inner>>);

impl Book {
    pub(super) fn new(size: u64) -> Self {
        Self(Arc::new(Mutex::new(Inner { size, ..Inner::default() })))
    }

    pub(super) fn get(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().expect("no test panics with it")
    }

    /// The store after a crash: what was durable.
    pub(super) fn crashed(&self) -> Self {
        let it = self.get();
        let (size, now, next_slot) = (it.size, it.durable.clone(), it.next_slot);
        Self(Arc::new(Mutex::new(Inner { size, durable: now.clone(), now, next_slot, ..Inner::default() })))
    }
}

fn blocks(extent: Extent<Addr>) -> std::ops::Range<u64> {
    extent.start.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES)
}

impl Inner {
    /// The places of `extent` if each block lies where `slot` says.
    fn places(&self, extent: Extent<Addr>, slot: impl Fn(u64) -> Option<u64>) -> Places {
        let parts = blocks(extent).filter_map(|block| {
            let part = Extent::<Addr>::new(block * BLOCK_BYTES, BLOCK_BYTES).overlap(extent)?;
            let at = part.start.0 % BLOCK_BYTES;
            Some(match slot(block) {
                Some(slot) => {
                    Place { on: MediumId::Data, extent: Extent::new(slot * BLOCK_BYTES + at, part.len) }
                }
                None => Place { on: MediumId::Nowhere, extent: Extent::new(0, part.len) },
            })
        });
        parts.collect()
    }

    fn present(&self, block: u64) -> Option<u64> {
        self.now.shown(block, Epoch(u64::MAX))
    }

    fn put(&mut self, block: u64, epoch: Epoch, slot: Option<u64>) {
        assert!(epoch >= self.now.open(), "{epoch:?} is closed");
        let versions = self.now.versions.entry(block).or_default();
        assert!(
            versions.last().is_none_or(|(born, _)| *born <= epoch),
            "out of order: {versions:?}, {epoch:?}"
        );
        versions.retain(|(born, _)| *born != epoch);
        versions.push((epoch, slot));
        self.is_changed = true;
    }

    fn page(block: u64) -> Place {
        Place { on: MediumId::Map, extent: Extent::new(block, 1) }
    }
}

impl Store for Book {
    fn geometry(&self) -> Geometry {
        Geometry {
            size: self.get().size,
            block_bytes: BLOCK_BYTES,
            write_bytes: BLOCK_BYTES,
            death_bytes: BLOCK_BYTES,
        }
    }

    fn destruction(&self) -> Destruction {
        Destruction::OnceLeft
    }

    fn status(&self) -> StoreStatus {
        StoreStatus::InPlace
    }

    fn allocated_bytes(&self) -> u64 {
        let it = self.get();
        blocks(Extent::new(0, it.size)).filter(|block| it.present(*block).is_some()).count() as u64
            * BLOCK_BYTES
    }

    fn view(&self) -> Vec<u8> {
        Vec::new()
    }

    fn first(&self, _: Content, extent: Extent<Addr>) -> Option<Extent<Addr>> {
        let it = self.get();
        let block = blocks(extent).find(|block| it.present(*block).is_some())?;
        Extent::new(block * BLOCK_BYTES, BLOCK_BYTES).overlap(extent)
    }

    fn locate(&self, extent: Extent<Addr>) -> Places {
        assert_eq!(Mapped::missing(self, extent), None);
        let it = self.get();
        it.places(extent, |block| it.present(block))
    }

    fn begin_write(&mut self, extent: Extent<Addr>, epoch: Epoch) -> WritePlan {
        assert_eq!(
            (Mapped::missing(self, extent), self.geometry().edges(extent).next()),
            (None, None),
            "{extent:?}"
        );
        let mut it = self.get();
        for block in blocks(extent) {
            let slot = it.free.pop().unwrap_or(it.next_slot);
            it.next_slot = it.next_slot.max(slot + 1);
            assert_eq!(it.writing.insert(block, (epoch, slot)), None, "two writes of block {block} at once");
        }
        WritePlan::To(it.places(extent, |block| it.writing.get(&block).map(|(_, slot)| *slot)))
    }

    fn unmap(&mut self, extent: Extent<Addr>) {
        panic!("{extent:?} leaves its place before it is destroyed");
    }

    fn mapped(&self) -> Option<&dyn Mapped> {
        Some(self)
    }

    fn mapped_mut(&mut self) -> Option<&mut dyn Mapped> {
        Some(self)
    }

    fn epochs(&self) -> Option<&dyn Epochs> {
        Some(self)
    }

    fn epochs_mut(&mut self) -> Option<&mut dyn Epochs> {
        Some(self)
    }
}

impl Mapped for Book {
    fn missing(&self, extent: Extent<Addr>) -> Option<Place> {
        blocks(extent).find(|block| self.get().absent.contains(block)).map(Inner::page)
    }

    fn loaded(&mut self, place: Place, _: &[u8]) -> Result<(), String> {
        self.get().absent.remove(&place.extent.start.0);
        Ok(())
    }

    fn end_write(&mut self, extent: Extent<Addr>, written: Written) {
        let mut it = self.get();
        for block in blocks(extent) {
            let Some((epoch, slot)) = it.writing.remove(&block) else {
                panic!("block {block} is not written")
            };
            match written {
                Written::There(_) => it.put(block, epoch, Some(slot)),
                Written::NotThere => it.free.push(slot),
            }
        }
    }

    fn leave(&mut self, block: Extent<Addr>, epoch: Epoch) -> Vec<Place> {
        let mut it = self.get();
        let number = block.start.0 / BLOCK_BYTES;
        assert_eq!((number * BLOCK_BYTES, epoch), (block.start.0, it.now.open()));
        let Some((born, Some(slot))) = it.now.versions.get(&number).and_then(|all| all.last().copied())
        else {
            return Vec::new();
        };
        let is_kept = it.now.is_kept_since(born);
        it.put(number, epoch, None);
        let place = Place { on: MediumId::Data, extent: Extent::new(slot * BLOCK_BYTES, BLOCK_BYTES) };
        if is_kept { Vec::new() } else { vec![place] }
    }

    fn owed_durably(&mut self, _: &[Extent<Pos>]) {}

    fn reclaim(&mut self, places: &[Extent<Pos>]) {
        let slots = places.iter().flat_map(|it| it.start.0 / BLOCK_BYTES..it.end() / BLOCK_BYTES);
        self.get().free.extend(slots);
    }

    fn reuses(&self) -> Option<u64> {
        self.get().now.reuses
    }

    fn lacks_space(&self, _: Extent<Addr>, _: bool) -> Option<Place> {
        None
    }

    fn reserved(&mut self, _: Place) {}

    fn map_state(&self) -> MapState {
        let it = self.get();
        match (it.wants_index && it.taken.is_none(), it.is_changed || it.taken.is_some()) {
            (true, _) => MapState::Due,
            (false, true) => MapState::Behind,
            (false, false) => MapState::Durable,
        }
    }

    fn is_durable(&self, extent: Extent<Addr>) -> bool {
        let it = self.get();
        let mut blocks = extent.start.0 / BLOCK_BYTES..extent.end().div_ceil(BLOCK_BYTES);
        blocks.all(|block| it.now.versions.get(&block) == it.durable.versions.get(&block))
    }

    fn can_leave(&self, _: Extent<Addr>) -> bool {
        true
    }

    fn residue(&self, place: Place) -> Vec<Residue> {
        vec![Residue { part: place, at: vec![place], is_kept: false }]
    }

    fn begin_checkpoint(&mut self, short: bool) -> bool {
        let mut it = self.get();
        it.taken = Some(it.now.clone());
        it.is_changed = false;
        let writes_index = it.wants_index && !short;
        let index = Place { on: MediumId::Data, extent: Extent::new(it.next_slot * BLOCK_BYTES, 1) };
        let phases = [Inner::page(0), index].map(|place| Batch::phase(vec![(place.into(), vec![0])]));
        it.writes = (writes_index, phases.into_iter().take(1 + usize::from(writes_index)).collect());
        true
    }

    fn next_batch(&mut self) -> Option<Batch> {
        self.get().writes.1.pop_front()
    }

    fn end_checkpoint(&mut self) {
        let mut it = self.get();
        it.durable = it.taken.take().expect("a checkpoint is under way");
        it.wants_index &= !it.writes.0;
    }

    fn abort_checkpoint(&mut self) -> bool {
        let mut it = self.get();
        (it.taken, it.is_changed) = (None, true);
        it.writes.1.clear();
        it.writes.0
    }

    fn backlog(&self, _: bool) -> Backlog {
        Backlog::Nothing
    }

    fn has_residue(&self) -> bool {
        false
    }

    fn background(&mut self, _: bool) -> Option<Job> {
        None
    }

    fn rebind(&mut self, _: Extent<Addr>, _: Extent<Pos>) {}

    fn background_done(&mut self, _: JobEnd<'_>) {}

    fn unallocated(&self) -> Option<BlockSet<Pos>> {
        None
    }
}

impl Epochs for Book {
    fn open(&self) -> Epoch {
        self.get().now.open()
    }

    fn has_changed(&self) -> bool {
        self.get().now.open().0 > 1
    }

    fn can_close(&self) -> bool {
        true
    }

    fn close(&mut self, when: u64) {
        let mut it = self.get();
        let open = it.now.open();
        assert!(it.writing.values().all(|(epoch, _)| *epoch > open), "{:?} has not ended", it.writing);
        it.now.closed.push(when);
        it.is_changed = true;
    }

    fn compare(
        &self,
        extent: Extent<Addr>,
        states: [AsOf; 2],
        looks_max: usize,
    ) -> Result<(BlockSet, u64), Incomparable> {
        let it = self.get();
        let by = |state| match state {
            AsOf::Beginning => Epoch(0),
            AsOf::End(epoch) => epoch,
            AsOf::Now => it.now.open(),
        };
        for state in states {
            if let AsOf::End(epoch) = state
                && !it.now.is_kept(epoch)
            {
                return Err(Incomparable::NotKept(epoch));
            }
        }
        let (mut differing, mut end) = (BlockSet::default(), extent.start.0);
        for block in blocks(extent).take(looks_max) {
            if it.absent.contains(&block) {
                break;
            }
            let [one, other] = states.map(|state| it.now.shown(block, by(state)));
            if one != other {
                differing.insert(Extent::new(block * BLOCK_BYTES, BLOCK_BYTES));
            }
            end = extent.end().min((block + 1) * BLOCK_BYTES);
        }
        if end > extent.start.0 {
            return Ok((differing, end));
        }
        Err(Incomparable::Missing(Inner::page(extent.start.0 / BLOCK_BYTES)))
    }

    fn note_death(&mut self, extent: Extent<Addr>, epoch: Epoch) {
        self.get().deaths.push((extent, epoch));
    }

    fn answer(&self, _: &Question) -> Result<Reply, Place> {
        unreachable!("no test asks the dullest store about epochs or stubs")
    }

    fn forget(&mut self, forget: Forget) {
        self.get().now.forgets.0.push_back(forget);
    }

    fn forget_step(&mut self) -> ForgetStep {
        let (queue, ends) = &mut self.get().now.forgets;
        if !*ends {
            return ForgetStep::Waits;
        }
        queue.pop_front().map_or(ForgetStep::Idle, |it| ForgetStep::Done(it.scope(), it.parts().len() as u64))
    }

    fn missing(&self, extent: Extent<Addr>, _: Epoch) -> Option<Place> {
        Mapped::missing(self, extent)
    }

    fn locate(&self, extent: Extent<Addr>, epoch: Epoch) -> Result<Places, Gone> {
        let it = self.get();
        let is_kept = it.now.is_kept(epoch);
        is_kept.then(|| it.places(extent, |block| it.now.shown(block, epoch))).ok_or(Gone::Epoch)
    }

    fn find_shared(&self, extent: Extent<Addr>, scope: Scope, _: usize) -> Result<Shared, Place> {
        let it = self.get();
        let mut shared = it.now.shared.range(blocks(extent)).filter(|(_, by)| !scope.epochs().contains(**by));
        let first = shared.next().map(|(block, by)| (Extent::new(block * BLOCK_BYTES, BLOCK_BYTES), *by));
        Ok(first.map_or(Shared::Nowhere, |(block, by)| Shared::By(by, block)))
    }
}
